/*
 * The worker gets its binding and its task. The records stand in the store before the message
 * leaves; from the submission on nothing is rolled back unless the receiver says that it did not
 * take it.
 */
#include "controller/agents/spawn_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "controller/clock.h"
#include "controller/json.h"
#include "controller/monitor/monitor.h"
#include "controller/routing/session_request.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

static struct session_address address_of(const struct spawn *spawn)
{
    return (struct session_address){spawn->machine, spawn_made(spawn, SPAWN_SESSION),
                                    spawn_made(spawn, SPAWN_TERMINAL)};
}

/* Without a caller (a resumed call whose Pi is gone) there is nobody to block. */
static bool is_blocking(const struct spawn *spawn)
{
    if (!spawn->op->attached)
        return false;
    enum shp_tristate policy = spawn->profile->blocking;
    if (policy == SHP_UNSET)
        policy = spawn->op->call.blocking;
    return policy != SHP_FALSE;
}

static cJSON *spawned(const struct spawn *spawn)
{
    cJSON *value = cJSON_CreateObject();
    cJSON_AddTrueToObject(value, "spawned");
    json_add(value, "machine", spawn->machine->id);
    json_add(value, "target", spawn_made(spawn, SPAWN_PANE));
    json_add(value, "name", spawn_made(spawn, SPAWN_NAME));
    json_add(value, "agentId", spawn_made(spawn, SPAWN_AGENT));
    json_add(value, "taskId", spawn_made(spawn, SPAWN_TASK));
    return value;
}

/* ---- wait ---------------------------------------------------------------------------------- */

static void on_outcome(const struct task_outcome *outcome, void *user)
{
    struct spawn *spawn = user;
    spawn->calls--;
    if (outcome->error) {
        spawn_end_with(spawn, outcome->error);
        return;
    }
    const struct settlement *settlement = outcome->settlement;
    const char *reply = settlement->reply ? settlement->reply : "";
    cJSON *value = spawned(spawn);
    json_add(value, "status",
             settlement->exited              ? "exited"
             : settlement_failed(settlement) ? "failed"
                                             : "done");
    json_add(value, "stopReason", settlement->stop_reason);
    json_add(value, "error", settlement->error_message);
    json_add(value, "evidence", settlement->evidence);
    if (outcome->told) {
        /* A process before this one handed it over: telling it here would tell it twice. */
        json_add(value, "next", "Its report is in this conversation already.");
        spawn_finish(spawn, value, NULL, NULL);
        return;
    }
    json_add(value, "report", outcome->report);
    if (!*reply && !settlement_failed(settlement))
        cJSON_AddTrueToObject(value, "completed");
    char *text = report_reply_text(reply, spawn->machine->id, spawn_made(spawn, SPAWN_PANE));
    spawn_finish(spawn, value, *reply ? "reply" : NULL, *reply ? text : NULL);
    free(text);
}

/* The caller gave up: the worker goes on, and its result takes the way of a report. */
static void on_cancel(struct operation *op, void *user)
{
    struct spawn *spawn = user;
    if (op->app->closing)
        return; /* the monitor ends the wait */
    monitor_detach(op->app->monitor, spawn_made(spawn, SPAWN_TASK));
    spawn->calls--;
    cJSON *value = spawned(spawn);
    json_add(value, "status", "working");
    cJSON_AddTrueToObject(value, "detached");
    spawn_finish(spawn, value, NULL, NULL);
}

static void submitted(struct spawn *spawn)
{
    struct app *app = spawn->op->app;
    const char *task = spawn_made(spawn, SPAWN_TASK);
    cJSON *value = spawned(spawn);
    json_add(value, "status", "working");
    if (!is_blocking(spawn)) {
        json_add(value, "next",
                 "Go on with other work; the result is pushed here. Do not poll. Use send with "
                 "this machine and target for follow-ups.");
        monitor_follow(app->monitor, task, NULL, NULL);
        spawn_finish(spawn, value, NULL, NULL);
        return;
    }
    operation_progress(spawn->op, value);
    spawn->calls++;
    if (!monitor_follow(app->monitor, task, on_outcome, spawn)) {
        spawn->calls--;
        struct shp_error error = {0};
        machine_unavailable(spawn->machine, &error);
        error.outcome = SHP_OUTCOME_UNKNOWN;
        spawn_end_with(spawn, &error);
        return;
    }
    spawn->op->on_cancel = on_cancel;
    spawn->op->on_cancel_user = spawn;
}

/* ---- deliver ------------------------------------------------------------------------------- */

/* The worker's tab is closed by the rollback, or nothing was there. */
static void agent_closed(struct shp_store *store, const char *id)
{
    struct shp_agent_record agent;
    if (shp_store_agent_get(store, id, &agent) != SHP_OK)
        return;
    agent.closed = true;
    shp_store_agent_put(store, &agent);
    shp_agent_record_fini(&agent);
}

void spawn_task_update(struct spawn *spawn, enum shp_task_state state,
                       enum shp_delivery_state delivery)
{
    struct shp_store *store = spawn->op->app->store;
    const char *id = spawn_made(spawn, SPAWN_TASK);
    struct shp_task_record task;
    if (!id || shp_store_task_get(store, id, &task) != SHP_OK)
        return;
    if (state == SHP_TASK_CANCELED)
        agent_closed(store, task.agent);
    /* A resumed call may find that the task has settled meanwhile. */
    if (task.state == SHP_TASK_CREATED || task.state == SHP_TASK_RUNNING) {
        task.state = state;
        task.delivery = delivery;
        task.held = is_blocking(spawn);
        /* Lost, the task is still CREATED: the monitor follows it once its call has ended. */
        if (shp_store_task_put(store, &task) != SHP_OK)
            shp_log(SHP_LOG_WARN, "spawn", NULL, "task %s not updated: %s", task.id,
                    shp_store_error(store));
    }
    shp_task_record_fini(&task);
}

static void on_delivered(const struct delivery *delivery, void *user)
{
    struct spawn *spawn = user;
    spawn->calls--;
    if (spawn->op->app->closing) {
        /* The store keeps the call open; its resume delivers under the same id. */
        struct shp_error error = {0};
        shp_error_set(&error, SHP_CODE_SHUTTING_DOWN, NULL, "spawn", "the controller ends");
        spawn_end_with(spawn, &error);
        return;
    }
    if (delivery->accepted) {
        spawn_task_update(spawn, SHP_TASK_RUNNING,
                          delivery->provisional ? SHP_DELIVERY_PROVISIONAL : SHP_DELIVERY_ACCEPTED);
        submitted(spawn);
        return;
    }
    if (delivery->error.outcome == SHP_OUTCOME_REJECTED)
        spawn_undo(spawn, &delivery->error);
    else
        spawn_fail(spawn, &delivery->error);
}

void spawn_make_ids(struct spawn *spawn)
{
    static const char *const names[] = {SPAWN_AGENT, SPAWN_TASK, SPAWN_INPUT};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char id[33];
        if (spawn_made(spawn, names[i]))
            continue;
        app_new_id(id);
        spawn_note(spawn, names[i], id);
    }
}

/* What the first attempt stored counts: the receiver tells a repeat from a new message by its
 * bytes, and names around the sender may have changed since. */
static void take_known(struct spawn *spawn, const struct shp_task_record *known)
{
    xreplace(&spawn->text, known->text);
    cJSON *sender = known->sender ? json_parse_object(known->sender, strlen(known->sender)) : NULL;
    if (!sender)
        return;
    cJSON_Delete(spawn->sender);
    spawn->sender = sender;
}

static bool store_records(struct spawn *spawn)
{
    struct operation *op = spawn->op;
    char *sender = json_print(spawn->sender);
    spawn->text = op->call.base
                      ? xasprintf("Base of the review: %s\n\n%s", op->call.base, op->call.message)
                      : xstrdup(op->call.message);
    struct shp_agent_record agent = {
        .machine = spawn->machine->id,
        .terminal_id = (char *)spawn_made(spawn, SPAWN_TERMINAL),
        .pi_session_id = (char *)spawn_made(spawn, SPAWN_SESSION),
        .session_file = (char *)spawn_made(spawn, SPAWN_FILE),
        .pane = (char *)spawn_made(spawn, SPAWN_PANE),
        .name = (char *)spawn_made(spawn, SPAWN_NAME),
        .label = op->call.label,
        .profile = op->call.agent_type,
        .cwd = spawn->cwd,
        .operation = op->id,
        .origin = SHP_AGENT_SPAWNED,
        .watched = true,
    };
    struct shp_task_record task = {
        .state = SHP_TASK_CREATED,
        .delivery = SHP_DELIVERY_SENT,
        .text = spawn->text,
        .sender = sender,
        .operation = op->id,
        .held = is_blocking(spawn),
        .created_unix_ms = clock_unix_ms(),
    };
    snprintf(agent.id, sizeof(agent.id), "%s", spawn_made(spawn, SPAWN_AGENT));
    snprintf(task.id, sizeof(task.id), "%s", spawn_made(spawn, SPAWN_TASK));
    snprintf(task.agent, sizeof(task.agent), "%s", agent.id);
    snprintf(task.input, sizeof(task.input), "%s", spawn_made(spawn, SPAWN_INPUT));
    struct shp_task_record known;
    int rc = shp_store_agent_put(op->app->store, &agent);
    if (rc == SHP_OK)
        rc = shp_store_task_get(op->app->store, task.id, &known);
    if (rc == SHP_OK) {
        take_known(spawn, &known);
        shp_task_record_fini(&known);
    } else if (rc == SHP_ERR_NOT_FOUND) {
        rc = shp_store_task_put(op->app->store, &task);
    }
    free(sender);
    if (rc == SHP_OK)
        return true;
    spawn_failf(spawn, SHP_CODE_STORE_FAILED, "store task", "%s", shp_store_error(op->app->store));
    return false;
}

static void submit(struct spawn *spawn)
{
    if (!store_records(spawn) || !spawn_acting(spawn, SPAWN_DELIVER))
        return;
    struct session_address to = address_of(spawn);
    spawn->calls++;
    deliver(&to, spawn_made(spawn, SPAWN_INPUT), "task", spawn->text, spawn->sender, on_delivered,
            spawn);
}

static void on_bound(const struct session_answer *answer, void *user)
{
    struct spawn *spawn = user;
    if (spawn_continues(spawn, answer->error))
        submit(spawn);
}

void spawn_give_task(struct spawn *spawn)
{
    if (spawn->op->app->context.kind == CONTEXT_CLI) {
        submit(spawn); /* a command is nobody's parent: its worker stays free for a session */
        return;
    }
    struct session_address to = address_of(spawn);
    spawn->calls++;
    session_bind(&to, spawn_made(spawn, SPAWN_AGENT), spawn_made(spawn, SPAWN_NAME), on_bound,
                 spawn);
}
