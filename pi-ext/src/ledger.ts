/**
 * Reports into the conversation, each once (spec/protocol.md section 10).
 *
 * A push carries its id in the details of the custom message. Pi says nothing about acceptance, so
 * the session's entries are the proof: `confirmed` in an entry and the file exists, `provisional`
 * without a file, `absent` when Pi provably dropped it. Marks are repeated until the controller
 * took them.
 *
 * One push is outstanding at a time. What comes meanwhile waits and then goes in together: all but
 * the last without a turn of their own, so that one turn answers them all.
 */
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { ShepherdrError } from "./errors.ts";
import { EVENT_TYPE } from "./names.ts";
import type { Activity } from "./activity.ts";
import type { Entries } from "./entries.ts";

export type MarkState = "confirmed" | "provisional" | "absent";
export type Report = { id: string; details: Record<string, unknown>; text: string };

const QUEUE_MAX = 256;
const MARK_IDS_MAX = 64;

export class Ledger {
  readonly #pi: Pick<ExtensionAPI, "sendMessage">;
  readonly #entries: Entries;
  readonly #activity: Activity;
  readonly #clock: () => number;
  /** Tell the controller; rejects when it could not be told. */
  readonly #mark: (ids: string[], state: MarkState) => Promise<void>;
  readonly #queue: Report[] = [];
  /** Handed to Pi, not in an entry yet: id to time. */
  readonly #outstanding = new Map<string, number>();
  /** Went to the model as the result of a call that waited; not in an entry yet. */
  readonly #results = new Map<string, number>();
  /** In an entry while no file exists. */
  readonly #provisional = new Set<string>();
  /** Dropped by Escape: shown again without waking the agent until a run begins. */
  readonly #quiet = new Set<string>();
  readonly #unsaid = new Map<string, MarkState>();
  #telling = false;

  constructor(options: {
    pi: Pick<ExtensionAPI, "sendMessage">;
    entries: Entries;
    activity: Activity;
    clock: () => number;
    mark: (ids: string[], state: MarkState) => Promise<void>;
  }) {
    this.#pi = options.pi;
    this.#entries = options.entries;
    this.#activity = options.activity;
    this.#clock = options.clock;
    this.#mark = options.mark;
  }

  /** False: it stands in the session already. Throws `receiver_busy` when too many wait. */
  push(report: Report): boolean {
    this.#entries.refresh();
    if (this.#entries.messageEntry(EVENT_TYPE, report.id) !== undefined) {
      this.#say(report.id, this.#entries.fileExists() ? "confirmed" : "provisional");
      this.#tell();
      return false;
    }
    if (this.#outstanding.has(report.id) || this.#queue.some((queued) => queued.id === report.id)) return true;
    if (this.#queue.length >= QUEUE_MAX) throw new ShepherdrError("receiver_busy", { step: "report", cause: "too many reports wait" });
    this.#queue.push(report);
    this.flush();
    return true;
  }

  /** The result of a call carries this report: it counts as delivered when the result stands in the session. */
  expectResult(id: string): void {
    this.#results.set(id, this.#clock());
  }

  /** Hand over what waits, unless a push is outstanding or Pi cannot take one now. */
  flush(): void {
    if (this.#queue.length === 0 || this.#outstanding.size > 0) return;
    if (this.#activity.busy || this.#activity.starting) return;
    const batch = this.#queue.splice(0);
    let waking = -1;
    batch.forEach((report, index) => {
      if (!(this.#activity.stoppedByPerson && this.#quiet.has(report.id))) waking = index;
    });
    // The one that wakes goes last, so that its turn sees the others.
    const last = waking < 0 ? undefined : batch.splice(waking, 1)[0];
    for (const report of batch) this.#send(report, false);
    if (last !== undefined) this.#send(last, true);
    this.check();
  }

  #send(report: Report, wake: boolean): void {
    this.#outstanding.set(report.id, this.#clock());
    this.#quiet.delete(report.id);
    this.#pi.sendMessage(
      { customType: EVENT_TYPE, content: report.text, display: true, details: { ...report.details, id: report.id } },
      wake ? { triggerTurn: true, deliverAs: "steer" } : { triggerTurn: false, deliverAs: "steer" },
    );
  }

  /** Look at the session: after message_end, turn_end, agent_settled and session_start. */
  check(): void {
    this.#entries.refresh();
    const exists = this.#entries.fileExists();
    for (const id of [...this.#outstanding.keys(), ...this.#results.keys()]) {
      if (this.#entries.messageEntry(EVENT_TYPE, id) === undefined) continue;
      this.#outstanding.delete(id);
      this.#results.delete(id);
      this.#say(id, exists ? "confirmed" : "provisional");
      if (!exists) this.#provisional.add(id);
    }
    if (exists) {
      for (const id of this.#provisional) this.#say(id, "confirmed");
      this.#provisional.clear();
    }
    this.#tell();
  }

  /**
   * Pi is idle and nothing of its queues is left: what was pushed before `since` and stands in no
   * entry was dropped.
   */
  markAbsent(since: number): void {
    this.check();
    for (const [id, at] of [...this.#outstanding, ...this.#results]) {
      if (at > since) continue;
      this.#outstanding.delete(id);
      this.#results.delete(id);
      if (this.#activity.stoppedByPerson) this.#quiet.add(id);
      this.#say(id, "absent");
    }
    this.#tell();
    this.flush();
  }

  get outstanding(): number {
    return this.#outstanding.size;
  }

  get waiting(): number {
    return this.#queue.length;
  }

  #say(id: string, state: MarkState): void {
    this.#unsaid.set(id, state);
  }

  /** One mark at a time; what could not be said stays and goes with the next event. */
  #tell(): void {
    if (this.#telling || this.#unsaid.size === 0) return;
    const state = this.#unsaid.values().next().value!;
    const ids = [...this.#unsaid].filter(([, s]) => s === state).map(([id]) => id).slice(0, MARK_IDS_MAX);
    this.#telling = true;
    this.#mark(ids, state).then(
      () => {
        for (const id of ids) if (this.#unsaid.get(id) === state) this.#unsaid.delete(id);
        this.#telling = false;
        this.#tell();
      },
      () => {
        this.#telling = false;
      },
    );
  }
}
