/** Whose worker this session is. The entry survives a resume; a fork's copy names another session. */
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { ShepherdrError } from "./errors.ts";
import { BINDING_ENTRY } from "./names.ts";
import type { Entries } from "./entries.ts";

export type Parent = { piSessionId: string; installation: string };
export type Binding = { parent: string; agent: string; installation: string };

export class Bindings {
  readonly #pi: Pick<ExtensionAPI, "appendEntry">;
  readonly #sessionId: string;
  #current: Binding | undefined;
  /** Proves the worker to its parent; lives in memory only and is new with each bind. */
  #capability: string | undefined;

  constructor(options: { pi: Pick<ExtensionAPI, "appendEntry">; sessionId: string; entries: Entries }) {
    this.#pi = options.pi;
    this.#sessionId = options.sessionId;
    for (const data of options.entries.bindings) {
      const { session, parent, agent, installation } = data;
      if (session !== this.#sessionId) continue;
      if (typeof parent !== "string" || typeof agent !== "string" || typeof installation !== "string") continue;
      this.#current = { parent, agent, installation };
    }
  }

  get current(): Binding | undefined {
    return this.#current;
  }

  get capability(): string | undefined {
    return this.#capability;
  }

  /** Returns true when this parent had bound the session before. */
  bind(from: Parent, agent: string, capability: string): boolean {
    const bound = this.#current;
    if (bound !== undefined && (bound.parent !== from.piSessionId || bound.installation !== from.installation)) {
      throw new ShepherdrError("already_bound", { step: "bind", cause: `bound by pi session ${bound.parent}` });
    }
    if (bound === undefined || bound.agent !== agent) {
      const { piSessionId: parent, installation } = from;
      this.#pi.appendEntry(BINDING_ENTRY, { session: this.#sessionId, parent, agent, installation });
      this.#current = { parent, agent, installation };
    }
    this.#capability = capability;
    return bound !== undefined;
  }
}
