/** The receiver over a real unix socket, with a Pi that follows the observed delivery rules. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { after, afterEach, beforeEach, describe, it } from "node:test";
import { removeRoot, tmpRoot, until } from "../../tests/support/process.ts";
import type { Descriptor } from "../src/descriptor.ts";
import { ShepherdrError } from "../src/errors.ts";
import { wire } from "../src/wire.ts";
import { FakePi, ticks, type FakeEntry } from "./support/fake-pi.ts";
import { HelperClient, INSTALLATION, newId } from "./support/helper-client.ts";

const root = tmpRoot("recv");
after(() => removeRoot(root));

let serial = 0;
let home: string;
let runDir: string;
const open: { pi: FakePi; client: HelperClient | undefined }[] = [];

type Session = { pi: FakePi; descriptor: Descriptor; client: HelperClient };

async function session(options: { sessionId?: string; entries?: FakeEntry[]; env?: NodeJS.ProcessEnv; file?: string } = {}): Promise<Session> {
  const pi = new FakePi({
    sessionId: options.sessionId ?? "s1",
    file: options.file ?? join(home, "s1.jsonl"),
    ...(options.entries === undefined ? {} : { entries: structuredClone(options.entries) }),
  });
  wire(pi.pi, {
    runDir,
    env: { HOME: home, PI_CODING_AGENT_DIR: join(home, "agent"), ...options.env },
    argv: [],
    find: () => ({ path: undefined, looked: ["nowhere"] }),
  });
  await pi.emit("session_start", { reason: "startup" });
  const descriptor = await until(() => descriptors().find((d) => d.pi_session_id === pi.sessionId), { what: "a descriptor" });
  const client = await HelperClient.open(descriptor);
  open.push({ pi, client });
  return { pi, descriptor, client };
}

function descriptors(): Descriptor[] {
  if (!existsSync(runDir)) return [];
  return readdirSync(runDir)
    .filter((name) => name.endsWith(".json"))
    .map((name) => JSON.parse(readFileSync(join(runDir, name), "utf8")) as Descriptor);
}

async function stop(pi: FakePi, reason = "quit"): Promise<void> {
  await pi.emit("session_shutdown", { reason });
  pi.stale = true;
}

const code = async (work: Promise<unknown>): Promise<string> => {
  try {
    await work;
  } catch (error) {
    return error instanceof ShepherdrError ? error.code : String(error);
  }
  return "no error";
};

async function settlementOf(client: HelperClient, input: string): Promise<Record<string, unknown> & { text: string }> {
  const { answer, text } = await client.ask("settlement", { input });
  return { ...answer, text };
}

beforeEach(() => {
  home = join(root, String(serial++));
  runDir = join(home, "run");
  mkdirSync(home, { recursive: true });
});

afterEach(async () => {
  for (const { pi, client } of open.splice(0)) {
    client?.close();
    if (!pi.stale) await stop(pi);
  }
});

describe("receiver: descriptor and hello", () => {
  it("is private, complete, and gone after the session", async () => {
    const { pi, descriptor, client } = await session();
    assert.equal(statSync(runDir).mode & 0o777, 0o700);
    assert.equal(statSync(descriptor.socket).mode & 0o777, 0o600);
    const name = readdirSync(runDir).find((n) => n.endsWith(".json"))!;
    assert.match(name, /^[0-9a-f]{32}\.json$/u);
    assert.equal(statSync(join(runDir, name)).mode & 0o777, 0o600);
    assert.equal(descriptor.version, 1);
    assert.equal(descriptor.pid, process.pid);
    assert.equal(descriptor.session_file, pi.file);
    assert.deepEqual(descriptor.protocol, [1, 1]);
    assert.match(descriptor.token, /^[0-9a-f]{64}$/u);
    assert.deepEqual(client.hello, { versions: [1, 1], role: "receiver", pi_session_id: "s1", session_file: pi.file });
    await stop(pi);
    assert.deepEqual(readdirSync(runDir), []);
    await until(() => client.closed, { what: "the end of the connection" });
    assert.equal(client.events.at(-1)?.event, "closing");
  });

  it("refuses a wrong token, an unknown version and a foreign role", async () => {
    const { descriptor } = await session();
    assert.equal(await code(HelperClient.open({ ...descriptor, token: "0".repeat(64) })), "auth_failed");
    assert.equal(await code(HelperClient.open(descriptor, { token: undefined })), "auth_failed");
    assert.equal(await code(HelperClient.open(descriptor, { versions: [2, 3] })), "version_unsupported");
    assert.equal(await code(HelperClient.open(descriptor, { role: "controller" })), "protocol_error");
  });

  it("serves 64 connections and refuses the next", async () => {
    const { descriptor } = await session();
    const clients: HelperClient[] = [];
    for (let i = 1; i < 64; i++) clients.push(await HelperClient.open(descriptor));
    assert.equal(await code(HelperClient.open(descriptor)), "too_many_streams");
    clients.pop()?.close();
    await until(async () => (await code(HelperClient.open(descriptor).then((c) => clients.push(c)))) === "no error", { what: "a free place" });
    for (const client of clients) client.close();
  });

  it("makes descriptor and socket again when they are missing", async () => {
    const { pi, descriptor } = await session();
    rmSync(runDir, { recursive: true });
    await pi.prompt("go");
    const again = await until(() => descriptors()[0], { what: "a new descriptor" });
    assert.equal(again.token, descriptor.token);
    const client = await HelperClient.open(again);
    client.close();
  });

  it("asks Herdr once for its terminal", async () => {
    const socket = join(home, "herdr.sock");
    const asked: string[] = [];
    const herdr = createServer((connection) => {
      connection.on("data", (chunk: Buffer) => {
        asked.push(chunk.toString());
        connection.end(`${JSON.stringify({ id: "shepherdr", result: { type: "pane_current", pane: { pane_id: "p7", terminal_id: "term-9" } } })}\n`);
      });
    });
    await new Promise<void>((resolve) => herdr.listen(socket, resolve));
    const env = { HERDR_ENV: "1", HERDR_SOCKET_PATH: socket, HERDR_PANE_ID: "p1" };
    const { pi, descriptor, client } = await session({ env });
    assert.equal(descriptor.terminal_id, "term-9");
    assert.equal(client.hello?.["terminal_id"], "term-9");
    assert.deepEqual(JSON.parse(asked[0]!), { id: "shepherdr", method: "pane.current", params: { caller_pane_id: "p1" } });
    const id = newId();
    const deliver = { kind: "message", sender: {} };
    assert.equal(await code(client.ask("deliver", deliver, { id, text: "x", extra: { terminal_id: "term-8" } })), "receiver_refused");
    assert.equal((await client.ask("deliver", deliver, { id, text: "x", extra: { terminal_id: "term-9" } })).answer["accepted"], true);
    await stop(pi);
    await session({ env, sessionId: "s2" });
    assert.equal(asked.length, 1);
    herdr.close();
  });
});

describe("receiver: deliver", () => {
  it("records, answers, injects into an idle session, and tells when it is in the file", async () => {
    const { pi, client } = await session();
    const id = newId();
    const { answer } = await client.deliver(id, "please look", "task", { host: 'a"b<c>&\n', pane: "p1", name: "root" });
    assert.deepEqual(answer, { accepted: true, provisional: true, duplicate: false });
    const inbox = pi.entries.find((entry) => entry["customType"] === "shepherdr-inbox")?.["data"] as Record<string, unknown>;
    assert.equal(inbox["id"], id);
    assert.equal(inbox["session"], "s1");
    await ticks();
    assert.deepEqual(pi.sent[0]?.options, { triggerTurn: true, deliverAs: "steer" });
    assert.equal(pi.sent[0]?.details?.["id"], id);
    const [sender, ...rest] = pi.messages("herdr-agent-message")[0]!.split("\n");
    assert.equal(sender, '<herdr_sender kind="task" host="a&quot;b&lt;c&gt;&amp;&#10;" pane="p1" name="root" />');
    assert.equal(rest.at(-1), "please look");
    assert.equal(rest.length, 3);
    assert.equal((await client.ask("delivery_status", { id })).answer["state"], "accepted");
    assert.equal((await settlementOf(client, id))["state"], "running");
    await pi.answer("done so");
    await until(() => client.events.some((e) => e.event === "settled"), { what: "the settled event" });
    assert.deepEqual(client.events.find((e) => e.event === "delivered")?.inputs, [id]);
    const settled = client.events.find((e) => e.event === "settled");
    assert.deepEqual(settled?.inputs, [id]);
    assert.equal(settled?.aborted, false);
    assert.equal((await client.ask("delivery_status", { id })).answer["state"], "delivered");
    const answerOf = await settlementOf(client, id);
    assert.deepEqual(answerOf, { state: "settled", aborted: false, entry_id: settled?.entry_id, stop_reason: "stop", leaf: settled?.leaf, text: "done so" });
    assert.deepEqual(client.events.map((e) => e.event), ["started", "delivered", "settled"]);
  });

  it("answers a repeat with the receipt and refuses other bytes under the same id", async () => {
    const { pi, client } = await session();
    const id = newId();
    await client.deliver(id, "once");
    assert.equal((await client.deliver(id, "once")).answer["duplicate"], true);
    assert.equal(await code(client.deliver(id, "twice")), "duplicate_conflict");
    assert.equal(await code(client.deliver(id, "once", "task")), "duplicate_conflict");
    await ticks();
    assert.equal(pi.sent.length, 1);
  });

  it("steers into a busy session", async () => {
    const { pi, client } = await session();
    await pi.prompt("hello");
    const id = newId();
    assert.equal((await client.deliver(id, "and this")).answer["provisional"], false);
    assert.equal((await settlementOf(client, id))["state"], "pending");
    await pi.answer("to the person");
    assert.equal((await settlementOf(client, id))["state"], "running");
    await pi.answer("to the agent");
    assert.equal((await settlementOf(client, id)).text, "to the agent");
  });

  it("refuses blank texts, commands and bad fields without recording", async () => {
    const { pi, client } = await session();
    assert.equal(await code(client.deliver(newId(), " \n")), "invalid_params");
    assert.equal(await code(client.deliver(newId(), "/quit")), "receiver_refused");
    assert.equal(await code(client.ask("deliver", { kind: "order", sender: {} }, { text: "x" })), "invalid_params");
    assert.equal(await code(client.ask("deliver", { kind: "task", sender: {}, more: 1 }, { text: "x" })), "invalid_params");
    assert.equal(await code(client.ask("deliver", { kind: "task", sender: {} }, { text: "x", from: { installation: INSTALLATION } })), "invalid_params");
    assert.equal(await code(client.ask("deliver", { kind: "task", sender: {} }, { text: "x", extra: { to: "other" } })), "receiver_refused");
    assert.equal(pi.entries.length, 0);
    assert.equal(pi.sent.length, 0);
  });

  it("says that it controls no machines while no controller runs", async () => {
    const { pi, client } = await session();
    assert.deepEqual(await client.ask("machines", { refresh: true }), { answer: { controller: false }, text: "[]" });
    assert.equal(await code(client.ask("machines", { reconnect: 1 })), "invalid_params");
    assert.equal(pi.entries.length, 0);
  });

  it("is busy while Pi compacts, and takes the same id afterwards", async () => {
    const { pi, client } = await session();
    const id = newId();
    await pi.compact(async () => {
      assert.equal(await code(client.deliver(id, "x")), "receiver_busy");
      assert.equal((await client.ask("session_state", {})).answer["compacting"], true);
    });
    assert.equal(pi.sent.length, 0);
    assert.equal((await client.deliver(id, "x")).answer["accepted"], true);
  });

  it("is busy while Pi is neither idle nor in a run", async () => {
    const { pi, client } = await session();
    pi.idle = false;
    assert.equal(await code(client.deliver(newId(), "x")), "receiver_busy");
    pi.idle = true;
  });

  it("accepts while a prompt is on its way, and hands over when its run is there", async () => {
    const { pi, client } = await session();
    await pi.emit("input", { text: "hello" });
    const id = newId();
    assert.equal((await client.deliver(id, "behind the prompt")).answer["accepted"], true);
    assert.equal(pi.sent.length, 0);
    await pi.prompt("hello");
    assert.equal(pi.sent.length, 1);
    await pi.answer("to the person");
    await pi.answer("to the agent");
    assert.equal((await settlementOf(client, id)).text, "to the agent");
  });

  it("injects again, quietly, what Escape dropped, and lets the next run settle it", async () => {
    const { pi, client } = await session();
    await pi.prompt("hello");
    const id = newId();
    await client.deliver(id, "was queued");
    await pi.abort();
    await ticks();
    assert.equal(pi.sent.length, 2);
    assert.equal(pi.sent[1]?.options.triggerTurn, false);
    assert.equal(pi.messages("herdr-agent-message").length, 1);
    assert.equal((await settlementOf(client, id))["state"], "pending");
    assert.equal((await client.ask("delivery_status", { id })).answer["state"], "delivered");
    assert.equal(client.events.find((e) => e.event === "settled")?.aborted, true);
    await pi.prompt("go on");
    assert.equal((await settlementOf(client, id))["state"], "running");
    await pi.answer("both done");
    assert.equal((await settlementOf(client, id)).text, "both done");
  });

  it("leaves the queue alone after an abort outside the TUI", async () => {
    const { pi, client } = await session();
    pi.mode = "rpc";
    await pi.prompt("hello");
    const id = newId();
    await client.deliver(id, "stays queued");
    await pi.abort();
    await ticks();
    assert.equal(pi.sent.length, 1);
    assert.equal((await settlementOf(client, id))["state"], "pending");
  });

  it("says aborted when the run of the task itself was stopped", async () => {
    const { pi, client } = await session();
    const id = newId();
    await client.deliver(id, "work", "task");
    await ticks();
    await pi.abort();
    const answer = await settlementOf(client, id);
    assert.equal(answer["state"], "settled");
    assert.equal(answer["aborted"], true);
    assert.equal(answer["stop_reason"], "aborted");
  });

  it("gives the error of a failed run, with the text that there was", async () => {
    const { pi, client } = await session();
    const id = newId();
    await client.deliver(id, "work", "task");
    await ticks();
    await pi.answer("half", "error", "400: no");
    const answer = await settlementOf(client, id);
    assert.equal(answer["stop_reason"], "error");
    assert.equal(answer["error_message"], "400: no");
    assert.equal(answer.text, "half");
  });

  it("carries a long text both ways", async () => {
    const { pi, client } = await session();
    const id = newId();
    const long = "ä".repeat(400_000);
    await client.deliver(id, long);
    await ticks();
    assert.ok(pi.messages("herdr-agent-message")[0]!.endsWith(long));
    await pi.answer("z".repeat(1_500_000));
    assert.equal((await settlementOf(client, id)).text.length, 1_500_000);
  });
});

describe("receiver: resume, fork, bind", () => {
  it("recovers receipts, injects what is open, and not in a fork", async () => {
    const first = await session();
    await first.pi.prompt("hello");
    const taken = newId();
    const lost = newId();
    await first.client.deliver(taken, "taken");
    await first.pi.answer("a");
    await first.pi.answer("b");
    await first.pi.prompt("more");
    await first.client.deliver(lost, "never came in");
    const { entries } = first.pi;
    await stop(first.pi, "quit");

    const resumed = await session({ entries });
    await ticks();
    assert.deepEqual(resumed.pi.sent.map((s) => s.details?.["id"]), [lost]);
    assert.equal((await resumed.client.deliver(taken, "taken")).answer["duplicate"], true);
    assert.equal(await code(resumed.client.deliver(taken, "other")), "duplicate_conflict");
    assert.equal((await settlementOf(resumed.client, taken))["state"], "settled");
    await resumed.pi.answer("c");
    assert.equal((await settlementOf(resumed.client, lost)).text, "c");
    await stop(resumed.pi);

    const fork = await session({ sessionId: "fork", entries, file: join(home, "fork.jsonl") });
    await ticks();
    assert.equal(fork.pi.sent.length, 0);
    assert.equal((await fork.client.ask("delivery_status", { id: lost })).answer["state"], "unknown");
  });

  it("a task whose Pi died is settled as aborted", async () => {
    const first = await session();
    const id = newId();
    await first.client.deliver(id, "work", "task");
    await ticks();
    const { entries } = first.pi;
    await stop(first.pi);
    const resumed = await session({ entries });
    const answer = await settlementOf(resumed.client, id);
    assert.equal(answer["state"], "settled");
    assert.equal(answer["aborted"], true);
    assert.match(String(answer["error_message"]), /ended before/u);
  });

  it("binds to one parent, survives a resume, is dropped by a fork", async () => {
    const first = await session();
    const bind = { agent: "a1", capability: "c".repeat(64) };
    assert.deepEqual((await first.client.ask("bind", bind)).answer, { pi_session_id: "s1", session_file: first.pi.file, rebound: false });
    assert.equal((await first.client.ask("bind", { ...bind, capability: "d".repeat(64) })).answer["rebound"], true);
    const other = { pi_session_id: "other", installation: INSTALLATION, host: "h" };
    assert.equal(await code(first.client.ask("bind", bind, { from: other })), "already_bound");
    assert.equal(await code(first.client.ask("bind", { agent: "a1", capability: "short" })), "invalid_params");
    const stored = first.pi.entries.filter((entry) => entry["customType"] === "shepherdr-binding");
    assert.equal(stored.length, 1);
    assert.equal(JSON.stringify(stored).includes("c".repeat(64)), false);
    const { entries } = first.pi;
    await stop(first.pi);
    const resumed = await session({ entries });
    assert.equal((await resumed.client.ask("bind", bind)).answer["rebound"], true);
    assert.equal(await code(resumed.client.ask("bind", bind, { from: other })), "already_bound");
    await stop(resumed.pi);
    const fork = await session({ sessionId: "fork", entries });
    assert.equal((await fork.client.ask("bind", bind, { from: other })).answer["rebound"], false);
  });

  it("knows nothing of foreign ids", async () => {
    const { client } = await session();
    assert.equal((await settlementOf(client, newId()))["state"], "unknown");
    assert.equal((await client.ask("delivery_status", { id: newId() })).answer["state"], "unknown");
  });

  it("touches nothing after the session has ended", async () => {
    const { pi, client } = await session();
    await pi.prompt("hello");
    await stop(pi, "reload");
    await pi.emit("turn_end");
    await pi.emit("agent_settled", { aborted: false });
    await until(() => client.closed, { what: "the end of the connection" });
    assert.equal(pi.notices.length, 0);
  });
});
