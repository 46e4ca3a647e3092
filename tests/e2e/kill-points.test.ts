/*
 * Kill points at exact steps of a spawn and of a report: a gate in front of Herdr's socket, or of
 * the worker's receiver, holds the step; then controller, helper, ssh or a Pi is killed.
 *
 * After each: what belonged to the dead is gone within 10 s on both sides, nothing was made twice,
 * and the session - the same or resumed, and resumed once more - has the result exactly once.
 *
 * A seed (1 unless SHP_SEED says otherwise; it is in the name) chooses the points of a run, between a blocking
 * and a non-blocking spawn, and the moment after the step was reached. SHP_KILL_POINTS=all runs all.
 */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test, type TestContext } from "node:test";
import { alive, sleep, until } from "../support/process.ts";
import { entryText, readLines, type Entry, type PiPane } from "../support/pi.ts";
import { worldMissing, type World } from "../support/world.ts";
import { agents, begin, nothingLeft, openPi, pidsOf, reportsOf, spawnArgs, stage } from "./driver.ts";
import { SocketGate, type Held, type Side } from "./gate.ts";

const skip = worldMissing() ?? false;
const seed = Number(process.env["SHP_SEED"] ?? 1);
const GONE_MS = 10_000;
/** For everything that waits for Pi, a connection or a resumed call. */
const DEADLINE_MS = 90_000;
const JITTER_MS = 30;
/** Points of one run: all of them take ten minutes. */
const POINTS_RUN = 8;
/** Herdr's answer while a shell starts: the question comes again. */
const BUSY = /agent_pane_busy/;
/** Longer than the time after which a controller takes up what nobody asked for again. */
const RESUMED_MS = 4_000;

type Victim = "controller" | "helper" | "ssh" | "Pi A" | "worker";

interface Point {
    step: string;
    victim: Victim;
    /** Brings the world to the step; returns what undoes the holding. */
    reach: (world: World, pi: PiPane, word: string) => Promise<() => void | Promise<void>>;
    /** The task is held in the model until the kill. */
    held?: boolean;
    blocking?: boolean;
}

/** Small generator, so that a seed means the same everywhere. */
function random(point: string): () => number {
    let state = seed >>> 0;
    for (const char of point) state = (Math.imul(state ^ char.charCodeAt(0), 0x9e3779b1) + 1) >>> 0;
    return () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return state / 2 ** 32;
    };
}

// ---- who may die ------------------------------------------------------------------------------

const controllers = (world: World): number[] => pidsOf(world.a, /^shepherdr$/);
const helpers = (world: World): number[] => pidsOf(world.b, /^helper-/);
const sshs = (world: World): number[] => pidsOf(world.a, /^ssh$/);
/** Helpers of the controlling machine's own link, too. */
const locals = (world: World): number[] => pidsOf(world.a, /^(helper-|shepherdr-helper)/);
const workerPis = (world: World): number[] => pidsOf(world.b, /^node$/);
/** The shell that receives the helper. */
const shells = (world: World): number[] =>
    world.b.ours().filter((p) => p.command.includes("/shepherdr/bin")).map((p) => p.pid);

function victims(world: World, pi: PiPane, victim: Victim): number[] {
    switch (victim) {
        case "controller": return controllers(world);
        case "helper": return helpers(world);
        case "ssh": return sshs(world);
        case "Pi A": return [pi.pid];
        case "worker": return workerPis(world);
    }
}

/** What must be gone soon when it is dead. */
function era(world: World, pi: PiPane, victim: Victim): number[] {
    const link = [...helpers(world), ...sshs(world), ...shells(world)];
    switch (victim) {
        case "controller": return [...controllers(world), ...locals(world), ...link];
        case "Pi A": return [pi.pid, ...controllers(world), ...locals(world), ...link];
        case "worker": return workerPis(world);
        default: return link;
    }
}

function signal(pids: number[], name: NodeJS.Signals): void {
    for (const pid of pids) {
        try {
            process.kill(pid, name);
        } catch {
            /* it ended by itself */
        }
    }
}

// ---- what can be seen -------------------------------------------------------------------------

/** Rows of the controlling session's store. */
function rows(world: World, sql: string): Array<Record<string, unknown>> {
    const dir = path.join(world.a.shepherdrDir, "state");
    const [name] = fs.existsSync(dir) ? fs.readdirSync(dir).filter((f) => f.endsWith(".db")) : [];
    if (name === undefined) return [];
    const db = new DatabaseSync(path.join(dir, name), { readOnly: true });
    try {
        return db.prepare(sql).all() as Array<Record<string, unknown>>;
    } finally {
        db.close();
    }
}

/** How often the worker's model was given the task. */
function turns(world: World): number {
    return world.model.of("b").filter((r) => r.rule === "say" || r.rule === "hold").length;
}

/** Messages with the task in session files of B, whatever session they are in; the worker's answers apart. */
function inputs(world: World, word: string): number {
    const said = (e: Entry): boolean => (e.type === "custom_message" || e.message?.role === "user") && entryText(e).includes(word);
    return world.b.sessionFiles().flatMap((f) => readLines<Entry>(f)).filter(said).length;
}

/** How often the session has the reply: as a report or in the result of a call. */
function heard(pi: PiPane, word: string): number {
    const results = pi.entries().filter((e) => e.message?.role === "toolResult" && entryText(e).includes(`said ${word}`));
    return results.length + reportsOf(pi, `said ${word}`).length;
}

async function places(world: World): Promise<string> {
    const { workspaces, tabs, agents: known } = await world.b.herdr.snapshot();
    return JSON.stringify({ workspaces: workspaces.map((w) => w.label), tabs: tabs.map((t) => t.label), agents: known.map((a) => a.name) });
}

async function tabs(world: World): Promise<number> {
    return (await world.b.herdr.snapshot()).tabs.length;
}

// ---- steps ------------------------------------------------------------------------------------

async function reached(world: World, held: Held, what: string): Promise<void> {
    await until(() => held.reached, { what, deadlineMs: DEADLINE_MS, everyMs: 2, dump: () => world.dump() });
}

/** A call of Herdr, held. Only the helper asks with this method at this time. */
function atHerdr(method: string, side: Side): Point["reach"] {
    return async (world) => {
        const gate = await SocketGate.before(world.b.herdr.socketPath);
        const held = gate.hold(new RegExp(`"method":"${method.replace(".", "\\.")}"`), side, BUSY);
        await reached(world, held, `${method}, ${side}`);
        return () => gate.open();
    };
}

function receiverSocket(world: World): string | undefined {
    const run = path.join(world.b.shepherdrDir, "run");
    const [name] = fs.existsSync(run) ? fs.readdirSync(run).filter((f) => f.endsWith(".json")) : [];
    if (name === undefined) return undefined;
    return (JSON.parse(fs.readFileSync(path.join(run, name), "utf8")) as { socket: string }).socket;
}

/** A request to the worker's receiver, held: its gate is put up while agent.start has no answer yet. */
function atReceiver(service: string, side: Side): Point["reach"] {
    return async (world) => {
        const herdr = await SocketGate.before(world.b.herdr.socketPath);
        await reached(world, herdr.hold(/"method":"agent\.start"/, "after", BUSY), "agent.start, after");
        const socket = await until(() => receiverSocket(world), { what: "the worker's receiver", deadlineMs: DEADLINE_MS, dump: () => world.dump() });
        const gate = await SocketGate.before(socket);
        const held = gate.hold(new RegExp(`"service":"${service}"`), side);
        herdr.open();
        await reached(world, held, `${service}, ${side}`);
        return () => gate.open();
    };
}

/** The upload has begun, and its bytes are taken slowly: some of them are in the temporary file. */
const inUpload: Point["reach"] = async (world) => {
    const running = path.join(world.b.root, "head-runs");
    const goFile = path.join(world.b.root, "head-go");
    const script =
        "#!/bin/sh\n" +
        `[ -e '${goFile}' ] && exec /usr/bin/head "$@"\n` +
        "left=$2\n" +
        "while [ $left -gt 0 ]; do\n" +
        "    { n=$(/usr/bin/head -c 4096 | tee -a /proc/self/fd/3 | wc -c); } 3>&1\n" +
        "    [ $n -gt 0 ] || exit 0\n" +
        "    left=$((left - n))\n" +
        `    : >'${running}'\n` +
        `    [ -e '${goFile}' ] && { /usr/bin/head -c $left | tee -a /proc/self/fd/3 >/dev/null; } 3>&1 && exit\n` +
        "    sleep 0.1\n" +
        "done\n";
    fs.writeFileSync(path.join(world.b.bin, "head"), script, { mode: 0o755 });
    await until(() => fs.existsSync(running), { what: "the upload", deadlineMs: DEADLINE_MS, everyMs: 5, dump: () => world.dump() });
    return () => fs.writeFileSync(goFile, "");
};

const inHandshake: Point["reach"] = async (world) => {
    await until(() => helpers(world).length > 0, { what: "the helper", deadlineMs: DEADLINE_MS, everyMs: 1, dump: () => world.dump() });
    return () => undefined;
};

/** Pi A stands still while the worker settles: the report is on its way, and nobody has read it. */
const afterSettle: Point["reach"] = async (world, pi) => {
    await until(() => world.model.waiting("reply") === 1, { what: "the worker inside its reply", deadlineMs: DEADLINE_MS, dump: () => world.dump() });
    await until(() => rows(world, "SELECT state FROM tasks").some((r) => r["state"] === 1), { what: "that the controller knows of the task", deadlineMs: DEADLINE_MS, dump: () => world.dump() });
    signal([pi.pid], "SIGSTOP");
    world.model.release("reply");
    await until(() => rows(world, "SELECT id FROM reports").length > 0, { what: "the stored report", deadlineMs: DEADLINE_MS, dump: () => world.dump() });
    /* Its shell has the terminal back: only fg makes it the foreground job again. */
    let stopped = true;
    return async () => {
        if (!stopped) return;
        stopped = false;
        await world.a.herdr.call("pane.send_input", { pane_id: pi.pane.pane_id, text: "fg", keys: ["enter"] });
    };
};

const midReply: Point["reach"] = async (world) => {
    await until(() => world.model.waiting("reply") === 1, { what: "the worker inside its reply", deadlineMs: DEADLINE_MS, dump: () => world.dump() });
    return () => world.model.release("reply");
};

/** Ends Pi from within: a terminal that a stopped job has left takes no keys as Pi wants them. */
async function leave(world: World, pi: PiPane): Promise<void> {
    pi.act({ do: "shutdown" });
    await until(() => !alive(pi.pid), { what: "Pi's end", deadlineMs: DEADLINE_MS, dump: () => pi.dump() });
    await nothingLeft(world);
}

// ---- the end of every point -------------------------------------------------------------------

/** The call in the session that is still there: ended, one way or the other. */
async function callEnded(world: World, pi: PiPane): Promise<void> {
    const ended = (): boolean => pi.events("tool_execution_end").length > 0;
    await until(ended, { what: "the end of the call", deadlineMs: DEADLINE_MS, dump: async () => `${await pi.dump()}\n${await world.dump()}` });
    await pi.waitSettled(1, DEADLINE_MS);
}

async function conclude(world: World, pi: PiPane, word: string, victim: Victim, held: boolean): Promise<void> {
    const dump = async (): Promise<string> => `${await pi.dump()}\n${await world.dump()}`;
    let session = pi;
    if (victim === "Pi A") {
        await nothingLeft(world);
        const file = pi.sessionFile;
        assert.ok(file);
        session = await openPi(world, { args: ["--session", file] });
    } else {
        await callEnded(world, pi);
    }
    const failed = victim !== "Pi A" && pi.events("tool_execution_end")[0]?.isError === true;
    if (failed && turns(world) === 0) {
        /* The model may look and ask again; what the failed call made is gone. */
        await until(async () => (await tabs(world)) === 0, { what: "that the failed call left nothing in Herdr", deadlineMs: GONE_MS, dump });
        const again = await agents(pi, spawnArgs(`${held ? "SAY-HELD" : "SAY"} ${word}`, world.id("b")), DEADLINE_MS);
        assert.equal(again.isError, false, again.text);
        if (held) world.model.release("reply");
    }
    await until(() => heard(session, word) > 0, { what: `the reply "said ${word}"`, deadlineMs: DEADLINE_MS, dump });
    await session.waitSettled(1);
    assert.equal(await tabs(world), 1, `not one place: ${await places(world)}`);
    assert.equal(turns(world), 1, "the task was worked on more than once");
    assert.equal(inputs(world, word), 1, "the task does not stand in the worker's sessions exactly once");
    const file = session.sessionFile;
    assert.ok(file);
    await sleep(RESUMED_MS);
    await leave(world, session);
    assert.equal(heard(session, word), 1, `heard more than once\n${await session.dump()}`);

    /* Nothing is told, made or given again by another resume. */
    const last = await openPi(world, { args: ["--session", file] });
    const list = await agents(last, { action: "list" }, DEADLINE_MS);
    assert.equal(list.isError, false, list.text);
    await sleep(RESUMED_MS);
    assert.equal(await tabs(world), 1, `after another resume: ${await places(world)}`);
    await leave(world, last);
    assert.equal(heard(last, word), 1, "told again by another resume");
    assert.equal(turns(world), 1);
}

/**
 * The worker died. Before its task can have reached it, the call fails and what it made is closed;
 * after that the place stays for a person to look at, and the session hears once that Pi ended.
 */
async function concludeWithoutWorker(world: World, pi: PiPane): Promise<void> {
    const dump = async (): Promise<string> => `${await pi.dump()}\n${await world.dump()}`;
    await callEnded(world, pi);
    const [result] = pi.entries().filter((e) => e.message?.role === "toolResult");
    assert.ok(result);
    const text = entryText(result);
    const told = (): number => pi.pushed("herdr-agent-event").length;
    if (result.message?.isError === true && !text.includes("It may have acted")) {
        await until(async () => (await tabs(world)) === 0, { what: "the end of the place that was made", deadlineMs: GONE_MS, dump });
        await sleep(RESUMED_MS);
        assert.equal(told(), 0, `a call that failed is reported as well\n${await dump()}`);
    } else if (!/"status":"exited"/.test(text)) {
        await until(() => told() > 0, { what: "the report of the end", deadlineMs: DEADLINE_MS, dump });
        assert.equal(await tabs(world), 1, "the place of a worker that may have begun was closed");
    }
    await leave(world, pi);
    assert.ok(told() <= 1, `told ${told()} times`);
}

async function run(t: TestContext, point: Point, name: string): Promise<void> {
    const rnd = random(name);
    const blocking = point.blocking ?? rnd() < 0.5;
    const word = `w${Math.floor(rnd() * 1e6)}`;
    t.diagnostic(`SHP_SEED=${seed} ${blocking ? "blocking" : "not blocking"}`);
    const world = await stage(t, point.victim === "ssh" ? { settings: { transport: "openssh" } } : {});
    const pi = await openPi(world);
    const held = point.held === true;
    const reaching = point.reach(world, pi, word);
    begin(pi, spawnArgs(`${held ? "SAY-HELD" : "SAY"} ${word}`, world.id("b"), { blocking }));
    const go = await reaching;
    await sleep(rnd() * JITTER_MS);
    const dead = victims(world, pi, point.victim);
    assert.ok(dead.length > 0, `no ${point.victim} to kill\n${await world.dump()}`);
    const gone = era(world, pi, point.victim);
    signal(dead, "SIGKILL");
    const alone = point.victim === "worker";
    /* What waits for a Pi that stands still would never end. */
    if (point.reach === afterSettle && point.victim !== "Pi A") await go();
    await until(() => !gone.some(alive), {
        what: "the end of what belonged to the dead",
        deadlineMs: GONE_MS,
        dump: async () => `${gone.filter(alive).join(" ")}\n${await world.dump()}`,
    });
    await go();
    if (alone) await concludeWithoutWorker(world, pi);
    else await conclude(world, pi, word, point.victim, held);
    assert.deepEqual(world.model.unmatched, []);
}

const points: Point[] = [
    { step: "upload", victim: "Pi A", reach: inUpload },
    { step: "upload", victim: "ssh", reach: inUpload },
    { step: "upload", victim: "controller", reach: inUpload },
    { step: "handshake", victim: "ssh", reach: inHandshake },
    { step: "handshake", victim: "Pi A", reach: inHandshake },
    { step: "create, before", victim: "ssh", reach: atHerdr("workspace.create", "before") },
    { step: "create, after", victim: "controller", reach: atHerdr("workspace.create", "after") },
    { step: "create, after", victim: "helper", reach: atHerdr("workspace.create", "after") },
    { step: "create, after", victim: "Pi A", reach: atHerdr("workspace.create", "after") },
    { step: "start, before", victim: "helper", reach: atHerdr("agent.start", "before") },
    { step: "start, after", victim: "controller", reach: atHerdr("agent.start", "after") },
    { step: "start, after", victim: "ssh", reach: atHerdr("agent.start", "after") },
    { step: "start, after", victim: "worker", reach: atReceiver("bind", "before") },
    { step: "bind, before", victim: "controller", reach: atReceiver("bind", "before") },
    { step: "deliver, before", victim: "controller", reach: atReceiver("deliver", "before") },
    { step: "deliver, before", victim: "Pi A", reach: atReceiver("deliver", "before") },
    { step: "deliver, before", victim: "worker", reach: atReceiver("deliver", "before") },
    { step: "deliver, after", victim: "controller", reach: atReceiver("deliver", "after") },
    { step: "deliver, after", victim: "helper", reach: atReceiver("deliver", "after") },
    { step: "deliver, after", victim: "Pi A", reach: atReceiver("deliver", "after") },
    { step: "mid-reply of a blocking call", victim: "controller", reach: midReply, held: true, blocking: true },
    { step: "mid-reply of a blocking call", victim: "Pi A", reach: midReply, held: true, blocking: true },
    { step: "settled, before the push", victim: "controller", reach: afterSettle, held: true, blocking: false },
    { step: "settled, before the push", victim: "Pi A", reach: afterSettle, held: true, blocking: false },
    { step: "settled, before the answer", victim: "controller", reach: afterSettle, held: true, blocking: true },
    { step: "settled, before the answer", victim: "Pi A", reach: afterSettle, held: true, blocking: true },
];

/** A seeded choice of POINTS_RUN points with every victim in it, or all with SHP_KILL_POINTS=all. */
function chosen(): Point[] {
    if (process.env["SHP_KILL_POINTS"] === "all") return points;
    const rnd = random("choice");
    const shuffled = points.map((point) => ({ point, key: rnd() })).sort((x, y) => x.key - y.key).map((x) => x.point);
    const firsts = shuffled.filter((p, i) => shuffled.findIndex((q) => q.victim === p.victim) === i);
    const rest = shuffled.filter((p) => !firsts.includes(p));
    const taken = new Set([...firsts, ...rest].slice(0, POINTS_RUN));
    return points.filter((p) => taken.has(p));
}

for (const point of chosen()) {
    const name = `${point.step}: ${point.victim} killed`;
    test(`${name} (seed ${seed})`, { skip }, (t) => run(t, point, name));
}
