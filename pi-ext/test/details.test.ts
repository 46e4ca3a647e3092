/** The small parts: call forms, attribution, safe text, descriptors, digests, names. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, symlinkSync, utimesSync, writeFileSync, chmodSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { removeRoot, repoRoot, tmpRoot } from "../../tests/support/process.ts";
import { agentsTool, normaliseCall } from "../src/agents-tool.ts";
import {
  FRESH_MS,
  descriptorPath,
  hostId,
  keepDescriptor,
  ownDirectory,
  processStart,
  readDescriptor,
  removeDescriptor,
  sweep,
  writeDescriptor,
  type Descriptor,
} from "../src/descriptor.ts";
import { ShepherdrError, cutUtf8 } from "../src/errors.ts";
import { canonicalJson, deliveryDigest } from "../src/inbox.ts";
import { PACKAGE_NAME, VERSION, agentDir } from "../src/names.ts";
import { oneLine, plainText } from "../src/plain-text.ts";
import { hasStore, startedAsWorker } from "../src/runtime.ts";
import { messageContent, senderElement } from "../src/sender.ts";

const root = tmpRoot("details");
after(() => removeRoot(root));

describe("call forms", () => {
  const invalid = (error: unknown): boolean => error instanceof ShepherdrError && error.code === "invalid_call";

  it("takes objects, help and JSON objects in a string", () => {
    assert.deepEqual(normaliseCall(undefined), {});
    assert.deepEqual(normaliseCall({}), {});
    assert.deepEqual(normaliseCall(" help "), { action: "help" });
    assert.deepEqual(normaliseCall('{"action":"list"}'), { action: "list" });
    assert.deepEqual(normaliseCall({ action: "nonsense", x: 1 }), { action: "nonsense", x: 1 });
  });

  it("refuses the rest", () => {
    for (const form of ["", "  ", "list", "[]", "null", "7", '"help"', [], null, 7, true]) assert.throws(() => normaliseCall(form), invalid, String(form));
  });

  it("has a small schema and the seed's label", () => {
    const tool = agentsTool({ call: () => Promise.reject(new Error("unused")) });
    assert.equal(tool.name, "agents");
    assert.equal(tool.label, "Shepherdr");
    assert.equal(tool.executionMode, "sequential");
    // Four characters a token is the usual estimate; the schema may take 350 tokens with its description.
    assert.ok(JSON.stringify({ name: tool.name, description: tool.description, parameters: tool.parameters }).length < 350 * 4);
    assert.throws(() => tool.prepareArguments?.(null), /^Error: invalid_call/u);
  });
});

describe("attribution", () => {
  it("is one line, escaped, with the known attributes in order", () => {
    const sender = { workspace: "w", host: "h\n\u001b[31m", pane: "p", extra: "x", name: '"<&>\'', tab: 7, session: "" };
    assert.equal(senderElement("message", sender), '<herdr_sender kind="message" host="h&#10;\ufffd[31m" pane="p" workspace="w" name="&quot;&lt;&amp;&gt;&apos;" />');
    assert.ok(senderElement("task", { host: "x".repeat(100_000) }).length < 1000);
  });

  it("leaves a message's text as it is and gives a task its guidance", () => {
    assert.equal(messageContent("message", {}, "line 1\nline 2"), '<herdr_sender kind="message" />\nline 1\nline 2');
    const lines = messageContent("task", {}, "do it").split("\n");
    assert.equal(lines.at(-1), "do it");
    assert.equal(lines.length, 4);
  });
});

describe("text of others", () => {
  it("reaches the terminal without control sequences", () => {
    const hostile = "a\u001b[2Jb\u001b]0;title\u0007c\u001bPq#0\u001b\\d\u009b31me\rf\tg\u202eh\u0000i\u001b]52;c;AAAA";
    const safe = plainText(hostile);
    assert.doesNotMatch(safe, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/u);
    assert.equal(safe, "abcd31me\nf    ghi");
    assert.equal(oneLine(" a\n b\u001b[1m c ", 80), "a b c");
    assert.equal(oneLine("x".repeat(50), 10), `${"x".repeat(9)}…`);
  });

  it("is cut at a character", () => {
    assert.equal(cutUtf8("aä€", 2), "a");
    assert.equal(cutUtf8("aä€", 3), "aä");
    assert.equal(cutUtf8("aä€", 6), "aä€");
  });
});

describe("digest of a delivery", () => {
  it("does not depend on the order of fields, and on everything else", () => {
    const a = deliveryDigest({ kind: "task", sender: { host: "h", pane: "p" }, text: "x" });
    assert.equal(deliveryDigest({ kind: "task", sender: { pane: "p", host: "h" }, text: "x" }), a);
    assert.notEqual(deliveryDigest({ kind: "message", sender: { host: "h", pane: "p" }, text: "x" }), a);
    assert.notEqual(deliveryDigest({ kind: "task", sender: { host: "h", pane: "q" }, text: "x" }), a);
    assert.notEqual(deliveryDigest({ kind: "task", sender: { host: "h", pane: "p" }, text: "y" }), a);
    assert.equal(canonicalJson({ b: [1, { d: null, c: "x" }], a: true }), '{"a":true,"b":[1,{"c":"x","d":null}]}');
  });
});

describe("descriptors", () => {
  const descriptor = (change: Partial<Descriptor> = {}): Descriptor => {
    const start = processStart(process.pid);
    return {
      version: 1,
      socket: join(root, "x.sock"),
      host: hostId(),
      agent_dir: "/a",
      pi_session_id: "s",
      session_file: "/s.jsonl",
      pid: process.pid,
      ...(start === undefined ? {} : { start }),
      token: "t1",
      protocol: [1, 1],
      ...change,
    };
  };
  /** A pid that has ended. */
  const DEAD = 2 ** 22 + 1;
  const old = (path: string): void => {
    const time = new Date(Date.now() - 2 * FRESH_MS);
    utimesSync(path, time, time);
  };

  it("are written whole, and kept by their owner only", () => {
    const dir = join(root, "d1");
    ownDirectory(dir);
    const path = descriptorPath(dir, "s");
    assert.equal(keepDescriptor(path, descriptor()), true);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    old(path);
    assert.equal(keepDescriptor(path, descriptor()), true);
    assert.ok(Date.now() - statSync(path).mtimeMs < FRESH_MS);
    assert.equal(keepDescriptor(path, descriptor({ terminal_id: "t" })), true);
    assert.equal(readDescriptor(path)?.terminal_id, "t");
    removeDescriptor(path, "other");
    assert.ok(existsSync(path));
    removeDescriptor(path, "t1");
    assert.deepEqual(readdirSync(dir), []);
  });

  it("of another live process on the same session are left alone, of a dead one replaced", () => {
    const dir = join(root, "d2");
    ownDirectory(dir);
    const path = descriptorPath(dir, "s");
    const parentStart = processStart(process.ppid);
    writeDescriptor(path, descriptor({ token: "theirs", pid: process.ppid, ...(parentStart === undefined ? {} : { start: parentStart }) }));
    assert.equal(keepDescriptor(path, descriptor()), false);
    assert.equal(readDescriptor(path)?.token, "theirs");
    writeDescriptor(path, descriptor({ token: "theirs", pid: DEAD }));
    assert.equal(keepDescriptor(path, descriptor()), true);
    writeDescriptor(path, descriptor({ token: "theirs", pid: process.ppid, start: 1 }));
    assert.equal(keepDescriptor(path, descriptor()), true);
    writeFileSync(path, "{torn");
    assert.equal(keepDescriptor(path, descriptor()), true);
  });

  it("and sockets of the dead are swept; the living, the fresh and the foreign stay", () => {
    const dir = join(root, "d3");
    ownDirectory(dir);
    const put = (id: string, change: Partial<Descriptor>): string => {
      const path = descriptorPath(dir, id);
      writeDescriptor(path, descriptor({ pi_session_id: id, ...change }));
      return path;
    };
    const deadSocket = join(dir, `00000000-${DEAD}-0000.sock`);
    const outside = join(root, "precious.txt");
    const orphan = join(dir, `11111111-${DEAD}-1111.sock`);
    const stray = join(dir, "notes.txt");
    for (const path of [deadSocket, outside, orphan, stray]) writeFileSync(path, "");
    const live = put("live", {});
    const dead = put("dead", { pid: DEAD, socket: deadSocket });
    const liar = put("liar", { pid: DEAD, socket: outside });
    const elsewhere = put("elsewhere", { host: "another-boot", pid: DEAD });
    const gone = put("gone", { host: "another-boot", pid: process.pid });
    for (const path of [gone, orphan]) old(path);
    sweep(dir, hostId());
    assert.deepEqual([live, dead, liar, elsewhere, gone, deadSocket, outside, orphan, stray].map(existsSync), [true, false, false, true, false, false, true, false, true]);
  });

  it("need a directory of ours", () => {
    const dir = join(root, "d4");
    mkdirSync(dir, { mode: 0o755 });
    chmodSync(dir, 0o755);
    ownDirectory(dir);
    assert.equal(statSync(dir).mode & 0o777, 0o700);
    symlinkSync(dir, join(root, "link"));
    assert.throws(() => ownDirectory(join(root, "link")), /not a directory/u);
  });
});

describe("names", () => {
  it("agree with the package", () => {
    const manifest = JSON.parse(readFileSync(join(repoRoot, "pi-ext/package.json"), "utf8")) as { name: string; version: string };
    assert.equal(manifest.name, PACKAGE_NAME);
    assert.equal(manifest.version, VERSION);
    assert.match(readFileSync(join(repoRoot, "CMakeLists.txt"), "utf8"), new RegExp(`project\\(shepherdr VERSION ${VERSION.replaceAll(".", "\\.")} `, "u"));
  });

  it("find Pi's agent directory as Pi does", () => {
    assert.equal(agentDir({}), join(homedir(), ".pi/agent"));
    assert.equal(agentDir({ PI_CODING_AGENT_DIR: "~/x" }), join(homedir(), "x"));
    assert.equal(agentDir({ PI_CODING_AGENT_DIR: "/x" }), "/x");
  });

  it("tell workers and stores apart", () => {
    assert.equal(startedAsWorker(["node", "pi", "-e", "/home/u/.pi/agent/shepherdr/ext/pi-ext-0123abcd.mjs"]), true);
    assert.equal(startedAsWorker(["node", "pi", "-e", "/repo/pi-ext/src/index.ts"]), false);
    const state = join(root, "agent/shepherdr/state");
    mkdirSync(state, { recursive: true });
    writeFileSync(join(state, "s1-0123abcd.db"), "");
    assert.equal(hasStore(join(root, "agent"), "s1"), true);
    assert.equal(hasStore(join(root, "agent"), "s"), false);
    assert.equal(hasStore(join(root, "none"), "s1"), false);
  });
});
