/**
 * The extension in a real Pi, from the sources and as the bundle, with a scripted local model.
 * Skipped with a printed reason when Pi is not installed in .deps.
 */
import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { ModelServer } from "../../tests/support/model-server.ts";
import { LONG_MS, removeRoot, repoRoot, run, start, tmpRoot, until, type Child } from "../../tests/support/process.ts";
import type { Descriptor } from "../src/descriptor.ts";
import { fakeProgram } from "./support/fake-program.ts";
import { HelperClient, newId } from "./support/helper-client.ts";
import { PI_CLI, descriptorsOf, missing, prepareMachine, type Machine } from "./support/pi-machine.ts";

const skip = missing();
if (skip !== false) console.log(`pi.test.ts skipped: ${skip}`);

const SOURCE = join(repoRoot, "pi-ext/src/index.ts");

const flags = (extension: string): string[] => [PI_CLI, "-ne", "-nc", "-ns", "-np", "-nbt", "-e", extension];

class Rpc {
  readonly child: Child;
  readonly events: Record<string, unknown>[] = [];
  #buffer = "";

  constructor(m: Machine, extension: string, extra: string[] = [], env: Record<string, string> = {}) {
    this.child = start(process.execPath, [...flags(extension), "--mode", "rpc", ...extra], { env: { ...m.env, ...env }, cwd: m.project });
    this.child.onStdout((chunk) => {
      this.#buffer += chunk.toString("utf8");
      for (let end = this.#buffer.indexOf("\n"); end >= 0; end = this.#buffer.indexOf("\n")) {
        const line = this.#buffer.slice(0, end);
        this.#buffer = this.#buffer.slice(end + 1);
        if (line.trim() !== "") this.events.push(JSON.parse(line) as Record<string, unknown>);
      }
    });
  }

  send(command: Record<string, unknown>): void {
    this.child.write(`${JSON.stringify(command)}\n`);
  }

  count(type: string): number {
    return this.events.filter((event) => event["type"] === type).length;
  }

  dump(): string {
    return `${this.events.map((event) => JSON.stringify(event).slice(0, 300)).join("\n")}\n${this.child.stderr}`;
  }

  async end(): Promise<number | null> {
    this.child.end();
    const { code } = await this.child.exited;
    return code;
  }
}

async function receiverOf(m: Machine, rpc: Rpc): Promise<Descriptor> {
  return until(() => descriptorsOf(m)[0], { what: "a receiver descriptor", deadlineMs: LONG_MS, dump: () => rpc.dump() });
}

describe("pi-ext in a real Pi", { skip }, () => {
  let model: ModelServer;
  let bundle: string;
  const roots: string[] = [];
  const fresh = (): Machine => {
    const m = prepareMachine(model);
    roots.push(m.root);
    return m;
  };

  before(async () => {
    model = await ModelServer.start();
    const root = tmpRoot("bundle");
    roots.push(root);
    bundle = join(root, "pi-ext/pi-ext.mjs");
    const built = await run("/bin/sh", [join(repoRoot, "scripts/build-ext"), root], { env: { PATH: "/usr/bin:/bin" }, cwd: repoRoot });
    assert.equal(built.code, 0, built.stderr);
  });

  after(async () => {
    await model.stop();
    for (const root of roots) removeRoot(root);
  });

  it("a print run ends by itself, and its receiver goes with it", async () => {
    model.add({ when: { last: "say hello" }, answer: { text: "Hello there." } });
    for (const extension of [SOURCE, bundle]) {
      const m = fresh();
      const result = await run(process.execPath, [...flags(extension), "-p", "say hello"], { env: m.env, cwd: m.project });
      assert.equal(result.code, 0, result.stderr);
      assert.match(result.stdout, /Hello there\./u);
      assert.equal(result.timedOut, false);
      assert.deepEqual(readdirSync(m.runDir), []);
    }
  });

  it("help explains a missing program, other actions fail with controller_missing", async () => {
    model.add(
      { when: { last: "call help" }, answer: { calls: [{ name: "agents", arguments: {} }] } },
      { when: { role: "tool", last: "controller_missing" }, answer: { text: "It is missing." } },
      { when: { last: "call list" }, answer: { calls: [{ name: "agents", arguments: { action: "list" } }] } },
    );
    const m = fresh();
    for (const prompt of ["call help", "call list"]) {
      const result = await run(process.execPath, [...flags(SOURCE), "--mode", "json", prompt], {
        env: { ...m.env, SHEPHERDR_BIN: join(m.root, "no-such-program") },
        cwd: m.project,
      });
      assert.equal(result.code, 0, result.stderr);
      const end = result.stdout
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as { type: string; isError?: boolean; toolName?: string })
        .find((event) => event.type === "tool_execution_end");
      assert.equal(end?.toolName, "agents");
      assert.equal(end?.isError, prompt === "call list");
    }
  });

  it("a call is answered by the controller, and pi -p waits for it and no longer", async () => {
    model.add(
      { when: { last: "call echo" }, answer: { calls: [{ name: "agents", arguments: { action: "send", target: "w1", message: "häh?" } }] } },
      { when: { role: "tool", last: "häh?" }, answer: { text: "Echoed." } },
    );
    const m = fresh();
    const result = await run(process.execPath, [...flags(bundle), "-p", "call echo"], {
      env: { ...m.env, SHEPHERDR_BIN: fakeProgram(m.root), SHP_FAKE_DELAY_MS: "1500", HERDR_SECRET: "x" },
      cwd: m.project,
    });
    assert.equal(result.code, 0, `${result.stderr}${model.dump()}`);
    assert.match(result.stdout, /Echoed\./u);
  });

  it("delivers into an idle and a busy session, and answers for their settlement", async () => {
    model.add(
      { when: { last: "first task" }, answer: { text: "First done." } },
      { when: { last: "long prompt" }, answer: { text: "A long answer in several pieces.", holdInside: "busy" } },
      { when: { last: "second message" }, answer: { text: "Second done." } },
    );
    const m = fresh();
    const rpc = new Rpc(m, SOURCE, ["--session-id", "worker-1"]);
    const descriptor = await receiverOf(m, rpc);
    assert.equal(descriptor.pi_session_id, "worker-1");
    assert.equal(descriptor.pid, rpc.child.pid);
    const client = await HelperClient.open(descriptor);

    const first = newId();
    const accepted = await client.deliver(first, "first task", "task");
    assert.deepEqual(accepted.answer, { accepted: true, provisional: true, duplicate: false });
    const settlement = async (id: string): Promise<{ state: string; text: string }> => {
      const { answer, text } = await client.ask("settlement", { input: id });
      return { state: String(answer["state"]), text };
    };
    await until(async () => (await settlement(first)).state === "settled", { what: "the first settlement", deadlineMs: LONG_MS, dump: () => rpc.dump() + model.dump() });
    assert.equal((await settlement(first)).text, "First done.");
    assert.ok(client.events.some((event) => event.event === "settled" && event.inputs?.includes(first)));
    assert.ok(client.events.some((event) => event.event === "delivered" && event.inputs?.includes(first)));
    assert.deepEqual((await client.deliver(first, "first task", "task")).answer, { accepted: true, provisional: false, duplicate: true });

    rpc.send({ type: "prompt", message: "long prompt" });
    await until(() => model.waiting("busy") === 1, { what: "a busy session", deadlineMs: LONG_MS, dump: () => rpc.dump() });
    const second = newId();
    assert.equal((await client.deliver(second, "second message")).answer["provisional"], false);
    assert.equal((await settlement(second)).state, "pending");
    model.release("busy");
    await until(async () => (await settlement(second)).state === "settled", { what: "the second settlement", deadlineMs: LONG_MS, dump: () => rpc.dump() + model.dump() });
    assert.equal((await settlement(second)).text, "Second done.");
    const { answer } = await client.ask("session_state", {});
    assert.equal(answer["idle"], true);

    const transcript = readFileSync(descriptor.session_file, "utf8");
    assert.match(transcript, /herdr_sender kind=\\"task\\" host=\\"laptop\\" pane=\\"p1\\"/u);
    assert.equal(transcript.split('"customType":"herdr-agent-message"').length - 1, 2);
    assert.equal(await rpc.end(), 0);
    await until(() => client.closed, { what: "the end of the connection" });
    assert.ok(client.events.some((event) => event.event === "closing"));
    assert.deepEqual(readdirSync(m.runDir), []);

    const resumed = new Rpc(m, SOURCE, ["--session-id", "worker-1"]);
    const again = await HelperClient.open(await receiverOf(m, resumed));
    const { answer: kept, text } = await again.ask("settlement", { input: first });
    assert.equal(kept["state"], "settled");
    assert.equal(kept["stop_reason"], "stop");
    assert.equal(text.length > 0, true);
    assert.equal((await again.deliver(second, "second message")).answer["duplicate"], true);
    assert.equal(await resumed.end(), 0);
  });

  it("survives /reload-like replacement: a new session has its own receiver, the old one is gone", async () => {
    const m = fresh();
    const rpc = new Rpc(m, bundle);
    const old = await receiverOf(m, rpc);
    rpc.send({ type: "new_session" });
    const next = await until(() => descriptorsOf(m).find((d) => d.pi_session_id !== old.pi_session_id), {
      what: "the receiver of the new session",
      deadlineMs: LONG_MS,
      dump: () => rpc.dump(),
    });
    assert.equal(descriptorsOf(m).length, 1);
    assert.equal(existsSync(old.socket), false);
    const client = await HelperClient.open(next);
    assert.equal(client.hello?.["pi_session_id"], next.pi_session_id);
    assert.equal(await rpc.end(), 0);
  });

  it("two copies of the extension: one tool, one receiver, no refusal to start", async () => {
    model.add({ when: { last: "two copies" }, answer: { text: "Still one." } });
    const m = fresh();
    const result = await run(process.execPath, [...flags(SOURCE), "-e", bundle, "-p", "two copies"], { env: m.env, cwd: m.project });
    assert.equal(result.code, 0, result.stderr);
    const asked = model.requests.find((request) => request.rule !== "" && JSON.stringify(request.messages.at(-1)).includes("two copies"));
    assert.equal(asked?.tools.filter((tool) => tool.function.name === "agents").length, 1);
  });

  it("a report of the controller starts one turn, is confirmed, and is not shown twice", async () => {
    model.add({ when: { last: "worker w1 finished" }, answer: { text: "Noted." } });
    const m = fresh();
    const log = join(m.root, "fake.log");
    const rpc = new Rpc(m, SOURCE, ["--session-id", "root-1"], { SHEPHERDR_BIN: fakeProgram(m.root), SHP_FAKE_REPORT: "worker w1 finished", SHP_FAKE_LOG: log });
    await receiverOf(m, rpc);
    model.add(
      { when: { last: "wake it" }, answer: { calls: [{ name: "agents", arguments: {} }] } },
      { when: { role: "tool" }, answer: { text: "Awake." } },
    );
    rpc.send({ type: "prompt", message: "wake it" });
    const marks = (): string[] => (existsSync(log) ? readFileSync(log, "utf8").split("\n").filter((line) => line.startsWith("mark ")) : []);
    await until(() => marks().includes("mark confirmed report-1"), {
      what: "the confirmation",
      deadlineMs: LONG_MS,
      dump: () => rpc.dump() + model.dump() + (existsSync(log) ? readFileSync(log, "utf8") : "no log"),
    });
    await until(() => readFileSync(log, "utf8").includes("again accepted=false"), { what: "the refused repeat", deadlineMs: LONG_MS });
    assert.equal(model.requests.filter((request) => JSON.stringify(request.messages.at(-1)).includes("worker w1 finished")).length, 1);
    assert.equal(await rpc.end(), 0);
    await until(() => readFileSync(log, "utf8").includes("closed shutting_down"), { what: "the controller's end" });
  });
});
