/*
 * The stand-in's own strict tables: which members a params object may have and of what type. They
 * are written from the documentation, so that a client's mistake fails at once.
 */
#ifndef HERDR_SIM_PARAMS_H
#define HERDR_SIM_PARAMS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum param_type {
    PARAM_TEXT,
    PARAM_BOOL,
    PARAM_UINT, /* a whole number, 0 or more */
    PARAM_NUMBER,
    PARAM_TEXTS,    /* array of strings */
    PARAM_MAP,      /* object of strings */
    PARAM_MAP_NULL, /* object of strings or nulls */
    PARAM_OBJECT,
    PARAM_ARRAY
};

#define PARAM_REQUIRED 1u
#define PARAM_NULLABLE 2u

struct param {
    const char *name; /* NULL ends a table */
    enum param_type type;
    unsigned flags;
    const char *choices; /* "a|b|c" for texts (also inside arrays), or NULL */
};

/* True when obj fits; else why says in words what is wrong. */
bool params_check(const struct param *table, const cJSON *obj, bool strict, char *why, size_t cap);

/* Readers for checked objects: absent and null give the standard value. */
const char *param_text(const cJSON *obj, const char *name); /* NULL when absent */
bool param_bool(const cJSON *obj, const char *name, bool standard);
bool param_uint(const cJSON *obj, const char *name, uint64_t *out); /* false when absent */
const cJSON *param_item(const cJSON *obj, const char *name);        /* NULL when absent or null */
bool choice_in(const char *choices, const char *text);

/* Tables of nested objects, checked by their methods. */
extern const struct param params_output_match[];
extern const struct param params_prompt_wait[];

#define STATUS_CHOICES "idle|working|blocked|done|unknown"
#define SOURCE_CHOICES "visible|recent|recent_unwrapped|detection"

#endif
