/*
 * Children, deadlines and temporary directories for the tests.
 *
 * Everything made here ends with the test process, however that ends: children run in process groups
 * of their own and are killed as groups, temporary roots are removed, and whatever still names a root
 * in its environment, command line, working directory or open files is killed before that.
 */

import { spawn, type ChildProcess } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";

/** Bytes of each output stream that a child may leave in memory; older bytes are dropped. */
const CAPTURE_LIMIT_BYTES = 4 * 1024 * 1024;
/** Longest path of a process's open files that is looked at per process. */
const FD_SCAN_LIMIT = 512;

/** How long output may still come after a child's end. */
const DRAIN_MS = 200;

/** Deadline for things that normally take milliseconds, on a loaded two-core machine. */
export const SHORT_MS = 20_000;
/** Deadline for things that start Pi, ssh or a build product. */
export const LONG_MS = 60_000;

export interface SpawnOptions {
    /** The whole environment of the child; nothing is inherited. */
    env: Record<string, string>;
    cwd?: string;
    /** Written to stdin, which is then closed. Absent: stdin is /dev/null for run(), a pipe for start(). */
    input?: string | Buffer;
    /** run() only: the child's group is killed after this, and the result says `timedOut`. */
    deadlineMs?: number;
}

export interface RunResult {
    code: number | null;
    signal: NodeJS.Signals | null;
    stdout: string;
    stderr: string;
    timedOut: boolean;
}

const groups = new Set<number>();
const roots = new Set<string>();
const cleanups = new Set<() => void>();
let hooked = false;

function endEverything(): void {
    for (const fn of [...cleanups].reverse()) {
        try {
            fn();
        } catch {
            /* the others must still run */
        }
    }
    cleanups.clear();
    for (const pid of groups) killGroup(pid, "SIGKILL");
    groups.clear();
    for (const root of [...roots]) removeRoot(root);
}

function hook(): void {
    if (hooked) return;
    hooked = true;
    process.on("exit", endEverything);
    const signals: Array<[NodeJS.Signals, number]> = [["SIGINT", 130], ["SIGTERM", 143], ["SIGHUP", 129]];
    for (const [name, code] of signals) process.once(name, () => process.exit(code));
}

/** Runs `fn` (synchronous) when the test process ends. Returns the way to take it back. */
export function atExit(fn: () => void): () => void {
    hook();
    cleanups.add(fn);
    return () => {
        cleanups.delete(fn);
    };
}

export function killGroup(pid: number, signal: NodeJS.Signals): void {
    try {
        process.kill(-pid, signal);
    } catch {
        /* already gone */
    }
}

export function alive(pid: number): boolean {
    try {
        process.kill(pid, 0);
    } catch {
        return false;
    }
    /* A zombie answers kill(0) but runs nothing. */
    try {
        const stat = fs.readFileSync(`/proc/${pid}/stat`, "latin1");
        return stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3) !== "Z";
    } catch {
        return false;
    }
}

/** A running child with captured output. */
export class Child {
    readonly pid: number;
    readonly what: string;
    readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
    code: number | null = null;
    signal: NodeJS.Signals | null = null;
    ended = false;
    private readonly proc: ChildProcess;
    private readonly kept = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
    private readonly keptBytes = { stdout: 0, stderr: 0 };
    private readonly listeners: Array<(chunk: Buffer) => void> = [];

    constructor(proc: ChildProcess, what: string) {
        this.proc = proc;
        this.what = what;
        this.pid = proc.pid ?? -1;
        if (this.pid > 0) groups.add(this.pid);
        proc.stdout?.on("data", (chunk: Buffer) => {
            this.keep("stdout", chunk);
            for (const fn of this.listeners) fn(chunk);
        });
        proc.stderr?.on("data", (chunk: Buffer) => this.keep("stderr", chunk));
        proc.stdin?.on("error", () => {
            /* the child closed its end; the exit code says the rest */
        });
        this.exited = new Promise((resolve) => {
            const done = (code: number | null, signal: NodeJS.Signals | null): void => {
                if (this.ended) return;
                this.ended = true;
                this.code = code;
                this.signal = signal;
                groups.delete(this.pid);
                resolve({ code, signal });
            };
            proc.on("close", done);
            /* A grandchild that inherited the pipes must not make this process look alive. */
            proc.on("exit", (code, signal) => setTimeout(() => done(code, signal), DRAIN_MS));
            proc.on("error", (err) => {
                this.keep("stderr", Buffer.from(`${this.what}: ${err.message}\n`));
                done(127, null);
            });
        });
    }

    get stdout(): string {
        return Buffer.concat(this.kept.stdout).toString("utf8");
    }

    get stderr(): string {
        return Buffer.concat(this.kept.stderr).toString("utf8");
    }

    onStdout(fn: (chunk: Buffer) => void): void {
        this.listeners.push(fn);
    }

    write(text: string | Buffer): void {
        this.proc.stdin?.write(text);
    }

    end(): void {
        this.proc.stdin?.end();
    }

    kill(signal: NodeJS.Signals = "SIGTERM"): void {
        if (!this.ended) killGroup(this.pid, signal);
    }

    /** Asks with `signal`, insists with SIGKILL after `graceMs`, returns when the process has ended. */
    async stop(signal: NodeJS.Signals = "SIGTERM", graceMs = 3000): Promise<void> {
        if (this.ended) return;
        this.kill(signal);
        const timer = setTimeout(() => this.kill("SIGKILL"), graceMs);
        await this.exited;
        clearTimeout(timer);
    }

    private keep(name: "stdout" | "stderr", chunk: Buffer): void {
        this.kept[name].push(chunk);
        this.keptBytes[name] += chunk.length;
        while (this.keptBytes[name] > CAPTURE_LIMIT_BYTES && this.kept[name].length > 1) {
            this.keptBytes[name] -= this.kept[name].shift()?.length ?? 0;
        }
    }
}

/** Starts a child whose stdin stays open. */
export function start(cmd: string, args: string[], options: SpawnOptions): Child {
    hook();
    const proc = spawn(cmd, args, {
        env: options.env,
        cwd: options.cwd,
        detached: true,
        stdio: ["pipe", "pipe", "pipe"],
    });
    const child = new Child(proc, path.basename(cmd));
    if (options.input !== undefined) {
        child.write(options.input);
        child.end();
    }
    return child;
}

/** Runs a child to its end. Never throws for an exit code; the caller judges the result. */
export async function run(cmd: string, args: string[], options: SpawnOptions): Promise<RunResult> {
    const child = start(cmd, args, options);
    if (options.input === undefined) child.end();
    let timedOut = false;
    const timer = setTimeout(() => {
        timedOut = true;
        child.kill("SIGKILL");
    }, options.deadlineMs ?? LONG_MS);
    const { code, signal } = await child.exited;
    clearTimeout(timer);
    return { code, signal, stdout: child.stdout, stderr: child.stderr, timedOut };
}

/** As run(), but an exit code other than 0 is an error that shows the output. */
export async function must(cmd: string, args: string[], options: SpawnOptions): Promise<RunResult> {
    const result = await run(cmd, args, options);
    if (result.code !== 0) {
        throw new Error(
            `${cmd} ${args.join(" ")}: exit ${result.code ?? result.signal}${result.timedOut ? " (deadline)" : ""}\n` +
                `${result.stdout}${result.stderr}`,
        );
    }
    return result;
}

export interface UntilOptions {
    what: string;
    deadlineMs?: number;
    everyMs?: number;
    /** Called once when the deadline has passed; its text becomes part of the error. */
    dump?: () => string | Promise<string>;
}

export function sleep(ms: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Polls until `cond` gives something truthy and returns that; throws with `what` and a dump at the deadline. */
export async function until<T>(
    cond: () => T | Promise<T>,
    options: UntilOptions,
): Promise<Exclude<T, false | null | undefined | 0 | "">> {
    const deadlineMs = options.deadlineMs ?? SHORT_MS;
    const startMs = performance.now();
    let lastError = "";
    for (;;) {
        try {
            const value = await cond();
            if (value) return value as Exclude<T, false | null | undefined | 0 | "">;
            lastError = "";
        } catch (err) {
            /* A condition may fail for as long as the thing it looks at does not exist. */
            lastError = err instanceof Error ? err.message : String(err);
        }
        if (performance.now() - startMs > deadlineMs) break;
        await sleep(options.everyMs ?? 25);
    }
    let text = `not within ${deadlineMs} ms: ${options.what}`;
    if (lastError !== "") text += `\nlast error: ${lastError}`;
    if (options.dump !== undefined) text += `\n${await options.dump()}`;
    throw new Error(text);
}

/** A private temporary directory, short enough for unix sockets below it. Removed at exit. */
export function tmpRoot(name = "t"): string {
    hook();
    const root = fs.mkdtempSync(path.join(os.tmpdir(), `shp-${name}-`));
    roots.add(root);
    return root;
}

/** Kills what still belongs to the root and removes it. */
export function removeRoot(root: string): void {
    killByRoot(root);
    fs.rmSync(root, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
    roots.delete(root);
}

export interface ProcessInfo {
    pid: number;
    command: string;
    /** What names the root: environ, cmdline, cwd, exe or fd. */
    by: string;
}

function read(file: string): string {
    try {
        return fs.readFileSync(file, "latin1");
    } catch {
        return "";
    }
}

function link(file: string): string {
    try {
        return fs.readlinkSync(file);
    } catch {
        return "";
    }
}

function belongsTo(pid: number, root: string): string {
    const dir = `/proc/${pid}`;
    if (read(`${dir}/cmdline`).includes(root)) return "cmdline";
    if (read(`${dir}/environ`).includes(root)) return "environ";
    if (link(`${dir}/cwd`).startsWith(root)) return "cwd";
    if (link(`${dir}/exe`).startsWith(root)) return "exe";
    try {
        for (const fd of fs.readdirSync(`${dir}/fd`).slice(0, FD_SCAN_LIMIT)) {
            if (link(`${dir}/fd/${fd}`).startsWith(root)) return "fd";
        }
    } catch {
        /* gone, or another user's */
    }
    return "";
}

/**
 * Live processes that name `root`. The own process and its ancestors are never listed: a shell that
 * started the test with the root on its command line is not left behind by it.
 */
export function processesOf(root: string): ProcessInfo[] {
    const skip = new Set<number>();
    for (let pid = process.pid; pid > 1; ) {
        skip.add(pid);
        pid = parentOf(pid);
    }
    const found: ProcessInfo[] = [];
    for (const name of fs.readdirSync("/proc")) {
        const pid = Number(name);
        if (!Number.isInteger(pid) || skip.has(pid) || !alive(pid)) continue;
        const by = belongsTo(pid, root);
        if (by === "") continue;
        const command = read(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim();
        found.push({ pid, command, by });
    }
    return found;
}

function parentOf(pid: number): number {
    const stat = read(`/proc/${pid}/stat`);
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1] ?? 0);
}

/** The given processes and everything that descends from them. */
export function withDescendants(pids: number[]): number[] {
    const children = new Map<number, number[]>();
    for (const name of fs.readdirSync("/proc")) {
        const pid = Number(name);
        if (!Number.isInteger(pid)) continue;
        const parent = parentOf(pid);
        children.set(parent, [...(children.get(parent) ?? []), pid]);
    }
    const all = new Set<number>();
    const todo = [...pids];
    for (let pid = todo.pop(); pid !== undefined; pid = todo.pop()) {
        if (all.has(pid)) continue;
        all.add(pid);
        todo.push(...(children.get(pid) ?? []));
    }
    return [...all];
}

/** Kills everything that names the root, with descendants, until nothing new appears (bounded). */
export function killByRoot(root: string): void {
    for (let round = 0; round < 20; round++) {
        const found = processesOf(root);
        if (found.length === 0) return;
        for (const pid of withDescendants(found.map((p) => p.pid))) {
            try {
                process.kill(pid, "SIGKILL");
            } catch {
                /* already gone */
            }
        }
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
}

/** Where this repository begins. */
export const repoRoot: string = path.resolve(import.meta.dirname, "..", "..");
