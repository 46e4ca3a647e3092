/*
 * Baseline, near end: deploys the bridge with one ssh for the folder and one per file, then one ssh
 * that runs it, and calls through it. Commands as of bench_link: open N, shut, calls N, relay N BYTES.
 *
 *   node-client.mjs <node on the far end> <socket on the far end> <alias>...
 */
import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { lines } from "./node-lines.mjs";

const FILES = ["node-bridge.mjs", "node-lines.mjs", "package.json"];
const PACKAGE = '{"name":"bridge","type":"module"}\n';
const REQUEST_BYTES = 200;

const [remoteNode, remoteSocket, ...aliases] = process.argv.slice(2);
let links = [];
let ids = 0;

/* Detached: a session of its own, as the other side's ssh; the kernel shares the CPU among sessions. */
function ssh(alias, command, input) {
    return new Promise((resolve, reject) => {
        const child = spawn("ssh", ["-T", alias, command], { stdio: ["pipe", "ignore", "inherit"], detached: true });
        child.on("error", reject);
        child.on("exit", (code) => (code === 0 ? resolve() : reject(new Error(`ssh ended with ${code}`))));
        child.stdin.end(input);
    });
}

async function connect(alias) {
    await ssh(alias, `mkdir -p .bridge/${alias}`, "");
    for (const name of FILES) {
        const content = name === "package.json" ? PACKAGE : fs.readFileSync(path.join(import.meta.dirname, name));
        await ssh(alias, `cat > .bridge/${alias}/${name}`, content);
    }
    const command = `'${remoteNode}' .bridge/${alias}/node-bridge.mjs '${remoteSocket}'`;
    const child = spawn("ssh", ["-T", alias, command], { stdio: ["pipe", "pipe", "inherit"], detached: true });
    const waiting = new Map();
    return new Promise((resolve) => {
        const link = { child, waiting };
        lines(child.stdout, (text) => {
            const message = JSON.parse(text);
            if (message.ready === true) {
                resolve(link);
                return;
            }
            waiting.get(message.id)(message.line);
            waiting.delete(message.id);
        });
    });
}

function call(link, line) {
    return new Promise((resolve) => {
        const id = ++ids;
        link.waiting.set(id, (reply) => resolve(JSON.parse(reply)));
        link.child.stdin.write(`${JSON.stringify({ id, line })}\n`);
    });
}

function request(method, params) {
    return JSON.stringify({ id: "shepherdr", method, params });
}

async function repeat(count, line) {
    const us = [];
    for (let i = 0; i < count; i++) {
        const start = process.hrtime.bigint();
        const answer = await call(links[0], line);
        if (answer.result === undefined) throw new Error(JSON.stringify(answer));
        us.push(Number(process.hrtime.bigint() - start) / 1000);
    }
    return { us };
}

async function obey(name, count, bytes) {
    if (name === "calls") {
        const pad = REQUEST_BYTES - 1 - request("ping", { pad: "" }).length;
        return repeat(count, request("ping", { pad: "x".repeat(pad) }));
    }
    if (name === "relay") return repeat(count, request("big", { bytes }));
    if (name === "open") {
        const start = process.hrtime.bigint();
        links = await Promise.all(aliases.slice(0, count).map(connect));
        return { us: [Number(process.hrtime.bigint() - start) / 1000] };
    }
    for (const link of links) link.child.stdin.end();
    await Promise.all(links.map((link) => new Promise((resolve) => link.child.on("exit", resolve))));
    links = [];
    return { us: [] };
}

lines(process.stdin, (text) => {
    const [name, count, bytes] = text.split(" ");
    obey(name, Number(count), Number(bytes)).then(
        (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`),
        (err) => {
            process.stderr.write(`${err.stack}\n`);
            process.exit(1);
        },
    );
});
process.stdin.on("end", () => process.exit(0));
