/** The extension's entry. */
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { renderAgentEvent, renderAgentMessage, renderCall, renderResult } from "./renderers.ts";
import { wire } from "./wire.ts";

export default function shepherdr(pi: ExtensionAPI): void {
  wire(pi, { renderers: { call: renderCall, result: renderResult, message: renderAgentMessage, event: renderAgentEvent } });
}
