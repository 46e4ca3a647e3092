/*
 * After sleep: the controller stands still while every connection of its machines ends, and goes on.
 * Beside the login of as many machines at once in the same round: what is more is ours.
 */

import { line, ms, type Line } from "./report.ts";
import { SLEEPERS, type Rig } from "./rig.ts";
import { median } from "./stats.ts";

export async function woken(rig: Rig, rounds: number): Promise<Line[]> {
    const lines: Line[] = [];
    for (const transport of ["openssh", ...(rig.libssh ? ["libssh" as const] : [])] as const) {
        rig.use(transport);
        const logins: number[] = [], wakes: number[] = [];
        for (let i = 0; i < rounds; i++) {
            await rig.quiet();
            logins.push((await rig.link.do("open", SLEEPERS)).us[0] ?? NaN);
            await rig.link.do("want");
            await rig.sleep();
            wakes.push(await rig.wake());
            await rig.link.do("shut");
        }
        const excess = median(wakes.map((us, i) => us - (logins[i] ?? NaN))) / 1e6;
        lines.push(line(`wake.${transport}`, `wake → all links ready, ${SLEEPERS} machines (${transport})`,
            `${ms(median(wakes))}; login of ${SLEEPERS} at once ${ms(median(logins))}; value: what is more`,
            excess, "s", { text: "≤ 1 s + login", most: 1, absolute: true }));
    }
    await rig.quiet();
    rig.use("openssh");
    return lines;
}
