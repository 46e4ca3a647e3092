// Real Pi in a pane of the stand-in: started by agent.start, its status by the integration.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { Machine, machineMissing } from "../support/machine.ts";
import { ModelServer } from "../support/model-server.ts";
import { piPrint } from "../support/pi.ts";
import { until, Wire, type Json } from "./harness.ts";

const skip = machineMissing() ?? false;

interface Agent {
    agent?: string;
    agent_status: string;
    interactive_ready?: boolean;
    screen_detection_skipped?: boolean;
    agent_session?: { source: string; agent: string; kind: string; value: string };
}

/** Raises and lowers the flag that question tools raise. */
const BLOCKER = `export default function (pi) {
    pi.registerCommand("block", { handler: async (args) => {
        pi.events.emit("herdr:blocked", { active: args === "on", label: "a question" });
    } });
}
`;

test("agent.start with real Pi: ready, prompted, working, done, blocked, released", { skip }, async (t) => {
    const model = await ModelServer.start([{ when: { last: "say it" }, answer: { text: "said by the model" } }]);
    const machine = await Machine.create({ name: "i", modelUrl: model.url() });
    t.after(async () => {
        await machine.stop();
        await model.stop();
    });
    const blocker = path.join(machine.project, "blocker.ts");
    fs.writeFileSync(blocker, BLOCKER);
    const call = <T>(method: string, params: object): Promise<T> => machine.herdr.call<T>(method, params);
    const { root_pane } = await call<{ root_pane: { pane_id: string } }>("workspace.create", { cwd: machine.project });
    const pane_id = root_pane.pane_id;
    const wire = new Wire(machine.herdr.socketPath).send({
        id: "s",
        method: "events.subscribe",
        params: { subscriptions: [{ type: "pane.agent_status_changed", pane_id }, { type: "pane.agent_detected" }] },
    });
    t.after(() => wire.close());
    await wire.line();
    const seen: Json[] = [];
    const waitStatus = (status: string): Promise<boolean> =>
        until(`an event with ${status}`, () => {
            seen.push(...wire.taken());
            const at = seen.findIndex((e) => e.data.agent_status === status);
            if (at >= 0) seen.splice(0, at + 1);
            return at >= 0 || undefined;
        });

    await until("an idle shell", () =>
        call("agent.start", { name: "worker", kind: "pi", pane_id, args: ["--name", "my worker", "-e", blocker] }).then(
            () => true,
            () => undefined,
        ),
    );
    const agent = await until("an interactive Pi", async () => {
        const got = (await call<{ agent: Agent }>("agent.get", { target: "worker" })).agent;
        return got.interactive_ready && got.screen_detection_skipped ? got : undefined;
    });
    assert.deepEqual([agent.agent, agent.agent_status, agent.screen_detection_skipped], ["pi", "idle", true]);
    assert.deepEqual([agent.agent_session?.source, agent.agent_session?.kind], ["herdr:pi", "path"]);
    const file = agent.agent_session?.value ?? "";
    assert.match(file, /\.jsonl$/);

    wire.taken();
    await call("agent.prompt", { target: "worker", text: "say it" });
    await waitStatus("working");
    await waitStatus("done");
    await until("the session file", () => (fs.existsSync(file) && fs.readFileSync(file, "utf8").includes("said by the model")) || undefined);

    await call("agent.prompt", { target: "worker", text: "/block on" });
    await waitStatus("blocked");
    await assert.rejects(call("agent.prompt", { target: "worker", text: "x" }), /agent_blocked/);
    await call("pane.send_input", { pane_id, text: "/block off", keys: ["enter"] });
    await waitStatus("done");

    await call("pane.send_input", { pane_id, text: "/quit", keys: ["enter"] });
    await until("the release", () => {
        seen.push(...wire.taken());
        return seen.some((e) => e.data.released === true) || undefined;
    });
    const pane = (await call<{ pane: Agent }>("pane.get", { pane_id })).pane;
    assert.deepEqual([pane.agent, pane.agent_session, pane.agent_status], [undefined, undefined, "unknown"]);
    assert.equal(machine.herdr.schemaProblem(), undefined);
});

test("a print run in Herdr's environment reports nothing", { skip }, async (t) => {
    const model = await ModelServer.start([{ when: { last: "say it" }, answer: { text: "said by the model" } }]);
    const machine = await Machine.create({ name: "i", modelUrl: model.url() });
    t.after(async () => {
        await machine.stop();
        await model.stop();
    });
    const { root_pane } = await machine.herdr.call<{ root_pane: { pane_id: string } }>("workspace.create", { cwd: machine.project });
    const env = { HERDR_ENV: "1", HERDR_SOCKET_PATH: machine.herdr.socketPath, HERDR_PANE_ID: root_pane.pane_id };
    const result = await piPrint(machine, "say it", { env });
    assert.match(result.stdout, /said by the model/);
    assert.deepEqual(machine.herdr.requests("pane.report_agent"), []);
    assert.deepEqual(machine.herdr.requests("pane.report_agent_session"), []);
});
