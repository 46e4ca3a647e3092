/**
 * Pi's events to the session that was started. Nothing else happens at factory time: factories may
 * run without a session.
 */
import type { ExtensionAPI, ExtensionContext, SessionStartEvent } from "@earendil-works/pi-coding-agent";
import { elect, register } from "./election.ts";
import { VERSION } from "./names.ts";
import { Runtime, type RuntimeOptions } from "./runtime.ts";

/** One copy's factory, with its surroundings replaceable for tests. */
export function wire(pi: ExtensionAPI, options: RuntimeOptions): void {
  let session: Runtime | undefined;
  register<SessionStartEvent, ExtensionContext>(VERSION, (event, ctx) => {
    const started = new Runtime(pi, ctx, options);
    started.start(event);
    session = started;
  });
  pi.on("session_start", async (event, ctx) => {
    const failure = await elect(event, ctx);
    if (failure !== undefined) ctx.ui.notify(`shepherdr did not start: ${String(failure)}`, "warning");
  });
  pi.on("input", () => session?.inputSeen());
  pi.on("before_agent_start", () => session?.runBegan());
  pi.on("agent_start", () => session?.agentStart());
  pi.on("turn_start", () => session?.turnStart());
  pi.on("message_end", () => session?.progressed());
  pi.on("turn_end", () => session?.progressed());
  pi.on("agent_settled", (event) => session?.settled(event.aborted));
  pi.on("session_before_compact", () => session?.compactionBegan());
  pi.on("session_compact", () => session?.compactionEnded());
  pi.on("session_compact_failed", () => session?.compactionEnded());
  pi.on("session_shutdown", async (event) => {
    const ended = session;
    session = undefined;
    await ended?.stop(event.reason);
  });
}
