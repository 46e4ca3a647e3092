/**
 * The protocol engine of one plain link, without I/O, clock or timers (spec/protocol.md 3 to 7).
 *
 * The owner feeds received bytes, takes events until there are none, sends what `output` returns
 * and calls `tick` at `deadline`. Nothing is called back, so nothing re-enters.
 *
 * Output is encoded when it is asked for: control frames first, then heads in the order they were
 * made, then bulk of the open halves in turn. So a cancel is never behind more than what the
 * owner's socket holds.
 *
 * Times are milliseconds of one monotonic clock of the owner.
 */
import { ERRORS, FRAME, KIND, LIMITS, errorName, type ErrorName } from "./generated/messages.ts";
import { ShepherdrError, cutUtf8 } from "./errors.ts";
import {
  FrameDecoder,
  decodeHead,
  encodeFrame,
  encodeHead,
  parseJsonObject,
  type Frame,
  type FrameType,
  type Head,
  type JsonObject,
} from "./frames.ts";

export type Role = "initiator" | "responder";

export type SessionEvent =
  /** Responder: the peer's hello is there; answer with `setHello` or refuse with `close`. */
  | { type: "hello"; hello: JsonObject }
  | { type: "established"; hello: JsonObject }
  | { type: "request"; stream: number; message: number; id: string; timeoutMs: number; json: JsonObject; fin: boolean }
  | { type: "notification"; stream: number; message: number; json: JsonObject; fin: boolean }
  | { type: "response"; stream: number; json: JsonObject; fin: boolean }
  /** Our request ended without an answer, or in the middle of its bulk. Its last event. */
  | { type: "failed"; stream: number; error: ShepherdrError }
  | { type: "bulk"; stream: number; data: Buffer; fin: boolean }
  /** The peer gave its request up, its deadline passed, or it broke a notification off. */
  | { type: "canceled"; stream: number; code: number }
  /** Last event; error undefined: an orderly end. */
  | { type: "closed"; error: ShepherdrError | undefined };

type Stream = {
  readonly number: number;
  readonly ours: boolean;
  readonly notification: boolean;
  /** Ours: when the request ends with `timeout`. Theirs: after it nothing is answered. */
  readonly deadline: number;
  /** Our half: `none` before its head exists, then `open` until FIN was encoded. */
  sending: "none" | "open" | "done";
  headSent: boolean;
  sendCredit: number;
  sendQueue: Buffer[];
  sendTotal: number;
  sendFin: boolean;
  /** No bulk follows our head. */
  headFin: boolean;
  /** Their half: `head` waits for it, then bulk until FIN. */
  receiving: "head" | "bulk" | "done";
  /** Our answer has ended: what still comes of the question is dropped. */
  ignoring: boolean;
  /** We answered with an error: the stream ends as soon as that was encoded. */
  failed: boolean;
  recvCredit: number;
  recvTotal: number;
  recvOwed: number;
};

/** A stream on which nothing but its opening has gone by. */
function newStream(opening: Pick<Stream, "number" | "ours" | "notification" | "deadline" | "sending" | "receiving">): Stream {
  return {
    ...opening,
    headSent: false,
    sendCredit: LIMITS.streamCreditBytes,
    sendQueue: [],
    sendTotal: 0,
    sendFin: false,
    headFin: false,
    ignoring: false,
    failed: false,
    recvCredit: LIMITS.streamCreditBytes,
    recvTotal: 0,
    recvOwed: 0,
  };
}

/** Credit goes back in steps of this many bytes, not for every frame. */
const CREDIT_STEP_BYTES = LIMITS.streamCreditBytes / 4;
const BULK_FRAME_BYTES = 32768;

const broken = (cause: string): ShepherdrError => new ShepherdrError("protocol_error", { step: "session", cause });

function errorOf(code: number, text: string): ShepherdrError {
  const name = errorName(code);
  return new ShepherdrError(name ?? "protocol_error", {
    cause: text === "" ? (name === undefined ? `code ${code}` : undefined) : text,
  });
}

export class PlainSession {
  readonly role: Role;
  readonly #decoder = new FrameDecoder();
  readonly #streams = new Map<number, Stream>();
  #events: SessionEvent[] = [];
  #control: Buffer[] = [];
  #heads: { stream: number; frame: Buffer }[] = [];
  #headBytes = 0;
  #turn = 0;
  #state: "hello" | "open" | "closing" | "closed" = "hello";
  #helloSent = false;
  #peerHello: JsonObject | undefined;
  #nextStream: number;
  #lastPeerStream = 0;
  #now: number;
  #lastSent: number;
  #lastReceived: number;
  readonly #handshakeDeadline: number;
  #closeFrame: Buffer | undefined;
  #pingCounter = 0n;

  constructor(options: { role: Role; hello?: JsonObject; now: number }) {
    this.role = options.role;
    this.#nextStream = options.role === "initiator" ? 1 : 2;
    this.#now = options.now;
    this.#lastSent = options.now;
    this.#lastReceived = options.now;
    this.#handshakeDeadline = options.now + LIMITS.handshakeTimeoutMs;
    if (options.role === "initiator") {
      if (options.hello === undefined) throw new Error("an initiator needs its hello");
      this.#queueHello(options.hello);
    }
  }

  get established(): boolean {
    return this.#state === "open";
  }

  get closed(): boolean {
    return this.#state === "closing" || this.#state === "closed";
  }

  /** Streams that still have an open half. */
  get openStreams(): number {
    return this.#streams.size;
  }

  // ---- bytes in ---------------------------------------------------------------------------

  feed(chunk: Uint8Array, now: number): void {
    if (this.closed) return;
    this.#now = now;
    try {
      this.#decoder.feed(chunk);
      for (let frame = this.#decoder.next(); frame !== undefined; frame = this.#decoder.next()) {
        this.#lastReceived = now;
        this.#takeFrame(frame);
        if (this.closed) return;
      }
    } catch (error) {
      const failure = ShepherdrError.from(error, "protocol_error");
      this.#end(failure, failure.number, failure.reason ?? failure.message);
    }
  }

  /** The transport ended. */
  feedEnd(now: number): void {
    if (this.#state === "closed") return;
    this.#now = now;
    if (this.#state === "closing") {
      this.#state = "closed";
      return;
    }
    this.#end(new ShepherdrError("link_lost"), undefined, "");
    this.#state = "closed";
  }

  nextEvent(): SessionEvent | undefined {
    return this.#events.shift();
  }

  // ---- bytes out --------------------------------------------------------------------------

  /** Next bytes to send, or undefined. What is returned counts as sent. */
  output(now: number): Buffer | undefined {
    this.#now = Math.max(this.#now, now);
    const frame = this.#nextOutput();
    if (frame !== undefined) this.#lastSent = this.#now;
    return frame;
  }

  #nextOutput(): Buffer | undefined {
    const control = this.#control.shift();
    if (control !== undefined) return control;
    const head = this.#heads.shift();
    if (head !== undefined) {
      this.#headBytes -= head.frame.length;
      const stream = this.#streams.get(head.stream);
      if (stream !== undefined) {
        stream.headSent = true;
        this.#endSendingIfDone(stream);
      }
      return head.frame;
    }
    if (this.#state === "closing") {
      const close = this.#closeFrame;
      this.#closeFrame = undefined;
      return close;
    }
    return this.#nextBulk();
  }

  #nextBulk(): Buffer | undefined {
    const ready = [...this.#streams.values()].filter(
      (s) => s.sending === "open" && s.headSent && ((s.sendQueue.length > 0 && s.sendCredit > 0) || (s.sendFin && s.sendQueue.length === 0)),
    );
    if (ready.length === 0) return undefined;
    const stream = ready[this.#turn++ % ready.length]!;
    const parts: Buffer[] = [];
    let room = Math.min(BULK_FRAME_BYTES, stream.sendCredit);
    while (room > 0 && stream.sendQueue.length > 0) {
      const part = stream.sendQueue[0]!;
      if (part.length <= room) {
        parts.push(part);
        room -= part.length;
        stream.sendQueue.shift();
      } else {
        parts.push(part.subarray(0, room));
        stream.sendQueue[0] = part.subarray(room);
        room = 0;
      }
    }
    const data = Buffer.concat(parts);
    stream.sendCredit -= data.length;
    const fin = stream.sendFin && stream.sendQueue.length === 0;
    if (fin) this.#finishSending(stream);
    return encodeFrame(FRAME.bulk, fin, stream.number, data);
  }

  #finishSending(stream: Stream): void {
    stream.sending = "done";
    if (!stream.ours) stream.ignoring = true;
    if (stream.failed) this.#streams.delete(stream.number);
    else this.#dropIfEnded(stream);
  }

  /** A head with FIN ends our half as soon as it was encoded. */
  #endSendingIfDone(stream: Stream): void {
    if (stream.sending === "open" && stream.headFin) this.#finishSending(stream);
  }

  #dropIfEnded(stream: Stream): void {
    if (stream.sending === "done" && stream.receiving === "done") this.#streams.delete(stream.number);
  }

  #queueControl(type: FrameType, stream: number, payload: Buffer): void {
    this.#control.push(encodeFrame(type, false, stream, payload));
  }

  #queueHello(hello: JsonObject): void {
    const bytes = Buffer.from(JSON.stringify(hello), "utf8");
    if (bytes.length > LIMITS.helloBytesMax) throw new ShepherdrError("message_too_large", { step: "hello" });
    this.#helloSent = true;
    this.#queueControl(FRAME.hello, 0, bytes);
  }

  #queueHead(stream: Stream, head: Head, fin: boolean): void {
    const frame = encodeFrame(FRAME.head, fin, stream.number, encodeHead(head));
    if (this.#headBytes + frame.length > LIMITS.outputBytesMax + LIMITS.controlReserveBytes) {
      throw new ShepherdrError("too_many_streams", { step: "send", cause: "the output is full" });
    }
    stream.sending = "open";
    stream.sendFin = fin;
    stream.headFin = fin;
    this.#headBytes += frame.length;
    this.#heads.push({ stream: stream.number, frame });
  }

  // ---- sending ----------------------------------------------------------------------------

  /** Responder, after the event `hello`. */
  setHello(hello: JsonObject): void {
    if (this.#state !== "hello" || this.#peerHello === undefined || this.#helloSent) throw new Error("hello out of turn");
    this.#queueHello(hello);
    this.#establish();
  }

  /** Ask; returns the stream. Throws `link_lost` when there is no session, `too_many_streams` above the limit. */
  request(message: number, id: string, timeoutMs: number, json: JsonObject, fin: boolean, now: number): number {
    this.#now = now;
    if (!/^[0-9a-f]{32}$/u.test(id)) throw new Error("a request id is 32 hex digits");
    const timeout = Math.min(Math.max(1, Math.trunc(timeoutMs)), LIMITS.requestTimeoutMsMax);
    const stream = this.#openOurs(false, now + timeout);
    this.#queueHead(stream, { kind: KIND.request, message, id, timeoutMs: timeout, json }, fin);
    this.#streams.set(stream.number, stream);
    this.#nextStream += 2;
    return stream.number;
  }

  notify(message: number, json: JsonObject, fin: boolean, now: number): number {
    this.#now = now;
    const stream = this.#openOurs(true, Number.POSITIVE_INFINITY);
    this.#queueHead(stream, { kind: KIND.notification, message, id: "", timeoutMs: 0, json }, fin);
    this.#streams.set(stream.number, stream);
    this.#nextStream += 2;
    return stream.number;
  }

  #openOurs(notification: boolean, deadline: number): Stream {
    if (this.#state !== "open") throw new ShepherdrError("link_lost", { step: "send" });
    let open = 0;
    for (const s of this.#streams.values()) if (s.ours) open++;
    if (open >= LIMITS.streamsOpenMax) throw new ShepherdrError("too_many_streams", { step: "send" });
    const receiving = notification ? "done" : "head";
    return newStream({ number: this.#nextStream, ours: true, notification, deadline, sending: "none", receiving });
  }

  /** Answer once; false: the request was canceled or never was. */
  respond(streamNumber: number, json: JsonObject, fin: boolean): boolean {
    const stream = this.#answerable(streamNumber);
    if (stream === undefined) return false;
    this.#queueHead(stream, { kind: KIND.response, message: 0, id: "", timeoutMs: 0, json }, fin);
    return true;
  }

  fail(streamNumber: number, error: ShepherdrError): boolean {
    const stream = this.#answerable(streamNumber);
    if (stream === undefined) return false;
    this.#queueHead(stream, { kind: KIND.error, message: error.number, id: "", timeoutMs: 0, json: error.toWire() }, true);
    stream.failed = true;
    stream.ignoring = true;
    return true;
  }

  #answerable(streamNumber: number): Stream | undefined {
    const stream = this.#streams.get(streamNumber);
    if (stream === undefined || stream.ours || stream.notification || stream.sending !== "none" || this.#state !== "open") {
      return undefined;
    }
    return stream;
  }

  /** Bulk of our open half. `fin` ends it. Throws `message_too_large` above the limit. */
  sendBulk(streamNumber: number, data: Uint8Array, fin: boolean): boolean {
    const stream = this.#streams.get(streamNumber);
    if (stream === undefined || stream.sending !== "open" || stream.sendFin) return false;
    if (stream.sendTotal + data.length > LIMITS.messageBytesMax) throw new ShepherdrError("message_too_large");
    if (data.length > 0) stream.sendQueue.push(Buffer.from(data));
    stream.sendTotal += data.length;
    stream.sendFin = fin;
    return true;
  }

  /** Give our request up, or break our half off. */
  cancel(streamNumber: number, code: ErrorName, now: number): void {
    this.#now = now;
    const stream = this.#streams.get(streamNumber);
    if (stream === undefined) return;
    this.#cancelFrame(stream, ERRORS[code].code);
    this.#streams.delete(stream.number);
    if (stream.ours && stream.receiving !== "done") {
      const outcome = stream.headSent ? "unknown" : "rejected";
      this.#events.push({ type: "failed", stream: stream.number, error: new ShepherdrError(code, { outcome }) });
    }
  }

  /** A stream of ours that never left is simply forgotten: its number stays unused. */
  #cancelFrame(stream: Stream, code: number): void {
    this.#dropHeads(stream.number);
    if (stream.ours && !stream.headSent) return;
    const payload = Buffer.alloc(2);
    payload.writeUInt16LE(code, 0);
    this.#queueControl(FRAME.cancel, stream.number, payload);
  }

  #dropHeads(streamNumber: number): void {
    this.#heads = this.#heads.filter((head) => {
      if (head.stream !== streamNumber) return true;
      this.#headBytes -= head.frame.length;
      return false;
    });
  }

  /** Bytes of `bulk` events were used up. */
  consume(streamNumber: number, bytes: number): void {
    const stream = this.#streams.get(streamNumber);
    if (stream === undefined || stream.receiving !== "bulk" || this.#state !== "open") return;
    stream.recvOwed += bytes;
    if (stream.recvOwed < CREDIT_STEP_BYTES) return;
    const payload = Buffer.alloc(4);
    payload.writeUInt32LE(stream.recvOwed, 0);
    stream.recvCredit += stream.recvOwed;
    stream.recvOwed = 0;
    this.#queueControl(FRAME.credit, stream.number, payload);
  }

  /** Orderly with code undefined. What is queued of control and heads still goes out before CLOSE. */
  close(code: ErrorName | undefined, text: string, now: number): void {
    if (this.closed) return;
    this.#now = now;
    const error = code === undefined ? undefined : new ShepherdrError(code, { cause: text === "" ? undefined : text });
    this.#end(error, error?.number ?? 0, text);
  }

  // ---- time -------------------------------------------------------------------------------

  /** When `tick` is due; Infinity when nothing is. */
  deadline(): number {
    if (this.closed) return Number.POSITIVE_INFINITY;
    if (this.#state === "hello") return this.#handshakeDeadline;
    let due = Math.min(this.#lastSent + LIMITS.pingIntervalMs, this.#lastReceived + LIMITS.silenceMaxMs);
    for (const stream of this.#streams.values()) due = Math.min(due, stream.deadline);
    return due;
  }

  tick(now: number): void {
    if (this.closed) return;
    this.#now = now;
    if (this.#state === "hello") {
      if (now >= this.#handshakeDeadline) this.close("timeout", "the peer did not finish its hello", now);
      return;
    }
    if (now >= this.#lastReceived + LIMITS.silenceMaxMs) {
      this.close("silence", "", now);
      return;
    }
    for (const stream of [...this.#streams.values()]) {
      if (now < stream.deadline) continue;
      if (stream.ours) this.cancel(stream.number, "timeout", now);
      else {
        this.#streams.delete(stream.number);
        this.#events.push({ type: "canceled", stream: stream.number, code: ERRORS.timeout.code });
      }
    }
    if (now >= this.#lastSent + LIMITS.pingIntervalMs) {
      const payload = Buffer.alloc(8);
      payload.writeBigUInt64LE(++this.#pingCounter, 0);
      this.#queueControl(FRAME.ping, 0, payload);
      this.#lastSent = now;
    }
  }

  // ---- frames of the peer -----------------------------------------------------------------

  #takeFrame(frame: Frame): void {
    if (this.#peerHello === undefined && frame.type !== FRAME.hello && frame.type !== FRAME.close) {
      throw broken("the first frame is not a hello");
    }
    switch (frame.type) {
      case FRAME.hello:
        this.#takeHello(frame);
        return;
      case FRAME.ping:
        this.#queueControl(FRAME.pong, 0, frame.payload);
        return;
      case FRAME.pong:
        return;
      case FRAME.close: {
        const code = frame.payload.readUInt16LE(0);
        const text = frame.payload.toString("utf8", 2);
        this.#end(code === 0 ? undefined : errorOf(code, text), undefined, "");
        return;
      }
      case FRAME.head:
        this.#takeHead(frame);
        return;
      default:
        this.#takeOnStream(frame);
    }
  }

  #takeHello(frame: Frame): void {
    if (this.#peerHello !== undefined) throw broken("a second hello");
    this.#peerHello = parseJsonObject(frame.payload);
    if (this.role === "responder") this.#events.push({ type: "hello", hello: this.#peerHello });
    else this.#establish();
  }

  #establish(): void {
    this.#state = "open";
    this.#events.push({ type: "established", hello: this.#peerHello! });
  }

  #peerOpens(number: number): boolean {
    return (number % 2 === 1) === (this.role === "responder");
  }

  #takeHead(frame: Frame): void {
    if (this.#state !== "open") throw broken("a stream before our hello");
    const head = decodeHead(frame.payload);
    const opens = head.kind === KIND.request || head.kind === KIND.notification;
    if (head.kind === KIND.error && !frame.fin) throw broken("an error head without FIN");
    if (!opens) {
      this.#takeAnswer(frame, head);
      return;
    }
    if (!this.#peerOpens(frame.stream)) throw broken(`the peer opened stream ${frame.stream}`);
    if (frame.stream <= this.#lastPeerStream) {
      if (this.#streams.has(frame.stream)) throw broken(`a second head on stream ${frame.stream}`);
      return; // Its number is used up: it opens nothing.
    }
    this.#lastPeerStream = frame.stream;
    this.#openTheirs(frame, head);
  }

  #openTheirs(frame: Frame, head: Head): void {
    const notification = head.kind === KIND.notification;
    let open = 0;
    for (const s of this.#streams.values()) if (!s.ours) open++;
    const stream = newStream({
      number: frame.stream,
      ours: false,
      notification,
      deadline: notification ? Number.POSITIVE_INFINITY : this.#now + head.timeoutMs,
      sending: notification ? "done" : "none",
      receiving: frame.fin ? "done" : "bulk",
    });
    if (open >= LIMITS.streamsOpenMax) {
      // Not entered into the table: what follows on it is a frame of an ended stream.
      if (!notification) {
        const error = new ShepherdrError("too_many_streams");
        this.#queueHead(stream, { kind: KIND.error, message: error.number, id: "", timeoutMs: 0, json: error.toWire() }, true);
      }
      return;
    }
    this.#streams.set(stream.number, stream);
    if (notification) {
      this.#events.push({ type: "notification", stream: stream.number, message: head.message, json: head.json, fin: frame.fin });
      this.#dropIfEnded(stream);
    } else {
      const { message, id, timeoutMs, json } = head;
      this.#events.push({ type: "request", stream: stream.number, message, id, timeoutMs, json, fin: frame.fin });
    }
  }

  /** The stream that a frame belongs to; undefined: it has ended and the frame is ignored. */
  #find(number: number): Stream | undefined {
    const stream = this.#streams.get(number);
    if (stream !== undefined) return stream;
    const last = this.#peerOpens(number) ? this.#lastPeerStream : this.#nextStream - 2;
    if (number > last) throw broken(`a frame for stream ${number}, which was never opened`);
    return undefined;
  }

  #takeAnswer(frame: Frame, head: Head): void {
    if (this.#peerOpens(frame.stream)) throw broken("an answer on the peer's own stream");
    const stream = this.#find(frame.stream);
    if (stream === undefined) return;
    if (stream.notification) throw broken("an answer to a notification");
    // An error may also come after a response: the answer breaks off.
    if (head.kind === KIND.response && stream.receiving !== "head") throw broken("a second answer");
    if (head.kind === KIND.error) {
      this.#streams.delete(stream.number);
      this.#dropHeads(stream.number);
      this.#events.push({ type: "failed", stream: stream.number, error: ShepherdrError.fromWire(head.message, head.json) });
      return;
    }
    stream.receiving = frame.fin ? "done" : "bulk";
    this.#events.push({ type: "response", stream: stream.number, json: head.json, fin: frame.fin });
    this.#dropIfEnded(stream);
  }

  #takeOnStream(frame: Frame): void {
    const stream = this.#find(frame.stream);
    if (stream === undefined) return;
    switch (frame.type) {
      case FRAME.bulk:
        this.#takeBulk(stream, frame);
        return;
      case FRAME.credit: {
        const amount = frame.payload.readUInt32LE(0);
        if (amount === 0) throw broken("credit of nothing");
        stream.sendCredit += amount;
        if (stream.sendCredit > LIMITS.messageBytesMax + LIMITS.streamCreditBytes) throw broken("more credit than any message needs");
        return;
      }
      case FRAME.cancel: {
        const code = frame.payload.readUInt16LE(0);
        this.#streams.delete(stream.number);
        if (stream.ours && stream.receiving !== "done") {
          const error = errorOf(code, "");
          this.#events.push({ type: "failed", stream: stream.number, error: new ShepherdrError(error.code, { outcome: "unknown", cause: error.reason }) });
        } else if (!stream.ours) {
          this.#dropHeads(stream.number);
          this.#events.push({ type: "canceled", stream: stream.number, code });
        }
        return;
      }
      default:
        throw broken(`frame type ${frame.type}`);
    }
  }

  #takeBulk(stream: Stream, frame: Frame): void {
    if (stream.receiving === "head") throw broken("bulk before its head");
    if (stream.receiving === "done") throw broken("bulk after its end");
    const length = frame.payload.length;
    stream.recvCredit -= length;
    if (stream.recvCredit < 0) throw new ShepherdrError("credit_violation", { step: "session" });
    stream.recvTotal += length;
    if (stream.recvTotal > LIMITS.messageBytesMax) {
      this.#refuseLarge(stream);
      return;
    }
    if (frame.fin) stream.receiving = "done";
    if (stream.ignoring) this.consume(stream.number, stream.failed ? 0 : length);
    else this.#events.push({ type: "bulk", stream: stream.number, data: frame.payload, fin: frame.fin });
    this.#dropIfEnded(stream);
  }

  /** More bulk than a message may have: this stream ends, for both sides. */
  #refuseLarge(stream: Stream): void {
    const error = new ShepherdrError("message_too_large", { step: "receive", cause: "more bulk than a message may have", outcome: "unknown" });
    if (stream.ours) this.#events.push({ type: "failed", stream: stream.number, error });
    else if (!stream.ignoring) this.#events.push({ type: "canceled", stream: stream.number, code: error.number });
    if (!this.fail(stream.number, error)) this.#cancelFrame(stream, error.number);
    this.#streams.delete(stream.number);
  }

  // ---- end --------------------------------------------------------------------------------

  /** code undefined: the peer knows already, or is gone. */
  #end(error: ShepherdrError | undefined, code: number | undefined, text: string): void {
    if (this.closed) return;
    for (const stream of this.#streams.values()) {
      if (!stream.ours || stream.receiving === "done") continue;
      this.#events.push({
        type: "failed",
        stream: stream.number,
        error: new ShepherdrError(error?.code === "silence" ? "silence" : "link_lost", {
          outcome: stream.headSent ? "unknown" : "rejected",
          cause: error?.reason,
        }),
      });
    }
    this.#streams.clear();
    if (code === undefined) {
      this.#control = [];
      this.#heads = [];
      this.#state = "closed";
    } else {
      const bytes = Buffer.from(cutUtf8(text, LIMITS.errorTextBytesMax), "utf8");
      const payload = Buffer.alloc(2 + bytes.length);
      payload.writeUInt16LE(code, 0);
      bytes.copy(payload, 2);
      this.#closeFrame = encodeFrame(FRAME.close, false, 0, payload);
      this.#state = "closing";
    }
    this.#events.push({ type: "closed", error });
  }
}
