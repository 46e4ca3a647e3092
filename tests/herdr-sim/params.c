#include "params.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const struct param params_output_match[] = {
    {"type", PARAM_TEXT, PARAM_REQUIRED, "substring|regex"},
    {"value", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {NULL, 0, 0, NULL},
};

const struct param params_prompt_wait[] = {
    {"until", PARAM_TEXTS, 0, STATUS_CHOICES},
    {"timeout_ms", PARAM_UINT, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};

bool choice_in(const char *choices, const char *text)
{
    size_t n = strlen(text);
    for (const char *at = choices; n && *at;) {
        size_t len = strcspn(at, "|");
        if (len == n && !memcmp(at, text, n))
            return true;
        at += len + (at[len] == '|');
    }
    return false;
}

static bool whole_number(const cJSON *v)
{
    double d = cJSON_GetNumberValue(v);
    return cJSON_IsNumber(v) && d >= 0 && d <= 9007199254740992.0 && floor(d) == d;
}

static bool all_texts(const cJSON *v, bool nullable, const char *choices)
{
    for (const cJSON *item = v->child; item; item = item->next) {
        if (nullable && cJSON_IsNull(item))
            continue;
        if (!cJSON_IsString(item) || (choices && !choice_in(choices, item->valuestring)))
            return false;
    }
    return true;
}

static const char *expected(const struct param *p)
{
    switch (p->type) {
    case PARAM_TEXT:
        return p->choices ? p->choices : "a string";
    case PARAM_BOOL:
        return "a boolean";
    case PARAM_UINT:
        return "a whole number";
    case PARAM_NUMBER:
        return "a number";
    case PARAM_TEXTS:
        return p->choices ? p->choices : "an array of strings";
    case PARAM_MAP:
    case PARAM_MAP_NULL:
        return "an object of strings";
    case PARAM_OBJECT:
        return "an object";
    case PARAM_ARRAY:
        return "an array";
    }
    return "";
}

static bool fits(const struct param *p, const cJSON *v)
{
    if (cJSON_IsNull(v))
        return (p->flags & PARAM_NULLABLE) != 0;
    switch (p->type) {
    case PARAM_TEXT:
        return cJSON_IsString(v) && (!p->choices || choice_in(p->choices, v->valuestring));
    case PARAM_BOOL:
        return cJSON_IsBool(v);
    case PARAM_UINT:
        return whole_number(v);
    case PARAM_NUMBER:
        return cJSON_IsNumber(v);
    case PARAM_TEXTS:
        return cJSON_IsArray(v) && all_texts(v, false, p->choices);
    case PARAM_MAP:
        return cJSON_IsObject(v) && all_texts(v, false, NULL);
    case PARAM_MAP_NULL:
        return cJSON_IsObject(v) && all_texts(v, true, NULL);
    case PARAM_OBJECT:
        return cJSON_IsObject(v);
    case PARAM_ARRAY:
        return cJSON_IsArray(v);
    }
    return false;
}

bool params_check(const struct param *table, const cJSON *obj, bool strict, char *why, size_t cap)
{
    for (const struct param *p = table; p->name; p++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, p->name);
        if (!v && (p->flags & PARAM_REQUIRED)) {
            snprintf(why, cap, "missing field `%s`", p->name);
            return false;
        }
        if (v && !fits(p, v)) {
            snprintf(why, cap, "field `%s`: expected %s", p->name, expected(p));
            return false;
        }
    }
    for (const cJSON *item = obj->child; strict && item; item = item->next) {
        const struct param *p = table;
        while (p->name && strcmp(p->name, item->string) != 0)
            p++;
        if (!p->name) {
            snprintf(why, cap, "unknown field `%.60s`", item->string);
            return false;
        }
    }
    return true;
}

const cJSON *param_item(const cJSON *obj, const char *name)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, name);
    return cJSON_IsNull(v) ? NULL : v;
}

const char *param_text(const cJSON *obj, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(obj, name));
}

bool param_bool(const cJSON *obj, const char *name, bool standard)
{
    const cJSON *v = param_item(obj, name);
    return v ? cJSON_IsTrue(v) : standard;
}

bool param_uint(const cJSON *obj, const char *name, uint64_t *out)
{
    const cJSON *v = param_item(obj, name);
    if (!v)
        return false;
    *out = (uint64_t)cJSON_GetNumberValue(v);
    return true;
}
