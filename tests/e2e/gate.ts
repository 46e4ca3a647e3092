/*
 * A gate in front of a unix socket: what a client says passes, until a wanted request comes; that
 * one is held before it is forwarded, or its answer is held after it was acted on. So a test can
 * let something die at an exact step.
 *
 * The server keeps its socket under another name; the gate listens in its place.
 */

import * as fs from "node:fs";
import * as net from "node:net";

export type Side = "before" | "after";

export interface Held {
    /** The request is there; with "after" its answer, too. */
    readonly reached: boolean;
}

interface Hold extends Held {
    wanted: RegExp;
    side: Side;
    not: RegExp | undefined;
    reached: boolean;
}

interface Pair {
    client: net.Socket;
    server: net.Socket;
    /** What must not pass yet, by direction. */
    toServer: Buffer[];
    toClient: Buffer[];
    heldBefore: boolean;
    heldAfter: Hold | undefined;
    serverEnded: boolean;
}

export class SocketGate {
    private readonly server: net.Server;
    private readonly pairs = new Set<Pair>();
    private hold_: Hold | undefined;

    private constructor(socketPath: string, behind: string) {
        this.server = net.createServer((client) => this.accept(client, behind));
        this.server.listen(socketPath);
        this.server.unref();
    }

    /** Takes the place of a listening socket. */
    static async before(socketPath: string): Promise<SocketGate> {
        const behind = `${socketPath}.b`;
        fs.renameSync(socketPath, behind);
        const gate = new SocketGate(socketPath, behind);
        await new Promise<void>((resolve, reject) => {
            gate.server.once("listening", resolve);
            gate.server.once("error", reject);
        });
        return gate;
    }

    /** The next request that matches is held; with "after" not the one whose answer matches `not`. */
    hold(wanted: RegExp, side: Side, not?: RegExp): Held {
        this.hold_ = { wanted, side, not, reached: false };
        return this.hold_;
    }

    /** What was held goes on, where both ends are still there; nothing is held any more. */
    open(): void {
        this.hold_ = undefined;
        for (const pair of this.pairs) {
            pair.heldBefore = false;
            pair.heldAfter = undefined;
            for (const chunk of pair.toServer.splice(0)) pair.server.write(chunk);
            for (const chunk of pair.toClient.splice(0)) pair.client.write(chunk);
            if (pair.serverEnded) pair.client.end();
        }
    }

    close(): void {
        for (const pair of this.pairs) {
            pair.client.destroy();
            pair.server.destroy();
        }
        this.server.close();
    }

    private accept(client: net.Socket, behind: string): void {
        const server = net.connect(behind);
        const pair: Pair = { client, server, toServer: [], toClient: [], heldBefore: false, heldAfter: undefined, serverEnded: false };
        this.pairs.add(pair);
        client.on("data", (chunk) => this.fromClient(pair, chunk));
        server.on("data", (chunk) => this.fromServer(pair, chunk));
        for (const socket of [client, server]) socket.on("error", () => undefined);
        client.on("close", () => {
            this.pairs.delete(pair);
            server.destroy();
        });
        /* A server that answers and closes: the end is held with the answer. */
        server.on("close", () => {
            pair.serverEnded = true;
            if (pair.heldAfter === undefined) client.end();
        });
    }

    private fromClient(pair: Pair, chunk: Buffer): void {
        const hold = this.hold_;
        if (hold !== undefined && hold.wanted.test(chunk.toString("latin1"))) {
            this.hold_ = undefined;
            if (hold.side === "before") {
                hold.reached = true;
                pair.heldBefore = true;
            } else {
                pair.heldAfter = hold;
            }
        }
        if (pair.heldBefore) pair.toServer.push(chunk);
        else pair.server.write(chunk);
    }

    private fromServer(pair: Pair, chunk: Buffer): void {
        if (pair.heldAfter === undefined) {
            pair.client.write(chunk);
            return;
        }
        const hold = pair.heldAfter;
        if (hold.not?.test(chunk.toString("latin1")) === true) {
            pair.heldAfter = undefined;
            this.hold_ = hold;
            pair.client.write(chunk);
            return;
        }
        hold.reached = true;
        pair.toClient.push(chunk);
    }
}
