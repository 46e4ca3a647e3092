/*
 * Kill points: controller, helper, ssh and Pi die in upload, handshake, spawn and mid-reply.
 * After each: what belonged to the dead is gone within 10 s on both sides, nothing was made twice,
 * and the session - the same or resumed - has the result exactly once.
 *
 * The moment within the window comes from a seed, 1 unless SHP_SEED says otherwise; it is in the name.
 */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { test } from "node:test";
import { alive, sleep, until } from "../support/process.ts";
import { worldMissing, type World, type WorldOptions } from "../support/world.ts";
import type { PiPane } from "../support/pi.ts";
import { agents, begin, nothingLeft, openPi, pidsOf, quitClean, reportsOf, spawnArgs, stage, waitReport } from "./driver.ts";

const skip = worldMissing() ?? false;
const seed = Number(process.env["SHP_SEED"] ?? 1);
const GONE_MS = 10_000;

/** Small generator, so that a seed means the same everywhere. */
function random(point: number): () => number {
    let state = (seed ^ Math.imul(point, 0x9e3779b1)) >>> 0;
    return () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return state / 2 ** 32;
    };
}

const controllers = (world: World): number[] => pidsOf(world.a, /^shepherdr$/);
const helpers = (world: World): number[] => pidsOf(world.b, /^helper-/);
const sshs = (world: World): number[] => pidsOf(world.a, /^ssh$/);

function kill(pids: number[]): void {
    assert.ok(pids.length > 0, "nothing to kill");
    for (const pid of pids) {
        try {
            process.kill(pid, "SIGKILL");
        } catch {
            /* it ended by itself */
        }
    }
}

async function gone(world: World, pids: number[]): Promise<void> {
    const left = (): number[] => pids.filter(alive);
    await until(() => left().length === 0, {
        what: "the end of what belonged to the dead",
        deadlineMs: GONE_MS,
        dump: async () => `${left().join(" ")}\n${await world.dump()}`,
    });
}

/** Makes the upload take its time: a `head` that says that it runs, and waits for a file. */
function slowUpload(world: World): { running: () => boolean; go: () => void } {
    const running = path.join(world.b.root, "head-runs");
    const goFile = path.join(world.b.root, "head-go");
    const script =
        "#!/bin/sh\n" +
        `: >'${running}'\n` +
        `n=0; while [ ! -e '${goFile}' ] && [ $n -lt 600 ]; do sleep 0.05; n=$((n+1)); done\n` +
        'exec /usr/bin/head "$@"\n';
    fs.writeFileSync(path.join(world.b.bin, "head"), script, { mode: 0o755 });
    return { running: () => fs.existsSync(running), go: () => fs.writeFileSync(goFile, "") };
}

/** Tabs of workers on B; the world begins with none. */
async function workers(world: World): Promise<number> {
    return (await world.b.herdr.snapshot()).tabs.length;
}

/** How often a worker's model was given the task. */
function tasks(world: World): number {
    return world.model.of("b").filter((r) => r.rule === "say" || r.rule === "hold").length;
}

/**
 * The call that was under way when something died has an end: a result, or an error after which the
 * model may look and ask again. Then one worker exists and its reply is reported once.
 */
async function settle(world: World, pi: PiPane, word: string, message: string): Promise<void> {
    const ended = (): boolean => pi.events("tool_execution_end").length > 0;
    await until(ended, { what: "the end of the call", deadlineMs: 90_000, dump: () => world.dump() });
    const [end] = pi.events("tool_execution_end");
    if (end?.isError === true && tasks(world) === 0) {
        await pi.waitSettled(1);
        await until(async () => (await workers(world)) === 0, { what: "that the failed call left no tab", dump: () => world.dump() });
        const again = await agents(pi, spawnArgs(message, world.id("b")), 90_000);
        assert.equal(again.isError, false, again.text);
    }
    await waitReport(world, pi, `said ${word}`, 90_000);
    assert.equal(await workers(world), 1, "more than one worker was made");
    assert.equal(tasks(world), 1, "the task was given more than once");
    await pi.waitSettled(1);
    await quitClean(world, pi);
    assert.equal(reportsOf(pi, `said ${word}`).length, 1);
}

/** An ssh that can be killed is a process of its own. */
const settingsFor = (victim: string): WorldOptions => (victim === "ssh" ? { settings: { transport: "openssh" } } : {});

const at = (what: string): string => `${what} (seed ${seed})`;

for (const [point, who, victims] of [
    [1, "controller", controllers],
    [2, "ssh", sshs],
] as const) {
    test(at(`${who} killed in the upload`), { skip }, async (t) => {
        const world = await stage(t, settingsFor(who));
        const upload = slowUpload(world);
        const pi = await openPi(world);
        begin(pi, spawnArgs("SAY uploaded", world.id("b")));
        await until(upload.running, { what: "the upload", deadlineMs: 60_000, dump: () => world.dump() });
        await sleep(random(point)() * 50);
        const era = who === "controller" ? [...controllers(world), ...sshs(world)] : sshs(world);
        kill(victims(world));
        upload.go();
        await gone(world, era);
        await settle(world, pi, "uploaded", "SAY uploaded");
    });
}

for (const [point, who, victims] of [
    [3, "controller", controllers],
    [4, "helper", helpers],
] as const) {
    test(at(`${who} killed in the handshake`), { skip }, async (t) => {
        const world = await stage(t);
        const pi = await openPi(world);
        begin(pi, spawnArgs("SAY shaken", world.id("b")));
        await until(() => helpers(world).length > 0, { what: "the helper", deadlineMs: 60_000, everyMs: 1, dump: () => world.dump() });
        await sleep(random(point)() * 4);
        const era = [...helpers(world), ...sshs(world), ...(who === "controller" ? controllers(world) : [])];
        kill(victims(world));
        await gone(world, era);
        await settle(world, pi, "shaken", "SAY shaken");
    });
}

for (const [point, who] of [
    [5, "controller"],
    [6, "helper"],
    [7, "ssh"],
] as const) {
    test(at(`${who} killed mid-reply`), { skip }, async (t) => {
        const world = await stage(t, settingsFor(who));
        const pi = await openPi(world);
        const begun = await agents(pi, spawnArgs("SAY-HELD held", world.id("b")), 90_000);
        assert.equal(begun.isError, false, begun.text);
        await until(() => world.model.waiting("reply") === 1, { what: "the worker inside its reply", deadlineMs: 60_000, dump: () => world.dump() });
        await sleep(random(point)() * 100);
        const era = [...helpers(world), ...sshs(world), ...(who === "controller" ? controllers(world) : [])];
        kill(who === "controller" ? controllers(world) : who === "helper" ? helpers(world) : sshs(world));
        await gone(world, era);
        world.model.release("reply");
        await settle(world, pi, "held", "SAY-HELD held");
    });
}

test(at("Pi killed mid-reply: the resumed session reports the result once"), { skip }, async (t) => {
    const world = await stage(t);
    const pi = await openPi(world);
    const begun = await agents(pi, spawnArgs("SAY-HELD resumed", world.id("b")), 90_000);
    assert.equal(begun.isError, false, begun.text);
    await until(() => world.model.waiting("reply") === 1, { what: "the worker inside its reply", deadlineMs: 60_000, dump: () => world.dump() });
    await sleep(random(8)() * 100);
    const file = pi.sessionFile;
    assert.ok(file);
    pi.kill();
    await nothingLeft(world);
    world.model.release("reply");
    await until(() => world.model.of("b").at(-1)?.finished === true, { what: "the worker's reply" });

    const resumed = await openPi(world, { args: ["--session", file] });
    await waitReport(world, resumed, "said resumed", 90_000);
    await resumed.waitSettled(1);
    await quitClean(world, resumed);
    assert.equal(reportsOf(resumed, "said resumed").length, 1);
    /* Nothing is reported again by another resume. */
    const third = await openPi(world, { args: ["--session", file] });
    const list = await agents(third, { action: "list" }, 90_000);
    assert.equal(list.isError, false, list.text);
    assert.equal(reportsOf(third, "said resumed").length, 1);
    await quitClean(world, third);
});

test(at("Pi killed in the spawn: nothing is made twice"), { skip }, async (t) => {
    const world = await stage(t);
    const pi = await openPi(world);
    begin(pi, spawnArgs("SAY spawned", world.id("b")));
    const acting = (): boolean => world.b.herdr.requests("agent.start").length > 0;
    await until(acting, { what: "the start of the agent", deadlineMs: 60_000, everyMs: 5, dump: () => world.dump() });
    await sleep(random(9)() * 300);
    const file = pi.sessionFile;
    assert.ok(file);
    pi.kill();
    await nothingLeft(world);

    const resumed = await openPi(world, { args: ["--session", file] });
    /* Either the task had been handed over, then its result comes; or the half-made tab is closed. */
    const settled = async (): Promise<boolean> =>
        tasks(world) > 0 ? reportsOf(resumed, "said spawned").length > 0 : (await workers(world)) === 0;
    await until(settled, { what: "adopted or closed", deadlineMs: 90_000, everyMs: 100, dump: () => world.dump() });
    assert.ok((await workers(world)) <= 1);
    assert.ok(tasks(world) <= 1);
    await quitClean(world, resumed);
    assert.equal(reportsOf(resumed, "said spawned").length, tasks(world));
});

test(at("the worker's Pi killed mid-reply: one report says that it ended"), { skip }, async (t) => {
    const world = await stage(t);
    const pi = await openPi(world);
    const begun = await agents(pi, spawnArgs("SAY-HELD lost", world.id("b")), 90_000);
    assert.equal(begun.isError, false, begun.text);
    await until(() => world.model.waiting("reply") === 1, { what: "the worker inside its reply", deadlineMs: 60_000, dump: () => world.dump() });
    await sleep(random(10)() * 100);
    const [worker] = pidsOf(world.b, /^node$/);
    assert.ok(worker);
    process.kill(worker, "SIGKILL");
    await until(() => pi.pushed("herdr-agent-event").length > 0, { what: "the report of the end", deadlineMs: 90_000, dump: () => world.dump() });
    await quitClean(world, pi);
    assert.equal(pi.pushed("herdr-agent-event").length, 1);
    assert.equal(reportsOf(pi, "said lost").length, 0);
});
