/*
 * A throw-away machine: a temporary root with HOME, programs (`herdr`, `pi`), Pi's configuration and
 * a running Herdr. Reached from others through its own sshd when asked for.
 *
 * Nothing of shepherdr is put there: what a test finds of it came over a connection.
 */

import * as fs from "node:fs";
import * as path from "node:path";
import { Herdr, herdrBin } from "./herdr.ts";
import { alive, killByRoot, processesOf, removeRoot, repoRoot, tmpRoot, type ProcessInfo } from "./process.ts";
import { Sshd } from "./sshd.ts";

export const nodeBin: string = process.env["SHP_NODE"] ?? process.execPath;
export const piCli: string =
    process.env["SHP_PI_CLI"] ??
    path.join(repoRoot, ".deps/pi/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js");
const integration = path.join(repoRoot, "tests/herdr-sim/herdr-pi-integration.ts");

/** Why machines cannot be made here, or undefined when they can. */
export function machineMissing(): string | undefined {
    for (const file of [herdrBin, piCli, integration]) {
        if (!fs.existsSync(file)) return `${file} is missing (build and bootstrap first)`;
    }
    return undefined;
}

/** Caches that Pi and Node leave in TMPDIR. */
const FOREIGN_TMP = new Set(["jiti", "node-compile-cache"]);

export interface MachineOptions {
    /** Short: it becomes part of a path that holds sockets. */
    name: string;
    /** Base URL of the scripted model. */
    modelUrl: string;
    /** Start an sshd for it. Default false. */
    ssh?: boolean;
    /** More lines of sshd_config. */
    sshdConfig?: string[];
    /** Start Herdr. Default true. */
    herdr?: boolean;
    /** Herdr's Pi integration in ~/.pi/agent/extensions. Default true. */
    integration?: boolean;
    /** More variables of everything on the machine, Herdr's panes included. */
    env?: Record<string, string>;
    /** Directories put before the machine's own in PATH. */
    pathFirst?: string[];
    /** More keys of Pi's settings.json. */
    settings?: Record<string, unknown>;
}

export interface CatalogEntry {
    id: string;
    label: string;
    target: string;
    session: string;
    enabled: boolean;
}

export interface Leftovers {
    processes: ProcessInfo[];
    files: string[];
}

/** What may stay below ~/.pi/agent/shepherdr when nothing runs (design: files). */
const KEPT_FILES = [
    /^bin\/helper-[a-z0-9]+-[a-z0-9_]+-[0-9a-f]+$/,
    /^ext\/pi-ext-[0-9a-f]+\.mjs$/,
    /^prompts\/[0-9a-f]+\.md$/,
    /^installation$/,
    /^profiles\//,
    /^\.profiles-initialized$/,
    /^state\/[^/]+\.db(-wal|-shm|\.lock)?$/,
    /^log\//,
    /^run\//,
];

/** Model configuration of a machine: the provider `mock`, and the scripted model in the place of real ones. */
function modelsJson(url: string): string {
    const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
    const model = (id: string, reasoning: boolean): object => ({
        id, name: id, reasoning, input: ["text"], cost, contextWindow: 128000, maxTokens: 4096,
    });
    const compat = { supportsDeveloperRole: false, supportsReasoningEffort: false };
    const provider = (models: object[]): object => ({
        baseUrl: url, api: "openai-completions", apiKey: "dummy", compat, models,
    });
    const providers: Record<string, object> = { mock: provider([model("mock-1", false), model("mock-2", true)]) };
    /* The models that the default profiles name, answered by the script as well. */
    for (const name of defaultProfileModels()) {
        const [id, rest] = [name.slice(0, name.indexOf("/")), name.slice(name.indexOf("/") + 1)];
        const known = providers[id] as { models: object[] } | undefined;
        if (known === undefined) providers[id] = provider([model(rest, true)]);
        else known.models.push(model(rest, true));
    }
    return JSON.stringify({ providers }, null, 2);
}

/** Models of the profiles that shepherdr installs on first load. */
export function defaultProfileModels(): string[] {
    return ["openai-codex/gpt-6-sol", "openai-codex/gpt-6-luna"];
}

export class Machine {
    readonly name: string;
    readonly root: string;
    readonly home: string;
    readonly bin: string;
    readonly agentDir: string;
    /** Logs and sockets of the harness itself. */
    readonly harnessDir: string;
    readonly herdr: Herdr;
    sshd: Sshd | undefined;
    private readonly options: MachineOptions;
    private readonly tmpBefore: Set<string>;

    private constructor(options: MachineOptions) {
        this.options = options;
        this.name = options.name;
        this.root = tmpRoot(options.name);
        this.home = path.join(this.root, "home");
        this.bin = path.join(this.root, "bin");
        this.agentDir = path.join(this.home, ".pi", "agent");
        this.harnessDir = path.join(this.root, "h");
        for (const dir of [this.home, this.bin, this.harnessDir, path.join(this.root, "tmp"), path.join(this.home, "project")]) {
            fs.mkdirSync(dir, { recursive: true });
        }
        this.tmpBefore = new Set(strayTmp());
        this.herdr = new Herdr(path.join(this.bin, "herdr"), this.env(), this.harnessDir);
    }

    static async create(options: MachineOptions): Promise<Machine> {
        const missing = machineMissing();
        if (missing !== undefined) throw new Error(missing);
        const machine = new Machine(options);
        machine.writePrograms();
        machine.writePi();
        if (options.ssh === true) {
            const dir = path.join(machine.harnessDir, "sshd");
            fs.mkdirSync(dir);
            machine.sshd = await Sshd.start({
                dir,
                home: machine.home,
                path: machine.path,
                extraConfig: options.sshdConfig ?? [],
            });
        }
        if (options.herdr !== false) await machine.herdr.start(machine.home);
        return machine;
    }

    /** A working directory for agents; exists. */
    get project(): string {
        return path.join(this.home, "project");
    }

    get path(): string {
        return [...(this.options.pathFirst ?? []), this.bin, "/usr/local/bin", "/usr/bin", "/bin"].join(":");
    }

    /** The environment of a login on this machine. */
    env(extra: Record<string, string> = {}): Record<string, string> {
        return {
            HOME: this.home,
            PATH: this.path,
            SHELL: "/bin/bash",
            TERM: "xterm-256color",
            LANG: "C.UTF-8",
            TMPDIR: path.join(this.root, "tmp"),
            ...this.options.env,
            ...extra,
        };
    }

    /** Where shepherdr keeps its things on this machine. */
    get shepherdrDir(): string {
        return path.join(this.agentDir, "shepherdr");
    }

    /** A profile with the scripted model. */
    writeProfile(name: string, fields: Record<string, unknown> = {}): void {
        const dir = path.join(this.shepherdrDir, "profiles", name);
        fs.mkdirSync(dir, { recursive: true, mode: 0o700 });
        const profile = { description: `Test profile ${name}.`, model: "mock/mock-1", thinking: "off", ...fields };
        fs.writeFileSync(path.join(dir, "profile.json"), `${JSON.stringify(profile, null, 2)}\n`);
    }

    /** Herdr's catalog of this machine, as Herdr would have written it. */
    writeCatalog(entries: CatalogEntry[]): void {
        this.writeCatalogText(JSON.stringify({ version: 1, ssh: entries }));
    }

    writeCatalogText(text: string): void {
        const dir = path.join(this.home, ".local", "state", "herdr", "client");
        fs.mkdirSync(dir, { recursive: true });
        fs.writeFileSync(path.join(dir, "endpoints.json"), text, { mode: 0o600 });
    }

    /** Session files of Pi on this machine. */
    sessionFiles(): string[] {
        const dir = path.join(this.agentDir, "sessions");
        if (!fs.existsSync(dir)) return [];
        return fs
            .readdirSync(dir, { recursive: true, encoding: "utf8" })
            .filter((f) => f.endsWith(".jsonl"))
            .map((f) => path.join(dir, f));
    }

    /** Processes of shepherdr on this machine: controller, helper, bootstrap shells, ssh of the controller. */
    ours(): ProcessInfo[] {
        return processesOf(this.root).filter(({ pid, command }) => {
            const exe = exeOf(pid);
            if (/\/(shepherdr|shepherdr-helper|helper-[^/]+)( \(deleted\))?$/.test(exe)) return true;
            if (exe.endsWith("/ssh")) return true;
            return command.includes("/shepherdr/bin") && /^(exec )?(ba|da)?sh /.test(command);
        });
    }

    /** Files of shepherdr that nothing should have left, looked at when no process of ours runs. */
    strayFiles(): string[] {
        const dir = this.shepherdrDir;
        const files = fs.existsSync(dir) ? fs.readdirSync(dir, { recursive: true, encoding: "utf8" }) : [];
        const stray = files.filter((f) => !isDirectory(path.join(dir, f)) && !KEPT_FILES.some((re) => re.test(f)));
        const tmp = fs.readdirSync(path.join(this.root, "tmp")).filter((f) => !FOREIGN_TMP.has(f));
        const all = [
            ...stray.map((f) => path.join(dir, f)),
            ...tmp.map((f) => path.join(this.root, "tmp", f)),
            ...strayTmp().filter((f) => !this.tmpBefore.has(f)),
        ];
        const { live } = this.receivers();
        return all.filter((f) => !live.has(f));
    }

    /**
     * Descriptors and sockets whose Pi is gone. A Pi that was killed leaves its own until the next
     * one on the machine sweeps; one that ended in order leaves none.
     */
    deadReceivers(): string[] {
        return this.receivers().dead;
    }

    private receivers(): { live: Set<string>; dead: string[] } {
        const live = new Set<string>();
        const run = path.join(this.shepherdrDir, "run");
        const files = fs.existsSync(run) ? fs.readdirSync(run).map((f) => path.join(run, f)) : [];
        for (const file of files.filter((f) => f.endsWith(".json"))) {
            try {
                const { pid, socket } = JSON.parse(fs.readFileSync(file, "utf8")) as { pid: number; socket: string };
                if (alive(pid)) for (const f of [file, socket, path.dirname(socket)]) live.add(f);
            } catch {
                /* it vanished meanwhile, or is not whole: not a live one */
            }
        }
        return { live, dead: files.filter((f) => !live.has(f)) };
    }

    /** Everything that still runs or lies about, the machine's own sshd and Herdr apart. */
    leftovers(): Leftovers {
        return { processes: this.ours(), files: this.strayFiles() };
    }

    /**
     * Stops Herdr and sshd, kills the rest and removes the root. Throws after that when what went
     * over Herdr's socket does not fit Herdr's published schema (the file in HERDR_API_SCHEMA).
     */
    async stop(): Promise<void> {
        await this.herdr.stop();
        await this.sshd?.stop();
        killByRoot(this.root);
        const problem = this.herdr.schemaProblem();
        removeRoot(this.root);
        if (problem !== undefined) throw new Error(`machine ${this.name}: ${problem}`);
    }

    async dump(): Promise<string> {
        const processes = processesOf(this.root).map((p) => `  ${p.pid} ${p.command.slice(0, 200)}`);
        const parts = [`machine ${this.name}: processes`, ...processes, `machine ${this.name}: screens`, await this.herdr.screens()];
        const logs = path.join(this.shepherdrDir, "log");
        if (fs.existsSync(logs)) {
            for (const file of fs.readdirSync(logs)) {
                parts.push(`machine ${this.name}: ${file}`, fs.readFileSync(path.join(logs, file), "utf8").slice(-4000));
            }
        }
        return parts.join("\n");
    }

    private writePrograms(): void {
        fs.symlinkSync(path.resolve(herdrBin), path.join(this.bin, "herdr"));
        const pi =
            "#!/bin/sh\nexport PI_OFFLINE=1 PI_SKIP_VERSION_CHECK=1 PI_TELEMETRY=0\n" +
            `exec '${nodeBin}' '${piCli}' "$@"\n`;
        fs.writeFileSync(path.join(this.bin, "pi"), pi, { mode: 0o755 });
    }

    private writePi(): void {
        fs.mkdirSync(path.join(this.agentDir, "extensions"), { recursive: true });
        fs.writeFileSync(path.join(this.agentDir, "models.json"), modelsJson(this.options.modelUrl));
        const settings = {
            defaultProvider: "mock",
            defaultModel: "mock-1",
            quietStartup: true,
            enableInstallTelemetry: false,
            retry: { baseDelayMs: 50 },
            ...this.options.settings,
        };
        fs.writeFileSync(path.join(this.agentDir, "settings.json"), JSON.stringify(settings));
        if (this.options.integration !== false) {
            fs.copyFileSync(integration, path.join(this.agentDir, "extensions", "herdr-agent-state.ts"));
        }
    }
}

/** Socket directories of receivers whose path was too long for a place below HOME. */
function strayTmp(): string[] {
    return fs
        .readdirSync("/tmp")
        .filter((f) => f.startsWith("shepherdr-"))
        .map((f) => path.join("/tmp", f));
}

function exeOf(pid: number): string {
    try {
        return fs.readlinkSync(`/proc/${pid}/exe`);
    } catch {
        return "";
    }
}

function isDirectory(file: string): boolean {
    return fs.statSync(file, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
