import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { readIfThere, ROOT } from "./generate.ts";
import { handshake, renderVectors, seal } from "./vectors.ts";

test("committed vectors are what the third implementation makes", () => {
  for (const [path, text] of renderVectors()) assert.equal(readIfThere(join(ROOT, path)), text, path);
});

test("the third implementation agrees with the public vectors", () => {
  type Vector = {
    init_prologue: string; init_psks: string[]; init_ephemeral: string; resp_ephemeral: string;
    handshake_hash: string; messages: { payload: string; ciphertext: string }[];
  };
  const file = JSON.parse(readFileSync(join(ROOT, "spec/vectors/noise.json"), "utf8")) as { vectors: Vector[] };
  assert.equal(file.vectors.length, 1);
  for (const v of file.vectors) {
    const hex = (s: string | undefined): Buffer => Buffer.from(s ?? "", "hex");
    const h = handshake(hex(v.init_prologue), hex(v.init_psks[0]), hex(v.init_ephemeral), hex(v.resp_ephemeral),
      hex(v.messages[0]?.payload), hex(v.messages[1]?.payload));
    assert.equal(h.message1.toString("hex"), v.messages[0]?.ciphertext);
    assert.equal(h.message2.toString("hex"), v.messages[1]?.ciphertext);
    assert.equal(h.hash.toString("hex"), v.handshake_hash);
    v.messages.slice(2).forEach((m, i) => {
      assert.equal(seal(i % 2 === 0 ? h.toResponder : h.toInitiator, hex(m.payload)).toString("hex"), m.ciphertext);
    });
  }
});
