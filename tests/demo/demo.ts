/*
 * The whole path, from nothing: two machines on loopback (own sshd, keys, HOME and Herdr each), a
 * scripted model, real Pi with this repository's extension in a terminal on machine A. The model on
 * A asks for a worker on machine B; shepherdr carries helper and extension there over ssh, starts
 * Pi on B, hands over the task, and pushes the reply into A's conversation.
 *
 * Prints each step with its time and the conversation. Exit 0 only if the reply stands in A's
 * session file exactly once, the model on A reacted to it, and nothing was left behind.
 *
 * --keep: leave machines and processes running until Enter is pressed.
 */

import * as fs from "node:fs";
import { machineMissing } from "../support/machine.ts";
import type { Rule } from "../support/model-server.ts";
import { conversation, entryText, type Entry, type PiPane } from "../support/pi.ts";
import { processesOf, until } from "../support/process.ts";
import { sshdMissing } from "../support/sshd.ts";
import { REPORT_TYPE, shepherdrBin, World } from "../support/world.ts";

const PROMPT = "Have someone on machine b look at the failing test.";
const TASK = "Look at the failing test in this directory and say in one sentence why it fails.";
const REPLY = "The test fails because the fixture was never written.";
const REACTION = "Thanks: the worker on machine b found that the fixture is missing.";
/* A real spawn takes seconds; the deadline only bounds a broken one. */
const DEADLINE_MS = 90_000;

const startMs = performance.now();
let lastMs = startMs;

function step(text: string): void {
    const now = performance.now();
    const total = ((now - startMs) / 1000).toFixed(2).padStart(6);
    const since = `+${((now - lastMs) / 1000).toFixed(2)}`.padStart(7);
    lastMs = now;
    process.stdout.write(`${total} s ${since} s  ${text}\n`);
}

function indent(text: string): string {
    return text
        .split("\n")
        .map((l) => `    ${l}`)
        .join("\n");
}

/** What the model says on each machine. */
function script(machineId: () => string): Rule[] {
    return [
        {
            name: "A spawns",
            times: 1,
            when: { channel: "a", role: "user", last: PROMPT },
            answer: () => ({
                calls: [
                    {
                        name: "agents",
                        arguments: {
                            action: "spawn",
                            agent_type: "worker",
                            label: "demo worker",
                            machine: machineId(),
                            message: TASK,
                            blocking: false,
                        },
                    },
                ],
            }),
        },
        { name: "A waits", when: { channel: "a", toolResult: "agents" }, answer: { text: "A worker is on it; its reply will come here." } },
        { name: "A reacts", when: { channel: "a", last: REPLY }, answer: { text: REACTION } },
        { name: "B works", when: { channel: "b", last: TASK }, answer: { text: REPLY, slowMs: 60 } },
    ];
}

function reports(pi: PiPane): Entry[] {
    return pi.pushed(REPORT_TYPE).filter((e) => entryText(e).includes(REPLY));
}

async function play(world: World): Promise<void> {
    const { a, b } = world;
    const dump = (): Promise<string> => world.dump();
    const bFiles = (): string[] =>
        fs.existsSync(b.shepherdrDir) ? fs.readdirSync(b.shepherdrDir, { recursive: true, encoding: "utf8" }).sort() : [];
    step(`machine A at ${a.home}, machine B at ${b.home}, ssh port ${b.sshd?.port}, model port ${world.model.port}`);
    if (bFiles().length > 0) throw new Error("machine B is not empty");

    const pi = await world.openPi({ label: "demo" });
    step("Pi runs on A in a pane of Herdr, with the extension");

    await pi.type(PROMPT);
    step(`typed: ${PROMPT}`);
    await pi.waitEvent((e) => e.name === "tool_execution_start" && e.toolName === "agents", "the model's call of agents");
    step("the model on A calls agents {action: spawn, machine: B, blocking: false}");
    await until(() => world.model.of("b").length > 0 || pi.events("tool_execution_end").length > 0, { what: "a worker on B", deadlineMs: DEADLINE_MS, dump });
    const spawned = await pi.waitEvent((e) => e.name === "tool_execution_end", "the result of agents", DEADLINE_MS);
    if (spawned.isError === true) {
        throw new Error(`spawn failed\n${conversation(pi.entries())}\n${await dump()}`);
    }
    step("the spawn has answered");
    await until(() => world.model.of("b").length > 0, { what: "the worker's first request", deadlineMs: DEADLINE_MS, dump });
    const worker = (await b.herdr.snapshot()).agents[0];
    step(`real Pi works on B: pane ${worker?.pane_id}, ${worker?.agent_status}; B now has:`);
    process.stdout.write(`${indent(bFiles().filter((f) => /\/(helper|pi-ext)-/.test(f)).join("\n"))}\n`);

    await until(() => reports(pi).length > 0, { what: "the worker's reply in A's session file", deadlineMs: DEADLINE_MS, dump });
    step("the reply was pushed into A's conversation");
    await pi.waitText(REACTION, DEADLINE_MS);
    await pi.waitSettled(1);
    step("the model on A reacted to it");

    process.stdout.write(`\n${indent(conversation(pi.entries()))}\n\n`);
    if (world.model.unmatched.length > 0) throw new Error(`the script has no answer for a request\n${world.model.dump()}`);
    if (process.argv.includes("--keep")) {
        process.stdout.write(`kept: HOME=${a.home}; Enter ends it\n`);
        await new Promise((resolve) => process.stdin.once("data", resolve));
        process.stdin.pause();
    }

    await pi.quit();
    step("Pi on A was left with /quit");
    const gone = (): boolean => world.machines.every((m) => m.ours().length === 0);
    await until(gone, { what: "the end of every controller, helper and ssh", dump });
    const stray = world.machines.flatMap((m) => [...m.strayFiles(), ...m.deadReceivers()]);
    if (stray.length > 0) throw new Error(`left behind: ${stray.join(", ")}`);
    step("no process and no temporary file of ours is left on either machine");

    /* Counted at the very end: a second delivery would have to be here by now. */
    const found = reports(pi);
    if (found.length !== 1) throw new Error(`the reply is in the session file ${found.length} times\n${conversation(pi.entries())}`);
    step(`the reply is in A's session file once, report ${String(found[0]?.details?.["id"])}`);
}

async function main(): Promise<number> {
    const missing = sshdMissing() ?? machineMissing() ?? (fs.existsSync(shepherdrBin) ? undefined : `${shepherdrBin} is missing`);
    if (missing !== undefined) {
        process.stderr.write(`demo: cannot run: ${missing}\n`);
        return 2;
    }
    let world: World | undefined;
    let status = 0;
    try {
        world = await World.create({ rules: script(() => world?.id("b") ?? "") });
        await play(world);
    } catch (err) {
        process.stderr.write(`\ndemo: ${err instanceof Error ? err.message : String(err)}\n`);
        status = 1;
    }
    const roots = world?.machines.map((m) => m.root) ?? [];
    await world?.stop();
    const left = roots.flatMap((root) => processesOf(root));
    if (left.length > 0) {
        process.stderr.write(`demo: still running: ${JSON.stringify(left)}\n`);
        status = 1;
    }
    if (status === 0) step("cleaned up; done");
    return status;
}

process.exit(await main());
