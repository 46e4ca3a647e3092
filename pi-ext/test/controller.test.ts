/** The controller child: found, started, repeated after a crash, given up, ended. A small stand-in program plays it. */
import assert from "node:assert/strict";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { after, afterEach, describe, it } from "node:test";
import { alive, removeRoot, tmpRoot, until } from "../../tests/support/process.ts";
import { executeAgents } from "../src/agents-tool.ts";
import { statusText } from "../src/command.ts";
import { Controller, childEnv, findBinary, newId, type ControllerOptions } from "../src/controller.ts";
import { ShepherdrError } from "../src/errors.ts";
import type { SessionOpenParams } from "../src/generated/messages.ts";
import { fakeProgram } from "./support/fake-program.ts";

const root = tmpRoot("ctrl");
after(() => removeRoot(root));
let serial = 0;
const running: Controller[] = [];
afterEach(async () => {
  for (const controller of running.splice(0)) await controller.stop();
});

const CONTEXT: SessionOpenParams = { pi_session_id: "s1", agent_dir: "/a", home: "/h", cwd: "/c", mode: "tui", eager: true };

type Setup = { controller: Controller; log: () => string[]; notices: string[]; dir: string; reports: unknown[] };

function setup(env: NodeJS.ProcessEnv = {}, options: Partial<ControllerOptions> = {}): Setup {
  const dir = join(root, String(serial++));
  mkdirSync(dir);
  const file = join(dir, "log");
  const notices: string[] = [];
  const reports: unknown[] = [];
  const path = fakeProgram(dir);
  const controller = new Controller({
    find: () => ({ path, looked: [] }),
    env: { SHP_FAKE_LOG: file, PI_CODING_AGENT: "true", HERDR_ENV: "1", HERDR_PANE_ID: "p1", ...env },
    context: () => CONTEXT,
    onReport: (report) => {
      reports.push(report);
      return true;
    },
    onNotice: (text) => notices.push(text),
    backoffMs: { first: 5, max: 20 },
    ...options,
  });
  running.push(controller);
  return { controller, log: () => (existsSync(file) ? readFileSync(file, "utf8").trimEnd().split("\n") : []), notices, dir, reports };
}

const call = (c: Controller, args: Record<string, unknown>, message?: string, signal?: AbortSignal, operation = newId()) =>
  c.call(operation, args, message, signal, undefined);

const failure = async (work: Promise<unknown>): Promise<ShepherdrError> => {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof ShepherdrError, String(error));
    return error;
  }
  throw new Error("no error");
};

describe("controller", () => {
  it("starts once, opens the session, and gives the child nothing of Herdr's and Pi's variables", async () => {
    const { controller, log } = setup();
    const [first, second] = await Promise.all([call(controller, { action: "list" }), call(controller, { action: "help" })]);
    assert.deepEqual(first.value["echo"], { action: "list" });
    assert.deepEqual(second.value["echo"], { action: "help" });
    const lines = log();
    assert.equal(lines.filter((line) => line.startsWith("start ")).length, 1);
    assert.equal(lines[0], "start controller --stdio");
    assert.equal(lines[1], "foreign ");
    assert.deepEqual(JSON.parse(lines[2]!.slice(5)), CONTEXT);
  });

  it("carries the message and a long field as bulk", async () => {
    const { controller } = setup();
    const sent = await call(controller, { action: "send", target: "w1" }, "häh? ".repeat(9000));
    assert.equal(sent.value["message"], "häh? ".repeat(9000));
    assert.equal(sent.value["has_message"], true);
    const read = await call(controller, { action: "read", target: "w1" });
    assert.equal((read.value["reply"] as string).length, 600_000);
    assert.equal(read.warning, "old screen");
  });

  it("takes a value that came as bulk, and refuses bulk that is none", async () => {
    const { controller } = setup();
    const big = { agents: Array.from({ length: 2000 }, (_, i) => ({ target: `p${i}`, cwd: `/${"x".repeat(100)}` })) };
    assert.deepEqual((await call(controller, { action: "watch" }, JSON.stringify(big))).value, big);
    for (const odd of ["{torn", "[]", "null"]) assert.equal((await failure(call(controller, { action: "watch" }, odd))).code, "protocol_error");
  });

  it("asks a running controller for its machines, and starts none for that", async () => {
    const { controller } = setup();
    assert.equal(await controller.machines({}, 5000), undefined);
    assert.equal(controller.running, false);
    await call(controller, { action: "list" });
    const rows = await controller.machines({ refresh: true }, 5000);
    assert.deepEqual(JSON.parse(rows ?? ""), [{ id: "local", asked: { refresh: true } }]);
    assert.equal((await failure(controller.machines({ reconnect: "nobody" }, 5000))).code, "machine_unknown");
  });

  it("passes on the controller's errors with all their parts", async () => {
    const { controller } = setup();
    const error = await failure(call(controller, { action: "find" }));
    assert.equal(error.describe(), "agent_not_found: No agent has this target (box, route): no pane p9. Next: Use the exact target that list or spawn returned.");
  });

  it("does not take a machine's broken link for its own", async () => {
    const { controller, log } = setup();
    const error = await failure(call(controller, { action: "send", target: "cut" }, "hi"));
    assert.equal(error.code, "link_lost");
    assert.equal(error.machine, "box");
    assert.equal(error.outcome, "unknown");
    assert.equal(log().filter((line) => line.startsWith("call ")).length, 1);
  });

  it("repeats a held call with the same operation after a crash", async () => {
    const { controller, log, dir } = setup({ SHP_FAKE_CRASH: join(root, "crash-once") });
    writeFileSync(join(root, "crash-once"), "");
    const operation = newId();
    const result = await call(controller, { action: "spawn", label: "x" }, "do it", undefined, operation);
    assert.equal(result.value["message"], "do it");
    const calls = log().filter((line) => line.startsWith("call "));
    assert.equal(calls.length, 2);
    assert.ok(calls.every((line) => line.startsWith(`call ${operation} `)));
    assert.ok(dir.length > 0);
  });

  it("gives up on a program that always fails, names its words, and tries again at the next call", async () => {
    const { controller, log, notices } = setup({ SHP_FAKE_BROKEN: "libfoo.so: not found" });
    const error = await failure(call(controller, { action: "list" }));
    assert.equal(error.code, "controller_missing");
    assert.match(error.reason ?? "", /exit code 3: libfoo\.so: not found/u);
    assert.equal(log().length, 5);
    assert.equal(notices.length, 1);
    await failure(call(controller, { action: "list" }));
    assert.equal(log().length, 10);
    assert.equal(notices.length, 1);
  });

  it("gives up on a call that kills the controller each time", async () => {
    const { controller, log } = setup();
    await failure(call(controller, { action: "crash" }));
    assert.equal(log().filter((line) => line.startsWith("call ")).length, 5);
    assert.deepEqual((await call(controller, { action: "list" })).value["echo"], { action: "list" });
  });

  it("starts again by itself when the session wants it", async () => {
    const { controller, log } = setup();
    controller.wake();
    await until(() => controller.running, { what: "the controller" });
    process.kill(controller.pid!, "SIGKILL");
    await until(() => log().filter((line) => line.startsWith("open ")).length === 2, { what: "the second start" });
  });

  it("does not insist when the session is in use elsewhere", async () => {
    const { controller, log } = setup({ SHP_FAKE_REFUSE: "session_in_use" });
    const error = await failure(call(controller, { action: "list" }));
    assert.equal(error.code, "session_in_use");
    assert.equal(log().filter((line) => line.startsWith("open ")).length, 1);
    assert.equal(controller.running, false);
  });

  it("says where it looked when there is no program", async () => {
    const { controller, notices } = setup({}, { find: () => ({ path: undefined, looked: ["/x/shepherdr", "PATH"] }) });
    const error = await failure(call(controller, { action: "list" }));
    assert.equal(error.code, "controller_missing");
    assert.match(error.describe(), /looked at \/x\/shepherdr, PATH\. Next: Install shepherdr/u);
    assert.equal(notices.length, 1);
    const text = await statusText({ controller, receiver: "0 connections", outstanding: 0 });
    assert.match(text, /not found[^]*\/x\/shepherdr/u);
  });

  it("detaches at once on abort, and the controller learns of it", async () => {
    const { controller, log } = setup({ SHP_FAKE_DELAY_MS: "300" });
    await call(controller, { action: "list" });
    const abort = new AbortController();
    const operation = newId();
    const held = failure(call(controller, { action: "spawn" }, "x", abort.signal, operation));
    await until(() => log().some((line) => line.startsWith(`call ${operation}`)), { what: "the call" });
    abort.abort();
    assert.equal((await held).code, "canceled");
    await until(() => log().includes(`canceled ${operation}`), { what: "the cancellation" });
  });

  it("resolves at once on abort while the program does not come up", async () => {
    const { controller } = setup({ SHP_FAKE_BROKEN: "no" }, { backoffMs: { first: 60_000, max: 60_000 } });
    const abort = new AbortController();
    const held = failure(call(controller, { action: "list" }, undefined, abort.signal));
    setTimeout(() => abort.abort(), 20);
    assert.equal((await held).code, "canceled");
  });

  it("tells progress to the call that it belongs to", async () => {
    const { controller } = setup();
    const seen: unknown[] = [];
    await controller.call(newId(), { action: "assign" }, "x", undefined, (value) => seen.push(value));
    assert.deepEqual(seen, [{ machine: "local", status: "working" }]);
  });

  it("hands over reports", async () => {
    const { controller, reports, log } = setup({ SHP_FAKE_REPORT: "w1 is done" });
    controller.wake();
    await until(() => log().some((line) => line.startsWith("again ")), { what: "the report" });
    assert.deepEqual(reports, [{ id: "report-1", details: { machine: "local", name: "w1", state: "finished" }, text: "w1 is done" }]);
    await controller.mark({ reports: ["report-1"], state: "confirmed" });
    await until(() => log().includes("mark confirmed report-1"), { what: "the mark" });
  });

  it("ends with the session and leaves no process", async () => {
    const { controller, log } = setup();
    await call(controller, { action: "list" });
    const pid = controller.pid!;
    await controller.stop();
    await until(() => !alive(pid), { what: "the end of the process" });
    assert.equal(log().at(-1), "closed shutting_down");
    assert.equal((await failure(call(controller, { action: "list" }))).code, "shutting_down");
  });
});

describe("finding the program", () => {
  const executable = (path: string): string => {
    mkdirSync(join(path, ".."), { recursive: true });
    writeFileSync(path, "#!/bin/sh\n");
    chmodSync(path, 0o755);
    return path;
  };
  const url = (path: string): string => pathToFileURL(path).href;

  it("prefers SHEPHERDR_BIN and does not pass over a wrong one", () => {
    const base = join(root, "find1");
    const bin = executable(join(base, "other/shepherdr"));
    const module = url(join(base, "repo/pi-ext/src/controller.ts"));
    executable(join(base, "repo/build/bin/shepherdr"));
    assert.equal(findBinary({ SHEPHERDR_BIN: bin }, module).path, bin);
    assert.equal(findBinary({ SHEPHERDR_BIN: join(base, "missing") }, module).path, undefined);
    assert.equal(findBinary({ SHEPHERDR_BIN: "shepherdr", PATH: join(base, "other") }, module).path, undefined);
  });

  it("finds the platform package, the repository's build from source and bundle, then PATH", () => {
    const base = join(root, "find2");
    const source = url(join(base, "repo/pi-ext/src/controller.ts"));
    const bundle = url(join(base, "repo/build/pi-ext/pi-ext.mjs"));
    const onPath = executable(join(base, "bin/shepherdr"));
    const env = { PATH: `relative:${join(base, "bin")}` };
    assert.equal(findBinary(env, source).path, onPath);
    const built = executable(join(base, "repo/build/bin/shepherdr"));
    assert.equal(findBinary(env, source).path, built);
    assert.equal(findBinary(env, bundle).path, built);
    const name = `pi-shepherdr-${process.platform}-${process.arch}`;
    const packaged = executable(join(base, "repo/node_modules", name, "bin/shepherdr"));
    writeFileSync(join(base, "repo/node_modules", name, "package.json"), JSON.stringify({ name, version: "0.1.0" }));
    assert.equal(findBinary(env, source).path, packaged);
    assert.equal(findBinary({ PATH: "" }, url(join(base, "empty/a/b.ts"))).path, undefined);
  });

  it("passes the environment on without ours", () => {
    assert.deepEqual(childEnv({ PATH: "/bin", HERDR_ENV: "1", PI_SESSION_ID: "x", SSH_AUTH_SOCK: "/s" }), { PATH: "/bin", SSH_AUTH_SOCK: "/s" });
  });
});

describe("the tool on a controller", () => {
  it("gives compact JSON, the same object as details, and warnings beside it", async () => {
    const { controller } = setup();
    const result = await executeAgents(controller, { action: "read", target: "w1" }, undefined, undefined);
    assert.equal(result.content.length, 2);
    const [text, warning] = result.content;
    assert.equal(text?.type === "text" ? text.text : "", JSON.stringify(result.details));
    assert.deepEqual(warning, { type: "text", text: "old screen" });
  });

  it("moves only a text message, and leaves everything else to the controller", async () => {
    const { controller, log } = setup();
    await executeAgents(controller, { action: "send", target: "w", message: "hi", odd: [1] }, undefined, undefined);
    await executeAgents(controller, { action: "send", message: 7 }, undefined, undefined);
    const calls = log().filter((line) => line.startsWith("call ")).map((line) => line.slice(38));
    assert.deepEqual(calls, ['{"action":"send","target":"w","odd":[1]} hi', '{"action":"send","message":7} ']);
  });

  it("throws one readable line", async () => {
    const { controller } = setup();
    await assert.rejects(executeAgents(controller, { action: "find" }, undefined, undefined), /^Error: agent_not_found: .*\(box, route\): no pane p9\. Next: /u);
    await assert.rejects(executeAgents(controller, [], undefined, undefined), /^Error: invalid_call: .*an array\. Next: /u);
  });

  it("refuses fields that fit no frame, and says which side is at fault", async () => {
    const { controller } = setup();
    await assert.rejects(executeAgents(controller, { action: "find", query: "x".repeat(70_000) }, undefined, undefined), /^Error: message_too_large/u);
    await assert.rejects(executeAgents(controller, { action: "send", message: "x".repeat(9 << 20) }, undefined, undefined), /^Error: message_too_large/u);
  });

  it("returns at once and quietly when the person stops it", async () => {
    const { controller, log } = setup({ SHP_FAKE_DELAY_MS: "60000" });
    const abort = new AbortController();
    const held = executeAgents(controller, { action: "spawn", message: "x" }, abort.signal, undefined);
    await until(() => log().some((line) => line.startsWith("call ")), { what: "the call" });
    abort.abort();
    assert.equal((await held).details["detached"], true);
  });

  it("explains a missing program in help only", async () => {
    const { controller } = setup({}, { find: () => ({ path: undefined, looked: ["PATH"] }) });
    for (const form of [{}, "help", undefined, '{"action":"help"}']) {
      const { details } = await executeAgents(controller, form, undefined, undefined);
      assert.equal((details["unavailable"] as Record<string, unknown>)["code"], "controller_missing");
    }
    await assert.rejects(executeAgents(controller, { action: "help", commands: true }, undefined, undefined), /^Error: controller_missing/u);
  });
});
