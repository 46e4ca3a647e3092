/*
 * What the cases of reaching a target share: keys and agents of a test, and the transports that each
 * case is run with.
 */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as net from "node:net";
import * as path from "node:path";
import type { TestContext } from "node:test";
import { must, start, until } from "../support/process.ts";
import type { ConnectMachine, ConnectRig, MachineRow } from "../support/connect.ts";

export type Transport = "openssh" | "libssh";

/** Kinds of the setting `transport`, each with the transport that it has to come to. */
export type Plan = Partial<Record<"auto" | Transport, Transport>>;

/** The configuration holds nothing that libssh lacks. */
export const EITHER: Plan = { openssh: "openssh", auto: "libssh" };
/** Only OpenSSH can do what the configuration asks for. */
export const OPENSSH: Plan = { openssh: "openssh", auto: "openssh" };

/** One machine per kind of transport: the same way to the same server, several times in one command. */
export interface Kinds {
    plan: Plan;
    name: string;
}

function kindsOf(kinds: Kinds): Array<["auto" | Transport, Transport, string]> {
    const entries = Object.entries(kinds.plan) as Array<["auto" | Transport, Transport]>;
    return entries.map(([kind, transport]) => [kind, transport, `${kinds.name}-${kind}`]);
}

const settingsOf = new WeakMap<ConnectRig, Record<string, string>>();

/** Adds the machine once per kind, with the setting that asks for it. */
export function addKinds(rig: ConnectRig, machine: ConnectMachine, plan: Plan): Kinds {
    const kinds: Kinds = { plan, name: machine.name };
    const transport = settingsOf.get(rig) ?? {};
    settingsOf.set(rig, transport);
    for (const [kind, , name] of kindsOf(kinds)) transport[rig.add({ ...machine, name })] = kind;
    rig.settings({ transport });
    return kinds;
}

/** The machine's rows, by kind. */
export function rowsOf(rows: Map<string, MachineRow>, kinds: Kinds): MachineRow[] {
    return kindsOf(kinds).map(([, , name]) => {
        const row = rows.get(name);
        assert.ok(row !== undefined, `no row for ${name}`);
        return row;
    });
}

/** Connected under every kind, over the transport that was to be chosen. */
export function assertAllConnected(rows: Map<string, MachineRow>, kinds: Kinds, autoReason?: RegExp): void {
    for (const [kind, transport, name] of kindsOf(kinds))
        assertConnected(rows.get(name), transport, kind === "auto" ? autoReason : undefined);
}

/** Failed under every kind, for that reason. */
export function assertAllFailed(rows: Map<string, MachineRow>, kinds: Kinds, code: string, cause?: RegExp): void {
    for (const row of rowsOf(rows, kinds)) assertFailed(row, code, cause);
}

/** The machine is connected, over that transport, and a reason for the choice is given. */
export function assertConnected(row: MachineRow | undefined, transport: Transport, reason?: RegExp): void {
    assert.ok(row !== undefined, "no such row");
    const text = JSON.stringify(row);
    assert.equal(row.status, "connected", text);
    assert.equal(row.transport, transport, text);
    assert.ok((row.transportReason ?? "") !== "", text);
    if (reason !== undefined) assert.match(row.transportReason ?? "", reason);
    assert.ok(row.error === undefined || row.error === null, text);
}

/** The machine did not connect for that reason, and something can be done about it. */
export function assertFailed(row: MachineRow | undefined, code: string | RegExp, cause?: RegExp): void {
    assert.ok(row !== undefined, "no such row");
    const text = JSON.stringify(row);
    assert.ok(row.error !== undefined && row.error !== null, text);
    if (typeof code === "string") assert.equal(row.error.code, code, text);
    else assert.match(row.error.code, code, text);
    if (cause !== undefined) assert.match(row.error.cause, cause, text);
    assert.notEqual(row.error.next, "", text);
    assert.notEqual(row.status, "connected", text);
}

/** A new key pair; returns its file. */
export async function newKey(file: string, passphrase = "", args: string[] = ["-t", "ed25519"]): Promise<string> {
    const all = ["-q", ...args, "-N", passphrase, "-C", path.basename(file), "-f", file];
    await must("/usr/bin/ssh-keygen", all, { env: { PATH: "/usr/bin:/bin" } });
    return file;
}

/** OpenSSH's own agent with these keys; returns its socket. Ends with the test. */
export async function sshAgent(
    t: TestContext, socket: string, keys: string[], more: Record<string, string> = {}, args: string[] = [],
): Promise<string> {
    const env = { PATH: "/usr/bin:/bin", SSH_AUTH_SOCK: socket, ...more };
    const agent = start("/usr/bin/ssh-agent", ["-D", "-a", socket, ...args], { env });
    t.after(() => agent.stop("SIGKILL"));
    await until(() => agent.ended || fs.existsSync(socket), { what: "the agent's socket", dump: () => agent.stderr });
    for (const key of keys) await must("/usr/bin/ssh-add", ["-q", key], { env });
    return socket;
}

/** Something at an agent's place that accepts, reads and never answers. Ends with the test. */
export async function silentAgent(t: TestContext, socket: string): Promise<{ asked: () => number }> {
    const connections = new Set<net.Socket>();
    let asked = 0;
    const server = net.createServer((connection) => {
        connections.add(connection);
        connection.on("data", () => asked++);
        connection.on("error", () => connection.destroy());
        connection.on("close", () => connections.delete(connection));
    });
    await new Promise<void>((resolve, reject) => {
        server.once("error", reject);
        server.listen(socket, resolve);
    });
    t.after(async () => {
        for (const connection of connections) connection.destroy();
        await new Promise((resolve) => server.close(resolve));
    });
    return { asked: () => asked };
}

/** An agent that looks for a while before each conversation. Ends with the test. */
export async function slowAgent(t: TestContext, socket: string, agent: string, delayMs: number): Promise<void> {
    const open = new Set<net.Socket>();
    const server = net.createServer((connection) => {
        const real = net.connect(agent);
        for (const one of [connection, real]) {
            open.add(one);
            one.on("error", () => one.destroy());
            one.on("close", () => {
                connection.destroy();
                real.destroy();
                open.delete(one);
            });
        }
        real.pipe(connection);
        setTimeout(() => connection.pipe(real), delayMs);
    });
    await new Promise<void>((resolve, reject) => {
        server.once("error", reject);
        server.listen(socket, resolve);
    });
    t.after(async () => {
        for (const connection of open) connection.destroy();
        await new Promise((resolve) => server.close(resolve));
    });
}

/** The socket of a server that has gone. */
export async function staleSocket(socket: string): Promise<void> {
    const server = net.createServer();
    await new Promise<void>((resolve) => server.listen(`${socket}.live`, resolve));
    /* Closing takes a socket's own name away, not one that it got later. */
    fs.renameSync(`${socket}.live`, socket);
    await new Promise((resolve) => server.close(resolve));
}

/** Adds a public key to what a test's sshd accepts; the options of the line may restrict it. */
export function authorize(dir: string, publicKey: string, options = ""): void {
    const line = fs.readFileSync(publicKey, "utf8").trim();
    fs.appendFileSync(path.join(dir, "authorized_keys"), `${options === "" ? "" : `${options} `}${line}\n`);
}

/** Long forms of cases that need their deadlines; the reason to skip otherwise. */
export const soakOnly: string | false =
    process.env["SHP_SOAK"] === "1" ? false : "waits for real deadlines: make soak (SHP_SOAK=1)";
