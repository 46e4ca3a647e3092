/** What /proc says of processes: CPU time, memory, children. */

import * as fs from "node:fs";
import * as os from "node:os";

function read(file: string): string {
    return fs.readFileSync(file, "latin1");
}

/** CPU time of all threads in milliseconds. */
export function cpuMs(pid: number): number {
    let ns = 0;
    for (const task of fs.readdirSync(`/proc/${pid}/task`)) {
        ns += Number(read(`/proc/${pid}/task/${task}/schedstat`).split(" ")[0]);
    }
    return ns / 1e6;
}

function field(text: string, name: string): number {
    const found = new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text);
    if (found === null) throw new Error(`no field ${name}`);
    return Number(found[1]) / 1024;
}

/** Proportional share of memory in MiB. */
export function pssMiB(pid: number): number {
    return field(read(`/proc/${pid}/smaps_rollup`), "Pss");
}

export function rssMiB(pid: number): number {
    return field(read(`/proc/${pid}/status`), "VmRSS");
}

/** Highest resident size since the last resetPeak, in MiB. */
export function peakRssMiB(pid: number): number {
    return field(read(`/proc/${pid}/status`), "VmHWM");
}

export function resetPeak(pid: number): void {
    fs.writeFileSync(`/proc/${pid}/clear_refs`, "5");
}

/** The scheduler's letter: R, S, T (stopped)... */
export function stateOf(pid: number): string {
    const stat = read(`/proc/${pid}/stat`);
    return stat.charAt(stat.lastIndexOf(")") + 2);
}

/** Direct children that run a program of this name. */
export function childrenOf(parent: number, name: string): number[] {
    return fs.readdirSync("/proc").map(Number).filter((pid) => {
        if (!Number.isInteger(pid)) return false;
        try {
            const stat = read(`/proc/${pid}/stat`);
            const rest = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
            return Number(rest[1]) === parent && stat.includes(`(${name})`);
        } catch {
            return false; /* gone meanwhile */
        }
    });
}

export interface Load {
    one: number;
    five: number;
}

export function load(): Load {
    const [one = NaN, five = NaN] = os.loadavg();
    return { one, five };
}
