/** Two sessions over memory: random splits, credit, cancellation, deadlines, liveness, broken peers. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FRAME, KIND, LIMITS, MESSAGE } from "../src/generated/messages.ts";
import { ShepherdrError } from "../src/errors.ts";
import { encodeFrame, encodeHead } from "../src/frames.ts";
import { Peer, type InboundRequest } from "../src/peer.ts";
import { PlainSession, type SessionEvent } from "../src/session.ts";

/** A small generator, so that a failing seed is the whole reproduction. */
function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const ID = (n: number): string => n.toString(16).padStart(32, "0");
const CALL = { operation: "0".repeat(32), has_message: false, call: {} };

function drain(session: PlainSession, now = 0): Buffer {
  const parts: Buffer[] = [];
  for (let out = session.output(now); out !== undefined; out = session.output(now)) parts.push(out);
  return Buffer.concat(parts);
}

function events(session: PlainSession): SessionEvent[] {
  const out: SessionEvent[] = [];
  for (let e = session.nextEvent(); e !== undefined; e = session.nextEvent()) out.push(e);
  return out;
}

/** Established pair; what the peers said so far is drained. */
function pair(): { a: PlainSession; b: PlainSession } {
  const a = new PlainSession({ role: "initiator", hello: { role: "pi_ext" }, now: 0 });
  const b = new PlainSession({ role: "responder", now: 0 });
  b.feed(drain(a), 0);
  assert.equal(events(b)[0]?.type, "hello");
  b.setHello({ role: "controller" });
  a.feed(drain(b), 0);
  assert.equal(events(a)[0]?.type, "established");
  assert.equal(events(b)[0]?.type, "established");
  return { a, b };
}

/** Moves bytes both ways until nothing moves, in pieces of random size. */
function shuttle(a: PlainSession, b: PlainSession, next: () => number = () => 0.999): void {
  for (let moved = true; moved; ) {
    moved = false;
    for (const [from, to] of [[a, b], [b, a]] as const) {
      const bytes = from.output(0);
      if (bytes === undefined) continue;
      moved = true;
      for (let at = 0; at < bytes.length; ) {
        const size = 1 + Math.floor(next() * bytes.length);
        to.feed(bytes.subarray(at, at + size), 0);
        at += size;
      }
    }
  }
}

function peers(seed: number, serve: (request: InboundRequest) => void): { a: Peer; b: Peer; run: () => Promise<void>; clock: { now: number } } {
  const next = random(seed);
  const clock = { now: 0 };
  const make = (role: "initiator" | "responder"): Peer =>
    new Peer({ role, ...(role === "initiator" ? { hello: {} } : {}), wake: () => undefined, clock: () => clock.now, handlers: { hello: () => ({}), request: serve } });
  const a = make("initiator");
  const b = make("responder");
  const run = async (): Promise<void> => {
    for (let idle = 0; idle < 3; ) {
      let moved = false;
      for (const [from, to] of [[a, b], [b, a]] as const) {
        const bytes = from.session.output(clock.now);
        if (bytes === undefined) continue;
        moved = true;
        for (let at = 0; at < bytes.length; ) {
          const size = 1 + Math.floor(next() * 40_000);
          to.feed(bytes.subarray(at, at + size));
          at += size;
        }
      }
      idle = moved ? 0 : idle + 1;
      if (!moved) await new Promise((resolve) => setImmediate(resolve));
    }
  };
  return { a, b, run, clock };
}

describe("session", () => {
  for (const seed of [1, 2, 3, 4, 5, 6, 7, 8]) {
    it(`carries many messages with bulk in both directions (seed ${seed})`, async () => {
      const next = random(seed);
      const { a, b, run } = peers(seed, (request) => request.respond({ value: { n: request.bulk.length } }, request.bulk));
      const sizes = Array.from({ length: 20 }, () => Math.floor(next() ** 3 * 1_500_000));
      sizes.push(0, 1, LIMITS.streamCreditBytes, LIMITS.streamCreditBytes + 1);
      await run();
      const answers = sizes.map((size, i) => {
        const bulk = Buffer.alloc(size, i);
        return (i % 2 === 0 ? a : b)
          .request(MESSAGE.agentsCall, CALL, { id: ID(i), timeoutMs: 1000, bulk })
          .then((answer) => assert.ok(answer.bulk.equals(bulk), `message ${i}`));
      });
      const all = Promise.all(answers);
      await run();
      await all;
      assert.equal(a.session.openStreams, 0);
      assert.equal(b.session.openStreams, 0);
    });
  }

  it("holds a sender to its credit, and goes on when it is given back", () => {
    const { a, b } = pair();
    const stream = a.request(MESSAGE.agentsCall, ID(1), 1000, {}, false, 0);
    a.sendBulk(stream, Buffer.alloc(LIMITS.streamCreditBytes * 2), true);
    shuttle(a, b);
    const got = events(b).filter((e) => e.type === "bulk");
    assert.equal(got.reduce((sum, e) => sum + e.data.length, 0), LIMITS.streamCreditBytes);
    b.consume(stream, LIMITS.streamCreditBytes);
    shuttle(a, b);
    const rest = events(b).filter((e) => e.type === "bulk");
    assert.equal(rest.reduce((sum, e) => sum + e.data.length, 0), LIMITS.streamCreditBytes);
    assert.equal(rest.at(-1)?.fin, true);
  });

  it("ends the link when the peer sends more than its credit", () => {
    const { a, b } = pair();
    b.feed(encodeFrame(FRAME.head, false, 1, encodeHead({ kind: KIND.request, message: 289, id: ID(1), timeoutMs: 9, json: {} })), 0);
    for (let i = 0; i < 5; i++) b.feed(encodeFrame(FRAME.bulk, false, 1, Buffer.alloc(65000)), 0);
    const last = events(b).at(-1);
    assert.equal(last?.type === "closed" ? last.error?.code : undefined, "credit_violation");
    a.feed(drain(b), 0);
    const told = events(a).at(-1);
    assert.equal(told?.type === "closed" ? told.error?.code : undefined, "credit_violation");
  });

  it("sends control before heads, and heads before bulk", () => {
    const { a, b } = pair();
    const first = a.request(MESSAGE.agentsCall, ID(1), 1000, {}, false, 0);
    a.sendBulk(first, Buffer.alloc(200_000), true);
    const sent = a.output(0);
    assert.equal(sent?.readUInt8(4), FRAME.head);
    assert.equal(a.output(0)?.readUInt8(4), FRAME.bulk);
    a.request(MESSAGE.agentsCall, ID(2), 1000, {}, true, 0);
    a.cancel(first, "canceled", 0);
    assert.equal(a.output(0)?.readUInt8(4), FRAME.cancel);
    assert.equal(a.output(0)?.readUInt8(4), FRAME.head);
    assert.equal(a.output(0), undefined);
    assert.equal(b.closed, false);
  });

  it("says whether a canceled request may have acted", () => {
    const { a, b } = pair();
    const unsent = a.request(MESSAGE.agentsCall, ID(1), 1000, {}, true, 0);
    a.cancel(unsent, "canceled", 0);
    assert.equal(drain(a).length, 0);
    const sent = a.request(MESSAGE.agentsCall, ID(2), 1000, {}, true, 0);
    b.feed(drain(a), 0);
    a.cancel(sent, "canceled", 0);
    b.feed(drain(a), 0);
    const failures = events(a).filter((e) => e.type === "failed");
    assert.deepEqual(failures.map((e) => [e.error.code, e.error.outcome]), [["canceled", "rejected"], ["canceled", "unknown"]]);
    assert.deepEqual(events(b).map((e) => e.type), ["request", "canceled"]);
    assert.equal(b.respond(sent, {}, true), false);
    shuttle(a, b);
    assert.equal(a.closed || b.closed, false);
  });

  it("ends each request once: answer, error, deadline, end of the link", () => {
    const { a, b } = pair();
    const streams = [1, 2, 3, 4].map((n) => a.request(MESSAGE.agentsCall, ID(n), n === 3 ? 50 : 1000, {}, true, 0));
    shuttle(a, b);
    b.respond(streams[0]!, { value: {} }, true);
    b.fail(streams[1]!, new ShepherdrError("agent_blocked", { machine: "box", step: "send", cause: "why", outcome: "rejected" }));
    shuttle(a, b);
    assert.equal(a.deadline(), 50);
    a.tick(50);
    b.tick(50);
    a.feedEnd(60);
    const ended = events(a);
    assert.deepEqual(ended.map((e) => e.type), ["response", "failed", "failed", "failed", "closed"]);
    const errors = ended.filter((e) => e.type === "failed").map((e) => e.error);
    assert.deepEqual(errors.map((e) => e.code), ["agent_blocked", "timeout", "link_lost"]);
    assert.equal(errors[0]?.describe(), "agent_blocked: The target waits for a person".replace("target", "agent") + " (box, send): why. Next: Answer its question first.");
    assert.equal(errors[2]?.outcome, "unknown");
    const canceled = events(b).filter((e) => e.type === "canceled");
    assert.equal(canceled.length, 1);
  });

  it("keeps receiving a question after an early answer, and frees the stream", async () => {
    const { a, run } = peers(7, (request) => request.fail(new ShepherdrError("unknown_message")));
    await run();
    const failed = a.request(MESSAGE.agentsCall, CALL, { id: ID(1), timeoutMs: 1000, bulk: Buffer.alloc(3_000_000) });
    const rejected = assert.rejects(failed, (e: ShepherdrError) => e.code === "unknown_message");
    await run();
    await rejected;
    const { a: c, b: d } = pair();
    const stream = c.request(MESSAGE.agentsCall, ID(2), 1000, {}, false, 0);
    c.sendBulk(stream, Buffer.alloc(2_000_000), true);
    d.feed(c.output(0)!, 0);
    d.respond(stream, { value: {} }, true);
    shuttle(c, d);
    const last = events(c).at(-1);
    assert.equal(last?.type, "response");
    for (const e of events(d)) if (e.type === "bulk") d.consume(stream, e.data.length);
    shuttle(c, d);
    assert.equal(c.openStreams, 0);
    assert.equal(d.openStreams, 0);
  });

  it("answers too_many_streams above the limit, and goes on", () => {
    const { a, b } = pair();
    for (let i = 0; i < LIMITS.streamsOpenMax; i++) a.request(MESSAGE.agentsCall, ID(i), 1000, {}, true, 0);
    assert.throws(() => a.request(MESSAGE.agentsCall, ID(999), 1000, {}, true, 0), (e: ShepherdrError) => e.code === "too_many_streams");
    shuttle(a, b);
    const extra = 2 * LIMITS.streamsOpenMax + 1;
    b.feed(encodeFrame(FRAME.head, true, extra, encodeHead({ kind: KIND.request, message: 289, id: ID(5), timeoutMs: 9, json: {} })), 0);
    assert.equal(events(b).filter((e) => e.type === "request").length, LIMITS.streamsOpenMax);
    const refusal = drain(b);
    assert.equal(refusal.readUInt32LE(8), extra);
    assert.equal(b.closed, false);
  });

  it("ends at frames that belong to nothing", () => {
    const head = (kind: 1 | 2 | 4, stream: number): Buffer =>
      encodeFrame(FRAME.head, true, stream, encodeHead({ kind, message: kind === 2 ? 0 : 289, id: ID(1), timeoutMs: 9, json: {} }));
    const bad: [string, Buffer[]][] = [
      ["a stream of the wrong side", [head(1, 2)]],
      ["a second head on an open stream", [head(1, 3), head(1, 3)]],
      ["an answer to nothing", [head(2, 2)]],
      ["bulk for a stream that never was", [encodeFrame(FRAME.bulk, true, 5, Buffer.alloc(1))]],
      ["bulk after its end", [head(1, 1), encodeFrame(FRAME.bulk, true, 1, Buffer.alloc(1))]],
      ["a second hello", [encodeFrame(FRAME.hello, false, 0, Buffer.from("{}"))]],
      ["credit of nothing", [head(1, 1), encodeFrame(FRAME.credit, false, 1, Buffer.alloc(4))]],
      ["garbage", [Buffer.from("SSH-2.0-OpenSSH\r\n")]],
    ];
    for (const [what, frames] of bad) {
      const { b } = pair();
      for (const frame of frames) b.feed(frame, 0);
      const last = events(b).at(-1);
      assert.equal(last?.type === "closed" ? last.error?.code : last?.type, "protocol_error", what);
    }
    const fresh = new PlainSession({ role: "responder", now: 0 });
    fresh.feed(encodeFrame(FRAME.ping, false, 0, Buffer.alloc(8)), 0);
    assert.equal(fresh.closed, true);
  });

  it("opens nothing with a number that is used up", () => {
    const notification = (stream: number): Buffer =>
      encodeFrame(FRAME.head, true, stream, encodeHead({ kind: KIND.notification, message: MESSAGE.agentsProgress, id: "", timeoutMs: 0, json: {} }));
    const { b } = pair();
    for (const stream of [3, 3, 1]) b.feed(notification(stream), 0);
    assert.deepEqual(events(b).map((e) => e.type), ["notification"]);
    assert.equal(b.closed, false);
  });

  it("takes an error after a response as an answer that breaks off", () => {
    const { a, b } = pair();
    const stream = a.request(MESSAGE.agentsCall, ID(1), 1000, {}, true, 0);
    shuttle(a, b);
    const answer = (kind: 2 | 3, message: number, fin: boolean): Buffer =>
      encodeFrame(FRAME.head, fin, stream, encodeHead({ kind, message, id: "", timeoutMs: 0, json: {} }));
    a.feed(answer(KIND.response, 0, false), 0);
    a.feed(answer(KIND.error, 9, true), 0);
    const [response, failed] = events(a);
    assert.equal(response?.type, "response");
    assert.equal(failed?.type === "failed" ? failed.error.code : failed?.type, "timeout");
    assert.equal(a.closed, false);
  });

  it("ends a stream whose bulk is above the limit, and only that stream", () => {
    const { a, b } = pair();
    const stream = a.request(MESSAGE.agentsCall, ID(1), 1000, {}, true, 0);
    shuttle(a, b);
    a.feed(encodeFrame(FRAME.head, false, stream, encodeHead({ kind: KIND.response, message: 0, id: "", timeoutMs: 0, json: {} })), 0);
    const chunk = Buffer.alloc(32768);
    const ends: string[] = [];
    for (let sent = 0; sent <= LIMITS.messageBytesMax && ends.length === 0; sent += chunk.length) {
      a.feed(encodeFrame(FRAME.bulk, false, stream, chunk), 0);
      for (const event of events(a)) {
        if (event.type === "failed") ends.push(event.error.code);
        if (event.type === "bulk") a.consume(stream, event.data.length);
      }
    }
    assert.deepEqual(ends, ["message_too_large"]);
    assert.equal(a.closed, false);
  });

  it("ignores late frames of ended streams", () => {
    const { a, b } = pair();
    const stream = a.request(MESSAGE.agentsCall, ID(1), 1000, {}, true, 0);
    shuttle(a, b);
    a.cancel(stream, "canceled", 0);
    a.feed(encodeFrame(FRAME.head, true, stream, encodeHead({ kind: KIND.response, message: 0, id: "", timeoutMs: 0, json: {} })), 0);
    a.feed(encodeFrame(FRAME.bulk, true, stream, Buffer.alloc(3)), 0);
    assert.deepEqual(events(a).map((e) => e.type), ["failed"]);
    assert.equal(a.closed, false);
  });

  it("pings when it was quiet, answers pings, and ends in silence", () => {
    const { a, b } = pair();
    assert.equal(a.deadline(), LIMITS.pingIntervalMs);
    a.tick(LIMITS.pingIntervalMs);
    const ping = drain(a, LIMITS.pingIntervalMs);
    assert.equal(ping.readUInt8(4), FRAME.ping);
    b.feed(ping, LIMITS.pingIntervalMs);
    const pong = drain(b, LIMITS.pingIntervalMs);
    assert.equal(pong.readUInt8(4), FRAME.pong);
    assert.deepEqual(pong.subarray(12), ping.subarray(12));
    a.feed(pong, LIMITS.pingIntervalMs);
    const dead = LIMITS.pingIntervalMs + LIMITS.silenceMaxMs;
    a.tick(dead - 1);
    assert.equal(a.closed, false);
    a.tick(dead);
    const last = events(a).at(-1);
    assert.equal(last?.type === "closed" ? last.error?.code : undefined, "silence");
  });

  it("gives a hello that never comes ten seconds", () => {
    const a = new PlainSession({ role: "initiator", hello: {}, now: 5 });
    assert.equal(a.deadline(), 5 + LIMITS.handshakeTimeoutMs);
    a.tick(a.deadline());
    assert.equal(a.closed, true);
  });

  it("closes in order: heads still go out, then the close frame, then nothing", () => {
    const { a, b } = pair();
    const stream = a.request(MESSAGE.agentsCall, ID(1), 1000, {}, true, 0);
    shuttle(a, b);
    b.respond(stream, { value: {} }, true);
    b.close("shutting_down", "bye", 0);
    a.feed(drain(b), 0);
    assert.deepEqual(events(a).map((e) => e.type), ["response", "closed"]);
    assert.throws(() => a.request(MESSAGE.agentsCall, ID(2), 1, {}, true, 0), (e: ShepherdrError) => e.code === "link_lost");
  });

  it("answers a message that this version does not know", () => {
    const { a, b } = pair();
    const peer = new Peer({ role: "responder", wake: () => undefined, clock: () => 0, handlers: { hello: () => ({}), request: (r) => r.respond({}) } });
    const asker = new PlainSession({ role: "initiator", hello: {}, now: 0 });
    peer.feed(drain(asker));
    asker.feed(drain(peer.session), 0);
    asker.request(4000, ID(1), 1000, {}, true, 0);
    asker.request(MESSAGE.agentsCall, ID(2), 1000, { operation: "x", has_message: false, call: {}, more: 1 }, true, 0);
    asker.request(MESSAGE.agentsCall, ID(3), 1000, { operation: 7, has_message: false, call: {} }, true, 0);
    peer.feed(drain(asker));
    asker.feed(drain(peer.session), 0);
    const failed = events(asker).filter((e) => e.type === "failed").map((e) => [e.error.code, e.error.reason]);
    assert.deepEqual(failed, [
      ["unknown_message", "message 4000"],
      ["invalid_params", "more: unknown field"],
      ["invalid_params", "operation: wrong type or out of bounds"],
    ]);
    assert.equal(a.closed || b.closed, false);
  });
});
