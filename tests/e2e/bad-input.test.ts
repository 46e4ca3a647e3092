/*
 * What is wrong is said: stable code, machine, step, cause, next action; nothing hangs, nothing is
 * left behind. Each world has one Pi, and the calls go through the tool as a model makes them.
 */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { test } from "node:test";
import { PiPane } from "../support/pi.ts";
import { until } from "../support/process.ts";
import { worldMissing, type World } from "../support/world.ts";
import { agents, mustAgents, openPi, placedFiles, quitClean, reportsOf, spawnArgs, stage, waitReport, type CallResult } from "./driver.ts";

const skip = worldMissing() ?? false;
/** 48 KiB, the limit of a message. */
const MESSAGE_BYTES_MAX = 48 * 1024;

/** The form of every error: `code: what (machine, step): cause. Next: action`. */
function assertError(result: CallResult, code: string | RegExp, more: { machine?: string; cause?: RegExp } = {}): void {
    assert.equal(result.isError, true, `no error: ${result.text}`);
    if (typeof code === "string") assert.equal(result.code, code, result.text);
    else assert.match(result.code, code, result.text);
    assert.match(result.text, /Next: \S/, result.text);
    if (more.machine !== undefined) assert.ok(result.text.includes(more.machine), `machine not named: ${result.text}`);
    if (more.cause !== undefined) assert.match(result.text, more.cause);
}

async function tabs(world: World): Promise<number> {
    return (await world.b.herdr.snapshot()).tabs.length;
}

test("bad calls are refused with their code, and the session goes on", { skip }, async (t) => {
    const world = await stage(t);
    const pi = await openPi(world);
    const b = world.id("b");
    const good = { action: "spawn", agent_type: "worker", label: "test worker", message: "SAY x", blocking: false, machine: b };
    /* An unknown action is refused by the tool's schema already, before anything of ours sees it. */
    const unknown = await agents(pi, { action: "dance" });
    assert.equal(unknown.isError, true);
    assert.match(unknown.text, /Validation failed for tool "agents"/);
    const cases: Array<[string, object, string]> = [
        ["unsupported action", { action: "watch", target: "w1:p1", machine: b }, "unsupported_action"],
        ["unknown field", { ...good, colour: "red" }, "unknown_field"],
        ["missing field", { action: "spawn", agent_type: "worker", machine: b }, "missing_field"],
        ["wrong type", { ...good, blocking: "maybe" }, "field_invalid"],
        ["unknown profile", { ...good, agent_type: "nobody" }, "profile_unknown"],
        ["unknown machine", { ...good, machine: "0".repeat(32) }, "machine_unknown"],
        ["machine by label", { ...good, machine: "machine b" }, "machine_unknown"],
        ["message above the limit", { ...good, message: `@BIG ${MESSAGE_BYTES_MAX + 1}` }, "message_too_large"],
        ["unknown directory", { ...good, cwd: "/nowhere/at/all" }, "directory_missing"],
        ["unknown workspace", { ...good, workspace: "no such place" }, "workspace_unknown"],
        ["send to nobody", { action: "send", target: "w9:p9", machine: b, message: "hello" }, "agent_not_found"],
        ["read of nobody", { action: "read", target: "w9:p9", machine: b }, "agent_not_found"],
    ];
    for (const [name, args, code] of cases) {
        await t.test(name, async () => {
            assertError(await agents(pi, args), code);
        });
    }
    assert.equal(await tabs(world), 0, "a refused spawn left a tab");

    await mustAgents(pi, spawnArgs("SAY still", b));
    await waitReport(world, pi, "said still");
    await quitClean(world, pi);
});

test("a message at the limit arrives whole", { skip }, async (t) => {
    const world = await stage(t, { rules: [{ when: { channel: "b", last: /x{49152}/ }, answer: { text: "all of it" } }] });
    const pi = await openPi(world);
    await mustAgents(pi, spawnArgs(`@BIG ${MESSAGE_BYTES_MAX}`, world.id("b")));
    await waitReport(world, pi, "all of it");
    await quitClean(world, pi);
});

test("a catalog that is no catalog is an error, and its repair is noticed", { skip }, async (t) => {
    const world = await stage(t);
    world.a.writeCatalogText('{"version":1,"ssh":[{"id":');
    const pi = await openPi(world);
    assertError(await agents(pi, spawnArgs("SAY x", world.id("b"))), /^(catalog_failed|catalog_invalid|machine_unknown)$/);
    world.a.writeCatalog(world.catalog);
    const listed = async (): Promise<boolean> => (await agents(pi, { action: "list" })).text.includes(world.id("b"));
    await until(listed, { what: "the repaired catalog in list", deadlineMs: 60_000, everyMs: 500, dump: () => world.dump() });
    await quitClean(world, pi);
});

test("a target that begins with a dash never becomes an option of ssh", { skip }, async (t) => {
    const world = await stage(t);
    const marker = path.join(world.a.root, "ran");
    const id = "d".repeat(32);
    world.a.writeCatalog([
        ...world.catalog,
        { id, label: "dash", target: `-oProxyCommand=touch ${marker}`, session: "default", enabled: true },
    ]);
    const pi = await openPi(world);
    assertError(await agents(pi, spawnArgs("SAY x", id)), /^(target_invalid|catalog_invalid|catalog_failed|machine_unavailable)$/);
    assert.equal(fs.existsSync(marker), false);
    assert.ok(!world.client.calls.some((c) => c.includes("ProxyCommand")), world.client.calls.join("\n"));
    await quitClean(world, pi);
});

test("Herdr does not run on the machine: said, and well again once it does", { skip }, async (t) => {
    const world = await stage(t);
    await world.b.herdr.stop();
    const pi = await openPi(world);
    const result = await agents(pi, spawnArgs("SAY x", world.id("b")));
    assertError(result, /^(herdr_not_running|machine_unavailable)$/, { machine: world.id("b"), cause: /herdr_not_running|Herdr/ });
    await world.b.herdr.start(world.b.home);
    await mustAgents(pi, spawnArgs("SAY up", world.id("b")));
    await waitReport(world, pi, "said up");
    await quitClean(world, pi);
});

test("login shells that make noise, end early or print for ever", { skip }, async (t) => {
    const world = await stage(t);
    const pi = await openPi(world);
    const bashrc = path.join(world.b.home, ".bashrc");
    const b = world.id("b");
    fs.writeFileSync(bashrc, 'case $- in *i*) ;; *) echo "no access for you"; exit 7;; esac\n');
    assertError(await agents(pi, spawnArgs("SAY x", b)), "machine_unavailable", { machine: b, cause: /no access for you/ });
    fs.writeFileSync(bashrc, "case $- in *i*) ;; *) yes noise | head -c 9000000;; esac\n");
    assertError(await agents(pi, spawnArgs("SAY x", b)), "machine_unavailable", { machine: b, cause: /shell_noise|noise/ });
    /* Bounded noise, with NUL bytes and escape sequences, is only noise. */
    fs.writeFileSync(bashrc, "case $- in *i*) ;; *) printf 'motd \\000\\033[31m\\n'; yes hello | head -c 20000;; esac\n");
    await mustAgents(pi, spawnArgs("SAY quiet", b));
    await waitReport(world, pi, "said quiet");
    await quitClean(world, pi);
});

test("a host key that changed is final, an unknown one is not accepted", { skip }, async (t) => {
    const world = await stage(t);
    const pi = await openPi(world);
    const b = world.id("b");
    const [line = ""] = fs.readFileSync(world.client.knownHostsFile, "utf8").split("\n");
    fs.writeFileSync(world.client.knownHostsFile, "");
    assertError(await agents(pi, spawnArgs("SAY x", b)), "machine_unavailable", { machine: b, cause: /host_key_unknown/ });
    const other = fs.readFileSync(`${world.b.sshd?.userKey}.pub`, "utf8").split(" ")[1] ?? "";
    fs.writeFileSync(world.client.knownHostsFile, `${line.split(" ").slice(0, 2).join(" ")} ${other}\n`);
    assertError(await agents(pi, spawnArgs("SAY x", b)), "machine_unavailable", { machine: b, cause: /host_key_changed/ });
    assert.deepEqual([...placedFiles(world.b).keys()], []);
    await quitClean(world, pi);
});

test("a truncated helper is replaced, a stranger's file is left alone", { skip }, async (t) => {
    const world = await stage(t);
    const b = world.id("b");
    let pi = await openPi(world);
    await mustAgents(pi, spawnArgs("SAY one", b));
    await waitReport(world, pi, "said one");
    await quitClean(world, pi);
    const [name] = [...placedFiles(world.b).keys()].filter((f) => f.startsWith("bin/"));
    const file = path.join(world.b.shepherdrDir, name ?? "");
    const size = fs.statSync(file).size;

    fs.truncateSync(file, 1000);
    pi = await openPi(world);
    await mustAgents(pi, spawnArgs("SAY two", b, { label: "second worker" }));
    await waitReport(world, pi, "said two");
    assert.equal(fs.statSync(file).size, size);
    await quitClean(world, pi);

    fs.rmSync(file);
    fs.mkdirSync(file);
    fs.writeFileSync(path.join(file, "keep"), "not yours");
    pi = await openPi(world);
    assertError(await agents(pi, spawnArgs("SAY three", b)), "machine_unavailable", { machine: b, cause: /install_foreign_file/ });
    assert.equal(fs.readFileSync(path.join(file, "keep"), "utf8"), "not yours");
    fs.rmSync(file, { recursive: true });
    await quitClean(world, pi);
});

test("an upload that brings nothing installs nothing", { skip }, async (t) => {
    const world = await stage(t);
    const pi = await openPi(world);
    const b = world.id("b");
    const head = path.join(world.b.bin, "head");
    fs.writeFileSync(head, "#!/bin/sh\nexit 0\n", { mode: 0o755 });
    assertError(await agents(pi, spawnArgs("SAY x", b)), "machine_unavailable", { machine: b, cause: /install_/ });
    assert.deepEqual([...placedFiles(world.b).keys()], []);
    fs.rmSync(head);
    await mustAgents(pi, spawnArgs("SAY there", b));
    await waitReport(world, pi, "said there");
    await quitClean(world, pi);
});

test("a Pi without the extension is no target for send", { skip }, async (t) => {
    const world = await stage(t);
    const plain = await PiPane.open(world.b, { label: "plain" });
    const pi = await openPi(world);
    const result = await agents(pi, { action: "send", target: plain.pane.pane_id, machine: world.id("b"), message: "SAY x" });
    assertError(result, "receiver_missing", { machine: world.id("b") });
    assert.equal(plain.events("agent_start").length, 0);
    await plain.quit();
    await quitClean(world, pi);
});

test("a session file that is missing or torn: read says so, or reads what is whole", { skip }, async (t) => {
    const world = await stage(t);
    const pi = await openPi(world);
    const machine = world.id("b");
    const { target } = await mustAgents(pi, spawnArgs("SAY whole", machine));
    await waitReport(world, pi, "said whole");
    const [file] = world.b.sessionFiles();
    assert.ok(file);
    fs.appendFileSync(file, '{"type":"message","id":"torn');
    const torn = await agents(pi, { action: "read", target, machine });
    assert.equal(torn.isError, false, torn.text);
    assert.match(torn.text, /said whole/);
    fs.renameSync(file, `${file}.away`);
    assertError(await agents(pi, { action: "read", target, machine }), "transcript_missing", { machine });
    fs.renameSync(`${file}.away`, file);
    assert.equal(reportsOf(pi, "said whole").length, 1);
    await quitClean(world, pi);
});

test("a worker whose Pi does not start is rolled back", { skip }, async (t) => {
    const world = await stage(t);
    const pi = await openPi(world);
    const pi_program = path.join(world.b.bin, "pi");
    fs.writeFileSync(pi_program, "#!/bin/sh\necho broken pi >&2\nexit 3\n", { mode: 0o755 });
    const result = await agents(pi, spawnArgs("SAY x", world.id("b")), 90_000);
    assertError(result, /^(spawn_failed|receiver_missing|herdr_error)$/, { machine: world.id("b") });
    await until(async () => (await tabs(world)) === 0, { what: "the half-made tab's end", dump: () => world.dump() });
    await quitClean(world, pi);
});
