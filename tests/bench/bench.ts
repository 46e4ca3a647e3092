/*
 * `make bench`: the lines of the budget that this version has, each beside its baseline of the same
 * run. Exit status 0 when everything was measured, whatever the values; see docs/bench/README.md.
 *
 *   --json           the result as JSON on standard output
 *   --quick          fewer rounds, for a look
 *   --large          the transcript lines with 1 GiB
 *   --no-pi          without the line that needs real Pi
 *   --strict         a missed goal of a line that decides is exit status 1, unless waivers.json
 *                    gives the reason
 *   --write=NAME     docs/bench/<date>-NAME.md as well (--machine=TEXT describes the machine there)
 */

import * as fs from "node:fs";
import * as path from "node:path";
import { parseArgs } from "node:util";
import { repoRoot } from "../support/process.ts";
import { slowLineMissing } from "../support/slow-line.ts";
import { sshdMissing } from "../support/sshd.ts";
import * as measure from "./measures.ts";
import { doctor } from "./doctor.ts";
import { load, pssMiB } from "./proc.ts";
import { pushed, pushMissing } from "./push.ts";
import { applyWaivers, describeMachine, loadText, markdown, table, type Line, type Report, type Waiver } from "./report.ts";
import { Rig, rigMissing } from "./rig.ts";
import { slowLine } from "./slow.ts";
import { woken } from "./wake.ts";

const { values: options } = parseArgs({
    options: {
        json: { type: "boolean", default: false },
        quick: { type: "boolean", default: false },
        large: { type: "boolean", default: false },
        "no-pi": { type: "boolean", default: false },
        strict: { type: "boolean", default: false },
        write: { type: "string" },
        machine: { type: "string" },
    },
});

const effort: measure.Effort = {
    rounds: options.quick ? 5 : 15,
    connects: options.quick ? 5 : 30,
    calls: options.quick ? 2000 : 10_000,
    crowdRounds: options.quick ? 1 : 3,
    cpuCalls: options.quick ? 4000 : 10_000,
    transcriptBytes: (options.large ? 1024 : 256) * 1024 * 1024,
};

function progress(text: string): void {
    process.stderr.write(`bench: ${text}\n`);
}

async function onRig(lines: Line[]): Promise<void> {
    const rig = await Rig.create();
    try {
        progress("connects");
        lines.push(...(await measure.connecting(rig, effort)), ...(await measure.query(rig, effort)));
        if (rig.libssh) lines.push(...(await measure.connectingLibssh(rig, effort)));
        progress("doctor");
        lines.push(...(await doctor(rig, options.quick ? 5 : 10)));
        progress("16 machines at once");
        lines.push(...(await measure.crowd(rig, effort)));
        progress("64 machines at once");
        lines.push(...(await measure.many(rig, effort)));
        progress("wake");
        lines.push(...(await woken(rig, options.quick ? 3 : 8)));
        progress("helper");
        lines.push(...(await measure.helperStart(rig, effort)));
        await rig.quiet();
        await rig.link.do("open", 1);
        await rig.node.do("open", 1);
        const helper = (await rig.link.do("identity")).pid ?? -1;
        const idle = pssMiB(helper);
        /* First of all: memory that other work left in the helper would hide what this takes. */
        progress("transcript");
        const transcript = await measure.transcript(rig, effort, helper);
        progress("calls");
        lines.push(...(await measure.latency(rig, effort)), ...(await measure.cpu(rig, effort, helper)));
        progress("4 MiB replies");
        lines.push(...(await measure.bulk(rig, effort)));
        lines.push(...(await measure.helperMemory(rig, helper, idle)), ...transcript);
        if (rig.libssh) {
            progress("calls over libssh");
            lines.push(...(await measure.callsLibssh(rig, effort)));
        }
    } finally {
        await rig.stop();
    }
}

async function main(): Promise<number> {
    const missing = rigMissing() ?? sshdMissing();
    if (missing !== undefined) throw new Error(`cannot run: ${missing} is missing`);
    const report: Report = { machine: describeMachine(), loadBefore: load(), loadAfter: load(), seconds: 0, lines: [], left_out: [] };
    const startMs = performance.now();
    await onRig(report.lines);
    progress("a slow line");
    const slow = slowLineMissing() ?? (await slowLine(options.quick ? 1 : 8));
    if (typeof slow === "string") report.left_out.push(`slow line: ${slow}`);
    else report.lines.push(...slow);
    const noPi = options["no-pi"] ? "asked for" : pushMissing();
    if (noPi === undefined) {
        progress("real Pi: settled worker to pushed report");
        report.lines.push(...(await pushed(options.quick ? 3 : 7)));
    } else {
        report.left_out.push(`worker settles → pushed: ${noPi}`);
    }
    const waivers = JSON.parse(fs.readFileSync(path.join(import.meta.dirname, "waivers.json"), "utf8")) as Waiver[];
    for (const text of applyWaivers(report.lines, waivers)) progress(`waiver of ${text}`);
    report.loadAfter = load();
    report.seconds = (performance.now() - startMs) / 1000;
    const out = options.json ? JSON.stringify(report, null, 2) : `${table(report)}\n\n${report.machine}; ${loadText(report)}`;
    process.stdout.write(`${out}\n`);
    for (const text of report.left_out) progress(`left out: ${text}`);
    if (options.write !== undefined) {
        const name = `${new Date().toISOString().slice(0, 10)}-${options.write}`;
        const file = path.join(repoRoot, "docs", "bench", `${name}.md`);
        fs.writeFileSync(file, markdown(report, name, options.machine ?? report.machine));
    }
    return options.strict && report.lines.some((l) => l.decides && l.met === false && l.waived === undefined) ? 1 : 0;
}

main().then(
    (status) => process.exit(status),
    (err: unknown) => {
        process.stderr.write(`bench: ${err instanceof Error ? (err.stack ?? err.message) : String(err)}\n`);
        process.exit(1);
    },
);
