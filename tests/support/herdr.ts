/*
 * One Herdr server of a machine (the stand-in, unless HERDR_SIM_BIN names another program), and
 * calls to its socket.
 */

import * as fs from "node:fs";
import * as net from "node:net";
import * as path from "node:path";
import { checkLog } from "../herdr-sim/check-schema.ts";
import { repoRoot, start, until, SHORT_MS, type Child } from "./process.ts";

/** Longest answer that is accepted. */
const ANSWER_LIMIT_BYTES = 64 * 1024 * 1024;

export const herdrBin: string = process.env["HERDR_SIM_BIN"] ?? path.join(repoRoot, "build", "bin", "herdr-sim");

export class HerdrError extends Error {
    readonly code: string;
    constructor(method: string, code: string, message: string) {
        super(`${method}: ${code}: ${message}`);
        this.code = code;
    }
}

/** One line in, one line out on a fresh connection; the raw answer. */
function line(socketPath: string, request: string, deadlineMs: number): Promise<string> {
    return new Promise((resolve, reject) => {
        const socket = net.connect(socketPath);
        const chunks: Buffer[] = [];
        let bytes = 0;
        const fail = (err: Error): void => {
            socket.destroy();
            reject(err);
        };
        const timer = setTimeout(() => fail(new Error(`no answer within ${deadlineMs} ms`)), deadlineMs);
        socket.on("connect", () => socket.write(`${request}\n`));
        socket.on("data", (chunk) => {
            chunks.push(chunk);
            bytes += chunk.length;
            if (bytes > ANSWER_LIMIT_BYTES) fail(new Error("answer above the limit"));
            if (!chunk.includes(10)) return;
            clearTimeout(timer);
            socket.destroy();
            const text = Buffer.concat(chunks).toString("utf8");
            resolve(text.slice(0, text.indexOf("\n")));
        });
        socket.on("error", fail);
        socket.on("close", () => {
            clearTimeout(timer);
            reject(new Error("closed without an answer"));
        });
    });
}

/** A call of Herdr's API; its result. An error answer is thrown as HerdrError. */
export async function herdrCall<T = Record<string, unknown>>(
    socketPath: string,
    method: string,
    params: object = {},
    deadlineMs = SHORT_MS,
): Promise<T> {
    const text = await line(socketPath, JSON.stringify({ id: "t", method, params }), deadlineMs);
    const answer = JSON.parse(text) as { result?: T; error?: { code: string; message: string } };
    if (answer.error !== undefined) throw new HerdrError(method, answer.error.code, answer.error.message);
    if (answer.result === undefined) throw new Error(`${method}: answer without result: ${text}`);
    return answer.result;
}

export interface Pane {
    pane_id: string;
    terminal_id: string;
    workspace_id: string;
    tab_id: string;
    agent?: string;
    agent_status: string;
    label?: string;
    cwd?: string;
    agent_session?: { source: string; agent: string; kind: "path" | "id"; value: string };
}

export interface Agent extends Pane {
    name?: string;
    interactive_ready?: boolean;
    launch_pending?: boolean;
}

export interface Snapshot {
    version: string;
    workspaces: Array<{ workspace_id: string; label: string; agent_status: string }>;
    tabs: Array<{ tab_id: string; workspace_id: string; label: string }>;
    panes: Pane[];
    agents: Agent[];
}

export interface LogLine {
    t: number;
    dir: "request" | "response" | "event";
    conn: number;
    line: unknown;
}

export class Herdr {
    readonly socketPath: string;
    readonly controlPath: string;
    readonly logFile: string;
    private readonly env: Record<string, string>;
    private readonly bin: string;
    private child: Child | undefined;

    /** `bin`: what to run as `herdr`; `env`: the machine's. Switches: HERDR_SIM_<NAME> in env. */
    constructor(bin: string, env: Record<string, string>, logDir: string) {
        this.bin = bin;
        this.socketPath = path.join(env["HOME"] ?? "", ".config", "herdr", "herdr.sock");
        this.controlPath = path.join(logDir, "herdr-control.sock");
        this.logFile = path.join(logDir, "herdr.jsonl");
        this.env = {
            HERDR_SIM_SETTLE_MS: "100",
            ...env,
            HERDR_SIM_LOG: this.logFile,
            HERDR_SIM_CONTROL: this.controlPath,
            HERDR_SIM_PARENT_PID: String(process.pid),
        };
    }

    get pid(): number {
        return this.child?.pid ?? -1;
    }

    get running(): boolean {
        return this.child !== undefined && !this.child.ended;
    }

    async start(cwd: string): Promise<void> {
        const child = start(this.bin, ["server"], { env: this.env, cwd });
        this.child = child;
        await until(
            async () => {
                if (child.ended) return true;
                return (await this.call<{ type: string }>("ping")).type === "pong";
            },
            { what: "herdr's pong", dump: () => child.stderr },
        );
        if (child.ended) throw new Error(`herdr ended with ${child.code ?? child.signal}: ${child.stderr}`);
    }

    async stop(): Promise<void> {
        const child = this.child;
        this.child = undefined;
        if (child === undefined || child.ended) return;
        await herdrCall(this.socketPath, "server.stop").catch(() => undefined);
        await child.stop("SIGTERM", 5000);
    }

    /** As a crash: no farewell. What ran in the panes loses its terminal. */
    async kill(): Promise<void> {
        await this.child?.stop("SIGKILL");
        this.child = undefined;
    }

    call<T = Record<string, unknown>>(method: string, params: object = {}, deadlineMs?: number): Promise<T> {
        return herdrCall<T>(this.socketPath, method, params, deadlineMs);
    }

    async snapshot(): Promise<Snapshot> {
        return (await this.call<{ snapshot: Snapshot }>("session.snapshot")).snapshot;
    }

    /** A command of the stand-in's control socket: {"cmd":"set",...}, {"cmd":"stall",...}, {"cmd":"fault",...}. */
    async control(command: object): Promise<unknown> {
        return JSON.parse(await line(this.controlPath, JSON.stringify(command), SHORT_MS));
    }

    /** Every request, answer and event so far. */
    log(): LogLine[] {
        if (!fs.existsSync(this.logFile)) return [];
        const lines = fs.readFileSync(this.logFile, "utf8").split("\n");
        return lines.slice(0, -1).map((l) => JSON.parse(l) as LogLine);
    }

    /** The first line of the log that does not fit the schema in HERDR_API_SCHEMA, when that is given. */
    schemaProblem(): string | undefined {
        const schema = process.env["HERDR_API_SCHEMA"];
        if (schema === undefined || !fs.existsSync(this.logFile)) return undefined;
        const log = fs.readFileSync(this.logFile, "utf8");
        const complete = log.slice(0, log.lastIndexOf("\n") + 1);
        /* Requests that the stand-in refused are the tests' own bad input. */
        const problem = checkLog(fs.readFileSync(schema, "utf8"), this.logFile, complete, true);
        return problem === undefined ? undefined : `line ${problem.number} of Herdr's log: ${problem.why}: ${problem.text}`;
    }

    /** Requests of one method so far. */
    requests(method: string): Array<{ method: string; params: Record<string, unknown> }> {
        return this.log()
            .filter((l) => l.dir === "request")
            .map((l) => l.line as { method: string; params: Record<string, unknown> })
            .filter((l) => l.method === method);
    }

    async read(paneId: string, source: "visible" | "recent" = "visible"): Promise<string> {
        const params = { pane_id: paneId, source, format: "text" };
        return (await this.call<{ read: { text: string } }>("pane.read", params)).read.text;
    }

    /** The screens of all panes: for dumps. */
    async screens(): Promise<string> {
        const out: string[] = [];
        try {
            for (const pane of (await this.snapshot()).panes) {
                const text = (await this.read(pane.pane_id)).replace(/(\n\s*){2,}/g, "\n").trimEnd();
                out.push(`  --- ${pane.pane_id} ${pane.label ?? ""} agent=${pane.agent ?? "-"} ${pane.agent_status}\n${text}`);
            }
        } catch (err) {
            const { child } = this;
            const state = child === undefined ? "not started" : child.ended ? `ended with ${child.code ?? child.signal}` : "running";
            out.push(`  --- herdr: ${err instanceof Error ? err.message : String(err)}; ${state}: ${child?.stderr ?? ""}`);
        }
        return out.join("\n");
    }
}
