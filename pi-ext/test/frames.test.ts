/** Frames of the plain suite: the rules of spec/protocol.md section 3, any split of the bytes. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FRAME, KIND, LIMITS } from "../src/generated/messages.ts";
import { ShepherdrError } from "../src/errors.ts";
import { FrameDecoder, decodeHead, encodeFrame, encodeHead, encodeJson, parseJsonObject, type Frame, type Head } from "../src/frames.ts";

const isCode = (code: string) => (error: unknown) => error instanceof ShepherdrError && error.code === code;

function decodeAll(bytes: Uint8Array, step: number): Frame[] {
  const decoder = new FrameDecoder();
  const frames: Frame[] = [];
  for (let i = 0; i < bytes.length; i += step) {
    decoder.feed(bytes.subarray(i, i + step));
    for (let f = decoder.next(); f !== undefined; f = decoder.next()) frames.push(f);
  }
  assert.equal(decoder.pendingBytes, 0);
  return frames;
}

/** A raw frame, whatever the rules say. */
function raw(type: number, flags: number, reserved: number, stream: number, payload: Uint8Array, length?: number): Buffer {
  const out = Buffer.alloc(12 + payload.length);
  out.writeUInt32LE(length ?? 8 + payload.length, 0);
  out.writeUInt8(type, 4);
  out.writeUInt8(flags, 5);
  out.writeUInt16LE(reserved, 6);
  out.writeUInt32LE(stream, 8);
  out.set(payload, 12);
  return out;
}

const decodeOne = (bytes: Buffer): Frame | undefined => {
  const decoder = new FrameDecoder();
  decoder.feed(bytes);
  return decoder.next();
};

describe("frames", () => {
  const request: Head = { kind: KIND.request, message: 289, id: "00112233445566778899aabbccddeeff", timeoutMs: 1500, json: { a: "ü" } };

  it("decodes what it encoded, however the bytes are split", () => {
    const bytes = Buffer.concat([
      encodeFrame(FRAME.hello, false, 0, Buffer.from("{}")),
      encodeFrame(FRAME.head, false, 1, encodeHead(request)),
      encodeFrame(FRAME.bulk, false, 1, Buffer.alloc(LIMITS.framePayloadBytesMax, 7)),
      encodeFrame(FRAME.bulk, true, 1, Buffer.alloc(0)),
      encodeFrame(FRAME.ping, false, 0, Buffer.alloc(8, 1)),
      encodeFrame(FRAME.close, false, 0, Buffer.from([0, 0])),
    ]);
    for (const step of [1, 2, 7, 4096, bytes.length]) {
      const frames = decodeAll(bytes, step);
      assert.deepEqual(frames.map((f) => [f.type, f.fin, f.stream, f.payload.length]), [
        [FRAME.hello, false, 0, 2],
        [FRAME.head, false, 1, 24 + Buffer.byteLength('{"a":"ü"}')],
        [FRAME.bulk, false, 1, LIMITS.framePayloadBytesMax],
        [FRAME.bulk, true, 1, 0],
        [FRAME.ping, false, 0, 8],
        [FRAME.close, false, 0, 2],
      ]);
      assert.deepEqual(decodeHead(frames[1]!.payload), request);
    }
  });

  it("writes little-endian, in the order of the specification", () => {
    const frame = encodeFrame(FRAME.credit, false, 0x01020304, Buffer.from([1, 0, 0, 0]));
    assert.equal(frame.toString("hex"), "0c000000" + "03" + "00" + "0000" + "04030201" + "01000000");
    assert.equal(
      encodeHead({ kind: KIND.request, message: 0x0121, id: "00112233445566778899aabbccddeeff", timeoutMs: 1, json: {} }).toString("hex"),
      "01" + "00" + "2101" + "00112233445566778899aabbccddeeff" + "01000000" + "7b7d",
    );
    assert.equal(encodeHead({ kind: KIND.response, message: 0, id: "", timeoutMs: 0, json: {} }).toString("hex"), "02000000" + "7b7d");
  });

  it("refuses every broken header", () => {
    const eight = Buffer.alloc(8);
    const bad: [string, Buffer][] = [
      ["length below a header", raw(FRAME.ping, 0, 0, 0, Buffer.alloc(0), 7)],
      ["length above the limit", raw(FRAME.bulk, 0, 0, 1, Buffer.alloc(4), LIMITS.framePayloadBytesMax + 9)],
      ["type 0", raw(0, 0, 0, 0, eight)],
      ["type 9", raw(9, 0, 0, 0, eight)],
      ["an unknown flag", raw(FRAME.ping, 2, 0, 0, eight)],
      ["reserved bits", raw(FRAME.ping, 0, 1, 0, eight)],
      ["FIN on a ping", raw(FRAME.ping, 1, 0, 0, eight)],
      ["a ping on a stream", raw(FRAME.ping, 0, 0, 1, eight)],
      ["a head on stream 0", raw(FRAME.head, 1, 0, 0, Buffer.from("02000000" + "7b7d", "hex"))],
      ["a short ping", raw(FRAME.ping, 0, 0, 0, Buffer.alloc(7))],
      ["a short credit", raw(FRAME.credit, 0, 0, 1, Buffer.alloc(3))],
      ["a long cancel", raw(FRAME.cancel, 0, 0, 1, Buffer.alloc(3))],
      ["empty bulk without FIN", raw(FRAME.bulk, 0, 0, 1, Buffer.alloc(0))],
      ["close without a code", raw(FRAME.close, 0, 0, 0, Buffer.alloc(1))],
      ["a long hello", raw(FRAME.hello, 0, 0, 0, Buffer.alloc(LIMITS.helloBytesMax + 1))],
    ];
    for (const [what, bytes] of bad) assert.throws(() => decodeOne(bytes), isCode("protocol_error"), what);
  });

  it("judges a length before its bytes come", () => {
    const decoder = new FrameDecoder();
    decoder.feed(Buffer.from("ffffffff", "hex"));
    assert.throws(() => decoder.next(), isCode("protocol_error"));
  });

  it("refuses every broken head", () => {
    const head = (hex: string, json = "{}"): Buffer => Buffer.concat([Buffer.from(hex, "hex"), Buffer.from(json)]);
    const id = "00".repeat(16);
    const bad: [string, Buffer][] = [
      ["kind 0", head("00000000")],
      ["kind 5", head("05000000")],
      ["the reserved byte", head("02010000")],
      ["a response with a message", head("02000100")],
      ["a request without a deadline", head(`01000101${id}00000000`)],
      ["a short request", head("01000101")],
      ["no JSON", head("02000000", "")],
      ["an array", head("02000000", "[]")],
      ["a text", head("02000000", '"x"')],
      ["two values", head("02000000", "{}{}")],
      ["bad UTF-8", Buffer.concat([Buffer.from("02000000", "hex"), Buffer.from('{"a":"'), Buffer.from([0xff]), Buffer.from('"}')])],
      ["deep nesting", head("02000000", `{"a":${"[".repeat(16)}${"]".repeat(16)}}`)],
      ["long JSON", head("02000000", `{"a":"${"x".repeat(LIMITS.headJsonBytesMax)}"}`)],
    ];
    for (const [what, payload] of bad) assert.throws(() => decodeHead(payload), isCode("protocol_error"), what);
    assert.deepEqual(parseJsonObject(Buffer.from(`{"a":${"[".repeat(15)}${"]".repeat(15)}}`))["a"] !== undefined, true);
    assert.deepEqual(parseJsonObject(Buffer.from('{"a":"[[[[[[[[[[[[[[[[[[\\"["}')), { a: '[[[[[[[[[[[[[[[[[["[' });
  });

  it("refuses to encode what does not fit", () => {
    assert.throws(() => encodeJson({ a: "x".repeat(LIMITS.headJsonBytesMax) }), isCode("message_too_large"));
    assert.throws(() => encodeFrame(FRAME.bulk, true, 1, Buffer.alloc(LIMITS.framePayloadBytesMax + 1)), isCode("protocol_error"));
    let deep: unknown = {};
    for (let i = 0; i < 16; i++) deep = { deep };
    assert.throws(() => encodeJson(deep as Record<string, unknown>), isCode("invalid_params"));
  });
});
