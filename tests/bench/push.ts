/*
 * From a worker's settlement on another machine to the report in the controlling Pi, with real Pi on
 * both: a probe in each notes the moment. The model is held until the controlling Pi is idle.
 */

import * as fs from "node:fs";
import * as path from "node:path";
import { rules, spawnArgs, begin } from "../e2e/driver.ts";
import { textOf, type Rule } from "../support/model-server.ts";
import { readLines, type ProbeEvent } from "../support/pi.ts";
import { repoRoot, tmpRoot, removeRoot, until, LONG_MS } from "../support/process.ts";
import { REPORT_TYPE, World, worldMissing } from "../support/world.ts";
import { childrenOf, pssMiB } from "./proc.ts";
import { line, type Line } from "./report.ts";
import { median, quantile } from "./stats.ts";

/* Each worker's answer waits at a gate of its own. */
const held: Rule = {
    name: "bench hold",
    when: { role: "user", last: /^HOLD \S+$/ },
    answer: (request) => {
        const word = textOf(request.messages.at(-1)).split(" ")[1] ?? "";
        return { text: `the answer is ${word}`, holdInside: word };
    },
};

export function pushMissing(): string | undefined {
    return worldMissing();
}

export async function pushed(workers: number): Promise<Line[]> {
    const dir = tmpRoot("push");
    const log = path.join(dir, "workers.jsonl");
    const world = await World.create({ rules: [held, ...rules], machines: { b: { env: { SHP_PROBE_LOG: log } } } });
    try {
        const probe = path.join(repoRoot, "tests", "support", "probe-ext.ts");
        fs.copyFileSync(probe, path.join(world.b.agentDir, "extensions", "probe-ext.ts"));
        const pi = await world.openPi();
        const events = (): ProbeEvent[] => readLines<ProbeEvent>(log);
        const dump = (): Promise<string> => world.dump();
        const reports = (): ProbeEvent[] => pi.events("message_end").filter((e) => e.customType === REPORT_TYPE);
        const delays: number[] = [];
        for (let i = 0; i < workers; i++) {
            const settled = pi.events("agent_settled").length;
            begin(pi, spawnArgs(`HOLD word${i}`, world.id("b"), { label: `worker ${i}` }));
            await pi.waitSettled(settled + 1);
            await until(() => world.model.of("b").length > i, { what: "the worker's request", deadlineMs: LONG_MS, dump });
            const before = reports().length;
            world.model.release(`word${i}`);
            await until(() => reports().length > before, { what: "the report", deadlineMs: LONG_MS, dump });
            const report = reports().at(-1)?.t ?? NaN;
            const worker = events().filter((e) => e.name === "agent_settled").at(-1)?.t ?? NaN;
            delays.push(report - worker);
            await pi.waitSettled(settled + 2);
        }
        const controller = childrenOf(pi.pid, "shepherdr")[0];
        const ssh = controller === undefined ? [] : childrenOf(controller, "ssh");
        const pss = controller === undefined ? NaN : pssMiB(controller);
        await pi.quit();
        return [
            line("push.delay", "worker settles → pushed into the controlling Pi",
                `${delays.length} workers: ${quantile(delays, 0)} to ${quantile(delays, 1)} ms, Pi's own part included`,
                median(delays), "ms", { text: "≤ 15 ms", most: 15, absolute: true }),
            line("push.ssh", "ssh processes for the workers on one host", `${workers} workers, ${ssh.length} in all`,
                Math.max(0, ssh.length - 1), "more", { text: "0 additional", most: 0 }),
            line("push.pss", "PSS of that session's controller", "one machine, its store", pss, "MiB"),
        ];
    } finally {
        await world.stop();
        removeRoot(dir);
    }
}
