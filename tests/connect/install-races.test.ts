/*
 * I9 to I13, I15: helpers that are written, replaced and run at the same time, bytes that go wrong
 * on their way, and strangers at the helper's place.
 */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { accountMissing } from "../support/account.ts";
import { connectMissing } from "../support/connect.ts";
import {
    assertFailed,
    buildId,
    InstallLab,
    otherBuild,
    otherProgram,
    ourHelper,
    SilentHerdr,
    TOOLS,
    TOOLS_WITHOUT_HASH,
} from "../support/install.ts";
import { LONG_MS, until } from "../support/process.ts";

const skip = connectMissing() ?? accountMissing() ?? false;
const soak = process.env["SHP_SOAK"] === "1";

/** A head that takes some of its bytes, and the rest when the gate is there. */
function gatedHead(lab: InstallLab, gate: string): string {
    return lab.tools("gated", TOOLS, {
        head: [
            "/usr/bin/head -c 100000",
            `while [ ! -e ${gate} ]; do sleep 0.1; done`,
            'exec /usr/bin/head -c "$(($2 - 100000))"',
        ].join("\n"),
    });
}

const temporary = (name: string): boolean => name.startsWith(".tmp-");

async function uploadsBegan(lab: InstallLab, count: number): Promise<void> {
    const begun = (): number =>
        lab.files().filter((name) => temporary(name) && fs.statSync(path.join(lab.bin, name)).size >= 100000).length;
    await until(() => begun() === count, { what: `${count} uploads`, deadlineMs: LONG_MS, dump: () => lab.files().join(" ") });
}

async function noProcesses(lab: InstallLab): Promise<void> {
    await until(async () => (await lab.account.processes()).length === 0, { what: "the end of the account's processes" });
}

function isOurHelper(file: string): boolean {
    return fs.readFileSync(file).equals(fs.readFileSync(ourHelper));
}

/* ---- I9 ---- */

const together = 20;

test(`I9: of ${together} controllers at once half is killed within the upload; one good file is left`, { skip }, async (t) => {
    const lab = await InstallLab.create(t, { names: [] });
    const gate = path.join(lab.rig.dir, "gate");
    lab.add("m", await lab.rig.sshd({ path: gatedHead(lab, gate) }));
    const controllers = Array.from({ length: together }, () => lab.begin());
    await uploadsBegan(lab, together);
    const killed = controllers.filter((_, i) => i % 2 === 0);
    for (const controller of killed) controller.kill("SIGKILL");
    for (const controller of killed) await controller.exited;
    fs.writeFileSync(gate, "");
    for (const controller of controllers.filter((c) => !killed.includes(c))) {
        const row = (await lab.rows(controller)).find((r) => r.label === "m")!;
        assert.equal(row.status, "connected", JSON.stringify(row));
    }
    await noProcesses(lab);
    assert.ok(isOurHelper(lab.helper()));
});

test("I9: what a killed upload leaves is swept when it is an hour old", { skip }, async (t) => {
    const lab = await InstallLab.create(t, { names: [] });
    const gate = path.join(lab.rig.dir, "gate");
    lab.add("m", await lab.rig.sshd({ path: gatedHead(lab, gate) }));
    const controllers = [lab.begin(), lab.begin()];
    await uploadsBegan(lab, 2);
    for (const pid of await lab.account.processes()) process.kill(pid, "SIGKILL");
    for (const controller of controllers) await controller.exited;
    await noProcesses(lab);
    fs.writeFileSync(gate, "");
    const left = lab.files().filter(temporary);
    assert.equal(left.length, 2, lab.files().join(" "));
    lab.add("plain", lab.sshd);
    const twoHoursAgo = new Date(Date.now() - 7_200_000);
    fs.utimesSync(path.join(lab.bin, left[0]!), twoHoursAgo, twoHoursAgo);
    await lab.connects("plain");
    /* The other may still be written to. */
    assert.deepEqual(lab.files().filter(temporary), [left[1]]);
});

/* ---- I10 ---- */

/** Programs of the account that are helpers, by the path that they were started from. */
async function runningHelpers(lab: InstallLab): Promise<string[]> {
    const pids = await lab.account.processes();
    return pids.map((pid) => fs.readlinkSync(`/proc/${pid}/exe`)).filter((exe) => exe.includes("/helper-linux-"));
}

test("I10: a running helper goes on while its file is damaged and replaced", { skip }, async (t) => {
    const lab = await InstallLab.create(t);
    await lab.connects();
    const helper = lab.helper();
    const herdr = await SilentHerdr.listen(t, lab.account);
    const first = lab.begin();
    await until(() => herdr.calls === 1, { what: "the first helper's request" });
    const bytes = fs.readFileSync(helper);
    bytes[bytes.length >> 1]! ^= 1;
    lab.account.write("damaged", "", 0o700);
    fs.writeFileSync(path.join(lab.account.home, "damaged"), bytes);
    fs.renameSync(path.join(lab.account.home, "damaged"), helper);
    const second = lab.begin();
    await until(() => herdr.calls === 2, { what: "the second helper's request" });
    assert.ok(isOurHelper(helper));
    const running = (await runningHelpers(lab)).sort();
    assert.deepEqual(running, [helper, `${helper} (deleted)`]);
    herdr.answer();
    for (const controller of [first, second]) {
        const row = (await lab.rows(controller)).find((r) => r.label === "m")!;
        assert.match(String(row["snapshotError"]), /answered late/, JSON.stringify(row));
        assert.equal(row.status, "connected");
    }
});

/* ---- I11 ---- */

const flipAt = 150_000;
const flipped = (fs.existsSync(ourHelper) ? fs.readFileSync(ourHelper)[flipAt]! : 0) ^ 1;

const damages: Record<string, string> = {
    "short upload": 'exec /usr/bin/head -c "$(($2 - 1))"',
    "flipped byte": [
        `/usr/bin/head -c ${flipAt}`,
        "/usr/bin/head -c 1 >/dev/null",
        `printf '\\${flipped.toString(8).padStart(3, "0")}'`,
        `exec /usr/bin/head -c "$(($2 - ${flipAt + 1}))"`,
    ].join("\n"),
};

for (const [name, head] of Object.entries(damages)) {
    test(`I11: a ${name} is not installed, with and without a hash program`, { skip }, async (t) => {
        const lab = await InstallLab.create(t, { names: [] });
        for (const [label, tools] of Object.entries({ hash: TOOLS, bare: TOOLS_WITHOUT_HASH }))
            lab.add(label, await lab.rig.sshd({ path: lab.tools(label, tools, { head }) }));
        const rows = await lab.rig.machines();
        assertFailed(rows.get("hash")!, "install_corrupt");
        assertFailed(rows.get("bare")!, "install_corrupt");
        assert.deepEqual(lab.files(), []);
        lab.add("plain", lab.sshd);
        await lab.connects("plain");
        assert.ok(isOurHelper(lab.helper()));
    });
}

/* ---- I12 ---- */

test("I12: a stranger at our path is named, and stays as it is", { skip }, async (t) => {
    const lab = await InstallLab.create(t);
    const { account } = lab;
    await lab.connects();
    const file = lab.helper();
    const good = path.join(account.home, "good");
    fs.renameSync(file, good);
    account.write("victim", "precious");
    const victim = path.join(account.home, "victim");
    const strangers: Record<string, () => void> = {
        directory: () => fs.mkdirSync(file),
        FIFO: () => execFileSync("/usr/bin/mkfifo", [file]),
        "dangling link": () => fs.symlinkSync("/nonexistent", file),
        "link to a precious file": () => fs.symlinkSync(victim, file),
        "link to a good helper": () => fs.symlinkSync(good, file),
        "file of another owner": () => {
            fs.copyFileSync(good, file);
            fs.chownSync(file, 12345, 12345);
        },
    };
    for (const [what, make] of Object.entries(strangers)) {
        make();
        const before = fs.lstatSync(file);
        await lab.fails("install_foreign_file", new RegExp(path.basename(file)));
        const after = fs.lstatSync(file);
        assert.deepEqual([after.ino, after.mode, after.uid, after.size], [before.ino, before.mode, before.uid, before.size], what);
        assert.deepEqual(lab.files(), [path.basename(file)], what);
        assert.equal(fs.readFileSync(victim, "utf8"), "precious", what);
        fs.rmSync(file, { recursive: true });
    }
    fs.chownSync(lab.bin, 12345, 12345);
    await lab.fails("install_foreign_file", /shepherdr\/bin/);
    fs.chownSync(lab.bin, account.uid, account.gid);
    await lab.connects();
});

/** At the path of the helper, with the account as its owner. */
function place(lab: InstallLab, file: string, content: Buffer | string, mode = 0o700): void {
    fs.rmSync(file, { force: true });
    fs.writeFileSync(file, content);
    fs.chownSync(file, lab.account.uid, lab.account.gid);
    fs.chmodSync(file, mode);
}

test("I12: a file of ours with other bytes or a set-id bit is replaced, and never run", { skip }, async (t) => {
    const lab = await InstallLab.create(t);
    await lab.connects();
    const file = lab.helper();
    const good = fs.readFileSync(file);
    const ran = path.join(lab.account.home, "ran");
    const script = `#!/bin/sh\n: >${ran}\nprintf '\\n@@SHP1 %s READY ${buildId()}\\n' "$2"\nsleep 600\n`;
    const impostors: Array<[string, Buffer | string, number]> = [
        ["right size, wrong content", Buffer.alloc(good.length, "#"), 0o700],
        ["greets and sleeps", script, 0o700],
        ["set-uid", good, 0o4700],
        ["set-gid", good, 0o2700],
    ];
    for (const [what, content, mode] of impostors) {
        place(lab, file, content, mode);
        await lab.connects();
        assert.equal(lab.helper(), file, what);
        assert.ok(isOurHelper(file), what);
        assert.equal(fs.statSync(file).mode & 0o7777, 0o700, what);
        assert.ok(!fs.existsSync(ran), `${what}: it was run`);
    }
});

/* Without a hash program a file can only be asked. */
const liars: Record<string, [string, string, RegExp]> = {
    "that greets and sleeps": ["", "helper_silent", /handshake/],
    ...(soak && {
        "that sleeps when it is asked for its digest": ['[ "$1" = serve ] || sleep 600', "install_foreign_file", /helper-linux/],
    }),
};

for (const [what, [first, code, cause]] of Object.entries(liars)) {
    test(`I12: where nothing computes a digest, a program ${what} ends in an error in time`, { skip }, async (t) => {
        const lab = await InstallLab.create(t, { names: [] });
        lab.add("bare", await lab.rig.sshd({ path: lab.tools("bare", TOOLS_WITHOUT_HASH) }));
        await lab.connects("bare");
        const greet = `[ "$1" = serve ] || exit 0\nprintf '\\n@@SHP1 %s READY ${buildId()}\\n' "$2"\nsleep 600`;
        place(lab, lab.helper(), `#!/bin/sh\n${first}\n${greet}\n`);
        await lab.fails(code, cause, "bare");
    });
}

/* ---- I13 ---- */

test("I13: two architectures use one home at the same time", { skip }, async (t) => {
    const lab = await InstallLab.create(t);
    const arm = lab.tools("arm", TOOLS, { uname: "echo Linux aarch64" });
    lab.add("arm", await lab.rig.sshd({ path: arm }));
    const program = otherProgram(path.join(lab.rig.dir, "two"));
    /* It runs here; only its name and digest are another architecture's. */
    const bytes = Buffer.concat([fs.readFileSync(ourHelper), Buffer.from("\n")]);
    fs.writeFileSync(path.join(lab.rig.dir, "two", "helper-linux-aarch64"), bytes, { mode: 0o755 });
    const herdr = await SilentHerdr.listen(t, lab.account);
    const both = lab.begin(program);
    await until(() => herdr.calls === 2, { what: "requests of both helpers" });
    const running = (await runningHelpers(lab)).map((exe) => path.basename(exe)).sort();
    assert.deepEqual(running, lab.files());
    assert.match(running.join(" "), /^helper-linux-aarch64-[0-9a-f]{32} helper-linux-x86_64-[0-9a-f]{32}$/);
    herdr.answer();
    for (const row of await lab.rows(both))
        if (row["local"] !== true) assert.equal(row.status, "connected", JSON.stringify(row));
});

/* ---- I15 ---- */

test("I15: an upgrade and a downgrade leave a request in flight alone", { skip }, async (t) => {
    const lab = await InstallLab.create(t);
    const newer = otherBuild(path.join(lab.rig.dir, "newer"));
    await lab.connects();
    const ours = fs.statSync(lab.helper());
    const herdr = await SilentHerdr.listen(t, lab.account);
    const controllers = [];
    for (const program of [undefined, newer, undefined]) {
        controllers.push(lab.begin(program));
        await until(() => herdr.calls === controllers.length, { what: `request ${controllers.length}` });
    }
    const files = lab.files();
    assert.equal(files.length, 2, files.join(" "));
    /* Back to what is there: nothing is written. */
    assert.ok(files.some((name) => fs.statSync(path.join(lab.bin, name)).ino === ours.ino));
    assert.equal((await runningHelpers(lab)).length, 3);
    herdr.answer();
    for (const controller of controllers) {
        const row = (await lab.rows(controller)).find((r) => r.label === "m")!;
        assert.match(String(row["snapshotError"]), /answered late/, JSON.stringify(row));
    }
});

const upgrades = soak ? 30 : 6;

test(`I15: ${upgrades} upgrades keep the four newest helpers`, { skip }, async (t) => {
    const lab = await InstallLab.create(t);
    const made: string[] = [];
    for (let i = 0; i < upgrades; i++) {
        const dir = path.join(lab.rig.dir, `build${i}`);
        await lab.connectsWith(otherBuild(dir));
        fs.rmSync(dir, { recursive: true });
        const fresh = lab.files().filter((name) => !made.includes(name));
        assert.equal(fresh.length, 1, lab.files().join(" "));
        made.push(fresh[0]!);
        assert.deepEqual(lab.files(), made.slice(-4).sort());
    }
});
