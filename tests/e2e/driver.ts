/*
 * Drives the `agents` tool through a real model turn: a prompt "CALL {json}" makes the scripted
 * model call the tool with exactly these arguments. Workers answer "SAY word" with "said word".
 */

import * as fs from "node:fs";
import * as path from "node:path";
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { textOf, type ChatRequest, type Rule } from "../support/model-server.ts";
import type { Machine } from "../support/machine.ts";
import { contentText, entryText, type Entry, type PiOptions, type PiPane } from "../support/pi.ts";
import { processesOf, until, LONG_MS } from "../support/process.ts";
import { REPORT_TYPE, World, type WorldOptions } from "../support/world.ts";

/** A string of a call that stands for many bytes, so that no prompt carries them. */
const BIG = /^@BIG (\d+)$/;

/** What a worker is told; shepherdr puts words of its own around a task. */
const SAY = /\bSAY ([\w-]+)/;
const SAY_HELD = /\bSAY-HELD ([\w-]+)/;

function expand(value: unknown): unknown {
    if (typeof value === "string") {
        const size = BIG.exec(value)?.[1];
        return size === undefined ? value : "x".repeat(Number(size));
    }
    if (Array.isArray(value)) return value.map(expand);
    if (typeof value === "object" && value !== null) {
        return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, expand(v)]));
    }
    return value;
}

function lastText(request: ChatRequest): string {
    return textOf(request.messages.at(-1));
}

export const rules: Rule[] = [
    {
        name: "call",
        when: { role: "user", last: /^CALL / },
        answer: (r) => ({ calls: [{ name: "agents", arguments: expand(JSON.parse(lastText(r).slice(5))) }] }),
    },
    { name: "called", when: { toolResult: "agents" }, answer: { text: "called" } },
    { name: "noted", when: { role: "user", last: "<agent_report" }, answer: { text: "noted" } },
    {
        name: "hold",
        when: { role: "user", last: SAY_HELD },
        answer: (r) => ({ text: `the answer is: said ${SAY_HELD.exec(lastText(r))?.[1]}`, holdInside: "reply" }),
    },
    { name: "say", when: { role: "user", last: SAY }, answer: (r) => ({ text: `said ${SAY.exec(lastText(r))?.[1]}` }) },
];

/** A world that ends with its test; a failed test shows what was going on. */
export async function stage(t: TestContext, options: WorldOptions = {}): Promise<World> {
    const world = await World.create({ ...options, rules: [...(options.rules ?? []), ...rules] });
    t.after(() => world.stop());
    return world;
}

export interface CallResult {
    isError: boolean;
    text: string;
    /** The JSON result; {} for an error. */
    value: Record<string, unknown>;
    /** Stable code of an error; "" for a result. */
    code: string;
}

function toolResults(pi: PiPane): Entry[] {
    return pi.entries().filter((e) => e.message?.role === "toolResult" && e.message.toolName === "agents");
}

function toResult(entry: Entry): CallResult {
    const isError = entry.message?.isError === true;
    const blocks = entry.message?.content as Array<{ text?: string }> | undefined;
    const text = contentText(blocks);
    let value: Record<string, unknown> = {};
    if (!isError) value = JSON.parse(blocks?.[0]?.text ?? "{}") as Record<string, unknown>;
    return { isError, text, value, code: isError ? (/^(\w+)/.exec(text)?.[1] ?? "") : "" };
}

/** Starts a call and returns at once. A turn that a report has just begun is not disturbed: the call follows it. */
export function begin(pi: PiPane, args: object | string): void {
    pi.act({ do: "user", text: `CALL ${JSON.stringify(args)}`, options: { deliverAs: "followUp" } });
}

/** A call of the tool in the session, to its result. */
export async function agents(pi: PiPane, args: object | string, deadlineMs = LONG_MS): Promise<CallResult> {
    const before = toolResults(pi).length;
    const settled = pi.events("agent_settled").length;
    begin(pi, args);
    const entry = await until(() => toolResults(pi)[before], {
        what: `the result of agents ${JSON.stringify(args)}`,
        deadlineMs,
        dump: () => pi.dump(),
    });
    await pi.waitSettled(settled + 1);
    return toResult(entry);
}

/** As agents(); an error result fails the test with its text. */
export async function mustAgents(pi: PiPane, args: object, deadlineMs = LONG_MS): Promise<Record<string, unknown>> {
    const result = await agents(pi, args, deadlineMs);
    assert.equal(result.isError, false, `${result.text}\n${await pi.dump()}`);
    return result.value;
}

export function spawnArgs(message: string, machine?: string, more: object = {}): object {
    return { action: "spawn", agent_type: "worker", label: "test worker", message, blocking: false, ...(machine === undefined ? {} : { machine }), ...more };
}

/** Reports in the session file whose text contains `text`. */
export function reportsOf(pi: PiPane, text: string): Entry[] {
    return pi.pushed(REPORT_TYPE).filter((e) => entryText(e).includes(text));
}

export async function waitReport(world: World, pi: PiPane, text: string, deadlineMs = LONG_MS): Promise<Entry> {
    const found = await until(() => reportsOf(pi, text)[0], {
        what: `a report with "${text}"`,
        deadlineMs,
        dump: async () => `${pi.record()}\n${await world.dump()}`,
    });
    return found;
}

/** Content-addressed files of ours on a machine: path below shepherdr/ → identity that a rewrite would change. */
export function placedFiles(machine: Machine): Map<string, string> {
    const out = new Map<string, string>();
    for (const dir of ["bin", "ext"]) {
        const full = path.join(machine.shepherdrDir, dir);
        for (const name of fs.existsSync(full) ? fs.readdirSync(full) : []) {
            const stat = fs.statSync(path.join(full, name), { bigint: true });
            out.set(`${dir}/${name}`, `${stat.ino} ${stat.mtimeNs} ${stat.size}`);
        }
    }
    return out;
}

/** Logins on the remotes so far, whoever spoke SSH. */
export function connects(world: World): string[] {
    const logs = [...world.remotes.values()].map((m) => m.sshd?.log ?? "");
    return logs.flatMap((log) => log.split("\n").filter((line) => line.includes("Accepted publickey")));
}

/** Within 10 s, polled: no process of ours and no temporary file on any machine. */
export async function nothingLeft(world: World): Promise<void> {
    const left = (): string => JSON.stringify(world.machines.map((m) => ({ machine: m.name, ...m.leftovers() })), null, 2);
    const clean = (): boolean => world.machines.every((m) => m.ours().length === 0 && m.strayFiles().length === 0);
    await until(clean, { what: "that nothing of ours is left on any machine", deadlineMs: 10_000, everyMs: 50, dump: left });
}

/** Opens Pi with our extension; `quit` leaves it and checks that nothing is left. */
export async function openPi(world: World, options: PiOptions = {}): Promise<PiPane> {
    const pi = await world.openPi(options);
    await until(() => pi.events("session_start").length > 0, { what: "the session" });
    return pi;
}

export async function quitClean(world: World, pi: PiPane): Promise<void> {
    await pi.quit();
    await nothingLeft(world);
    assert.deepEqual(pi.machine.deadReceivers(), [], "descriptors that the last Pi should have swept");
}

/** Live processes of a program of ours by the name of its executable file. */
export function pidsOf(machine: Machine, exe: RegExp): number[] {
    return processesOf(machine.root)
        .map((p) => p.pid)
        .filter((pid) => {
            try {
                return exe.test(path.basename(fs.readlinkSync(`/proc/${pid}/exe`)));
            } catch {
                return false;
            }
        });
}
