#include "controller/monitor/monitor.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "controller/clock.h"
#include "controller/json.h"
#include "controller/routing/herdr.h"
#include "controller/routing/session_request.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

#define QUESTION_TIMEOUT_MS 20000
#define TRANSCRIPT_TIMEOUT_MS 20000
/* Checks in a row that found no Pi in the worker's terminal before it counts as gone: a reload or a
 * restart of Pi looks the same for a moment. */
#define GONE_CHECKS 3

/* One open task. Lives until it is done and no answer is under way. */
struct followed {
    struct monitor *monitor;
    struct machine *machine;
    struct shp_task_record task;
    struct shp_agent_record agent;
    task_outcome_cb cb;
    void *user;
    bool asking;    /* a chain of questions is under way */
    bool ask_again; /* something happened meanwhile */
    bool opened;    /* receiver_open held on the current generation */
    uint32_t generation;
    unsigned gone;
    unsigned retries; /* in a row */
    bool done;
    uv_timer_t retry;
    bool retry_closed;
    struct followed *next;
};

struct monitor {
    struct app *app;
    struct followed *items;
    uv_timer_t poll;
    bool closing;
    bool poll_closed;
};

static void ask(struct followed *item);

/* ---- lives --------------------------------------------------------------------------------- */

static void monitor_release(struct monitor *monitor)
{
    if (monitor->closing && monitor->poll_closed && !monitor->items)
        free(monitor);
}

static void followed_release(struct followed *item)
{
    if (!item->done || item->asking || !item->retry_closed)
        return;
    struct monitor *monitor = item->monitor;
    struct followed **slot = &monitor->items;
    while (*slot != item)
        slot = &(*slot)->next;
    *slot = item->next;
    shp_task_record_fini(&item->task);
    shp_agent_record_fini(&item->agent);
    free(item);
    monitor_release(monitor);
}

static void on_retry_closed(uv_handle_t *handle)
{
    struct followed *item = handle->data;
    item->retry_closed = true;
    followed_release(item);
}

static void followed_done(struct followed *item)
{
    if (item->done)
        return;
    item->done = true;
    item->cb = NULL;
    uv_close((uv_handle_t *)&item->retry, on_retry_closed);
}

/* The end of a chain of questions. */
static void asked(struct followed *item)
{
    item->asking = false;
    if (item->done) {
        followed_release(item);
    } else if (item->ask_again) {
        item->ask_again = false;
        ask(item);
    }
}

static void on_retry(uv_timer_t *timer)
{
    ask(timer->data);
}

/* A worker that stays out of reach costs Herdr connections: after a while the poll is enough. */
static void ask_later(struct followed *item)
{
    if (!item->done && ++item->retries <= MONITOR_RETRIES_MAX)
        uv_timer_start(&item->retry, on_retry, MONITOR_RETRY_MS, 0);
}

/* ---- settlement ---------------------------------------------------------------------------- */

static void settle(struct followed *item, const struct settlement *settlement)
{
    struct app *app = item->monitor->app;
    bool failed = settlement_failed(settlement);
    struct shp_report_record report;
    report_build(&report, item->machine, &item->agent, &item->task, settlement, clock_unix_ms());
    if (item->cb)
        report.state = SHP_REPORT_HELD;
    int rc = shp_store_task_settle(app->store, item->task.id,
                                   failed ? SHP_TASK_FAILED : SHP_TASK_COMPLETED, &report);
    /* EXISTS: it ended before, otherwise than now; that end counts and has its report. */
    if (rc == SHP_ERR_EXISTS)
        rc = SHP_OK;
    bool told = false;
    if (rc == SHP_OK && item->cb) {
        rc = shp_store_report_hold(app->store, item->task.id);
        told = rc == SHP_ERR_NOT_FOUND;
        rc = told ? SHP_OK : rc;
    }
    if (rc == SHP_OK)
        rc = shp_store_sync(app->store);
    if (rc != SHP_OK) {
        /* Nothing was told yet: the next question finds the same settlement again. */
        shp_log(SHP_LOG_WARN, "monitor", NULL, "settlement of task %s not stored: %s",
                item->task.id, shp_store_error(app->store));
        shp_report_record_fini(&report);
        ask_later(item);
        return;
    }
    task_outcome_cb cb = item->cb;
    struct task_outcome outcome = {
        .settlement = settlement, .agent = &item->agent, .report = report.id, .told = told};
    void *user = item->user;
    followed_done(item);
    if (cb)
        cb(&outcome, user);
    else if (app_events(app)->on_report_due)
        app_events(app)->on_report_due(app_events(app)->user);
    shp_report_record_fini(&report);
}

/* ---- the worker's Pi is gone --------------------------------------------------------------- */

static void on_last_reply(struct machine *machine, const struct machine_answer *answer, void *user)
{
    (void)machine;
    struct followed *item = user;
    struct settlement settlement = {.evidence = "herdr", .exited = true};
    bool none = answer->error && (answer->error->code == SHP_CODE_TRANSCRIPT_MISSING ||
                                  answer->error->code == SHP_CODE_TRANSCRIPT_INVALID ||
                                  answer->error->code == SHP_CODE_INVALID_PARAMS);
    if (answer->error && !none) { /* late is not missing */
        ask_later(item);
        asked(item);
        return;
    }
    if (!answer->error) {
        settlement.evidence = "transcript";
        settlement.entry_id = json_string(answer->result, "entry_id");
        settlement.stop_reason = json_string(answer->result, "stop_reason");
        settlement.error_message = json_string(answer->result, "error_message");
        settlement.reply = answer->bulk;
    }
    if (!item->done)
        settle(item, &settlement);
    asked(item);
}

static void worker_exited(struct followed *item)
{
    item->agent.closed = true;
    shp_store_agent_put(item->monitor->app->store, &item->agent);
    cJSON *params = cJSON_CreateObject();
    json_add(params, "path", item->agent.session_file ? item->agent.session_file : "/");
    machine_request(item->machine, SHP_MSG_TRANSCRIPT_LATEST, NULL, TRANSCRIPT_TIMEOUT_MS, params,
                    NULL, 0, on_last_reply, item);
}

static void on_roster(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    struct followed *item = user;
    if (item->done || answer->error) {
        ask_later(item);
        asked(item);
        return;
    }
    const cJSON *agent = json_find(cJSON_GetObjectItemCaseSensitive(answer->result, "agents"),
                                   "terminal_id", item->agent.terminal_id);
    const char *kind = json_string(agent, "agent");
    bool alive = kind && strcmp(kind, "pi") == 0;
    if (alive && json_string(agent, "pane_id"))
        xreplace(&item->agent.pane, json_string(agent, "pane_id"));
    item->gone = alive ? 0 : item->gone + 1;
    if (item->gone >= GONE_CHECKS) {
        worker_exited(item);
        return;
    }
    ask_later(item);
    asked(item);
}

/* ---- questions ----------------------------------------------------------------------------- */

static struct session_address address_of(const struct followed *item)
{
    return (struct session_address){item->machine, item->agent.pi_session_id,
                                    item->agent.terminal_id};
}

static void question_failed(struct followed *item, const struct shp_error *error)
{
    if (item->done || item->monitor->closing) {
        asked(item);
        return;
    }
    if (error->code == SHP_CODE_RECEIVER_MISSING || error->code == SHP_CODE_DELIVERY_UNKNOWN) {
        item->opened = false;
        herdr_roster(item->machine, on_roster, item);
        return;
    }
    /* Without a link the next one asks again; anything else is asked again in a moment. */
    if (item->machine->state == MACHINE_CONNECTED)
        ask_later(item);
    asked(item);
}

static void on_redelivered(const struct delivery *delivery, void *user)
{
    struct followed *item = user;
    if (!delivery->accepted)
        question_failed(item, &delivery->error);
    else
        asked(item);
}

static void redeliver(struct followed *item)
{
    struct session_address to = address_of(item);
    cJSON *sender =
        item->task.sender ? json_parse_object(item->task.sender, strlen(item->task.sender)) : NULL;
    deliver(&to, item->task.input, "task", item->task.text, sender, on_redelivered, item);
    cJSON_Delete(sender);
}

static void on_settlement(const struct session_answer *answer, void *user)
{
    struct followed *item = user;
    if (answer->error) {
        question_failed(item, answer->error);
        return;
    }
    const char *state = json_string(answer->answer, "state");
    item->gone = 0;
    item->retries = 0;
    if (!item->done && state && strcmp(state, "settled") == 0) {
        struct settlement settlement = {
            .evidence = "pi-ext",
            .entry_id = json_string(answer->answer, "entry_id"),
            .stop_reason = json_string(answer->answer, "stop_reason"),
            .error_message = json_string(answer->answer, "error_message"),
            .aborted = json_bool(answer->answer, "aborted"),
            .reply = answer->text,
        };
        settle(item, &settlement);
    } else if (!item->done && state && strcmp(state, "unknown") == 0) {
        /* Accepted before, not known now: Pi ended before it had a file. Same id, so at most once.
         */
        redeliver(item);
        return;
    }
    asked(item);
}

static void ask_settlement(struct followed *item)
{
    struct session_address to = address_of(item);
    cJSON *payload = cJSON_CreateObject();
    json_add(payload, "input", item->task.input);
    session_request(&to, "settlement", NULL, payload, NULL, QUESTION_TIMEOUT_MS, on_settlement,
                    item);
}

static void on_bound(const struct session_answer *answer, void *user)
{
    struct followed *item = user;
    if (answer->error && answer->error->code != SHP_CODE_ALREADY_BOUND) {
        question_failed(item, answer->error);
        return;
    }
    item->opened = true;
    item->generation = item->machine->generation;
    ask_settlement(item);
}

static void on_opened(struct machine *machine, const struct machine_answer *answer, void *user)
{
    (void)machine;
    struct followed *item = user;
    if (answer->error) {
        question_failed(item, answer->error);
        return;
    }
    /* A command binds nobody: its worker stays free for a session. */
    if (item->agent.origin != SHP_AGENT_SPAWNED ||
        item->monitor->app->context.kind == CONTEXT_CLI) {
        item->opened = true;
        item->generation = item->machine->generation;
        ask_settlement(item);
        return;
    }
    struct session_address to = address_of(item);
    session_bind(&to, item->agent.id, item->agent.name, on_bound, item);
}

static void ask(struct followed *item)
{
    if (item->done || item->monitor->closing)
        return;
    if (item->asking) {
        item->ask_again = true;
        return;
    }
    if (item->machine->state != MACHINE_CONNECTED) {
        machine_want(item->machine, true);
        return;
    }
    uv_timer_stop(&item->retry);
    item->asking = true;
    if (item->opened && item->generation == item->machine->generation) {
        ask_settlement(item);
        return;
    }
    cJSON *params = cJSON_CreateObject();
    json_add(params, "pi_session_id", item->agent.pi_session_id);
    machine_request(item->machine, SHP_MSG_RECEIVER_OPEN, NULL, QUESTION_TIMEOUT_MS, params, NULL,
                    0, on_opened, item);
}

/* ---- beginning ----------------------------------------------------------------------------- */

static struct followed *followed_find(struct monitor *monitor, const char *task_id)
{
    for (struct followed *item = monitor->items; item; item = item->next)
        if (!item->done && strcmp(item->task.id, task_id) == 0)
            return item;
    return NULL;
}

static struct followed *follow(struct monitor *monitor, const struct shp_task_record *task)
{
    struct app *app = monitor->app;
    struct followed *item = xcalloc(1, sizeof(*item));
    struct shp_error error = {0};
    if (shp_store_task_get(app->store, task->id, &item->task) != SHP_OK) {
        free(item);
        return NULL;
    }
    if (shp_store_agent_get(app->store, item->task.agent, &item->agent) != SHP_OK ||
        !item->agent.pi_session_id ||
        !(item->machine = fleet_find(app->fleet, item->agent.machine, &error))) {
        shp_log(SHP_LOG_WARN, "monitor", NULL, "task %s waits: %s", task->id,
                error.code ? error.cause : "its agent is not known yet");
        shp_task_record_fini(&item->task);
        shp_agent_record_fini(&item->agent);
        free(item);
        return NULL;
    }
    item->monitor = monitor;
    uv_timer_init(app->loop, &item->retry);
    uv_unref((uv_handle_t *)&item->retry);
    item->retry.data = item;
    item->next = monitor->items;
    monitor->items = item;
    machine_want(item->machine, true);
    return item;
}

bool monitor_follow(struct monitor *monitor, const char *task_id, task_outcome_cb cb, void *user)
{
    struct shp_task_record task = {0};
    memcpy(task.id, task_id, sizeof(task.id));
    struct followed *item = followed_find(monitor, task_id);
    if (!item)
        item = follow(monitor, &task);
    if (!item)
        return false;
    item->cb = cb;
    item->user = user;
    ask(item);
    return true;
}

void monitor_detach(struct monitor *monitor, const char *task_id)
{
    struct followed *item = followed_find(monitor, task_id);
    if (item)
        item->cb = NULL;
}

struct owner {
    const char *operation;
    bool open;
};

static void is_owner(const struct shp_operation *operation, void *user)
{
    struct owner *owner = user;
    owner->open = owner->open || strcmp(operation->id, owner->operation) == 0;
}

static void restore_one(const struct shp_task_record *task, void *user)
{
    struct monitor *monitor = user;
    struct owner owner = {.operation = task->operation ? task->operation : ""};
    if (followed_find(monitor, task->id) ||
        shp_store_operation_each_open(monitor->app->store, is_owner, &owner) != SHP_OK ||
        owner.open)
        return;
    struct followed *item = follow(monitor, task);
    if (item)
        ask(item);
}

void monitor_restore(struct monitor *monitor)
{
    shp_store_task_each_open(monitor->app->store, restore_one, monitor);
}

/* ---- news ---------------------------------------------------------------------------------- */

static bool names_input(const cJSON *params, const char *input)
{
    const cJSON *one = NULL;
    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(params, "inputs"))
    {
        if (cJSON_IsString(one) && strcmp(one->valuestring, input) == 0)
            return true;
    }
    return false;
}

void monitor_on_session_event(struct monitor *monitor, struct machine *machine, const cJSON *params)
{
    const char *session = json_string(params, "pi_session_id");
    const char *event = json_string(params, "event");
    if (!session || !event || monitor->closing)
        return;
    for (struct followed *item = monitor->items; item; item = item->next) {
        if (item->done || item->machine != machine ||
            strcmp(item->agent.pi_session_id, session) != 0)
            continue;
        if (strcmp(event, "settled") == 0) {
            ask(item);
        } else if (strcmp(event, "lost") == 0 || strcmp(event, "closing") == 0) {
            item->opened = false;
            item->retries = 0;
            ask_later(item);
        } else if (strcmp(event, "delivered") == 0 && names_input(params, item->task.input) &&
                   item->task.delivery != SHP_DELIVERY_DELIVERED) {
            item->task.delivery = SHP_DELIVERY_DELIVERED;
            shp_store_task_put(monitor->app->store, &item->task);
        }
    }
}

void monitor_on_machine_state(struct monitor *monitor, struct machine *machine)
{
    if (machine->state != MACHINE_CONNECTED || monitor->closing)
        return;
    for (struct followed *item = monitor->items; item; item = item->next) {
        item->retries = 0;
        if (item->machine == machine)
            ask(item);
    }
}

static void on_poll(uv_timer_t *timer)
{
    struct monitor *monitor = timer->data;
    /* Tasks whose machine was missing from the catalog may be found by now. */
    monitor_restore(monitor);
    for (struct followed *item = monitor->items; item; item = item->next)
        ask(item);
}

struct monitor *monitor_new(struct app *app)
{
    struct monitor *monitor = xcalloc(1, sizeof(*monitor));
    monitor->app = app;
    uv_timer_init(app->loop, &monitor->poll);
    uv_unref((uv_handle_t *)&monitor->poll);
    monitor->poll.data = monitor;
    uv_timer_start(&monitor->poll, on_poll, MONITOR_POLL_MS, MONITOR_POLL_MS);
    return monitor;
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct monitor *monitor = handle->data;
    monitor->poll_closed = true;
    monitor_release(monitor);
}

void monitor_close(struct monitor *monitor)
{
    monitor->closing = true;
    struct shp_error error = {0};
    shp_error_set(&error, SHP_CODE_SHUTTING_DOWN, NULL, "wait for settlement",
                  "the controller ends; the task stays open");
    struct followed *next = NULL;
    for (struct followed *item = monitor->items; item; item = next) {
        next = item->next;
        task_outcome_cb cb = item->cb;
        void *user = item->user;
        bool was_done = item->done;
        followed_done(item);
        struct task_outcome outcome = {.error = &error};
        if (cb && !was_done)
            cb(&outcome, user);
    }
    uv_close((uv_handle_t *)&monitor->poll, on_poll_closed);
}
