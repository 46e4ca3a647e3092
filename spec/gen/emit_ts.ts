// pi-ext/src/generated/messages.ts: what the links of a pi session need.

import type { Field, Fields, Spec } from "./model.ts";

/** The links that pi-ext is an end of. */
const PI_ENDS = new Set(["pi_ext", "receiver"]);

const camel = (name: string): string => name.replace(/_([a-z0-9])/g, (_, c: string) => c.toUpperCase());
const pascal = (name: string): string => camel(`_${name}`);

function tsType(field: Field): string {
  switch (field.type) {
    case "string": return "string";
    case "int": return "number";
    case "bool": return "boolean";
    case "enum": return (field.values ?? []).map((v) => JSON.stringify(v)).join(" | ");
    case "object": return "Record<string, unknown>";
    case "array": return "unknown[]";
  }
}

function typeText(name: string, fields: Fields): string {
  const lines = Object.entries(fields).map(
    ([key, field]) => `  /** ${field.doc} */\n  ${key}${field.optional ? "?" : ""}: ${tsType(field)};`,
  );
  return lines.length === 0 ? `export type ${name} = Record<string, never>;` : `export type ${name} = {\n${lines.join("\n")}\n};`;
}

function fieldTable(fields: Fields): string {
  const entries = Object.entries(fields).map(([key, field]) => {
    const parts = [`type: ${JSON.stringify(field.type)}`, `optional: ${field.optional === true}`];
    if (field.min !== undefined) parts.push(`min: ${field.min}`);
    if (field.max !== undefined) parts.push(`max: ${field.max}`);
    if (field.values) parts.push(`values: ${JSON.stringify(field.values)}`);
    return `      ${key}: { ${parts.join(", ")} },`;
  });
  return entries.length === 0 ? "{}" : `{\n${entries.join("\n")}\n    }`;
}

export function typescript(spec: Spec): string {
  const links = spec.links.filter((l) => PI_ENDS.has(l.initiator) || PI_ENDS.has(l.responder)).map((l) => l.name);
  const messages = spec.messages.filter((m) => m.links.some((l) => links.includes(l)));
  const limits = spec.limits.map((l) => `  /** ${l.unit}. ${l.doc} */\n  ${camel(l.name)}: ${l.value},`);
  const frames = spec.frames.map((f) => `  /** ${f.doc} */\n  ${camel(f.name)}: ${f.id},`);
  const kinds = spec.kinds.map((k) => `  ${camel(k.name)}: ${k.id},`);
  const ids = messages.map((m) => `  /** ${m.doc} */\n  ${camel(m.name)}: ${m.id},`);
  const errors = spec.errors.map(
    (e) => `  ${e.name}: { code: ${e.code}, scope: ${JSON.stringify(e.scope)}, doc: ${JSON.stringify(e.doc)}, next: ${JSON.stringify(e.next)} },`,
  );
  const types = messages.flatMap((m) => [
    typeText(`${pascal(m.name)}Params`, m.params),
    ...(m.result ? [typeText(`${pascal(m.name)}Result`, m.result)] : []),
  ]);
  const serviceTypes = spec.services.flatMap((s) => [
    typeText(`${pascal(s.name)}Payload`, s.payload),
    typeText(`${pascal(s.name)}Answer`, s.answer),
  ]);
  const messageTable = messages.map(
    (m) => `  ${m.id}: {
    id: ${m.id},
    name: ${JSON.stringify(m.name)},
    kind: ${JSON.stringify(m.kind)},
    links: ${JSON.stringify(m.links)},
    from: ${JSON.stringify(m.from)},
    bulk: ${JSON.stringify(m.bulk)},
    params: ${fieldTable(m.params)},
    result: ${fieldTable(m.result ?? {})},
  },`,
  );
  const serviceTable = spec.services.map(
    (s) => `  ${s.name}: {
    payload: ${fieldTable(s.payload)},
    answer: ${fieldTable(s.answer)},
  },`,
  );
  return `// Generated from spec/messages.json by spec/gen/generate.ts. Do not edit.

export const PROTOCOL = {
  magic: ${JSON.stringify(spec.protocol.magic)},
  versionMin: ${spec.protocol.version_min},
  versionMax: ${spec.protocol.version_max},
} as const;

export const LIMITS = {
${limits.join("\n")}
} as const;

export const FRAME = {
${frames.join("\n")}
} as const;

export const KIND = {
${kinds.join("\n")}
} as const;

/** Ids of the messages that pi-ext sends or receives. */
export const MESSAGE = {
${ids.join("\n")}
} as const;

export type ErrorInfo = { code: number; scope: "session" | "request" | "call"; doc: string; next: string };

/** Error codes by name: the sentence and the next action. */
export const ERRORS = {
${errors.join("\n")}
} as const satisfies Record<string, ErrorInfo>;

export type ErrorName = keyof typeof ERRORS;

${types.join("\n\n")}

${serviceTypes.join("\n\n")}

export type ServiceName = ${spec.services.map((s) => JSON.stringify(s.name)).join(" | ")};

export type FieldInfo = {
  type: "string" | "int" | "bool" | "enum" | "object" | "array";
  optional: boolean;
  /** int: value. */
  min?: number;
  /** string: bytes of UTF-8; int: value; array: items. */
  max?: number;
  values?: readonly string[];
};
export type FieldTable = Readonly<Record<string, FieldInfo>>;
export type MessageInfo = {
  id: number;
  name: string;
  kind: "request" | "notification";
  links: readonly string[];
  from: string;
  bulk: "none" | "in" | "out" | "both";
  params: FieldTable;
  result: FieldTable;
};

/** Messages by id, with the tables that params and results are checked against. */
export const MESSAGES: Readonly<Record<number, MessageInfo>> = {
${messageTable.join("\n")}
};

/** Payload and answer of the services of session_request. */
export const SERVICES: Readonly<Record<ServiceName, { payload: FieldTable; answer: FieldTable }>> = {
${serviceTable.join("\n")}
};

const NAMES = new Map<number, ErrorName>(
  Object.entries(ERRORS).map(([name, info]) => [info.code, name as ErrorName]),
);

/** Name of an error code; undefined when this version does not know it. */
export function errorName(code: number): ErrorName | undefined {
  return NAMES.get(code);
}
`;
}
