/*
 * `shepherdr doctor` of one machine beside a warm connect over the same transport: the look at every
 * layer may cost half a login, no more.
 */

import * as path from "node:path";
import { ms, line, type Line } from "./report.ts";
import { binDir, type Rig } from "./rig.ts";
import { median, ratioOf } from "./stats.ts";

const MOST = 1.5;

export async function doctor(rig: Rig, rounds: number): Promise<Line[]> {
    const lines: Line[] = [];
    const program = path.join(binDir, "shepherdr");
    for (const transport of ["openssh", ...(rig.libssh ? ["libssh" as const] : [])] as const) {
        rig.use(transport);
        const warm: number[] = [], looks: number[] = [];
        await rig.link.do("open", 1);
        await rig.link.do("shut");
        for (let i = 0; i < rounds; i++) {
            await rig.quiet();
            warm.push((await rig.link.do("open", 1)).us[0] ?? NaN);
            await rig.link.do("shut");
            await rig.quiet();
            looks.push(await rig.timed(program, ["doctor", rig.firstId]));
        }
        lines.push(line(`doctor.${transport}`, `doctor of one machine (${transport})`,
            `${ms(median(looks))}; warm connect ${ms(median(warm))}`, ratioOf(looks, warm), "×",
            { text: `≤ ${MOST} × warm connect`, most: MOST }));
    }
    rig.use("openssh");
    return lines;
}
