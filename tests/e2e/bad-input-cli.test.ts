/*
 * Bad input through the `shepherdr` command: catalogs, ids, calls, a channel with foreign bytes
 * on it, and receivers that do not serve. Each ends by itself with a stable code, machine, step, cause and
 * next action, and leaves nothing behind.
 */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as net from "node:net";
import * as path from "node:path";
import { test, type TestContext } from "node:test";
import { run, until, type RunResult } from "../support/process.ts";
import { PiPane } from "../support/pi.ts";
import { extension, shepherdrBin, worldMissing, type World } from "../support/world.ts";
import { nothingLeft, placedFiles, stage } from "./driver.ts";

const skip = worldMissing() ?? false;
const NOBODY = "0".repeat(32);
const MESSAGE_BYTES_MAX = 48 * 1024;

interface Failure {
    code: string;
    message: string;
    step?: string;
    cause?: string;
    machine?: string;
    next: string;
    outcome: string;
}

interface Expected {
    machine?: string;
    step?: RegExp;
    cause?: RegExp;
}

/** The command, to its end: a command that hangs fails the test. */
async function shepherdr(world: World, args: string[]): Promise<RunResult> {
    const result = await run(shepherdrBin, args, { env: world.a.env(), cwd: world.a.project });
    assert.equal(result.timedOut, false, `shepherdr ${args.join(" ").slice(0, 200)} did not end\n${await world.dump()}`);
    assert.equal(result.signal, null, `${result.signal}: ${result.stderr}`);
    return result;
}

async function agents(world: World, call: object): Promise<RunResult> {
    return shepherdr(world, ["agents", JSON.stringify(call)]);
}

/** The call fails with one JSON error on standard error, and nothing on standard output. */
async function refused(world: World, call: object, code: string, expected: Expected = {}): Promise<Failure> {
    const result = await agents(world, call);
    assert.notEqual(result.code, 0, result.stdout);
    assert.equal(result.stdout, "");
    const failure = JSON.parse(result.stderr.trimEnd().split("\n").at(-1) ?? "") as Failure;
    assert.equal(failure.code, code, result.stderr);
    assert.notEqual(failure.next, "");
    assert.notEqual(failure.message, "");
    assert.match(failure.outcome, /^(rejected|unknown)$/);
    if (expected.machine !== undefined) assert.equal(failure.machine, expected.machine, result.stderr);
    if (expected.step !== undefined) assert.match(failure.step ?? "", expected.step, result.stderr);
    if (expected.cause !== undefined) assert.match(failure.cause ?? "", expected.cause, result.stderr);
    return failure;
}

function spawnOn(machine: string, more: object = {}): object {
    return { action: "spawn", agent_type: "worker", label: "test worker", message: "SAY x", machine, ...more };
}

/** A program in the place of A's herdr, for as long as `body` runs. */
async function withHerdr(world: World, script: string | undefined, body: () => Promise<void>): Promise<void> {
    const file = path.join(world.a.bin, "herdr");
    fs.renameSync(file, `${file}.real`);
    try {
        if (script !== undefined) fs.writeFileSync(file, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
        await body();
    } finally {
        fs.rmSync(file, { force: true });
        fs.renameSync(`${file}.real`, file);
    }
}

/** What `herdr machine list --json` prints. */
function withCatalog(world: World, text: string, body: () => Promise<void>): Promise<void> {
    const file = path.join(world.a.harnessDir, "catalog.txt");
    fs.writeFileSync(file, text);
    return withHerdr(world, `exec cat '${file}'`, body);
}

test("catalogs that are none", { skip }, async (t) => {
    const world = await stage(t);
    const b = world.id("b");
    const [entry] = world.catalog;
    const list = (...changed: object[]): string => JSON.stringify(changed.map((c) => ({ ...entry, ...c })));
    const cases: Array<[string, string, RegExp]> = [
        ["no JSON", "Segmentation fault", /JSON array/],
        ["nothing", "", /JSON array/],
        ["an object", '{"machines":[]}', /JSON array/],
        ["torn", list({}).slice(0, -5), /JSON array/],
        ["something after the array", `${list({})} and more`, /JSON array/],
        ["an entry that is no object", "[7]", /entry 1: .*object/],
        ["an id that is none", list({ id: "B" }), /entry 1.*id/],
        ["a label with a NUL", list({ label: "a\u0000b" }), /JSON array/],
        ["an id twice", list({}, { label: "again" }), /entry 2 again.*twice/],
        ["a label with an escape sequence", list({ label: "a\u001b[31m" }), /entry 1.*label/],
        ["a target of another type", list({ target: 7 }), /entry 1.*target/],
        ["a target that begins with a dash", list({ target: "-oProxyCommand=touch /tmp/x" }), /entry 1.*dash/],
        ["a session with a path in it", list({ session: "../x" }), /entry 1.*session/],
        ["the second entry without enabled", JSON.stringify([entry, { ...entry, id: NOBODY, enabled: undefined }]), /entry 2.*enabled/],
        ["65 levels of arrays", `${"[".repeat(2000)}${"]".repeat(2000)}`, /JSON array|object/],
        ["more than 1 MiB", `[${" ".repeat(1 << 20)}]`, /1 MiB/],
        ["two thousand entries", list(...Array.from({ length: 2000 }, (_, i) => ({ id: i.toString(16).padStart(32, "0") }))), /more entries/],
    ];
    for (const [name, text, cause] of cases) {
        await t.test(name, () => withCatalog(world, text, async () => {
            await refused(world, spawnOn(b), "catalog_invalid", { step: /catalog/, cause });
        }));
    }
    await t.test("a program that fails, with its words", () => withHerdr(world, "echo no state directory >&2; exit 3", async () => {
        await refused(world, spawnOn(b), "catalog_failed", { step: /catalog/, cause: /3.*no state directory/ });
    }));
    await t.test("no program", () => withHerdr(world, undefined, async () => {
        await refused(world, spawnOn(b), "herdr_missing", { step: /catalog/, cause: /herdr/ });
    }));
    await t.test("a program that prints for ever", () => withHerdr(world, "exec yes '[{}]'", async () => {
        await refused(world, spawnOn(b), "catalog_invalid", { cause: /1 MiB/ });
    }));
    await t.test("a program that does not end", () => withHerdr(world, "exec sleep 1000", async () => {
        await refused(world, spawnOn(b), "catalog_failed", { cause: /did not end/ });
        const doctor = await shepherdr(world, ["doctor", "--json", "local"]);
        assert.equal(doctor.code, 2);
        const [local] = JSON.parse(doctor.stdout) as Array<{ layers: Array<{ layer: string; code?: string; next?: string }> }>;
        const layer = local?.layers.find((l) => l.layer === "catalog");
        assert.equal(layer?.code, "catalog_failed", doctor.stdout);
        assert.ok(layer?.next);
    }));
    assert.deepEqual([...placedFiles(world.b).keys()], [], "a refused catalog reached a machine");
    await nothingLeft(world);
});

test("calls that are none, and machines that are not there", { skip }, async (t) => {
    const world = await stage(t);
    const b = world.id("b");
    const cases: Array<[string, object, string, Expected]> = [
        ["an unknown action", { action: "dance" }, "unknown_action", { cause: /dance/ }],
        ["an action of later", { action: "watch", machine: b, target: "w1:p1" }, "unsupported_action", {}],
        ["an unknown field", spawnOn(b, { colour: "red" }), "unknown_field", { cause: /colour/ }],
        ["a missing field", { action: "spawn", agent_type: "worker", machine: b }, "missing_field", {}],
        ["a field of another type", spawnOn(b, { label: 7 }), "field_invalid", { cause: /label/ }],
        ["a NUL in the message", spawnOn(b, { message: "a\u0000b" }), "invalid_call", { cause: /NUL/ }],
        ["a report to nobody", spawnOn(b, { blocking: false }), "needs_pi_session", {}],
        ["an unknown profile", spawnOn(b, { agent_type: "nobody" }), "profile_unknown", {}],
        ["an unknown machine", spawnOn(NOBODY), "machine_unknown", { machine: NOBODY, step: /machine/ }],
        ["a machine by its label", { action: "read", machine: "machine b", target: "w1:p1" }, "machine_unknown", {}],
        ["a message above the limit", spawnOn(b, { message: "ä".repeat(MESSAGE_BYTES_MAX / 2) + "x" }), "message_too_large", {}],
    ];
    for (const [name, call, code, expected] of cases) await t.test(name, async () => void (await refused(world, call, code, expected)));
    for (const text of ["", "{", "[]", "7", '"help"', "null", "{}{}", '{"action":"list"} x', `{"a":${"[".repeat(3000)}${"]".repeat(3000)}}`]) {
        await t.test(`the argument ${JSON.stringify(text.slice(0, 20))}`, async () => {
            const result = await shepherdr(world, ["agents", text]);
            assert.notEqual(result.code, 0);
            const failure = JSON.parse(result.stderr) as Failure;
            assert.match(failure.code, /^(invalid_call|unknown_field)$/, result.stderr);
            assert.notEqual(failure.next, "");
        });
    }
    await t.test("doctor of an unknown machine", async () => {
        const result = await shepherdr(world, ["doctor", NOBODY]);
        assert.equal(result.code, 2);
        assert.match(result.stderr, /machine_unknown/);
        assert.match(result.stderr, /next: \S/);
    });
    await t.test("unknown commands and arguments", async () => {
        for (const args of [[], ["dance"], ["agents"], ["agents", "{}", "x"], ["machines", "--yaml"], ["doctor", "--fast"], ["controller"]]) {
            const result = await shepherdr(world, args);
            assert.equal(result.code, 2, args.join(" "));
            assert.match(result.stderr, /usage: shepherdr/);
        }
    });
    await t.test("a disabled machine", async () => {
        world.a.writeCatalog(world.catalog.map((e) => ({ ...e, enabled: false })));
        await refused(world, spawnOn(b), "machine_disabled", { machine: b });
        world.a.writeCatalog(world.catalog);
    });
    assert.deepEqual([...placedFiles(world.b).keys()], [], "a refused call reached the machine");
    await nothingLeft(world);
});

/** Makes every ssh that connects run its output through a filter. */
function filterSsh(world: World, filter: string): void {
    const file = path.join(world.client.bin, "filter.mjs");
    const code =
        "let seen = Buffer.alloc(0), told = 0, after = -1;\n" +
        "const out = (b) => process.stdout.write(b);\n" +
        `const filter = ${filter};\n` +
        "process.stdin.on('data', (b) => {\n" +
        "    if (after >= 0) { const from = after; after += b.length; filter(b, from, out); return; }\n" +
        "    seen = Buffer.concat([seen, b]);\n" +
        "    const at = seen.indexOf(' READY '), end = at < 0 ? -1 : seen.indexOf(10, at);\n" +
        "    out(seen.subarray(told, end < 0 ? seen.length : end + 1)); told = seen.length;\n" +
        "    if (end < 0) return;\n" +
        "    const rest = seen.subarray(end + 1);\n" +
        "    after = rest.length; filter(rest, 0, out);\n" +
        "});\n" +
        "process.stdout.on('error', () => process.exit(0));\n";
    fs.writeFileSync(file, code);
    const script =
        "#!/bin/sh\n" +
        `for word; do [ "$word" = -G ] && exec /usr/bin/ssh -F '${world.client.configFile}' "$@"; done\n` +
        `/usr/bin/ssh -F '${world.client.configFile}' "$@" | '${process.execPath}' '${file}'\n`;
    fs.writeFileSync(path.join(world.client.bin, "ssh"), script, { mode: 0o755 });
}

test("foreign bytes on the channel after the helper spoke", { skip }, async (t) => {
    const world = await stage(t, { settings: { transport: "openssh" } });
    const machine = world.id("b");
    const read = { action: "read", machine, target: "w1:p1" };
    /* (bytes, how many came before them, out): the handshake's answer is the first below 200 bytes. */
    const cases: Array<[string, string, RegExp]> = [
        ["text in the place of the handshake", "(b, from, out) => { if (from === 0) out('You have new mail.\\n'); out(b); }", /handshake|auth_failed|protocol_error/],
        ["a length that is too large", "(b, from, out) => out(from === 0 ? Buffer.alloc(64, 255) : b)", /handshake|auth_failed|protocol_error/],
        ["one bit of the handshake", "(b, from, out) => { const c = Buffer.from(b); if (from === 0 && c.length > 10) c[10] ^= 1; out(c); }", /handshake|auth_failed|protocol_error/],
        ["bytes between frames", "(b, from, out) => { if (from > 100) out('wall: the system goes down\\n'); out(b); }", /auth_failed|protocol_error/],
        ["one bit of a frame", "(b, from, out) => { const c = Buffer.from(b); if (from > 100) c[c.length - 1] ^= 1; out(c); }", /auth_failed|protocol_error/],
        ["nothing any more", "(b, from, out) => { if (from === 0) process.exit(0); }", /link_lost|helper_silent|timeout/],
    ];
    for (const [name, filter, cause] of cases) {
        await t.test(name, async () => {
            filterSsh(world, filter);
            const result = await agents(world, read);
            assert.notEqual(result.code, 0, result.stdout);
            const failure = JSON.parse(result.stderr.trimEnd().split("\n").at(-1) ?? "") as Failure;
            assert.equal(failure.machine, machine, result.stderr);
            assert.match(`${failure.code} ${failure.cause}`, cause, result.stderr);
            assert.notEqual(failure.next, "");
            await nothingLeft(world);
            const doctor = await shepherdr(world, ["doctor", "--json", machine]);
            assert.equal(doctor.code, 2, doctor.stdout);
            const [patient] = JSON.parse(doctor.stdout) as Array<{ layers: Array<{ status: string; code?: string; step?: string; cause?: string; next?: string }> }>;
            const failed = patient?.layers.find((l) => l.status === "failed");
            assert.ok(failed?.code && failed.step && failed.next, doctor.stdout);
        });
    }
    await t.test("an ssh that never answers is given up", async () => {
        const script = `#!/bin/sh\nfor word; do [ "$word" = -G ] && exec /usr/bin/ssh -F '${world.client.configFile}' "$@"; done\nexec sleep 1000\n`;
        fs.writeFileSync(path.join(world.client.bin, "ssh"), script, { mode: 0o755 });
        await refused(world, read, "machine_unavailable", { machine, cause: /shell_slow|no answer/ });
        await nothingLeft(world);
    });
});

/** A descriptor of a receiver on B as the caller wants it; its process is the test itself. */
function descriptor(world: World, fields: object): void {
    const run_ = path.join(world.b.shepherdrDir, "run");
    fs.mkdirSync(run_, { recursive: true, mode: 0o700 });
    fs.chmodSync(world.b.shepherdrDir, 0o700);
    const host = fs.readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    const whole = {
        version: 1, socket: path.join(run_, "x.sock"), host, agent_dir: world.b.agentDir, pi_session_id: "s1",
        pid: process.pid, token: "t".repeat(64), protocol: [1, 1], ...fields,
    };
    fs.writeFileSync(path.join(run_, `${"a".repeat(32)}.json`), JSON.stringify(whole), { mode: 0o600 });
}

/** A socket in a receiver's place that does with a connection what the test says. */
async function listener(world: World, t: TestContext, on: (socket: net.Socket) => void): Promise<void> {
    const file = path.join(world.b.shepherdrDir, "run", "x.sock");
    fs.rmSync(file, { force: true });
    const server = net.createServer((socket) => {
        socket.on("error", () => undefined);
        on(socket);
    });
    await new Promise<void>((resolve) => server.listen(file, resolve));
    fs.chmodSync(file, 0o600);
    t.after(() => server.close());
}

test("receivers that do not serve", { skip }, async (t) => {
    const world = await stage(t);
    const machine = world.id("b");
    const plain = await PiPane.open(world.b, { label: "plain" });
    const target = plain.pane.pane_id;
    const send = { action: "send", machine, target, message: "hello" };
    const mine = { terminal_id: plain.pane.terminal_id, session_file: plain.sessionFile };

    await t.test("none", async () => void (await refused(world, send, "receiver_missing", { machine, step: /target/ })));
    await t.test("one of another protocol", async () => {
        descriptor(world, { ...mine, protocol: [90, 91] });
        await listener(world, t, (socket) => socket.end());
        await refused(world, send, "receiver_outdated", { machine });
    });
    await t.test("one whose socket is gone", async () => {
        descriptor(world, mine);
        fs.rmSync(path.join(world.b.shepherdrDir, "run", "x.sock"), { force: true });
        await refused(world, send, "receiver_missing", { machine, cause: /sock/ });
    });
    await t.test("one that closes at once", async () => {
        descriptor(world, mine);
        await listener(world, t, (socket) => socket.destroy());
        const failure = await refused(world, send, "receiver_missing", { machine, step: /receiver/ });
        assert.equal(failure.outcome, "rejected", "nothing was sent");
    });
    await t.test("one that speaks something else", async () => {
        descriptor(world, mine);
        await listener(world, t, (socket) => socket.write("HTTP/1.1 400 Bad Request\r\n\r\n".repeat(10)));
        const failure = await refused(world, send, "receiver_missing", { machine, cause: /first bytes|handshake/ });
        assert.equal(failure.outcome, "rejected", "nothing was sent");
    });
    await t.test("one that says nothing", async () => {
        descriptor(world, mine);
        await listener(world, t, () => undefined);
        const failure = await refused(world, send, "receiver_missing", { machine, cause: /ms/ });
        assert.equal(failure.outcome, "rejected", "nothing was sent");
    });
    for (const [name, text] of [["torn", '{"version":1,"sock'], ["of another kind", "[1]"], ["huge", `{"x":"${"y".repeat(100_000)}"}`], ["empty", ""]]) {
        await t.test(`a descriptor that is ${name}`, async () => {
            fs.writeFileSync(path.join(world.b.shepherdrDir, "run", `${"a".repeat(32)}.json`), text ?? "", { mode: 0o600 });
            await refused(world, send, "receiver_missing", { machine });
        });
    }
    await t.test("one that refuses the token", async () => {
        fs.rmSync(path.join(world.b.shepherdrDir, "run"), { recursive: true });
        const live = await PiPane.open(world.b, { label: "live", extensions: [extension] });
        const run_ = path.join(world.b.shepherdrDir, "run");
        const ours = (): string | undefined => (fs.existsSync(run_) ? fs.readdirSync(run_).find((f) => f.endsWith(".json")) : undefined);
        const name = await until(() => ours(), { what: "the receiver's descriptor", deadlineMs: 60_000, dump: () => world.dump() });
        const file = path.join(run_, name);
        const whole = await until(() => {
            const found = JSON.parse(fs.readFileSync(file, "utf8")) as Record<string, unknown>;
            return found["terminal_id"] === undefined ? undefined : found;
        }, { what: "the terminal in the descriptor", deadlineMs: 60_000 });
        fs.writeFileSync(file, JSON.stringify({ ...whole, token: "f".repeat(64) }), { mode: 0o600 });
        const failure = await refused(world, { ...send, target: live.pane.pane_id }, "receiver_refused", { machine, step: /receiver/ });
        assert.equal(failure.outcome, "rejected", "nothing was sent");
        assert.equal(live.events("agent_start").length, 0);
        fs.writeFileSync(file, JSON.stringify(whole), { mode: 0o600 });
        const sent = await agents(world, { ...send, target: live.pane.pane_id });
        assert.equal(sent.code, 0, sent.stderr);
        await live.waitEvent((e) => e.name === "agent_start", "the message that was let in");
        await live.quit();
    });
    assert.equal(plain.events("agent_start").length, 0);
    fs.rmSync(path.join(world.b.shepherdrDir, "run"), { recursive: true });
    await plain.quit();
    await nothingLeft(world);
});
