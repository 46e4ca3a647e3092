/*
 * The stage of the benchmark: a loopback sshd with its own HOME, a catalog of machines that all lead
 * to it, a stand-in for Herdr's socket, and the programs that are driven: the real path, the C
 * floors, the Node baseline.
 */

import * as fs from "node:fs";
import * as path from "node:path";
import { randomBytes } from "node:crypto";
import { must, removeRoot, run, repoRoot, start, tmpRoot, until, type Child } from "../support/process.ts";
import { Sshd, SshClient } from "../support/sshd.ts";
import { stateOf } from "./proc.ts";

export const MACHINES = 16;
/** Machines of the catalog: for the lines that ask for more. */
export const MANY = 64;
/** Machines that lose their links while the controller sleeps. */
export const SLEEPERS = 8;
const BUILD = path.resolve(repoRoot, process.env["BUILD"] ?? "build");
export const binDir: string = path.join(BUILD, "bin");
export const helperFile: string = path.join(binDir, "shepherdr-helper");
const ANSWER_MS = 180_000;

export interface Answer {
    us: number[];
    pings?: number[];
    uploads?: number;
    pid?: number;
}

/** A program that takes one command a line and answers each with a line of JSON. */
export class Driven {
    readonly child: Child;
    private readonly answers: string[] = [];
    private rest = "";
    private wake: (() => void) | undefined;

    constructor(program: string, args: string[], env: Record<string, string>) {
        this.child = start(program, args, { env });
        this.child.onStdout((chunk) => {
            const pieces = (this.rest + chunk.toString("latin1")).split("\n");
            this.rest = pieces.pop() ?? "";
            this.answers.push(...pieces);
            this.wake?.();
        });
        void this.child.exited.then(() => this.wake?.());
    }

    get pid(): number {
        return this.child.pid;
    }

    /** The next line. No polling: what waits here must not disturb what is measured. */
    async line(): Promise<Answer> {
        const deadline = setTimeout(() => this.child.kill("SIGKILL"), ANSWER_MS);
        while (this.answers.length === 0) {
            if (this.child.ended) throw new Error(`${this.child.what} ended: ${this.child.stderr}`);
            await new Promise<void>((resolve) => {
                this.wake = resolve;
            });
        }
        clearTimeout(deadline);
        return JSON.parse(this.answers.shift() ?? "") as Answer;
    }

    do(...words: Array<string | number>): Promise<Answer> {
        this.child.write(`${words.join(" ")}\n`);
        return this.line();
    }

    async end(): Promise<void> {
        this.child.end();
        const timer = setTimeout(() => this.child.kill("SIGKILL"), 10_000);
        await this.child.exited;
        clearTimeout(timer);
    }
}

/** What is missing to run, or undefined. */
export function rigMissing(): string | undefined {
    const files = [helperFile, path.join(BUILD, "bench", "bench_link"), path.join(BUILD, "bench", "bench_floor")];
    return files.find((file) => !fs.existsSync(file));
}

export class Rig {
    readonly root: string;
    readonly home: string;
    readonly socket: string;
    readonly aliases: string[];
    /** Catalog id of the first machine. */
    firstId = "";
    /** Whether what is measured was built with libssh. */
    readonly libssh: boolean = fs.readFileSync(path.join(BUILD, "bench", "bench_link")).includes("libssh.so");
    readonly floorProgram: string = path.join(BUILD, "bench", "bench_floor");
    link!: Driven;
    floor!: Driven;
    node!: Driven;
    private sshd!: Sshd;
    private herdr!: Driven;
    private env!: Record<string, string>;

    private constructor() {
        this.root = tmpRoot("bench");
        this.home = path.join(this.root, "home");
        this.socket = path.join(this.home, ".config", "herdr", "herdr.sock");
        this.aliases = Array.from({ length: MANY }, (_, i) => `m${String(i + 1).padStart(2, "0")}`);
    }

    static async create(): Promise<Rig> {
        const rig = new Rig();
        const dir = path.join(rig.root, "sshd");
        for (const made of [dir, path.dirname(rig.socket)]) fs.mkdirSync(made, { recursive: true });
        rig.sshd = await Sshd.start({ dir, home: rig.home, path: "/usr/local/bin:/usr/bin:/bin" });
        const client = new SshClient(rig.root);
        for (const alias of rig.aliases) client.addHost({ alias, sshd: rig.sshd });
        /* The client's script logs every start; here nothing but ssh itself is to be measured. */
        const script = `#!/bin/sh\nexec /usr/bin/ssh -F '${client.configFile}' "$@"\n`;
        fs.writeFileSync(path.join(client.bin, "ssh"), script, { mode: 0o755 });
        const catalog = rig.aliases.map((alias) => ({
            id: randomBytes(16).toString("hex"), label: alias, target: alias, session: "default", enabled: true,
        }));
        rig.firstId = catalog[0]?.id ?? "";
        fs.writeFileSync(path.join(rig.root, "catalog.json"), JSON.stringify(catalog));
        const herdr = path.join(rig.root, "herdr");
        fs.writeFileSync(herdr, `#!/bin/sh\nexec cat '${path.join(rig.root, "catalog.json")}'\n`, { mode: 0o755 });
        rig.env = {
            HOME: path.join(rig.root, "own"),
            PATH: `${client.bin}:/usr/local/bin:/usr/bin:/bin`,
            HERDR_BIN_PATH: herdr,
        };
        fs.mkdirSync(rig.env["HOME"] ?? "");
        rig.use("openssh");
        await rig.startPrograms();
        return rig;
    }

    private async startPrograms(): Promise<void> {
        this.herdr = new Driven(this.floorProgram, ["serve", this.socket], this.env);
        await this.herdr.line();
        this.link = new Driven(path.join(BUILD, "bench", "bench_link"), [binDir], this.env);
        this.floor = new Driven(this.floorProgram, ["drive"], this.env);
        const client = path.join(import.meta.dirname, "node-client.mjs");
        this.node = new Driven(process.execPath, [client, process.execPath, this.socket, ...this.aliases.slice(0, MACHINES)], this.env);
    }

    /** Who speaks SSH from the next connect on. */
    use(transport: "openssh" | "libssh"): void {
        const dir = path.join(this.env["HOME"] ?? "", ".pi", "agent");
        fs.mkdirSync(dir, { recursive: true });
        fs.writeFileSync(path.join(dir, "pi-shepherdr.json"), JSON.stringify({ transport }));
    }

    get alias(): string {
        return this.aliases[0] ?? "";
    }

    /** The far end as it was before the first connect. */
    removeHelper(): void {
        fs.rmSync(path.join(this.home, ".pi"), { recursive: true, force: true });
    }

    /** Until every login has ended: what still winds up would disturb the next measurement. */
    async quiet(): Promise<void> {
        await until(() => this.sshd.sessionPids().length === 0, { what: "the end of all logins" });
    }

    /** The controller stands still, and meanwhile every connection ends. */
    async sleep(): Promise<void> {
        process.kill(this.link.pid, "SIGSTOP");
        await until(() => stateOf(this.link.pid) === "T", { what: "the controller to stand still" });
        await until(
            () => {
                this.sshd.cut();
                return this.sshd.sessionPids().length === 0;
            },
            { what: "the end of all connections" },
        );
    }

    /** Microseconds from the waking of the controller until every machine has its new link. */
    async wake(): Promise<number> {
        this.link.child.write("again\n");
        const start = performance.now();
        process.kill(this.link.pid, "SIGCONT");
        await this.link.line();
        return (performance.now() - start) * 1000;
    }

    /** Microseconds from start to end of a program in the rig's environment, whatever its status. */
    async timed(program: string, args: string[]): Promise<number> {
        const start = performance.now();
        await run(program, args, { env: this.env });
        return (performance.now() - start) * 1000;
    }

    /** Runs a program to its end in the rig's environment. */
    async tool(program: string, args: string[]): Promise<void> {
        await must(program, args, { env: this.env });
    }

    async stop(): Promise<void> {
        for (const driven of [this.link, this.floor, this.node]) await driven.end();
        this.herdr.child.kill("SIGKILL");
        await this.sshd.stop();
        removeRoot(this.root);
    }
}
