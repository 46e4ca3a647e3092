/*
 * An account on which helpers are installed, and whatever is wrong with its home: mounts, limits,
 * programs in front of the system's, other builds of ours.
 */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as net from "node:net";
import * as path from "node:path";
import { execFileSync, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import type { TestContext } from "node:test";
import { Account, type AccountOptions } from "./account.ts";
import { ConnectRig, type MachineRow } from "./connect.ts";
import { atExit, LONG_MS, start, until, type Child } from "./process.ts";
import type { Sshd, SshdOptions } from "./sshd.ts";
import { shepherdrBin } from "./world.ts";

export interface InstallOptions extends AccountOptions {
    sshd?: Partial<SshdOptions>;
    /** Catalog names, all of the same account. Default one, "m". */
    names?: string[];
}

/** Tools of a machine that has a hash program, and of one that has not. */
export const TOOLS = ["sh", "head", "mkdir", "chmod", "mv", "rm", "uname", "cat", "sleep", "sha256sum"];
export const TOOLS_WITHOUT_HASH: string[] = TOOLS.slice(0, -1);

const mountEnv = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" };

/** Why nothing can be mounted here (a container, for one), or undefined. */
export function mountMissing(): string | undefined {
    if (process.getuid?.() !== 0) return "mounting needs root";
    const dir = fs.mkdtempSync("/tmp/shp-mount-");
    const result = spawnSync("/usr/bin/mount", ["-t", "tmpfs", "none", dir], { env: mountEnv, encoding: "utf8" });
    if (result.status === 0) unmount(dir);
    fs.rmdirSync(dir);
    return result.status === 0 ? undefined : `nothing can be mounted here: ${result.stderr.trim()}`;
}

export class InstallLab {
    readonly rig: ConnectRig;
    readonly account: Account;
    sshd!: Sshd;
    private readonly mounts: string[] = [];
    private readonly forgets: Array<() => void> = [];

    private constructor(rig: ConnectRig, account: Account) {
        this.rig = rig;
        this.account = account;
    }

    static async create(t: TestContext, options: InstallOptions = {}): Promise<InstallLab> {
        const rig = ConnectRig.create(t);
        const lab = new InstallLab(rig, await Account.create(options));
        /* The rig, and with it every sshd, has ended before this. */
        t.after(() => lab.remove());
        lab.sshd = await rig.sshd(options.sshd);
        for (const name of options.names ?? ["m"]) lab.add(name, lab.sshd);
        return lab;
    }

    /** One more machine of the account. Returns its id. */
    add(name: string, sshd: Sshd): string {
        return this.rig.add({ name, sshd, user: this.account.name });
    }

    /** Where helpers go. */
    get bin(): string {
        return path.join(this.account.home, ".pi/agent/shepherdr/bin");
    }

    /** Every file there, temporary ones too. */
    files(dir = this.bin): string[] {
        return fs.existsSync(dir) ? fs.readdirSync(dir).sort() : [];
    }

    /** The path of the one helper there. */
    helper(): string {
        const files = this.files();
        assert.equal(files.length, 1, files.join(" "));
        return path.join(this.bin, files[0]!);
    }

    async connects(name = "m"): Promise<MachineRow> {
        const row = await this.rig.machine(name);
        assert.equal(row.status, "connected", JSON.stringify(row));
        return row;
    }

    /** Does not connect, for this reason; what the user is told. */
    async fails(code: string, cause?: RegExp, name = "m"): Promise<void> {
        const row = await this.rig.machine(name);
        assertFailed(row, code, cause);
    }

    mount(type: string, dir: string, options: string, source = "none"): void {
        fs.mkdirSync(dir, { recursive: true });
        execFileSync("/usr/bin/mount", ["-t", type, "-o", options, source, dir], { env: mountEnv, stdio: "pipe" });
        this.mounts.push(dir);
        this.forgets.push(atExit(() => unmount(dir)));
    }

    /** A file system of the account's own at its home, or below. */
    tmpfs(options: string, dir = this.account.home): void {
        this.mount("tmpfs", dir, `mode=0755,uid=${this.account.uid},gid=${this.account.gid},${options}`);
    }

    remount(options: string, dir = this.account.home): void {
        execFileSync("/usr/bin/mount", ["-o", `remount,${options}`, dir], { env: mountEnv, stdio: "pipe" });
    }

    unmount(dir = this.account.home): void {
        this.mounts.splice(this.mounts.indexOf(dir), 1);
        execFileSync("/usr/bin/umount", [dir], { env: mountEnv, stdio: "pipe" });
    }

    /** A directory for PATH: links to the named tools, and scripts by name. */
    tools(name: string, tools: string[], scripts: Record<string, string> = {}): string {
        const dir = path.join(this.rig.dir, name);
        fs.mkdirSync(dir);
        for (const tool of tools.filter((tool) => !(tool in scripts))) {
            const at = ["/usr/bin", "/bin"].map((d) => path.join(d, tool)).find((file) => fs.existsSync(file));
            assert.ok(at, `${tool} is not installed`);
            fs.symlinkSync(at, path.join(dir, tool));
        }
        for (const [tool, text] of Object.entries(scripts))
            fs.writeFileSync(path.join(dir, tool), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
        return dir;
    }

    /** A running `shepherdr machines --json`, with a program of another build when one is given. */
    begin(program = shepherdrBin): Child {
        return start(program, ["machines", "--json"], { env: this.rig.env(), cwd: this.rig.home });
    }

    /** Rows of a command that was begun. */
    async rows(child: Child): Promise<MachineRow[]> {
        await until(() => child.ended, { what: "the end of shepherdr", deadlineMs: LONG_MS, dump: () => child.stderr });
        assert.notEqual(child.stdout, "", child.stderr);
        return JSON.parse(child.stdout) as MachineRow[];
    }

    /** Connects once with another build. */
    async connectsWith(program: string): Promise<void> {
        for (const row of await this.rows(this.begin(program)))
            if (row["local"] !== true) assert.equal(row.status, "connected", JSON.stringify(row));
    }

    private async remove(): Promise<void> {
        for (const dir of [...this.mounts].reverse()) unmount(dir);
        for (const forget of this.forgets) forget();
        await this.account.remove();
    }
}

export function assertFailed(row: MachineRow, code: string, cause?: RegExp): void {
    const error = row.error;
    assert.equal(row.status, "unavailable", JSON.stringify(row));
    assert.equal(error?.code, code, JSON.stringify(row));
    assert.ok(error!.cause !== "" && error!.next !== "" && error!.step !== "", JSON.stringify(error));
    if (cause !== undefined) assert.match(error!.cause, cause);
}

function unmount(dir: string): void {
    spawnSync("/usr/bin/umount", ["-l", dir], { env: mountEnv });
}

/** Changes every occurrence of `from` in a program; both have the same length. */
function patch(file: string, from: Buffer, to: Buffer): void {
    const bytes = fs.readFileSync(file);
    let count = 0;
    for (let at = bytes.indexOf(from); at >= 0; at = bytes.indexOf(from, at + 1), count++) to.copy(bytes, at);
    assert.ok(count > 0, `${file} does not hold ${from.toString()}`);
    fs.writeFileSync(file, bytes);
}

const ourDir = path.dirname(shepherdrBin);
export const ourHelper: string = path.join(ourDir, "shepherdr-helper");

/** The build id that a helper announces. */
export function buildId(): string {
    return execFileSync(ourHelper, ["--version"], { env: {}, encoding: "utf8" }).trim().split(" ").at(-1)!;
}

/** Copies of both programs in a new directory; `change` gets the helper's bytes. Returns the path of shepherdr. */
export function otherProgram(dir: string, change?: (helper: Buffer) => Buffer): string {
    fs.mkdirSync(dir);
    fs.copyFileSync(shepherdrBin, path.join(dir, "shepherdr"));
    const helper = fs.readFileSync(ourHelper);
    fs.writeFileSync(path.join(dir, "shepherdr-helper"), change ? change(helper) : helper, { mode: 0o755 });
    return path.join(dir, "shepherdr");
}

/** Another build of both programs: other build id, hence other helper bytes and another name there. */
export function otherBuild(dir: string): string {
    const program = otherProgram(dir);
    const from = Buffer.from(buildId());
    const to = Buffer.from(randomBytes(from.length).toString("hex").slice(0, from.length));
    for (const name of ["shepherdr", "shepherdr-helper"]) patch(path.join(dir, name), from, to);
    return program;
}

/** Listens in Herdr's place, and answers nothing until it is told to. */
export class SilentHerdr {
    calls = 0;
    private readonly server: net.Server;
    private readonly sockets = new Set<net.Socket>();

    private constructor(server: net.Server) {
        this.server = server;
    }

    static async listen(t: TestContext, account: Account): Promise<SilentHerdr> {
        const file = path.join(account.home, ".config/herdr/herdr.sock");
        fs.mkdirSync(path.dirname(file), { recursive: true });
        const server = net.createServer();
        const herdr = new SilentHerdr(server);
        server.on("connection", (socket) => {
            herdr.sockets.add(socket);
            socket.on("error", () => socket.destroy());
            socket.on("data", () => herdr.calls++);
        });
        await new Promise<void>((resolve) => server.listen(file, resolve));
        fs.chmodSync(file, 0o777);
        t.after(() => herdr.close());
        return herdr;
    }

    /** Answers every call that waits, with an error of Herdr's own kind. */
    answer(): void {
        for (const socket of this.sockets) socket.end('{"id":"1","error":{"code":"busy","message":"answered late"}}\n');
        this.sockets.clear();
    }

    private close(): void {
        this.server.close();
        for (const socket of this.sockets) socket.destroy();
    }
}
