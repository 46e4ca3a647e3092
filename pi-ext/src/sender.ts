/** The text that an agent's message is injected as: one attribution line, then the message. */

export type MessageKind = "message" | "task";

/** Attributes in the order in which they are written. */
const ATTRIBUTES = ["host", "session", "pane", "workspace", "tab", "name", "pane_name", "workspace_name", "tab_name"] as const;

const ATTRIBUTE_CHARS_MAX = 512;

const TASK_GUIDANCE =
  "This is a delegated task. Work on it, then end with a reply that carries the result: the sender receives it by itself, " +
  "so send no extra message and do not wait for the sender. When something stops you, end with what it is.";

/** Safe within a quoted attribute, on one line and on a terminal. */
function escapeAttribute(value: string): string {
  return [...value.slice(0, ATTRIBUTE_CHARS_MAX)]
    .map((c) => {
      switch (c) {
        case "&":
          return "&amp;";
        case "<":
          return "&lt;";
        case ">":
          return "&gt;";
        case '"':
          return "&quot;";
        case "'":
          return "&apos;";
        case "\n":
          return "&#10;";
        case "\r":
          return "&#13;";
        case "\t":
          return "&#9;";
        default:
          return /[\u0000-\u001f\u007f-\u009f\u2028\u2029\ud800-\udfff]/u.test(c) ? "\ufffd" : c;
      }
    })
    .join("");
}

/** One self-closing element on one line. Fields that are no text are left out. */
export function senderElement(kind: MessageKind, sender: Record<string, unknown>): string {
  let out = `<herdr_sender kind="${kind}"`;
  for (const name of ATTRIBUTES) {
    const value = sender[name];
    if (typeof value === "string" && value !== "") out += ` ${name}="${escapeAttribute(value)}"`;
  }
  return `${out} />`;
}

export function messageContent(kind: MessageKind, sender: Record<string, unknown>, text: string): string {
  const guidance = kind === "task" ? `${TASK_GUIDANCE}\n\n` : "";
  return `${senderElement(kind, sender)}\n${guidance}${text}`;
}
