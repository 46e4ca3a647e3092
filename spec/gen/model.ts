// The specification in spec/messages.json: its types, and the rules that a schema cannot state.

import { readFileSync } from "node:fs";
import { validate } from "./schema.ts";
import type { Schema } from "./schema.ts";

export type FieldType = "string" | "int" | "bool" | "enum" | "object" | "array";
export type Field = {
  type: FieldType;
  doc: string;
  optional?: boolean;
  min?: number;
  max?: number;
  values?: string[];
};
export type Fields = Record<string, Field>;
export type Limit = { name: string; value: number; unit: string; doc: string };
export type FrameType = { name: string; id: number; doc: string };
export type Kind = { name: string; id: number };
export type Scope = "session" | "request" | "call";
export type ErrorCode = { name: string; code: number; scope: Scope; doc: string; next: string };
export type Link = { name: string; suite: string; initiator: string; responder: string };
export type Message = {
  name: string;
  id: number;
  kind: "request" | "notification";
  links: string[];
  from: string;
  since: number;
  retired?: number;
  doc: string;
  params: Fields;
  result?: Fields;
  bulk: "none" | "in" | "out" | "both";
  errors?: string[];
};
export type Service = { name: string; doc: string; payload: Fields; answer: Fields };
export type Spec = {
  protocol: { name: string; magic: string; version_min: number; version_max: number };
  limits: Limit[];
  frames: FrameType[];
  kinds: Kind[];
  errors: ErrorCode[];
  links: Link[];
  messages: Message[];
  services: Service[];
};

/** Ids are handed out in groups of this many; a group belongs to one set of links. */
export const GROUP_SIZE = 16;

/** Both sides hold every integer exactly below this. */
const SAFE_MAX = Number.MAX_SAFE_INTEGER;

function unique(problems: string[], where: string, values: Iterable<string | number>): void {
  const seen = new Set<string | number>();
  for (const value of values) {
    if (seen.has(value)) problems.push(`${where}: ${value} is used twice`);
    seen.add(value);
  }
}

function ascending(problems: string[], where: string, values: number[]): void {
  values.forEach((value, i) => {
    const before = values[i - 1];
    if (before !== undefined && value <= before)
      problems.push(`${where}: ${value} stands after ${before}; new entries go to the end of their group`);
  });
}

function checkFields(problems: string[], where: string, fields: Fields): void {
  for (const [name, field] of Object.entries(fields)) {
    const at = `${where}.${name}`;
    if (!/^[a-z][a-z0-9_]*$/.test(name)) problems.push(`${at}: not a field name`);
    const needs = (key: "min" | "max" | "values", wanted: boolean): void => {
      if ((field[key] !== undefined) !== wanted)
        problems.push(`${at}: ${field.type} ${wanted ? "needs" : "has no"} ${key}`);
    };
    needs("min", field.type === "int");
    needs("max", field.type === "int" || field.type === "string" || field.type === "array");
    needs("values", field.type === "enum");
    if (field.values) unique(problems, at, field.values);
    if (field.type === "int" && (field.min ?? 0) > (field.max ?? 0)) problems.push(`${at}: min is above max`);
    if (Math.abs(field.min ?? 0) > SAFE_MAX || Math.abs(field.max ?? 0) > SAFE_MAX)
      problems.push(`${at}: a bound is not a safe integer`);
  }
}

function checkGroups(problems: string[], messages: Message[]): void {
  const groups = new Map<number, Message[]>();
  for (const message of messages) {
    const group = Math.floor(message.id / GROUP_SIZE);
    groups.set(group, [...(groups.get(group) ?? []), message]);
  }
  for (const [group, members] of groups) {
    const links = members[0]?.links.join(" ");
    if (members.some((m) => m.links.join(" ") !== links))
      problems.push(`messages ${group * GROUP_SIZE}..: one group holds messages of different links`);
    if (members.length >= GROUP_SIZE)
      problems.push(`messages ${group * GROUP_SIZE}..: the group has no room left; begin another one`);
  }
}

/** Everything that is wrong with the specification; empty when nothing is. */
export function check(spec: Spec): string[] {
  const problems: string[] = [];
  const errors = new Set(spec.errors.map((e) => e.name));
  const links = new Map(spec.links.map((l) => [l.name, l]));
  const limits = new Map(spec.limits.map((l) => [l.name, l.value]));

  unique(problems, "limits", spec.limits.map((l) => l.name));
  unique(problems, "frames", spec.frames.map((f) => f.name));
  unique(problems, "frames", spec.frames.map((f) => f.id));
  unique(problems, "kinds", spec.kinds.map((k) => k.name));
  unique(problems, "kinds", spec.kinds.map((k) => k.id));
  unique(problems, "errors", spec.errors.map((e) => e.name));
  unique(problems, "errors", spec.errors.map((e) => e.code));
  unique(problems, "links", spec.links.map((l) => l.name));
  unique(problems, "messages", spec.messages.map((m) => m.name));
  unique(problems, "messages", spec.messages.map((m) => m.id));
  unique(problems, "services", spec.services.map((s) => s.name));
  ascending(problems, "errors", spec.errors.map((e) => e.code));
  ascending(problems, "messages", spec.messages.map((m) => m.id));
  checkGroups(problems, spec.messages);

  if (spec.protocol.version_min > spec.protocol.version_max) problems.push("protocol: version_min is above version_max");
  if (limits.get("frame_payload_bytes_max") !== (limits.get("frame_bytes_max") ?? 0) - 24)
    problems.push("limits: frame_payload_bytes_max is not frame_bytes_max less tag and header");

  for (const message of spec.messages) {
    const at = `messages.${message.name}`;
    const isRequest = message.kind === "request";
    for (const link of message.links) if (!links.has(link)) problems.push(`${at}: no link ${link}`);
    for (const error of message.errors ?? []) if (!errors.has(error)) problems.push(`${at}: no error ${error}`);
    unique(problems, `${at}.errors`, message.errors ?? []);
    const ends = message.links.flatMap((name) => [links.get(name)?.initiator, links.get(name)?.responder]);
    if (message.from !== "any" && !ends.includes(message.from)) problems.push(`${at}: ${message.from} is on no link of it`);
    if (isRequest !== (message.result !== undefined)) problems.push(`${at}: requests, and only they, have a result`);
    if (isRequest !== (message.errors !== undefined)) problems.push(`${at}: requests, and only they, have errors`);
    if (!isRequest && (message.bulk === "out" || message.bulk === "both"))
      problems.push(`${at}: a notification has no bulk out`);
    if (message.since > spec.protocol.version_max) problems.push(`${at}: since is a version that does not exist`);
    if (message.retired !== undefined && message.retired <= message.since) problems.push(`${at}: retired before it was there`);
    checkFields(problems, `${at}.params`, message.params);
    checkFields(problems, `${at}.result`, message.result ?? {});
  }

  const service = spec.messages.find((m) => m.name === "session_request")?.params["service"];
  if (service?.values?.join(" ") !== spec.services.map((s) => s.name).join(" "))
    problems.push("services: session_request.service lists other names, or another order");
  for (const s of spec.services) {
    checkFields(problems, `services.${s.name}.payload`, s.payload);
    checkFields(problems, `services.${s.name}.answer`, s.answer);
  }
  return problems;
}

/** Read and check; throws with every problem in one text. */
export function load(specPath: string, schemaPath: string): Spec {
  const value: unknown = JSON.parse(readFileSync(specPath, "utf8"));
  const schema = JSON.parse(readFileSync(schemaPath, "utf8")) as Schema;
  const problems = validate(schema, value);
  if (problems.length === 0) problems.push(...check(value as Spec));
  if (problems.length > 0) throw new Error(`spec/messages.json:\n  ${problems.join("\n  ")}`);
  return value as Spec;
}
