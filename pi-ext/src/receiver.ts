/**
 * The receiver of this pi session: a unix socket on which helpers hand over requests of other
 * sessions, and events that they are told (spec/protocol.md sections 2, 8 and 11).
 */
import { timingSafeEqual, createHash } from "node:crypto";
import { chmodSync, existsSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { LIMITS, MESSAGE, PROTOCOL, SERVICES, type MachinesGetParams, type ServiceName, type SessionEventParams } from "./generated/messages.ts";
import { Bindings } from "./binding.ts";
import { Connection } from "./connection.ts";
import {
  PROTOCOL_RANGE,
  SOCKET_PATH_BYTES_MAX,
  descriptorPath,
  fallbackSocketDir,
  hostId,
  keepDescriptor,
  newToken,
  ownDirectory,
  processStart,
  removeDescriptor,
  socketName,
  sweep,
  type Descriptor,
} from "./descriptor.ts";
import { ShepherdrError, cutUtf8 } from "./errors.ts";
import type { Activity } from "./activity.ts";
import type { Entries } from "./entries.ts";
import type { JsonObject } from "./frames.ts";
import { Inbox, type Delivery } from "./inbox.ts";
import { checkFields } from "./params.ts";
import type { InboundRequest } from "./peer.ts";
import { Settlements } from "./settlement.ts";

export type ReceiverOptions = {
  pi: Pick<ExtensionAPI, "appendEntry" | "sendMessage">;
  sessionId: string;
  sessionFile: string;
  agentDir: string;
  runDir: string;
  entries: Entries;
  activity: Activity;
  clock: () => number;
  /** Asked once at start and again while it is unknown. */
  terminalId: () => Promise<string | undefined>;
  /** A notice for the person, at most once per cause. */
  notice: (text: string) => void;
  /** Rows of the machines that this session controls, as JSON text; undefined: it controls none. */
  machines: (params: MachinesGetParams, timeoutMs: number) => Promise<string | undefined>;
};

type Answered = { answer: JsonObject; text?: string; after?: () => void };

const refused = (cause: string, step = "hello"): ShepherdrError => new ShepherdrError("receiver_refused", { step, cause });

function sameSecret(a: unknown, b: string): boolean {
  const digest = (text: string): Buffer => createHash("sha256").update(text, "utf8").digest();
  return timingSafeEqual(digest(typeof a === "string" ? a : ""), digest(b)) && typeof a === "string";
}

function parentOf(from: Record<string, unknown>): { piSessionId: string; installation: string } {
  const { pi_session_id: piSessionId, installation } = from;
  const bad = (field: string): ShepherdrError => new ShepherdrError("invalid_params", { step: "session_request", cause: `from.${field}: missing or too long` });
  if (typeof piSessionId !== "string" || piSessionId === "" || piSessionId.length > 128) throw bad("pi_session_id");
  if (typeof installation !== "string" || installation === "" || installation.length > 64) throw bad("installation");
  return { piSessionId, installation };
}

export class Receiver {
  readonly #o: ReceiverOptions;
  readonly #token = newToken();
  readonly #host = hostId();
  readonly inbox: Inbox;
  readonly settlements: Settlements;
  readonly bindings: Bindings;
  readonly #connections = new Set<Connection>();
  #server: Server | undefined;
  #socketPath = "";
  #terminal: string | undefined;
  #ready = false;
  #stopped = false;
  #noticed = false;

  constructor(options: ReceiverOptions) {
    this.#o = options;
    const { pi, sessionId, entries, clock } = options;
    this.settlements = new Settlements(entries);
    this.inbox = new Inbox({ pi, sessionId, entries, settlements: this.settlements, clock });
    this.bindings = new Bindings({ pi, sessionId, entries });
  }

  get descriptorFile(): string {
    return descriptorPath(this.#o.runDir, this.#o.sessionId);
  }

  get socketPath(): string {
    return this.#socketPath;
  }

  get connections(): number {
    return this.#connections.size;
  }

  // ---- life ---------------------------------------------------------------------------------

  /** Listen, then write the descriptor. A failure is a notice, never an exception: Pi works without us. */
  async start(): Promise<void> {
    try {
      ownDirectory(this.#o.runDir);
      sweep(this.#o.runDir, this.#host);
      await this.#listen();
      const terminal = await this.#o.terminalId();
      if (this.#stopped) return;
      this.#terminal = terminal;
      this.#ready = true;
      this.maintain();
    } catch (error) {
      this.#trouble(error);
    }
  }

  /** At `agent_start` and every 30 s: make again what is missing. */
  maintain(): void {
    if (!this.#ready || this.#stopped) return;
    try {
      ownDirectory(this.#o.runDir);
      if (this.#server === undefined || !existsSync(this.#socketPath)) {
        this.#closeServer();
        this.#listen().then(
          () => this.#keep(),
          (error: unknown) => this.#trouble(error),
        );
        return;
      }
      this.#keep();
    } catch (error) {
      this.#trouble(error);
    }
  }

  /** While the terminal is unknown in Herdr, ask again. */
  async refreshTerminal(): Promise<void> {
    if (!this.#ready || this.#stopped || this.#terminal !== undefined) return;
    const terminal = await this.#o.terminalId();
    if (terminal === undefined || this.#stopped) return;
    this.#terminal = terminal;
    this.maintain();
  }

  stop(reason: string): void {
    if (this.#stopped) return;
    this.#event({ event: "closing", reason: cutUtf8(reason, 512) });
    this.#stopped = true;
    for (const connection of this.#connections) connection.close("shutting_down", reason);
    this.#closeServer();
    try {
      removeDescriptor(this.descriptorFile, this.#token);
    } catch {
      // The directory is gone; so is the descriptor.
    }
  }

  #trouble(error: unknown): void {
    if (this.#noticed || this.#stopped) return;
    this.#noticed = true;
    this.#o.notice(`shepherdr: this session cannot receive messages: ${error instanceof Error ? error.message : String(error)}`);
  }

  #keep(): void {
    if (this.#stopped) return;
    const start = processStart(process.pid);
    const descriptor: Descriptor = {
      version: 1,
      socket: this.#socketPath,
      host: this.#host,
      agent_dir: this.#o.agentDir,
      pi_session_id: this.#o.sessionId,
      session_file: this.#o.sessionFile,
      ...(this.#terminal === undefined ? {} : { terminal_id: this.#terminal }),
      pid: process.pid,
      ...(start === undefined ? {} : { start }),
      token: this.#token,
      protocol: PROTOCOL_RANGE,
    };
    keepDescriptor(this.descriptorFile, descriptor);
  }

  async #listen(): Promise<void> {
    const name = socketName(this.#o.sessionId);
    const beside = join(this.#o.runDir, name);
    if (Buffer.byteLength(beside, "utf8") <= SOCKET_PATH_BYTES_MAX) {
      try {
        await this.#listenAt(beside);
        return;
      } catch {
        // The file system refuses sockets; the short directory is on another one.
      }
    }
    const fallback = fallbackSocketDir();
    ownDirectory(fallback);
    await this.#listenAt(join(fallback, name));
  }

  #listenAt(path: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const server = createServer((socket) => this.#accept(socket));
      server.unref();
      server.once("error", reject);
      server.listen(path, () => {
        server.off("error", reject);
        server.on("error", (error) => this.#trouble(error));
        if (this.#stopped) {
          server.close();
          reject(new Error("stopped"));
          return;
        }
        chmodSync(path, 0o600);
        this.#server = server;
        this.#socketPath = path;
        resolve();
      });
    });
  }

  #closeServer(): void {
    const server = this.#server;
    this.#server = undefined;
    server?.close();
    if (this.#socketPath !== "") rmSync(this.#socketPath, { force: true });
  }

  // ---- connections --------------------------------------------------------------------------

  #accept(socket: Socket): void {
    if (this.#stopped) {
      socket.destroy();
      return;
    }
    const full = this.#connections.size >= LIMITS.receiversMax;
    const connection: Connection = new Connection({
      input: socket,
      output: socket,
      role: "responder",
      handlers: {
        hello: (hello) => {
          if (full) throw new ShepherdrError("too_many_streams", { cause: `${LIMITS.receiversMax} connections are open` });
          return this.#hello(hello);
        },
        request: (request) => this.#serve(request),
        closed: () => this.#connections.delete(connection),
      },
    });
    if (!full) this.#connections.add(connection);
  }

  #hello(hello: JsonObject): JsonObject {
    if (!sameSecret(hello["token"], this.#token)) throw new ShepherdrError("auth_failed", { step: "hello" });
    const versions = hello["versions"];
    const [min, max] = Array.isArray(versions) ? (versions as unknown[]) : [];
    if (typeof min !== "number" || typeof max !== "number" || min > PROTOCOL.versionMax || max < PROTOCOL.versionMin) {
      throw new ShepherdrError("version_unsupported", { step: "hello", cause: `we speak ${PROTOCOL.versionMin} to ${PROTOCOL.versionMax}` });
    }
    if (hello["role"] !== "helper") throw new ShepherdrError("protocol_error", { step: "hello", cause: "only helpers connect here" });
    return {
      versions: PROTOCOL_RANGE,
      role: "receiver",
      pi_session_id: this.#o.sessionId,
      session_file: this.#o.sessionFile,
      ...(this.#terminal === undefined ? {} : { terminal_id: this.#terminal }),
    };
  }

  #event(event: Omit<SessionEventParams, "pi_session_id">): void {
    if (this.#stopped) return;
    const params: SessionEventParams = { pi_session_id: this.#o.sessionId, ...event };
    for (const connection of this.#connections) {
      if (connection.peer.session.established) connection.peer.notify(MESSAGE.sessionEvent, params);
    }
  }

  // ---- what Pi tells ------------------------------------------------------------------------

  /** Messages of earlier processes that never reached the session. */
  sessionStarted(): void {
    this.check();
    this.injectWaiting();
  }

  /** Hand over what was accepted and not injected yet, when Pi can take it. */
  injectWaiting(): void {
    if (this.#stopped || this.#o.activity.busy || this.#o.activity.starting) return;
    this.inbox.injectOpen();
    this.check();
  }

  runStarted(): void {
    this.settlements.runStarted();
    this.maintain();
    this.#event({ event: "started" });
  }

  /** After anything that may have put a message into the session. */
  check(): void {
    const delivered = this.inbox.check(this.#o.activity.inRun);
    this.#tellInputs(delivered, { event: "delivered" });
  }

  /** Pi's final settle. `queuesEmpty`: what is not in the session now was dropped. */
  settled(aborted: boolean, queuesEmpty: boolean): void {
    const delivered = this.inbox.check(true);
    this.#tellInputs(delivered, { event: "delivered" });
    const inputs = this.settlements.settled(aborted);
    const entry = this.#o.entries.newestAssistant();
    const leaf = this.#o.entries.leaf();
    this.#tellInputs(
      inputs,
      { event: "settled", aborted, ...(entry === undefined ? {} : { entry_id: entry }), ...(leaf === undefined ? {} : { leaf }) },
      true,
    );
    if (queuesEmpty) this.recheckDropped(this.#o.clock(), aborted);
  }

  recheckDropped(since: number, aborted: boolean): void {
    if (this.#stopped) return;
    this.inbox.reinjectDropped(since, aborted);
    this.check();
  }

  #tellInputs(ids: string[], event: Omit<SessionEventParams, "pi_session_id">, always = false): void {
    if (ids.length === 0 && !always) return;
    for (let i = 0; i === 0 || i < ids.length; i += 64) this.#event({ ...event, inputs: ids.slice(i, i + 64) });
  }

  // ---- services -----------------------------------------------------------------------------

  #serve(request: InboundRequest): void {
    const { to, terminal_id: terminal, service, from, payload } = request.json as {
      to?: string;
      terminal_id?: string;
      service: ServiceName;
      from: Record<string, unknown>;
      payload: JsonObject;
    };
    if (request.message !== MESSAGE.sessionRequest) throw new ShepherdrError("unknown_message");
    if (this.#stopped) throw new ShepherdrError("receiver_busy", { step: service, cause: "the session ends" });
    if (to !== undefined && to !== this.#o.sessionId) throw refused(`this is pi session ${this.#o.sessionId}`, service);
    if (terminal !== undefined && terminal !== this.#terminal) throw refused("the session runs in another terminal", service);
    checkFields(SERVICES[service].payload, payload, { step: service, unknown: "refuse" });
    const parent = parentOf(from);
    if (service === "machines") {
      this.#machines(request, payload);
      return;
    }
    const done = this.#service(service, request, from, parent, payload);
    request.respond({ answer: done.answer }, done.text === undefined ? undefined : Buffer.from(done.text, "utf8"));
    done.after?.();
  }

  #machines(request: InboundRequest, payload: JsonObject): void {
    this.#o.machines(payload as MachinesGetParams, request.timeoutMs).then(
      (rows) => request.respond({ answer: { controller: rows !== undefined } }, Buffer.from(rows ?? "[]", "utf8")),
      (error: unknown) => request.fail(error),
    );
  }

  #service(
    service: Exclude<ServiceName, "machines">,
    request: InboundRequest,
    from: Record<string, unknown>,
    parent: { piSessionId: string; installation: string },
    payload: JsonObject,
  ): Answered {
    switch (service) {
      case "bind":
        return this.#bind(parent, payload);
      case "deliver":
        return this.#deliver(request, from, payload);
      case "delivery_status":
        return { answer: { state: this.inbox.state(payload["id"] as string) } };
      case "settlement": {
        this.check();
        const input = payload["input"] as string;
        const { answer, text } = this.settlements.answer(input, this.inbox.knows(input));
        return { answer, text };
      }
      case "session_state": {
        const leaf = this.#o.entries.leaf();
        return {
          answer: {
            idle: this.#o.activity.idle,
            compacting: this.#o.activity.compacting,
            ...(leaf === undefined ? {} : { leaf }),
            session_file: this.#o.sessionFile,
          },
        };
      }
    }
  }

  #bind(parent: { piSessionId: string; installation: string }, payload: JsonObject): Answered {
    const capability = payload["capability"] as string;
    if (!/^[0-9a-f]{64}$/u.test(capability)) {
      throw new ShepherdrError("invalid_params", { step: "bind", cause: "capability: not 64 hex digits" });
    }
    const rebound = this.bindings.bind(parent, payload["agent"] as string, capability);
    return { answer: { pi_session_id: this.#o.sessionId, session_file: this.#o.sessionFile, rebound } };
  }

  #deliver(request: InboundRequest, from: Record<string, unknown>, payload: JsonObject): Answered {
    const delivery: Delivery = {
      id: request.id,
      from,
      kind: payload["kind"] as Delivery["kind"],
      sender: payload["sender"] as Record<string, unknown>,
      text: request.bulk.toString("utf8"),
    };
    if (delivery.text.trim() === "") throw new ShepherdrError("invalid_params", { step: "deliver", cause: "text: blank" });
    if (delivery.text.startsWith("/")) {
      throw new ShepherdrError("receiver_refused", {
        step: "deliver",
        cause: "a text that begins with / is a command, and this version delivers no commands",
        next: "Send the message without a leading slash.",
      });
    }
    const known = this.inbox.receipt(delivery);
    if (known !== undefined) return { answer: { accepted: true, provisional: known.provisional, duplicate: true } };
    if (this.#o.activity.busy) throw new ShepherdrError("receiver_busy", { step: "deliver" });
    const { provisional } = this.inbox.accept(delivery);
    return { answer: { accepted: true, provisional, duplicate: false }, after: () => this.injectWaiting() };
  }
}
