/*
 * I1 to I8, I14: the helper on homes, disks, limits and tools as they are found.
 */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as net from "node:net";
import * as path from "node:path";
import { once } from "node:events";
import { execFileSync, spawnSync } from "node:child_process";
import { test, type TestContext } from "node:test";
import { accountMissing } from "../support/account.ts";
import { connectMissing } from "../support/connect.ts";
import {
    assertFailed,
    InstallLab,
    mountMissing,
    otherProgram,
    SilentHerdr,
    TOOLS,
    TOOLS_WITHOUT_HASH,
} from "../support/install.ts";
import { atExit, run, until } from "../support/process.ts";

const skip = connectMissing() ?? accountMissing() ?? false;
const skipMount = skip || (mountMissing() ?? false);

/* ---- I1 to I3: the home ---- */

test("I1: a noexec home is named, and helperDir helps", { skip: skipMount }, async (t) => {
    const lab = await InstallLab.create(t);
    lab.tmpfs("noexec,size=4m");
    await lab.fails("install_noexec", /ermission denied/);
    assert.deepEqual(lab.files(), []);
    const chosen = `${lab.account.home}-helpers`;
    fs.mkdirSync(chosen, { mode: 0o755 });
    t.after(() => fs.rmSync(chosen, { recursive: true, force: true }));
    fs.chownSync(chosen, lab.account.uid, lab.account.gid);
    lab.rig.settings({ helperDir: { [lab.rig.id("m")]: chosen } });
    await lab.connects();
    assert.equal(lab.files(chosen).length, 1);
    assert.deepEqual(lab.files(), []);
});

test("I2: a read-only home is named; writable again, it connects", { skip: skipMount }, async (t) => {
    const lab = await InstallLab.create(t);
    lab.tmpfs("ro,size=4m");
    await lab.fails("install_read_only", /ead-only/);
    lab.remount("rw");
    await lab.connects();
    /* What is there is used, writable or not. */
    lab.remount("ro");
    await lab.connects();
});

/** A login shell that changes its environment and goes on as the system's. */
function shellScript(t: TestContext, name: string, text: string): string {
    const file = `/tmp/shp-shell-${process.pid}-${name}`;
    fs.writeFileSync(file, `#!/bin/sh\n${text}\nexec /bin/sh "$@"\n`, { mode: 0o755 });
    t.after(() => fs.rmSync(file, { force: true }));
    return file;
}

test("I3: no HOME, or one that is no directory, is named", { skip }, async (t) => {
    const shell = shellScript(t, "unset", "unset HOME");
    const lab = await InstallLab.create(t, { shell, names: [] });
    lab.add("unset", lab.sshd);
    lab.add("absent", await lab.rig.sshd({ home: "/nonexistent/home" }));
    lab.add("relative", await lab.rig.sshd({ home: "home" }));
    lab.add("file", await lab.rig.sshd({ home: "/etc/passwd" }));
    const rows = await lab.rig.machines();
    assertFailed(rows.get("unset")!, "home_missing", /HOME/);
    /* The shell of the account takes HOME away from all of them. */
    fs.writeFileSync(shell, '#!/bin/sh\nexec /bin/sh "$@"\n');
    const again = await lab.rig.machines();
    assert.equal(again.get("unset")!.status, "connected");
    assertFailed(again.get("absent")!, "home_missing", /\/nonexistent\/home/);
    assertFailed(again.get("relative")!, "home_missing", /home/);
    assertFailed(again.get("file")!, "home_missing", /\/etc\/passwd/);
});

test("I3: a HOME elsewhere and a home that is a link work; a link at our directory does not", { skip }, async (t) => {
    const lab = await InstallLab.create(t, { names: [] });
    const { account, rig } = lab;
    const elsewhere = path.join(account.home, "elsewhere");
    account.write("elsewhere/.keep", "");
    account.write("real/.keep", "");
    account.write("trap/.pi/agent/shepherdr/.keep", "");
    fs.symlinkSync("real", path.join(account.home, "link"));
    account.write("target/.keep", "");
    fs.symlinkSync(path.join(account.home, "target"), path.join(account.home, "trap/.pi/agent/shepherdr/bin"));
    lab.add("elsewhere", await rig.sshd({ home: elsewhere }));
    lab.add("link", await rig.sshd({ home: path.join(account.home, "link") }));
    lab.add("trap", await rig.sshd({ home: path.join(account.home, "trap") }));
    const rows = await rig.machines();
    assert.equal(rows.get("elsewhere")!.status, "connected");
    assert.equal(rows.get("link")!.status, "connected");
    assertFailed(rows.get("trap")!, "install_foreign_file", /a link/);
    assert.equal(lab.files(path.join(elsewhere, ".pi/agent/shepherdr/bin")).length, 1);
    assert.equal(lab.files(path.join(account.home, "real/.pi/agent/shepherdr/bin")).length, 1);
    assert.deepEqual(lab.files(path.join(account.home, "target")), [".keep"]);
});

/* ---- I4: no space ---- */

test("I4: a full disk is named, leaves nothing, and connects with space", { skip: skipMount }, async (t) => {
    const lab = await InstallLab.create(t);
    lab.tmpfs("size=96k");
    await lab.fails("install_no_space", /No space left/);
    assert.deepEqual(lab.files(), []);
    lab.remount("size=4m");
    await lab.connects();
});

test("I4: no free inodes are named, and connects with some", { skip: skipMount }, async (t) => {
    const lab = await InstallLab.create(t);
    /* The root, .pi, agent, shepherdr, bin, and none for the helper. */
    lab.tmpfs("size=4m,nr_inodes=5");
    await lab.fails("install_no_space", /No space left/);
    assert.deepEqual(lab.files(), []);
    fs.rmSync(path.join(lab.account.home, ".pi"), { recursive: true });
    lab.remount("nr_inodes=4"); /* none for a directory */
    await lab.fails("install_no_space", /No space left/);
    lab.remount("nr_inodes=50");
    await lab.connects();
});

/** Why there is no quota to test with, or undefined. */
function quotaMissing(): string | undefined {
    if (!fs.existsSync("/usr/sbin/mkfs.btrfs")) return "/usr/sbin/mkfs.btrfs is not installed (btrfs-progs)";
    const probe = spawnSync("/usr/sbin/losetup", ["-f"], { encoding: "utf8" });
    if (probe.status !== 0) return `no loop device: ${probe.stderr}`;
    spawnSync("/usr/sbin/modprobe", ["btrfs"]);
    return /\bbtrfs$/m.test(fs.readFileSync("/proc/filesystems", "utf8")) ? undefined : "the kernel has no btrfs";
}

test("I4: an exhausted quota is named, leaves nothing, and connects with more", { skip: skipMount || (quotaMissing() ?? false) }, async (t) => {
    const lab = await InstallLab.create(t);
    const { account } = lab;
    const env = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" };
    const image = path.join(lab.rig.dir, "image");
    fs.writeFileSync(image, "");
    fs.truncateSync(image, 128 << 20);
    execFileSync("/usr/sbin/mkfs.btrfs", ["-q", image], { env });
    lab.mount("btrfs", account.home, "loop", image);
    fs.chownSync(account.home, account.uid, account.gid);
    const btrfs = (...args: string[]): Buffer => execFileSync("/usr/bin/btrfs", args, { env, stdio: "pipe" });
    btrfs("quota", "enable", account.home);
    btrfs("qgroup", "limit", "128K", account.home);
    await lab.fails("install_no_space", /quota/i);
    assert.deepEqual(lab.files(), []);
    btrfs("qgroup", "limit", "none", account.home);
    await lab.connects();
});

test("I4: a file-size limit that ends the upload is named, leaves nothing, and connects without", { skip }, async (t) => {
    for (const shell of ["/bin/bash", "/bin/sh"]) {
        const lab = await InstallLab.create(t, { shell: shellScript(t, path.basename(shell), `ulimit -f 64\nexec ${shell} "$@"`) });
        await lab.fails("install_no_space", /too large|limit/i);
        assert.deepEqual(lab.files(), []);
        fs.writeFileSync(lab.account.shell, `#!/bin/sh\nexec ${shell} "$@"\n`);
        await lab.connects();
    }
});

test("I4: a full disk is named whatever language the machine speaks, which the helper keeps", { skip }, async (t) => {
    const lab = await InstallLab.create(t, { names: [] });
    const full = path.join(lab.rig.dir, "full");
    fs.writeFileSync(full, "");
    const head = [
        `[ -e ${full} ] || exec /usr/bin/head "$@"`,
        "text='Auf dem Gerät ist kein Speicherplatz mehr verfügbar'",
        '[ "$LC_ALL" = C ] && text="No space left on device"',
        'echo "head: $text" >&2',
        "exit 1",
    ].join("\n");
    lab.add("m", await lab.rig.sshd({ path: lab.tools("german", TOOLS, { head }), setEnv: { LC_ALL: "de_DE.UTF-8" } }));
    await lab.fails("install_no_space", /No space left/);
    assert.deepEqual(lab.files(), []);
    fs.rmSync(full);
    const herdr = await SilentHerdr.listen(t, lab.account);
    const controller = lab.begin();
    await until(() => herdr.calls === 1, { what: "the helper's request" });
    const [pid] = (await lab.account.processes()).filter((p) => fs.readlinkSync(`/proc/${p}/exe`) === lab.helper());
    assert.match(fs.readFileSync(`/proc/${pid}/environ`, "latin1"), /(^|\0)LC_ALL=de_DE\.UTF-8\0/);
    herdr.answer();
    for (const row of await lab.rows(controller))
        if (row["local"] !== true) assert.equal(row.status, "connected", JSON.stringify(row));
});

/* ---- I5: umask ---- */

for (const umask of ["000", "077", "0777"]) {
    test(`I5: a umask of ${umask} does not show in what we make`, { skip }, async (t) => {
        const lab = await InstallLab.create(t);
        lab.account.write(".bashrc", `umask ${umask}\n`);
        await lab.connects();
        await lab.connects();
        assert.equal(fs.statSync(lab.helper()).mode & 0o7777, 0o700);
        assert.equal(fs.statSync(lab.bin).mode & 0o7777, 0o700);
    });
}

/* ---- I6: uname ---- */

test("I6: a uname that names another system is believed before the upload", { skip }, async (t) => {
    const lab = await InstallLab.create(t, { names: [] });
    const liars: Record<string, string> = { other: "Linux riscv64", empty: "", noisy: "warning\\nLinux armv7l" };
    for (const [name, says] of Object.entries(liars)) {
        const tools = lab.tools(name, TOOLS, { uname: `printf '${says}\\n'` });
        lab.add(name, await lab.rig.sshd({ path: tools }));
    }
    const rows = await lab.rig.machines();
    assertFailed(rows.get("other")!, "arch_unsupported", /Linux riscv64/);
    assertFailed(rows.get("noisy")!, "arch_unsupported", /warning/);
    /* Nothing said is as no uname: the system of the controller is tried. */
    assert.equal(rows.get("empty")!.status, "connected");
});

test("I6: without uname the system of the controller is tried", { skip }, async (t) => {
    const lab = await InstallLab.create(t, { names: [] });
    const tools = lab.tools("tools", TOOLS.filter((tool) => tool !== "uname"));
    lab.add("m", await lab.rig.sshd({ path: tools }));
    await lab.connects();
});

test("I6: a helper of another architecture proves nothing, and is not left there", { skip }, async (t) => {
    const lab = await InstallLab.create(t);
    const foreign = otherProgram(path.join(lab.rig.dir, "foreign"), (helper) => {
        helper.writeUInt16LE(0xbeef, 18); /* e_machine */
        return helper;
    });
    const rows = await lab.rows(lab.begin(foreign));
    assertFailed(rows.find((row) => row.label === "m")!, "arch_unsupported");
    assert.deepEqual(lab.files(), []);
});

/* ---- I7, I8: what the server and the system do not have ---- */

test("I7: neither sftp nor a second session is needed", { skip }, async (t) => {
    const lab = await InstallLab.create(t, { sshd: { extraConfig: ["MaxSessions 1"] } });
    const sftp = await run("/usr/bin/sftp", ["-b", "/dev/null", "-F", lab.rig.client.configFile, "m"], { env: {} });
    assert.notEqual(sftp.code, 0, "this sshd has sftp");
    await lab.connects();
    await lab.connects();
});

/** Connections that wait before their login, until the test lets them go. */
async function unfinishedLogins(t: TestContext, port: number, count: number): Promise<() => void> {
    const sockets: net.Socket[] = [];
    const end = (): void => sockets.forEach((socket) => socket.destroy());
    t.after(end);
    for (let i = 0; i < count; i++) {
        const socket = net.connect(port, "127.0.0.1");
        sockets.push(socket);
        await once(socket, "data"); /* the server's greeting: it counts */
    }
    return end;
}

test("I7: a start that MaxStartups 2 refuses is named, and works when there is room", { skip }, async (t) => {
    const names = ["m1", "m2", "m3", "m4", "m5", "m6"];
    const lab = await InstallLab.create(t, { names, sshd: { lastConfig: ["MaxStartups 2:100:2"] } });
    const release = await unfinishedLogins(t, lab.sshd.port, 2);
    for (const [name, row] of await lab.rig.machines())
        if (names.includes(name)) assertFailed(row, "connect_failed", /clos|reset|exceeded|disconnect/i);
    release();
    /* All at once, some of them refused again, each in the end connected. */
    const left = new Set(names);
    for (let round = 0; left.size > 0; round++) {
        assert.ok(round < 30, `never connected: ${[...left].join(" ")}`);
        for (const [name, row] of await lab.rig.machines()) {
            if (row.status === "connected") left.delete(name);
            else if (names.includes(name)) assertFailed(row, "connect_failed", /clos|reset|exceeded|disconnect/i);
        }
    }
    assert.equal(lab.files().length, 1);
});

test("I8: a PATH of exactly five tools is enough", { skip }, async (t) => {
    const lab = await InstallLab.create(t, { names: [] });
    const tools = lab.tools("tools", ["sh", "head", "mkdir", "chmod", "mv"]);
    lab.add("m", await lab.rig.sshd({ path: tools }));
    await lab.connects();
    await lab.connects();
    assert.equal(fs.statSync(lab.helper()).mode & 0o7777, 0o700);
});

/* ---- I14: limits, no /proc ---- */

test("I14: 32 open files are enough", { skip }, async (t) => {
    const lab = await InstallLab.create(t);
    lab.account.write(".bashrc", "ulimit -n 32\n");
    await lab.connects();
    await lab.connects();
});

/* Fewer than sh needs, or than the login shell itself. */
const limits: Record<string, string> = {
    "no process": "--nproc=1",
    "too few processes for the upload": "--nproc=3",
    "no open file": "--nofile=3",
    "too few open files": "--nofile=5",
    "no memory to map": "--as=2000000",
};

for (const [what, limit] of Object.entries(limits)) {
    test(`I14: ${what} is named`, { skip }, async (t) => {
        for (const shell of ["/bin/bash", "/bin/busybox sh"]) {
            const file = shellScript(t, "limited", `exec /usr/bin/prlimit ${limit} ${shell} "$@"`);
            const lab = await InstallLab.create(t, { shell: file });
            await lab.fails("shell_limits");
            assert.deepEqual(lab.files(), []);
            fs.writeFileSync(file, `#!/bin/sh\nexec ${shell} "$@"\n`);
            await lab.connects();
        }
    });
}

test("I14: too few open files for the helper alone are named", { skip }, async (t) => {
    const shell = shellScript(t, "limited", 'exec /usr/bin/prlimit --nofile=8 /bin/sh "$@"');
    const lab = await InstallLab.create(t, { shell, names: [] });
    /* dash needs more than the helper, bash less. */
    const tools = lab.tools("bash", TOOLS.filter((tool) => tool !== "sh"));
    fs.symlinkSync("/bin/bash", path.join(tools, "sh"));
    lab.add("m", await lab.rig.sshd({ path: tools }));
    await lab.fails("shell_limits", /event loop/);
    fs.writeFileSync(shell, '#!/bin/sh\nexec /bin/sh "$@"\n');
    await lab.connects();
});

/** A root directory with the system's programs, read-only, and neither /proc nor /sys nor temporary files. */
function jail(t: TestContext, lab: InstallLab): string {
    const root = fs.mkdtempSync("/run/shp-jail-");
    const forget = atExit(() => fs.rmdirSync(root));
    t.after(() => {
        fs.rmdirSync(root); /* after the lab took its mounts away */
        forget();
    });
    lab.mount("tmpfs", root, "mode=0755,size=1m");
    for (const dir of ["bin", "sbin", "lib", "lib64", "usr", "etc", "dev"]) {
        const from = path.join("/", dir);
        const to = path.join(root, dir);
        if (!fs.existsSync(from)) continue;
        if (fs.lstatSync(from).isSymbolicLink()) fs.symlinkSync(fs.readlinkSync(from), to);
        else lab.mount("none", to, "bind,ro", from);
    }
    const home = path.join(root, lab.account.home);
    lab.mount("none", home, "bind", lab.account.home);
    return root;
}

test("I14: a machine without /proc works", { skip: skipMount }, async (t) => {
    const lab = await InstallLab.create(t, { names: [] });
    const root = jail(t, lab);
    assert.deepEqual(fs.existsSync(path.join(root, "proc")), false);
    lab.add("m", await lab.rig.sshd({ extraConfig: [`ChrootDirectory ${root}`] }));
    await lab.connects();
    await lab.connects();
    /* The helper finds its own file by the path it was started with. */
    const bare = path.join(root, lab.account.home, "bare");
    fs.mkdirSync(bare);
    for (const tool of TOOLS_WITHOUT_HASH) fs.symlinkSync(`/usr/bin/${tool}`, path.join(bare, tool));
    lab.add("bare", await lab.rig.sshd({ extraConfig: [`ChrootDirectory ${root}`], path: path.join(lab.account.home, "bare") }));
    await lab.connects("bare");
    assert.equal(lab.files().length, 1);
});
