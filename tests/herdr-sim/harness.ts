// Starts stand-in servers for tests, each in its own directory with its own HOME, and speaks to
// them. A server watches the pid of the test process, so that none outlives a test that dies.

import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";

export const SIM_BIN =
    process.env.HERDR_SIM_BIN ??
    path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../build/bin/herdr-sim");

const DEADLINE_MS = 20_000;

export type Json = { [key: string]: any };

/** Waits until fn gives something; fails loudly instead of hanging. */
export async function until<T>(what: string, fn: () => Promise<T | undefined> | T | undefined): Promise<T> {
    const end = Date.now() + DEADLINE_MS;
    for (;;) {
        const value = await fn();
        if (value !== undefined && value !== false) return value;
        if (Date.now() > end) throw new Error(`waited in vain for: ${what}`);
        await sleep(20);
    }
}

/** Everything a socket sends until it closes. */
export class Wire {
    readonly socket: net.Socket;
    readonly #lines: Json[] = [];
    #rest = "";
    closed = false;
    received = "";

    constructor(socketPath: string) {
        this.socket = net.connect({ path: socketPath, allowHalfOpen: true });
        this.socket.setEncoding("utf8");
        this.socket.on("data", (text: string) => {
            this.received += text;
            const parts = (this.#rest + text).split("\n");
            this.#rest = parts.pop() ?? "";
            for (const part of parts) this.#lines.push(JSON.parse(part) as Json);
        });
        this.socket.on("end", () => {
            this.closed = true;
            this.socket.destroy();
        });
        this.socket.on("close", () => (this.closed = true));
        this.socket.on("error", () => (this.closed = true));
    }

    send(value: Json | string): this {
        this.socket.write(typeof value === "string" ? value : `${JSON.stringify(value)}\n`);
        return this;
    }

    async line(what = "a line"): Promise<Json> {
        await until(what, () => (this.#lines.length > 0 || this.closed ? true : undefined));
        const line = this.#lines.shift();
        if (!line) throw new Error(`connection closed while waiting for ${what}`);
        return line;
    }

    /** Lines received so far and not taken yet. */
    taken(): Json[] {
        return this.#lines.splice(0);
    }

    async end(): Promise<void> {
        await until("the connection to close", () => this.closed || undefined);
    }

    close(): void {
        this.socket.destroy();
    }
}

export interface SimOptions {
    env?: Record<string, string>;
    args?: string[];
}

export class Sim {
    readonly dir: string;
    readonly home: string;
    readonly bin: string;
    readonly env: Record<string, string>;
    readonly controlPath: string;
    readonly logPath: string;
    socketPath: string;
    child: ChildProcess | undefined;
    stderr = "";
    exitCode: number | null | undefined;

    constructor(options: SimOptions = {}) {
        this.dir = mkdtempSync(path.join(tmpdir(), "hsim-"));
        this.home = path.join(this.dir, "home");
        this.bin = path.join(this.dir, "bin");
        mkdirSync(this.home);
        mkdirSync(this.bin);
        symlinkSync(SIM_BIN, path.join(this.bin, "herdr"));
        this.controlPath = path.join(this.dir, "control.sock");
        this.logPath = path.join(this.dir, "log.jsonl");
        this.socketPath = path.join(this.home, ".config/herdr/herdr.sock");
        this.env = {
            HOME: this.home,
            PATH: `${this.bin}:${process.env.PATH ?? ""}`,
            SHELL: "/bin/sh",
            PS1: "$ ",
            HERDR_SIM_CONTROL: this.controlPath,
            HERDR_SIM_LOG: this.logPath,
            HERDR_SIM_PARENT_PID: String(process.pid),
            HERDR_SIM_SETTLE_MS: "200",
            HERDR_SIM_SHELL_BUSY_MS: "0",
            HERDR_STARTUP_CWD: this.home,
            ...options.env,
        };
    }

    /** Makes an executable script in the PATH of the panes. */
    script(name: string, text: string): void {
        writeFileSync(path.join(this.bin, name), text, { mode: 0o755 });
    }

    async start(args: string[] = ["server"]): Promise<this> {
        this.exitCode = undefined;
        this.child = spawn(path.join(this.bin, "herdr"), args, { env: this.env, stdio: ["ignore", "ignore", "pipe"] });
        this.child.stderr?.setEncoding("utf8").on("data", (text: string) => (this.stderr += text));
        this.child.on("exit", (code) => (this.exitCode = code));
        await until("the server to be ready", () => {
            if (this.exitCode !== undefined) throw new Error(`server ended: ${this.stderr}`);
            return this.stderr.includes("server ready") || undefined;
        });
        return this;
    }

    async run(args: string[], env: Record<string, string> = {}): Promise<{ code: number | null; stdout: string; stderr: string }> {
        const child = spawn(path.join(this.bin, "herdr"), args, { env: { ...this.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
        let stdout = "";
        let stderr = "";
        child.stdout.setEncoding("utf8").on("data", (t: string) => (stdout += t));
        child.stderr.setEncoding("utf8").on("data", (t: string) => (stderr += t));
        const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
        return { code, stdout, stderr };
    }

    open(): Wire {
        return new Wire(this.socketPath);
    }

    /** The whole answer envelope. */
    async call(method: string, params: Json = {}): Promise<Json> {
        const wire = this.open().send({ id: "t", method, params });
        const answer = await wire.line(`the answer to ${method}`);
        await wire.end();
        return answer;
    }

    async ok(method: string, params: Json = {}): Promise<Json> {
        const answer = await this.call(method, params);
        if (!answer.result) throw new Error(`${method}: ${JSON.stringify(answer)}`);
        return answer.result as Json;
    }

    async error(method: string, params: Json = {}): Promise<string> {
        const answer = await this.call(method, params);
        if (!answer.error) throw new Error(`${method} succeeded: ${JSON.stringify(answer)}`);
        return (answer.error as { code: string }).code;
    }

    async subscribe(...subscriptions: Json[]): Promise<Wire> {
        const wire = this.open().send({ id: "sub", method: "events.subscribe", params: { subscriptions } });
        const first = await wire.line("the subscription's answer");
        if ((first.result as Json | undefined)?.type !== "subscription_started") throw new Error(JSON.stringify(first));
        return wire;
    }

    async control(command: Json): Promise<Json> {
        const wire = new Wire(this.controlPath).send(command);
        const answer = await wire.line("the control answer");
        wire.close();
        if (answer.ok !== true) throw new Error(`control: ${JSON.stringify(answer)}`);
        return answer;
    }

    log(): Json[] {
        if (!existsSync(this.logPath)) return [];
        return readFileSync(this.logPath, "utf8").split("\n").filter((l) => l !== "").map((l) => JSON.parse(l) as Json);
    }

    async paneText(paneId: string, source = "visible"): Promise<string> {
        const result = await this.ok("pane.read", { pane_id: paneId, source });
        return (result.read as { text: string }).text;
    }

    async ended(): Promise<number | null> {
        await until("the server to end", () => this.exitCode !== undefined || undefined);
        return this.exitCode ?? null;
    }

    async stop(): Promise<void> {
        if (this.child && this.exitCode === undefined) {
            this.child.kill("SIGTERM");
            // A sanitizer's finding shows as another exit code.
            if ((await this.ended()) !== 0) throw new Error(`server ended badly: ${this.stderr}`);
        }
    }

    async remove(): Promise<void> {
        await this.stop();
        rmSync(this.dir, { recursive: true, force: true });
    }
}

// What most tests begin with

/** A Pi that stays in the foreground and does what it is told line by line. */
const STAND_IN_PI = `#!/bin/sh
echo "pi started with: $*"
while IFS= read -r line; do
  echo "pi heard: $line"
  [ "$line" = quit ] && exit 0
done
`;

export async function sim(t: TestContext, options: SimOptions = {}): Promise<Sim> {
    const s = new Sim(options);
    s.script("pi", STAND_IN_PI);
    t.after(() => s.remove());
    return s.start();
}

export async function startPi(s: Sim, name = "a1", paneId = "w1:p1"): Promise<void> {
    await s.ok("agent.start", { name, kind: "pi", pane_id: paneId });
    await until("the stand-in Pi to be recognised", async () => {
        const { agent } = await s.ok("agent.get", { target: name });
        return agent.agent === "pi" && agent.interactive_ready === true ? true : undefined;
    });
}

export const report = (seq: number | undefined, state: string, extra: Json = {}): Json => ({
    pane_id: "w1:p1", source: "herdr:pi", agent: "pi", state, ...(seq === undefined ? {} : { seq }), ...extra,
});

export async function status(s: Sim, paneId = "w1:p1"): Promise<string> {
    return (await s.ok("pane.get", { pane_id: paneId })).pane.agent_status as string;
}
