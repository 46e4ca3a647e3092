/** Lines of the result, and how they are shown. */

import * as os from "node:os";
import type { Load } from "./proc.ts";

/** One line. Only lines with a decision can be met or missed; the others inform. */
export interface Line {
    id: string;
    what: string;
    /** As measured, with its baseline: for people. */
    measured: string;
    /** What the goal is about: a ratio, a size. */
    value: number;
    unit: string;
    goal: string;
    met: boolean | undefined;
    /** False: an absolute time, which the machine's load moves; shown, and never a reason to fail. */
    decides: boolean;
    /** Why a missed goal is accepted for now (waivers.json). */
    waived?: string;
}

/** One entry of waivers.json: a line that may miss its goal, and why. */
export interface Waiver {
    id: string;
    reason: string;
}

/** Marks missed lines; returns what is wrong with the waivers themselves. */
export function applyWaivers(lines: Line[], waivers: Waiver[]): string[] {
    const wrong: string[] = [];
    for (const { id, reason } of waivers) {
        const of = lines.find((l) => l.id === id);
        if (reason.trim().length < 20) wrong.push(`${id}: a waiver needs its reason`);
        else if (of === undefined) wrong.push(`${id}: no such line in this run`);
        else if (of.met === true) wrong.push(`${id}: met; the waiver can go`);
        else of.waived = reason;
    }
    return wrong;
}

export interface Report {
    machine: string;
    loadBefore: Load;
    loadAfter: Load;
    seconds: number;
    lines: Line[];
    left_out: string[];
}

export interface Goal {
    text: string;
    most?: number;
    least?: number;
    /** The goal is an absolute time or speed. */
    absolute?: boolean;
}

export function ms(us: number): string {
    const value = us / 1000;
    return `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(3)} ms`;
}

export function line(id: string, what: string, measured: string, value: number, unit: string, goal?: Goal): Line {
    let met: boolean | undefined;
    if (!Number.isFinite(value)) throw new Error(`${id}: the measurement gave no number`);
    if (goal?.most !== undefined) met = value <= goal.most;
    if (goal?.least !== undefined) met = value >= goal.least;
    const decides = met !== undefined && goal?.absolute !== true;
    return { id, what, measured, value: Number(value.toPrecision(4)), unit, goal: goal?.text ?? "", met, decides };
}

function shown(value: number, unit: string): string {
    const text = Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2);
    return unit === "×" ? `${text} ×` : `${text} ${unit}`.trimEnd();
}

export function verdict(of: Line): string {
    if (of.met === undefined) return "";
    const word = of.met ? "met" : of.waived !== undefined ? "waived" : "not met";
    return of.decides ? word : `(${word})`;
}

export function describeMachine(): string {
    return `${os.cpus().length} cores, ${os.arch() === "x64" ? "x86_64" : os.arch()}`;
}

export function table(report: Report): string {
    const rows = report.lines.map((l) => [l.what, l.goal, shown(l.value, l.unit), verdict(l), l.measured]);
    const all = [["line", "goal", "value", "", "measured"], ...rows];
    const widths = all[0]?.map((_, i) => Math.max(...all.map((r) => (r[i] ?? "").length))) ?? [];
    return all.map((r) => r.map((c, i) => c.padEnd(widths[i] ?? 0)).join("  ").trimEnd()).join("\n");
}

export function loadText(report: Report): string {
    const { loadBefore: b, loadAfter: a } = report;
    return `load ${b.one.toFixed(1)} before, ${a.one.toFixed(1)} after; ${report.seconds.toFixed(0)} s`;
}

export function markdown(report: Report, title: string, machine: string): string {
    const cell = (text: string): string => text.replaceAll("|", "\\|");
    const rows = report.lines.map(
        (l) => `| ${[l.what, l.goal, shown(l.value, l.unit), verdict(l) || "–", l.measured].map(cell).join(" | ")} |`,
    );
    const out = [
        `# ${title}`,
        "",
        `${machine}; ${loadText(report)}. How to read it: [README](README.md).`,
        "",
        "| line | goal | value | met | measured |",
        "|---|---|---|---|---|",
        ...rows,
        "",
        ...report.lines.flatMap((l) => (l.waived === undefined ? [] : [`- ${l.what}: ${l.waived}`])),
        ...(report.lines.some((l) => l.waived !== undefined) ? [""] : []),
        ...(report.left_out.length === 0 ? [] : ["Left out:", "", ...report.left_out.map((t) => `- ${t}`), ""]),
    ];
    return out.join("\n");
}
