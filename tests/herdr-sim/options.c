#include "options.h"

#include "util.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum option_type { OPTION_BOOL, OPTION_INT, OPTION_TEXT };

static const struct option {
    const char *name;
    enum option_type type;
    size_t offset;
    size_t size;
    const char *standard;
} table[] = {
#define OPTION(field, type, standard)                                                              \
    {                                                                                              \
#field, type, offsetof(struct options, field), sizeof(((struct options *)0)->field),       \
            standard                                                                               \
    }
    OPTION(version, OPTION_TEXT, "0.9.1"),
    OPTION(omit_version, OPTION_BOOL, "0"),
    OPTION(null_capabilities, OPTION_BOOL, "0"),
    OPTION(protocol, OPTION_INT, "22"),
    OPTION(replay, OPTION_BOOL, "0"),
    OPTION(drain, OPTION_BOOL, "0"),
    OPTION(events_lost, OPTION_BOOL, "0"),
    OPTION(id_echo, OPTION_BOOL, "1"),
    OPTION(foreground_rule, OPTION_BOOL, "1"),
    OPTION(viewer, OPTION_BOOL, "0"),
    OPTION(launch_stuck, OPTION_BOOL, "0"),
    OPTION(strict_params, OPTION_BOOL, "1"),
    OPTION(prompt_queued, OPTION_BOOL, "0"),
    OPTION(restore, OPTION_BOOL, "1"),
    OPTION(settle_ms, OPTION_INT, "3000"),
    OPTION(shell_busy_ms, OPTION_INT, "200"),
    OPTION(stop_delay_ms, OPTION_INT, "0"),
#undef OPTION
};

static void *field(struct options *o, const struct option *t)
{
    return (char *)o + t->offset;
}

static void set_text(struct options *o, const struct option *t, const char *text)
{
    if (t->type == OPTION_TEXT)
        snprintf(field(o, t), t->size, "%s", text);
    else if (t->type == OPTION_INT)
        *(int64_t *)field(o, t) = strtoll(text, NULL, 10);
    else
        *(bool *)field(o, t) = strcmp(text, "0") != 0 && strcmp(text, "false") != 0;
}

void options_init(struct options *o)
{
    memset(o, 0, sizeof *o);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char name[64];
        snprintf(name, sizeof name, "HERDR_SIM_%s", table[i].name);
        for (char *p = name; *p; p++)
            *p = (char)toupper((unsigned char)*p);
        const char *env = getenv(name);
        set_text(o, &table[i], env && *env ? env : table[i].standard);
    }
}

int options_set(struct options *o, const char *name, const cJSON *value)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct option *t = &table[i];
        if (strcmp(t->name, name) != 0)
            continue;
        if (t->type == OPTION_BOOL && cJSON_IsBool(value))
            *(bool *)field(o, t) = cJSON_IsTrue(value);
        else if (t->type == OPTION_INT && cJSON_IsNumber(value))
            *(int64_t *)field(o, t) = (int64_t)cJSON_GetNumberValue(value);
        else if (t->type == OPTION_TEXT && cJSON_IsString(value))
            set_text(o, t, cJSON_GetStringValue(value));
        else
            return -2;
        return 0;
    }
    return -1;
}

cJSON *options_json(const struct options *o)
{
    cJSON *j = cJSON_CreateObject();
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct option *t = &table[i];
        const char *at = (const char *)o + t->offset;
        if (t->type == OPTION_BOOL)
            cJSON_AddBoolToObject(j, t->name, *(const bool *)at);
        else if (t->type == OPTION_INT)
            cJSON_AddNumberToObject(j, t->name, (double)*(const int64_t *)at);
        else
            cJSON_AddStringToObject(j, t->name, at);
    }
    return j;
}
