/**
 * The one error type of pi-ext: a stable code, and what a person needs to act on it.
 *
 * `outcome` says whether the request may have acted: `rejected` (it was not seen) or `unknown`.
 */
import { ERRORS, LIMITS, errorName, type ErrorName } from "./generated/messages.ts";

export type Outcome = "rejected" | "unknown";

export type ErrorFields = {
  machine?: string | undefined;
  step?: string | undefined;
  cause?: string | undefined;
  next?: string | undefined;
  message?: string | undefined;
  outcome?: Outcome | undefined;
  answered?: boolean | undefined;
};

/** Text cut to `max` bytes of UTF-8, at a character. */
export function cutUtf8(text: string, max: number): string {
  const bytes = Buffer.from(text, "utf8");
  if (bytes.length <= max) return text;
  let end = max;
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--;
  return bytes.toString("utf8", 0, end);
}

export class ShepherdrError extends Error {
  readonly code: ErrorName;
  readonly machine: string | undefined;
  readonly step: string | undefined;
  readonly reason: string | undefined;
  readonly next: string;
  readonly outcome: Outcome;
  /** The other side said it: its own words about a link are not about the link that brought them. */
  readonly answered: boolean;

  constructor(code: ErrorName, fields: ErrorFields = {}) {
    super(fields.message ?? ERRORS[code].doc);
    this.name = "ShepherdrError";
    this.code = code;
    this.machine = fields.machine;
    this.step = fields.step;
    this.reason = fields.cause === undefined ? undefined : cutUtf8(fields.cause, LIMITS.errorTextBytesMax);
    this.next = fields.next ?? ERRORS[code].next;
    this.outcome = fields.outcome ?? "rejected";
    this.answered = fields.answered === true;
  }

  get number(): number {
    return ERRORS[this.code].code;
  }

  /** The JSON of an error head. */
  toWire(): Record<string, unknown> {
    const out: Record<string, unknown> = { code: this.code, message: this.message };
    if (this.step !== undefined) out["step"] = this.step;
    if (this.reason !== undefined) out["cause"] = this.reason;
    if (this.machine !== undefined) out["machine"] = this.machine;
    out["next"] = this.next;
    out["outcome"] = this.outcome;
    return out;
  }

  /** From an error head: the number decides, the JSON explains. A code of a newer peer is shown as its text. */
  static fromWire(number: number, json: Record<string, unknown>): ShepherdrError {
    const text = (key: string): string | undefined =>
      typeof json[key] === "string" && json[key] !== "" ? (json[key] as string) : undefined;
    const known = errorName(number);
    const foreign = known === undefined ? (text("code") ?? `code ${number}`) : undefined;
    return new ShepherdrError(known ?? "internal_error", {
      message: foreign === undefined ? text("message") : `${foreign}: ${text("message") ?? "unknown to this version"}`,
      machine: text("machine"),
      step: text("step"),
      cause: text("cause"),
      next: text("next"),
      outcome: json["outcome"] === "unknown" ? "unknown" : "rejected",
      answered: true,
    });
  }

  static from(error: unknown, code: ErrorName = "internal_error"): ShepherdrError {
    if (error instanceof ShepherdrError) return error;
    return new ShepherdrError(code, { cause: error instanceof Error ? error.message : String(error) });
  }

  /** What a person and the model read: `code: message (machine, step): cause. Next: ...` */
  describe(): string {
    const where = [this.machine, this.step].filter((part) => part !== undefined && part !== "").join(", ");
    const end = (text: string): string => text.replace(/[.\s]+$/u, "");
    let out = `${this.code}: ${end(this.message)}`;
    if (where !== "") out += ` (${where})`;
    if (this.reason !== undefined && this.reason !== "") out += `: ${end(this.reason)}`;
    out += ".";
    if (this.outcome === "unknown") out += " It may have acted.";
    return `${out} Next: ${this.next}`;
  }
}
