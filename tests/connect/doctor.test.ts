/*
 * `shepherdr doctor` and `shepherdr machines`: which layer is named for which fault, that a look
 * changes nothing anywhere, what --fix and --smoke do, and a running session's machines.
 */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { createHash } from "node:crypto";
import { test, type TestContext } from "node:test";
import { Account, accountMissing } from "../support/account.ts";
import { ConnectRig, connectMissing, type MachineRow } from "../support/connect.ts";
import type { Machine } from "../support/machine.ts";
import { LONG_MS, must, processesOf, run, until, type RunResult } from "../support/process.ts";
import { shepherdrBin, World, worldMissing, type WorldOptions } from "../support/world.ts";
import { agents, rules } from "../e2e/driver.ts";

const skip = connectMissing() ?? false;
const skipRoot = connectMissing() ?? accountMissing() ?? false;
const skipWorld = worldMissing() ?? false;

interface Finding {
    layer: string;
    status: "ok" | "warning" | "failed" | "skipped";
    text?: string;
    code?: string;
    step?: string;
    cause?: string;
    next?: string;
}

interface Patient {
    machine: string;
    label: string;
    status: string;
    layers: Finding[];
}

/** Layers of a machine behind ssh, in their order. */
const LAYERS = [
    "catalog", "config", "dns", "tcp", "host_key", "auth", "shell", "home", "disk", "noexec", "architecture", "helper",
    "link", "herdr", "pi", "sessions", "watches", "clock", "receivers",
];

function patient(result: RunResult, label: string): Patient {
    const all = JSON.parse(result.stdout) as Patient[];
    const found = all.find((p) => p.label === label);
    assert.ok(found !== undefined, result.stdout);
    return found;
}

function layer(of: Patient, name: string): Finding {
    const found = of.layers.find((l) => l.layer === name);
    assert.ok(found !== undefined, `${name}: ${JSON.stringify(of)}`);
    return found;
}

// ---- which layer --------------------------------------------------------------------------

interface Case {
    name: string;
    layer: string;
    code: string;
    /** Makes machine "box"; what it returns is done after the case. */
    make: (rig: ConnectRig, t: TestContext) => Promise<(() => unknown) | void>;
    root?: true;
    /** Default 2. */
    exit?: number;
}

async function box(rig: ConnectRig, client: string[] = [], home = rig.remoteHome()): Promise<void> {
    rig.add({ name: "box", sshd: await rig.sshd({ home }), client });
}

async function mounted(rig: ConnectRig, options: string): Promise<() => unknown> {
    const home = rig.remoteHome();
    await must("/usr/bin/mount", ["-t", "tmpfs", "-o", options, "tmpfs", home], { env: {} });
    await box(rig, [], home);
    return () => must("/usr/bin/umount", [home], { env: {} });
}

async function account(rig: ConnectRig, t: TestContext, shell: string): Promise<void> {
    const made = await Account.create({ shell });
    t.after(() => made.remove());
    rig.add({ name: "box", sshd: await rig.sshd(), user: made.name });
}

const cases: Case[] = [
    {
        name: "settings that are none", layer: "config", code: "settings_invalid",
        make: async (rig) => {
            await box(rig);
            fs.writeFileSync(path.join(rig.home, ".pi", "agent", "pi-shepherdr.json"), "{torn");
        },
    },
    { name: "a name without address", layer: "dns", code: "name_unresolved", make: async (rig) => void rig.add({ name: "box", target: "nowhere.invalid" }) },
    {
        name: "a port where nothing listens", layer: "tcp", code: "connect_refused",
        make: async (rig) => {
            const sshd = await rig.sshd({ home: rig.remoteHome() });
            rig.add({ name: "box", sshd });
            await sshd.stopListening();
        },
    },
    { name: "an unknown host key", layer: "host_key", code: "host_key_unknown", make: (rig) => box(rig, ["UserKnownHostsFile /dev/null"]) },
    {
        name: "another host key", layer: "host_key", code: "host_key_changed",
        make: async (rig) => {
            const other = await rig.sshd();
            const sshd = await rig.sshd({ home: rig.remoteHome() });
            const file = path.join(rig.dir, "wrong_hosts");
            fs.writeFileSync(file, other.knownHostsLine.replace(/^\S+/, `[127.0.0.1]:${sshd.port}`) + "\n");
            rig.add({ name: "box", sshd, client: [`UserKnownHostsFile ${file}`] });
        },
    },
    {
        name: "a key that the server refuses", layer: "auth", code: "login_denied",
        make: async (rig) => {
            const sshd = await rig.sshd({ home: rig.remoteHome() });
            fs.writeFileSync(path.join(path.dirname(sshd.userKey), "authorized_keys"), "");
            rig.add({ name: "box", sshd });
        },
    },
    { name: "an account without a login", layer: "shell", code: "shell_refused", root: true, make: (rig, t) => account(rig, t, "/usr/sbin/nologin") },
    { name: "a read-only home", layer: "home", code: "install_read_only", root: true, make: (rig) => mounted(rig, "ro") },
    { name: "a full disk", layer: "disk", code: "install_no_space", root: true, make: (rig) => mounted(rig, "size=64k") },
    { name: "no inodes", layer: "disk", code: "install_no_space", root: true, make: (rig) => mounted(rig, "nr_inodes=1") },
    { name: "a noexec home", layer: "noexec", code: "install_noexec", root: true, make: (rig) => mounted(rig, "noexec") },
    {
        name: "a link at the helper's place", layer: "helper", code: "install_foreign_file",
        make: async (rig) => {
            const home = rig.remoteHome();
            fs.mkdirSync(path.join(home, ".pi/agent/shepherdr"), { recursive: true });
            fs.symlinkSync("/tmp", path.join(home, ".pi/agent/shepherdr/bin"));
            await box(rig, [], home);
        },
    },
    { name: "no helper", layer: "helper", code: "helper_absent", exit: 1, make: (rig) => box(rig) },
];

test("doctor names the layer of each fault, and what to do", { skip }, async (t) => {
    for (const wanted of cases) {
        await t.test(wanted.name, { skip: wanted.root === true ? skipRoot : false }, async (t) => {
            const rig = ConnectRig.create(t);
            const undo = await wanted.make(rig, t);
            try {
                const result = await rig.shepherdr(["doctor", "--json", rig.id("box")]);
                const found = patient(result, "box");
                const named = layer(found, wanted.layer);
                assert.equal(named.code, wanted.code, result.stdout);
                assert.equal(named.status, wanted.exit === 1 ? "warning" : "failed", result.stdout);
                assert.equal(result.code, wanted.exit ?? 2, result.stdout);
                assert.ok((named.next ?? "") !== "" && (named.cause ?? "") !== "" && (named.step ?? "") !== "", result.stdout);
                assert.doesNotMatch(named.cause ?? "", /debug1:|exit status 255|\bssh: /, "raw words of ssh");
                const at = LAYERS.indexOf(wanted.layer);
                assert.deepEqual(found.layers.map((l) => l.layer), LAYERS);
                for (const [i, one] of found.layers.entries()) {
                    /* Where a home cannot take the helper, what else is known of it is told as well. */
                    if (i < at) assert.ok(["ok", "skipped"].includes(one.status), `${one.layer}: ${result.stdout}`);
                    if (i > LAYERS.indexOf("helper")) assert.equal(one.status, "skipped", `${one.layer}: ${result.stdout}`);
                }
                const table = await rig.shepherdr(["doctor", rig.id("box")]);
                assert.equal(table.code, result.code);
                assert.match(table.stdout, new RegExp(`^  ${wanted.exit === 1 ? "warning" : "FAILED "}  ${wanted.layer} +${wanted.code}: .+\n( +seen: .+\n)? +next: .+$`, "m"));
            } finally {
                await undo?.();
            }
        });
    }
});

test("doctor shows what the shell prints, escaped", { skip: skipRoot }, async (t) => {
    const rig = ConnectRig.create(t);
    const made = await Account.create({ shell: "/bin/bash" });
    t.after(() => made.remove());
    made.write(".bashrc", "printf '\\033[1mhello\\n'\necho more\n");
    rig.add({ name: "box", sshd: await rig.sshd(), user: made.name });
    const result = await rig.shepherdr(["doctor", "--json", rig.id("box")]);
    const shell = layer(patient(result, "box"), "shell");
    assert.equal(shell.status, "ok");
    assert.match(shell.text ?? "", /^\d+ bytes of noise: \\x1b\[1mhello$/);
    const table = await rig.shepherdr(["doctor", "--color=never"]);
    assert.doesNotMatch(table.stdout, /\u001b/);
});

// ---- a look changes nothing ---------------------------------------------------------------

/** Every file below a directory with all that a change would show; Herdr's own logs apart. */
function tree(root: string): string[] {
    const names = fs.readdirSync(root, { recursive: true, encoding: "utf8" }).sort();
    return names.flatMap((name) => {
        const info = fs.lstatSync(path.join(root, name), { throwIfNoEntry: false });
        if (info === undefined || info.isSocket() || name.endsWith(".log")) return [];
        const bytes = info.isFile() ? createHash("md5").update(fs.readFileSync(path.join(root, name))).digest("hex") : "";
        return [`${name} ${info.mode.toString(8)} ${info.ino} ${info.size} ${info.mtimeMs} ${bytes}`];
    });
}

function processes(root: string): string[] {
    return processesOf(root).map((p) => `${p.pid} ${p.command}`).sort();
}

class Picture {
    private readonly trees: string[][];
    private readonly processes: string[][];
    private readonly roots: string[];
    private readonly homes: string[];

    constructor(machines: Machine[], more: string[]) {
        this.homes = [...machines.map((m) => m.home), ...more];
        this.roots = machines.map((m) => m.root);
        this.trees = this.homes.map(tree);
        this.processes = this.roots.map(processes);
    }

    /** Processes end a moment after what ended them. */
    async same(what: string): Promise<void> {
        assert.deepEqual(this.homes.map(tree), this.trees, `${what}: files`);
        await until(() => JSON.stringify(this.roots.map(processes)) === JSON.stringify(this.processes), {
            what: `${what}: the processes of before`,
            dump: () => JSON.stringify({ before: this.processes, now: this.roots.map(processes) }, null, 1),
        });
    }
}

async function stage(t: TestContext, options: WorldOptions = {}): Promise<World> {
    const world = await World.create({ ...options, rules });
    t.after(() => world.stop());
    return world;
}

async function shepherdr(world: World, args: string[], env: Record<string, string> = {}): Promise<RunResult> {
    const result = await run(shepherdrBin, args, { env: world.a.env(env), cwd: world.a.project, deadlineMs: LONG_MS * 2 });
    assert.equal(result.timedOut, false, `shepherdr ${args.join(" ")} did not end: ${await world.dump()}`);
    return result;
}

test("doctor is read-only, --fix does what it named, and a well machine is exit 0", { skip: skipWorld }, async (t) => {
    const world = await stage(t);
    /* A server that offers another key: the user's known_hosts could learn it. */
    const bin = path.join(world.b.shepherdrDir, "bin");
    const hosts = path.dirname(world.client.configFile);
    const config = fs.readFileSync(world.client.configFile, "utf8");
    fs.writeFileSync(world.client.configFile, config.replace("UpdateHostKeys no", "UpdateHostKeys yes"));
    const picture = new Picture(world.machines, []);
    const known = fs.readFileSync(world.client.knownHostsFile, "utf8");

    let result = await shepherdr(world, ["doctor", "--json", world.id("b")]);
    assert.equal(result.code, 1, result.stdout);
    const helper = layer(patient(result, "machine b"), "helper");
    assert.match(helper.cause ?? "", new RegExp(`^not installed \\(would write \\d+ bytes to ${bin}/helper-`));
    await picture.same("doctor without a helper");
    result = await shepherdr(world, ["doctor"]);
    assert.equal(result.code, 1, result.stdout);
    assert.match(result.stdout, /^local\n/);
    await picture.same("doctor of every machine");

    result = await shepherdr(world, ["doctor", "--json", "--fix", world.id("b")]);
    assert.equal(result.code, 0, result.stdout);
    assert.match(layer(patient(result, "machine b"), "helper").text ?? "", /^installed now: .*, \d+ bytes, ready after \d+ ms$/);
    assert.equal(fs.readdirSync(bin).length, 1);
    assert.deepEqual(fs.readdirSync(world.b.shepherdrDir), ["bin"], "only the helper was placed");

    const stale = path.join(bin, ".tmp-helper-linux-x86_64-0000-1111");
    fs.writeFileSync(stale, "x");
    fs.utimesSync(stale, 1e9, 1e9);
    const installed = new Picture(world.machines, []);
    result = await shepherdr(world, ["doctor", "--json", world.id("b")]);
    assert.equal(result.code, 0, result.stdout);
    assert.match(layer(patient(result, "machine b"), "helper").text ?? "", /; 1 stale file beside it/);
    await installed.same("doctor with a helper");
    assert.equal(fs.readFileSync(world.client.knownHostsFile, "utf8"), known);
    assert.ok(fs.existsSync(hosts));

    result = await shepherdr(world, ["doctor", "--json", "--fix", world.id("b")]);
    assert.equal(result.code, 0, result.stdout);
    assert.equal(fs.existsSync(stale), false);
    assert.doesNotMatch(layer(patient(result, "machine b"), "helper").text ?? "", /stale/);
});

test("doctor shows a well machine as a short table", { skip: skipWorld }, async (t) => {
    const world = await stage(t);
    await shepherdr(world, ["doctor", "--fix"]);
    const result = await shepherdr(world, ["doctor", world.id("b")], { PATH: world.a.path });
    const lines = result.stdout.trimEnd().split("\n");
    assert.equal(result.code, 0, result.stdout);
    assert.equal(lines[0], `machine b (b, ${world.id("b")})`);
    assert.deepEqual(lines.slice(1).map((l) => l.slice(0, 24).trimEnd()), LAYERS.map((l) => `  ok       ${l}`));
    const text = (name: string): string => lines[LAYERS.indexOf(name) + 1]?.slice(25) ?? "";
    assert.match(text("config"), /^\S+@127\.0\.0\.1:\d+, (libssh|openssh)/);
    assert.match(text("disk"), /^\d+ MiB free/);
    assert.match(text("link"), /^round trip \d+\.\d ms, \d+\.\d MB\/s$/);
    assert.match(text("herdr"), /^server \S+ runs, protocol \d+, session default, program \/.*herdr$/);
    assert.match(text("pi"), /^\/.*\/pi \d+\.\d+\.\d+, extension comes with a spawn, integration \d+$/);
    assert.match(text("sessions"), /^\d+ in \//);
    assert.match(text("watches"), /^file events; \d+ Herdr calls per minute$/);
    assert.match(text("clock"), /^(equal within )?\d+ ms/);
    assert.match(text("receivers"), /^0 live pi sessions/);
    assert.ok(lines.every((l) => l.length < 200), result.stdout);
    const colour = await shepherdr(world, ["doctor", "--color=always", world.id("b")], { NO_COLOR: "1" });
    assert.match(colour.stdout, /\u001b\[32mok/);
});

test("doctor starts no Herdr, and warns of what is missing", { skip: skipWorld }, async (t) => {
    const world = await stage(t, { machines: { b: { herdr: false, integration: false } } });
    await shepherdr(world, ["doctor", "--fix", world.id("b")]);
    const picture = new Picture(world.machines, []);
    const result = await shepherdr(world, ["doctor", "--json", "--smoke", world.id("b")]);
    assert.equal(result.code, 2, result.stdout);
    const found = patient(result, "machine b");
    assert.equal(layer(found, "herdr").code, "herdr_not_running");
    assert.equal(layer(found, "pi").code, "integration_missing");
    assert.equal(layer(found, "smoke").status, "skipped");
    await picture.same("doctor of a stopped Herdr");
    assert.equal(fs.existsSync(world.b.herdr.socketPath), false);
});

// ---- smoke --------------------------------------------------------------------------------

test("--smoke runs a command in a throw-away tab and leaves nothing", { skip: skipWorld }, async (t) => {
    const world = await stage(t);
    await world.b.herdr.call("workspace.create", { cwd: world.b.project, label: "mine" });
    const before = await world.b.herdr.snapshot();
    let result = await shepherdr(world, ["doctor", "--json", "--fix", "--smoke", world.id("b")]);
    assert.equal(result.code, 0, result.stdout);
    assert.match(layer(patient(result, "machine b"), "smoke").text ?? "", /^a command ran in a throw-away tab and came back in \d+ ms$/);
    let after = await world.b.herdr.snapshot();
    assert.deepEqual([after.tabs, after.workspaces], [before.tabs, before.workspaces]);

    /* Without a workspace one of its own is made, and goes. */
    for (const { workspace_id } of before.workspaces) await world.b.herdr.call("workspace.close", { workspace_id });
    result = await shepherdr(world, ["doctor", "--json", "--smoke", world.id("b")]);
    assert.equal(result.code, 0, result.stdout);
    after = await world.b.herdr.snapshot();
    assert.deepEqual([after.tabs, after.workspaces], [[], []]);
});

test("--smoke that fails is rolled back and told", { skip: skipWorld }, async (t) => {
    const world = await stage(t, { machines: { b: { env: { SHELL: "/bin/false" } } } });
    const result = await shepherdr(world, ["doctor", "--json", "--fix", "--smoke", world.id("b")]);
    assert.equal(result.code, 2, result.stdout);
    const smoke = layer(patient(result, "machine b"), "smoke");
    assert.equal(smoke.code, "smoke_failed");
    assert.notEqual(smoke.cause, "");
    const after = await world.b.herdr.snapshot();
    assert.deepEqual(after.tabs.filter((tab) => tab.label.includes("smoke")), []);
});

// ---- machines -----------------------------------------------------------------------------

test("machines shows state, transport, round trip and the last error", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    rig.add({ name: "box", sshd: await rig.sshd({ home: rig.remoteHome() }) });
    rig.add({ name: "gone", target: "nowhere.invalid" });
    const rows = await rig.machines();
    const up = rows.get("box");
    assert.equal(up?.status, "connected");
    assert.match(up?.transport ?? "", /^(libssh|openssh)$/);
    assert.ok((up?.roundTripMs ?? 0) > 0, JSON.stringify(up));
    assert.ok((up?.since ?? 0) > 0 && (up?.lastSeen ?? 0) >= (up?.since ?? 0), JSON.stringify(up));
    assert.match(String(up?.["snapshotError"]), /^herdr_not_running: /);
    const gone = rows.get("gone");
    assert.equal(gone?.status, "unavailable");
    assert.equal(gone?.error?.code, "name_unresolved");
    assert.ok(gone?.error?.next && gone.error.cause && gone.error.step);
    const table = await rig.shepherdr(["machines"]);
    assert.match(table.stdout, /^ID +LABEL +STATUS +TRANSPORT +KEX +TRIP +SINCE +ERROR$/m);
    assert.match(table.stdout, / gone +unavailable .*name_unresolved: /);
});

test("machines --session asks a running session, which reconnects and refreshes", { skip: skipWorld }, async (t) => {
    const world = await stage(t);
    const pi = await world.openPi();
    const id = pi.sessionId ?? "";
    const ask = async (...more: string[]): Promise<MachineRow[]> => {
        const result = await shepherdr(world, ["machines", "--json", "--session", id, ...more]);
        assert.equal(result.code, 0, `${result.stderr}${await pi.dump()}`);
        return JSON.parse(result.stdout) as MachineRow[];
    };
    await agents(pi, { action: "list" });
    const b = world.id("b");
    const row = (await ask()).find((r) => r.id === b);
    assert.equal(row?.status, "connected", JSON.stringify(row));

    const before = world.b.sshd?.logins ?? 0;
    assert.equal((await ask("--reconnect", b)).find((r) => r.id === b)?.status, "connected");
    assert.equal(world.b.sshd?.logins, before + 1, "one new login, and none by the command itself");

    const added = { ...world.catalog[0]!, id: "c".repeat(32), label: "added", enabled: false };
    world.a.writeCatalog([...world.catalog, added]);
    assert.equal((await ask()).some((r) => r.id === added.id), false);
    assert.equal((await ask("--refresh")).find((r) => r.id === added.id)?.status, "disabled");

    const unknown = await shepherdr(world, ["machines", "--session", id, "--reconnect", "f".repeat(32)]);
    assert.equal(unknown.code, 2, unknown.stderr);
    assert.match(unknown.stderr, /machine_unknown/);
    const nobody = await shepherdr(world, ["machines", "--session", "nobody"]);
    assert.equal(nobody.code, 1);
    assert.match(nobody.stderr, /receiver_missing/);
});
