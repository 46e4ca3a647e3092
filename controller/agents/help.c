/*
 * The help that a model reads before its first call. It is small on purpose: it costs context in
 * every session. When many profiles or machines would push it over its bound, descriptions are cut
 * first, then entries are left out and counted.
 */
#include "controller/agents/call_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define HELP_BYTES_MAX 6144
#define FIELDS_TEXT_MAX 512

static const char target_rule[] =
    "Use the exact target that list or spawn returned; do not build or guess one.";
static const char machine_rule[] = "Route by machine id, never by label or host name. Left out, it "
                                   "is this machine (local). A target "
                                   "belongs to its machine: give both.";
static const char label_rule[] = "A few words for the job, at most 64 bytes. It names the tab and "
                                 "the Pi session; name, the routing "
                                 "name, is made from it when left out.";
static const char message_rule[] =
    "A spawned agent knows nothing of this conversation: say what is wanted, where, and how it is "
    "checked. At most 48 KiB; put longer text into a file and name it.";
static const char place_rule[] =
    "cwd is an existing directory of that machine, relative to yours here and to home elsewhere. "
    "Without placement: a new tab in your workspace here, a new workspace elsewhere.";
static const char read_rule[] =
    "read returns the latest reply; with source visible or recent, terminal lines (40 unless lines "
    "says so).";
static const char send_rule[] =
    "send delivers a message and waits for nothing; no report comes of it.";
static const char blocking_rule[] =
    "spawn waits for the result. With blocking: false it returns at once and the result is pushed "
    "later; a profile's blocking decides over the call's. Canceling a waiting call leaves the "
    "agent "
    "at work.";
static const char reports_rule[] = "Results are pushed into this conversation, each once. Do not "
                                   "poll with list or read and do not "
                                   "sleep: go on with other work, or end your turn.";
static const char close_rule[] = "Close finished agents silently. Send no thanks, acknowledgement "
                                 "or notice of closing: it would "
                                 "wake them.";
static const char general_rule[] = "Use general sparingly: when asked for, or while orchestrating. "
                                   "For work in your own repository "
                                   "make and prepare a separate worktree first and pass it as cwd.";
static const char advanced_text[] =
    "For workspaces, tabs, panes, layout, focus, processes or raw terminals run: herdr --skill";

/* ---- parts -------------------------------------------------------------------------------------
 */

static bool put(cJSON *object, const char *name, cJSON *value)
{
    if (value != NULL && cJSON_AddItemToObject(object, name, value))
        return true;
    cJSON_Delete(value);
    return false;
}

static bool put_text(cJSON *object, const char *name, const char *text)
{
    return put(object, name, cJSON_CreateString(text));
}

/* "agent_type, label, message, machine?, placement? new_tab|pane" */
static void fields_text(char out[FIELDS_TEXT_MAX], const struct shp_action_spec *action)
{
    size_t used = 0;
    out[0] = '\0';
    for (const uint8_t *entry = action->fields; *entry != SHP_ARG_END; entry++) {
        enum shp_arg id = SHP_ARG_ID_OF(*entry);
        const struct shp_arg_spec *spec = &shp_arg_specs[id];
        /* Nothing offers these yet. */
        if (id == SHP_ARG_BOARD_THREAD_ID || strcmp(action->name, "help") == 0)
            continue;
        used += (size_t)snprintf(out + used, FIELDS_TEXT_MAX - used, "%s%s%s", used > 0 ? ", " : "",
                                 spec->name, (*entry & SHP_ARG_OPTIONAL) != 0 ? "?" : "");
        for (size_t i = 0; spec->choices != NULL && spec->choices[i] != NULL; i++)
            used += (size_t)snprintf(out + used, FIELDS_TEXT_MAX - used, "%s%s", i == 0 ? " " : "|",
                                     spec->choices[i]);
        if (id == SHP_ARG_LINES)
            used +=
                (size_t)snprintf(out + used, FIELDS_TEXT_MAX - used, " 1..%d", SHP_CALL_LINES_MAX);
    }
}

static cJSON *actions_json(void)
{
    cJSON *actions = cJSON_CreateObject();
    for (int i = 0; actions != NULL && i < SHP_ACTION_COUNT; i++) {
        char text[FIELDS_TEXT_MAX];
        if (!shp_action_specs[i].supported)
            continue;
        fields_text(text, &shp_action_specs[i]);
        if (!put_text(actions, shp_action_specs[i].name, text)) {
            cJSON_Delete(actions);
            return NULL;
        }
    }
    return actions;
}

static cJSON *rules_json(bool general)
{
    cJSON *rules = cJSON_CreateObject();
    bool made = rules != NULL && put_text(rules, "target", target_rule) &&
                put_text(rules, "machine", machine_rule) && put_text(rules, "label", label_rule) &&
                put_text(rules, "message", message_rule) && put_text(rules, "place", place_rule) &&
                put_text(rules, "send", send_rule) && put_text(rules, "read", read_rule) &&
                put_text(rules, "blocking", blocking_rule) &&
                put_text(rules, "reports", reports_rule) && put_text(rules, "close", close_rule) &&
                (!general || put_text(rules, "general", general_rule));
    if (made)
        return rules;
    cJSON_Delete(rules);
    return NULL;
}

static bool put_policy(cJSON *object, const char *name, enum shp_tristate value)
{
    return value == SHP_UNSET || put(object, name, cJSON_CreateBool(value == SHP_TRUE));
}

static cJSON *profile_json(const struct shp_profile *profile, size_t description_max)
{
    cJSON *object = cJSON_CreateObject();
    char *description = NULL;
    size_t len = strlen(profile->description), kept = len;
    if (len > description_max) {
        kept = 0;
        for (size_t size = 1; kept < description_max && size > 0; kept += size) {
            size = shp_utf8_char((const uint8_t *)profile->description + kept, len - kept);
            if (kept + size > description_max)
                break;
        }
    }
    description = malloc(kept + sizeof "…");
    if (object == NULL || description == NULL)
        goto fail;
    memcpy(description, profile->description, kept);
    strcpy(description + kept, kept < len ? "…" : "");
    cJSON *base = NULL;
    if (!put_text(object, "description", description) ||
        !put_policy(object, "blocking", profile->blocking) ||
        !put_policy(object, "share_context", profile->share_context))
        goto fail;
    if (profile->accepts_base) {
        const char *const names[] = {"base"};
        base = cJSON_CreateStringArray(names, 1);
        if (!put(object, "accepts", base))
            goto fail;
    }
    free(description);
    return object;
fail:
    free(description);
    cJSON_Delete(object);
    return NULL;
}

static cJSON *profiles_json(const struct shp_profiles *profiles, size_t description_max,
                            size_t entries_max)
{
    cJSON *object = cJSON_CreateObject();
    for (size_t i = 0; object != NULL && i < profiles->len && i < entries_max; i++) {
        if (!put(object, profiles->items[i].name,
                 profile_json(&profiles->items[i], description_max))) {
            cJSON_Delete(object);
            return NULL;
        }
    }
    return object;
}

cJSON *shp_profiles_json(const struct shp_profiles *profiles)
{
    return profiles_json(profiles, SIZE_MAX, SIZE_MAX);
}

static cJSON *machines_json(const cJSON *machines, size_t entries_max)
{
    cJSON *kept = cJSON_CreateArray();
    const cJSON *entry;
    size_t count = 0;
    if (kept == NULL)
        return NULL;
    cJSON_ArrayForEach(entry, machines)
    {
        if (count++ == entries_max)
            break;
        cJSON *copy = cJSON_Duplicate(entry, 1);
        if (copy == NULL || !cJSON_AddItemToArray(kept, copy)) {
            cJSON_Delete(copy);
            cJSON_Delete(kept);
            return NULL;
        }
    }
    return kept;
}

/* ---- the whole ---------------------------------------------------------------------------------
 */

struct room {
    size_t description_max;
    size_t profiles_max;
    size_t machines_max;
};

static cJSON *help_json(const struct shp_profiles *profiles, const cJSON *machines,
                        const struct room *room)
{
    size_t machine_count = (size_t)cJSON_GetArraySize(machines);
    cJSON *help = cJSON_CreateObject();
    bool made =
        help != NULL && put(help, "actions", actions_json()) &&
        put(help, "rules", rules_json(shp_profiles_find(profiles, "general") != NULL)) &&
        put(help, "profiles", profiles_json(profiles, room->description_max, room->profiles_max)) &&
        put(help, "machines", machines_json(machines, room->machines_max));
    if (made && profiles->len > room->profiles_max)
        made = put(help, "moreProfiles",
                   cJSON_CreateNumber((double)(profiles->len - room->profiles_max)));
    if (made && machine_count > room->machines_max)
        made = put(help, "moreMachines",
                   cJSON_CreateNumber((double)(machine_count - room->machines_max)));
    if (made && put_text(help, "advanced", advanced_text))
        return help;
    cJSON_Delete(help);
    return NULL;
}

cJSON *shp_call_help(const struct shp_profiles *profiles, cJSON *machines)
{
    static const struct room rooms[] = {
        {SIZE_MAX, SIZE_MAX, SIZE_MAX},
        {160, 64, 64},
        {80, 32, 16},
        {40, 16, 8},
        {40, 8, 4},
        {40, 8, 0},
    };
    cJSON *help = NULL;
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        cJSON_Delete(help);
        help = help_json(profiles, machines, &rooms[i]);
        char *text = help != NULL ? cJSON_PrintUnformatted(help) : NULL;
        if (text == NULL) {
            cJSON_Delete(help);
            help = NULL;
            break;
        }
        size_t len = strlen(text);
        cJSON_free(text);
        if (len <= HELP_BYTES_MAX)
            break;
    }
    cJSON_Delete(machines);
    return help;
}
