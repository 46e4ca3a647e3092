/**
 * The controller of this session: find its program, start it, keep it, end it.
 *
 * One child at a time, in its own process group, everything unref'd; a call that somebody waits
 * for keeps Pi alive. When it crashes it is started again with a growing delay, and the calls
 * that were under way are repeated with their operation ids. After several quick failures we stop
 * and say so; the next call tries again. Its standard input is its life: closing it ends it.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { accessSync, constants, statSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, dirname, isAbsolute, join } from "node:path";
import { fileURLToPath } from "node:url";
import { LIMITS, MESSAGE, PROTOCOL, type LedgerMarkParams, type MachinesGetParams, type SessionOpenParams, type SessionOpenResult } from "./generated/messages.ts";
import { Connection } from "./connection.ts";
import { ShepherdrError } from "./errors.ts";
import type { JsonObject } from "./frames.ts";
import { PACKAGE_NAME } from "./names.ts";
import type { Answer, InboundRequest } from "./peer.ts";

export type Found = { path: string | undefined; looked: string[] };

function executable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** `SHEPHERDR_BIN`, the platform package, the repository's build, PATH. A wrong SHEPHERDR_BIN is not passed over. */
export function findBinary(env: NodeJS.ProcessEnv = process.env, moduleUrl: string = import.meta.url): Found {
  const looked: string[] = [];
  const set = env["SHEPHERDR_BIN"];
  if (set !== undefined && set !== "") {
    looked.push(`SHEPHERDR_BIN=${set}`);
    return { path: isAbsolute(set) && executable(set) ? set : undefined, looked };
  }
  const platformPackage = `${PACKAGE_NAME}-${process.platform}-${process.arch}`;
  looked.push(`package ${platformPackage}`);
  try {
    const manifest = createRequire(moduleUrl).resolve(`${platformPackage}/package.json`);
    const path = join(dirname(manifest), "bin", "shepherdr");
    if (executable(path)) return { path, looked };
  } catch {
    // Not installed.
  }
  const here = dirname(fileURLToPath(moduleUrl));
  // From pi-ext/src, and from the bundle in build/pi-ext.
  for (const path of [join(here, "..", "..", "build", "bin", "shepherdr"), join(here, "..", "bin", "shepherdr")]) {
    looked.push(path);
    if (executable(path)) return { path, looked };
  }
  looked.push("PATH");
  for (const dir of (env["PATH"] ?? "").split(delimiter)) {
    const path = join(dir, "shepherdr");
    if (isAbsolute(dir) && executable(path)) return { path, looked };
  }
  return { path: undefined, looked };
}

/** The controller reads its context from session_open only, and gives none of ours to its children. */
export function childEnv(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith("HERDR_") && !name.startsWith("PI_")));
}

export function newId(): string {
  return randomBytes(16).toString("hex");
}

export type CallResult = { value: JsonObject; warning: string | undefined };

export type ControllerOptions = {
  find: () => Found;
  env: NodeJS.ProcessEnv;
  context: () => SessionOpenParams;
  onReport: (report: { id: string; details: JsonObject; text: string }) => boolean;
  onNotice: (text: string, level: "info" | "warning") => void;
  onOpen?: (opened: SessionOpenResult) => void;
  args?: string[];
  backoffMs?: { first: number; max: number };
};

type Live = { child: ChildProcess; connection: Connection; opened: SessionOpenResult; startedAt: number };

const OPEN_TIMEOUT_MS = 30_000;
const MARK_TIMEOUT_MS = 10_000;
const EXIT_GRACE_MS = 2_000;
/** A controller that lived for this long did start; its end is not a quick failure. */
const SETTLED_AFTER_MS = 10_000;
const QUICK_FAILURES_MAX = 5;

export class Controller {
  readonly #o: ControllerOptions;
  readonly #backoff: { first: number; max: number };
  #live: Live | undefined;
  #starting: Promise<Live> | undefined;
  #child: ChildProcess | undefined;
  #quickFailures = 0;
  #lastFailure: ShepherdrError | undefined;
  /** Keep it running although no call waits: it was started for the session's sake. */
  #wanted = false;
  #stopped = false;
  #retry: NodeJS.Timeout | undefined;
  #calls = 0;
  readonly #progress = new Map<string, (value: JsonObject) => void>();
  readonly #notices = new Set<string>();

  constructor(options: ControllerOptions) {
    this.#o = options;
    this.#backoff = options.backoffMs ?? { first: 250, max: 30_000 };
  }

  get running(): boolean {
    return this.#live !== undefined;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  get lastFailure(): ShepherdrError | undefined {
    return this.#lastFailure;
  }

  locate(): Found {
    return this.#o.find();
  }

  /** Start in the background and keep running. */
  wake(): void {
    if (this.#stopped) return;
    this.#wanted = true;
    this.#ensure().catch(() => {
      // Said by #failed; the next call tries again.
    });
  }

  // ---- calls --------------------------------------------------------------------------------

  /** One call of the tool. Repeated with the same operation id when the controller crashes meanwhile. */
  async call(
    operation: string,
    call: JsonObject,
    message: string | undefined,
    signal: AbortSignal | undefined,
    onProgress: ((value: JsonObject) => void) | undefined,
  ): Promise<CallResult> {
    this.#quickFailures = 0;
    this.#calls++;
    // Everything of ours is unref'd; without this a `pi -p` that waits for us would just end.
    const keepAlive = setInterval(() => undefined, 1 << 30);
    if (onProgress !== undefined) this.#progress.set(operation, onProgress);
    try {
      for (;;) {
        const live = await raceAbort(this.#ensure(), signal);
        try {
          return this.#result(await this.#ask(live, operation, call, message, signal));
        } catch (error) {
          const failure = ShepherdrError.from(error);
          if (signal?.aborted === true || this.#stopped || !isLinkEnd(failure)) throw failure;
          if (this.#quickFailures >= QUICK_FAILURES_MAX) throw this.#lastFailure ?? failure;
        }
      }
    } finally {
      clearInterval(keepAlive);
      this.#calls--;
      this.#progress.delete(operation);
    }
  }

  #ask(live: Live, operation: string, call: JsonObject, message: string | undefined, signal: AbortSignal | undefined): Promise<Answer> {
    return live.connection.peer.request(
      MESSAGE.agentsCall,
      { operation, has_message: message !== undefined, call },
      {
        id: newId(),
        timeoutMs: LIMITS.requestTimeoutMsMax,
        ...(message === undefined ? {} : { bulk: Buffer.from(message, "utf8") }),
        ...(signal === undefined ? {} : { signal }),
      },
    );
  }

  #result(answer: Answer): CallResult {
    const value = answer.json["value"] as JsonObject;
    const field = answer.json["bulk_field"];
    const warning = answer.json["warning"];
    return {
      value: typeof field === "string" ? withBulk(value, field, answer.bulk.toString("utf8")) : value,
      warning: typeof warning === "string" && warning !== "" ? warning : undefined,
    };
  }

  /** Rows of the machines (JSON text) of a controller that runs; undefined: none does, and none is started for this. */
  async machines(params: MachinesGetParams, timeoutMs: number): Promise<string | undefined> {
    const live = this.#live;
    if (live === undefined) return undefined;
    const { bulk } = await live.connection.peer.request(MESSAGE.machinesGet, params, { id: newId(), timeoutMs });
    return bulk.toString("utf8");
  }

  async mark(params: LedgerMarkParams): Promise<void> {
    const live = this.#live;
    if (live === undefined) throw new ShepherdrError("link_lost", { step: "ledger_mark" });
    await live.connection.peer.request(MESSAGE.ledgerMark, params, { id: newId(), timeoutMs: MARK_TIMEOUT_MS });
  }

  // ---- life ---------------------------------------------------------------------------------

  #ensure(): Promise<Live> {
    if (this.#stopped) return Promise.reject(new ShepherdrError("shutting_down"));
    if (this.#live !== undefined) return Promise.resolve(this.#live);
    if (this.#starting !== undefined) return this.#starting;
    if (this.#retry !== undefined) clearTimeout(this.#retry);
    this.#retry = undefined;
    const starting = this.#startPatiently().finally(() => {
      if (this.#starting === starting) this.#starting = undefined;
    });
    this.#starting = starting;
    return starting;
  }

  /** Start, and again after a growing pause, until it is open or it failed too often. */
  async #startPatiently(): Promise<Live> {
    for (;;) {
      if (this.#quickFailures > 0) await this.#pause();
      if (this.#stopped) throw new ShepherdrError("shutting_down");
      try {
        const live = await this.#start();
        this.#live = live;
        this.#lastFailure = undefined;
        return live;
      } catch (error) {
        const failure = ShepherdrError.from(error, "controller_missing");
        this.#lastFailure = failure;
        this.#quickFailures++;
        const lasting = failure.code === "session_in_use" || failure.code === "store_failed" || failure.step === "find";
        if (lasting || this.#quickFailures >= QUICK_FAILURES_MAX) {
          this.#sayOnce(`shepherdr: ${failure.describe()}`);
          throw failure;
        }
      }
    }
  }

  #pause(): Promise<void> {
    const delay = Math.min(this.#backoff.max, this.#backoff.first * 2 ** (this.#quickFailures - 1));
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, delay);
      timer.unref();
    });
  }

  async #start(): Promise<Live> {
    const found = this.#o.find();
    if (found.path === undefined) {
      throw new ShepherdrError("controller_missing", { step: "find", cause: `looked at ${found.looked.join(", ")}` });
    }
    const child = spawn(found.path, this.#o.args ?? ["controller", "--stdio"], {
      cwd: "/",
      detached: true,
      env: childEnv(this.#o.env),
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#child = child;
    let diagnostics = Buffer.alloc(0);
    let spawnError: Error | undefined;
    child.on("error", (error) => {
      spawnError = error;
    });
    child.stderr.on("data", (chunk: Buffer) => {
      diagnostics = Buffer.concat([diagnostics, chunk]).subarray(-LIMITS.diagnosticBytesMax);
    });
    child.stderr.on("error", () => undefined);
    (child.stderr as unknown as { unref?: () => void }).unref?.();
    child.unref();
    const why = (): string => {
      const tail = diagnostics.toString("utf8").trim();
      const how = spawnError?.message ?? (child.exitCode !== null ? `exit code ${child.exitCode}` : child.signalCode !== null ? `signal ${child.signalCode}` : "");
      return [how, tail].filter((part) => part !== "").join(": ");
    };
    const startedAt = performance.now();
    let established: () => void = () => undefined;
    let broken: (error: ShepherdrError) => void = () => undefined;
    const ready = new Promise<void>((resolve, reject) => {
      established = resolve;
      broken = reject;
    });
    const connection: Connection = new Connection({
      input: child.stdout,
      output: child.stdin,
      role: "initiator",
      hello: { versions: [PROTOCOL.versionMin, PROTOCOL.versionMax], role: "pi_ext" },
      handlers: {
        established: (hello) => {
          const [min, max] = Array.isArray(hello["versions"]) ? (hello["versions"] as unknown[]) : [];
          if (typeof min === "number" && typeof max === "number" && min <= PROTOCOL.versionMax && max >= PROTOCOL.versionMin) established();
          else broken(new ShepherdrError("version_unsupported", { step: "hello" }));
        },
        request: (request) => this.#serve(request),
        notification: (message, json) => {
          if (message === MESSAGE.agentsProgress) this.#progress.get(json["operation"] as string)?.(json["value"] as JsonObject);
        },
        closed: (error) => {
          // The exit status comes a moment after the end of its output.
          const timer = setTimeout(() => {
            broken(new ShepherdrError("controller_missing", { step: "start", cause: why() || error?.reason || "it ended before it answered" }));
          }, 50);
          timer.unref();
          this.#ended(connection, startedAt, why);
        },
      },
    });
    try {
      await ready;
      const answer = await connection.peer.request(MESSAGE.sessionOpen, this.#o.context(), { id: newId(), timeoutMs: OPEN_TIMEOUT_MS });
      const opened = answer.json as unknown as SessionOpenResult;
      if (this.#stopped) throw new ShepherdrError("shutting_down");
      for (const notice of opened.notices ?? []) if (typeof notice === "string") this.#sayOnce(notice);
      this.#o.onOpen?.(opened);
      return { child, connection, opened, startedAt };
    } catch (error) {
      connection.close();
      child.stdin.end();
      const failure = ShepherdrError.from(error);
      if (!isLinkEnd(failure)) throw failure;
      throw new ShepherdrError("controller_missing", { step: "session_open", cause: why() || failure.reason });
    }
  }

  #serve(request: InboundRequest): void {
    if (request.message !== MESSAGE.reportPush) throw new ShepherdrError("unknown_message");
    if (this.#stopped) throw new ShepherdrError("shutting_down");
    const accepted = this.#o.onReport({
      id: request.json["report"] as string,
      details: request.json["details"] as JsonObject,
      text: request.bulk.toString("utf8"),
    });
    request.respond({ accepted });
  }

  /** The link ended. Start again when the session needs it; a waiting call does so by itself. */
  #ended(connection: Connection, startedAt: number, why: () => string): void {
    if (this.#live?.connection !== connection) return;
    this.#live = undefined;
    if (this.#stopped) return;
    this.#quickFailures = performance.now() - startedAt < SETTLED_AFTER_MS ? this.#quickFailures + 1 : 1;
    if (this.#quickFailures >= QUICK_FAILURES_MAX) {
      this.#lastFailure = new ShepherdrError("controller_missing", { step: "run", cause: why() || "it ended several times" });
      this.#sayOnce(`shepherdr: the controller ended ${this.#quickFailures} times in a row. ${this.#lastFailure.describe()}`);
      return;
    }
    if (!this.#wanted || this.#retry !== undefined) return;
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      this.wake();
    }, 0);
    this.#retry.unref();
  }

  #sayOnce(text: string): void {
    if (this.#stopped || this.#notices.has(text)) return;
    this.#notices.add(text);
    this.#o.onNotice(text, "warning");
  }

  /** Close its input and give it a moment: the next controller of this session needs its lock. */
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    if (this.#retry !== undefined) clearTimeout(this.#retry);
    const child = this.#child;
    const live = this.#live;
    this.#live = undefined;
    live?.connection.close("shutting_down", "the session ends");
    if (child === undefined || child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
    child.ref();
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => {
        child.kill("SIGTERM");
        resolve();
      }, EXIT_GRACE_MS);
      child.once("exit", () => {
        clearTimeout(timer);
        resolve();
      });
      // The close frame goes first; what is left of the pipe goes with it.
      setImmediate(() => child.stdin?.end());
    });
    child.unref();
  }
}

/** The bulk as one field of the value; the field `*` is the whole value as JSON. */
function withBulk(value: JsonObject, field: string, bulk: string): JsonObject {
  if (field !== "*") return { ...value, [field]: bulk };
  let whole: unknown;
  try {
    whole = JSON.parse(bulk);
  } catch {
    whole = undefined;
  }
  if (typeof whole !== "object" || whole === null || Array.isArray(whole)) {
    throw new ShepherdrError("protocol_error", { step: "agents_call", cause: "the answer's bulk is no JSON object", outcome: "unknown" });
  }
  return whole as JsonObject;
}

/** The controller ended. A machine whose link broke is an answer of a controller that lives. */
function isLinkEnd(error: ShepherdrError): boolean {
  if (error.answered) return error.code === "shutting_down" && error.machine === undefined;
  return error.code === "link_lost" || error.code === "silence" || error.code === "shutting_down";
}

/** Rejects with `canceled` as soon as the signal fires; the work itself goes on. */
function raceAbort<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => reject(new ShepherdrError("canceled"));
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
