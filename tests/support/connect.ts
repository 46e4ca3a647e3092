/*
 * The smallest world in which `shepherdr machines` and `shepherdr doctor` connect to machines: a
 * home with a catalog (a `herdr` that prints it), an ssh client with a configuration of its own,
 * and throw-away sshds. No Herdr and no Pi: what is tested is the way to a machine.
 */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { createHash } from "node:crypto";
import type { TestContext } from "node:test";
import { LONG_MS, removeRoot, run, tmpRoot, type RunResult } from "./process.ts";
import { Sshd, SshClient, sshdMissing, type SshdOptions } from "./sshd.ts";
import { shepherdrBin } from "./world.ts";

export interface ConnectMachine {
    /** Alias for ssh, and the machine's label. */
    name: string;
    sshd?: Sshd;
    /** Account to log in as. */
    user?: string;
    /** More lines of the client's Host block. */
    client?: string[];
    /** Target in the catalog, when it is not the alias. */
    target?: string;
}

/** One row of `shepherdr machines --json`; what a test asks of it. */
export interface MachineRow {
    id: string;
    label: string;
    status: string;
    transport?: string;
    transportReason?: string;
    kex?: string;
    roundTripMs?: number;
    since?: number;
    lastSeen?: number;
    error?: { code: string; step: string; cause: string; next: string };
    [key: string]: unknown;
}

/** Why this cannot run here, or undefined when it can. */
export function connectMissing(): string | undefined {
    return sshdMissing() ?? (fs.existsSync(shepherdrBin) ? undefined : `${shepherdrBin} is missing (build first)`);
}

export class ConnectRig {
    readonly dir: string;
    readonly home: string;
    readonly client: SshClient;
    private readonly servers: Sshd[] = [];
    private readonly catalog: object[] = [];
    private extraEnv: Record<string, string> = {};

    private constructor(dir: string) {
        this.dir = dir;
        this.home = path.join(dir, "a");
        fs.mkdirSync(path.join(this.home, ".pi", "agent"), { recursive: true });
        fs.chmodSync(dir, 0o755); /* accounts of a test read their keys below it */
        this.client = new SshClient(dir);
        this.writeCatalog();
    }

    /** Ends with the test. */
    static create(t: TestContext): ConnectRig {
        const rig = new ConnectRig(tmpRoot("c"));
        t.after(() => rig.stop());
        return rig;
    }

    /** An sshd; without `home` its sessions have the home of the account. */
    async sshd(options: Partial<SshdOptions> = {}): Promise<Sshd> {
        const dir = path.join(this.dir, `sshd${this.servers.length}`);
        fs.mkdirSync(dir);
        const sshd = await Sshd.start({ dir, ...options });
        this.servers.push(sshd);
        return sshd;
    }

    /** A machine in the catalog (and, with sshd, in the client's configuration). Returns its id. */
    add(machine: ConnectMachine): string {
        const { name, sshd, user, client, target } = machine;
        if (sshd !== undefined)
            this.client.addHost({ alias: name, sshd, ...(user && { user }), ...(client && { extraConfig: client }) });
        const id = this.id(name);
        this.catalog.push({ id, label: name, target: target ?? name, session: "default", enabled: true });
        this.writeCatalog();
        return id;
    }

    /** The id of a machine, made from its name. */
    id(name: string): string {
        return createHash("md5").update(name).digest("hex");
    }

    /** A new home for sessions of an sshd (option `home`), empty. */
    remoteHome(name = "b"): string {
        const home = path.join(this.dir, name);
        fs.mkdirSync(home, { recursive: true });
        return home;
    }

    /** pi-shepherdr.json of the controlling side. */
    settings(settings: object): void {
        fs.writeFileSync(path.join(this.home, ".pi", "agent", "pi-shepherdr.json"), JSON.stringify(settings));
    }

    /** More variables of the commands, SSH_AUTH_SOCK for one. */
    setEnv(extra: Record<string, string>): void {
        this.extraEnv = { ...this.extraEnv, ...extra };
    }

    env(): Record<string, string> {
        return {
            HOME: this.home,
            PATH: [this.client.bin, "/usr/local/bin", "/usr/bin", "/bin"].join(":"),
            LANG: "C.UTF-8",
            HERDR_BIN_PATH: path.join(this.dir, "herdr"),
            ...this.extraEnv,
        };
    }

    /** A shepherdr command to its end; one that hangs fails the test. */
    async shepherdr(args: string[], deadlineMs = LONG_MS * 2): Promise<RunResult> {
        const result = await run(shepherdrBin, args, { env: this.env(), cwd: this.home, deadlineMs });
        assert.equal(result.timedOut, false, `shepherdr ${args.join(" ")} did not end: ${result.stderr}`);
        assert.equal(result.signal, null, `${result.signal}: ${result.stderr}`);
        return result;
    }

    /** Rows of `shepherdr machines --json`, by name. */
    async machines(): Promise<Map<string, MachineRow>> {
        const { stdout, stderr } = await this.shepherdr(["machines", "--json"]);
        assert.notEqual(stdout, "", stderr);
        return this.rows(stdout);
    }

    /** What `shepherdr machines --json` printed, by name. */
    rows(stdout: string): Map<string, MachineRow> {
        const rows = JSON.parse(stdout) as MachineRow[];
        return new Map(rows.map((row) => [row.label, row]));
    }

    /** The row of one machine. */
    async machine(name: string): Promise<MachineRow> {
        const row = (await this.machines()).get(name);
        assert.ok(row !== undefined, `no row for ${name}`);
        return row;
    }

    async stop(): Promise<void> {
        for (const server of this.servers) await server.stop();
        removeRoot(this.dir);
    }

    private writeCatalog(): void {
        const file = path.join(this.dir, "herdr");
        const json = JSON.stringify(this.catalog);
        fs.writeFileSync(file, `#!/bin/sh\ncat <<'END'\n${json}\nEND\n`, { mode: 0o755 });
    }
}
