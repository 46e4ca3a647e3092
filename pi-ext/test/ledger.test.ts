/** What becomes of pushed reports, by the rules of spec/protocol.md section 10. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { removeRoot, tmpRoot } from "../../tests/support/process.ts";
import { Activity, PREFLIGHT_MS } from "../src/activity.ts";
import { Entries } from "../src/entries.ts";
import { ShepherdrError } from "../src/errors.ts";
import { Ledger } from "../src/ledger.ts";
import { FakePi, ticks } from "./support/fake-pi.ts";

const root = tmpRoot("ledger");
after(() => removeRoot(root));
let serial = 0;

function setup(saved = true) {
  const pi = new FakePi({ sessionId: "s", ...(saved ? { file: join(root, `${serial++}.jsonl`) } : {}) });
  const marks: string[] = [];
  const state = { down: false, now: 0 };
  const activity = new Activity(() => pi.idle, () => state.now);
  const ledger = new Ledger({
    pi: pi.pi,
    entries: new Entries(pi.ctx.sessionManager),
    activity,
    clock: () => state.now,
    mark: async (ids, mark) => {
      if (state.down) throw new ShepherdrError("link_lost");
      marks.push(...ids.map((id) => `${mark} ${id}`));
    },
  });
  const settled = (aborted: boolean): void => {
    activity.settled(aborted);
    ledger.markAbsent(state.now);
    ledger.flush();
  };
  pi.pi.on("agent_start", () => activity.runBegan());
  pi.pi.on("turn_start", () => activity.turnBegan());
  for (const name of ["message_end", "turn_end"] as const) {
    pi.pi.on(name as "turn_end", () => {
      ledger.check();
      ledger.flush();
    });
  }
  pi.pi.on("agent_settled", (event) => settled(event.aborted));
  pi.pi.on("session_before_compact", () => activity.compactionBegan());
  pi.pi.on("session_compact", () => {
    activity.compactionEnded();
    ledger.flush();
  });
  const push = (id: string): boolean => ledger.push({ id, details: { state: "finished" }, text: `report ${id}` });
  return { pi, ledger, activity, marks, state, push };
}

describe("ledger", () => {
  it("pushes into an idle session with a turn; provisional without a file, confirmed with it", async () => {
    const { pi, marks, push } = setup();
    assert.equal(push("r1"), true);
    await ticks();
    assert.deepEqual(pi.sent[0]?.options, { triggerTurn: true, deliverAs: "steer" });
    assert.equal(pi.sent[0]?.details?.["id"], "r1");
    assert.deepEqual(marks, ["provisional r1"]);
    await pi.answer("noted");
    await ticks();
    assert.deepEqual(marks, ["provisional r1", "confirmed r1"]);
  });

  it("takes a report once", async () => {
    const { pi, marks, push } = setup();
    push("r1");
    assert.equal(push("r1"), true);
    await ticks();
    await pi.answer("noted");
    await ticks();
    assert.equal(push("r1"), false);
    await ticks();
    assert.equal(pi.sent.length, 1);
    assert.deepEqual(marks.at(-1), "confirmed r1");
  });

  it("keeps one push outstanding and merges what comes meanwhile into one turn", async () => {
    const { pi, push, ledger } = setup();
    await pi.prompt("hello");
    push("r1");
    push("r2");
    push("r3");
    push("r4");
    assert.equal(pi.sent.length, 1);
    assert.equal(ledger.waiting, 3);
    await pi.answer("first");
    assert.deepEqual(pi.sent.map((s) => [s.details?.["id"], s.options.triggerTurn]), [
      ["r1", true],
      ["r2", false],
      ["r3", false],
      ["r4", true],
    ]);
    await pi.answer("second");
    await pi.answer("third");
    assert.equal(pi.messages("herdr-agent-event").length, 4);
    assert.equal(pi.idle, true);
  });

  it("marks absent what Escape dropped, and shows it again without waking the agent", async () => {
    const { pi, marks, push } = setup();
    await pi.prompt("hello");
    push("r1");
    await pi.abort();
    await ticks();
    assert.deepEqual(marks, ["absent r1"]);
    push("r1");
    await ticks();
    assert.equal(pi.sent.at(-1)?.options.triggerTurn, false);
    assert.equal(pi.idle, true);
    assert.deepEqual(marks, ["absent r1", "confirmed r1"]);
    push("r2");
    assert.equal(pi.sent.at(-1)?.options.triggerTurn, true);
  });

  it("wakes the agent again once a run began after the Escape", async () => {
    const { pi, push } = setup();
    await pi.prompt("hello");
    push("r1");
    await pi.abort();
    await pi.prompt("go on");
    push("r1");
    assert.equal(pi.sent.at(-1)?.options.triggerTurn, true);
  });

  it("holds pushes during compaction", async () => {
    const { pi, push } = setup();
    await pi.compact(async () => {
      push("r1");
      await ticks();
      assert.equal(pi.sent.length, 0);
    });
    assert.equal(pi.sent.length, 1);
  });

  it("lets a prompt that is on its way begin its run first", async () => {
    const { pi, push, ledger, activity, state } = setup();
    activity.inputSeen();
    push("r1");
    assert.equal(pi.sent.length, 0);
    await pi.prompt("hello");
    ledger.flush();
    assert.equal(pi.sent.length, 1);
    await pi.answer("a");
    await pi.answer("b");
    activity.inputSeen();
    push("r2");
    state.now += PREFLIGHT_MS;
    ledger.flush();
    assert.equal(pi.sent.length, 2);
  });

  it("repeats a mark that could not be told", async () => {
    const { pi, marks, push, state, ledger } = setup();
    state.down = true;
    push("r1");
    await ticks();
    await pi.answer("noted");
    await ticks();
    assert.deepEqual(marks, []);
    state.down = false;
    ledger.check();
    await ticks();
    assert.deepEqual(marks, ["confirmed r1"]);
  });

  it("marks absent what a run that never began has lost", async () => {
    const { pi, marks, push, ledger, state } = setup();
    pi.losing = true;
    push("r1");
    state.now = 100;
    ledger.markAbsent(-1);
    await ticks();
    assert.deepEqual(marks, []);
    ledger.markAbsent(50);
    await ticks();
    assert.deepEqual(marks, ["absent r1"]);
  });

  it("counts the result of a waiting call as the report, once it stands in the session", async () => {
    const { pi, marks, push, ledger } = setup();
    await pi.prompt("spawn one and wait");
    ledger.expectResult("r1");
    ledger.check();
    await ticks();
    assert.deepEqual(marks, []);
    await pi.toolResult({ status: "done", report: "r1" });
    await ticks();
    assert.deepEqual(marks, ["confirmed r1"]);
    assert.equal(push("r1"), false);
    assert.equal(pi.sent.length, 0);
    ledger.expectResult("r2");
    await pi.abort();
    await ticks();
    assert.equal(marks.at(-1), "absent r2");
    assert.equal(push("r2"), true);
  });

  it("has a bound", async () => {
    const { pi, push } = setup();
    await pi.prompt("hello");
    assert.throws(() => {
      for (let i = 0; i < 300; i++) push(`r${i}`);
    }, (error: ShepherdrError) => error.code === "receiver_busy");
  });

  it("stays provisional in a session that is never saved", async () => {
    const { pi, marks, push } = setup(false);
    push("r1");
    await ticks();
    await pi.answer("noted");
    await ticks();
    assert.deepEqual(marks, ["provisional r1"]);
  });
});
