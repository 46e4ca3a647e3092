// Agents and events of the stand-in, through its real binary, sockets and terminals.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { report, sim, startPi, status, until, type Json } from "./harness.ts";

describe("herdr-sim agents and events", { concurrency: 4 }, () => {
    // Agents

    test("agent.start types the command, and only agent.get makes it ready after the settle time", async (t) => {
        const s = await sim(t, { env: { HERDR_SIM_SETTLE_MS: "1500" } });
        const started = await s.ok("agent.start", { name: "worker", kind: "pi", pane_id: "w1:p1", args: ["--name", "it's $HOME", ""] });
        assert.deepEqual(started.argv, ["pi", "--name", "it's $HOME", ""]);
        assert.equal(started.agent.launch_pending, true);
        assert.equal(started.agent.name, "worker");
        await until("recognition through agent.list", async () => (((await s.ok("agent.list")).agents as Json[])[0]?.agent === "pi" || undefined));
        await s.ok("pane.wait_for_output", { pane_id: "w1:p1", source: "visible", match: { type: "substring", value: "pi started with: --name it's $HOME" }, timeout_ms: 10_000 });
        assert.equal(await s.error("agent.prompt", { target: "worker", text: "x" }), "agent_not_ready");
        await sleep(1_600);
        assert.equal((((await s.ok("agent.list")).agents as Json[])[0] as Json).launch_pending, true);
        const ready = (await s.ok("agent.get", { target: "w1:p1" })).agent;
        assert.equal(ready.interactive_ready, true);
        assert.equal("launch_pending" in ready, false);
        assert.equal(ready.agent_status, "idle");
        await s.ok("agent.prompt", { target: "worker", text: "hello there" });
        await s.ok("pane.wait_for_output", { pane_id: "w1:p1", source: "visible", match: { type: "substring", value: "pi heard: hello there" }, timeout_ms: 10_000 });
    });

    test("agent.start refusals", async (t) => {
        const s = await sim(t, { env: { HERDR_SIM_SHELL_BUSY_MS: "400" } });
        const start = (extra: Json): Promise<string> => s.error("agent.start", { name: "a", kind: "pi", pane_id: "w1:p1", ...extra });
        const second = await s.ok("tab.create", {});
        assert.equal(await start({ pane_id: second.root_pane.pane_id }), "agent_pane_busy");
        await sleep(450);
        assert.equal(await start({ name: "Bad" }), "invalid_agent_name");
        assert.equal(await start({ kind: "vi" }), "unsupported_agent_kind");
        assert.equal(await start({ args: ["a\nb"] }), "invalid_agent_argument");
        assert.equal(await start({ timeout_ms: 3000 }), "invalid_agent_timeout");
        assert.equal(await start({ timeout_ms: 300_001 }), "invalid_agent_timeout");
        assert.equal(await start({ pane_id: "w1:p9" }), "agent_pane_not_found");
        await startPi(s, "a");
        assert.equal(await start({ pane_id: second.root_pane.pane_id }), "agent_name_taken");
        assert.equal(await start({ name: "b" }), "agent_pane_busy");
        assert.equal(await s.error("agent.get", { target: "nobody" }), "agent_not_found");
        assert.equal(await s.error("agent.rename", { target: "a", name: "-x" }), "invalid_agent_name");
        assert.equal((await s.ok("agent.rename", { target: "a", name: "c" })).agent.name, "c");
        assert.equal(await s.error("agent.send_keys", { target: "c", keys: ["enter", "nokey"] }), "invalid_key");
        assert.equal(await s.error("agent.prompt", { target: "c", text: "" }), "empty_agent_prompt");
    });

    test("a launch that never shows an agent loses its name after the timeout", async (t) => {
        const s = await sim(t);
        s.script("pi", "#!/bin/sh\nexit 3\n");
        await s.ok("agent.start", { name: "gone", kind: "pi", pane_id: "w1:p1", timeout_ms: 3001 });
        assert.equal((await s.ok("agent.get", { target: "gone" })).agent.launch_pending, true);
        await sleep(3_100);
        assert.equal(await s.error("agent.get", { target: "gone" }), "agent_not_found");
        assert.deepEqual((await s.ok("agent.list")).agents, []);
    });

    test("herdr:pi reports count only while Pi owns the foreground, unless the switch says otherwise", async (t) => {
        const s = await sim(t);
        await s.ok("pane.report_agent", report(10, "working"));
        assert.equal(await status(s), "unknown");
        assert.deepEqual((await s.ok("agent.list")).agents, []);
        await startPi(s);
        await s.ok("pane.report_agent_session", { pane_id: "w1:p1", source: "herdr:pi", agent: "pi", seq: 11, agent_session_path: "/x/s.jsonl", agent_session_id: "i", session_start_source: "startup" });
        await s.ok("pane.report_agent", report(12, "working"));
        const agent = (await s.ok("agent.get", { target: "a1" })).agent;
        assert.equal(agent.agent_status, "working");
        assert.equal(agent.screen_detection_skipped, true);
        assert.deepEqual(agent.agent_session, { source: "herdr:pi", agent: "pi", kind: "path", value: "/x/s.jsonl" });
        await s.ok("pane.send_text", { pane_id: "w1:p1", text: "quit\r" });
        await until("the release", async () => ((await s.ok("agent.list")).agents as Json[]).length === 0 || undefined);
        const pane = (await s.ok("pane.get", { pane_id: "w1:p1" })).pane;
        assert.equal(pane.agent_status, "unknown");
        assert.equal("agent_session" in pane, false);
        await s.control({ cmd: "set", foreground_rule: false });
        await s.ok("pane.report_agent", report(13, "blocked"));
        assert.equal(await status(s), "blocked");
    });

    test("suspending Pi loses the agent; a custom source needs no foreground", async (t) => {
        const s = await sim(t);
        await startPi(s);
        await s.ok("pane.send_keys", { pane_id: "w1:p1", keys: ["ctrl+z"] });
        await until("the release", async () => ((await s.ok("agent.list")).agents as Json[]).length === 0 || undefined);
        await s.ok("pane.report_agent", { pane_id: "w1:p1", source: "custom:x", agent: "mine", state: "working", agent_session_path: "/dropped" });
        const agent = (await s.ok("agent.get", { target: "w1:p1" })).agent;
        assert.deepEqual([agent.agent, agent.agent_status, "agent_session" in agent], ["mine", "working", false]);
        await s.ok("pane.release_agent", { pane_id: "w1:p1", source: "custom:y", agent: "mine" });
        assert.equal(await status(s), "working");
        await s.ok("pane.release_agent", { pane_id: "w1:p1", source: "custom:x", agent: "mine" });
        assert.equal(await status(s), "unknown");
        assert.equal(await s.error("pane.report_agent", { pane_id: "w1:p1", source: "custom:x", agent: " ", state: "idle" }), "invalid_agent");
    });

    test("seq: not above the last is ok and ignored; once used, reports without it are ignored", async (t) => {
        const s = await sim(t, { env: { HERDR_SIM_FOREGROUND_RULE: "0" } });
        await s.ok("pane.report_agent", report(undefined, "working"));
        assert.equal(await status(s), "working");
        await s.ok("pane.report_agent", report(1_790_000_000_000_000, "blocked"));
        assert.equal(await status(s), "blocked");
        await s.ok("pane.report_agent", report(1_790_000_000_000_000, "working"));
        await s.ok("pane.report_agent", report(5, "working"));
        await s.ok("pane.report_agent", report(undefined, "working"));
        await s.ok("pane.clear_agent_authority", { pane_id: "w1:p1", source: "herdr:pi", seq: 4 });
        assert.equal(await status(s), "blocked");
        await s.ok("pane.report_agent", report(1_790_000_000_000_001, "working"));
        assert.equal(await status(s), "working");
    });

    test("done until seen; looking emits nothing and changes no state_change_seq", async (t) => {
        const s = await sim(t);
        await startPi(s);
        const second = await s.ok("tab.create", { focus: true });
        const wire = await s.subscribe({ type: "pane.agent_status_changed", pane_id: "w1:p1" });
        await s.ok("pane.report_agent", report(1, "working"));
        await s.ok("pane.report_agent", report(2, "idle"));
        assert.equal((await wire.line()).data.agent_status, "working");
        assert.equal((await wire.line()).data.agent_status, "done");
        await s.ok("pane.read", { pane_id: "w1:p1", source: "visible" });
        const before = (await s.ok("agent.get", { target: "a1" })).agent;
        assert.equal(before.agent_status, "done");
        assert.equal((await s.ok("workspace.get", { workspace_id: "w1" })).workspace.agent_status, "done");
        const after = (await s.ok("agent.focus", { target: "a1" })).agent;
        assert.equal(after.agent_status, "idle");
        assert.equal(after.state_change_seq, before.state_change_seq);
        await s.control({ cmd: "set", viewer: true });
        await s.ok("pane.report_agent", report(3, "working"));
        await s.ok("pane.report_agent", report(4, "idle"));
        assert.equal(await status(s), "idle");
        await s.ok("tab.focus", { tab_id: second.tab.tab_id });
        assert.deepEqual([(await wire.line()).data.agent_status, (await wire.line()).data.agent_status], ["working", "idle"]);
        await sleep(250);
        assert.deepEqual(wire.taken(), []);
        wire.close();
    });

    test("agent.wait and agent.prompt with wait: settled, stalled, blocked, not running", async (t) => {
        const s = await sim(t);
        await startPi(s);
        await s.ok("pane.report_agent", report(1, "working"));
        const wait = s.open().send({ id: "w", method: "agent.wait", params: { target: "a1", timeout_ms: 10_000 } });
        await sleep(150);
        await s.ok("pane.report_agent", report(2, "idle"));
        assert.equal((await wait.line()).result.agent.agent_status, "done");
        const prompt = s.open().send({ id: "p", method: "agent.prompt", params: { target: "a1", text: "go", wait: { timeout_ms: 10_000 } } });
        await s.ok("pane.wait_for_output", { pane_id: "w1:p1", source: "visible", match: { type: "substring", value: "pi heard: go" }, timeout_ms: 10_000 });
        await s.ok("pane.report_agent", report(3, "working"));
        await s.ok("pane.report_agent", report(4, "idle"));
        assert.equal((await prompt.line()).result.type, "agent_prompted");
        const stalled = await s.call("agent.prompt", { target: "a1", text: "nothing", wait: {} });
        assert.equal(stalled.error.code, "agent_prompt_stalled");
        await s.ok("pane.report_agent", report(5, "blocked"));
        assert.equal(await s.error("agent.prompt", { target: "a1", text: "x" }), "agent_blocked");
        const gone = s.open().send({ id: "g", method: "agent.wait", params: { target: "a1", until: ["working"] } });
        await sleep(150);
        await s.ok("pane.send_text", { pane_id: "w1:p1", text: "quit\r" });
        assert.equal((await gone.line()).error.code, "agent_not_running");
        assert.equal(await s.error("agent.wait", { target: "a1" }), "agent_not_found");
    });

    test("launch_stuck keeps a launch pending for ever", async (t) => {
        const s = await sim(t, { env: { HERDR_SIM_LAUNCH_STUCK: "1" } });
        await s.ok("agent.start", { name: "stuck", kind: "pi", pane_id: "w1:p1" });
        await sleep(600);
        const { agent } = await s.ok("agent.get", { target: "stuck" });
        assert.deepEqual([agent.launch_pending, agent.agent], [true, "pi"]);
        assert.equal(await s.error("agent.prompt", { target: "stuck", text: "x" }), "agent_not_ready");
    });

    test("a pane moved to another workspace: new id, same terminal, the old id stays an alias", async (t) => {
        const s = await sim(t, { env: { HERDR_SIM_DRAIN: "1" } });
        await startPi(s);
        await s.ok("tab.create", { workspace_id: "w1" });
        const before = (await s.ok("pane.get", { pane_id: "w1:p1" })).pane;
        const wire = await s.subscribe({ type: "pane.moved" });
        const wait = s.open().send({ id: "w", method: "agent.wait", params: { target: "a1", until: ["working"] } });
        await sleep(150);
        const moved = (await s.ok("pane.move", { pane_id: "w1:p1", destination: { type: "new_workspace", label: "far" } })).move_result;
        assert.deepEqual([moved.changed, moved.previous_pane_id, moved.pane.pane_id, moved.closed_tab_id, moved.created_workspace.label], [true, "w1:p1", "w2:p1", "w1:t1", "far"]);
        assert.equal(moved.pane.terminal_id, before.terminal_id);
        assert.equal((await wire.line()).data.previous_pane_id, "w1:p1");
        assert.equal((await wait.line()).error.code, "agent_not_running");
        assert.equal((await s.ok("pane.get", { pane_id: "w1:p1" })).pane.pane_id, "w2:p1");
        assert.equal((await s.ok("pane.current", { caller_pane_id: "w1:p1" })).pane.pane_id, "w2:p1");
        assert.equal(await s.error("agent.get", { target: "w1:p1" }), "agent_not_found");
        assert.equal((await s.ok("agent.get", { target: "a1" })).agent.pane_id, "w2:p1");
        await s.ok("pane.report_agent", report(1, "working"));
        assert.equal(await status(s, "w2:p1"), "working");
        const back = (await s.ok("pane.move", { pane_id: "w2:p1", destination: { type: "tab", tab_id: "w1:t2", split: "down" } })).move_result;
        assert.deepEqual([back.pane.pane_id, back.closed_workspace_id, (back.target_layout.panes as Json[]).length], ["w1:p3", "w2", 2]);
        assert.equal((await s.ok("pane.move", { pane_id: "w1:p3", destination: { type: "tab", tab_id: "w1:t2", split: "down" } })).move_result.reason, "same_tab");
        const out = (await s.ok("pane.move", { pane_id: "w1:p3", destination: { type: "new_tab", label: "x" } })).move_result;
        assert.deepEqual([out.pane.pane_id, out.created_tab.label, out.source_layout.panes.length], ["w1:p3", "x", 1]);
        assert.equal(await s.error("pane.move", { pane_id: "w1:p3", destination: { type: "tab", tab_id: "w9:t1", split: "down" } }), "tab_not_found");
        assert.equal(await s.error("pane.move", { pane_id: "w1:p3", destination: { type: "popup" } }), "invalid_request");
        wire.close();
    });

    // Events

    test("the events of each change; no pane_closed on tab or workspace close, no event on pane.rename", async (t) => {
        const s = await sim(t, { env: { HERDR_SIM_DRAIN: "1" } });
        const kinds = ["workspace.created", "workspace.closed", "tab.created", "tab.closed", "pane.created", "pane.closed", "pane.exited", "pane.updated", "pane.agent_detected", "layout.updated", "workspace.focused", "tab.focused", "pane.focused"];
        // Entries are visited in request order, so the order across kinds is not the source's.
        const wire = await s.subscribe(...kinds.map((type) => ({ type })));
        const take = async (count: number): Promise<Json[]> => {
            const out: Json[] = [];
            while (out.length < count) out.push(await wire.line(`event ${out.length + 1} of ${count}`));
            await sleep(250);
            return [...out, ...wire.taken()];
        };
        const names = (events: Json[]): string[] => events.map((e) => e.event as string).sort();
        await s.ok("workspace.create", { cwd: s.home, focus: true });
        const created = await take(7);
        assert.deepEqual(names(created), ["layout_updated", "pane_created", "pane_focused", "tab_created", "tab_focused", "workspace_created", "workspace_focused"]);
        for (const e of created) assert.equal(e.data.type, e.event);
        await s.ok("pane.split", { direction: "right", target_pane_id: "w2:p1" });
        assert.deepEqual(names(await take(2)), ["layout_updated", "pane_created"]);
        await s.ok("pane.close", { pane_id: "w2:p2" });
        assert.deepEqual(names(await take(2)), ["layout_updated", "pane_closed"]);
        await s.ok("pane.rename", { pane_id: "w2:p1", label: "x" });
        await s.ok("tab.create", { workspace_id: "w2" });
        assert.deepEqual(names(await take(3)), ["layout_updated", "pane_created", "tab_created"]);
        await s.ok("tab.close", { tab_id: "w2:t2" });
        assert.deepEqual(names(await take(1)), ["tab_closed"]);
        await s.ok("workspace.close", { workspace_id: "w2" });
        assert.deepEqual(names(await take(1)), ["workspace_closed"]);
        await s.ok("pane.send_text", { pane_id: "w1:p1", text: "exit\r" });
        assert.deepEqual(names(await take(1)), ["pane_exited"]);
        assert.deepEqual((await s.ok("workspace.list")).workspaces, []);
        wire.close();
    });

    test("an exiting agent pane: detected released, then exited", async (t) => {
        const s = await sim(t);
        const wire = await s.subscribe({ type: "pane.agent_detected" });
        await startPi(s);
        assert.equal((await wire.line()).data.agent, "pi");
        await s.ok("pane.report_agent", report(1, "working"));
        const info = (await s.ok("pane.process_info", { pane_id: "w1:p1" })).process_info;
        process.kill(info.foreground_process_group_id as number, "SIGKILL");
        const released = await wire.line();
        assert.deepEqual(released.data, { type: "pane_agent_detected", pane_id: "w1:p1", workspace_id: "w1", released: true, final_status: "working" });
        assert.equal((await s.ok("pane.get", { pane_id: "w1:p1" })).pane.agent_status, "unknown");
        wire.close();
    });

    test("live only by default, replay by switch; one event per poll and entry, or all", async (t) => {
        const s = await sim(t);
        const wire = await s.subscribe({ type: "workspace.created" }, { type: "workspace.updated" });
        const start = Date.now();
        await s.control({ cmd: "burst", count: 8 });
        for (let i = 0; i < 8; i++) assert.equal((await wire.line()).event, "workspace_updated");
        assert.ok(Date.now() - start >= 650, "eight polls of 100 ms");
        wire.close();
        await s.control({ cmd: "set", replay: true, drain: true });
        const replayed = await s.subscribe({ type: "workspace.created" }, { type: "workspace.updated" });
        const first = await replayed.line();
        assert.equal(first.event, "workspace_created");
        for (let i = 0; i < 8; i++) assert.equal((await replayed.line()).event, "workspace_updated");
        replayed.close();
    });

    test("a burst beyond 512 is lost silently, or said with events_lost", async (t) => {
        const s = await sim(t, { env: { HERDR_SIM_DRAIN: "1" } });
        const silent = await s.subscribe({ type: "workspace.updated" });
        await s.control({ cmd: "burst", count: 600 });
        for (let i = 0; i < 512; i++) await silent.line();
        await sleep(250);
        assert.deepEqual([silent.taken().length, silent.closed], [0, false]);
        silent.close();
        await s.control({ cmd: "set", events_lost: true });
        const said = await s.subscribe({ type: "workspace.updated" });
        await s.control({ cmd: "burst", count: 600 });
        const lost = await said.line();
        assert.deepEqual([lost.id, lost.error.code], ["sub", "events_lost"]);
        await said.end();
    });

    test("scoped entries: initial event with a matching filter, mute after the pane dies, output matches", async (t) => {
        const s = await sim(t, { env: { HERDR_SIM_FOREGROUND_RULE: "0" } });
        await s.ok("tab.create", {});
        await s.ok("pane.report_agent", report(1, "working"));
        const filtered = await s.subscribe({ type: "pane.agent_status_changed", pane_id: "w1:p1", agent_status: "working" });
        assert.deepEqual(await filtered.line(), { event: "pane.agent_status_changed", data: { pane_id: "w1:p1", workspace_id: "w1", agent_status: "working", agent: "pi" } });
        const output = await s.subscribe({ type: "pane.output_matched", pane_id: "w1:p1", source: "recent", match: { type: "substring", value: "needle" } });
        await s.ok("pane.send_text", { pane_id: "w1:p1", text: "echo nee''dle\r" });
        const hit = await output.line();
        assert.equal(hit.event, "pane.output_matched");
        assert.equal(hit.data.matched_line, "needle");
        output.close();
        await s.ok("tab.close", { tab_id: "w1:t1" });
        await sleep(250);
        assert.deepEqual([filtered.taken(), filtered.closed], [[], false]);
        filtered.close();
        const failed = s.open().send({ id: "q", method: "events.subscribe", params: { subscriptions: [{ type: "pane.agent_status_changed", pane_id: "w1:p1" }] } });
        assert.equal((await failed.line()).error.code, "pane_not_found");
        await failed.end();
    });

    test("events.wait knows one event only", async (t) => {
        const s = await sim(t, { env: { HERDR_SIM_FOREGROUND_RULE: "0" } });
        const match = { event: "pane_agent_status_changed", pane_id: "w1:p1", agent_status: "working" };
        const wait = s.open().send({ id: "w", method: "events.wait", params: { match_event: match, timeout_ms: 10_000 } });
        await sleep(150);
        await s.ok("pane.report_agent", report(1, "working"));
        const event = (await wait.line()).result.event;
        assert.deepEqual([event.event, event.data.type, event.data.agent_status], ["pane_agent_status_changed", "pane_agent_status_changed", "working"]);
        assert.equal(await s.error("events.wait", { match_event: { event: "tab_closed", tab_id: "x" } }), "unsupported_event_wait_match");
        assert.equal(await s.error("events.wait", { match_event: { ...match, agent_status: "done" }, timeout_ms: 120 }), "timeout");
    });
});
