/** Copies of the extension elect one of them; the handshake is frozen. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { compareVersions, elect, register } from "../src/election.ts";

const KEY = Symbol.for("shepherdr/1");

describe("election", () => {
  it("starts the newest copy only, whoever sees session_start first", async () => {
    const started: string[] = [];
    for (const version of ["0.9.0", "0.10.0", "0.2.11"]) register(version, () => void started.push(version));
    await elect({}, {});
    await elect({}, {});
    await elect({}, {});
    assert.deepEqual(started, ["0.10.0"]);
  });

  it("takes the one pushed last among equals, and elects anew for each session", async () => {
    const started: string[] = [];
    for (const round of ["first", "second"]) {
      register("1.0.0", () => void started.push(`${round} a`));
      register("1.0.0", () => void started.push(`${round} b`));
      await elect({}, {});
    }
    assert.deepEqual(started, ["first b", "second b"]);
  });

  it("passes over a copy that is stale, and says so when nobody can start", async () => {
    const started: unknown[] = [];
    register("1.0.0", (event, ctx) => void started.push([event, ctx]));
    register("2.0.0", () => {
      throw new Error("stale");
    });
    assert.equal(await elect("e", "c"), undefined);
    assert.deepEqual(started, [["e", "c"]]);
    register("2.0.0", () => Promise.reject(new Error("broken")));
    assert.match(String(await elect("e", "c")), /broken/u);
  });

  it("speaks the frozen form with copies of other versions", async () => {
    const array = (globalThis as unknown as Record<symbol, { version: string; start: (e: unknown, c: unknown) => void }[]>)[KEY]!;
    assert.ok(Array.isArray(array));
    const started: string[] = [];
    array.push({ version: "99.0.0", start: () => void started.push("foreign") });
    register("1.0.0", () => void started.push("ours"));
    assert.deepEqual(Object.keys(array[1]!).sort(), ["start", "version"]);
    await elect({}, {});
    assert.deepEqual(started, ["foreign"]);
    assert.equal(array.length, 0);
  });

  it("compares by number", () => {
    assert.ok(compareVersions("0.10.0", "0.9.9") > 0);
    assert.ok(compareVersions("1.0.0", "1.0.0") === 0);
    assert.ok(compareVersions("1.0", "1.0.1") < 0);
  });
});
