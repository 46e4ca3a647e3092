/**
 * When did the work settle that an input began?
 *
 * An input is `pending` until its custom message stands in the session, `running` until Pi's next
 * final settle, `settled` from then on. A resumed session has no memory of runs: there the entries
 * after the input decide, and a run that ended with its process counts as aborted.
 */
import type { SettlementAnswer } from "./generated/messages.ts";
import { LIMITS } from "./generated/messages.ts";
import { cutUtf8 } from "./errors.ts";
import { MESSAGE_TYPE } from "./names.ts";
import type { Entries, LastReply } from "./entries.ts";

/** Entries never change, so the leaf of that moment is enough to find the reply again. */
type Settled = { aborted: boolean; leaf: string | undefined };

/** How many settled inputs keep their own record; older ones are answered from the entries. */
const SETTLED_MAX = 1024;
const ENDED_EARLY = "Pi ended before it answered.";

export class Settlements {
  readonly #entries: Entries;
  /** Inputs that entered the session in this process and wait for a settle. */
  readonly #running = new Set<string>();
  /** In the session, but no run has taken them up: they were stored without a turn. */
  readonly #parked = new Set<string>();
  readonly #settled = new Map<string, Settled>();

  constructor(entries: Entries) {
    this.#entries = entries;
  }

  /** The input stands in the session; `inRun` false: nothing works on it yet. */
  entered(id: string, inRun: boolean): void {
    if (this.#settled.has(id)) return;
    if (inRun) this.#running.add(id);
    else this.#parked.add(id);
  }

  /** A run began: what was parked is part of its context. */
  runStarted(): void {
    for (const id of this.#parked) this.#running.add(id);
    this.#parked.clear();
  }

  /** Pi's final settle; returns the inputs that it settled. */
  settled(aborted: boolean): string[] {
    const inputs = [...this.#running];
    this.#running.clear();
    const leaf = this.#entries.leaf();
    for (const id of inputs) this.#settled.set(id, { aborted, leaf });
    while (this.#settled.size > SETTLED_MAX) this.#settled.delete(this.#settled.keys().next().value!);
    return inputs;
  }

  /** `known`: the id was accepted here. */
  answer(id: string, known: boolean): { answer: SettlementAnswer; text: string } {
    const entry = this.#entries.messageEntry(MESSAGE_TYPE, id);
    if (entry === undefined) return { answer: { state: known ? "pending" : "unknown" }, text: "" };
    if (this.#parked.has(id)) return { answer: { state: "pending" }, text: "" };
    if (this.#running.has(id)) return { answer: { state: "running" }, text: "" };
    const settled = this.#settled.get(id);
    const leaf = settled === undefined ? this.#entries.leaf() : settled.leaf;
    const reply = this.#entries.replyAfter(entry, leaf);
    if (settled !== undefined) return compose(reply, settled.aborted, leaf);
    const died = reply === undefined || reply.stopReason === "toolUse";
    const composed = compose(reply, died || reply.stopReason === "aborted", leaf);
    if (died && composed.answer.error_message === undefined) composed.answer.error_message = ENDED_EARLY;
    return composed;
  }
}

function compose(reply: LastReply | undefined, aborted: boolean, leaf: string | undefined): { answer: SettlementAnswer; text: string } {
  const answer: SettlementAnswer = { state: "settled", aborted };
  if (reply !== undefined) {
    answer.entry_id = reply.entryId;
    if (reply.stopReason !== undefined) answer.stop_reason = cutUtf8(reply.stopReason, 32);
    if (reply.errorMessage !== undefined) answer.error_message = cutUtf8(reply.errorMessage, 2048);
  }
  if (leaf !== undefined) answer.leaf = leaf;
  return { answer, text: cutUtf8(reply?.text ?? "", LIMITS.messageBytesMax) };
}
