// protocol/messages.h and protocol/messages.c

import type { Field, Fields, Spec } from "./model.ts";

const upper = (name: string): string => name.toUpperCase();
const quote = (text: string): string => JSON.stringify(text);

const FIRST_LINE = "/* Generated from spec/messages.json by spec/gen/generate.ts. Do not edit. */\n/* clang-format off */\n";

function parties(spec: Spec): string[] {
  return [...new Set(spec.links.flatMap((l) => [l.initiator, l.responder]))];
}

export function header(spec: Spec): string {
  const limits = spec.limits.map((l) => `#define SHP_LIMIT_${upper(l.name)} ${l.value} /* ${l.unit}. ${l.doc} */`);
  const frames = spec.frames.map((f) => `    SHP_FRAME_${upper(f.name)} = ${f.id}, /* ${f.doc} */`);
  const kinds = spec.kinds.map((k) => `    SHP_KIND_${upper(k.name)} = ${k.id},`);
  const codes = spec.errors.map((e) => `    SHP_CODE_${upper(e.name)} = ${e.code}, /* ${e.doc} */`);
  const links = spec.links.map((l, i) => `    SHP_LINK_${upper(l.name)} = ${1 << i}, /* ${l.suite}: ${l.initiator} to ${l.responder} */`);
  const from = ["any", ...parties(spec)].map((p, i) => `    SHP_FROM_${upper(p)} = ${i},`);
  const messages = spec.messages.map((m) => `    SHP_MSG_${upper(m.name)} = ${m.id}, /* ${m.kind} */`);
  const services = spec.services.map((s, i) => `    SHP_SERVICE_${upper(s.name)} = ${i}, /* ${s.doc} */`);
  return `${FIRST_LINE}
/*
 * Names, numbers and bounds of the protocol as data. What they mean is in spec/protocol.md; the page
 * for reading is spec/messages.md. All tables are static and read-only.
 */
#ifndef SHP_PROTOCOL_MESSAGES_H
#define SHP_PROTOCOL_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHP_PROTOCOL_MAGIC ${quote(spec.protocol.magic)}
#define SHP_PROTOCOL_VERSION_MIN ${spec.protocol.version_min}
#define SHP_PROTOCOL_VERSION_MAX ${spec.protocol.version_max}

${limits.join("\n")}

enum shp_frame_type {
${frames.join("\n")}
};

enum shp_kind {
${kinds.join("\n")}
};

/* Error codes on the wire and in struct shp_error. 0 is no error. */
enum shp_code {
    SHP_CODE_NONE = 0,
${codes.join("\n")}
};

/* How far an error reaches. */
enum shp_scope {
    SHP_SCOPE_SESSION,
    SHP_SCOPE_REQUEST,
    SHP_SCOPE_CALL,
};

/* Links as bits. */
enum shp_link_bit {
${links.join("\n")}
};

/* Who may send a message. */
enum shp_from {
${from.join("\n")}
};

/* Which halves may carry bulk. */
enum shp_bulk {
    SHP_BULK_NONE = 0,
    SHP_BULK_IN = 1,
    SHP_BULK_OUT = 2,
    SHP_BULK_BOTH = 3,
};

enum shp_message {
${messages.join("\n")}
};

/* Services of session_request. */
enum shp_service {
${services.join("\n")}
};
#define SHP_SERVICE_COUNT ${spec.services.length}

enum shp_field_type {
    SHP_FIELD_STRING, /* max: bytes of UTF-8 */
    SHP_FIELD_INT,    /* min, max: value */
    SHP_FIELD_BOOL,
    SHP_FIELD_ENUM,   /* values: NULL-terminated */
    SHP_FIELD_OBJECT,
    SHP_FIELD_ARRAY,  /* max: items */
};

struct shp_field {
    const char *name;
    enum shp_field_type type;
    bool optional;
    int64_t min;
    int64_t max;
    const char *const *values;
};

/* fields may be NULL when count is 0. */
struct shp_fields {
    const struct shp_field *fields;
    size_t count;
};

struct shp_message_info {
    uint16_t id;
    const char *name;
    enum shp_kind kind;
    unsigned links; /* enum shp_link_bit */
    enum shp_from from;
    enum shp_bulk bulk;
    struct shp_fields params;
    struct shp_fields result;
};

struct shp_service_info {
    const char *name;
    struct shp_fields payload;
    struct shp_fields answer;
};

/* NULL: no message has this id. */
const struct shp_message_info *shp_message_find(uint16_t id);

/* "unknown" when there is none. */
const char *shp_message_name(uint16_t id);

/* NULL: no such service. */
const struct shp_service_info *shp_service_get(int service);

/* enum shp_service, or -1. */
int shp_service_from_name(const char *name);

/*
 * Name, sentence, next action and scope of an enum shp_code; never NULL. For a code that this build
 * does not know: "unknown_error", and a sentence that says so.
 */
const char *shp_code_name(int code);
const char *shp_code_doc(int code);
const char *shp_code_next(int code);
enum shp_scope shp_code_scope(int code);

/* 0: no code has this name. */
int shp_code_from_name(const char *name);

#endif
`;
}

type Tables = { text: string[]; valueSets: Map<string, string> };

function emitValues(tables: Tables, values: string[]): string {
  const key = values.join("\0");
  const known = tables.valueSets.get(key);
  if (known !== undefined) return known;
  const name = `values_${tables.valueSets.size}`;
  tables.valueSets.set(key, name);
  tables.text.push(`static const char *const ${name}[] = {${values.map(quote).join(", ")}, NULL};`);
  return name;
}

function emitField(tables: Tables, name: string, field: Field): string {
  const type = `SHP_FIELD_${upper(field.type)}`;
  const values = field.values ? emitValues(tables, field.values) : "NULL";
  return `    {${quote(name)}, ${type}, ${field.optional === true}, ${field.min ?? 0}, ${field.max ?? 0}, ${values}},`;
}

/** Adds the table and returns its initializer for struct shp_fields. */
function emitFields(tables: Tables, table: string, fields: Fields | undefined): string {
  const entries = Object.entries(fields ?? {});
  if (entries.length === 0) return "{NULL, 0}";
  const lines = entries.map(([name, field]) => emitField(tables, name, field));
  tables.text.push(`static const struct shp_field ${table}[] = {\n${lines.join("\n")}\n};`);
  return `{${table}, ${entries.length}}`;
}

export function source(spec: Spec): string {
  const tables: Tables = { text: [], valueSets: new Map() };
  const messages = spec.messages.map((m) => {
    const links = m.links.map((l) => `SHP_LINK_${upper(l)}`).join(" | ");
    const params = emitFields(tables, `${m.name}_params`, m.params);
    const result = emitFields(tables, `${m.name}_result`, m.result);
    return `    {SHP_MSG_${upper(m.name)}, ${quote(m.name)}, SHP_KIND_${upper(m.kind)}, ${links}, SHP_FROM_${upper(m.from)}, SHP_BULK_${upper(m.bulk)}, ${params}, ${result}},`;
  });
  const services = spec.services.map((s) => {
    const payload = emitFields(tables, `${s.name}_payload`, s.payload);
    const answer = emitFields(tables, `${s.name}_answer`, s.answer);
    return `    [SHP_SERVICE_${upper(s.name)}] = {${quote(s.name)}, ${payload}, ${answer}},`;
  });
  const codes = spec.errors.map((e) => `    {${e.code}, SHP_SCOPE_${upper(e.scope)}, ${quote(e.name)}, ${quote(e.doc)}, ${quote(e.next)}},`);
  return `${FIRST_LINE}
#include "protocol/messages.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

${tables.text.join("\n\n")}

/* Ascending by id. */
static const struct shp_message_info messages[] = {
${messages.join("\n")}
};

static const struct shp_service_info services[SHP_SERVICE_COUNT] = {
${services.join("\n")}
};

struct code_info {
    int code;
    enum shp_scope scope;
    const char *name;
    const char *doc;
    const char *next;
};

/* Ascending by code. */
static const struct code_info codes[] = {
${codes.join("\n")}
};

static const struct code_info no_code = {0, SHP_SCOPE_CALL, "none", "No error.", "Nothing."};
static const struct code_info unknown_code = {-1, SHP_SCOPE_CALL, "unknown_error", "An error that this version does not know.", "Update shepherdr on this side."};

_Static_assert(COUNT(messages) == ${spec.messages.length}, "messages");
_Static_assert(COUNT(codes) == ${spec.errors.length}, "codes");

const struct shp_message_info *shp_message_find(uint16_t id)
{
    size_t low = 0;
    size_t high = COUNT(messages);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (messages[middle].id == id)
            return &messages[middle];
        if (messages[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const char *shp_message_name(uint16_t id)
{
    const struct shp_message_info *info = shp_message_find(id);
    return info ? info->name : "unknown";
}

const struct shp_service_info *shp_service_get(int service)
{
    return service >= 0 && service < SHP_SERVICE_COUNT ? &services[service] : NULL;
}

int shp_service_from_name(const char *name)
{
    for (int i = 0; i < SHP_SERVICE_COUNT; i++)
        if (strcmp(services[i].name, name) == 0)
            return i;
    return -1;
}

static const struct code_info *find_code(int code)
{
    if (code == 0)
        return &no_code;
    for (size_t i = 0; i < COUNT(codes); i++)
        if (codes[i].code == code)
            return &codes[i];
    return &unknown_code;
}

const char *shp_code_name(int code)
{
    return find_code(code)->name;
}

const char *shp_code_doc(int code)
{
    return find_code(code)->doc;
}

const char *shp_code_next(int code)
{
    return find_code(code)->next;
}

enum shp_scope shp_code_scope(int code)
{
    return find_code(code)->scope;
}

int shp_code_from_name(const char *name)
{
    for (size_t i = 0; i < COUNT(codes); i++)
        if (strcmp(codes[i].name, name) == 0)
            return codes[i].code;
    return 0;
}
`;
}
