/*
 * T1 to T3 and T8 to T10: what is shown to the server, and who signs.
 */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { test } from "node:test";
import { ConnectRig, connectMissing } from "../support/connect.ts";
import { must, SHORT_MS, start, until } from "../support/process.ts";
import type { Sshd } from "../support/sshd.ts";
import { shepherdrBin } from "../support/world.ts";
import {
    addKinds, assertAllConnected, assertAllFailed, assertConnected, assertFailed, authorize, EITHER, newKey, OPENSSH,
    rowsOf, silentAgent, slowAgent, soakOnly, sshAgent, staleSocket,
} from "./target.ts";

const skip = connectMissing() ?? false;
const tools = { PATH: "/usr/bin:/bin" };

async function sshdOf(rig: ConnectRig, extraConfig: string[] = []): Promise<Sshd> {
    return rig.sshd({ home: rig.remoteHome(), extraConfig });
}

/** What the client's configuration names besides a test's own key is no key any more. */
function dropUserKey(sshd: Sshd): void {
    for (const file of [sshd.userKey, `${sshd.userKey}.pub`]) fs.rmSync(file);
}

/* ---- T1 ----------------------------------------------------------------------------------- */

test("T1: seven wrong keys in the agent do not use up the server's patience", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig, ["MaxAuthTries 6"]);
    const wrong: string[] = [];
    for (let i = 0; i < 7; i++) wrong.push(await newKey(path.join(rig.dir, `wrong${i}`)));
    rig.setEnv({ SSH_AUTH_SOCK: await sshAgent(t, path.join(rig.dir, "agent"), wrong) });
    const right = addKinds(rig, { name: "only", sshd }, EITHER);
    /* The same without IdentitiesOnly is refused: the agent's keys come first. */
    const open = addKinds(rig, { name: "open", sshd, client: ["IdentitiesOnly no"] }, { openssh: "openssh" });
    const rows = await rig.machines();
    assertAllConnected(rows, right);
    assertAllFailed(rows, open, "login_denied", /keys/);
});

/* ---- T2 ----------------------------------------------------------------------------------- */

test("T2: a key that only its certificate lets in", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const ca = await newKey(path.join(rig.dir, "ca"));
    const sshd = await sshdOf(rig, [`TrustedUserCAKeys ${ca}.pub`]);
    const key = await newKey(path.join(rig.dir, "certified"));
    await must("/usr/bin/ssh-keygen", ["-q", "-s", ca, "-I", "test", "-n", sshd.user, `${key}.pub`], { env: tools });
    const certificate = path.join(rig.dir, "paper.pub");
    fs.renameSync(`${key}-cert.pub`, certificate);
    const named = [`IdentityFile ${key}`, `CertificateFile ${certificate}`];
    const with_ = addKinds(rig, { name: "paper", sshd, client: named }, OPENSSH);
    const alone = await newKey(path.join(rig.dir, "alone"));
    dropUserKey(sshd);
    const without = addKinds(rig, { name: "bare", sshd, client: [`IdentityFile ${alone}`] }, EITHER);
    const rows = await rig.machines();
    assertAllConnected(rows, with_, /CertificateFile/);
    assertAllFailed(rows, without, "login_denied");

    /* As OpenSSH finds it by itself: beside the key. */
    fs.renameSync(certificate, `${key}-cert.pub`);
    const beside = addKinds(rig, { name: "beside", sshd, client: [`IdentityFile ${key}`] }, OPENSSH);
    assertAllConnected(await rig.machines(), beside, /certificate/i);
});

/* ---- T3: PKCS#11 -------------------------------------------------------------------------- */

const MODULE = "/usr/lib/softhsm/libsofthsm2.so";
const PIN = "271828";

function tokenMissing(): string | undefined {
    for (const file of [MODULE, "/usr/bin/softhsm2-util", "/usr/bin/pkcs11-tool"])
        if (!fs.existsSync(file)) return `${file} is missing (packages softhsm2, opensc)`;
    return undefined;
}

/** A token with one key that the server accepts. The variable that leads to it is set in the rig. */
async function token(rig: ConnectRig, sshd: Sshd): Promise<void> {
    const store = path.join(rig.dir, "tokens");
    const conf = path.join(rig.dir, "softhsm2.conf");
    fs.mkdirSync(store);
    fs.writeFileSync(conf, `directories.tokendir = ${store}\nobjectstore.backend = file\nlog.level = ERROR\n`);
    const env = { ...tools, SOFTHSM2_CONF: conf };
    const init = ["--init-token", "--free", "--label", "t", "--so-pin", PIN, "--pin", PIN];
    await must("/usr/bin/softhsm2-util", init, { env });
    const make = ["--module", MODULE, "--login", "--pin", PIN, "--keypairgen", "--key-type", "EC:prime256v1"];
    await must("/usr/bin/pkcs11-tool", [...make, "--label", "k", "--id", "01"], { env });
    const { stdout } = await must("/usr/bin/ssh-keygen", ["-D", MODULE], { env });
    const publicKey = path.join(rig.dir, "token.pub");
    fs.writeFileSync(publicKey, stdout);
    authorize(sshd.dir, publicKey);
    rig.setEnv({ SOFTHSM2_CONF: conf });
}

test("T3: a PKCS#11 key that the agent holds", { skip: skip || (tokenMissing() ?? false) }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig);
    await token(rig, sshd);
    const socket = path.join(rig.dir, "agent");
    /* The module is found through the agent's own environment. */
    await sshAgent(t, socket, [], { SOFTHSM2_CONF: rig.env()["SOFTHSM2_CONF"] ?? "" });
    const ask = path.join(rig.dir, "askpass");
    fs.writeFileSync(ask, `#!/bin/sh\necho ${PIN}\n`, { mode: 0o755 });
    const env = { ...tools, SSH_AUTH_SOCK: socket, SSH_ASKPASS: ask, SSH_ASKPASS_REQUIRE: "force" };
    await must("/usr/bin/ssh-add", ["-s", MODULE], { env });
    dropUserKey(sshd);
    rig.setEnv({ SSH_AUTH_SOCK: socket });
    const client = ["IdentitiesOnly no", "IdentityFile none"];
    const held = addKinds(rig, { name: "held", sshd, client }, EITHER);
    assertAllConnected(await rig.machines(), held);
});

test("T3: a PKCS#11 key that needs its PIN says so", { skip: skip || (tokenMissing() ?? false) }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig);
    await token(rig, sshd);
    dropUserKey(sshd);
    const client = [`PKCS11Provider ${MODULE}`, "IdentityFile none"];
    const locked = addKinds(rig, { name: "locked", sshd, client }, OPENSSH);
    const rows = await rig.machines();
    assertAllFailed(rows, locked, "key_locked", /ssh-add -s/);
    for (const row of rowsOf(rows, locked)) assert.equal(row.transport, "openssh");
});

/* ---- T3, P3: security key ------------------------------------------------------------------ */

interface TouchKey {
    file: string;
    provider: string;
    client: string[];
    /** Whether a signature is waited for. */
    asked: () => boolean;
    touch: () => void;
    release: () => void;
}

/** A security key that signs after its touch, and the configuration that uses it. */
async function touchKey(rig: ConnectRig, sshd: Sshd): Promise<TouchKey> {
    const provider = path.join(rig.dir, "sk-touch.so");
    const source = path.join(import.meta.dirname, "sk-touch.c");
    const warnings = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror"];
    await must("cc", ["-std=c17", "-D_GNU_SOURCE", ...warnings, "-shared", "-fPIC", "-o", provider, source, "-lsodium"], { env: tools });
    const touch = path.join(rig.dir, "touch");
    const key = path.join(rig.dir, "sk");
    const make = ["-q", "-t", "ed25519-sk", "-w", provider, "-N", "", "-f", key];
    await must("/usr/bin/ssh-keygen", make, { env: { ...tools, SHP_SK_TOUCH: touch } });
    authorize(sshd.dir, `${key}.pub`);
    return {
        file: key,
        provider,
        client: [`IdentityFile ${key}`, `SecurityKeyProvider ${provider}`],
        asked: () => fs.existsSync(`${touch}.asked`),
        touch: () => fs.writeFileSync(touch, ""),
        release: () => fs.rmSync(touch, { force: true }),
    };
}

test("T3, P3: a security key is waited for, others connect meanwhile, its touch connects", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig);
    const other = await sshdOf(rig);
    const key = await touchKey(rig, sshd);
    const waits = addKinds(rig, { name: "key", sshd, client: key.client }, OPENSSH);
    rig.add({ name: "other", sshd: other });
    const command = start(shepherdrBin, ["machines", "--json"], { env: rig.env(), cwd: rig.home });
    t.after(() => command.stop("SIGKILL"));
    command.end();
    await until(() => key.asked() && other.logins === 1, { what: "the other machine's login", dump: () => sshd.log });
    assert.equal(sshd.logins, 0, sshd.log);
    key.touch();
    await command.exited;
    const rows = rig.rows(command.stdout);
    assertAllConnected(rows, waits, /SecurityKey|security key/);
    assertConnected(rows.get("other"), rows.get("other")?.transport === "libssh" ? "libssh" : "openssh");
});

test("T3, P3: a security key that the agent holds", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig);
    const key = await touchKey(rig, sshd);
    const socket = path.join(rig.dir, "agent");
    const provider = { SSH_SK_PROVIDER: key.provider };
    await sshAgent(t, socket, [key.file], provider, ["-P", key.provider]);
    fs.rmSync(key.file);
    dropUserKey(sshd);
    rig.setEnv({ SSH_AUTH_SOCK: socket });
    const client = ["IdentitiesOnly no"];
    const first = addKinds(rig, { name: "first", sshd, client }, { auto: "libssh" });
    const command = start(shepherdrBin, ["machines", "--json"], { env: rig.env(), cwd: rig.home });
    t.after(() => command.stop("SIGKILL"));
    command.end();
    await until(key.asked, { what: "the agent's wait for a touch", dump: () => sshd.log });
    assert.equal(sshd.logins, 0, sshd.log);
    key.touch();
    await command.exited;
    assertAllConnected(rig.rows(command.stdout), first);
    const second = addKinds(rig, { name: "second", sshd, client }, EITHER);
    assertAllConnected(await rig.machines(), second);
});

test("P3: a security key that nobody touches ends in time, and a later touch connects", { skip: skip || soakOnly }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig);
    const key = await touchKey(rig, sshd);
    const waits = addKinds(rig, { name: "key", sshd, client: key.client }, OPENSSH);
    const rows = await rig.machines();
    assertAllFailed(rows, waits, "login_slow", /touch/);
    key.touch();
    assertAllConnected(await rig.machines(), waits);
});

/* ---- T8 ----------------------------------------------------------------------------------- */

test("T8: an agent that accepts and never answers costs its time and no machine", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig);
    const other = await sshdOf(rig);
    const socket = path.join(rig.dir, "silent");
    const agent = await silentAgent(t, socket);
    rig.setEnv({ SSH_AUTH_SOCK: socket });
    const held = addKinds(rig, { name: "held", sshd }, EITHER);
    const free = addKinds(rig, { name: "free", sshd: other, client: ["IdentityAgent none"] }, EITHER);
    const rows = await rig.machines();
    assertAllConnected(rows, free);
    assertAllConnected(rows, held);
    assert.ok(agent.asked() > 0, "the agent was not asked");
});

test("T8: what only a silent agent could sign ends in time and names it", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig);
    const socket = path.join(rig.dir, "silent");
    await silentAgent(t, socket);
    rig.setEnv({ SSH_AUTH_SOCK: socket });
    dropUserKey(sshd);
    const held = addKinds(rig, { name: "held", sshd, client: ["IdentitiesOnly no"] }, EITHER);
    for (const row of rowsOf(await rig.machines(), held)) assertFailed(row, /^login_(slow|denied)$/, /agent/);
});

test("T8: an agent that takes its time still signs", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig);
    const agent = await sshAgent(t, path.join(rig.dir, "agent"), [sshd.userKey]);
    const slow = path.join(rig.dir, "slow");
    await slowAgent(t, slow, agent, 1000);
    dropUserKey(sshd);
    rig.setEnv({ SSH_AUTH_SOCK: slow });
    const client = ["IdentitiesOnly no"];
    const held = addKinds(rig, { name: "held", sshd, client }, OPENSSH);
    assertAllConnected(await rig.machines(), held, /libssh failed.*does not answer/);
});

/* ---- T9 ----------------------------------------------------------------------------------- */

test("T9: a stale agent socket does not keep a key file or another agent from use", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig);
    const stale = path.join(rig.dir, "stale");
    await staleSocket(stale);
    assert.ok(fs.existsSync(stale));
    rig.setEnv({ SSH_AUTH_SOCK: stale });
    const file = addKinds(rig, { name: "file", sshd }, EITHER);
    const key = await newKey(path.join(rig.dir, "held"));
    authorize(sshd.dir, `${key}.pub`);
    const good = await sshAgent(t, path.join(rig.dir, "good"), [key]);
    fs.rmSync(key);
    const client = [`IdentityAgent ${good}`, `IdentityFile ${key}`];
    const held = addKinds(rig, { name: "held", sshd, client }, EITHER);
    const rows = await rig.machines();
    assertAllConnected(rows, file);
    assertAllConnected(rows, held);
});

/* ---- T10 ---------------------------------------------------------------------------------- */

test("T10: an encrypted key without an agent names the key and ssh-add, and the agent helps", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig);
    const plain = await newKey(path.join(rig.dir, "public-half"), "secret of the test");
    const bare = await newKey(path.join(rig.dir, "no-public-half"), "secret of the test");
    for (const key of [plain, bare]) authorize(sshd.dir, `${key}.pub`);
    fs.rmSync(`${bare}.pub`);
    /* The server takes this one too, but there is nothing to unlock. */
    const gone = await newKey(path.join(rig.dir, "gone"));
    authorize(sshd.dir, `${gone}.pub`);
    fs.rmSync(gone);
    const half = addKinds(rig, { name: "half", sshd, client: [`IdentityFile ${gone}`] }, OPENSSH);
    const one = addKinds(rig, { name: "public", sshd, client: [`IdentityFile ${plain}`] }, EITHER);
    const two = addKinds(rig, { name: "bare", sshd, client: [`IdentityFile ${bare}`] }, EITHER);
    dropUserKey(sshd);
    const rows = await rig.machines();
    assertAllFailed(rows, half, "login_denied", /gone, but its private file is missing/);
    assertAllFailed(rows, one, "key_locked", /ssh-add \S*public-half/);
    assertAllFailed(rows, two, "key_locked", /ssh-add \S*no-public-half/);
    for (const row of [...rowsOf(rows, one), ...rowsOf(rows, two)]) assert.equal(row.status, "action_required");

    const ask = path.join(rig.dir, "askpass");
    fs.writeFileSync(ask, "#!/bin/sh\necho secret of the test\n", { mode: 0o755 });
    const socket = await sshAgent(t, path.join(rig.dir, "agent"), []);
    const env = { ...tools, SSH_AUTH_SOCK: socket, SSH_ASKPASS: ask, SSH_ASKPASS_REQUIRE: "force" };
    for (const key of [plain, bare]) await must("/usr/bin/ssh-add", ["-q", key], { env, deadlineMs: SHORT_MS });
    rig.setEnv({ SSH_AUTH_SOCK: socket });
    const later = await rig.machines();
    assertAllConnected(later, one);
    assertAllConnected(later, two);
});
