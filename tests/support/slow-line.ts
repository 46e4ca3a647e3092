/*
 * Two hosts and a slow line between them, all on this machine: two network namespaces that
 * tests/support/line/slow_line.c joins. An sshd listens on the far side; programs run on the near
 * side. Both see the same files.
 */

import * as fs from "node:fs";
import * as path from "node:path";
import { Driven } from "../bench/rig.ts";
import { removeRoot, repoRoot, start, tmpRoot, until, type Child } from "./process.ts";
import { Sshd, SshClient, sshdMissing } from "./sshd.ts";
import { shepherdrBin } from "./world.ts";

const named = process.env["BUILD"]; /* as make bench says it */
const build = named === undefined ? path.dirname(path.dirname(shepherdrBin)) : path.resolve(repoRoot, named);
const binDir = path.join(build, "bin");
const lineProgram = path.join(build, "tests", "slow_line");
const benchLink = path.join(build, "bench", "bench_link");
const benchFloor = path.join(build, "bench", "bench_floor");
const FAR_PORT = 2222; /* the far side is a host of its own: every port is free */

export interface LineOptions {
    bytesPerSecond: number;
    /** One way. */
    delayMs: number;
    lossPerMille: number;
    /** What the line holds before it drops. */
    queueBytes: number;
    seed: number;
}

/** 2 Mbit/s, 50 ms there and back, 1 of 100 packets lost; the queue is deep, as those of modems are. */
export const SLOW_LINE: LineOptions = { bytesPerSecond: 250_000, delayMs: 25, lossPerMille: 10, queueBytes: 1024 * 1024, seed: 11 };

/** Why there can be no slow line here, or undefined. */
export function slowLineMissing(): string | undefined {
    if (process.getuid?.() !== 0) return "network namespaces need root";
    if (!fs.existsSync("/dev/net/tun")) return "/dev/net/tun is missing";
    if (!fs.existsSync("/usr/bin/nsenter")) return "nsenter is not installed";
    const absent = [lineProgram, benchLink, benchFloor].find((file) => !fs.existsSync(file));
    return absent === undefined ? sshdMissing() : `${absent} is missing (build first)`;
}

export class SlowLine {
    readonly dir: string;
    /** Who can speak SSH on the near side. */
    readonly transports: ("openssh" | "libssh")[];
    /** Drives the controller's own path to the far side; see tests/bench/bench_link.c. */
    link!: Driven;
    private line!: Child;
    private sshd: Sshd | undefined;
    private herdr: Driven | undefined;

    private constructor() {
        this.dir = tmpRoot("line");
        this.transports = fs.readFileSync(benchLink).includes("libssh.so") ? ["openssh", "libssh"] : ["openssh"];
    }

    /** A string: why this system does not let us, though everything is there. */
    static async create(options: LineOptions): Promise<SlowLine | string> {
        const slow = new SlowLine();
        const { bytesPerSecond, delayMs, lossPerMille, queueBytes, seed } = options;
        const numbers = [bytesPerSecond, delayMs, lossPerMille, queueBytes, seed].map(String);
        slow.line = start(lineProgram, numbers, { env: {} });
        await until(() => slow.line.ended || slow.line.stdout.includes("\n"), { what: "the line" });
        if (slow.line.ended) {
            removeRoot(slow.dir);
            return slow.line.stderr.trim();
        }
        try {
            await slow.begin();
        } catch (err) {
            await slow.stop();
            throw err;
        }
        return slow;
    }

    private async begin(): Promise<void> {
        const told = JSON.parse(this.line.stdout) as { namespaces: string[]; addresses: string[] };
        const within = (side: number): string[] => ["/usr/bin/nsenter", `--net=${told.namespaces[side]}`];
        const home = path.join(this.dir, "far");
        const socket = path.join(home, ".config", "herdr", "herdr.sock");
        const sshdDir = path.join(this.dir, "sshd");
        for (const made of [sshdDir, path.dirname(socket), path.join(this.dir, "near")]) fs.mkdirSync(made, { recursive: true });
        this.sshd = await Sshd.start({ dir: sshdDir, home, port: FAR_PORT, address: told.addresses[1]!, within: within(1) });
        const client = new SshClient(this.dir);
        client.addHost({ alias: "far", sshd: this.sshd });
        const catalog = [{ id: "f".repeat(32), label: "far", target: "far", session: "default", enabled: true }];
        const herdr = path.join(this.dir, "herdr");
        fs.writeFileSync(herdr, `#!/bin/sh\ncat <<'END'\n${JSON.stringify(catalog)}\nEND\n`, { mode: 0o755 });
        const env = {
            HOME: path.join(this.dir, "near"),
            PATH: `${client.bin}:/usr/local/bin:/usr/bin:/bin`,
            HERDR_BIN_PATH: herdr,
        };
        this.herdr = new Driven(benchFloor, ["serve", socket], env);
        await this.herdr.line();
        const [enter, ...where] = within(0);
        this.link = new Driven(enter!, [...where, benchLink, binDir], env);
    }

    /** Who speaks SSH from the next connect on. */
    use(transport: "openssh" | "libssh"): void {
        const dir = path.join(this.dir, "near", ".pi", "agent");
        fs.mkdirSync(dir, { recursive: true });
        fs.writeFileSync(path.join(dir, "pi-shepherdr.json"), JSON.stringify({ transport }));
    }

    async stop(): Promise<void> {
        await (this.link as Driven | undefined)?.end();
        await this.sshd?.stop();
        this.herdr?.child.kill("SIGKILL");
        this.line.end();
        await this.line.stop();
        removeRoot(this.dir);
    }
}
