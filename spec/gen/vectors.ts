// Writes spec/vectors/*.json (but noise.json, which is public data): bytes and what they mean. The C
// tests and the tests of pi-ext read them, which keeps the two implementations in step.
//
// The bytes are made here by a third implementation, over node:crypto, that shares no code with either.
//
//     node spec/gen/vectors.ts [--check]

import { createCipheriv, createHash, createHmac, createPrivateKey, createPublicKey, diffieHellman } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { readIfThere, ROOT } from "./generate.ts";
import { load } from "./model.ts";

const spec = load(join(ROOT, "spec/messages.json"), join(ROOT, "spec/messages.schema.json"));
const limit = (name: string): number => spec.limits.find((l) => l.name === name)!.value;
const frameId = (name: string): number => spec.frames.find((f) => f.name === name)!.id;
const kindId = (name: string): number => spec.kinds.find((k) => k.name === name)!.id;
const messageId = (name: string): number => spec.messages.find((m) => m.name === name)!.id;
const errorCode = (name: string): number => spec.errors.find((e) => e.name === name)!.code;

// ---- frames -----------------------------------------------------------------------------------

const u16 = (v: number): Buffer => Buffer.from([v & 255, v >> 8]);
const u32 = (v: number): Buffer => Buffer.from([v & 255, (v >>> 8) & 255, (v >>> 16) & 255, v >>> 24]);
const text = (s: string): Buffer => Buffer.from(s, "utf8");
const cat = (...parts: Uint8Array[]): Buffer => Buffer.concat(parts);

function plaintext(type: string | number, flags: number, stream: number, payload: Uint8Array): Buffer {
  return cat(Buffer.from([typeof type === "number" ? type : frameId(type), flags]), u16(0), u32(stream), payload);
}
const sized = (body: Uint8Array): Buffer => cat(u32(body.length), body);
const frame = (type: string | number, flags: number, stream: number, payload: Uint8Array): Buffer =>
  sized(plaintext(type, flags, stream, payload));

const ID = Buffer.from("000102030405060708090a0b0c0d0e0f", "hex");
const head = (kind: string | number, message: number, json: string): Buffer =>
  cat(Buffer.from([typeof kind === "number" ? kind : kindId(kind), 0]), u16(message), text(json));
const request = (message: number, json: string, timeoutMs = 5000, id: Uint8Array = ID): Buffer =>
  cat(Buffer.from([kindId("request"), 0]), u16(message), id, u32(timeoutMs), text(json));

const nested = (depth: number): string => `${'{"a":'.repeat(depth - 1)}{}${"}".repeat(depth - 1)}`;

function framesFile(): unknown {
  const state = messageId("session_request");
  const event = messageId("session_event");
  const hello = '{"versions":[1,1],"role":"helper","token":"t"}';
  const longest = `{"a":"${"x".repeat(limit("head_json_bytes_max") - 8)}"}`;
  const valid = [
    { name: "hello", bytes: frame("hello", 0, 0, text(hello)), type: "hello", fin: false, stream: 0, payload: text(hello) },
    ...[
      { name: "request without bulk", type: "head", flags: 1, stream: 1, payload: request(state, "{}") },
      { name: "request with bulk to follow", type: "head", flags: 0, stream: 1, payload: request(state, '{"to":"s","n":[1,-2.5e3,true,null]}') },
      { name: "request with the longest deadline field", type: "head", flags: 1, stream: 1, payload: request(state, "{}", 0xffffffff) },
      { name: "response", type: "head", flags: 1, stream: 2, payload: head("response", 0, '{"answer":{}}') },
      { name: "error", type: "head", flags: 1, stream: 2, payload: head("error", errorCode("receiver_busy"), '{"code":"receiver_busy","outcome":"rejected"}') },
      { name: "notification", type: "head", flags: 1, stream: 3, payload: head("notification", event, '{"pi_session_id":"s","event":"settled"}') },
      { name: "json in utf-8 with an escaped pair", type: "head", flags: 1, stream: 1, payload: request(state, '{"ä€😀":"\\ud83d\\ude00\\u0041"}') },
      { name: "json with white space", type: "head", flags: 1, stream: 1, payload: request(state, ' {\n "a" : [ ] , "b" : { } }\r\n') },
      { name: "json at the depth limit", type: "head", flags: 1, stream: 1, payload: request(state, nested(limit("json_depth_max"))) },
      { name: "json at the length limit", type: "head", flags: 1, stream: 1, payload: request(state, longest) },
      { name: "bulk of one byte", type: "bulk", flags: 0, stream: 1, payload: text("x") },
      { name: "empty bulk with fin", type: "bulk", flags: 1, stream: 1, payload: text("") },
      { name: "longest bulk", type: "bulk", flags: 1, stream: 0xfffffffd, payload: Buffer.alloc(limit("frame_payload_bytes_max"), 0xa5) },
      { name: "credit", type: "credit", flags: 0, stream: 2, payload: u32(131072) },
      { name: "cancel", type: "cancel", flags: 0, stream: 2, payload: u16(errorCode("canceled")) },
      { name: "ping", type: "ping", flags: 0, stream: 0, payload: text("12345678") },
      { name: "pong", type: "pong", flags: 0, stream: 0, payload: text("12345678") },
      { name: "orderly close", type: "close", flags: 0, stream: 0, payload: u16(0) },
      { name: "close with the longest text", type: "close", flags: 0, stream: 0, payload: cat(u16(errorCode("shutting_down")), Buffer.alloc(limit("error_text_bytes_max"), "y")) },
    ].map((v) => ({ name: v.name, bytes: frame(v.type, v.flags, v.stream, v.payload), type: v.type, fin: v.flags === 1, stream: v.stream, payload: v.payload })),
  ];

  const badHead = (name: string, payload: Uint8Array, stream = 1, flags = 1) => ({ name, bytes: frame("head", flags, stream, payload) });
  const badJson = (name: string, json: string | Uint8Array) =>
    badHead(name, cat(request(state, ""), typeof json === "string" ? text(json) : json));
  const invalid = [
    { name: "length below a header", bytes: cat(u32(7), Buffer.alloc(7)) },
    { name: "length above the limit", bytes: u32(limit("frame_payload_bytes_max") + 9) },
    { name: "length of four gigabytes", bytes: u32(0xffffffff) },
    { name: "unknown type 0", bytes: frame(0, 0, 0, text("")) },
    { name: "unknown type 9", bytes: frame(9, 0, 0, text("")) },
    { name: "unknown flag", bytes: frame("ping", 2, 0, text("12345678")) },
    { name: "reserved field", bytes: sized(cat(Buffer.from([frameId("ping"), 0, 1, 0]), u32(0), text("12345678"))) },
    { name: "second hello", bytes: frame("hello", 0, 0, text(hello)) },
    { name: "fin on a ping", bytes: frame("ping", 1, 0, text("12345678")) },
    { name: "short ping", bytes: frame("ping", 0, 0, text("1234567")) },
    { name: "ping on a stream", bytes: frame("ping", 0, 1, text("12345678")) },
    { name: "short close", bytes: frame("close", 0, 0, text("\u0001")) },
    { name: "long close", bytes: frame("close", 0, 0, Buffer.alloc(3 + limit("error_text_bytes_max"))) },
    { name: "close on a stream", bytes: frame("close", 0, 1, u16(0)) },
    { name: "empty bulk without fin", bytes: frame("bulk", 0, 1, text("")) },
    { name: "bulk on stream 0", bytes: frame("bulk", 1, 0, text("x")) },
    { name: "bulk on a stream that was never opened", bytes: frame("bulk", 1, 1, text("x")) },
    { name: "credit of nothing", bytes: frame("credit", 0, 1, u32(0)) },
    { name: "short credit", bytes: frame("credit", 0, 1, u16(1)) },
    { name: "credit on a stream that was never opened", bytes: frame("credit", 0, 1, u32(1)) },
    { name: "short cancel", bytes: frame("cancel", 0, 1, text("x")) },
    { name: "cancel on a stream that was never opened", bytes: frame("cancel", 0, 1, u16(10)) },
    badHead("head on stream 0", request(state, "{}"), 0),
    badHead("request on a stream of the other side", request(state, "{}"), 2),
    badHead("short head", Buffer.from([kindId("request"), 0, 0])),
    badHead("head of kind 0", head(0, state, "{}")),
    badHead("head of kind 5", head(5, state, "{}")),
    badHead("head with its reserved byte set", cat(Buffer.from([kindId("notification"), 1]), u16(event), text("{}"))),
    badHead("request without its id", head("request", state, "{}")),
    badHead("request without time", request(state, "{}", 0)),
    badHead("response to nothing", head("response", 0, "{}"), 2),
    badHead("error to nothing", head("error", errorCode("timeout"), "{}"), 2),
    badJson("json that is empty", ""),
    badJson("json that is an array", "[]"),
    badJson("json that is a string", '"a"'),
    badJson("json with text behind it", "{}{}"),
    badJson("json with a comma too many", '{"a":1,}'),
    badJson("json without a comma", '{"a":1 "b":2}'),
    badJson("json with a key that is no string", "{a:1}"),
    badJson("json with single quotes", "{'a':1}"),
    badJson("json with a comment", "{/**/}"),
    badJson("json with a leading zero", '{"a":01}'),
    badJson("json with a bare minus", '{"a":-}'),
    badJson("json with a number that ends in a point", '{"a":1.}'),
    badJson("json with a word that it does not know", '{"a":NaN}'),
    badJson("json with a tab in a string", '{"a":"\t"}'),
    badJson("json with an unknown escape", '{"a":"\\x"}'),
    badJson("json with half an escape", '{"a":"\\u00"}'),
    badJson("json with mismatched brackets", '{"a":[}]'),
    badJson("json that is cut off", '{"a":"b'),
    badJson("json that is not utf-8", Buffer.from('{"a":"\xff"}', "latin1")),
    badJson("json with an overlong character", Buffer.from('{"a":"\xc0\xaf"}', "latin1")),
    badJson("json with a NUL byte", Buffer.from('{"a":"\0"}', "latin1")),
    badJson("json above the depth limit", nested(limit("json_depth_max") + 1)),
    badJson("json above the length limit", `{"a":"${"x".repeat(limit("head_json_bytes_max") - 7)}"}`),
  ];

  const hex = (b: Uint8Array): string => Buffer.from(b).toString("hex");
  // Long runs of one byte would make the file megabytes long.
  const short = (b: Uint8Array): string | { hex: string; fill: number; count: number; then: string } => {
    const bytes = Buffer.from(b);
    if (bytes.length < 512) return hex(bytes);
    let best = { start: 0, count: 0 };
    for (let start = 0; start < bytes.length; ) {
      let end = start;
      while (end < bytes.length && bytes[end] === bytes[start]) end++;
      if (end - start > best.count) best = { start, count: end - start };
      start = end;
    }
    return {
      hex: hex(bytes.subarray(0, best.start)),
      fill: bytes[best.start] ?? 0,
      count: best.count,
      then: hex(bytes.subarray(best.start + best.count)),
    };
  };
  return {
    doc: "Frames of suite plain. Bytes are hex, or {hex, fill, count, then}: hex, count times the byte fill, then. valid: what one frame means. invalid: what an established session of the responder, with no stream opened yet, must end with protocol_error.",
    valid: valid.map((v) => ({ ...v, bytes: short(v.bytes), payload: short(v.payload) })),
    invalid: invalid.map((v) => ({ name: v.name, bytes: short(v.bytes) })),
  };
}

// ---- a conversation ---------------------------------------------------------------------------

function conversationFile(): unknown {
  const state = messageId("session_request");
  const params = '{"service":"deliver","from":{"pi_session_id":"p","installation":"i","host":"h"},"payload":{"kind":"message","sender":{}}}';
  const event = '{"pi_session_id":"w","event":"delivered","inputs":["000102030405060708090a0b0c0d0e0f"]}';
  const steps: { from: "initiator" | "responder"; bytes: Buffer; event: Record<string, unknown> }[] = [
    { from: "initiator", bytes: frame("hello", 0, 0, text('{"versions":[1,1],"role":"helper"}')), event: { type: "hello", json: { versions: [1, 1], role: "helper" } } },
    { from: "responder", bytes: frame("hello", 0, 0, text('{"versions":[1,1],"role":"receiver","later":{}}')), event: { type: "established", json: { versions: [1, 1], role: "receiver", later: {} } } },
    { from: "initiator", bytes: frame("head", 0, 1, request(state, params, 5000)), event: { type: "request", stream: 1, message: state, id: ID.toString("hex"), timeout_ms: 5000, fin: false, json: JSON.parse(params) } },
    { from: "initiator", bytes: frame("bulk", 0, 1, text("hello ")), event: { type: "bulk", stream: 1, text: "hello ", fin: false } },
    { from: "initiator", bytes: frame("bulk", 1, 1, text("wörld")), event: { type: "bulk", stream: 1, text: "wörld", fin: true } },
    { from: "responder", bytes: frame("head", 1, 1, head("response", 0, '{"answer":{"accepted":true}}')), event: { type: "response", stream: 1, fin: true, json: { answer: { accepted: true } } } },
    { from: "responder", bytes: frame("head", 1, 2, head("notification", messageId("session_event"), event)), event: { type: "notification", stream: 2, message: messageId("session_event"), fin: true, json: JSON.parse(event) } },
    { from: "initiator", bytes: frame("head", 1, 3, request(state, params, 1)), event: { type: "request", stream: 3, message: state, id: ID.toString("hex"), timeout_ms: 1, fin: true, json: JSON.parse(params) } },
    { from: "responder", bytes: frame("head", 1, 3, head("error", errorCode("receiver_busy"), '{"code":"receiver_busy","message":"m","cause":"compacting","next":"n","outcome":"rejected"}')), event: { type: "failed", stream: 3, code: errorCode("receiver_busy"), cause: "compacting", outcome: "rejected" } },
    { from: "initiator", bytes: frame("head", 1, 5, request(state, params, 5000)), event: { type: "request", stream: 5, message: state, id: ID.toString("hex"), timeout_ms: 5000, fin: true, json: JSON.parse(params) } },
    { from: "initiator", bytes: frame("cancel", 0, 5, u16(errorCode("canceled"))), event: { type: "canceled", stream: 5 } },
    { from: "responder", bytes: frame("close", 0, 0, cat(u16(errorCode("shutting_down")), text("bye"))), event: { type: "closed", code: errorCode("shutting_down"), cause: "bye" } },
  ];
  return {
    doc: "One session of suite plain, step by step: who sends, the bytes, and the event that the other side makes of them. The initiator asks on the streams 1, 3 and 5.",
    steps: steps.map((s) => ({ from: s.from, bytes: s.bytes.toString("hex"), event: s.event })),
  };
}

// ---- Noise ------------------------------------------------------------------------------------

type Cipher = { key: Buffer; counter: bigint };

function nonce(counter: bigint): Buffer {
  const out = Buffer.alloc(12);
  out.writeBigUInt64LE(counter, 4);
  return out;
}

function aead(key: Uint8Array, counter: bigint, ad: Uint8Array, plain: Uint8Array): Buffer {
  const cipher = createCipheriv("chacha20-poly1305", key, nonce(counter), { authTagLength: 16 });
  cipher.setAAD(ad, { plaintextLength: plain.length });
  return cat(cipher.update(plain), cipher.final(), cipher.getAuthTag());
}

function seal(cipher: Cipher, plain: Uint8Array): Buffer {
  if (cipher.counter !== 0n && cipher.counter % (1n << 32n) === 0n)
    cipher.key = aead(cipher.key, 0xffffffffffffffffn, Buffer.alloc(0), Buffer.alloc(32)).subarray(0, 32);
  return aead(cipher.key, cipher.counter++, Buffer.alloc(0), plain);
}

const blake = (...parts: Uint8Array[]): Buffer => createHash("blake2b512").update(cat(...parts)).digest();
const hmac = (key: Uint8Array, ...parts: Uint8Array[]): Buffer => createHmac("blake2b512", key).update(cat(...parts)).digest();

function hkdf(chainingKey: Uint8Array, input: Uint8Array): [Buffer, Buffer, Buffer] {
  const temp = hmac(chainingKey, input);
  const first = hmac(temp, Buffer.from([1]));
  const second = hmac(temp, first, Buffer.from([2]));
  return [first, second, hmac(temp, second, Buffer.from([3]))];
}

const PKCS8 = Buffer.from("302e020100300506032b656e04220420", "hex");
const privateKey = (raw: Uint8Array) => createPrivateKey({ key: cat(PKCS8, raw), format: "der", type: "pkcs8" });
const publicKey = (raw: Uint8Array): Buffer =>
  Buffer.from(createPublicKey(privateKey(raw)).export({ format: "der", type: "spki" })).subarray(-32);
const dh = (ours: Uint8Array, theirs: Uint8Array): Buffer =>
  diffieHellman({ privateKey: privateKey(ours), publicKey: createPublicKey(privateKey(theirs)) });

/** Both handshake messages and the two directions, as one who knows both secrets sees them. */
function handshake(prologue: Uint8Array, psk: Uint8Array, e1: Uint8Array, e2: Uint8Array, hello1: Uint8Array, hello2: Uint8Array) {
  const name = Buffer.alloc(64);
  name.write("Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b");
  let h: Buffer = blake(name, prologue);
  let ck: Buffer = name;
  let k: Buffer = Buffer.alloc(32);
  const mixHash = (data: Uint8Array): void => void (h = blake(h, data));
  const mixKey = (input: Uint8Array): void => {
    const [a, b] = hkdf(ck, input);
    ck = a;
    k = b.subarray(0, 32);
  };
  const payload = (plain: Uint8Array): Buffer => {
    const sealed = aead(k, 0n, h, plain);
    mixHash(sealed);
    return sealed;
  };
  const [a, b, c] = hkdf(ck, psk);
  ck = a;
  mixHash(b);
  k = c.subarray(0, 32);
  mixHash(publicKey(e1));
  mixKey(publicKey(e1));
  const message1 = cat(publicKey(e1), payload(hello1));
  mixHash(publicKey(e2));
  mixKey(publicKey(e2));
  mixKey(dh(e2, e1));
  const message2 = cat(publicKey(e2), payload(hello2));
  const [first, second] = hkdf(ck, Buffer.alloc(0));
  return {
    message1,
    message2,
    hash: h,
    toResponder: { key: first.subarray(0, 32), counter: 0n } as Cipher,
    toInitiator: { key: second.subarray(0, 32), counter: 0n } as Cipher,
  };
}

function noiseWireFile(): unknown {
  const marker = "00112233445566778899aabbccddeeff";
  const psk = Buffer.alloc(32, 0x5a);
  const e1 = Buffer.from(Array.from({ length: 32 }, (_, i) => i + 1));
  const e2 = Buffer.from(Array.from({ length: 32 }, (_, i) => 255 - i));
  const hello1 = '{"versions":[1,1],"role":"controller","build":"b"}';
  const hello2 = '{"versions":[1,1],"role":"helper","build":"b"}';
  const prologue = cat(text(spec.protocol.magic), text(marker), Buffer.from([1]));
  const h = handshake(prologue, psk, e1, e2, text(hello1), text(hello2));
  const u16be = (v: number): Buffer => Buffer.from([v >> 8, v & 255]);
  const call = request(messageId("herdr_call"), "{}", 1000);
  const plain = [
    { from: "initiator", body: plaintext("head", 1, 1, call) },
    { from: "responder", body: plaintext("head", 0, 1, head("response", 0, "{}")) },
    { from: "responder", body: plaintext("bulk", 1, 1, text("pong")) },
    { from: "initiator", body: plaintext("ping", 0, 0, text("12345678")) },
  ];
  const frames = plain.map((p) => ({
    from: p.from,
    plaintext: p.body.toString("hex"),
    bytes: sized(seal(p.from === "initiator" ? h.toResponder : h.toInitiator, p.body)).toString("hex"),
  }));
  const counters = [0n, 1n, 0xffffffffn, 0x100000000n, 0x100000001n];
  const key = Buffer.alloc(32, 0x42);
  const cipher: Cipher = { key: Buffer.from(key), counter: 0n };
  const rekey = counters.map((counter) => {
    cipher.counter = counter;
    return { counter: counter.toString(), plaintext: "6162", ciphertext: seal(cipher, text("ab")).toString("hex") };
  });
  return {
    doc: "The whole wire of suite noise (spec/protocol.md 2.1) with fixed secrets: the launch secret and message 1 of the controller, message 2 of the helper, frames. rekey: one direction with this key, the counter set as given before each message, in this order.",
    marker,
    psk: psk.toString("hex"),
    initiator_ephemeral: e1.toString("hex"),
    responder_ephemeral: e2.toString("hex"),
    initiator_hello: hello1,
    responder_hello: hello2,
    handshake_hash: h.hash.toString("hex"),
    initiator_bytes: cat(psk, u16be(h.message1.length), h.message1).toString("hex"),
    responder_bytes: cat(u16be(h.message2.length), h.message2).toString("hex"),
    frames,
    rekey: { key: key.toString("hex"), messages: rekey },
  };
}

// ---- preamble ---------------------------------------------------------------------------------

function preambleFile(): unknown {
  const marker = "00112233445566778899aabbccddeeff";
  const line = (rest: string): string => `\n@@SHP1 ${marker} ${rest}\n`;
  const ready = line("READY b1");
  const cases = [
    { name: "nothing but the ready line", in: ready, lines: ["READY b1"], rest: "" },
    { name: "at the very start, without its first newline", in: ready.slice(1), lines: ["READY b1"], rest: "" },
    { name: "bytes of the session behind it", in: `${ready}\u0000\u0001`, lines: ["READY b1"], rest: "\u0000\u0001" },
    { name: "behind a banner without a newline", in: `Welcome!${ready}`, lines: ["READY b1"], rest: "" },
    { name: "behind noise with NULs", in: `a\u0000b\n\u0000${ready}`, lines: ["READY b1"], rest: "" },
    { name: "behind empty lines", in: `\n\n\n${ready}`, lines: ["READY b1"], rest: "" },
    { name: "behind another marker", in: `\n@@SHP1 ffffffffffffffffffffffffffffffff READY x\n${ready}`, lines: ["READY b1"], rest: "" },
    { name: "behind a marker that is cut short", in: `\n@@SHP1 ${marker.slice(0, 31)}${ready}`, lines: ["READY b1"], rest: "" },
    { name: "the marker inside a line does not count", in: `echo @@SHP1 ${marker} READY x\n${ready}`, lines: ["READY b1"], rest: "" },
    { name: "a carriage return at the end of the line", in: `\n@@SHP1 ${marker} READY b1\r\n`, lines: ["READY b1"], rest: "" },
    { name: "a line of the installer first", in: `${line("NEED Linux x86_64")}${ready}`, lines: ["NEED Linux x86_64", "READY b1"], rest: "" },
    { name: "two lines that share a newline", in: `${line("NEED Linux x86_64")}${ready.slice(1)}`, lines: ["NEED Linux x86_64", "READY b1"], rest: "" },
    { name: "no line at all", in: "Last login: today\nbash: cannot execute\n", lines: [], rest: "" },
  ];
  return {
    doc: "What stands before the session (spec/protocol.md 2.1). in: the bytes in hex; lines: the texts behind the marker, in order; rest: what the last line leaves for the session, in hex. Every way to cut the input into pieces gives the same.",
    marker,
    cases: cases.map((c) => ({
      name: c.name,
      in: Buffer.from(c.in, "latin1").toString("hex"),
      lines: c.lines,
      rest: Buffer.from(c.rest, "latin1").toString("hex"),
    })),
  };
}

export function renderVectors(): Map<string, string> {
  const files: [string, unknown][] = [
    ["spec/vectors/frames.json", framesFile()],
    ["spec/vectors/conversation.json", conversationFile()],
    ["spec/vectors/noise-wire.json", noiseWireFile()],
    ["spec/vectors/preamble.json", preambleFile()],
  ];
  return new Map(files.map(([path, value]) => [path, `${JSON.stringify(value, null, 1)}\n`]));
}

export { handshake, seal };

if (import.meta.main) {
  const check = process.argv.includes("--check");
  for (const [path, body] of renderVectors()) {
    if (readIfThere(join(ROOT, path)) === body) continue;
    console.log(path);
    if (check) process.exitCode = 1;
    else writeFileSync(join(ROOT, path), body);
  }
}
