/*
 * P: a person is needed. The state says so, the error names what to do in clean words and the
 * command to type, other machines are not held up, known_hosts stays as it is, nothing secret is
 * written down, and once the person has acted the same controller connects.
 */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { test, type TestContext } from "node:test";
import { ConnectRig, connectMissing, type MachineRow } from "../support/connect.ts";
import { must, until } from "../support/process.ts";
import type { Sshd, SshdOptions } from "../support/sshd.ts";
import { leftBy, Running } from "./running.ts";
import { addKinds, assertAllConnected, authorize, EITHER, newKey, OPENSSH, rowsOf, soakOnly, type Kinds, type Plan } from "./target.ts";

const skip = connectMissing() ?? false;

/** In a URL that is shown to a person and must not be written down. */
const TOKEN = "t0k3n5d7c";
const PASSPHRASE = "correct horse";

interface Case {
    rig: ConnectRig;
    sshd: Sshd;
    kinds: Kinds;
    other: Kinds;
}

async function makeCase(
    t: TestContext, plan: Plan, options: Partial<SshdOptions>, client: (rig: ConnectRig, sshd: Sshd) => string[] = () => [],
): Promise<Case> {
    const rig = ConnectRig.create(t);
    const home = rig.remoteHome();
    const sshd = await rig.sshd({ home, ...options });
    const kinds = addKinds(rig, { name: "odd", sshd, client: client(rig, sshd) }, plan);
    const other = addKinds(rig, { name: "fine", sshd: await rig.sshd({ home }) }, EITHER);
    return { rig, sshd, kinds, other };
}

function namesOf(kinds: Kinds): string[] {
    return Object.keys(kinds.plan).map((kind) => `${kinds.name}-${kind}`);
}

function assertNeedsPerson(row: MachineRow, code: string, cause: RegExp): void {
    const text = JSON.stringify(row);
    assert.equal(row.status, "action_required", text);
    assert.equal(row.error?.code, code, text);
    assert.match(row.error.cause, cause, text);
    /* The command, for this very target. */
    assert.match(row.error.cause, new RegExp(`: (ssh ${row["target"] as string}|ssh-add \\S+)`), text);
    assert.doesNotMatch(row.error.cause, /debug1|[\x00-\x1f\x7f]|\[\d+m|@@@/, text);
    assert.notEqual(row.error.next, "", text);
    assert.doesNotMatch(row.error.next, /[\x00-\x1f]|Permission denied|https?:|SHA256/, text);
}

/** Fails as it should, then connects after the repair, in one controller. */
async function failThenConnect(t: TestContext, made: Case, code: string, cause: RegExp, repair: () => void | Promise<void>): Promise<void> {
    const { rig, kinds, other } = made;
    const known = fs.readFileSync(rig.client.knownHostsFile);
    const running = await Running.start(t, rig);
    const before = await running.settled([...namesOf(kinds), ...namesOf(other)]);
    for (const row of rowsOf(before, kinds)) assertNeedsPerson(row, code, cause);
    assertAllConnected(before, other);
    assert.deepEqual(fs.readFileSync(rig.client.knownHostsFile), known, "known_hosts was changed");
    const pid = running.pid;
    await repair();
    for (const name of namesOf(kinds)) await running.rows({ reconnect: rig.id(name) });
    assertAllConnected(await running.rows(), kinds);
    assertAllConnected(await running.rows(), other);
    assert.equal(running.pid, pid, "another controller");
    for (const secret of [TOKEN, PASSPHRASE, "PRIVATE KEY"])
        assert.equal(leftBy(rig).includes(secret), false, `${secret} is written down`);
}

/** The server reads its configuration again. */
async function reload(sshd: Sshd): Promise<void> {
    const pid = fs.readFileSync(path.join(sshd.dir, "sshd.pid"), "utf8").trim();
    const lines = (): number => sshd.log.split("\n").filter((line) => line.includes("Server listening")).length;
    const before = lines();
    process.kill(Number(pid), "SIGHUP");
    await until(() => lines() > before, { what: "the server to listen again", dump: () => sshd.log });
}

/* ---- P1 ----------------------------------------------------------------------------------- */

/** A gateway in front of the server that lets nobody through before a person has opened its page. */
function gateway(rig: ConnectRig, sshd: Sshd, wait: string): { command: string; open: () => void } {
    const command = path.join(rig.dir, "gateway");
    const done = path.join(rig.dir, "logged-in");
    const relay = `exec ${process.execPath} -e 'const s = require("net").connect(${sshd.port}, "127.0.0.1"); process.stdin.pipe(s); s.pipe(process.stdout);'`;
    fs.writeFileSync(
        command,
        `#!/bin/sh\n[ -e '${done}' ] && ${relay}\n` +
            `printf '\\033[1mTo log in, open\\033[0m\\r\\n\\033[4mhttps://login.example/a/${TOKEN}\\033[0m.\\n' >&2\n${wait}\n`,
        { mode: 0o755 },
    );
    return { command, open: () => fs.writeFileSync(done, "") };
}

test("P1: a gateway that prints a URL and gives up", { skip }, async (t) => {
    let gate: { command: string; open: () => void } | undefined;
    const made = await makeCase(t, OPENSSH, {}, (rig, sshd) => {
        gate = gateway(rig, sshd, "exit 1");
        return [`ProxyCommand ${gate.command}`];
    });
    await failThenConnect(t, made, "interaction_required", new RegExp(`https://login\\.example/a/${TOKEN} `), () => gate!.open());
});

test("P1: a gateway that prints a URL and waits", { skip: skip || soakOnly }, async (t) => {
    let gate: { command: string; open: () => void } | undefined;
    const made = await makeCase(t, OPENSSH, {}, (rig, sshd) => {
        gate = gateway(rig, sshd, "exec sleep 60");
        return [`ProxyCommand ${gate.command}`];
    });
    await failThenConnect(t, made, "interaction_required", new RegExp(`https://login\\.example/a/${TOKEN} `), () => gate!.open());
});

test("P1: a URL in the banner of a server that takes no key", { skip }, async (t) => {
    const made = await makeCase(t, EITHER, {});
    const { rig, sshd } = made;
    const banner = path.join(rig.dir, "banner");
    fs.writeFileSync(banner, `\x1b[31mRegister your key\x1b[0m at https://keys.example/${TOKEN}\n`);
    const authorized = path.join(sshd.dir, "authorized_keys");
    const keys = fs.readFileSync(authorized);
    fs.writeFileSync(authorized, "");
    fs.appendFileSync(path.join(sshd.dir, "sshd_config"), `Banner ${banner}\n`);
    await reload(sshd);
    await failThenConnect(t, made, "login_denied", new RegExp(`https://keys\\.example/${TOKEN}`), () => fs.writeFileSync(authorized, keys));
});

/**
 * A server that names a page in its banner and answers no login before somebody was there. sshd runs
 * a command only below directories that root alone can write to.
 */
test("P1: a URL in the banner of a server that waits", { skip: skip || soakOnly }, async (t) => {
    const dir = fs.mkdtempSync("/run/shp-person-");
    t.after(() => fs.rmSync(dir, { recursive: true, force: true }));
    const command = path.join(dir, "keys");
    const done = path.join(dir, "logged-in");
    fs.writeFileSync(path.join(dir, "banner"), `Open https://login.example/${TOKEN} to go on.\n`);
    const lines = [`Banner ${path.join(dir, "banner")}`, `AuthorizedKeysCommand ${command}`, "AuthorizedKeysCommandUser root"];
    /* To libssh, which begins with a key, this server sends its banner with the answer only. */
    const made = await makeCase(t, { openssh: "openssh" }, { extraConfig: lines });
    const authorized = path.join(made.sshd.dir, "authorized_keys");
    fs.renameSync(authorized, path.join(dir, "authorized"));
    fs.writeFileSync(command, `#!/bin/sh\ni=0; while [ ! -e '${done}' ] && [ $i -lt 60 ]; do sleep 1; i=$((i + 1)); done; cat '${dir}/authorized'\n`, { mode: 0o755 });
    await failThenConnect(t, made, "interaction_required", new RegExp(`https://login\\.example/${TOKEN}`), () => fs.writeFileSync(done, ""));
});

test("P1: a forced command that prints a URL and waits", { skip: skip || soakOnly }, async (t) => {
    const made = await makeCase(t, { openssh: "openssh" }, {});
    const { rig, sshd } = made;
    const done = path.join(rig.dir, "logged-in");
    const gate = path.join(rig.dir, "forced");
    fs.writeFileSync(gate, `#!/bin/sh\n[ -e '${done}' ] || { echo 'Open https://login.example/${TOKEN}' >&2; exec sleep 60; }\nexec sh -c "$SSH_ORIGINAL_COMMAND"\n`, { mode: 0o755 });
    const authorized = path.join(sshd.dir, "authorized_keys");
    fs.writeFileSync(authorized, `command="${gate}" ${fs.readFileSync(authorized, "utf8")}`);
    await failThenConnect(t, made, "interaction_required", new RegExp(`https://login\\.example/${TOKEN}`), () => fs.writeFileSync(done, ""));
});

/* ---- P2 and P6 ---------------------------------------------------------------------------- */

/** Another way to log in until the file says otherwise. */
async function methodsCase(t: TestContext, lines: string[]): Promise<{ made: Case; repair: () => Promise<void> }> {
    const made = await makeCase(t, EITHER, {});
    const config = path.join(made.sshd.dir, "sshd_config");
    const good = fs.readFileSync(config, "utf8");
    fs.writeFileSync(config, `${lines.join("\n")}\n${good}`);
    await reload(made.sshd);
    return {
        made,
        repair: async () => {
            fs.writeFileSync(config, good);
            await reload(made.sshd);
        },
    };
}

test("P2: a server that asks questions and takes no key", { skip }, async (t) => {
    const { made, repair } = await methodsCase(t, ["UsePAM yes", "PubkeyAuthentication no", "KbdInteractiveAuthentication yes"]);
    await failThenConnect(t, made, "interaction_required", /keyboard-interactive/, repair);
});

test("P2: a server that asks a question behind the key", { skip }, async (t) => {
    const { made, repair } = await methodsCase(t, ["UsePAM yes", "AuthenticationMethods publickey,keyboard-interactive", "KbdInteractiveAuthentication yes"]);
    await failThenConnect(t, made, "interaction_required", /key.*keyboard-interactive/, repair);
});

test("P6: a server that takes nothing but a password", { skip }, async (t) => {
    const { made, repair } = await methodsCase(t, ["PubkeyAuthentication no", "PasswordAuthentication yes"]);
    await failThenConnect(t, made, "interaction_required", /password/, repair);
});

/* ---- P3 ----------------------------------------------------------------------------------- */

test("P3: a key that only a person can unlock", { skip }, async (t) => {
    const made = await makeCase(t, EITHER, {}, (rig) => [`IdentityFile ${path.join(rig.dir, "locked")}`]);
    const { rig, sshd } = made;
    const key = await newKey(path.join(rig.dir, "locked"), PASSPHRASE);
    fs.writeFileSync(path.join(sshd.dir, "authorized_keys"), "");
    authorize(sshd.dir, `${key}.pub`);
    await failThenConnect(t, made, "key_locked", new RegExp(`${key}.*passphrase`), async () => {
        await must("/usr/bin/ssh-keygen", ["-q", "-p", "-P", PASSPHRASE, "-N", "", "-f", key], { env: {} });
    });
});

/* ---- P4 and P5 ---------------------------------------------------------------------------- */

/** Known hosts of one machine's own. */
function ownKnownHosts(rig: ConnectRig): string {
    return path.join(rig.dir, "own_known_hosts");
}

async function hostKeyCase(t: TestContext, text: (sshd: Sshd) => string | Promise<string>): Promise<{ made: Case; file: string; content: string }> {
    const made = await makeCase(t, EITHER, {}, (rig) => [`UserKnownHostsFile ${ownKnownHosts(rig)}`]);
    const file = ownKnownHosts(made.rig);
    const content = await text(made.sshd);
    fs.writeFileSync(file, content);
    return { made, file, content };
}

async function assertHostKeyCase(t: TestContext, text: (sshd: Sshd) => string | Promise<string>, code: string, cause: RegExp): Promise<void> {
    const { made, file, content } = await hostKeyCase(t, text);
    await failThenConnect(t, made, code, cause, () => {
        assert.equal(fs.readFileSync(file, "utf8"), content, "known_hosts was changed");
        fs.writeFileSync(file, `${made.sshd.knownHostsLine}\n`);
    });
    assert.equal(fs.readFileSync(file, "utf8"), `${made.sshd.knownHostsLine}\n`);
}

test("P4: a host key that is not known", { skip }, async (t) => {
    await assertHostKeyCase(t, () => "", "host_key_unknown", /SHA256:/);
});

test("P5: a host key that is another than the known one", { skip }, async (t) => {
    const another = async (sshd: Sshd): Promise<string> => {
        const key = await newKey(path.join(sshd.dir, "another"));
        const words = fs.readFileSync(`${key}.pub`, "utf8").split(" ");
        return `[127.0.0.1]:${sshd.port} ${words[0]} ${words[1]}\n`;
    };
    await assertHostKeyCase(t, another, "host_key_changed", /SHA256:/);
});
