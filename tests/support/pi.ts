/*
 * Real Pi on a machine: in a pane of its Herdr, as a print run, or over RPC. And readers for what it
 * leaves: its session file and the probe's record.
 */

import * as fs from "node:fs";
import * as path from "node:path";
import type { Pane } from "./herdr.ts";
import type { Machine } from "./machine.ts";
import { alive, LONG_MS, run, start, until, type Child, type RunResult } from "./process.ts";

const probe = path.join(import.meta.dirname, "probe-ext.ts");

export interface Entry {
    type: string;
    id: string;
    parentId: string | null;
    timestamp: string;
    customType?: string;
    content?: unknown;
    details?: Record<string, unknown>;
    data?: unknown;
    message?: { role: string; content?: unknown; stopReason?: string; toolName?: string; isError?: boolean };
    name?: string;
}

export interface ProbeEvent {
    name: string;
    t: number;
    pid: number;
    idle: boolean;
    reason?: string;
    role?: string;
    customType?: string;
    details?: Record<string, unknown>;
    text?: string;
    stopReason?: string;
    toolName?: string;
    isError?: boolean;
    aborted?: boolean;
    mode?: string;
    sessionFile?: string;
    sessionId?: string;
    tools?: string[];
}

/** Complete, parseable lines of a JSON-lines file; [] while it does not exist. */
export function readLines<T>(file: string | undefined): T[] {
    if (file === undefined || !fs.existsSync(file)) return [];
    const out: T[] = [];
    for (const line of fs.readFileSync(file, "utf8").split("\n").slice(0, -1)) {
        try {
            out.push(JSON.parse(line) as T);
        } catch {
            /* a torn line of a killed writer */
        }
    }
    return out;
}

export function contentText(content: unknown): string {
    if (typeof content === "string") return content;
    if (!Array.isArray(content)) return "";
    return content.map((c: { text?: string }) => c.text ?? "").join("");
}

/** Text of an entry, whatever its kind. */
export function entryText(entry: Entry): string {
    return contentText(entry.message !== undefined ? entry.message.content : entry.content);
}

/** The conversation of a session file, one block per entry: for people. */
export function conversation(entries: Entry[]): string {
    return entries
        .flatMap((e) => {
            if (e.type === "custom_message") return [`[pushed ${e.customType}] ${entryText(e)}`];
            if (e.type !== "message" || e.message === undefined || e.message.role === "system") return [];
            const calls = Array.isArray(e.message.content)
                ? (e.message.content as Array<{ type: string; name?: string; arguments?: unknown }>)
                      .filter((c) => c.type === "toolCall")
                      .map((c) => `→ ${c.name} ${JSON.stringify(c.arguments)}`)
                : [];
            const text = [entryText(e), ...calls].filter((t) => t !== "").join("\n");
            return [`[${e.message.role}${e.message.toolName === undefined ? "" : ` ${e.message.toolName}`}] ${text}`];
        })
        .join("\n");
}

export interface PiOptions {
    /** Extensions after the probe, each loaded with -e. */
    extensions?: string[];
    args?: string[];
    env?: Record<string, string>;
    cwd?: string;
    label?: string;
}

let runs = 0;

function probeLog(machine: Machine): string {
    return path.join(machine.harnessDir, `probe-${++runs}.jsonl`);
}

function arguments_(options: PiOptions): string[] {
    return [probe, ...(options.extensions ?? [])].flatMap((e) => ["-e", e]).concat(options.args ?? []);
}

function shellQuote(text: string): string {
    return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** What every way of running Pi can be asked. */
abstract class PiSession {
    readonly machine: Machine;
    readonly logFile: string;

    constructor(machine: Machine, logFile: string) {
        this.machine = machine;
        this.logFile = logFile;
    }

    events(name?: string): ProbeEvent[] {
        const all = readLines<ProbeEvent>(this.logFile);
        return name === undefined ? all : all.filter((e) => e.name === name);
    }

    /** Of the session that is open now. */
    get sessionFile(): string | undefined {
        return this.events("session_start").at(-1)?.sessionFile;
    }

    get sessionId(): string | undefined {
        return this.events("session_start").at(-1)?.sessionId;
    }

    get pid(): number {
        return this.events("session_start").at(-1)?.pid ?? -1;
    }

    entries(): Entry[] {
        return readLines<Entry>(this.sessionFile);
    }

    /** Pushed messages of one custom type in the session file. */
    pushed(customType: string): Entry[] {
        return this.entries().filter((e) => e.type === "custom_message" && e.customType === customType);
    }

    async waitReady(deadlineMs = LONG_MS): Promise<void> {
        await until(() => this.events("session_start").length > 0, { what: "Pi's session_start", deadlineMs, dump: () => this.dump() });
    }

    async waitEvent(cond: (event: ProbeEvent) => boolean, what: string, deadlineMs = LONG_MS): Promise<ProbeEvent> {
        return until(() => this.events().find(cond), { what, deadlineMs, dump: () => this.dump() });
    }

    /** Waits for an entry of the session file. */
    async waitEntry(cond: (entry: Entry) => boolean, what: string, deadlineMs = LONG_MS): Promise<Entry> {
        return until(() => this.entries().find(cond), { what, deadlineMs, dump: () => this.dump() });
    }

    /** Waits for a text in the conversation, whoever said it. */
    async waitText(text: string, deadlineMs = LONG_MS): Promise<Entry> {
        return this.waitEntry((e) => entryText(e).includes(text), `"${text}" in the conversation`, deadlineMs);
    }

    /** Waits until `count` runs have settled since the start, and none is going on. */
    async waitSettled(count = 1, deadlineMs = LONG_MS): Promise<void> {
        const done = (): boolean => {
            const settled = this.events("agent_settled").length;
            return settled >= count && settled >= this.events("agent_start").length;
        };
        await until(done, { what: `${count} settled runs`, deadlineMs, dump: () => this.dump() });
    }

    /** Makes the probe act: {do:"shutdown"}, {do:"user",text}, {do:"message",message,options}. */
    act(...commands: object[]): void {
        const file = `${this.logFile}.do`;
        fs.writeFileSync(`${file}.new`, commands.map((c) => `${JSON.stringify(c)}\n`).join(""));
        fs.renameSync(`${file}.new`, file);
    }

    /** What the probe saw last, and the conversation. */
    record(): string {
        const events = this.events().map((e) => `  ${JSON.stringify(e).slice(0, 300)}`);
        return ["probe:", ...events.slice(-60), "conversation:", conversation(this.entries())].join("\n");
    }

    async dump(): Promise<string> {
        return `${this.record()}\n${await this.machine.dump()}`;
    }
}

/** Pi in a pane of the machine's Herdr: a real terminal with a shell in it. */
export class PiPane extends PiSession {
    readonly pane: Pane;

    private constructor(machine: Machine, logFile: string, pane: Pane) {
        super(machine, logFile);
        this.pane = pane;
    }

    /** Opens a workspace, types the command and waits until Pi's session has started. */
    static async open(machine: Machine, options: PiOptions = {}): Promise<PiPane> {
        const cwd = options.cwd ?? machine.project;
        const created = await machine.herdr.call<{ root_pane: Pane }>("workspace.create", {
            cwd,
            label: options.label ?? "test",
            focus: true,
        });
        return PiPane.inPane(machine, created.root_pane, options);
    }

    /** Starts Pi (again) in the shell of a pane. */
    static async inPane(machine: Machine, pane: Pane, options: PiOptions = {}): Promise<PiPane> {
        const session = new PiPane(machine, probeLog(machine), pane);
        const env = { SHP_PROBE_LOG: session.logFile, ...options.env };
        const words = ["pi", ...arguments_(options)].map(shellQuote);
        const assignments = Object.entries(env).map(([k, v]) => `${k}=${shellQuote(v)}`);
        const command = [...assignments, ...words].join(" ");
        await machine.herdr.call("pane.send_input", { pane_id: pane.pane_id, text: command, keys: ["enter"] });
        await session.waitReady();
        /* The editor takes keys only once it is drawn; its rule is a long line of U+2500. */
        const drawn = async (): Promise<boolean> => (await session.screen()).includes("─".repeat(20));
        await until(drawn, { what: "Pi's editor", dump: () => session.dump() });
        return session;
    }

    screen(): Promise<string> {
        return this.machine.herdr.read(this.pane.pane_id);
    }

    async keys(...keys: string[]): Promise<void> {
        await this.machine.herdr.call("pane.send_keys", { pane_id: this.pane.pane_id, keys });
    }

    /** Types a prompt or a slash command and submits it. */
    async type(text: string): Promise<void> {
        await this.write(text);
        await this.keys("enter");
    }

    /** Types without submitting: the text stays in the editor as a draft. */
    async write(text: string): Promise<void> {
        await this.machine.herdr.call("pane.send_input", { pane_id: this.pane.pane_id, text });
        const sign = text.split("\n")[0]?.slice(0, 30) ?? "";
        await until(async () => (await this.screen()).includes(sign), { what: `"${sign}" in the editor`, dump: () => this.dump() });
    }

    /** Types a prompt and waits until the run that it began has settled. */
    async ask(text: string, deadlineMs = LONG_MS): Promise<void> {
        const before = this.events("agent_settled").length;
        await this.type(text);
        await this.waitSettled(before + 1, deadlineMs);
    }

    /** Leaves Pi as a person does; the pane's shell stays. */
    async quit(): Promise<void> {
        const pid = this.pid;
        if (!alive(pid)) return;
        await this.type("/quit");
        await until(() => !alive(pid), { what: "Pi's end", dump: () => this.dump() });
    }

    kill(signal: NodeJS.Signals = "SIGKILL"): void {
        process.kill(this.pid, signal);
    }
}

/** Pi over RPC: one JSON object a line on stdin and stdout. */
export class PiRpc extends PiSession {
    readonly child: Child;
    readonly records: Array<Record<string, unknown>> = [];
    private rest = "";
    private ids = 0;

    private constructor(machine: Machine, logFile: string, options: PiOptions) {
        super(machine, logFile);
        this.child = start(path.join(machine.bin, "pi"), ["--mode", "rpc", ...arguments_(options)], {
            env: machine.env({ SHP_PROBE_LOG: logFile, ...options.env }),
            cwd: options.cwd ?? machine.project,
        });
        this.child.onStdout((chunk) => {
            const lines = (this.rest + chunk.toString("utf8")).split("\n");
            this.rest = lines.pop() ?? "";
            for (const line of lines) if (line !== "") this.records.push(JSON.parse(line) as Record<string, unknown>);
        });
    }

    static async open(machine: Machine, options: PiOptions = {}): Promise<PiRpc> {
        const rpc = new PiRpc(machine, probeLog(machine), options);
        await rpc.waitReady();
        await rpc.command("get_state");
        return rpc;
    }

    /** Sends a command and returns its response. */
    async command(type: string, fields: Record<string, unknown> = {}, deadlineMs = LONG_MS): Promise<Record<string, unknown>> {
        const id = `t${++this.ids}`;
        this.child.write(`${JSON.stringify({ id, type, ...fields })}\n`);
        return until(() => this.records.find((r) => r["type"] === "response" && r["id"] === id), {
            what: `Pi's response to ${type}`,
            deadlineMs,
            dump: () => this.dump(),
        });
    }

    /** Prompts and waits until the run has settled. */
    async ask(message: string, deadlineMs = LONG_MS): Promise<void> {
        const before = this.events("agent_settled").length;
        await this.command("prompt", { message });
        await this.waitSettled(before + 1, deadlineMs);
    }

    /** Closes stdin and waits for the end. */
    async quit(deadlineMs = LONG_MS): Promise<number | null> {
        this.child.end();
        await until(() => this.child.ended, { what: "Pi's end after stdin", deadlineMs, dump: () => this.dump() });
        return this.child.code;
    }

    override async dump(): Promise<string> {
        return `stderr: ${this.child.stderr}\n${await super.dump()}`;
    }
}

/** `pi -p` with stdin at its end; what it printed. */
export async function piPrint(machine: Machine, prompt: string, options: PiOptions = {}): Promise<RunResult & { events: ProbeEvent[] }> {
    const logFile = probeLog(machine);
    const result = await run(path.join(machine.bin, "pi"), [...arguments_(options), "-p", prompt], {
        env: machine.env({ SHP_PROBE_LOG: logFile, ...options.env }),
        cwd: options.cwd ?? machine.project,
        deadlineMs: LONG_MS,
    });
    return { ...result, events: readLines<ProbeEvent>(logFile) };
}
