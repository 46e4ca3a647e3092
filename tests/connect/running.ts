/*
 * A controller that runs for the length of a test, as it does beside a Pi session, driven by the
 * extension's own client: what a person repairs meanwhile must work without a restart.
 */

import { randomUUID } from "node:crypto";
import * as fs from "node:fs";
import * as path from "node:path";
import type { TestContext } from "node:test";
import { Controller } from "../../pi-ext/src/controller.ts";
import type { ConnectRig, MachineRow } from "../support/connect.ts";
import { LONG_MS, until } from "../support/process.ts";
import { shepherdrBin } from "../support/world.ts";

const ASK_MS = 60_000;

export class Running {
    private readonly controller: Controller;

    private constructor(controller: Controller) {
        this.controller = controller;
    }

    /** Connects every machine of the rig's catalog at once. Ends with the test. */
    static async start(t: TestContext, rig: ConnectRig): Promise<Running> {
        const env = rig.env();
        const agentDir = path.join(rig.home, ".pi", "agent");
        const controller = new Controller({
            find: () => ({ path: shepherdrBin, looked: [] }),
            env,
            context: () => ({
                pi_session_id: randomUUID(),
                agent_dir: agentDir,
                home: rig.home,
                cwd: rig.home,
                mode: "tui",
                eager: true,
                herdr_bin: env["HERDR_BIN_PATH"]!,
                herdr_socket: path.join(rig.dir, "no-herdr.sock"),
                ...(env["SSH_AUTH_SOCK"] === undefined ? {} : { ssh_auth_sock: env["SSH_AUTH_SOCK"] }),
            }),
            onReport: () => true,
            onNotice: () => undefined,
        });
        t.after(() => controller.stop());
        controller.wake();
        await until(() => controller.running, { what: "the controller", deadlineMs: LONG_MS });
        return new Running(controller);
    }

    get pid(): number | undefined {
        return this.controller.pid;
    }

    /** Rows by name. */
    async rows(params: { reconnect?: string; refresh?: boolean } = {}): Promise<Map<string, MachineRow>> {
        const text = await this.controller.machines(params, ASK_MS);
        if (text === undefined) throw new Error("the controller does not run");
        return new Map((JSON.parse(text) as MachineRow[]).map((row) => [row.label, row]));
    }

    /** The rows once none of these machines is on its way any more. */
    async settled(names: string[]): Promise<Map<string, MachineRow>> {
        let rows = new Map<string, MachineRow>();
        await until(
            async () => {
                rows = await this.rows();
                return names.every((name) => !["idle", "connecting"].includes(rows.get(name)?.status ?? "idle"));
            },
            { what: `an end of connecting ${names.join(", ")}`, deadlineMs: LONG_MS * 2, dump: () => JSON.stringify([...rows.values()]) },
        );
        return rows;
    }
}

/** Every byte that a controller left below its agent directory, the helper apart. */
export function leftBy(rig: ConnectRig): string {
    const read = (dir: string): string =>
        fs.readdirSync(dir, { withFileTypes: true }).map((entry) => {
            const file = path.join(dir, entry.name);
            if (entry.isDirectory()) return entry.name === "bin" ? "" : read(file);
            return entry.isFile() ? fs.readFileSync(file, "latin1") : "";
        }).join("");
    return read(path.join(rig.home, ".pi"));
}
