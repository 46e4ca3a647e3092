/*
 * Baseline, far end: a bridge in Node as earlier systems deploy it. Newline JSON on standard input and
 * output; each {id, line} becomes one call of the unix socket given as argument.
 */
import net from "node:net";
import { lines } from "./node-lines.mjs";

const socketPath = process.argv[2];

function answer(id, line) {
    process.stdout.write(`${JSON.stringify({ id, line })}\n`);
}

lines(process.stdin, (text) => {
    const { id, line } = JSON.parse(text);
    if (line === undefined) {
        answer(id, "pong");
        return;
    }
    const socket = net.connect(socketPath);
    lines(socket, (reply) => {
        socket.destroy();
        answer(id, reply);
    });
    socket.on("error", (err) => answer(id, JSON.stringify({ error: String(err) })));
    socket.write(`${line}\n`);
});
process.stdin.on("end", () => process.exit(0));
process.stdout.write('{"ready":true}\n');
