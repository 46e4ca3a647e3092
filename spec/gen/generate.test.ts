import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { readIfThere, render, ROOT } from "./generate.ts";
import { check } from "./model.ts";
import type { Spec } from "./model.ts";
import { validate } from "./schema.ts";
import type { Schema } from "./schema.ts";

const spec = (): Spec => JSON.parse(readFileSync(join(ROOT, "spec/messages.json"), "utf8")) as Spec;
const schema = JSON.parse(readFileSync(join(ROOT, "spec/messages.schema.json"), "utf8")) as Schema;

function problemsAfter(change: (s: Spec) => void): string[] {
  const changed = spec();
  change(changed);
  return [...validate(schema, changed), ...check(changed)];
}

test("committed files are what the specification says", () => {
  const rendered = render();
  assert.ok(rendered.size >= 4);
  for (const [path, text] of rendered) assert.equal(readIfThere(join(ROOT, path)), text, path);
});

test("generated files name their source in the first line", () => {
  for (const [path, text] of render()) assert.match(text.split("\n")[0] ?? "", /Generated from spec\/messages\.json/, path);
});

test("the specification keeps its own rules", () => {
  assert.deepEqual(problemsAfter(() => {}), []);
});

const breakages: [string, (s: Spec) => void, RegExp][] = [
  ["a message id used twice", (s) => { s.messages[1]!.id = s.messages[0]!.id; }, /256 is used twice/],
  ["an error code used twice", (s) => { s.errors[1]!.code = 1; }, /errors: 1 is used twice/],
  ["a message in the group of other links", (s) => { s.messages[0]!.links = ["receiver"]; s.messages[0]!.from = "any"; }, /different links/],
  ["a group without room", (s) => {
    const first = s.messages[0]!;
    s.messages = Array.from({ length: 16 }, (_, i) => ({ ...first, id: 256 + i, name: `m${i}` }));
  }, /no room left/],
  ["a missing doc", (s) => { delete (s.messages[0] as Partial<Spec["messages"][0]>).doc; }, /doc is missing/],
  ["an error that does not exist", (s) => { s.messages[0]!.errors!.push("no_such"); }, /no error no_such/],
  ["a string without bound", (s) => { delete s.messages[0]!.params["socket"]!.max; }, /string needs max/],
  ["an integer with reversed bounds", (s) => { s.messages[1]!.result!["agents"]!.min = 2000000; }, /min is above max/],
  ["an unknown key", (s) => { (s.messages[0] as Record<string, unknown>)["surface"] = "pi"; }, /surface is unknown/],
  ["a notification with a result", (s) => { s.messages.find((m) => m.kind === "notification")!.result = {}; }, /have a result/],
  ["a sender that is on no link", (s) => { s.messages[0]!.from = "pi_ext"; }, /pi_ext is on no link/],
  ["a service that session_request does not list", (s) => { s.services.pop(); }, /lists other names/],
  ["a payload bound that does not match the frame bound", (s) => { s.limits[1]!.value = 65512; }, /less tag and header/],
];

for (const [name, change, expected] of breakages) {
  test(`refused: ${name}`, () => {
    assert.match(problemsAfter(change).join("\n"), expected);
  });
}

test("a schema keyword that the checker does not know is a problem", () => {
  assert.match(validate({ oneOf: [] } as unknown as Schema, 1).join(), /oneOf is not understood/);
});
