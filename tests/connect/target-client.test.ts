/*
 * T11 to T14: what the ssh client at hand can do, or that there is none, and connections that it
 * shares.
 */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { test, type TestContext } from "node:test";
import { Account, accountMissing } from "../support/account.ts";
import { ConnectRig, connectMissing } from "../support/connect.ts";
import { alive, LONG_MS, must, repoRoot, run, start, until, type Child } from "../support/process.ts";
import type { Sshd } from "../support/sshd.ts";
import { shepherdrBin } from "../support/world.ts";
import {
    addKinds, assertAllConnected, assertAllFailed, EITHER, OPENSSH, rowsOf, staleSocket,
} from "./target.ts";

const skip = connectMissing() ?? false;
const skipAccount = skip || (accountMissing() ?? false);
const tools = { PATH: "/usr/bin:/bin" };

async function sshdOf(rig: ConnectRig, extraConfig: string[] = []): Promise<Sshd> {
    return rig.sshd({ home: rig.remoteHome(), extraConfig });
}

/* ---- T11 ---------------------------------------------------------------------------------- */

const POST_QUANTUM = "sntrup761x25519-sha512@openssh.com";

test("T11: a server with post-quantum key exchange only", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig, [`KexAlgorithms ${POST_QUANTUM}`]);
    const works = addKinds(rig, { name: "pq", sshd }, OPENSSH);
    const alone = addKinds(rig, { name: "alone", sshd }, { libssh: "libssh" });
    const rows = await rig.machines();
    assertAllConnected(rows, works, /key exchange/);
    for (const row of rowsOf(rows, works)) assert.equal(row.kex, POST_QUANTUM);
    assertAllFailed(rows, alone, "kex_unsupported", /key exchange|kex/);
});

/* ---- T12 ---------------------------------------------------------------------------------- */

/** The old client, fetched once; or why there is none. */
async function oldClient(): Promise<{ ssh: string } | { missing: string }> {
    const fetched = await run("/bin/sh", [path.join(import.meta.dirname, "old-ssh")], {
        env: { ...tools, HOME: process.env["HOME"] ?? "/" },
        deadlineMs: 6 * LONG_MS,
    });
    if (fetched.code !== 0) return { missing: fetched.stderr.trim() || "it cannot be fetched" };
    return { ssh: path.join(repoRoot, ".deps", "old-ssh", "ssh") };
}

test("T12: an ssh client that lacks options of ours", { skip }, async (t) => {
    const old = await oldClient();
    if ("missing" in old) {
        t.skip(old.missing);
        return;
    }
    const rig = ConnectRig.create(t);
    const script = path.join(rig.client.bin, "ssh");
    fs.writeFileSync(script, fs.readFileSync(script, "utf8").replace("/usr/bin/ssh", old.ssh));
    /* The options are not just unknown to the program: it refuses them. */
    const refused = await run(script, ["-G", "-oStdinNull=no", "x"], { env: tools });
    assert.match(refused.stderr, /Bad configuration option/);
    const sshd = await sshdOf(rig);
    /* A client of that age checks the host's address by itself, which only ssh can do. */
    const checking = addKinds(rig, { name: "old", sshd }, OPENSSH);
    const plain = addKinds(rig, { name: "plain", sshd, client: ["CheckHostIP no"] }, EITHER);
    const rows = await rig.machines();
    assertAllConnected(rows, checking, /CheckHostIP/);
    assertAllConnected(rows, plain);
});

/* ---- T13 ---------------------------------------------------------------------------------- */

/** PATH with what a login and the catalog need, and no ssh. */
function pathWithoutSsh(rig: ConnectRig): string {
    const bin = path.join(rig.dir, "few");
    fs.mkdirSync(bin);
    for (const name of ["sh", "cat", "head", "mkdir", "chmod", "mv", "rm", "uname", "sha256sum"])
        fs.symlinkSync(path.join("/usr/bin", name), path.join(bin, name));
    return bin;
}

/** The program as an account runs it, from its own home; output of `machines --json`. */
async function machinesAs(rig: ConnectRig, account: Account, env: Record<string, string>): Promise<string> {
    const bin = path.join(rig.dir, "bin");
    if (!fs.existsSync(bin)) {
        /* Where the account may read it, whatever the repository's folder allows. */
        const built = path.dirname(shepherdrBin);
        fs.mkdirSync(bin);
        for (const name of fs.readdirSync(built).filter((name) => name.startsWith("shepherdr")))
            fs.copyFileSync(path.join(built, name), path.join(bin, name));
    }
    const agentDir = path.join(account.home, ".pi", "agent");
    fs.mkdirSync(agentDir, { recursive: true });
    const settings = path.join(rig.home, ".pi", "agent", "pi-shepherdr.json");
    if (fs.existsSync(settings)) fs.copyFileSync(settings, path.join(agentDir, "pi-shepherdr.json"));
    for (const dir of [agentDir, path.dirname(agentDir)]) fs.chownSync(dir, account.uid, account.gid);
    const who = ["--reuid", String(account.uid), "--regid", String(account.gid), "--clear-groups"];
    const { stdout } = await must("/usr/bin/setpriv", [...who, path.join(bin, "shepherdr"), "machines", "--json"], {
        env: { ...rig.env(), HOME: account.home, ...env },
        cwd: account.home,
        deadlineMs: 2 * LONG_MS,
    });
    return stdout;
}

test("T13: without an ssh client libssh connects alone", { skip: skipAccount }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig);
    const account = await Account.create();
    t.after(() => account.remove());
    account.write(".ssh/id_ed25519", fs.readFileSync(sshd.userKey, "utf8"), 0o600);
    account.write(".ssh/known_hosts", `${sshd.knownHostsLine}\n`);
    const target = `ssh://${sshd.user}@127.0.0.1:${sshd.port}`;
    const alone = addKinds(rig, { name: "alone", target }, { auto: "libssh", libssh: "libssh" });
    const asked = addKinds(rig, { name: "asked", target }, { openssh: "openssh" });
    const rows = rig.rows(await machinesAs(rig, account, { PATH: pathWithoutSsh(rig) }));
    assertAllConnected(rows, alone, /no ssh/);
    assertAllFailed(rows, asked, "ssh_missing");
});

/* ---- T14 ---------------------------------------------------------------------------------- */

/** A connection of the user's own that others may share; waits until it is up. */
async function master(t: TestContext, rig: ConnectRig, alias: string, socket: string, sshd: Sshd): Promise<Child> {
    const args = ["-F", rig.client.configFile, "-M", "-N", "-S", socket, alias];
    const child = start("/usr/bin/ssh", args, { env: tools });
    t.after(async () => {
        child.kill("SIGCONT");
        await child.stop("SIGKILL");
    });
    await until(() => child.ended || fs.existsSync(socket), { what: "the shared connection", dump: () => child.stderr + sshd.log });
    assert.equal(child.ended, false, child.stderr);
    return child;
}

test("T14: a live shared connection is used, and stays", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig);
    const socket = path.join(rig.dir, "shared");
    const shared = addKinds(rig, { name: "shared", sshd, client: [`ControlPath ${socket}`] }, OPENSSH);
    const child = await master(t, rig, "shared-auto", socket, sshd);
    assertAllConnected(await rig.machines(), shared, /shared connection|ControlPath/);
    assert.equal(sshd.logins, 1, sshd.log);
    assert.ok(alive(child.pid));
    const check = await run("/usr/bin/ssh", ["-F", rig.client.configFile, "-S", socket, "-O", "check", "shared-auto"], { env: tools });
    assert.equal(check.code, 0, check.stderr);
});

test("T14: a shared connection that is left over or another's", { skip: skipAccount }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig);
    const account = await Account.create();
    t.after(() => account.remove());
    const stale = path.join(rig.dir, "stale");
    await staleSocket(stale);
    const absent = addKinds(rig, { name: "absent", sshd, client: [`ControlPath ${rig.dir}/absent`] }, EITHER);
    const left = addKinds(rig, { name: "left", sshd, client: [`ControlPath ${stale}`] }, EITHER);
    const foreign = path.join(rig.dir, "foreign");
    const theirs = addKinds(rig, { name: "theirs", sshd, client: [`ControlPath ${foreign}`] }, EITHER);
    await master(t, rig, "theirs-auto", foreign, sshd);
    const before = sshd.logins;
    /* A key that the account may read, since it is the one that connects. */
    fs.chownSync(sshd.userKey, account.uid, account.gid);
    fs.chownSync(rig.client.knownHostsFile, account.uid, account.gid);
    fs.writeFileSync(rig.client.logFile, "", { mode: 0o666 });
    fs.chmodSync(rig.client.logFile, 0o666);
    const rows = rig.rows(await machinesAs(rig, account, {}));
    assertAllConnected(rows, absent);
    assertAllConnected(rows, left);
    assertAllConnected(rows, theirs);
    assert.equal(sshd.logins - before, 6, sshd.log);
});

test("T14: a shared connection that is stopped costs its time and no machine", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig);
    const other = await sshdOf(rig);
    const socket = path.join(rig.dir, "stopped");
    const stopped = addKinds(rig, { name: "stopped", sshd, client: [`ControlPath ${socket}`] }, EITHER);
    const free = addKinds(rig, { name: "free", sshd: other }, EITHER);
    const child = await master(t, rig, "stopped-auto", socket, sshd);
    child.kill("SIGSTOP");
    const rows = await rig.machines();
    assertAllConnected(rows, free);
    /* ssh itself gives up on it after its own deadline, and goes alone. */
    assertAllConnected(rows, stopped, /ControlPath.*does not answer/);
});
