/**
 * Frames of the plain suite: bytes to frames and back (spec/protocol.md sections 2.2 and 3).
 *
 * Pure: no sockets, no clock. Whatever breaks a rule of section 3 throws a ShepherdrError with
 * `protocol_error`; the session ends with it.
 */
import { FRAME, KIND, LIMITS } from "./generated/messages.ts";
import { ShepherdrError } from "./errors.ts";

export type FrameType = (typeof FRAME)[keyof typeof FRAME];
export type Kind = (typeof KIND)[keyof typeof KIND];
export type JsonObject = Record<string, unknown>;

export type Frame = { type: FrameType; fin: boolean; stream: number; payload: Buffer };

export type Head = {
  kind: Kind;
  /** Message id; 0 for a response; the error code for an error. */
  message: number;
  /** 32 hex digits, requests only. */
  id: string;
  timeoutMs: number;
  json: JsonObject;
};

const HEADER_BYTES = 8;
const LENGTH_BYTES = 4;
const REQUEST_PREFIX_BYTES = 24;
const PREFIX_BYTES = 4;
const FIN = 1;

const broken = (cause: string): ShepherdrError => new ShepherdrError("protocol_error", { step: "frame", cause });

function isFrameType(value: number): value is FrameType {
  return value >= FRAME.head && value <= FRAME.hello;
}

/** Streams 0 and others have their own frame types. */
function belongsToStreamZero(type: FrameType): boolean {
  return type === FRAME.ping || type === FRAME.pong || type === FRAME.close || type === FRAME.hello;
}

function checkFrame(type: FrameType, fin: boolean, stream: number, length: number): void {
  if (belongsToStreamZero(type) !== (stream === 0)) throw broken(`frame type ${type} on stream ${stream}`);
  if (fin && type !== FRAME.head && type !== FRAME.bulk) throw broken(`FIN on frame type ${type}`);
  switch (type) {
    case FRAME.bulk:
      if (length === 0 && !fin) throw broken("empty bulk frame without FIN");
      break;
    case FRAME.credit:
      if (length !== 4) throw broken("credit frame is not 4 bytes");
      break;
    case FRAME.cancel:
      if (length !== 2) throw broken("cancel frame is not 2 bytes");
      break;
    case FRAME.ping:
    case FRAME.pong:
      if (length !== 8) throw broken("ping frame is not 8 bytes");
      break;
    case FRAME.close:
      if (length < 2 || length > 2 + LIMITS.errorTextBytesMax) throw broken("close frame has a bad length");
      break;
    case FRAME.hello:
      if (length > LIMITS.helloBytesMax) throw broken("hello is too long");
      break;
    case FRAME.head:
      if (length < PREFIX_BYTES) throw broken("head is too short");
      break;
  }
}

export function encodeFrame(type: FrameType, fin: boolean, stream: number, payload: Uint8Array): Buffer {
  if (payload.length > LIMITS.framePayloadBytesMax) throw broken("payload is too long");
  checkFrame(type, fin, stream, payload.length);
  const out = Buffer.allocUnsafe(LENGTH_BYTES + HEADER_BYTES + payload.length);
  out.writeUInt32LE(HEADER_BYTES + payload.length, 0);
  out.writeUInt8(type, 4);
  out.writeUInt8(fin ? FIN : 0, 5);
  out.writeUInt16LE(0, 6);
  out.writeUInt32LE(stream, 8);
  out.set(payload, LENGTH_BYTES + HEADER_BYTES);
  return out;
}

/**
 * Incremental decoder. Its memory is bounded by one frame and what the caller feeds at once; a
 * returned payload is a copy and stays valid. Each byte is copied at most twice, however small the
 * pieces are.
 */
export class FrameDecoder {
  #chunks: Uint8Array[] = [];
  #bytes = 0;
  /** Bytes without which there is nothing to decode. */
  #need = LENGTH_BYTES;

  feed(chunk: Uint8Array): void {
    if (chunk.length === 0) return;
    this.#chunks.push(Buffer.from(chunk));
    this.#bytes += chunk.length;
  }

  /** Next whole frame, or undefined while one is incomplete. A length is judged before its bytes come. */
  next(): Frame | undefined {
    if (this.#bytes < this.#need) return undefined;
    const bytes = this.#joined();
    const length = bytes.readUInt32LE(0);
    if (length < HEADER_BYTES || length > LIMITS.framePayloadBytesMax + HEADER_BYTES) {
      throw broken(`frame length ${length}`);
    }
    this.#need = LENGTH_BYTES + length;
    if (bytes.length < this.#need) return undefined;
    const type = bytes.readUInt8(4);
    const flags = bytes.readUInt8(5);
    if (!isFrameType(type)) throw broken(`frame type ${type}`);
    if ((flags & ~FIN) !== 0 || bytes.readUInt16LE(6) !== 0) throw broken("reserved bits are set");
    const fin = (flags & FIN) !== 0;
    const stream = bytes.readUInt32LE(8);
    const payload = Buffer.from(bytes.subarray(LENGTH_BYTES + HEADER_BYTES, this.#need));
    checkFrame(type, fin, stream, payload.length);
    this.#bytes -= this.#need;
    this.#chunks = this.#bytes === 0 ? [] : [bytes.subarray(this.#need)];
    this.#need = LENGTH_BYTES;
    return { type, fin, stream, payload };
  }

  #joined(): Buffer {
    const first = this.#chunks[0];
    if (this.#chunks.length === 1 && first instanceof Buffer) return first;
    const whole = Buffer.concat(this.#chunks);
    this.#chunks = [whole];
    return whole;
  }

  /** Bytes of an incomplete frame. */
  get pendingBytes(): number {
    return this.#bytes;
  }
}

/** Deepest nesting of a JSON text, counted on the text so that a hostile one is never built. */
function jsonDepth(text: string): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (inString) {
      if (c === 0x5c) i++;
      else if (c === 0x22) inString = false;
    } else if (c === 0x22) inString = true;
    else if (c === 0x7b || c === 0x5b) deepest = Math.max(deepest, ++depth);
    else if (c === 0x7d || c === 0x5d) depth--;
  }
  return deepest;
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A JSON object within the limits of heads and hellos. */
export function parseJsonObject(bytes: Uint8Array): JsonObject {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    throw broken("JSON is not UTF-8");
  }
  if (jsonDepth(text) > LIMITS.jsonDepthMax) throw broken("JSON is nested too deeply");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw broken("JSON does not parse");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw broken("JSON is not an object");
  return value as JsonObject;
}

/** JSON bytes of a head; throws `message_too_large` when they do not fit. */
export function encodeJson(json: JsonObject): Buffer {
  const text = JSON.stringify(json);
  const bytes = Buffer.from(text, "utf8");
  if (bytes.length > LIMITS.headJsonBytesMax) {
    throw new ShepherdrError("message_too_large", { cause: `the fields take ${bytes.length} bytes` });
  }
  if (jsonDepth(text) > LIMITS.jsonDepthMax) {
    throw new ShepherdrError("invalid_params", { cause: "the fields are nested too deeply" });
  }
  return bytes;
}

export function encodeHead(head: Head): Buffer {
  const json = encodeJson(head.json);
  const request = head.kind === KIND.request;
  const out = Buffer.alloc((request ? REQUEST_PREFIX_BYTES : PREFIX_BYTES) + json.length);
  out.writeUInt8(head.kind, 0);
  out.writeUInt16LE(head.message, 2);
  if (request) {
    out.write(head.id, 4, 16, "hex");
    out.writeUInt32LE(head.timeoutMs, 20);
  }
  json.copy(out, request ? REQUEST_PREFIX_BYTES : PREFIX_BYTES);
  return out;
}

export function decodeHead(payload: Buffer): Head {
  if (payload.length < PREFIX_BYTES) throw broken("head is too short");
  const kind = payload.readUInt8(0);
  if (kind < KIND.request || kind > KIND.notification) throw broken(`head kind ${kind}`);
  if (payload.readUInt8(1) !== 0) throw broken("reserved byte is set");
  const message = payload.readUInt16LE(2);
  let at = PREFIX_BYTES;
  let id = "";
  let timeoutMs = 0;
  if (kind === KIND.request) {
    if (payload.length < REQUEST_PREFIX_BYTES) throw broken("request head is too short");
    id = payload.toString("hex", 4, 20);
    timeoutMs = payload.readUInt32LE(20);
    if (timeoutMs === 0) throw broken("request without a deadline");
    at = REQUEST_PREFIX_BYTES;
  }
  if (kind === KIND.response && message !== 0) throw broken("response head names a message");
  if (payload.length - at > LIMITS.headJsonBytesMax) throw broken("head JSON is too long");
  return { kind: kind as Kind, message, id, timeoutMs, json: parseJsonObject(payload.subarray(at)) };
}
