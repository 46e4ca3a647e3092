/**
 * What is drawn, with Pi's own components and theme. Saved details are data of others: whatever
 * they hold, no control sequence passes and nothing throws.
 */
import assert from "node:assert/strict";
import { registerHooks } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { before, describe, it } from "node:test";
import { repoRoot } from "../../tests/support/process.ts";
import { missing } from "./support/pi-machine.ts";

const skip = missing();
if (skip !== false) console.log(`renderers.test.ts skipped: ${skip}`);

type Component = { render(width: number): readonly string[] };
type Message = { role: "custom"; customType: string; content: unknown; display: boolean; details?: unknown; timestamp: number };

describe("renderers", { skip }, () => {
  let r: typeof import("../src/renderers.ts");
  let theme: never;
  const hints = { keyText: () => "ctrl+o", keyHint: (_key: string, what: string) => `ctrl+o ${what}` };

  before(async () => {
    registerHooks({
      resolve(specifier, context, next) {
        // Ours only: Pi's own modules find each other.
        const ours = context.parentURL?.includes("/pi-ext/") === true;
        if (!ours || !specifier.startsWith("@earendil-works/")) return next(specifier, context);
        const file = join(repoRoot, ".deps/pi/node_modules", specifier, "dist/index.js");
        return next(pathToFileURL(file).href, context);
      },
    });
    const pi = await import("@earendil-works/pi-coding-agent");
    pi.initTheme("dark");
    // The theme that renderers get from Pi is its current one; only what they use of it matters here.
    const plain = (text: string): string => text;
    theme = { fg: (_color: string, text: string) => text, bg: (_color: string, text: string) => text, bold: plain } as never;
    r = await import("../src/renderers.ts");
  });

  const lines = (component: Component | undefined): string[] =>
    component!.render(80).map((line) => line.replace(/\u001b\[[0-9;]*m/gu, "").trimEnd());
  const text = (component: Component | undefined): string => lines(component).join("\n");
  const message = (content: unknown, details: unknown): Message => ({ role: "custom", customType: "x", content, display: true, details, timestamp: 0 });
  const draw = (kind: "renderAgentMessage" | "renderAgentEvent", content: unknown, details: unknown, expanded = false): string =>
    text(r[kind](message(content, details) as never, { expanded, outputPad: 0, ...hints } as never, theme) as Component);
  const result = (details: unknown, options: { expanded?: boolean; isPartial?: boolean; isError?: boolean; content?: unknown } = {}): string =>
    text(
      r.renderResult(
        { content: options.content ?? [{ type: "text", text: "{}" }], details } as never,
        { expanded: options.expanded ?? false, isPartial: options.isPartial ?? false },
        theme,
        { isError: options.isError ?? false, ...hints } as never,
      ) as Component,
    );

  it("names the call by its action and subject, whatever the arguments are", () => {
    const call = (args: unknown): string => text(r.renderCall(args as never, theme, {} as never) as Component);
    assert.equal(call({ action: "spawn", label: "fix\u001b[2J it\nnow", agent_type: "general", machine: "box" }), "agents spawn fix it now on box");
    assert.equal(call({}), "agents help");
    for (const odd of [undefined, null, 7, "x", [], { action: 7, target: {} }]) assert.equal(call(odd), "agents help");
  });

  it("shows state, subject and reply of a result", () => {
    assert.match(result({ spawned: true, machine: "box", name: "w1", status: "done", reply: "**All** fine" }), /^w1 · box · done\nAll fine$/u);
    assert.equal(result({ sent: true, target: "p1" }), "p1 · sent");
    assert.equal(result({}), "done");
    assert.equal(result(undefined), "done");
    assert.match(result({ target: "p1", odd: "\u001b]0;x\u0007y" }, { expanded: true }), /"odd": "\\u001b/u);
    assert.equal(result({ status: "working" }, { isPartial: true }), "working");
    assert.equal(result({}, { isError: true, content: [{ type: "text", text: "agent_blocked: \u001b[31mno" }] }), "agent_blocked: no");
  });

  it("cuts a long reply until it is expanded", () => {
    const reply = Array.from({ length: 40 }, (_, i) => `- line ${i}`).join("\n");
    assert.match(result({ target: "p1", reply }), /28 more lines \(ctrl\+o to expand\)/u);
    assert.match(result({ target: "p1", reply }, { expanded: true }), /line 39/u);
  });

  it("draws a message without its attribution line and with its sender", () => {
    const drawn = draw("renderAgentMessage", '<herdr_sender kind="task" host="h" />\nplease look', {
      id: "0".repeat(32),
      kind: "task",
      sender: { host: "laptop", name: "root\u001b]0;evil\u0007", workspace_name: "api" },
    });
    assert.match(drawn, /Task from root/u);
    assert.match(drawn, /laptop · api/u);
    assert.match(drawn, /please look/u);
    assert.doesNotMatch(drawn, /herdr_sender|evil/u);
  });

  it("draws a report by machine, name and state, with the response alone", () => {
    const details = { id: "r", machine: "m1", machineLabel: "build box", name: "w1", state: "failed", task: "look at it" };
    const content = '<agent_report state="failed" name="w1">\n<task>look at it</task>\n<response>It broke: a &lt; b &amp;amp; c.</response>\n</agent_report>';
    const drawn = draw("renderAgentEvent", content, details);
    assert.match(drawn, /build box · w1 · failed/u);
    assert.match(drawn, /It broke: a < b &amp; c\./u);
    assert.doesNotMatch(drawn, /agent_report|look at it/u);
    assert.match(draw("renderAgentEvent", content, details, true), /look at it[^]*It broke/u);
    assert.match(draw("renderAgentEvent", "<agent_report torn <response>", details), /agent_report torn/u);
  });

  it("falls back to the text when details are malformed, and lets no control sequence through", () => {
    const hostile = "a\u001b[2J\u001b]52;c;AAAA\u0007\u009b31mb";
    for (const details of [undefined, null, 7, "x", [], { id: 7 }, { sender: [], state: {} }, { state: hostile, name: hostile, sender: { host: hostile, name: hostile } }]) {
      for (const kind of ["renderAgentMessage", "renderAgentEvent"] as const) {
        for (const content of [hostile, [{ type: "text", text: hostile }, { type: "image", data: "" }, null]]) {
          const drawn = draw(kind, content, details);
          assert.match(drawn, /a31mb/u);
          assert.doesNotMatch(drawn, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]|52;c/u);
        }
        assert.doesNotThrow(() => draw(kind, undefined, details));
      }
    }
  });
});
