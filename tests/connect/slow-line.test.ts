/*
 * R11: a line of 2 Mbit/s, 50 ms there and back, that loses 1 of 100 packets, and on it a large
 * reply. What is small must not wait for what is large. SHP_SOAK=1: a reply twelve times as long.
 */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { median, quantile } from "../bench/stats.ts";
import { SLOW_LINE, SlowLine, slowLineMissing } from "../support/slow-line.ts";

const skip = slowLineMissing() ?? false;
const soak = process.env["SHP_SOAK"] === "1";
const REPLY_BYTES = (soak ? 4096 : 320) * 1024;
const CANCELS = soak ? 20 : 1;
const GOAL_MS = 300;

const ms = (value: number): string => `${value.toFixed(0)} ms`;
const inMs = (values: number[] | undefined): number[] => (values ?? []).map((us) => us / 1000);

async function crossing(t: TestContext, line: SlowLine, name: string): Promise<void> {
    const rate = SLOW_LINE.bytesPerSecond;
    const connect = inMs((await line.link.do("open", 1)).us)[0] ?? NaN;
    const idle = inMs((await line.link.do("pings", 5)).us);
    const busy = await line.link.do("busy", 1, REPLY_BYTES);
    const pings = inMs(busy.pings);
    const speed = REPLY_BYTES / ((busy.us[0] ?? NaN) / 1e6);
    const cancels = inMs((await line.link.do("cancel", CANCELS, 8 * 1024 * 1024)).us);
    await line.link.do("shut");
    t.diagnostic(`${name}: connect ${ms(connect)}; idle ping median ${ms(median(idle))}, most ${ms(Math.max(...idle))}`);
    t.diagnostic(`${name}: reply at ${(speed / 1000).toFixed(0)} kB/s of ${rate / 1000}; ${pings.length} pings beside it: ` +
        `median ${ms(median(pings))}, p99 ${ms(quantile(pings, 0.99))} (goal ${GOAL_MS} ms)`);
    t.diagnostic(`${name}: ping right behind a cancel: median ${ms(median(cancels))}, most ${ms(Math.max(...cancels))}`);

    /* Without a window a ping waits for what the SSH channel and the sockets hold: two seconds and more. */
    const base = median(idle);
    assert.ok(base >= 2 * SLOW_LINE.delayMs, `the line has its delay: ${base}`);
    assert.ok(pings.length >= 10, `${pings.length} pings`);
    assert.ok(median(pings) <= base + GOAL_MS, `median ${median(pings)}`);
    assert.ok(quantile(pings, 0.99) <= 5 * base + 2 * GOAL_MS, `p99 ${quantile(pings, 0.99)}`);
    assert.equal(cancels.length, CANCELS);
    assert.ok(median(cancels) <= base + 2 * GOAL_MS, `cancels ${cancels.join()}`);
    /* The window leaves the line to the reply. */
    assert.ok(speed >= rate * 0.3, `${speed} bytes a second`);
}

test("R11: pings and cancels pass a large reply on a slow line", { skip }, async (t) => {
    const line = await SlowLine.create(SLOW_LINE);
    if (typeof line === "string") {
        t.skip(`no slow line here: ${line}`);
        return;
    }
    t.after(() => line.stop());
    for (const transport of line.transports) {
        line.use(transport);
        await crossing(t, line, transport);
    }
});
