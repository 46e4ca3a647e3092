/*
 * What doctor says of each way in which SSH fails, whichever transport met it: the layer, the code,
 * the exit status, a next action, and words of ours. (Faults behind the login: doctor.test.ts.)
 */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as net from "node:net";
import * as path from "node:path";
import { test, type TestContext } from "node:test";
import { ConnectRig, connectMissing, type ConnectMachine } from "../support/connect.ts";
import { addKinds, authorize, EITHER, newKey, OPENSSH, soakOnly, type Plan } from "./target.ts";

const skip = connectMissing() ?? false;

interface Row {
    name: string;
    layer: string;
    code: string;
    cause: RegExp;
    /** How the machine is reached; the server is made with these lines. */
    server?: string[];
    machine?: (rig: ConnectRig, t: TestContext) => Partial<ConnectMachine> | Promise<Partial<ConnectMachine>>;
    /** After the server runs. */
    spoil?: (rig: ConnectRig, dir: string, port: number) => void | Promise<void>;
    plan?: Plan;
    long?: true;
}

const rows: Row[] = [
    {
        name: "option", layer: "config", code: "ssh_config_failed", cause: /no-?such-?option/i,
        machine: () => ({ client: ["NoSuchOption yes"] }),
    },
    {
        name: "name", layer: "dns", code: "name_unresolved", cause: /nowhere\.invalid/,
        machine: () => ({ client: ["HostName nowhere.invalid"] }),
    },
    { name: "port", layer: "tcp", code: "connect_refused", cause: /127\.0\.0\.1 port 1\b/, machine: () => ({ client: ["Port 1"] }) },
    {
        name: "silent", layer: "tcp", code: "connect_timeout", cause: /./, long: true,
        machine: async (_rig, t) => ({ client: [`Port ${await silentPort(t)}`] }),
    },
    {
        name: "way", layer: "tcp", code: "connect_failed", cause: /no way today/, plan: OPENSSH,
        machine: (rig) => ({ client: [`ProxyCommand ${script(rig, "way", "echo no way today >&2; exit 1")}`] }),
    },
    {
        name: "gateway", layer: "auth", code: "interaction_required", cause: /https:\/\/login\.example\/1 /, plan: OPENSSH,
        machine: (rig) => ({ client: [`ProxyCommand ${script(rig, "gateway", "echo see https://login.example/1 >&2; exit 1")}`] }),
    },
    {
        name: "kex", layer: "host_key", code: "kex_unsupported", cause: /./,
        server: ["KexAlgorithms diffie-hellman-group14-sha256"], machine: () => ({ client: ["KexAlgorithms curve25519-sha256"] }),
    },
    { name: "unknown", layer: "host_key", code: "host_key_unknown", cause: /SHA256:/, machine: () => ({ client: ["UserKnownHostsFile /dev/null"] }) },
    {
        name: "changed", layer: "host_key", code: "host_key_changed", cause: /SHA256:/,
        machine: (rig) => ({ client: [`UserKnownHostsFile ${path.join(rig.dir, "other_hosts")}`] }),
        spoil: async (rig, _dir, port) => {
            const words = fs.readFileSync(`${await newKey(path.join(rig.dir, "other"))}.pub`, "utf8").split(" ");
            fs.writeFileSync(path.join(rig.dir, "other_hosts"), `[127.0.0.1]:${port} ${words[0]} ${words[1]}\n`);
        },
    },
    { name: "keys", layer: "auth", code: "login_denied", cause: /refused/, spoil: (_rig, dir) => fs.writeFileSync(path.join(dir, "authorized_keys"), "") },
    {
        name: "locked", layer: "auth", code: "key_locked", cause: /passphrase.*ssh-add/,
        machine: (rig) => ({ client: [`IdentityFile ${path.join(rig.dir, "locked")}`] }),
        spoil: async (rig, dir) => {
            const key = await newKey(path.join(rig.dir, "locked"), "a pass phrase");
            fs.writeFileSync(path.join(dir, "authorized_keys"), "");
            authorize(dir, `${key}.pub`);
        },
    },
    {
        name: "lonely", layer: "auth", code: "key_locked", cause: /lonely.*passphrase/,
        machine: (rig) => ({ client: [`IdentityFile ${path.join(rig.dir, "lonely")}`] }),
        /* Without its public half: what ssh cannot read it does not even offer. */
        spoil: async (rig, dir) => {
            const key = await newKey(path.join(rig.dir, "lonely"), "a pass phrase", ["-t", "rsa", "-b", "2048", "-m", "PEM"]);
            fs.writeFileSync(path.join(dir, "authorized_keys"), "");
            authorize(dir, `${key}.pub`);
            fs.rmSync(`${key}.pub`);
        },
    },
    { name: "password", layer: "auth", code: "interaction_required", cause: /password/, server: ["PubkeyAuthentication no", "PasswordAuthentication yes"] },
    {
        name: "questions", layer: "auth", code: "interaction_required", cause: /keyboard-interactive/,
        server: ["UsePAM yes", "PubkeyAuthentication no", "KbdInteractiveAuthentication yes"],
    },
    { name: "channel", layer: "shell", code: "channel_refused", cause: /./, server: ["MaxSessions 0"] },
    { name: "forced", layer: "shell", code: "shell_refused", cause: /Go away/, server: ["ForceCommand echo Go away"] },
];

function script(rig: ConnectRig, name: string, body: string): string {
    const file = path.join(rig.dir, `${name}-command`);
    fs.writeFileSync(file, `#!/bin/sh\n${body}\n`, { mode: 0o755 });
    return file;
}

/** Accepts and says nothing. */
async function silentPort(t: TestContext): Promise<number> {
    const server = net.createServer((socket) => socket.on("error", () => socket.destroy()));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    t.after(() => server.close());
    return (server.address() as net.AddressInfo).port;
}

for (const row of rows) {
    test(`doctor: ${row.name} is ${row.code} in layer ${row.layer}`, { skip: skip || (row.long === true ? soakOnly : false) }, async (t) => {
        const rig = ConnectRig.create(t);
        const sshd = await rig.sshd({ home: rig.remoteHome(), extraConfig: row.server ?? [] });
        const machine = (await row.machine?.(rig, t)) ?? {};
        const kinds = addKinds(rig, { name: "box", sshd, ...machine }, row.plan ?? EITHER);
        await row.spoil?.(rig, sshd.dir, sshd.port);
        for (const name of Object.keys(kinds.plan).map((kind) => `${kinds.name}-${kind}`)) {
            const { stdout, code } = await rig.shepherdr(["doctor", "--json", rig.id(name)]);
            const [patient] = JSON.parse(stdout) as Array<{ label: string; layers: Array<Record<string, string>> }>;
            assert.equal(patient?.label, name, stdout);
            const failed = patient.layers.filter((l) => l["status"] === "failed");
            assert.deepEqual(failed.map((l) => [l["layer"], l["code"]]), [[row.layer, row.code]], stdout);
            assert.equal(code, 2, stdout);
            const { next = "", cause = "", step = "" } = failed[0]!;
            assert.match(cause, row.cause, stdout);
            assert.doesNotMatch(cause, /debug1|exit status 255|\bssh: |@@@|[\x00-\x1f]/, stdout);
            assert.notEqual(step, "", stdout);
            assert.match(next, /^[A-Z].{9,}\.$/, stdout);
            assert.doesNotMatch(next, /Permission denied|Connection |Host key verification|https?:|SHA256|127\.0\.0\.1|[\x00-\x1f]/, stdout);
        }
    });
}
