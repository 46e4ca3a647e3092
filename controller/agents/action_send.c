/*
 * send: one peer message, no wait, no watch. The message id is stored before the attempt, so that a
 * repeat after a crash uses it again, with the same bytes, and the receiver tells a double.
 */
#include "controller/agents/action.h"

#include <stdlib.h>
#include <string.h>

#include "controller/agents/sender.h"
#include "controller/agents/target.h"
#include "controller/json.h"
#include "controller/routing/session_request.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

struct sending {
    struct operation *op;
    struct target target;
    cJSON *sender;
};

static void sending_free(struct sending *call)
{
    target_fini(&call->target);
    cJSON_Delete(call->sender);
    free(call);
}

static void fail(struct sending *call, const struct shp_error *error)
{
    struct operation *op = call->op;
    struct shp_error failure = *error;
    /* What the process before this one sent may have arrived, whatever stops us now. */
    if (op->resumed && json_string(op->progress, "message"))
        failure.outcome = SHP_OUTCOME_UNKNOWN;
    operation_fail(op, &failure);
    sending_free(call);
}

static void on_delivered(const struct delivery *delivery, void *user)
{
    struct sending *call = user;
    if (!delivery->accepted) {
        fail(call, &delivery->error);
        return;
    }
    cJSON *value = cJSON_CreateObject();
    cJSON_AddTrueToObject(value, "sent");
    json_add(value, "machine", call->target.machine->id);
    json_add(value, "target", call->target.pane);
    json_add(value, "messageId", json_string(call->op->progress, "message"));
    operation_finish(call->op, value, NULL, NULL, NULL);
    sending_free(call);
}

static void on_sender(cJSON *sender, void *user)
{
    struct sending *call = user;
    struct operation *op = call->op;
    call->sender = sender;
    struct shp_error error = {0};
    if (op->app->closing || op->canceled) {
        shp_error_set(&error, SHP_CODE_CANCELED, call->target.machine->id, "send",
                      "given up before the message left");
        fail(call, &error);
        return;
    }
    if (!json_string(op->progress, "message")) {
        char id[33];
        app_new_id(id);
        json_add(op->progress, "message", id);
        json_add(op->progress, "session", call->target.pi_session_id);
        cJSON_AddItemToObject(op->progress, "sender", cJSON_Duplicate(sender, true));
    }
    /* A repeat must reach the pi session that the first attempt may have reached. */
    if (strcmp(json_string(op->progress, "session"), call->target.pi_session_id) != 0) {
        shp_error_set(&error, SHP_CODE_DELIVERY_UNKNOWN, call->target.machine->id, "send",
                      "message %s was under way to another pi session of this pane",
                      json_string(op->progress, "message"));
        error.outcome = SHP_OUTCOME_UNKNOWN;
        fail(call, &error);
        return;
    }
    if (!operation_acting(op, "deliver", &error)) {
        fail(call, &error);
        return;
    }
    struct session_address to = {call->target.machine, call->target.pi_session_id,
                                 call->target.terminal_id};
    deliver(&to, json_string(op->progress, "message"), "message", op->call.message,
            cJSON_GetObjectItemCaseSensitive(op->progress, "sender"), on_delivered, call);
}

static void on_target(struct target *target, const struct shp_error *error, void *user)
{
    struct sending *call = user;
    struct shp_error unreachable = {0};
    if (!error && !target_reachable(target, &unreachable))
        error = &unreachable;
    if (error) {
        fail(call, error);
        return;
    }
    target_move(&call->target, target);
    sender_describe(call->op->app, on_sender, call);
}

static void on_ready(struct fleet *fleet, const struct shp_error *catalog_error, void *user)
{
    (void)catalog_error; /* fleet_find tells it when it matters */
    struct sending *call = user;
    struct operation *op = call->op;
    struct shp_error error = {0};
    struct machine *machine = fleet_find(fleet, op->call.machine, &error);
    if (!machine) {
        fail(call, &error);
        return;
    }
    target_resolve(op->app, machine, op->call.target, on_target, call);
}

void action_send_start(struct operation *op)
{
    struct sending *call = xcalloc(1, sizeof(*call));
    call->op = op;
    fleet_ready(op->app->fleet, on_ready, call);
}
