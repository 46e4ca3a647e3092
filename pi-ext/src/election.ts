/**
 * Several copies of this extension may be loaded at once: an installed one and the one that a
 * parent pushed. Exactly one of them may act in a session.
 *
 * THE HANDSHAKE IS FROZEN. Copies of different versions meet in it, so it can never change:
 * - `globalThis[Symbol.for("shepherdr/1")]` is an array.
 * - At factory time each copy pushes `{ version, start }`. `version` is `major.minor.patch` in
 *   decimal; `start(event, ctx)` takes Pi's `session_start` event and context.
 * - At `session_start` each copy looks at the array. Whoever finds it filled empties it, and calls
 *   `start` of the newest version; among equals, of the one that was pushed last. When that
 *   throws (a factory run whose session never started leaves a stale copy), the next one is tried.
 * - Whoever finds it empty does nothing.
 * Factories run anew for each session of a process, with the module cached or not, so each session
 * elects anew.
 */
export type Start<Event, Context> = (event: Event, ctx: Context) => void | Promise<void>;
export type Candidate<Event, Context> = { version: string; start: Start<Event, Context> };

const KEY = Symbol.for("shepherdr/1");

function candidates<Event, Context>(): Candidate<Event, Context>[] {
  const global = globalThis as { [KEY]?: Candidate<Event, Context>[] };
  return (global[KEY] ??= []);
}

export function compareVersions(a: string, b: string): number {
  const parts = (version: string): number[] => version.split(".").map((part) => Number.parseInt(part, 10) || 0);
  const left = parts(a);
  const right = parts(b);
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

export function register<Event, Context>(version: string, start: Start<Event, Context>): void {
  candidates<Event, Context>().push({ version, start });
}

/** Called by every copy at `session_start`. Returns why nobody could be started, when there was somebody. */
export async function elect<Event, Context>(event: Event, ctx: Context): Promise<unknown> {
  const standing = candidates<Event, Context>().splice(0);
  const order = standing.map((candidate, index) => ({ candidate, index }));
  order.sort((a, b) => compareVersions(b.candidate.version, a.candidate.version) || b.index - a.index);
  let failure: unknown;
  for (const { candidate } of order) {
    try {
      await candidate.start(event, ctx);
      return undefined;
    } catch (error) {
      // Most likely stale: the next one.
      failure ??= error;
    }
  }
  return failure;
}
