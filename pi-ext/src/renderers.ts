/**
 * How calls, results and pushed messages look in the TUI. The only file with Pi's TUI parts.
 * Saved details come from files, so each field is checked; what is odd falls back to the text.
 */
import { getMarkdownTheme, type MessageRenderer, type Theme } from "@earendil-works/pi-coding-agent";
import { Box, Markdown, Text, type Component } from "@earendil-works/pi-tui";
import type { AgentsToolDefinition } from "./agents-tool.ts";
import { TOOL_NAME } from "./names.ts";
import { oneLine, plainText } from "./plain-text.ts";

const TITLE_CHARS_MAX = 120;
const COLLAPSED_LINES = 12;

type Details = Record<string, unknown>;
type Tone = "success" | "warning" | "error" | "accent";

function objectOf(value: unknown): Details {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Details) : {};
}

function field(details: Details, ...names: string[]): string | undefined {
  for (const name of names) {
    const value = details[name];
    if (typeof value === "string" && value.trim() !== "") return oneLine(value, TITLE_CHARS_MAX);
  }
  return undefined;
}

function contentText(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part) => (typeof objectOf(part)["text"] === "string" ? (objectOf(part)["text"] as string) : "")).join("\n");
}

function toneOf(state: string): Tone {
  if (state === "failed" || state === "error") return "error";
  if (state === "blocked") return "warning";
  return state === "working" || state === "starting" ? "accent" : "success";
}

/** The state that a result speaks of. */
function stateOf(details: Details): string {
  const status = field(details, "status");
  if (status !== undefined) return status;
  for (const name of ["sent", "spawned", "assigned", "watched", "unwatched", "detached"]) if (details[name] === true) return name;
  return "done";
}

function clipped(text: string, expanded: boolean, hint: string): string {
  const lines = plainText(text).split("\n");
  if (expanded || lines.length <= COLLAPSED_LINES) return lines.join("\n");
  return `${lines.slice(0, COLLAPSED_LINES).join("\n")}\n\n… ${lines.length - COLLAPSED_LINES} more lines${hint === "" ? "" : ` (${hint})`}`;
}

type Renderers = Required<Pick<AgentsToolDefinition, "renderCall" | "renderResult">>;

export const renderCall: Renderers["renderCall"] = (args, theme) => {
  const call = objectOf(args);
  const subject = field(call, "target", "label", "name", "agent_type", "query");
  const machine = field(call, "machine");
  let line = theme.fg("toolTitle", theme.bold(`${TOOL_NAME} ${field(call, "action") ?? "help"}`));
  if (subject !== undefined) line += ` ${theme.fg("muted", subject)}`;
  if (machine !== undefined) line += theme.fg("dim", ` on ${machine}`);
  return new Text(line, 0, 0);
};

export const renderResult: Renderers["renderResult"] = (result, { expanded, isPartial }, theme, context) => {
  const details = objectOf(result.details);
  if (context.isError) return new Text(theme.fg("error", plainText(contentText(result.content))), 0, 0);
  const state = stateOf(details);
  const subject = field(details, "name", "target");
  const machine = field(details, "machine");
  const title = [subject, machine, state].filter((part) => part !== undefined).join(" · ");
  const box = new Box(0, 0);
  box.addChild(new Text(theme.fg(isPartial ? "accent" : toneOf(state), title), 0, 0));
  const { reply, ...rest } = details;
  if (expanded) box.addChild(new Text(theme.fg("dim", plainText(JSON.stringify(rest, null, 2))), 0, 0));
  if (typeof reply === "string" && reply !== "") {
    box.addChild(new Markdown(clipped(reply, expanded, context.keyHint("app.tools.expand", "to expand")), 0, 0, getMarkdownTheme()));
  }
  return box;
};

function pushed(title: string, tone: Tone, under: string | undefined, body: string, theme: Theme): Component {
  const box = new Box(1, 1, (text) => theme.bg("customMessageBg", text));
  box.addChild(new Text(theme.fg(tone, theme.bold(title)), 0, 0));
  if (under !== undefined) box.addChild(new Text(theme.fg("dim", under), 0, 0));
  if (body !== "") box.addChild(new Markdown(body, 0, 0, getMarkdownTheme(), { color: (text) => theme.fg("customMessageText", text) }));
  return box;
}

/** The injected text without its attribution line. */
function withoutSender(text: string): string {
  return text.startsWith("<herdr_sender ") ? text.slice(text.indexOf("\n") + 1) : text;
}

export const renderAgentMessage: MessageRenderer<unknown> = (message, options, theme) => {
  const details = objectOf(message.details);
  const sender = objectOf(details["sender"]);
  const text = contentText(message.content);
  const who = field(sender, "name", "pane_name", "tab_name", "pane") ?? "another agent";
  const where = [field(sender, "host"), field(sender, "workspace_name", "workspace")].filter((part) => part !== undefined).join(" · ");
  const kind = details["kind"] === "task" ? "Task" : "Message";
  const known = typeof details["id"] === "string";
  const body = known ? withoutSender(text) : text;
  return pushed(`${kind} from ${who}`, "accent", where === "" ? undefined : where, clipped(body, options.expanded, options.keyHint("app.tools.expand", "to expand")), theme);
};

const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

/** What a person reads of the element that the model gets: its response, or all of it. */
function reportBody(text: string): string {
  const from = text.indexOf("<response");
  const start = from < 0 ? -1 : text.indexOf(">", from);
  const end = text.lastIndexOf("</response>");
  if (!text.startsWith("<agent_report ") || start < 0 || end < start) return text;
  return text.slice(start + 1, end).replace(/&(amp|lt|gt|quot|apos);/gu, (_all, name: string) => ENTITIES[name]!);
}

export const renderAgentEvent: MessageRenderer<unknown> = (message, options, theme) => {
  const details = objectOf(message.details);
  const state = field(details, "state") ?? "report";
  const title = [field(details, "machineLabel", "machine"), field(details, "name", "paneId"), state].filter((part) => part !== undefined).join(" · ");
  const where = [field(details, "workspace"), field(details, "tab"), field(details, "cwd")].filter((part) => part !== undefined).join(" · ");
  const task = options.expanded && typeof details["task"] === "string" ? `> ${plainText(details["task"]).replaceAll("\n", "\n> ")}\n\n` : "";
  const body = task + reportBody(contentText(message.content));
  return pushed(title, toneOf(state), where === "" ? undefined : where, clipped(body, options.expanded, options.keyHint("app.tools.expand", "to expand")), theme);
};
