/*
 * A throw-away account of this host, with the login shell and home directory of the test's choice:
 * what a login meets (rc files, limits, mounts) is its own. Needs root.
 */

import * as fs from "node:fs";
import * as path from "node:path";
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { alive, atExit, must, run, until } from "./process.ts";

export interface AccountOptions {
    /** Login shell. Default /bin/bash. */
    shell?: string;
    /** Home directory; made when missing. Default below /tmp. */
    home?: string;
}

/** Why accounts cannot be made here, or undefined when they can. */
export function accountMissing(): string | undefined {
    if (process.getuid?.() !== 0) return "throw-away accounts need root";
    return fs.existsSync("/usr/sbin/useradd") ? undefined : "/usr/sbin/useradd is not installed";
}

const env = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" };

export class Account {
    readonly name: string;
    readonly home: string;
    readonly shell: string;
    uid = -1;
    gid = -1;
    private forget: (() => void) | undefined;

    private constructor(name: string, home: string, shell: string) {
        this.name = name;
        this.home = home;
        this.shell = shell;
    }

    static async create(options: AccountOptions = {}): Promise<Account> {
        const missing = accountMissing();
        if (missing !== undefined) throw new Error(missing);
        const name = `shp${randomBytes(4).toString("hex")}`;
        const account = new Account(name, options.home ?? path.join("/tmp", name), options.shell ?? "/bin/bash");
        const made = fs.existsSync(account.home);
        /* The password `*` matches nothing, and unlike `!` does not lock the account for keys. */
        const args = ["-M", "-N", "-g", "nogroup", "-d", account.home, "-s", account.shell, "-p", "*", name];
        await must("/usr/sbin/useradd", args, { env });
        account.forget = atExit(() => account.removeNow());
        const ids = (await must("/usr/bin/id", ["-u", name], { env })).stdout.trim();
        account.uid = Number(ids);
        account.gid = Number((await must("/usr/bin/id", ["-g", name], { env })).stdout.trim());
        if (!made) {
            fs.mkdirSync(account.home, { recursive: true, mode: 0o755 });
            fs.chownSync(account.home, account.uid, account.gid);
        }
        return account;
    }

    /** A file of the account's, such as .bashrc. */
    write(name: string, text: string, mode = 0o644): void {
        const file = path.join(this.home, name);
        fs.mkdirSync(path.dirname(file), { recursive: true });
        fs.writeFileSync(file, text);
        fs.chmodSync(file, mode);
        for (let at = file; at !== this.home; at = path.dirname(at)) fs.chownSync(at, this.uid, this.gid);
    }

    /** Pids of its processes. Not the dead: an orphan's waits for an init that may be slow to reap. */
    async processes(): Promise<number[]> {
        const { stdout } = await run("/usr/bin/pgrep", ["-u", String(this.uid)], { env });
        return stdout.split("\n").filter((line) => line !== "").map(Number).filter(alive);
    }

    /** Ends its processes, and takes account and home away. */
    async remove(): Promise<void> {
        await until(
            async () => {
                const pids = await this.processes();
                for (const pid of pids) {
                    try {
                        process.kill(pid, "SIGKILL");
                    } catch {
                        /* already gone */
                    }
                }
                return pids.length === 0;
            },
            { what: `the end of the processes of ${this.name}` },
        );
        await run("/usr/sbin/userdel", ["-f", this.name], { env });
        if (this.home.startsWith("/tmp/")) fs.rmSync(this.home, { recursive: true, force: true });
        this.forget?.();
    }

    /** The same at the end of the test process, when nothing can be awaited. */
    private removeNow(): void {
        spawnSync("/usr/bin/pkill", ["-KILL", "-u", String(this.uid)], { env });
        spawnSync("/usr/sbin/userdel", ["-f", this.name], { env });
        if (this.home.startsWith("/tmp/")) fs.rmSync(this.home, { recursive: true, force: true });
    }
}
