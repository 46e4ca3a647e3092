/**
 * What of ours stands in the session: an index over Pi's entries, read forward only.
 *
 * Pi's entries are append-only while a session lives, so each entry is looked at once.
 */
import { existsSync } from "node:fs";
import type { ExtensionContext, SessionEntry } from "@earendil-works/pi-coding-agent";
import { BINDING_ENTRY, EVENT_TYPE, INBOX_ENTRY, MESSAGE_TYPE, TOOL_NAME } from "./names.ts";

export type SessionView = ExtensionContext["sessionManager"];

export type LastReply = {
  entryId: string;
  stopReason: string | undefined;
  errorMessage: string | undefined;
  text: string;
};

const record = (value: unknown): Record<string, unknown> | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;

function assistantOf(entry: SessionEntry): { stopReason: string | undefined; errorMessage: string | undefined; text: string } | undefined {
  if (entry.type !== "message") return undefined;
  const message = record(entry.message);
  if (message?.["role"] !== "assistant") return undefined;
  const content = message["content"];
  let text = "";
  if (typeof content === "string") text = content;
  else if (Array.isArray(content)) {
    for (const block of content) {
      const part = record(block);
      if (part?.["type"] === "text" && typeof part["text"] === "string") text += part["text"];
    }
  }
  const string = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
  return { stopReason: string(message["stopReason"]), errorMessage: string(message["errorMessage"]), text };
}

/** A blocking call's result names the report that it stands for: then that report was delivered. */
function reportOf(entry: SessionEntry): string | undefined {
  if (entry.type !== "message") return undefined;
  const message = record(entry.message);
  if (message?.["role"] !== "toolResult" || message["toolName"] !== TOOL_NAME) return undefined;
  const report = record(message["details"])?.["report"];
  return typeof report === "string" ? report : undefined;
}

export class Entries {
  readonly #view: SessionView;
  #seen = 0;
  /** `customType` and id of details, to the entry. */
  readonly #messages = new Map<string, string>();
  readonly inbox: { entryId: string; data: Record<string, unknown> }[] = [];
  readonly bindings: Record<string, unknown>[] = [];
  #fileSeen = false;

  constructor(view: SessionView) {
    this.#view = view;
    this.refresh();
  }

  refresh(): void {
    const all = this.#view.getEntries();
    for (; this.#seen < all.length; this.#seen++) {
      const entry = all[this.#seen]!;
      if (entry.type === "custom_message" && (entry.customType === MESSAGE_TYPE || entry.customType === EVENT_TYPE)) {
        const id = record(entry.details)?.["id"];
        if (typeof id === "string") this.#messages.set(`${entry.customType}/${id}`, entry.id);
      } else if (entry.type === "message") {
        const report = reportOf(entry);
        if (report !== undefined) this.#messages.set(`${EVENT_TYPE}/${report}`, entry.id);
      } else if (entry.type === "custom" && entry.customType === INBOX_ENTRY) {
        const data = record(entry.data);
        if (data !== undefined) this.inbox.push({ entryId: entry.id, data });
      } else if (entry.type === "custom" && entry.customType === BINDING_ENTRY) {
        const data = record(entry.data);
        if (data !== undefined) this.bindings.push(data);
      }
    }
  }

  /** Entry of the custom message with that id in its details, or of the tool result that carried that report. */
  messageEntry(customType: string, id: string): string | undefined {
    return this.#messages.get(`${customType}/${id}`);
  }

  /** Pi creates the file with the first user or assistant message; once it exists we stop looking. */
  fileExists(): boolean {
    if (this.#fileSeen) return true;
    const file = this.#view.getSessionFile();
    this.#fileSeen = file !== undefined && existsSync(file);
    return this.#fileSeen;
  }

  leaf(): string | undefined {
    return this.#view.getLeafId() ?? undefined;
  }

  /** Newest assistant entry of the active branch. */
  newestAssistant(): string | undefined {
    const branch = this.#view.getBranch();
    for (let i = branch.length - 1; i >= 0; i--) if (assistantOf(branch[i]!) !== undefined) return branch[i]!.id;
    return undefined;
  }

  /**
   * Latest assistant reply after an entry on the branch of `leaf` (default: the active one); status and error are those of the
   * latest attempt, the text that of the last attempt that has one, as Pi itself shows it.
   */
  replyAfter(inputEntry: string, leaf?: string): LastReply | undefined {
    const branch = this.#view.getBranch(leaf);
    const from = branch.findIndex((entry) => entry.id === inputEntry);
    if (from < 0) return undefined;
    let latest: LastReply | undefined;
    for (let i = branch.length - 1; i > from; i--) {
      const assistant = assistantOf(branch[i]!);
      if (assistant === undefined) continue;
      if (latest === undefined) latest = { entryId: branch[i]!.id, ...assistant };
      else if (assistant.text !== "") latest.text = assistant.text;
      if (latest.text !== "" || latest.stopReason === "stop") return latest;
    }
    return latest;
  }
}
