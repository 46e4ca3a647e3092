/*
 * A throw-away sshd on loopback, and the client side that reaches it.
 *
 * The server has its own host key, accepts one user key and gives its sessions a HOME of the test's
 * choice. ssh(1) reads ~/.ssh of the passwd entry and not of $HOME, so the client side is a directory
 * with an `ssh` script that adds `-F <config>`; put first in PATH it turns every ssh of the program
 * under test to this configuration.
 */

import * as fs from "node:fs";
import * as net from "node:net";
import * as os from "node:os";
import * as path from "node:path";
import { alive, atExit, must, processesOf, start, until, withDescendants, type Child } from "./process.ts";

const START_ATTEMPTS = 5;

export interface SshdOptions {
    /** Directory for keys, configuration and log; must exist. It marks the server's processes. */
    dir: string;
    /** HOME of every session. Absent: the account's own. */
    home?: string;
    /** PATH of every session. Absent: what sshd gives. */
    path?: string;
    /** More variables of every session. */
    setEnv?: Record<string, string>;
    /** More lines of sshd_config, put first so that they win. */
    extraConfig?: string[];
    /** More lines of sshd_config, put last: Match blocks. */
    lastConfig?: string[];
    /** Where it listens. Absent: 127.0.0.1. */
    address?: string;
    /** Absent: one that is free. */
    port?: number;
    /** Command that runs the server, which follows as its last arguments: another network namespace. */
    within?: string[];
}

/** Why a server cannot run here, or undefined when it can. */
export function sshdMissing(): string | undefined {
    for (const file of ["/usr/sbin/sshd", "/usr/bin/ssh", "/usr/bin/ssh-keygen"]) {
        if (!fs.existsSync(file)) return `${file} is not installed`;
    }
    return undefined;
}

async function freePort(): Promise<number> {
    const server = net.createServer();
    await new Promise<void>((resolve, reject) => {
        server.once("error", reject);
        server.listen(0, "127.0.0.1", resolve);
    });
    const port = (server.address() as net.AddressInfo).port;
    await new Promise((resolve) => server.close(resolve));
    return port;
}

async function greets(port: number): Promise<boolean> {
    return new Promise((resolve) => {
        const socket = net.connect(port, "127.0.0.1");
        const done = (ok: boolean): void => {
            socket.destroy();
            resolve(ok);
        };
        socket.once("data", (data) => done(data.toString("latin1").startsWith("SSH-")));
        socket.once("error", () => done(false));
        socket.setTimeout(2000, () => done(false));
    });
}

function exeOf(pid: number): string {
    try {
        return fs.readlinkSync(`/proc/${pid}/exe`);
    } catch {
        return "";
    }
}

function quote(value: string): string {
    if (/["\n]/.test(value)) throw new Error(`value cannot stand in an ssh configuration: ${value}`);
    return `"${value}"`;
}

export class Sshd {
    readonly dir: string;
    readonly user = os.userInfo().username;
    port = 0;
    private readonly options: SshdOptions;
    private server: Child | undefined;
    /** Sessions of earlier listeners: nothing in /proc ties them to this server once it has ended. */
    private readonly orphans = new Set<number>();
    private forget: (() => void) | undefined;

    private constructor(options: SshdOptions) {
        this.options = options;
        this.port = options.port ?? 0;
        this.dir = options.dir;
    }

    static async start(options: SshdOptions): Promise<Sshd> {
        const missing = sshdMissing();
        if (missing !== undefined) throw new Error(missing);
        const sshd = new Sshd(options);
        for (const name of ["host_key", "user_key"]) {
            const args = ["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path.join(options.dir, name)];
            await must("/usr/bin/ssh-keygen", args, { env: {} });
        }
        fs.copyFileSync(path.join(options.dir, "user_key.pub"), path.join(options.dir, "authorized_keys"));
        /* A root sshd insists on its privilege separation directory, which only a boot script makes. */
        if (process.getuid?.() === 0) fs.mkdirSync("/run/sshd", { recursive: true, mode: 0o755 });
        await sshd.listen();
        return sshd;
    }

    get address(): string {
        return this.options.address ?? "127.0.0.1";
    }

    get userKey(): string {
        return path.join(this.dir, "user_key");
    }

    get log(): string {
        const file = path.join(this.dir, "sshd.log");
        return fs.existsSync(file) ? fs.readFileSync(file, "utf8") : "";
    }

    /** Logins so far. */
    get logins(): number {
        return this.log.split("\n").filter((line) => line.includes("Accepted publickey")).length;
    }

    /** Line for a known_hosts file. */
    get knownHostsLine(): string {
        const key = fs.readFileSync(path.join(this.dir, "host_key.pub"), "utf8").split(" ").slice(0, 2).join(" ");
        return `[${this.address}]:${this.port} ${key}`;
    }

    /** The server's connections and what runs in them, listener apart. */
    sessionPids(): number[] {
        /* Clients name the directory too (their configuration); only sshd's own processes count. */
        const mine = processesOf(this.dir)
            .map((p) => p.pid)
            .filter((pid) => exeOf(pid).includes("sshd"));
        const known = [...this.orphans].filter((pid) => alive(pid));
        return withDescendants([...mine, ...known]).filter((pid) => pid !== this.server?.pid);
    }

    /** Cuts every connection as a lost network would seem to a program: the server's processes die. */
    cut(): void {
        for (const pid of this.sessionPids()) {
            try {
                process.kill(pid, "SIGKILL");
            } catch {
                /* already gone */
            }
        }
    }

    /** Stops listening; sessions stay. */
    async stopListening(): Promise<void> {
        for (const pid of this.sessionPids()) this.orphans.add(pid);
        await this.server?.stop("SIGTERM");
        this.server = undefined;
    }

    /** Listens again on the same port, or for the first time on a new one. */
    async listen(): Promise<void> {
        for (let attempt = 1; ; attempt++) {
            const fixed = this.port !== 0;
            const port = fixed ? this.port : await freePort();
            this.port = port;
            const config = path.join(this.dir, "sshd_config");
            fs.writeFileSync(config, this.config());
            const words = [...(this.options.within ?? []), "/usr/sbin/sshd", "-D", "-f", config, "-E", path.join(this.dir, "sshd.log")];
            const server = start(words[0]!, words.slice(1), { env: { PATH: "/usr/bin:/bin" }, cwd: this.dir });
            /* From here it cannot be asked in another namespace; its log says when it listens. */
            const logged = this.log.length;
            const listens = async (): Promise<boolean> =>
                this.options.within === undefined ? await greets(port) : this.log.slice(logged).includes("Server listening on");
            try {
                await until(async () => server.ended || (await listens()), { what: "sshd's greeting" });
                if (server.ended) throw new Error(`sshd ended: ${server.stderr}${this.log}`);
            } catch (err) {
                await server.stop("SIGKILL");
                if (attempt >= START_ATTEMPTS) throw err;
                if (!fixed) this.port = 0;
                continue;
            }
            this.server = server;
            this.forget?.();
            this.forget = atExit(() => this.cut());
            return;
        }
    }

    /** Ends the listener, every session and whatever runs in one. */
    async stop(): Promise<void> {
        await this.stopListening();
        await until(
            () => {
                this.cut();
                return this.sessionPids().length === 0;
            },
            { what: "the end of sshd's sessions", dump: () => JSON.stringify(processesOf(this.dir)) },
        );
        this.forget?.();
    }

    private config(): string {
        const { dir, options } = this;
        const session: Record<string, string> = { ...options.setEnv };
        if (options.home !== undefined) session["HOME"] = options.home;
        if (options.path !== undefined) session["PATH"] = options.path;
        const setEnv = Object.entries(session).map(([k, v]) => `${k}=${quote(v)}`).join(" ");
        return [
            ...(options.extraConfig ?? []),
            `Port ${this.port}`,
            `ListenAddress ${this.address}`,
            `HostKey ${path.join(dir, "host_key")}`,
            `PidFile ${path.join(dir, "sshd.pid")}`,
            `AuthorizedKeysFile ${path.join(dir, "authorized_keys")}`,
            "UsePAM no",
            "StrictModes no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin yes",
            "PrintMotd no",
            "PrintLastLog no",
            "UseDNS no",
            "LogLevel VERBOSE",
            "MaxStartups 200:30:400",
            ...(setEnv === "" ? [] : [`SetEnv ${setEnv}`]),
            ...(options.lastConfig ?? []),
            "",
        ].join("\n");
    }
}

export interface SshHost {
    alias: string;
    sshd: Sshd;
    /** Account to log in as. Absent: the one that runs the test. */
    user?: string;
    /** More lines of the Host block, put first so that they win. */
    extraConfig?: string[];
}

/** The client side: a configuration with an alias per server and a `bin` directory for PATH. */
export class SshClient {
    readonly bin: string;
    readonly configFile: string;
    readonly knownHostsFile: string;
    /** One line per ssh process that was started through the script: its arguments. */
    readonly logFile: string;
    private readonly hosts: SshHost[] = [];

    constructor(dir: string) {
        this.bin = path.join(dir, "ssh-bin");
        this.configFile = path.join(dir, "ssh_config");
        this.knownHostsFile = path.join(dir, "known_hosts");
        this.logFile = path.join(dir, "ssh.log");
        fs.mkdirSync(this.bin, { recursive: true });
        const script = `#!/bin/sh\nprintf '%s\\n' "$*" >>'${this.logFile}'\nexec /usr/bin/ssh -F '${this.configFile}' "$@"\n`;
        fs.writeFileSync(path.join(this.bin, "ssh"), script, { mode: 0o755 });
        this.write();
    }

    addHost(host: SshHost): void {
        this.hosts.push(host);
        this.write();
    }

    /** Arguments of every ssh started so far. */
    get calls(): string[] {
        if (!fs.existsSync(this.logFile)) return [];
        return fs.readFileSync(this.logFile, "utf8").split("\n").filter((l) => l !== "");
    }

    /** Writes configuration and known hosts; again after a server got another port or key. */
    write(): void {
        fs.writeFileSync(this.knownHostsFile, this.hosts.map((h) => `${h.sshd.knownHostsLine}\n`).join(""));
        const blocks = this.hosts.map((h) =>
            [
                `Host ${h.alias}`,
                ...(h.extraConfig ?? []),
                `HostName ${h.sshd.address}`,
                `Port ${h.sshd.port}`,
                `User ${h.user ?? h.sshd.user}`,
                `IdentityFile ${h.sshd.userKey}`,
                "IdentitiesOnly yes",
                `UserKnownHostsFile ${this.knownHostsFile}`,
                "GlobalKnownHostsFile /dev/null",
                "StrictHostKeyChecking yes",
                "UpdateHostKeys no",
            ].join("\n    "),
        );
        fs.writeFileSync(this.configFile, `${blocks.join("\n\n")}\n`);
    }
}
