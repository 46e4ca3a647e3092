/**
 * The only file with sockets and pipes: joins a Peer to a pair of streams.
 *
 * Everything here is unref'd, so a link never keeps Pi from ending; who waits for an answer keeps
 * the process alive himself. Every callback is guarded: an exception in one would end Pi.
 */
import type { Readable, Writable } from "node:stream";
import { Peer, type PeerHandlers } from "./peer.ts";
import type { JsonObject } from "./frames.ts";
import type { Role } from "./session.ts";

type Unrefable = { unref?: () => unknown };

const CLOSE_GRACE_MS = 1000;

export class Connection {
  readonly peer: Peer;
  readonly #input: Readable;
  readonly #output: Writable;
  #timer: NodeJS.Timeout | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  #blocked = false;
  #ended = false;
  #pumping = false;

  constructor(options: {
    input: Readable;
    output: Writable;
    role: Role;
    hello?: JsonObject;
    handlers: PeerHandlers;
  }) {
    this.#input = options.input;
    this.#output = options.output;
    const handlers: PeerHandlers = {
      ...options.handlers,
      closed: (error) => {
        this.#finish();
        options.handlers.closed?.(error);
      },
    };
    this.peer = new Peer({
      role: options.role,
      handlers,
      wake: () => this.#pump(),
      clock: () => performance.now(),
      ...(options.hello === undefined ? {} : { hello: options.hello }),
    });
    this.#input.on("data", this.#onData);
    this.#input.on("end", this.#onEnd);
    this.#input.on("close", this.#onEnd);
    this.#input.on("error", this.#onEnd);
    this.#output.on("drain", this.#onDrain);
    this.#output.on("error", this.#onEnd);
    this.#output.on("close", this.#onEnd);
    for (const thing of [this.#input as Unrefable, this.#output as Unrefable]) thing.unref?.();
    this.#pump();
  }

  /** Orderly end; the streams are destroyed when the close frame is out. */
  close(code?: Parameters<Peer["close"]>[0], text = ""): void {
    this.peer.close(code, text);
  }

  /** End without a word. */
  destroy(): void {
    this.peer.feedEnd();
    this.#destroyStreams();
  }

  readonly #onData = (chunk: Buffer): void => {
    this.peer.feed(chunk);
  };

  readonly #onEnd = (): void => {
    this.peer.feedEnd();
    this.#destroyStreams();
  };

  readonly #onDrain = (): void => {
    this.#blocked = false;
    this.#pump();
  };

  #pump(): void {
    // wake comes before the constructor has set `peer`, and from within our own writes.
    if (this.#pumping || this.peer === undefined) return;
    this.#pumping = true;
    try {
      while (!this.#blocked && !this.#ended && this.#output.writable) {
        const bytes = this.peer.session.output(performance.now());
        if (bytes === undefined) break;
        if (!this.#output.write(bytes)) this.#blocked = true;
      }
    } finally {
      this.#pumping = false;
    }
    this.#arm();
  }

  #arm(): void {
    const due = this.#ended ? Number.POSITIVE_INFINITY : this.peer.session.deadline();
    if (due === this.#timerAt && this.#timer !== undefined) return;
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#timerAt = due;
    if (due === Number.POSITIVE_INFINITY) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.peer.tick();
    }, Math.max(1, Math.ceil(due - performance.now())));
    this.#timer.unref();
  }

  /** The session is closed: let what is queued go out, then end the streams. */
  #finish(): void {
    setImmediate(() => {
      this.#pump();
      this.#ended = true;
      this.#arm();
      if (this.#output.writable) this.#output.end();
      const grace = setTimeout(() => this.#destroyStreams(), CLOSE_GRACE_MS);
      grace.unref();
    }).unref();
  }

  #destroyStreams(): void {
    this.#ended = true;
    this.#arm();
    this.#input.destroy();
    this.#output.destroy();
  }
}
