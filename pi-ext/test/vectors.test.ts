/** The vectors of spec/ that tie this implementation to the one in C. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { repoRoot } from "../../tests/support/process.ts";
import { FRAME, type ErrorName } from "../src/generated/messages.ts";
import { ShepherdrError } from "../src/errors.ts";
import { FrameDecoder, decodeHead, encodeFrame, encodeHead, type FrameType } from "../src/frames.ts";
import { PlainSession, type SessionEvent } from "../src/session.ts";

type Bytes = string | { hex: string; fill: number; count: number; then: string };
type FrameVectors = {
  valid: { name: string; bytes: Bytes; type: keyof typeof FRAME; fin: boolean; stream: number; payload: Bytes }[];
  invalid: { name: string; bytes: Bytes }[];
};
type Expected = {
  type: SessionEvent["type"];
  stream?: number;
  message?: number;
  id?: string;
  timeout_ms?: number;
  fin?: boolean;
  json?: unknown;
  text?: string;
  code?: number;
  cause?: string;
  outcome?: string;
};
type Conversation = { steps: { from: "initiator" | "responder"; bytes: Bytes; event: Expected }[] };

const load = <T>(name: string): T => JSON.parse(readFileSync(join(repoRoot, "spec/vectors", name), "utf8")) as T;

function bytesOf(bytes: Bytes): Buffer {
  if (typeof bytes === "string") return Buffer.from(bytes, "hex");
  return Buffer.concat([Buffer.from(bytes.hex, "hex"), Buffer.alloc(bytes.count, bytes.fill), Buffer.from(bytes.then, "hex")]);
}

function output(session: PlainSession): Buffer {
  const parts: Buffer[] = [];
  for (let part = session.output(0); part !== undefined; part = session.output(0)) parts.push(part);
  return Buffer.concat(parts);
}

function events(session: PlainSession): SessionEvent[] {
  const out: SessionEvent[] = [];
  for (let e = session.nextEvent(); e !== undefined; e = session.nextEvent()) out.push(e);
  return out;
}

function establishedResponder(): PlainSession {
  const responder = new PlainSession({ role: "responder", now: 0 });
  responder.feed(encodeFrame(FRAME.hello, false, 0, Buffer.from("{}")), 0);
  events(responder);
  responder.setHello({});
  events(responder);
  return responder;
}

describe("vectors: frames", () => {
  const vectors = load<FrameVectors>("frames.json");

  for (const v of vectors.valid) {
    it(v.name, () => {
      const bytes = bytesOf(v.bytes);
      const type = FRAME[v.type] as FrameType;
      for (const step of [1, 3, bytes.length]) {
        const decoder = new FrameDecoder();
        let frame;
        for (let at = 0; at < bytes.length; at += step) {
          assert.equal(frame, undefined);
          decoder.feed(bytes.subarray(at, at + step));
          frame = decoder.next();
        }
        assert.deepEqual(frame, { type, fin: v.fin, stream: v.stream, payload: bytesOf(v.payload) });
      }
      assert.ok(encodeFrame(type, v.fin, v.stream, bytesOf(v.payload)).equals(bytes));
      if (type !== FRAME.head) return;
      const head = decodeHead(bytesOf(v.payload));
      assert.deepEqual(decodeHead(encodeHead(head)), head);
    });
  }

  for (const v of vectors.invalid) {
    it(`refused: ${v.name}`, () => {
      const session = establishedResponder();
      session.feed(bytesOf(v.bytes), 0);
      const last = events(session).at(-1);
      assert.equal(last?.type === "closed" ? last.error?.code : undefined, "protocol_error" satisfies ErrorName);
    });
  }

  it("has both kinds", () => {
    assert.ok(vectors.valid.length > 10 && vectors.invalid.length > 30);
  });
});

/** The event in the words of the vectors. */
function described(event: SessionEvent): Expected {
  switch (event.type) {
    case "hello":
    case "established":
      return { type: event.type, json: event.hello };
    case "request":
      return { type: event.type, stream: event.stream, message: event.message, id: event.id, timeout_ms: event.timeoutMs, fin: event.fin, json: event.json };
    case "notification":
      return { type: event.type, stream: event.stream, message: event.message, fin: event.fin, json: event.json };
    case "response":
      return { type: event.type, stream: event.stream, fin: event.fin, json: event.json };
    case "bulk":
      return { type: event.type, stream: event.stream, text: event.data.toString("utf8"), fin: event.fin };
    case "failed":
      return { type: event.type, stream: event.stream, code: event.error.number, cause: event.error.reason ?? "", outcome: event.error.outcome };
    case "canceled":
      return { type: event.type, stream: event.stream };
    case "closed":
      return { type: event.type, code: event.error?.number ?? 0, cause: event.error?.reason ?? "" };
  }
}

describe("vectors: a conversation", () => {
  const { steps } = load<Conversation>("conversation.json");
  const hellos = steps.map((s) => s.event).filter((e) => e.type === "hello" || e.type === "established");

  it("is understood by both roles, and what we make of it has the same bytes", () => {
    const initiator = new PlainSession({ role: "initiator", hello: hellos[0]!.json as Record<string, unknown>, now: 0 });
    const responder = new PlainSession({ role: "responder", now: 0 });
    const sides = { initiator, responder };
    /** Bytes of our own that the steps have yet to show. */
    const made = { initiator: Buffer.alloc(0), responder: Buffer.alloc(0) };
    for (const { from, bytes, event } of steps) {
      act(sides[from], from, event, hellos[1]!.json as Record<string, unknown>);
      made[from] = Buffer.concat([made[from], output(sides[from])]);
      const wanted = bytesOf(bytes);
      assert.equal(made[from].subarray(0, wanted.length).toString("hex"), wanted.toString("hex"), JSON.stringify(event));
      made[from] = Buffer.from(made[from].subarray(wanted.length));
      const other = from === "initiator" ? responder : initiator;
      other.feed(wanted, 0);
      const seen = events(other).map(described);
      events(sides[from]);
      assert.deepEqual(seen, [event]);
    }
  });

  /** Does what makes the other side see that event. Bulk in pieces is one frame here, so its first piece is sent alone. */
  function act(side: PlainSession, from: string, event: Expected, responderHello: Record<string, unknown>): void {
    switch (event.type) {
      case "established":
        if (from === "responder") side.setHello(responderHello);
        return;
      case "request":
        side.request(event.message!, event.id!, event.timeout_ms!, event.json as Record<string, unknown>, event.fin!, 0);
        return;
      case "notification":
        side.notify(event.message!, event.json as Record<string, unknown>, event.fin!, 0);
        return;
      case "response":
        side.respond(event.stream!, event.json as Record<string, unknown>, event.fin!);
        return;
      case "bulk":
        side.sendBulk(event.stream!, Buffer.from(event.text!), event.fin!);
        return;
      case "failed":
        side.fail(event.stream!, new ShepherdrError("receiver_busy", { message: "m", cause: event.cause, next: "n", outcome: event.outcome as "rejected" }));
        return;
      case "canceled":
        side.cancel(event.stream!, "canceled", 0);
        return;
      case "closed":
        side.close("shutting_down", event.cause!, 0);
        return;
      case "hello":
        return;
    }
  }
});
