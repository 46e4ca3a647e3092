/**
 * Pi as far as the extension sees it: entries, queues, runs, compaction and their events, with the
 * delivery rules that were observed in the real one (steering, dropped queues on abort, a file
 * that appears with the first user or assistant message).
 */
import { existsSync, rmSync, writeFileSync } from "node:fs";
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";

type Handler = (event: Record<string, unknown>, ctx: ExtensionContext) => unknown;
type Custom = { customType: string; content: string; display: boolean; details?: Record<string, unknown> };
type Sent = Custom & { options: { triggerTurn?: boolean; deliverAs?: string } };
export type FakeEntry = Record<string, unknown> & { id: string; parentId: string | null; type: string };
export type FakeTool = {
  name: string;
  sourceInfo?: { path: string };
  execute?: (id: string, params: unknown, signal: AbortSignal | undefined, onUpdate: unknown, ctx: unknown) => Promise<unknown>;
};

export class FakePi {
  readonly sessionId: string;
  readonly file: string | undefined;
  entries: FakeEntry[] = [];
  leaf: string | null = null;
  mode: "tui" | "rpc" = "tui";
  idle = true;
  stale = false;
  /** `sendMessage` loses the message, as when no model can be asked. */
  losing = false;
  readonly sent: Sent[] = [];
  readonly notices: string[] = [];
  readonly tools = new Map<string, FakeTool>();
  readonly commands = new Map<string, { handler: (args: string, ctx: unknown) => Promise<void> }>();
  #queue: Custom[] = [];
  #quiet: Custom[] = [];
  readonly #handlers = new Map<string, Handler[]>();
  #next = 0;

  constructor(options: { sessionId: string; file?: string; entries?: FakeEntry[] }) {
    this.sessionId = options.sessionId;
    this.file = options.file;
    for (const entry of options.entries ?? []) this.entries.push(entry);
    this.leaf = this.entries.at(-1)?.id ?? null;
    this.#next = this.entries.length;
  }

  // ---- what the extension gets ----------------------------------------------------------------

  readonly pi = {
    on: (name: string, handler: Handler) => {
      const list = this.#handlers.get(name) ?? [];
      list.push(handler);
      this.#handlers.set(name, list);
      return () => undefined;
    },
    sendMessage: (message: Custom, options: Sent["options"] = {}) => {
      this.#live();
      this.sent.push({ ...message, options });
      if (this.losing) return;
      if (options.triggerTurn !== false && !this.idle) this.#queue.push(message);
      else if (options.triggerTurn === true) {
        this.idle = false;
        queueMicrotask(() => {
          void this.#begin(message);
        });
      } else if (!this.idle) this.#quiet.push(message);
      else this.#store(message);
    },
    appendEntry: (customType: string, data: unknown) => {
      this.#live();
      this.#append({ type: "custom", customType, data: structuredClone(data) });
    },
    getAllTools: () => {
      this.#live();
      return [...this.tools.values()];
    },
    registerTool: (tool: FakeTool) => {
      this.#live();
      this.tools.set(tool.name, tool);
    },
    registerCommand: (name: string, command: { handler: (args: string, ctx: unknown) => Promise<void> }) => this.commands.set(name, command),
    registerMessageRenderer: () => undefined,
  } as unknown as ExtensionAPI;

  readonly ctx = {
    ui: { notify: (text: string) => this.notices.push(text) },
    isIdle: () => {
      this.#live();
      return this.idle;
    },
    hasPendingMessages: () => false,
    cwd: "/tmp",
    sessionManager: {
      getSessionId: () => this.sessionId,
      getSessionFile: () => this.file,
      getSessionName: () => undefined,
      getHeader: () => ({ type: "session", id: this.sessionId, timestamp: "2026-01-01T00:00:00.000Z", cwd: "/tmp" }),
      getEntries: () => [...this.entries],
      getEntry: (id: string) => this.entries.find((entry) => entry.id === id),
      getLeafId: () => this.leaf,
      getBranch: (from?: string) => this.branch(from),
    },
  } as unknown as ExtensionContext;

  #live(): void {
    if (this.stale) throw new Error("This extension ctx is stale");
  }

  branch(from: string | null = this.leaf): FakeEntry[] {
    const out: FakeEntry[] = [];
    for (let id: string | null = from; id !== null; ) {
      const entry = this.entries.find((e) => e.id === id);
      if (entry === undefined) break;
      out.unshift(entry);
      id = entry.parentId;
    }
    return out;
  }

  // ---- what Pi does -----------------------------------------------------------------------------

  async emit(name: string, event: Record<string, unknown> = {}): Promise<void> {
    Object.defineProperty(this.ctx, "mode", { value: this.mode, configurable: true });
    for (const handler of this.#handlers.get(name) ?? []) await handler({ type: name, ...event }, this.ctx);
  }

  #append(entry: Record<string, unknown>): FakeEntry {
    const id = (this.#next++).toString(16).padStart(8, "0");
    const whole = { ...entry, id, parentId: this.leaf } as FakeEntry;
    this.entries.push(whole);
    this.leaf = id;
    const message = whole["message"] as { role?: string } | undefined;
    if (this.file !== undefined && (message?.role === "user" || message?.role === "assistant") && !existsSync(this.file)) {
      writeFileSync(this.file, "{}\n");
    }
    return whole;
  }

  #store(message: Custom): FakeEntry {
    return this.#append({ type: "custom_message", ...structuredClone(message) });
  }

  async #begin(message: Custom): Promise<void> {
    await this.emit("before_agent_start");
    await this.emit("agent_start");
    await this.emit("turn_start");
    this.#store(message);
    await this.emit("message_end", { message: { role: "custom" } });
  }

  /** A person typed something. */
  async prompt(text: string): Promise<void> {
    this.idle = false;
    await this.emit("before_agent_start");
    await this.emit("agent_start");
    await this.emit("turn_start");
    this.#append({ type: "message", message: { role: "user", content: text } });
    await this.emit("message_end");
  }

  /** The model answered; what was queued goes in and the run goes on, else it settles. */
  async answer(text: string, stopReason = "stop", errorMessage?: string): Promise<void> {
    const content = text === "" ? [] : [{ type: "text", text }];
    this.#append({ type: "message", message: { role: "assistant", content, stopReason, ...(errorMessage === undefined ? {} : { errorMessage }) } });
    for (const message of this.#quiet.splice(0)) this.#store(message);
    await this.emit("message_end");
    await this.emit("turn_end");
    const next = this.#queue.shift();
    if (next !== undefined) {
      this.#store(next);
      await this.emit("turn_start");
      await this.emit("message_end");
      return;
    }
    await this.settle(false);
  }

  /** The result of a call of our tool; the run goes on. */
  async toolResult(details: Record<string, unknown>): Promise<void> {
    this.#append({ type: "message", message: { role: "toolResult", toolName: "agents", content: [], details } });
    await this.emit("message_end");
  }

  /** Escape in the TUI: the queue is lost. */
  async abort(): Promise<void> {
    this.#append({ type: "message", message: { role: "assistant", content: [], stopReason: "aborted", errorMessage: "Operation aborted" } });
    if (this.mode === "tui") this.#queue = [];
    await this.settle(true);
  }

  async settle(aborted: boolean): Promise<void> {
    this.idle = true;
    await this.emit("agent_settled", { aborted });
  }

  async compact(during: () => Promise<void>): Promise<void> {
    this.idle = false;
    await this.emit("session_before_compact", { reason: "manual" });
    await during();
    this.#append({ type: "compaction", summary: "s" });
    this.idle = true;
    await this.emit("session_compact", { reason: "manual" });
  }

  /** Texts of the custom messages in the session. */
  messages(customType: string): string[] {
    return this.entries.filter((entry) => entry["customType"] === customType && entry.type === "custom_message").map((entry) => String(entry["content"]));
  }

  removeFile(): void {
    if (this.file !== undefined) rmSync(this.file, { force: true });
  }
}

/** Lets queued microtasks and immediates run. */
export async function ticks(count = 5): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}
