/**
 * Messages that other sessions gave to this one: receipts, injection, and what became of them.
 *
 * The entry `shepherdr-inbox` is written before the answer, so an accepted message survives the
 * process. A message is delivered when its custom message stands in the session; until then it is
 * open, and it is injected again when Pi dropped it or was started again. Entries carry the session
 * id: a fork has copies of them and must not act on them.
 */
import { createHash } from "node:crypto";
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { LIMITS } from "./generated/messages.ts";
import { ShepherdrError } from "./errors.ts";
import { INBOX_ENTRY, MESSAGE_TYPE } from "./names.ts";
import type { Entries } from "./entries.ts";
import type { Settlements } from "./settlement.ts";
import { messageContent, type MessageKind } from "./sender.ts";

export type Delivery = {
  id: string;
  from: Record<string, unknown>;
  kind: MessageKind;
  sender: Record<string, unknown>;
  text: string;
};

type Item = Delivery & {
  digest: string;
  /** Handed to Pi by this process, at that time. */
  injectedAt: number | undefined;
  attempts: number;
  /** In the session. */
  entered: boolean;
  /** Told as delivered: in the session file. */
  told: boolean;
};

/** First attempt, one more after Pi dropped it, and one that is only stored. */
const ATTEMPTS_MAX = 3;
/** Idle for so long with an injected message missing: Pi refused it without a word. */
export const IDLE_RECHECK_MS = 30_000;

/** JSON with sorted keys: the same fields give the same bytes on every hop. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const object = value as Record<string, unknown>;
    const keys = Object.keys(object).sort();
    return `{${keys.map((key) => `${JSON.stringify(key)}:${canonicalJson(object[key])}`).join(",")}}`;
  }
  return JSON.stringify(value) ?? "null";
}

export function deliveryDigest(delivery: Pick<Delivery, "kind" | "sender" | "text">): string {
  const payload = canonicalJson({ kind: delivery.kind, sender: delivery.sender });
  return createHash("sha256").update(`deliver\n${payload}\n`).update(delivery.text, "utf8").digest("hex");
}

function recovered(data: Record<string, unknown>): Delivery | undefined {
  const { id, from, kind, sender, text } = data;
  const object = (value: unknown): value is Record<string, unknown> =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  if (typeof id !== "string" || typeof text !== "string" || !object(from) || !object(sender)) return undefined;
  if (kind !== "message" && kind !== "task") return undefined;
  return { id, from, kind, sender, text };
}

export type InboxPi = Pick<ExtensionAPI, "appendEntry" | "sendMessage">;

export class Inbox {
  readonly #pi: InboxPi;
  readonly #sessionId: string;
  readonly #entries: Entries;
  readonly #settlements: Settlements;
  readonly #clock: () => number;
  readonly #items = new Map<string, Item>();

  constructor(options: { pi: InboxPi; sessionId: string; entries: Entries; settlements: Settlements; clock: () => number }) {
    this.#pi = options.pi;
    this.#sessionId = options.sessionId;
    this.#entries = options.entries;
    this.#settlements = options.settlements;
    this.#clock = options.clock;
    for (const { data } of options.entries.inbox.slice(-LIMITS.receiptsMax)) {
      const delivery = data["session"] === this.#sessionId ? recovered(data) : undefined;
      if (delivery === undefined) continue;
      const entered = options.entries.messageEntry(MESSAGE_TYPE, delivery.id) !== undefined;
      const told = entered && options.entries.fileExists();
      this.#remember({ ...delivery, text: entered ? "" : delivery.text, digest: deliveryDigest(delivery), injectedAt: undefined, attempts: 0, entered, told });
    }
  }

  /** Delivered messages go first; an open one is never forgotten. */
  #remember(item: Item): void {
    this.#items.set(item.id, item);
    if (this.#items.size <= LIMITS.receiptsMax) return;
    for (const [id, old] of this.#items) {
      if (!old.told) continue;
      this.#items.delete(id);
      return;
    }
  }

  knows(id: string): boolean {
    return this.#items.has(id) || this.#entries.messageEntry(MESSAGE_TYPE, id) !== undefined;
  }

  state(id: string): "accepted" | "delivered" | "unknown" {
    this.#entries.refresh();
    if (this.#entries.messageEntry(MESSAGE_TYPE, id) !== undefined) {
      return this.#entries.fileExists() ? "delivered" : "accepted";
    }
    return this.#items.has(id) ? "accepted" : "unknown";
  }

  get openCount(): number {
    let count = 0;
    for (const item of this.#items.values()) if (!item.told) count++;
    return count;
  }

  /** The id's receipt, when there is one; throws `duplicate_conflict` for other bytes. */
  receipt(delivery: Delivery): { provisional: boolean } | undefined {
    const item = this.#items.get(delivery.id);
    if (item === undefined) return undefined;
    if (item.digest !== deliveryDigest(delivery)) throw new ShepherdrError("duplicate_conflict", { step: "deliver" });
    return { provisional: !this.#entries.fileExists() };
  }

  /** Record it; the caller answers, then calls `injectOpen`. Throws `receiver_refused` when the entry cannot be written. */
  accept(delivery: Delivery): { provisional: boolean } {
    const { id, from, kind, sender, text } = delivery;
    let open = 0;
    for (const item of this.#items.values()) if (!item.entered) open++;
    if (open >= LIMITS.receiptsMax) throw new ShepherdrError("receiver_refused", { step: "deliver", cause: "too many messages wait" });
    try {
      this.#pi.appendEntry(INBOX_ENTRY, { id, from, kind, text, sender, session: this.#sessionId });
    } catch (error) {
      throw new ShepherdrError("receiver_refused", { step: "deliver", cause: `the message could not be recorded: ${String(error)}` });
    }
    this.#remember({ ...delivery, digest: deliveryDigest(delivery), injectedAt: undefined, attempts: 0, entered: false, told: false });
    return { provisional: !this.#entries.fileExists() };
  }

  /** Hand over what this process has not injected yet: new messages, and open ones of earlier processes. */
  injectOpen(): void {
    for (const item of this.#items.values()) if (!item.entered && item.injectedAt === undefined) this.#inject(item, true);
  }

  #inject(item: Item, wake: boolean): void {
    item.injectedAt = this.#clock();
    item.attempts++;
    const { id, kind, from, sender } = item;
    this.#pi.sendMessage(
      { customType: MESSAGE_TYPE, content: messageContent(kind, sender, item.text), display: true, details: { id, kind, from, sender } },
      wake ? { triggerTurn: true, deliverAs: "steer" } : { triggerTurn: false, deliverAs: "steer" },
    );
  }

  /** Look at the session; returns the ids that now stand in its file and were not told yet. */
  check(inRun: boolean): string[] {
    this.#entries.refresh();
    const told: string[] = [];
    for (const item of this.#items.values()) {
      if (item.told) continue;
      if (!item.entered && this.#entries.messageEntry(MESSAGE_TYPE, item.id) !== undefined) {
        item.entered = true;
        item.text = "";
        this.#settlements.entered(item.id, inRun);
      }
      if (item.entered && this.#entries.fileExists()) {
        item.told = true;
        told.push(item.id);
      }
    }
    return told;
  }

  /**
   * Pi is idle and settled. What was injected before `since` and is not in the session was
   * dropped: Escape clears the queue, and a run that could not start loses its message.
   * After Escape the message is only stored: the person stopped the agent on purpose.
   */
  reinjectDropped(since: number, aborted: boolean): void {
    for (const item of this.#items.values()) {
      if (item.entered || item.injectedAt === undefined || item.injectedAt > since) continue;
      if (item.attempts >= ATTEMPTS_MAX) continue;
      this.#inject(item, !aborted && item.attempts < ATTEMPTS_MAX - 1);
    }
  }
}
