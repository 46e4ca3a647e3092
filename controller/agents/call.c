#include "controller/agents/call_internal.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "controller/profiles/text.h"
#include "protocol/messages.h"

#define BLANKS " \t\r\n\v\f"
/* Arguments that arrive as one string: no longer than what the wire allows for the object. */
#define STRING_CALL_BYTES_MAX (SHP_LIMIT_HEAD_JSON_BYTES_MAX)
/* Far above any action's fields; keeps the search for duplicates short. */
#define MEMBERS_MAX 64

const char *shp_action_name(enum shp_action action)
{
    return (size_t)action < SHP_ACTION_COUNT ? shp_action_specs[action].name : "";
}

bool shp_action_supported(enum shp_action action)
{
    return (size_t)action < SHP_ACTION_COUNT && shp_action_specs[action].supported;
}

static int reject(struct shp_error *error, enum shp_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int reject(struct shp_error *error, enum shp_code code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    shp_error_vset(error, (int)code, NULL, "check arguments", format, args);
    va_end(args);
    return SHP_ERR_INVALID;
}

static int no_memory(struct shp_error *error)
{
    reject(error, SHP_CODE_OUT_OF_MEMORY, "no memory");
    return SHP_ERR_NOMEM;
}

/* The member, unless it is null: models write null where they mean "not given". */
static const cJSON *given(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return item != NULL && !cJSON_IsNull(item) ? item : NULL;
}

static bool action_by_name(const char *name, enum shp_action *out)
{
    for (int i = 0; i < SHP_ACTION_COUNT; i++) {
        if (strcmp(shp_action_specs[i].name, name) == 0) {
            *out = (enum shp_action)i;
            return true;
        }
    }
    return false;
}

/* Names of the supported actions, for an error's text. */
static void action_names(char *out, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < SHP_ACTION_COUNT && used < size; i++)
        if (shp_action_specs[i].supported)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used > 0 ? ", " : "",
                                     shp_action_specs[i].name);
}

/* ---- which action ------------------------------------------------------------------------------
 */

static int choose_action(const cJSON *object, bool has_message, enum shp_action *out,
                         struct shp_error *error)
{
    bool empty = !has_message;
    for (const cJSON *item = object->child; item != NULL; item = item->next)
        if (!cJSON_IsNull(item))
            empty = false;
    const cJSON *action = given(object, "action");
    if (empty || (action == NULL && cJSON_IsTrue(given(object, "commands")))) {
        *out = SHP_ACTION_HELP;
        return 0;
    }
    char names[256];
    action_names(names, sizeof names);
    if (action == NULL)
        return reject(error, SHP_CODE_INVALID_CALL, "there is no action; actions are: %s", names);
    if (!cJSON_IsString(action))
        return reject(error, SHP_CODE_FIELD_INVALID, "action must be a string; actions are: %s",
                      names);
    if (!action_by_name(action->valuestring, out))
        return reject(error, SHP_CODE_UNKNOWN_ACTION, "\"%.64s\" is no action; actions are: %s",
                      action->valuestring, names);
    return 0;
}

/* Rules about which fields go together, before anything is said about single fields. */
static int check_shape(const cJSON *object, enum shp_action action, struct shp_error *error)
{
    const cJSON *commands = given(object, "commands");
    if (action == SHP_ACTION_SEND && cJSON_GetObjectItemCaseSensitive(object, "blocking") != NULL)
        return reject(error, SHP_CODE_FIELD_INVALID,
                      "send never waits and takes no blocking; assign is the action that waits "
                      "for a result");
    if (commands != NULL && action != SHP_ACTION_HELP)
        return reject(error, SHP_CODE_UNKNOWN_FIELD, "commands belongs to help alone, not to %s",
                      shp_action_name(action));
    if (action == SHP_ACTION_HELP) {
        bool target = given(object, "target") != NULL, machine = given(object, "machine") != NULL;
        if (commands != NULL && !cJSON_IsTrue(commands))
            return reject(error, SHP_CODE_FIELD_INVALID, "commands is true or left out");
        if ((target || machine) && commands == NULL)
            return reject(error, SHP_CODE_FIELD_INVALID,
                          "help takes target and machine only with commands: true");
        if (machine && !target)
            return reject(error, SHP_CODE_MISSING_FIELD,
                          "target is missing: a machine alone does not identify a session");
    }
    if (action == SHP_ACTION_ATTACH || action == SHP_ACTION_DETACH) {
        static const char *const both[] = {"context", "board"};
        bool any = false;
        for (size_t i = 0; i < 2; i++) {
            const cJSON *item = given(object, both[i]);
            if (item == NULL)
                return reject(error, SHP_CODE_MISSING_FIELD,
                              "%s is missing; %s needs context and "
                              "board as true or false",
                              both[i], shp_action_name(action));
            if (!cJSON_IsBool(item))
                return reject(error, SHP_CODE_FIELD_INVALID, "%s must be true or false", both[i]);
            any = any || cJSON_IsTrue(item);
        }
        if (!any)
            return reject(error, SHP_CODE_FIELD_INVALID, "context or board must be true");
    }
    return 0;
}

static bool has_field(enum shp_action action, const char *name)
{
    for (const uint8_t *field = shp_action_specs[action].fields; *field != SHP_ARG_END; field++)
        if (strcmp(shp_arg_specs[SHP_ARG_ID_OF(*field)].name, name) == 0)
            return true;
    return false;
}

static int check_unknown(const cJSON *object, enum shp_action action, bool has_message,
                         struct shp_error *error)
{
    char names[SHP_ERROR_CAUSE_MAX / 2];
    size_t used = 0, count = 0;
    names[0] = '\0';
    if (has_message && !has_field(action, "message")) {
        used = (size_t)snprintf(names, sizeof names, "message");
        count = 1;
    }
    for (const cJSON *item = object->child; item != NULL; item = item->next) {
        if (cJSON_IsNull(item) || strcmp(item->string, "action") == 0 ||
            has_field(action, item->string))
            continue;
        int len = snprintf(names + used, sizeof names - used, "%s%.64s", count > 0 ? ", " : "",
                           item->string);
        count++;
        if (used + (size_t)len >= sizeof names) {
            /* Not reached by a caller that means well; the count still tells. */
            names[used] = '\0';
            break;
        }
        used += (size_t)len;
    }
    if (count == 0)
        return 0;
    return reject(error, SHP_CODE_UNKNOWN_FIELD, "%s has no field %s", shp_action_name(action),
                  names);
}

/* ---- single fields -----------------------------------------------------------------------------
 */

static char **line_slot(struct shp_call *call, enum shp_arg field)
{
    switch (field) {
    case SHP_ARG_AGENT_TYPE:
        return &call->agent_type;
    case SHP_ARG_BASE:
        return &call->base;
    case SHP_ARG_CWD:
        return &call->cwd;
    case SHP_ARG_EXTENSION:
        return &call->extension;
    case SHP_ARG_ID:
        return &call->id;
    case SHP_ARG_LABEL:
        return &call->label;
    case SHP_ARG_MACHINE:
        return &call->machine;
    case SHP_ARG_NAME:
        return &call->name;
    case SHP_ARG_PANE:
        return &call->pane;
    case SHP_ARG_QUERY:
        return &call->query;
    case SHP_ARG_STATUS:
        return &call->status;
    case SHP_ARG_TARGET:
        return &call->target;
    case SHP_ARG_WORKSPACE:
        return &call->workspace;
    default:
        return NULL;
    }
}

static bool choice(const struct shp_arg_spec *spec, const char *text, int *index)
{
    for (int i = 0; spec->choices[i] != NULL; i++) {
        if (strcmp(spec->choices[i], text) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

static int reject_choice(const struct shp_arg_spec *spec, struct shp_error *error)
{
    char names[128];
    size_t used = 0;
    for (int i = 0; spec->choices[i] != NULL && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                 spec->choices[i]);
    return reject(error, SHP_CODE_FIELD_INVALID, "%s must be one of: %s", spec->name, names);
}

/* The trimmed text goes to its slot; a blank one counts as not given. */
static int take_line(struct shp_call *call, enum shp_arg field, const cJSON *item,
                     struct shp_error *error)
{
    const struct shp_arg_spec *spec = &shp_arg_specs[field];
    if (!cJSON_IsString(item))
        return reject(error, SHP_CODE_FIELD_INVALID, "%s must be a string", spec->name);
    const char *text = item->valuestring + strspn(item->valuestring, BLANKS);
    size_t len = strlen(text);
    while (len > 0 && strchr(BLANKS, text[len - 1]) != NULL)
        len--;
    if (len == 0)
        return 0;
    if (len > spec->bytes_max)
        return reject(error, SHP_CODE_FIELD_INVALID, "%s has %zu bytes, more than %u", spec->name,
                      len, (unsigned)spec->bytes_max);
    if (!shp_text_is_line(text, len))
        return reject(error, SHP_CODE_FIELD_INVALID,
                      "%s must be one line of UTF-8 text without control characters", spec->name);
    char *copy = strndup(text, len);
    if (copy == NULL)
        return no_memory(error);
    int index = 0;
    if (spec->choices != NULL && !choice(spec, copy, &index)) {
        free(copy);
        return reject_choice(spec, error);
    }
    char **slot = line_slot(call, field);
    if (field == SHP_ARG_PLACEMENT) {
        static const enum shp_placement values[] = {SHP_PLACEMENT_WORKSPACE, SHP_PLACEMENT_TAB,
                                                    SHP_PLACEMENT_PANE};
        call->placement = values[index];
    } else if (field == SHP_ARG_SOURCE) {
        static const enum shp_read_source values[] = {SHP_READ_LATEST, SHP_READ_VISIBLE,
                                                      SHP_READ_RECENT};
        call->source = values[index];
    }
    if (slot != NULL)
        *slot = copy;
    else
        free(copy);
    return 0;
}

static int take_message(struct shp_call *call, const char *text, struct shp_error *error)
{
    size_t len = strlen(text);
    if (len > SHP_LIMIT_MESSAGE_TEXT_BYTES_MAX)
        return reject(error, SHP_CODE_MESSAGE_TOO_LARGE,
                      "message has %zu bytes of UTF-8, more than %d", len,
                      SHP_LIMIT_MESSAGE_TEXT_BYTES_MAX);
    if (!shp_utf8_valid((const uint8_t *)text, len))
        return reject(error, SHP_CODE_FIELD_INVALID, "message is not valid UTF-8");
    if (shp_text_is_blank(text))
        return 0;
    call->message = strdup(text);
    return call->message != NULL ? 0 : no_memory(error);
}

static int take_bool(struct shp_call *call, enum shp_arg field, const cJSON *item,
                     struct shp_error *error)
{
    if (!cJSON_IsBool(item))
        return reject(error, SHP_CODE_FIELD_INVALID, "%s must be true or false",
                      shp_arg_specs[field].name);
    bool value = cJSON_IsTrue(item);
    if (field == SHP_ARG_BLOCKING)
        call->blocking = value ? SHP_TRUE : SHP_FALSE;
    else if (field == SHP_ARG_COMMANDS)
        call->commands = value;
    else if (field == SHP_ARG_CONTEXT)
        call->context = value;
    else
        call->board = value;
    return 0;
}

static int take_lines(struct shp_call *call, const cJSON *item, struct shp_error *error)
{
    double value = cJSON_IsNumber(item) ? item->valuedouble : 0;
    if (!(value >= 1 && value <= SHP_CALL_LINES_MAX) || value != (double)(int)value)
        return reject(error, SHP_CODE_FIELD_INVALID, "lines must be a whole number from 1 to %d",
                      SHP_CALL_LINES_MAX);
    call->lines = (int)value;
    return 0;
}

/* Whether the call now has the field; only asked for fields that some action needs. */
static bool has_value(struct shp_call *call, enum shp_arg field)
{
    if (field == SHP_ARG_MESSAGE)
        return call->message != NULL;
    char **slot = line_slot(call, field);
    return slot == NULL || *slot != NULL;
}

static int take_fields(struct shp_call *call, const cJSON *object, const char *message,
                       struct shp_error *error)
{
    const uint8_t *fields = shp_action_specs[call->action].fields;
    for (const uint8_t *entry = fields; *entry != SHP_ARG_END; entry++) {
        enum shp_arg field = SHP_ARG_ID_OF(*entry);
        const struct shp_arg_spec *spec = &shp_arg_specs[field];
        const cJSON *item = given(object, spec->name);
        int err = 0;
        if (field == SHP_ARG_MESSAGE && message != NULL) {
            if (item != NULL)
                return reject(error, SHP_CODE_FIELD_INVALID, "message is given twice");
            err = take_message(call, message, error);
        } else if (item != NULL) {
            switch (spec->type) {
            case SHP_ARG_LINE:
                err = take_line(call, field, item, error);
                break;
            case SHP_ARG_TEXT:
                err = cJSON_IsString(item)
                          ? take_message(call, item->valuestring, error)
                          : reject(error, SHP_CODE_FIELD_INVALID, "message must be a string");
                break;
            case SHP_ARG_BOOL:
                err = take_bool(call, field, item, error);
                break;
            case SHP_ARG_INT:
                err = take_lines(call, item, error);
                break;
            }
        }
        if (err != 0)
            return err;
    }
    for (const uint8_t *entry = fields; *entry != SHP_ARG_END; entry++)
        if ((*entry & SHP_ARG_OPTIONAL) == 0 && !has_value(call, SHP_ARG_ID_OF(*entry)))
            return reject(error, SHP_CODE_MISSING_FIELD, "%s is missing or blank",
                          shp_arg_specs[SHP_ARG_ID_OF(*entry)].name);
    return 0;
}

/* ---- rules between the fields of one action ----------------------------------------------------
 */

static int check_spawn(const struct shp_call *call, const cJSON *object, struct shp_error *error)
{
    if (given(object, "board_thread_id") != NULL)
        return reject(error, SHP_CODE_FIELD_INVALID,
                      "board_thread_id needs a message board, and none is available");
    if (call->name != NULL && !shp_name_valid(call->name))
        return reject(error, SHP_CODE_FIELD_INVALID,
                      "name must begin with a small letter and have small letters, digits, _ and "
                      "-, at most 32");
    if (call->placement == SHP_PLACEMENT_PANE) {
        if (call->pane == NULL)
            return reject(error, SHP_CODE_MISSING_FIELD,
                          "pane is missing: placement pane needs "
                          "the id of an existing pane");
        if (call->cwd != NULL)
            return reject(error, SHP_CODE_FIELD_INVALID,
                          "cwd does not go with placement pane: the pane has its directory");
        if (call->workspace != NULL)
            return reject(error, SHP_CODE_FIELD_INVALID,
                          "workspace does not go with placement pane");
    } else if (call->pane != NULL) {
        return reject(error, SHP_CODE_FIELD_INVALID, "pane goes with placement pane only");
    }
    if (call->placement == SHP_PLACEMENT_WORKSPACE && call->workspace != NULL)
        return reject(error, SHP_CODE_FIELD_INVALID,
                      "workspace does not go with placement new_workspace");
    return 0;
}

static int check_action(const struct shp_call *call, const cJSON *object, struct shp_error *error)
{
    if (call->action == SHP_ACTION_SPAWN)
        return check_spawn(call, object, error);
    if (call->action == SHP_ACTION_READ && call->source == SHP_READ_LATEST &&
        given(object, "lines") != NULL)
        return reject(error, SHP_CODE_FIELD_INVALID,
                      "lines counts terminal lines: it goes with source visible or recent");
    return 0;
}

/* ---- entry -------------------------------------------------------------------------------------
 */

static int parse_object(struct shp_call *out, const cJSON *object, const char *message,
                        struct shp_error *error)
{
    if (cJSON_GetArraySize(object) > MEMBERS_MAX)
        return reject(error, SHP_CODE_INVALID_CALL, "the call has more than %d fields",
                      MEMBERS_MAX);
    const char *twice = shp_json_duplicate(object);
    if (twice != NULL)
        return reject(error, SHP_CODE_INVALID_CALL, "%.64s is given twice", twice);
    struct shp_call call = {.blocking = SHP_UNSET, .lines = SHP_CALL_LINES_DEFAULT};
    int err = choose_action(object, message != NULL, &call.action, error);
    if (err == 0)
        err = check_shape(object, call.action, error);
    if (err == 0)
        err = check_unknown(object, call.action, message != NULL, error);
    if (err == 0)
        err = take_fields(&call, object, message, error);
    if (err == 0)
        err = check_action(&call, object, error);
    if (err == 0 && !shp_action_supported(call.action))
        err = reject(error, SHP_CODE_UNSUPPORTED_ACTION, "%s is not available in this version",
                     shp_action_name(call.action));
    if (err != 0)
        shp_call_fini(&call);
    else
        *out = call;
    return err;
}

int shp_call_parse(struct shp_call *out, const cJSON *object, const char *message,
                   struct shp_error *error)
{
    cJSON *made = NULL;
    int err;
    if (object == NULL) {
        object = made = cJSON_CreateObject();
    } else if (cJSON_IsString(object)) {
        const char *text = object->valuestring + strspn(object->valuestring, BLANKS);
        size_t len = strlen(text);
        while (len > 0 && strchr(BLANKS, text[len - 1]) != NULL)
            len--;
        if (len == 4 && memcmp(text, "help", 4) == 0) {
            object = made = cJSON_CreateObject();
        } else {
            if (*text != '{' || len > STRING_CALL_BYTES_MAX)
                return reject(error, SHP_CODE_INVALID_CALL,
                              "the arguments are a text that is neither help nor a JSON object");
            object = made = cJSON_ParseWithOpts(text, NULL, 1);
            if (made == NULL)
                return reject(error, SHP_CODE_INVALID_CALL,
                              "the arguments are a text that is no valid JSON");
        }
    } else if (!cJSON_IsObject(object)) {
        return reject(error, SHP_CODE_INVALID_CALL, "the arguments are not an object");
    }
    err = object != NULL ? parse_object(out, object, message, error) : no_memory(error);
    cJSON_Delete(made);
    return err;
}

void shp_call_fini(struct shp_call *call)
{
    free(call->message);
    for (int field = SHP_ARG_END + 1; field < SHP_ARG_COUNT; field++) {
        char **slot = line_slot(call, (enum shp_arg)field);
        if (slot != NULL)
            free(*slot);
    }
    memset(call, 0, sizeof *call);
}
