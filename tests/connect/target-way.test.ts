/*
 * T4 to T7: where a target's name leads, and whose host key is expected there.
 */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { test } from "node:test";
import { ConnectRig, connectMissing } from "../support/connect.ts";
import { must } from "../support/process.ts";
import type { Sshd } from "../support/sshd.ts";
import {
    addKinds, assertAllConnected, assertAllFailed, EITHER, type Kinds, newKey, OPENSSH, rowsOf,
} from "./target.ts";

const skip = connectMissing() ?? false;
const tools = { PATH: "/usr/bin:/bin" };

async function sshdOf(rig: ConnectRig): Promise<Sshd> {
    return rig.sshd({ home: rig.remoteHome() });
}

/* ---- T4 ----------------------------------------------------------------------------------- */

test("T4: ProxyJump over two hops", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const [one, two, last] = [await sshdOf(rig), await sshdOf(rig), await sshdOf(rig)];
    rig.client.addHost({ alias: "hop1", sshd: one });
    rig.client.addHost({ alias: "hop2", sshd: two });
    const client = ["ProxyJump hop1,hop2"];
    const far = addKinds(rig, { name: "far", sshd: last, client }, OPENSSH);
    /* Asked for by name, libssh does not quietly connect to the target itself. */
    const alone = addKinds(rig, { name: "alone", sshd: last, client }, { libssh: "libssh" });
    const first = await rig.machines();
    assertAllConnected(first, far, /ProxyJump/);
    assertAllFailed(first, alone, "ssh_config_failed", /ProxyJump/);
    assert.deepEqual([one.logins, two.logins, last.logins], [2, 2, 2]);

    /* A hop that is down is named, and not the target. */
    await two.stopListening();
    const rows = await rig.machines();
    assertAllFailed(rows, far, "connect_refused", new RegExp(`${two.port}|hop2`));
});

/* ---- T5 ----------------------------------------------------------------------------------- */

test("T5: ProxyCommand, a relay of one's own and ssh -W", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const [hop, last] = [await sshdOf(rig), await sshdOf(rig)];
    const relay = path.join(rig.dir, "relay.mjs");
    fs.writeFileSync(
        relay,
        `import net from "node:net";
        const socket = net.connect(Number(process.argv[3]), process.argv[2]);
        process.stdin.pipe(socket).pipe(process.stdout);
        socket.on("close", () => process.exit(0));\n`,
    );
    rig.client.addHost({ alias: "hop", sshd: hop });
    const nc = [`ProxyCommand ${process.execPath} ${relay} %h %p`];
    const own = addKinds(rig, { name: "own", sshd: last, client: nc }, OPENSSH);
    const w = [`ProxyCommand /usr/bin/ssh -F ${rig.client.configFile} -W [%h]:%p hop`];
    const through = addKinds(rig, { name: "through", sshd: last, client: w }, OPENSSH);
    const broken = addKinds(rig, { name: "broken", sshd: last, client: ["ProxyCommand /bin/false"] }, OPENSSH);
    const rows = await rig.machines();
    assertAllConnected(rows, own, /ProxyCommand/);
    assertAllConnected(rows, through, /ProxyCommand/);
    assertAllFailed(rows, broken, "connect_failed", /Proxy/);
    assert.equal(hop.logins, 2);
});

/* ---- T6 ----------------------------------------------------------------------------------- */

test("T6: Include, Match final, CanonicalizeHostname and tokens", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig);
    const user = sshd.user;
    const key = path.join(rig.dir, `key-127.0.0.1-${user}`);
    fs.renameSync(sshd.userKey, key);
    fs.renameSync(`${sshd.userKey}.pub`, `${key}.pub`);
    const known = path.join(rig.dir, `known-${sshd.port}`);
    fs.writeFileSync(known, `${sshd.knownHostsLine}\n`);
    /* Hosts that only the files below describe. */
    const included = addKinds(rig, { name: "included" }, EITHER);
    const final = addKinds(rig, { name: "final" }, EITHER);
    const canonical = addKinds(rig, { name: "canonical" }, OPENSSH);
    const tokens = addKinds(rig, { name: "tokens" }, EITHER);
    const base = [
        "IdentitiesOnly yes",
        `User ${user}`,
        `UserKnownHostsFile ${known}`,
        "GlobalKnownHostsFile none",
        "StrictHostKeyChecking yes",
    ];
    const include = path.join(rig.dir, "included.conf");
    const block = (head: string, lines: string[]): string => `${[head, ...lines].join("\n    ")}\n`;
    fs.writeFileSync(
        include,
        block("Host included-*", [...base, "HostName 127.0.0.1", `Port ${sshd.port}`, `IdentityFile ${key}`]),
    );
    fs.writeFileSync(
        rig.client.configFile,
        [
            `Include ${include}`,
            block("Host final-*", ["HostName 127.0.0.1"]),
            block("Match final host 127.0.0.1 originalhost final-*", [...base, `Port ${sshd.port}`, `IdentityFile ${key}`]),
            block("Host canonical-*", [...base, "HostName LOCALHOST", "CanonicalizeHostname always", `IdentityFile ${key}`]),
            /* The name is in lower case once it is canonical. */
            block("Match canonical host localhost originalhost canonical-*", [
                `Port ${sshd.port}`, "AddressFamily inet", "HostKeyAlias canon",
            ]),
            block("Host tokens-*", [
                "IdentitiesOnly yes",
                `User ${user}`,
                "HostName 127.0.0.1",
                `Port ${sshd.port}`,
                `IdentityFile ${rig.dir}/key-%h-%r`,
                /* A variable of the environment, and the port by its token. */
                "UserKnownHostsFile ${SHP_TEST_KNOWN}-%p",
                "GlobalKnownHostsFile none",
                "StrictHostKeyChecking yes",
            ]),
        ].join("\n"),
    );
    fs.appendFileSync(known, sshd.knownHostsLine.replace(/^\S+/, "canon"));
    rig.setEnv({ SHP_TEST_KNOWN: path.join(rig.dir, "known") });
    const rows = await rig.machines();
    assertAllConnected(rows, included);
    assertAllConnected(rows, final);
    assertAllConnected(rows, canonical, /CanonicalizeHostname/);
    assertAllConnected(rows, tokens);
});

test("T6: a slow Match exec works, one that hangs ends alone", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig);
    const slow = addKinds(rig, { name: "slow", sshd }, EITHER);
    const stuck = addKinds(rig, { name: "stuck", sshd }, EITHER);
    const other = addKinds(rig, { name: "other", sshd }, EITHER);
    const commands = [
        'Match originalhost slow-* exec "sleep 3"\n    ServerAliveInterval 20',
        'Match originalhost stuck-* exec "exec sleep 60"\n    ServerAliveInterval 20',
        fs.readFileSync(rig.client.configFile, "utf8"),
    ];
    fs.writeFileSync(rig.client.configFile, commands.join("\n"));
    const rows = await rig.machines();
    assertAllConnected(rows, slow);
    assertAllConnected(rows, other);
    assertAllFailed(rows, stuck, "ssh_config_failed", /10 s/);
    const failed = Math.min(...rowsOf(rows, stuck).map((row) => row.since ?? 0));
    for (const row of rowsOf(rows, other)) assert.ok((row.since ?? Infinity) < failed, JSON.stringify(row));
});

test("T6: a bad line of the configuration is named", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const bad = addKinds(rig, { name: "bad", sshd: await sshdOf(rig), client: ["NoSuchOption yes"] }, EITHER);
    assertAllFailed(await rig.machines(), bad, "ssh_config_failed", /line \d+: Bad configuration option: nosuchoption/i);
});

/* ---- T7 ----------------------------------------------------------------------------------- */

test("T7: HostKeyAlias in hashed known hosts", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig);
    const known = path.join(rig.dir, "known-alias");
    const key = sshd.knownHostsLine.replace(/^\S+ /, "");
    fs.writeFileSync(known, `the-alias ${key}\n`);
    await must("/usr/bin/ssh-keygen", ["-q", "-H", "-f", known], { env: tools });
    assert.match(fs.readFileSync(known, "utf8"), /^\|1\|/);
    const other = await newKey(path.join(rig.dir, "other-host"));
    const wrong = path.join(rig.dir, "known-wrong");
    fs.writeFileSync(wrong, `the-alias ${fs.readFileSync(`${other}.pub`, "utf8").split(" ").slice(0, 2).join(" ")}\n`);
    await must("/usr/bin/ssh-keygen", ["-q", "-H", "-f", wrong], { env: tools });
    const alias = (file: string): string[] => ["HostKeyAlias the-alias", `UserKnownHostsFile ${file}`];

    const good = addKinds(rig, { name: "alias", sshd, client: alias(known) }, EITHER);
    /* Without the alias the address is looked up, which that file does not have. */
    const none = addKinds(rig, { name: "none", sshd, client: [`UserKnownHostsFile ${known}`] }, EITHER);
    const changed = addKinds(rig, { name: "changed", sshd, client: alias(wrong) }, EITHER);
    const hashed = path.join(rig.dir, "known-hashed");
    fs.writeFileSync(hashed, `${sshd.knownHostsLine}\n`);
    await must("/usr/bin/ssh-keygen", ["-q", "-H", "-f", hashed], { env: tools });
    const address = addKinds(rig, { name: "address", sshd, client: [`UserKnownHostsFile ${hashed}`] }, EITHER);

    const rows = await rig.machines();
    assertAllConnected(rows, good);
    assertAllConnected(rows, address);
    assertAllFailed(rows, none, "host_key_unknown");
    assertAllFailed(rows, changed, "host_key_changed");
    for (const row of [...rowsOf(rows, none), ...rowsOf(rows, changed)]) assert.equal(row.status, "action_required");
});

test("T7: a key that OpenSSH refuses is not trusted under auto either", { skip }, async (t) => {
    const rig = ConnectRig.create(t);
    const sshd = await sshdOf(rig);
    const key = sshd.knownHostsLine.replace(/^\S+ /, "");
    const withKnown = (name: string, file: string, client: string[]): Kinds => {
        fs.writeFileSync(path.join(rig.dir, file), `${name} ${key}\n`);
        return addKinds(rig, { name: file.replace(" ", ""), sshd, client: [`UserKnownHostsFile "${path.join(rig.dir, file)}"`, ...client] }, OPENSSH);
    };
    const refused = [
        withKnown("*.example,!evil.example", "negated", ["HostKeyAlias evil.example"]),
        withKnown("[box.example]:22", "port", ["HostKeyAlias box.example"]),
        withKnown("[box.example]:*", "anyport", ["HostKeyAlias box.example"]),
    ];
    const small = withKnown("box.example", "small", ["HostKeyAlias box.example", "RequiredRSASize 4096"]);
    const spaced = withKnown("box.example", "a file", ["HostKeyAlias box.example"]);

    const rows = await rig.machines();
    for (const kinds of refused) assertAllFailed(rows, kinds, "host_key_unknown");
    assertAllConnected(rows, small, /RequiredRSASize/);
    assertAllConnected(rows, spaced, /rest of one/);
});
