/*
 * A controlling machine, its remotes and the scripted model: the usual stage of an end-to-end test.
 *
 * Channels of the model are the machines' names: "a" for the controlling one, the given names for
 * the remotes. The ssh alias of a remote is its name, too.
 */

import * as fs from "node:fs";
import * as path from "node:path";
import { randomBytes } from "node:crypto";
import { Machine, machineMissing, type CatalogEntry, type MachineOptions } from "./machine.ts";
import { ModelServer, type Rule } from "./model-server.ts";
import { PiPane, type PiOptions } from "./pi.ts";
import { removeRoot, repoRoot, tmpRoot } from "./process.ts";
import { SshClient, sshdMissing } from "./sshd.ts";

export const shepherdrBin: string = process.env["SHEPHERDR_BIN"] ?? path.join(repoRoot, "build", "bin", "shepherdr");
export const extension: string = path.join(repoRoot, "pi-ext", "src", "index.ts");

/** Custom type of a report that was pushed into the controlling session. */
export const REPORT_TYPE = "herdr-agent-event";

export interface WorldOptions {
    /** Names of the remotes; default one, "b". */
    remotes?: string[];
    rules?: Rule[];
    /** pi-shepherdr.json of the controlling machine; `{ transport: "openssh" }` for an ssh process to interfere with. */
    settings?: object;
    /** Changes of a machine's options, by name. */
    machines?: Record<string, Partial<MachineOptions>>;
}

/** Why a world cannot be made here; undefined when it can. Use as the `skip` of a test. */
export function worldMissing(): string | undefined {
    const program = fs.existsSync(shepherdrBin) ? undefined : `${shepherdrBin} is missing (build first)`;
    return sshdMissing() ?? machineMissing() ?? program;
}

export class World {
    readonly model: ModelServer;
    readonly client: SshClient;
    readonly remotes = new Map<string, Machine>();
    readonly catalog: CatalogEntry[] = [];
    a!: Machine;
    private readonly dir: string;

    private constructor(model: ModelServer, dir: string) {
        this.model = model;
        this.dir = dir;
        this.client = new SshClient(dir);
    }

    static async create(options: WorldOptions = {}): Promise<World> {
        const world = new World(await ModelServer.start(options.rules ?? []), tmpRoot("w"));
        const make = (name: string, rest: Partial<MachineOptions>): Promise<Machine> =>
            Machine.create({ name, modelUrl: world.model.url(name), ...rest, ...options.machines?.[name] });
        for (const name of options.remotes ?? ["b"]) {
            const machine = await make(name, { ssh: true });
            world.remotes.set(name, machine);
            if (machine.sshd !== undefined) world.client.addHost({ alias: name, sshd: machine.sshd });
            const id = randomBytes(16).toString("hex");
            world.catalog.push({ id, label: `machine ${name}`, target: name, session: "default", enabled: true });
        }
        world.a = await make("a", { pathFirst: [world.client.bin], env: { SHEPHERDR_BIN: shepherdrBin } });
        world.a.writeCatalog(world.catalog);
        world.a.writeProfile("worker");
        if (options.settings !== undefined)
            fs.writeFileSync(path.join(world.a.agentDir, "pi-shepherdr.json"), JSON.stringify(options.settings));
        return world;
    }

    get b(): Machine {
        return this.remote("b");
    }

    remote(name: string): Machine {
        const machine = this.remotes.get(name);
        if (machine === undefined) throw new Error(`no remote ${name}`);
        return machine;
    }

    /** Catalog id of a remote. */
    id(name: string): string {
        const entry = this.catalog.find((e) => e.target === name);
        if (entry === undefined) throw new Error(`no catalog entry for ${name}`);
        return entry.id;
    }

    get machines(): Machine[] {
        return [this.a, ...this.remotes.values()];
    }

    /** Pi with our extension in a pane of the controlling machine. */
    openPi(options: PiOptions = {}): Promise<PiPane> {
        return PiPane.open(this.a, { ...options, extensions: [extension, ...(options.extensions ?? [])] });
    }

    async dump(): Promise<string> {
        const parts = [`model:\n${this.model.dump()}`, `ssh:\n  ${this.client.calls.join("\n  ").slice(-3000)}`];
        for (const machine of this.machines) {
            parts.push(await machine.dump());
            if (machine.sshd !== undefined) parts.push(`sshd of ${machine.name}:\n${machine.sshd.log.slice(-2000)}`);
        }
        return parts.join("\n");
    }

    async stop(): Promise<void> {
        const ends = await Promise.allSettled(this.machines.map((m) => m.stop()));
        await this.model.stop();
        removeRoot(this.dir);
        for (const end of ends) if (end.status === "rejected") throw end.reason;
    }
}
