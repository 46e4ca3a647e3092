import assert from "node:assert/strict";
import { test } from "node:test";
import { entryText } from "../support/pi.ts";
import { until } from "../support/process.ts";
import { worldMissing } from "../support/world.ts";
import { agents, connects, mustAgents, openPi, placedFiles, quitClean, reportsOf, spawnArgs, stage, waitReport } from "./driver.ts";

const skip = worldMissing() ?? false;

test("machine B has Pi and Herdr and an empty home: spawn works, a second spawn uploads nothing", { skip }, async (t) => {
    const world = await stage(t);
    const pi = await openPi(world);
    assert.deepEqual([...placedFiles(world.b).keys()], []);

    const first = await mustAgents(pi, spawnArgs("SAY one", world.id("b")));
    await waitReport(world, pi, "said one");
    const placed = placedFiles(world.b);
    assert.equal([...placed.keys()].filter((f) => f.startsWith("bin/helper-")).length, 1);
    assert.equal([...placed.keys()].filter((f) => f.startsWith("ext/pi-ext-")).length, 1);
    assert.equal(connects(world).length, 1, connects(world).join("\n"));

    const second = await mustAgents(pi, spawnArgs("SAY two", world.id("b"), { label: "second worker" }));
    await waitReport(world, pi, "said two");
    assert.deepEqual(placedFiles(world.b), placed);
    assert.equal(connects(world).length, 1, "one connection per machine");
    assert.notEqual(first["target"], second["target"]);

    /* The connection that comes later uploads nothing either. */
    await quitClean(world, pi);
    const again = await openPi(world, { args: ["--continue"] });
    await mustAgents(again, spawnArgs("SAY three", world.id("b"), { label: "third worker" }));
    await waitReport(world, again, "said three");
    assert.deepEqual(placedFiles(world.b), placed);
    assert.equal(connects(world).length, 2);
    for (const word of ["one", "two", "three"]) assert.equal(reportsOf(again, `said ${word}`).length, 1, word);
    assert.deepEqual(world.model.unmatched, []);
    await quitClean(world, again);
});

test("list, send and read reach the worker on the other machine", { skip }, async (t) => {
    const world = await stage(t);
    const pi = await openPi(world);
    const machine = world.id("b");
    const { target } = await mustAgents(pi, spawnArgs("SAY one", machine));
    await waitReport(world, pi, "said one");
    assert.equal(typeof target, "string");

    const list = await agents(pi, { action: "list" });
    assert.ok(list.text.includes(String(target)) && list.text.includes(machine), list.text);

    await mustAgents(pi, { action: "send", target, machine, message: "SAY later" });
    const answered = async (): Promise<boolean> => (await agents(pi, { action: "read", target, machine })).text.includes("said later");
    await until(answered, { what: "the reply to the sent message", deadlineMs: 60_000, everyMs: 500, dump: () => world.dump() });
    assert.equal(reportsOf(pi, "said later").length, 0, "send waits for nothing and reports nothing");
    await quitClean(world, pi);
});

test("a blocking spawn returns the reply, and reports it nowhere else", { skip }, async (t) => {
    const world = await stage(t);
    const pi = await openPi(world);
    const result = await mustAgents(pi, spawnArgs("SAY inline", world.id("b"), { blocking: true }));
    assert.match(JSON.stringify(result), /said inline/);
    assert.equal(reportsOf(pi, "said inline").length, 0);
    await quitClean(world, pi);
});

test("a worker on the own machine needs no ssh", { skip }, async (t) => {
    const world = await stage(t, { remotes: [] });
    const pi = await openPi(world);
    await mustAgents(pi, spawnArgs("SAY here"));
    const report = await waitReport(world, pi, "said here");
    assert.match(entryText(report), /said here/);
    assert.deepEqual(connects(world), []);
    await quitClean(world, pi);
});
