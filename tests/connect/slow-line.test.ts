/*
 * R11: a line of 2 Mbit/s, 50 ms there and back, that loses 1 of 100 packets, and on it a large
 * reply. What is small must not wait for what is large. SHP_SOAK=1: eight times as long.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { median, quantile } from "../bench/stats.ts";
import { SlowLine, slowLineMissing } from "../support/slow-line.ts";

const skip = slowLineMissing() ?? false;
const soak = process.env["SHP_SOAK"] === "1";
const RATE = 250_000;
const REPLY_BYTES = (soak ? 4096 : 512) * 1024;
const CANCELS = soak ? 20 : 3;
const GOAL_MS = 300;

test("R11: pings and cancels pass a large reply on a slow line", { skip }, async (t) => {
    const line = await SlowLine.create({ bytesPerSecond: RATE, delayMs: 25, lossPerMille: 10, queueBytes: 1024 * 1024, seed: 11 });
    if (typeof line === "string") {
        t.skip(`no slow line here: ${line}`);
        return;
    }
    t.after(() => line.stop());
    const connect = (await line.link.do("open", 1)).us[0]!;
    const idle = (await line.link.do("pings", 20)).us.map((us) => us / 1000);
    const busy = await line.link.do("busy", 1, REPLY_BYTES);
    const pings = busy.pings!.map((us) => us / 1000);
    const speed = REPLY_BYTES / (busy.us[0]! / 1e6);
    const cancels = (await line.link.do("cancel", CANCELS, 8 * 1024 * 1024)).us.map((us) => us / 1000);
    const ms = (value: number): string => `${value.toFixed(0)} ms`;
    t.diagnostic(`connect ${ms(connect / 1000)}; idle ping median ${ms(median(idle))}, most ${ms(Math.max(...idle))}`);
    t.diagnostic(`reply at ${(speed / 1000).toFixed(0)} kB/s of ${RATE / 1000}; ${pings.length} pings beside it: ` +
        `median ${ms(median(pings))}, p99 ${ms(quantile(pings, 0.99))} (goal ${GOAL_MS} ms)`);
    t.diagnostic(`ping right behind a cancel: median ${ms(median(cancels))}, most ${ms(Math.max(...cancels))}`);

    /* Without a window a ping waits for what the SSH channel and the sockets hold: two seconds and more. */
    const base = median(idle);
    assert.ok(base >= 50, `the line has its delay: ${base}`);
    assert.ok(pings.length >= 10, `${pings.length} pings`);
    assert.ok(median(pings) <= base + GOAL_MS, `median ${median(pings)}`);
    assert.ok(quantile(pings, 0.99) <= 5 * base + 2 * GOAL_MS, `p99 ${quantile(pings, 0.99)}`);
    assert.equal(cancels.length, CANCELS);
    assert.ok(median(cancels) <= base + 2 * GOAL_MS, `cancels ${cancels.join()}`);
    /* The window leaves the line to the reply. */
    assert.ok(speed >= RATE * 0.3, `${speed} bytes a second`);
});
