// spec/messages.md: the page for people.

import type { Fields, Spec } from "./model.ts";

const cell = (text: string): string => text.replaceAll("|", "\\|");

function fieldTable(title: string, fields: Fields): string {
  const entries = Object.entries(fields);
  if (entries.length === 0) return `${title}: none.\n`;
  const rows = entries.map(([name, f]) => {
    const bounds =
      f.type === "int" ? `${f.min} to ${f.max}`
      : f.type === "string" ? `at most ${f.max} bytes`
      : f.type === "array" ? `at most ${f.max} items`
      : f.type === "enum" ? (f.values ?? []).map((v) => `\`${v}\``).join(", ")
      : "";
    return `| \`${name}\`${f.optional ? "?" : ""} | ${f.type} | ${bounds} | ${cell(f.doc)} |`;
  });
  return `${title}:\n\n| field | type | bounds | meaning |\n|---|---|---|---|\n${rows.join("\n")}\n`;
}

const BULK = { none: "none", in: "with the question", out: "with the answer", both: "both ways" };

export function markdown(spec: Spec): string {
  const parts: string[] = [
    "<!-- Generated from spec/messages.json by spec/gen/generate.ts. Do not edit. -->",
    "# Messages of the shepherdr protocol",
    "",
    `Protocol versions ${spec.protocol.version_min} to ${spec.protocol.version_max}, magic \`${spec.protocol.magic}\`. How they are used: [protocol.md](protocol.md). A \`?\` marks a field that may be absent.`,
    "",
    "## Links",
    "",
    "| link | suite | initiator | responder |",
    "|---|---|---|---|",
    ...spec.links.map((l) => `| ${l.name} | ${l.suite} | ${l.initiator} | ${l.responder} |`),
    "",
    "## Frames",
    "",
    "| type | name | meaning |",
    "|---|---|---|",
    ...spec.frames.map((f) => `| ${f.id} | \`${f.name}\` | ${cell(f.doc)} |`),
    "",
    `Kinds of \`head\`: ${spec.kinds.map((k) => `${k.id} \`${k.name}\``).join(", ")}.`,
    "",
    "## Messages",
    "",
    "| id | name | kind | from | links |",
    "|---|---|---|---|---|",
    ...spec.messages.map((m) => `| ${m.id} | [\`${m.name}\`](#${m.name}) | ${m.kind} | ${m.from} | ${m.links.join(", ")} |`),
    "",
  ];
  for (const m of spec.messages) {
    parts.push(`### ${m.name}`, "", `${m.kind} ${m.id}, from ${m.from}, on ${m.links.join(", ")}, since version ${m.since}${m.retired !== undefined ? `, retired in ${m.retired}` : ""}. Bulk: ${BULK[m.bulk]}.`, "", m.doc, "", fieldTable("Params", m.params));
    if (m.result) parts.push(fieldTable("Result", m.result));
    if (m.errors && m.errors.length > 0) parts.push(`Errors of its own: ${m.errors.map((e) => `\`${e}\``).join(", ")}.`, "");
  }
  parts.push("## Services of session_request", "");
  for (const s of spec.services) {
    parts.push(`### ${s.name} (service)`, "", s.doc, "", fieldTable("Payload", s.payload), fieldTable("Answer", s.answer));
  }
  parts.push(
    "## Errors",
    "",
    "| code | name | scope | meaning | next |",
    "|---|---|---|---|---|",
    ...spec.errors.map((e) => `| ${e.code} | \`${e.name}\` | ${e.scope} | ${cell(e.doc)} | ${cell(e.next)} |`),
    "",
    "## Limits",
    "",
    "| name | value | unit | meaning |",
    "|---|---|---|---|",
    ...spec.limits.map((l) => `| \`${l.name}\` | ${l.value} | ${l.unit} | ${cell(l.doc)} |`),
    "",
  );
  return parts.join("\n");
}
