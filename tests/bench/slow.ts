/** Lines of a slow line: what is small beside what is large. */

import { SLOW_LINE, SlowLine } from "../support/slow-line.ts";
import { line, ms, type Line } from "./report.ts";
import { median, quantile } from "./stats.ts";

const MIB = 1024 * 1024;

/** A string: why there can be none here. replies: each a megabyte. */
export async function slowLine(replies: number): Promise<Line[] | string> {
    const slow = await SlowLine.create(SLOW_LINE);
    if (typeof slow === "string") return slow;
    const lines: Line[] = [];
    try {
        for (const transport of slow.transports) {
            slow.use(transport);
            await slow.link.do("open", 1);
            const idle = (await slow.link.do("pings", 20)).us;
            const busy = await slow.link.do("busy", replies, MIB);
            const cancels = (await slow.link.do("cancel", 5, 8 * MIB)).us;
            await slow.link.do("shut");
            const pings = busy.pings ?? [];
            lines.push(
                line(`slow.ping.${transport}`, `ping during 1 MiB replies, 2 Mbit/s, 50 ms, 1 % lost (${transport})`,
                    `idle ${ms(median(idle))}; median ${ms(median(pings))}; value: p99 of ${pings.length}`,
                    quantile(pings, 0.99) / 1000, "ms", { text: "p99 ≤ 300 ms", most: 300, absolute: true }),
                line(`slow.cancel.${transport}`, "the same, ping right behind a cancel", "",
                    median(cancels) / 1000, "ms"),
                line(`slow.speed.${transport}`, "the same, part of the line that the reply has", "",
                    MIB / (median(busy.us) / 1e6) / SLOW_LINE.bytesPerSecond, "×"),
            );
        }
    } finally {
        await slow.stop();
    }
    return lines;
}
