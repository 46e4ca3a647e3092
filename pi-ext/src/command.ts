/** `/herdr`: one notice that says how things are. */
import type { ExtensionCommandContext } from "@earendil-works/pi-coding-agent";
import { newId, type Controller } from "./controller.ts";
import { ShepherdrError } from "./errors.ts";
import { VERSION, inHerdr } from "./names.ts";
import { oneLine } from "./plain-text.ts";

const LIST_TIMEOUT_MS = 10_000;
const FIELD_CHARS_MAX = 80;

type Status = { controller: Controller; receiver: string; outstanding: number };

function text(value: unknown): string {
  return typeof value === "string" ? oneLine(value, FIELD_CHARS_MAX) : "";
}

function machineLine(value: unknown): string {
  const machine = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  const label = text(machine["label"]);
  const name = [text(machine["id"]), label === "" ? "" : `(${label})`].filter((part) => part !== "").join(" ");
  const trouble = ["reason", "snapshotError", "monitoringIssue"].map((key) => text(machine[key])).find((part) => part !== "");
  return `  ${name}: ${text(machine["status"]) || "unknown"}${trouble === undefined ? "" : `, ${trouble}`}`;
}

export async function statusText({ controller, receiver, outstanding }: Status): Promise<string> {
  const lines = [`shepherdr ${VERSION}`, `receiver: ${receiver}`];
  if (outstanding > 0) lines.push(`reports on their way into this session: ${outstanding}`);
  if (!controller.running) {
    const found = controller.locate();
    if (found.path === undefined) {
      lines.push("controller: the shepherdr program was not found. Looked at:", ...found.looked.map((place) => `  ${place}`));
      lines.push("Install shepherdr, or set SHEPHERDR_BIN to its absolute path.");
    } else {
      const failure = controller.lastFailure;
      lines.push(`controller: not running (${found.path}); it starts with the first call of the agents tool`);
      if (failure !== undefined) lines.push(`last failure: ${failure.describe()}`);
    }
    if (!inHerdr()) lines.push("This Pi does not run in a Herdr pane.");
    return lines.join("\n");
  }
  lines.push(`controller: running (pid ${controller.pid ?? 0})`);
  try {
    const { value } = await controller.call(newId(), { action: "list" }, undefined, AbortSignal.timeout(LIST_TIMEOUT_MS), undefined);
    const machines = Array.isArray(value["machines"]) ? (value["machines"] as unknown[]) : [];
    const agents = Array.isArray(value["agents"]) ? value["agents"].length : 0;
    const more = typeof value["moreAgents"] === "number" ? value["moreAgents"] : 0;
    lines.push(machines.length === 0 ? "machines: none" : "machines:", ...machines.map(machineLine), `agents: ${agents + more}`);
  } catch (error) {
    lines.push(`machines: ${ShepherdrError.from(error).describe()}`);
  }
  return lines.join("\n");
}

export async function runCommand(status: Status, ctx: Pick<ExtensionCommandContext, "ui">): Promise<void> {
  ctx.ui.notify(await statusText(status), "info");
}
