/*
 * The measurements. Each takes its baseline in the same rounds, alternating, so that a slow moment
 * of the machine meets both; a value is the median over the rounds.
 */

import * as fs from "node:fs";
import * as path from "node:path";
import { randomBytes } from "node:crypto";
import { childrenOf, cpuMs, peakRssMiB, pssMiB, resetPeak, rssMiB } from "./proc.ts";
import { line, ms, type Line } from "./report.ts";
import { helperFile, MACHINES, MANY, type Answer, type Driven, type Rig } from "./rig.ts";
import { median, quantile, ratioOf } from "./stats.ts";
import { sleep } from "../support/process.ts";

export interface Effort {
    rounds: number;
    /** Rounds of connects. */
    connects: number;
    /** Calls of the latency lines. */
    calls: number;
    /** Rounds of 16 machines at once. */
    crowdRounds: number;
    /** Calls that CPU time is counted over. */
    cpuCalls: number;
    transcriptBytes: number;
}

/* Short rounds: value and baseline meet the same moments of the machine. */
const CALLS_OF_ROUND = 200;
const TAIL_MOST = 3;
const CPU_ROUNDS = 4;
const BIG_BYTES = 4 * 1024 * 1024;
const BIG_COUNT = 4;
const MIB = 1024 * 1024;

function only(answer: Answer): number {
    return answer.us[0] ?? NaN;
}

async function openClose(driven: Driven, machines: number): Promise<Answer> {
    const answer = await driven.do("open", machines);
    await driven.do("shut");
    return answer;
}

/* ---- connecting --------------------------------------------------------------------------- */

export async function connecting(rig: Rig, effort: Effort): Promise<Line[]> {
    const login: number[] = [], warm: number[] = [], fresh: number[] = [], node: number[] = [];
    await openClose(rig.link, 1);
    for (let i = 0; i < effort.connects; i++) {
        await rig.quiet();
        login.push(only(await rig.floor.do("run", 1, "ssh", "-T", rig.alias, "true")));
        await rig.quiet();
        const opened = await openClose(rig.link, 1);
        if (opened.uploads !== 0) throw new Error("a warm connect sent the helper again");
        warm.push(only(opened));
        await rig.quiet();
        rig.removeHelper();
        const installed = await openClose(rig.link, 1);
        if (installed.uploads !== 1) throw new Error("a first connect sent no helper");
        fresh.push(only(installed));
        if (i % 5 !== 0) continue;
        await rig.quiet();
        node.push(only(await openClose(rig.node, 1)));
    }
    /* Two times of hundreds of milliseconds for a difference of ten: the undisturbed rounds tell it. */
    const difference = (quantile(fresh, 0.25) - quantile(warm, 0.25)) / 1000;
    return [
        line("connect.warm", "warm connect to ready (openssh)",
            `${ms(median(warm))}; ssh host true ${ms(median(login))}`, ratioOf(warm, login), "×",
            { text: "≤ 1.1 × ssh host true", most: 1.1 }),
        line("connect.first", "first connect with install",
            `${ms(median(fresh))}; warm ${ms(median(warm))}; value: difference of the lower quartiles`,
            difference, "ms", { text: "≤ warm + 40 ms", most: 40, absolute: true }),
        line("connect.node", "warm connect beside the Node bridge",
            `${ms(median(warm))}; Node ${ms(median(node))}`, median(warm) / median(node), "× Node"),
    ];
}

/* What libssh negotiates; the other half of the comparison with ssh as it comes. */
const LIBSSH_KEX = "-oKexAlgorithms=curve25519-sha256";

/** The same over libssh, beside ssh with the same key exchange and ssh as it comes. */
export async function connectingLibssh(rig: Rig, effort: Effort): Promise<Line[]> {
    const equal: number[] = [], stock: number[] = [], warm: number[] = [];
    rig.use("libssh");
    await openClose(rig.link, 1);
    for (let i = 0; i < effort.connects; i++) {
        await rig.quiet();
        equal.push(only(await rig.floor.do("run", 1, "ssh", LIBSSH_KEX, "-T", rig.alias, "true")));
        await rig.quiet();
        warm.push(only(await openClose(rig.link, 1)));
        await rig.quiet();
        stock.push(only(await rig.floor.do("run", 1, "ssh", "-T", rig.alias, "true")));
    }
    await rig.quiet();
    rig.use("openssh");
    return [
        line("connect.libssh", "warm connect to ready (libssh)",
            `${ms(median(warm))}; ssh host true with curve25519 ${ms(median(equal))}`, ratioOf(warm, equal), "×",
            { text: "≤ 0.8 × ssh host true, equal key exchange", most: 0.8 }),
        line("connect.libssh.stock", "the same beside ssh as it comes",
            `${ms(median(warm))}; ssh host true ${ms(median(stock))}`, ratioOf(warm, stock), "×",
            { text: "≤ 0.5 × ssh host true", most: 0.5 }),
    ];
}

/** What one ssh costs besides the login: for the explanation of the line above. */
export async function query(rig: Rig, effort: Effort): Promise<Line[]> {
    const answer = await rig.floor.do("run", effort.rounds, "ssh", "-G", rig.alias);
    return [line("connect.query", "of which ssh -G", ms(median(answer.us)), median(answer.us) / 1000, "ms")];
}

export async function crowd(rig: Rig, effort: Effort): Promise<Line[]> {
    const ours: number[] = [], node: number[] = [], together: number[] = [], single: number[] = [];
    const libssh: number[] = [];
    let pss = NaN, sshPss = NaN, libsshPss = NaN;
    for (let i = 0; i < effort.crowdRounds; i++) {
        await rig.quiet();
        ours.push(only(await rig.link.do("open", MACHINES)));
        if (i === 0) {
            pss = pssMiB(rig.link.pid);
            sshPss = childrenOf(rig.link.pid, "ssh").reduce((sum, pid) => sum + pssMiB(pid), 0);
        }
        await rig.link.do("shut");
        await rig.quiet();
        if (rig.libssh) {
            rig.use("libssh");
            libssh.push(only(await rig.link.do("open", MACHINES)));
            if (i === 0) libsshPss = pssMiB(rig.link.pid);
            await rig.link.do("shut");
            rig.use("openssh");
            await rig.quiet();
        }
        together.push(only(await rig.floor.do("together", MACHINES, "ssh", "-T", rig.alias, "true")));
        await rig.quiet();
        node.push(only(await openClose(rig.node, MACHINES)));
        await rig.quiet();
        const answer = await rig.floor.do("run", MACHINES, "ssh", "-T", rig.alias, "true");
        single.push(answer.us.reduce((sum, us) => sum + us, 0));
    }
    return [
        line("crowd.ready", `${MACHINES} machines at once, all ready (openssh)`,
            `${ms(median(ours))}; Node ${ms(median(node))}`, ratioOf(ours, node), "× Node",
            { text: "≤ 1/8 of Node", most: 1 / 8 }),
        ...(rig.libssh ? [
            line("crowd.libssh", "the same over libssh",
                `${ms(median(libssh))}; Node ${ms(median(node))}`, ratioOf(libssh, node), "× Node",
                { text: "≤ 1/12 of Node", most: 1 / 12 }),
            line("controller.pss.libssh", `controller PSS, ${MACHINES} machines over libssh`,
                "the whole process; no ssh children", libsshPss, "MiB", { text: "≤ 24 MiB (64 × 50 agents)", most: 24 }),
        ] : []),
        line("crowd.floor", `the same beside ${MACHINES} × ssh host true at once`,
            ms(median(together)), ratioOf(ours, together), "×"),
        line("crowd.logins", `the same beside ${MACHINES} × ssh host true one by one`,
            ms(median(single)), ratioOf(ours, single), "×"),
        line("controller.pss", `controller PSS, ${MACHINES} machines`,
            `without its ssh children, which have ${sshPss.toFixed(1)} MiB`, pss, "MiB", { text: "≤ 24 MiB (64 × 50 agents)", most: 24 }),
    ];
}

/** Four times as many machines, beside as many of these in the same round: nothing grows faster than they do. */
export async function many(rig: Rig, effort: Effort): Promise<Line[]> {
    const transports = rig.libssh ? (["openssh", "libssh"] as const) : (["openssh"] as const);
    const lines: Line[] = [];
    for (const transport of transports) {
        const some: number[] = [], all: number[] = [];
        let pss = NaN;
        rig.use(transport);
        for (let i = 0; i < effort.crowdRounds; i++) {
            some.push(only(await openClose(rig.link, MACHINES)));
            await rig.quiet();
            all.push(only(await rig.link.do("open", MANY)));
            pss = pssMiB(rig.link.pid);
            await rig.link.do("shut");
            await rig.quiet();
        }
        lines.push(
            line(`many.${transport}`, `${MANY} machines at once, all ready (${transport})`,
                `${ms(median(all))}; ${MACHINES} machines ${ms(median(some))}`, ratioOf(all, some), "×",
                { text: `≤ ${(MANY / MACHINES) * 1.25} × the time of ${MACHINES}`, most: (MANY / MACHINES) * 1.25 }),
            line(`many.pss.${transport}`, `controller PSS, ${MANY} machines (${transport})`, "without ssh children", pss, "MiB",
                { text: "≤ 24 MiB (64 × 50 agents)", most: 24 }),
        );
    }
    rig.use("openssh");
    return lines;
}

/* ---- calls -------------------------------------------------------------------------------- */

interface Cpu {
    near: number;
    ssh: number;
}

function cpuOf(driven: Driven): Cpu {
    const ssh = childrenOf(driven.pid, "ssh").reduce((sum, pid) => sum + cpuMs(pid), 0);
    return { near: cpuMs(driven.pid), ssh };
}

async function cpuDuring(driven: Driven, calls: number): Promise<Cpu> {
    const before = cpuOf(driven);
    await driven.do("calls", calls);
    const after = cpuOf(driven);
    const per10k = 10_000 / calls;
    return { near: (after.near - before.near) * per10k, ssh: (after.ssh - before.ssh) * per10k };
}

/** Calls of one kind: the medians of the rounds, and all of them for the tail. */
class Latency {
    readonly medians: number[] = [];
    private readonly all: number[] = [];

    add(answer: Answer): void {
        this.medians.push(median(answer.us));
        this.all.push(...answer.us);
    }

    get p99(): number {
        return quantile(this.all, 0.99);
    }

    /** p99 beside the median. */
    get tail(): number {
        return this.p99 / median(this.all);
    }
}

export async function latency(rig: Rig, effort: Effort): Promise<Line[]> {
    const our = new Latency(), floor = new Latency(), node = new Latency();
    await rig.floor.do("open", "ssh", "-T", rig.alias, "cat");
    for (const driven of [rig.link, rig.node]) await driven.do("calls", 200);
    await rig.floor.do("floor", 200, rig.socket);
    for (let i = 0; i < effort.calls / CALLS_OF_ROUND; i++) {
        floor.add(await rig.floor.do("floor", CALLS_OF_ROUND, rig.socket));
        our.add(await rig.link.do("calls", CALLS_OF_ROUND));
        node.add(await rig.node.do("calls", CALLS_OF_ROUND));
    }
    await rig.floor.do("shut");
    /* Where plain blocking C on the same machine misses the goal as well, the machine is too busy to tell. */
    const busy = floor.tail > TAIL_MOST;
    return [
        line("call.median", "Herdr call, 200 B, median",
            `${ms(median(our.medians))}; floor ${ms(median(floor.medians))}; Node ${ms(median(node.medians))}`,
            ratioOf(our.medians, floor.medians), "×", { text: "≤ 1.5 × (ssh cat echo + fresh socket call)", most: 1.5 }),
        line("call.p99", "Herdr call, 200 B, p99",
            `${ms(our.p99)}; floor ${ms(floor.p99)} = ${floor.tail.toFixed(1)} × its median; Node ${ms(node.p99)}`,
            our.tail, "×", { text: `≤ ${TAIL_MOST} × median`, most: TAIL_MOST, absolute: busy }),
    ];
}

export async function cpu(rig: Rig, effort: Effort, helper: number): Promise<Line[]> {
    const ours: Cpu[] = [], theirs: Cpu[] = [], helperCpu: number[] = [];
    const calls = effort.cpuCalls / CPU_ROUNDS;
    for (let i = 0; i < CPU_ROUNDS; i++) {
        const before = cpuMs(helper);
        ours.push(await cpuDuring(rig.link, calls));
        helperCpu.push((cpuMs(helper) - before) / calls * 10_000);
        theirs.push(await cpuDuring(rig.node, calls));
    }
    const sum = (of: Cpu): number => of.near + of.ssh;
    const near = median(ours.map((c) => c.near)), ssh = median(ours.map((c) => c.ssh));
    const node = `${median(theirs.map((c) => c.near)).toFixed(0)} + ssh ${median(theirs.map((c) => c.ssh)).toFixed(0)} ms`;
    return [
        line("cpu.controller", "controller and ssh, CPU of 10,000 calls",
            `${near.toFixed(0)} + ssh ${ssh.toFixed(0)} ms; Node ${node}`,
            ratioOf(ours.map(sum), theirs.map(sum)), "× Node", { text: "≤ 0.35 × Node", most: 0.35 }),
        line("cpu.own", "of which the controller alone", `${near.toFixed(0)} ms; Node's without its ssh`,
            ratioOf(ours.map((c) => c.near), theirs.map((c) => c.near)), "× Node"),
        line("cpu.helper", "helper, CPU of 10,000 calls", "", median(helperCpu), "ms"),
    ];
}

/** Calls over libssh: their CPU beside the Node baseline's, and their time beside the C floors. */
export async function callsLibssh(rig: Rig, effort: Effort): Promise<Line[]> {
    const ours: Cpu[] = [], theirs: Cpu[] = [];
    const our = new Latency(), floor = new Latency();
    const calls = effort.cpuCalls / CPU_ROUNDS;
    const sum = (of: Cpu): number => of.near + of.ssh;
    await rig.link.do("shut");
    rig.use("libssh");
    await rig.link.do("open", 1);
    for (let i = 0; i < CPU_ROUNDS; i++) {
        ours.push(await cpuDuring(rig.link, calls));
        theirs.push(await cpuDuring(rig.node, calls));
    }
    await rig.floor.do("open", "ssh", "-T", rig.alias, "cat");
    for (let i = 0; i < effort.calls / CALLS_OF_ROUND; i++) {
        floor.add(await rig.floor.do("floor", CALLS_OF_ROUND, rig.socket));
        our.add(await rig.link.do("calls", CALLS_OF_ROUND));
    }
    await rig.floor.do("shut");
    await rig.link.do("shut");
    rig.use("openssh");
    await rig.link.do("open", 1);
    return [
        line("cpu.libssh", "controller, CPU of 10,000 calls (libssh)",
            `${median(ours.map(sum)).toFixed(0)} ms; Node ${median(theirs.map(sum)).toFixed(0)} ms`,
            ratioOf(ours.map(sum), theirs.map(sum)), "× Node", { text: "≤ 0.35 × Node", most: 0.35 }),
        line("call.libssh", "Herdr call, 200 B, median (libssh)",
            `${ms(median(our.medians))}; floor ${ms(median(floor.medians))}`,
            ratioOf(our.medians, floor.medians), "×", { text: "≤ 1.5 × (ssh cat echo + fresh socket call)", most: 1.5 }),
    ];
}

export async function bulk(rig: Rig, effort: Effort): Promise<Line[]> {
    /* Bytes per microsecond are MB/s. */
    const speed = (answer: Answer): number => BIG_BYTES / median(answer.us);
    const relayed: number[] = [], parsed: number[] = [], floor: number[] = [], node: number[] = [];
    const pings: number[] = [];
    await rig.floor.do("open", "ssh", "-T", rig.alias, `'${rig.floorProgram}' source`);
    for (let i = 0; i < effort.rounds; i++) {
        floor.push(speed(await rig.floor.do("pull", BIG_COUNT, BIG_BYTES)));
        relayed.push(speed(await rig.link.do("relay", BIG_COUNT, BIG_BYTES)));
        parsed.push(speed(await rig.link.do("parsed", 2, BIG_BYTES)));
        const busy = await rig.link.do("busy", BIG_COUNT, BIG_BYTES);
        pings.push(...(busy.pings ?? []));
        if (i % 4 === 0) node.push(speed(await rig.node.do("relay", 1, BIG_BYTES)));
    }
    await rig.floor.do("shut");
    return [
        line("bulk.speed", "4 MiB reply relayed",
            `plain ssh ${median(floor).toFixed(0)}, Node ${median(node).toFixed(1)}, read as JSON ${median(parsed).toFixed(0)} MB/s`,
            median(relayed), "MB/s", { text: "≥ 80 MB/s", least: 80, absolute: true }),
        line("bulk.ratio", "the same beside plain ssh", "one direction, nothing but ssh between", ratioOf(relayed, floor), "×"),
        line("bulk.ping", "ping during it",
            `median ${ms(median(pings))}, p99 ${ms(quantile(pings, 0.99))}, max ${ms(Math.max(...pings))} of ${pings.length}`,
            quantile(pings, 0.99) / 1000, "ms p99", { text: "≤ 20 ms", most: 20, absolute: true }),
    ];
}

/* ---- the helper --------------------------------------------------------------------------- */

export async function helperStart(rig: Rig, effort: Effort): Promise<Line[]> {
    const marker = "0123456789abcdef".repeat(2);
    const ready: number[] = [], nothing: number[] = [];
    for (let i = 0; i < effort.rounds * 3; i++) {
        ready.push(only(await rig.floor.do("ready", 1, "READY", helperFile, "serve", marker)));
        nothing.push(only(await rig.floor.do("run", 1, "/bin/true")));
    }
    const kib = fs.statSync(helperFile).size / 1024;
    return [
        line("helper.size", "helper size", `aim 256 KiB: ${kib <= 256 ? "reached" : "not reached"}`, kib, "KiB",
            { text: "≤ 320 KiB", most: 320 }),
        line("helper.start", "helper start, exec to ready line", `/bin/true, start to end ${ms(median(nothing))}`,
            median(ready) / 1000, "ms", { text: "≤ 5 ms", most: 5, absolute: true }),
    ];
}

/** Highest PSS while the command runs. */
async function pssDuring(pid: number, command: Promise<unknown>): Promise<number> {
    let most = 0, running = true;
    const end = command.finally(() => {
        running = false;
    });
    while (running) {
        most = Math.max(most, pssMiB(pid));
        await sleep(20);
    }
    await end;
    return most;
}

export async function helperMemory(rig: Rig, helper: number, idle: number): Promise<Line[]> {
    const during = [
        await pssDuring(helper, rig.link.do("calls", 2000)),
        await pssDuring(helper, rig.link.do("relay", 20, BIG_BYTES)),
    ];
    const after = pssMiB(helper);
    return [
        line("helper.idle", "helper PSS, idle", "after the handshake", idle, "MiB", { text: "≤ 1 MiB", most: 1 }),
        line("helper.load", "helper PSS, under load",
            `calls ${during[0]?.toFixed(2)}, 4 MiB replies ${during[1]?.toFixed(2)}, afterwards ${after.toFixed(2)} MiB`,
            Math.max(...during, after), "MiB", { text: "≤ 4 MiB", most: 4 }),
    ];
}

/** A session file as Pi writes it: turns of prompt, tool call, large tool result, reply. */
export function writeTranscript(file: string, bytes: number): void {
    const fd = fs.openSync(file, "w", 0o600);
    const timestamp = "2026-01-01T00:00:00.000Z";
    let written = 0, number = 0, parent: string | null = null;
    const put = (entry: object): void => {
        const id = (++number).toString(16).padStart(8, "0");
        written += fs.writeSync(fd, `${JSON.stringify({ ...entry, id, parentId: parent, timestamp })}\n`);
        parent = id;
    };
    const message = (of: object): void => put({ type: "message", message: of });
    written += fs.writeSync(fd, `${JSON.stringify({ type: "session", version: 3, id: "s", timestamp, cwd: "/" })}\n`);
    const output = randomBytes(48 * 1024).toString("base64");
    while (written < bytes) {
        message({ role: "user", content: [{ type: "text", text: "Go on with the next file." }] });
        const call = { type: "toolCall", id: "c", name: "read", arguments: { path: "x" } };
        const result = [{ type: "text", text: output }];
        message({ role: "assistant", content: [call], stopReason: "toolUse" });
        message({ role: "toolResult", toolCallId: "c", toolName: "read", content: result, isError: false });
        message({ role: "assistant", content: [{ type: "text", text: "It is fine. ".repeat(60) }], stopReason: "stop" });
    }
    fs.closeSync(fd);
}

export async function transcript(rig: Rig, effort: Effort, helper: number): Promise<Line[]> {
    const file = path.join(rig.home, "transcript.jsonl");
    writeTranscript(file, effort.transcriptBytes);
    try {
        resetPeak(helper);
        const before = rssMiB(helper);
        const answer = await rig.link.do("latest", effort.rounds, file);
        const size = `${Math.round(effort.transcriptBytes / MIB)} MiB`;
        return [
            line("latest.time", "latest reply of a large transcript", `${size}, file in the page cache`,
                median(answer.us) / 1000, "ms", { text: "≤ 10 ms (1 GiB)", most: 10, absolute: true }),
            line("latest.memory", "its extra memory in the helper", size,
                Math.max(0, peakRssMiB(helper) - before), "MiB", { text: "≤ 2 MiB", most: 2 }),
        ];
    } finally {
        fs.rmSync(file);
    }
}
