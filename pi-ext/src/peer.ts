/**
 * Whole messages over one session: heads and their bulk put together, requests as promises.
 *
 * Still without I/O: the owner (connection.ts) moves bytes and time. Handlers may be called from
 * within `feed`, `tick` and `feedEnd`; what they throw is caught and answered as `internal_error`.
 */
import { LIMITS, MESSAGES, type MessageInfo } from "./generated/messages.ts";
import { ShepherdrError } from "./errors.ts";
import { checkFields } from "./params.ts";
import type { JsonObject } from "./frames.ts";
import { PlainSession, type Role, type SessionEvent } from "./session.ts";

export type Answer = { json: JsonObject; bulk: Buffer };

export type InboundRequest = {
  readonly message: number;
  readonly id: string;
  readonly json: JsonObject;
  readonly bulk: Buffer;
  readonly timeoutMs: number;
  /** The asker gave up, or its deadline passed. */
  readonly canceled: boolean;
  respond(json: JsonObject, bulk?: Uint8Array): void;
  fail(error: unknown): void;
};

export type PeerHandlers = {
  /** Responder: judge the peer's hello; return ours, or throw a ShepherdrError to refuse. */
  hello?(hello: JsonObject): JsonObject;
  established?(hello: JsonObject): void;
  request?(request: InboundRequest): void;
  notification?(message: number, json: JsonObject, bulk: Buffer): void;
  closed?(error: ShepherdrError | undefined): void;
};

export type RequestOptions = {
  id: string;
  timeoutMs: number;
  bulk?: Uint8Array;
  /** Aborting cancels the stream; the promise rejects with `canceled` at once. */
  signal?: AbortSignal;
};

/** Bulk that is being put together, over all streams of a link; more ends the stream that brings it. */
const ASSEMBLY_BYTES_MAX = 4 * LIMITS.messageBytesMax;

type Waiting = {
  resolve(answer: Answer): void;
  reject(error: ShepherdrError): void;
  info: MessageInfo;
  json: JsonObject | undefined;
  parts: Buffer[];
  bytes: number;
  cleanup(): void;
};

type Inbound = { event: Extract<SessionEvent, { type: "request" | "notification" }>; parts: Buffer[]; bytes: number; canceled: boolean };

export class Peer {
  readonly session: PlainSession;
  readonly #handlers: PeerHandlers;
  readonly #wake: () => void;
  readonly #clock: () => number;
  readonly #waiting = new Map<number, Waiting>();
  readonly #inbound = new Map<number, Inbound>();
  #assembling = 0;
  /** Notifications that were dropped because too many streams were open. */
  dropped = 0;

  /** `wake` is called when there is something to send or the deadline moved. */
  constructor(options: { role: Role; hello?: JsonObject; handlers: PeerHandlers; wake: () => void; clock: () => number }) {
    this.#handlers = options.handlers;
    this.#wake = options.wake;
    this.#clock = options.clock;
    this.session = new PlainSession({
      role: options.role,
      now: options.clock(),
      ...(options.hello === undefined ? {} : { hello: options.hello }),
    });
  }

  feed(chunk: Uint8Array): void {
    this.session.feed(chunk, this.#clock());
    this.#drain();
  }

  feedEnd(): void {
    this.session.feedEnd(this.#clock());
    this.#drain();
  }

  tick(): void {
    this.session.tick(this.#clock());
    this.#drain();
  }

  close(code?: ShepherdrError["code"], text = ""): void {
    this.session.close(code, text, this.#clock());
    this.#drain();
  }

  request(message: number, json: JsonObject, options: RequestOptions): Promise<Answer> {
    const info = MESSAGES[message];
    if (info === undefined) throw new Error(`no message ${message}`);
    return new Promise<Answer>((resolve, reject) => {
      const { signal } = options;
      if (signal?.aborted === true) {
        reject(new ShepherdrError("canceled"));
        return;
      }
      const bulk = options.bulk;
      if (bulk !== undefined && bulk.length > LIMITS.messageBytesMax) {
        reject(new ShepherdrError("message_too_large", { cause: `${bulk.length} bytes` }));
        return;
      }
      let stream: number;
      try {
        checkFields(info.params, json, { step: info.name, unknown: "refuse" });
        stream = this.session.request(message, options.id, options.timeoutMs, json, bulk === undefined, this.#clock());
        if (bulk !== undefined) this.session.sendBulk(stream, bulk, true);
      } catch (error) {
        reject(ShepherdrError.from(error));
        return;
      }
      const onAbort = (): void => {
        this.session.cancel(stream, "canceled", this.#clock());
        this.#drain();
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      const cleanup = (): void => signal?.removeEventListener("abort", onAbort);
      this.#waiting.set(stream, { resolve, reject, info, json: undefined, parts: [], bytes: 0, cleanup });
      this.#wake();
    });
  }

  notify(message: number, json: JsonObject): void {
    try {
      this.session.notify(message, json, true, this.#clock());
    } catch (error) {
      if (!(error instanceof ShepherdrError)) throw error;
      this.dropped++;
      return;
    }
    this.#wake();
  }

  // ---- events -----------------------------------------------------------------------------

  #drain(): void {
    for (let event = this.session.nextEvent(); event !== undefined; event = this.session.nextEvent()) {
      try {
        this.#take(event);
      } catch (error) {
        // A handler's mistake ends the link and not Pi.
        if (event.type !== "closed") this.session.close("internal_error", String(error), this.#clock());
      }
    }
    this.#wake();
  }

  #take(event: SessionEvent): void {
    switch (event.type) {
      case "hello":
        this.#takeHello(event.hello);
        return;
      case "established":
        this.#handlers.established?.(event.hello);
        return;
      case "request":
      case "notification":
        this.#inbound.set(event.stream, { event, parts: [], bytes: 0, canceled: false });
        if (event.fin) this.#complete(event.stream);
        return;
      case "response": {
        const waiting = this.#waiting.get(event.stream);
        if (waiting === undefined) return;
        waiting.json = event.json;
        if (event.fin) this.#answered(event.stream, waiting);
        return;
      }
      case "failed": {
        const waiting = this.#waiting.get(event.stream);
        if (waiting !== undefined) {
          this.#forget(event.stream, waiting);
          waiting.reject(event.error);
        }
        return;
      }
      case "bulk":
        this.#takeBulk(event);
        return;
      case "canceled": {
        const inbound = this.#inbound.get(event.stream);
        if (inbound !== undefined) {
          inbound.canceled = true;
          this.#inbound.delete(event.stream);
          this.#assembling -= inbound.bytes;
        }
        return;
      }
      case "closed":
        this.#assembling = 0;
        this.#inbound.clear();
        this.#handlers.closed?.(event.error);
        return;
    }
  }

  #takeHello(hello: JsonObject): void {
    try {
      this.session.setHello(this.#handlers.hello?.(hello) ?? {});
    } catch (error) {
      const refusal = ShepherdrError.from(error);
      this.session.close(refusal.code, refusal.reason ?? refusal.message, this.#clock());
    }
  }

  #takeBulk(event: Extract<SessionEvent, { type: "bulk" }>): void {
    // Credit goes back even when nobody wants the bytes any more; else the peer's half never ends.
    this.session.consume(event.stream, event.data.length);
    const holder = this.#waiting.get(event.stream) ?? this.#inbound.get(event.stream);
    if (holder === undefined) return;
    if (this.#assembling + event.data.length > ASSEMBLY_BYTES_MAX) {
      this.session.cancel(event.stream, "message_too_large", this.#clock());
      const inbound = this.#inbound.get(event.stream);
      if (inbound !== undefined) {
        this.#inbound.delete(event.stream);
        this.#assembling -= inbound.bytes;
      }
      return;
    }
    holder.parts.push(event.data);
    holder.bytes += event.data.length;
    this.#assembling += event.data.length;
    if (!event.fin) return;
    const waiting = this.#waiting.get(event.stream);
    if (waiting !== undefined) this.#answered(event.stream, waiting);
    else this.#complete(event.stream);
  }

  #forget(stream: number, waiting: Waiting): void {
    this.#waiting.delete(stream);
    this.#assembling -= waiting.bytes;
    waiting.cleanup();
  }

  #answered(stream: number, waiting: Waiting): void {
    this.#forget(stream, waiting);
    const json = waiting.json ?? {};
    try {
      checkFields(waiting.info.result, json, { step: waiting.info.name, unknown: "ignore" });
    } catch (error) {
      const cause = ShepherdrError.from(error).reason;
      waiting.reject(new ShepherdrError("protocol_error", { step: waiting.info.name, cause: `answer: ${cause}`, outcome: "unknown" }));
      return;
    }
    waiting.resolve({ json, bulk: Buffer.concat(waiting.parts) });
  }

  #complete(stream: number): void {
    const inbound = this.#inbound.get(stream);
    if (inbound === undefined) return;
    this.#assembling -= inbound.bytes;
    inbound.bytes = 0;
    const { event } = inbound;
    const bulk = Buffer.concat(inbound.parts);
    inbound.parts = [];
    const info = MESSAGES[event.message];
    if (event.type === "notification") {
      this.#inbound.delete(stream);
      if (info === undefined || info.kind !== "notification") return;
      try {
        checkFields(info.params, event.json, { step: info.name, unknown: "refuse" });
      } catch {
        return;
      }
      this.#handlers.notification?.(event.message, event.json, bulk);
      return;
    }
    this.#serve(stream, inbound, event, info, bulk);
  }

  #serve(stream: number, inbound: Inbound, event: Extract<SessionEvent, { type: "request" }>, info: MessageInfo | undefined, bulk: Buffer): void {
    const finish = (send: () => void): void => {
      if (inbound.canceled || this.#inbound.get(stream) !== inbound) return;
      this.#inbound.delete(stream);
      send();
      this.#wake();
    };
    const fail = (error: unknown): void => finish(() => this.session.fail(stream, ShepherdrError.from(error)));
    if (info === undefined || info.kind !== "request" || this.#handlers.request === undefined) {
      fail(new ShepherdrError("unknown_message", { cause: `message ${event.message}` }));
      return;
    }
    try {
      checkFields(info.params, event.json, { step: info.name, unknown: "refuse" });
      this.#handlers.request({
        message: event.message,
        id: event.id,
        json: event.json,
        bulk,
        timeoutMs: event.timeoutMs,
        get canceled() {
          return inbound.canceled;
        },
        respond: (json, answerBulk) =>
          finish(() => {
            try {
              const whole = answerBulk === undefined || answerBulk.length === 0;
              if (this.session.respond(stream, json, whole) && !whole) this.session.sendBulk(stream, answerBulk, true);
            } catch (error) {
              this.session.fail(stream, ShepherdrError.from(error));
            }
          }),
        fail,
      });
    } catch (error) {
      fail(error);
    }
  }
}

