/**
 * One session of Pi, from session_start to session_shutdown: receiver, ledger, controller and tool
 * joined to Pi's events.
 *
 * A call on a stale context kills Pi. So every callback that comes from elsewhere (sockets, timers,
 * the child) goes through `guard`, which does nothing once the session has ended and lets no
 * exception out.
 */
import { readdirSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import type { ExtensionAPI, ExtensionContext, SessionStartEvent } from "@earendil-works/pi-coding-agent";
import { Activity, PREFLIGHT_MS } from "./activity.ts";
import { agentsTool, type AgentsToolDefinition } from "./agents-tool.ts";
import { runCommand } from "./command.ts";
import { Controller, findBinary, type CallResult, type Found } from "./controller.ts";
import { Entries } from "./entries.ts";
import { ShepherdrError, cutUtf8 } from "./errors.ts";
import { MESSAGES, type FieldInfo, type SessionOpenParams, MESSAGE } from "./generated/messages.ts";
import { IDLE_RECHECK_MS } from "./inbox.ts";
import { Ledger } from "./ledger.ts";
import { COMMAND_NAME, EVENT_TYPE, MESSAGE_TYPE, TOOL_NAME, agentDir, inHerdr, runDir } from "./names.ts";
import { Receiver } from "./receiver.ts";
import { terminalId } from "./terminal.ts";

const MAINTAIN_MS = 30_000;

export type Renderers = {
  call: NonNullable<AgentsToolDefinition["renderCall"]>;
  result: NonNullable<AgentsToolDefinition["renderResult"]>;
  message: Parameters<ExtensionAPI["registerMessageRenderer"]>[1];
  event: Parameters<ExtensionAPI["registerMessageRenderer"]>[1];
};

export type RuntimeOptions = {
  env?: NodeJS.ProcessEnv;
  argv?: string[];
  find?: () => Found;
  runDir?: string;
  renderers?: Renderers;
};

/** A worker was started with the copy that its parent pushed; it is no root session. */
export function startedAsWorker(argv: string[]): boolean {
  return argv.some((argument) => /\/shepherdr\/ext\/pi-ext-[0-9a-f]+\.mjs$/u.test(argument));
}

/** A store of this session exists: something may be open in it. */
export function hasStore(directory: string, sessionId: string): boolean {
  try {
    return readdirSync(join(directory, "shepherdr", "state")).some((name) => name.startsWith(`${sessionId}-`) && name.endsWith(".db"));
  } catch {
    return false;
  }
}

export class Runtime {
  readonly #pi: ExtensionAPI;
  readonly #ctx: ExtensionContext;
  readonly #env: NodeJS.ProcessEnv;
  readonly #argv: string[];
  readonly #entries: Entries;
  readonly #activity: Activity;
  readonly #ledger: Ledger;
  readonly #receiver: Receiver | undefined;
  readonly controller: Controller;
  readonly #options: RuntimeOptions;
  readonly #clock = (): number => performance.now();
  #idleSince: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #disposed = false;

  constructor(pi: ExtensionAPI, ctx: ExtensionContext, options: RuntimeOptions = {}) {
    this.#pi = pi;
    this.#ctx = ctx;
    this.#options = options;
    this.#env = options.env ?? process.env;
    this.#argv = options.argv ?? process.argv;
    this.#entries = new Entries(ctx.sessionManager);
    this.#activity = new Activity(() => !this.#disposed && ctx.isIdle(), this.#clock);
    this.controller = new Controller({
      find: options.find ?? (() => findBinary(this.#env)),
      env: this.#env,
      context: () => this.#sessionOpen(),
      onReport: (report) => {
        if (this.#disposed) throw new ShepherdrError("shutting_down");
        return this.#ledger.push(report);
      },
      onNotice: (text, level) => this.#guard(() => this.#ctx.ui.notify(text, level)),
    });
    this.#ledger = new Ledger({
      pi,
      entries: this.#entries,
      activity: this.#activity,
      clock: this.#clock,
      mark: (reports, state) => this.controller.mark({ reports, state }),
    });
    const file = ctx.sessionManager.getSessionFile();
    if (file !== undefined) {
      const { mode } = ctx;
      this.#receiver = new Receiver({
        pi,
        sessionId: ctx.sessionManager.getSessionId(),
        sessionFile: file,
        agentDir: agentDir(this.#env),
        runDir: options.runDir ?? runDir(),
        entries: this.#entries,
        activity: this.#activity,
        clock: this.#clock,
        terminalId: () => terminalId(mode, this.#env),
        notice: (text) => this.#guard(() => this.#ctx.ui.notify(text, "warning")),
        machines: (params, timeoutMs) => this.controller.machines(params, timeoutMs),
      });
    }
  }

  // ---- life ---------------------------------------------------------------------------------

  /** Synchronous up to the point where Pi may go on: a slow disk or Herdr never delays the start. */
  start(event: SessionStartEvent): void {
    this.#registerTool();
    this.#pi.registerCommand(COMMAND_NAME, {
      description: "Shepherdr: machines, agents and their state",
      handler: (_args, ctx) => {
        const receiver = this.#receiver === undefined ? "none, this session is not saved" : `${this.#receiver.connections} connections`;
        return runCommand({ controller: this.controller, receiver, outstanding: this.#ledger.outstanding + this.#ledger.waiting }, ctx);
      },
    });
    const { renderers } = this.#options;
    if (renderers !== undefined) {
      this.#pi.registerMessageRenderer(MESSAGE_TYPE, renderers.message);
      this.#pi.registerMessageRenderer(EVENT_TYPE, renderers.event);
    }
    void this.#receiver?.start();
    this.#guard(() => this.#receiver?.sessionStarted());
    this.#timer = setInterval(() => this.#guard(() => this.#maintain()), MAINTAIN_MS);
    this.#timer.unref();
    if (this.#wantsController(event)) this.controller.wake();
  }

  async stop(reason: string): Promise<void> {
    if (this.#disposed) return;
    this.#receiver?.stop(reason);
    this.#disposed = true;
    clearInterval(this.#timer);
    await this.controller.stop();
  }

  #guard(work: () => void): void {
    if (this.#disposed) return;
    try {
      work();
    } catch (error) {
      try {
        this.#ctx.ui.notify(`shepherdr: ${ShepherdrError.from(error).describe()}`, "warning");
      } catch {
        // The context went stale between two lines: nothing is left to tell.
      }
    }
  }

  #registerTool(): void {
    const owner = this.#pi.getAllTools().find((tool) => tool.name === TOOL_NAME);
    if (owner !== undefined) {
      const path = owner.sourceInfo.path ?? "another extension";
      this.#ctx.ui.notify(`shepherdr: the tool name ${TOOL_NAME} is taken by ${path}; remove one of the two.`, "warning");
      return;
    }
    const { renderers } = this.#options;
    this.#pi.registerTool({
      ...agentsTool({ call: (...call) => this.#call(...call) }),
      ...(renderers === undefined ? {} : { renderCall: renderers.call, renderResult: renderers.result }),
    });
  }

  async #call(...call: Parameters<Controller["call"]>): Promise<CallResult> {
    const result = await this.controller.call(...call);
    const report = result.value["report"];
    if (typeof report === "string") this.#guard(() => this.#ledger.expectResult(report));
    return result;
  }

  /** Root TUI sessions in Herdr, and sessions that may have something open, whatever their kind. */
  #wantsController(event: SessionStartEvent): boolean {
    if (this.#isRoot()) return true;
    if (event.reason === "new" || event.reason === "fork" || !this.#entries.fileExists()) return false;
    return hasStore(agentDir(this.#env), this.#ctx.sessionManager.getSessionId());
  }

  #isRoot(): boolean {
    return (
      this.#ctx.mode === "tui" && inHerdr(this.#env) && this.#receiver?.bindings.current === undefined && !startedAsWorker(this.#argv)
    );
  }

  #sessionOpen(): SessionOpenParams {
    const session = this.#ctx.sessionManager;
    const header = session.getHeader();
    const env = inHerdr(this.#env) ? this.#env : {};
    const given: Partial<Record<keyof SessionOpenParams, string | undefined>> = {
      pi_session_file: session.getSessionFile(),
      header: header === null ? undefined : `${header.id} ${header.timestamp}`,
      session_name: session.getSessionName(),
      herdr_socket: env["HERDR_SOCKET_PATH"],
      herdr_bin: env["HERDR_BIN_PATH"],
      herdr_pane: env["HERDR_PANE_ID"],
      herdr_workspace: env["HERDR_WORKSPACE_ID"],
      herdr_session: env["HERDR_SESSION"],
      ssh_auth_sock: this.#env["SSH_AUTH_SOCK"],
    };
    const table = MESSAGES[MESSAGE.sessionOpen]!.params as Record<string, FieldInfo>;
    const present = Object.entries(given)
      .filter((entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== "")
      .map(([name, value]) => [name, cutUtf8(value, table[name]?.max ?? 256)]);
    return {
      pi_session_id: session.getSessionId(),
      agent_dir: agentDir(this.#env),
      home: homedir(),
      cwd: this.#ctx.cwd,
      mode: this.#ctx.mode,
      eager: this.#isRoot(),
      ...(Object.fromEntries(present) as Partial<SessionOpenParams>),
    };
  }

  // ---- Pi's events --------------------------------------------------------------------------

  inputSeen(): void {
    this.#guard(() => {
      this.#activity.inputSeen();
      // An input that became no run tells nothing more.
      setTimeout(() => this.#guard(() => this.#look()), PREFLIGHT_MS).unref();
    });
  }

  runBegan(): void {
    this.#guard(() => {
      this.#idleSince = undefined;
      this.#activity.runBegan();
      this.#look();
    });
  }

  agentStart(): void {
    this.#guard(() => {
      this.#idleSince = undefined;
      this.#activity.runBegan();
      this.#look();
      this.#receiver?.runStarted();
    });
  }

  turnStart(): void {
    this.#guard(() => {
      this.#activity.turnBegan();
      this.#look();
    });
  }

  /** A message or a turn ended: something of ours may stand in the session now. */
  progressed(): void {
    this.#guard(() => this.#look());
  }

  settled(aborted: boolean): void {
    this.#guard(() => {
      this.#activity.settled(aborted);
      this.#idleSince = this.#clock();
      // Outside the TUI an abort keeps the queues; they go in with the next run.
      const queuesEmpty = !(aborted && this.#ctx.mode !== "tui") && !this.#ctx.hasPendingMessages();
      this.#receiver?.settled(aborted, queuesEmpty);
      if (queuesEmpty && this.#activity.idle) this.#ledger.markAbsent(this.#clock());
      else this.#ledger.check();
      this.#ledger.flush();
    });
  }

  compactionBegan(): void {
    this.#guard(() => this.#activity.compactionBegan());
  }

  compactionEnded(): void {
    this.#guard(() => {
      this.#activity.compactionEnded();
      this.#look();
    });
  }

  #look(): void {
    this.#receiver?.check();
    this.#receiver?.injectWaiting();
    this.#ledger.check();
    this.#ledger.flush();
  }

  /** Every 30 s: what events did not tell. */
  #maintain(): void {
    this.#receiver?.maintain();
    void this.#receiver?.refreshTerminal();
    if (!this.#activity.idle) {
      this.#idleSince = undefined;
      return;
    }
    this.#idleSince ??= this.#clock();
    this.#look();
    // Idle with a message missing: its run never began, because no model could be asked.
    const since = this.#clock() - IDLE_RECHECK_MS;
    if (this.#idleSince > since || this.#ctx.hasPendingMessages()) return;
    if (this.#activity.stoppedByPerson && this.#ctx.mode !== "tui") return;
    this.#receiver?.recheckDropped(since, this.#activity.stoppedByPerson);
    this.#ledger.markAbsent(since);
  }
}
