/*
 * read: the latest reply from the transcript, or what the terminal shows.
 */
#include "controller/agents/action.h"

#include <stdlib.h>
#include <string.h>

#include "controller/agents/target.h"
#include "controller/json.h"
#include "controller/routing/herdr.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

#define TERMINAL_TEXT_MAX 36000
#define TRANSCRIPT_TIMEOUT_MS 20000

struct reading {
    struct operation *op;
    struct target target;
};

static void reading_free(struct reading *call)
{
    target_fini(&call->target);
    free(call);
}

static void fail(struct reading *call, const struct shp_error *error)
{
    operation_fail(call->op, error);
    reading_free(call);
}

static cJSON *head(const struct reading *call)
{
    cJSON *value = cJSON_CreateObject();
    json_add(value, "machine", call->target.machine->id);
    json_add(value, "target", call->target.pane);
    json_add(value, "status", call->target.status);
    return value;
}

static void on_latest(struct machine *machine, const struct machine_answer *answer, void *user)
{
    (void)machine;
    struct reading *call = user;
    if (answer->error) {
        fail(call, answer->error);
        return;
    }
    cJSON *value = head(call);
    json_add(value, "stopReason", json_string(answer->result, "stop_reason"));
    json_add(value, "error", json_string(answer->result, "error_message"));
    json_add(value, "entryId", json_string(answer->result, "entry_id"));
    if (json_bool(answer->result, "truncated"))
        cJSON_AddTrueToObject(value, "truncated");
    if (json_bool(answer->result, "found")) {
        operation_finish(call->op, value, "reply", answer->bulk, NULL);
    } else {
        cJSON_AddNullToObject(value, "reply");
        operation_finish(call->op, value, NULL, NULL, NULL);
    }
    reading_free(call);
}

static void on_terminal(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    struct reading *call = user;
    if (answer->error) {
        fail(call, answer->error);
        return;
    }
    const cJSON *read = cJSON_GetObjectItemCaseSensitive(answer->result, "read");
    const char *text = json_string(read, "text");
    size_t len = text ? strlen(text) : 0;
    bool cut = len > TERMINAL_TEXT_MAX;
    /* The end of a terminal is what matters: the head goes. */
    const char *tail = text ? text : "";
    if (cut) {
        tail = text + (len - TERMINAL_TEXT_MAX);
        while ((*tail & 0xc0) == 0x80)
            tail++;
    }
    char *shown = xasprintf("%s%s", cut ? "…\n" : "", tail);
    cJSON *value = head(call);
    if (cut || json_bool(read, "truncated"))
        cJSON_AddTrueToObject(value, "truncated");
    operation_finish(call->op, value, "text", shown, NULL);
    free(shown);
    reading_free(call);
}

static void read_terminal(struct reading *call)
{
    const struct shp_call *asked = &call->op->call;
    cJSON *params = cJSON_CreateObject();
    json_add(params, "target", call->target.pane);
    json_add(params, "source", asked->source == SHP_READ_VISIBLE ? "visible" : "recent");
    json_add(params, "format", "text");
    cJSON_AddNumberToObject(params, "lines", asked->lines);
    cJSON_AddTrueToObject(params, "strip_ansi");
    herdr_call(call->target.machine, "agent.read", params, SHP_LIMIT_HERDR_CALL_TIMEOUT_MS,
               on_terminal, call);
}

static void on_target(struct target *target, const struct shp_error *error, void *user)
{
    struct reading *call = user;
    if (error) {
        fail(call, error);
        return;
    }
    target_move(&call->target, target);
    if (call->op->call.source != SHP_READ_LATEST) {
        read_terminal(call);
        return;
    }
    if (!call->target.session_file) {
        struct shp_error missing = {0};
        shp_error_set(&missing, SHP_CODE_TRANSCRIPT_MISSING, call->target.machine->id,
                      "find transcript", "neither a receiver nor Herdr names a session file for %s",
                      call->target.pane);
        fail(call, &missing);
        return;
    }
    cJSON *params = cJSON_CreateObject();
    json_add(params, "path", call->target.session_file);
    machine_request(call->target.machine, SHP_MSG_TRANSCRIPT_LATEST, NULL, TRANSCRIPT_TIMEOUT_MS,
                    params, NULL, 0, on_latest, call);
}

static void on_ready(struct fleet *fleet, const struct shp_error *catalog_error, void *user)
{
    (void)catalog_error;
    struct reading *call = user;
    struct operation *op = call->op;
    struct shp_error error = {0};
    struct machine *machine = fleet_find(fleet, op->call.machine, &error);
    if (machine)
        target_resolve(op->app, machine, op->call.target, on_target, call);
    else
        fail(call, &error);
}

void action_read_start(struct operation *op)
{
    struct reading *call = xcalloc(1, sizeof(*call));
    call->op = op;
    fleet_ready(op->app->fleet, on_ready, call);
}
