/* ping, snapshot, stop, notifications, event subscriptions and waits. */
#include "dispatch.h"
#include "present.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static void ping(struct sim *sim, struct conn *c, const cJSON *params)
{
    (void)params;
    cJSON *r = result_new("pong");
    if (!sim->opt.omit_version)
        cJSON_AddStringToObject(r, "version", sim->opt.version);
    cJSON_AddNumberToObject(r, "protocol", (double)sim->opt.protocol);
    if (sim->opt.null_capabilities) {
        cJSON_AddNullToObject(r, "capabilities");
    } else {
        cJSON *caps = cJSON_AddObjectToObject(r, "capabilities");
        cJSON_AddBoolToObject(caps, "live_handoff", true);
        cJSON_AddBoolToObject(caps, "detached_server_daemon", true);
        if (sim->opt.protocol >= 22) {
            cJSON_AddNumberToObject(caps, "endpoint_protocol_generation", 1);
            cJSON_AddBoolToObject(caps, "surface_interest", true);
            cJSON_AddBoolToObject(caps, "health_check", true);
        }
    }
    conn_answer(c, r);
}

static void snapshot(struct sim *sim, struct conn *c, const cJSON *params)
{
    (void)params;
    cJSON *r = result_new("session_snapshot");
    cJSON_AddItemToObject(r, "snapshot", present_snapshot(sim));
    conn_answer(c, r);
}

static void stop(struct sim *sim, struct conn *c, const cJSON *params)
{
    (void)params;
    conn_answer(c, result_new("ok"));
    sim_stop(sim, (uint64_t)sim->opt.stop_delay_ms);
}

#define NOTIFICATION_INTERVAL_MS 1000

static void notification(struct sim *sim, struct conn *c, const cJSON *params)
{
    bool empty = true;
    for (const char *p = param_text(params, "title"); *p; p++)
        empty = empty && (isspace((unsigned char)*p) || iscntrl((unsigned char)*p));
    if (empty) {
        conn_error(c, "invalid_params", "title is empty");
        return;
    }
    uint64_t now = now_ms();
    bool limited =
        sim->last_notification_ms && now - sim->last_notification_ms < NOTIFICATION_INTERVAL_MS;
    const char *reason = limited           ? "rate_limited"
                         : sim->opt.viewer ? "shown"
                                           : "no_foreground_client";
    if (!limited)
        sim->last_notification_ms = now;
    cJSON *r = result_new("notification_show");
    cJSON_AddBoolToObject(r, "shown", !strcmp(reason, "shown"));
    cJSON_AddStringToObject(r, "reason", reason);
    conn_answer(c, r);
}

static void subscription_turn(struct sim *sim, struct conn *c, void *state)
{
    struct str lines = {0};
    bool goes_on = subscription_poll(sim, state, c->id, &lines);
    if (lines.len)
        conn_send_lines(c, &lines, !goes_on);
    str_free(&lines);
}

static void subscription_end(void *state)
{
    subscription_free(state);
}

static const struct held_ops subscription_ops = {subscription_turn, subscription_end};

static void subscribe(struct sim *sim, struct conn *c, const cJSON *params)
{
    const char *code = NULL, *message = NULL;
    struct subscription *s =
        subscription_new(sim, param_item(params, "subscriptions"), &code, &message);
    if (!s) {
        conn_error(c, code, "%s", message);
        return;
    }
    conn_answer_keep(c, result_new("subscription_started"));
    if (c->state == CONN_CLOSED)
        subscription_free(s);
    else
        conn_hold(c, &subscription_ops, s, true);
}

struct event_wait {
    char terminal_id[ID_BYTES];
    char status[16];
    uint64_t cursor;
    uint64_t deadline_ms; /* 0: none */
};

static void wait_answer(struct conn *c, cJSON *envelope)
{
    cJSON *r = result_new("wait_matched");
    cJSON_AddItemToObject(r, "event", envelope);
    conn_answer(c, r);
}

static void event_wait_turn(struct sim *sim, struct conn *c, void *state)
{
    struct event_wait *w = state;
    if (w->cursor < ring_first(&sim->ring))
        w->cursor = ring_first(&sim->ring);
    while (w->cursor < sim->ring.next) {
        const struct event *e = ring_at(&sim->ring, w->cursor++);
        if (e->kind == EVENT_PANE_AGENT_STATUS_CHANGED && !strcmp(e->terminal_id, w->terminal_id) &&
            !strcmp(param_text(e->data, "agent_status"), w->status)) {
            wait_answer(c, event_envelope(e));
            return;
        }
    }
    if (w->deadline_ms && now_ms() >= w->deadline_ms)
        conn_error(c, "timeout", "no matching event");
}

static const struct held_ops event_wait_ops = {event_wait_turn, free};

static const struct param match_event_params[] = {
    {"event", PARAM_TEXT, PARAM_REQUIRED, "pane_agent_status_changed"},
    {"pane_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"agent_status", PARAM_TEXT, PARAM_REQUIRED, STATUS_CHOICES},
    {NULL, 0, 0, NULL},
};

static void events_wait(struct sim *sim, struct conn *c, const cJSON *params)
{
    char why[160];
    uint64_t timeout;
    const cJSON *match = param_item(params, "match_event");
    const char *event = param_text(match, "event");
    if (event && strcmp(event, "pane_agent_status_changed") != 0) {
        conn_error(c, "unsupported_event_wait_match", "only pane_agent_status_changed");
        return;
    }
    if (!params_check(match_event_params, match, sim->opt.strict_params, why, sizeof why)) {
        conn_error(c, "invalid_request", "%s", why);
        return;
    }
    struct pane *pane = model_pane_any(&sim->model, param_text(match, "pane_id"));
    if (!pane) {
        conn_error(c, "pane_not_found", "no such pane");
        return;
    }
    const char *status = param_text(match, "agent_status");
    if (!strcmp(agent_status(&pane->agent), status)) {
        struct event now = {.kind = EVENT_PANE_AGENT_STATUS_CHANGED, .data = present_status(pane)};
        wait_answer(c, event_envelope(&now));
        cJSON_Delete(now.data);
        return;
    }
    struct event_wait *w = sim_alloc(sizeof *w);
    strcpy(w->terminal_id, pane->terminal_id);
    strncpy(w->status, status, sizeof w->status - 1);
    w->cursor = sim->ring.next;
    if (param_uint(params, "timeout_ms", &timeout))
        w->deadline_ms = now_ms() + timeout;
    conn_hold(c, &event_wait_ops, w, true);
}

static const struct param notification_params[] = {
    {"title", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"body", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"position", PARAM_TEXT, PARAM_NULLABLE, "top-left|top-right|bottom-left|bottom-right"},
    {"sound", PARAM_TEXT, 0, "none|done|request"},
    {NULL, 0, 0, NULL},
};
static const struct param subscribe_params[] = {
    {"subscriptions", PARAM_ARRAY, PARAM_REQUIRED, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param wait_params[] = {
    {"match_event", PARAM_OBJECT, PARAM_REQUIRED, NULL},
    {"timeout_ms", PARAM_UINT, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};

const struct method methods_server[] = {
    {"ping", ping, params_none, true, false},
    {"session.snapshot", snapshot, params_none, false, false},
    {"server.stop", stop, params_none, false, false},
    {"notification.show", notification, notification_params, false, false},
    {"events.subscribe", subscribe, subscribe_params, false, true},
    {"events.wait", events_wait, wait_params, false, true},
    {NULL, NULL, NULL, false, false},
};
