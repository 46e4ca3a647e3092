/*
 * A pane with Pi in it. What is made carries a token in its label until its ids are stored, so
 * that a crash between Herdr's act and our record can be found by looking: the tab or workspace by
 * the token, the agent by its unique name.
 */
#include "controller/agents/spawn_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/json.h"
#include "controller/routing/herdr.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

#define START_TIMEOUT_MS 30000
#define BUSY_RETRY_MS 100
#define BUSY_TRIES_MAX 100
#define LOOK_MS 500
#define LOOK_MISSES_MAX 4

static void start(struct spawn *spawn);

/* ---- ready --------------------------------------------------------------------------------- */

static void on_last_words(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    struct spawn *spawn = user;
    spawn->calls--;
    const cJSON *read = cJSON_GetObjectItemCaseSensitive(answer->result, "read");
    const char *text = answer->error ? NULL : json_string(read, "text");
    if (text && *text) {
        size_t len = strlen(text);
        size_t keep = 600;
        struct shp_error error = spawn->failure;
        shp_error_set(&error, error.code, error.machine, error.step,
                      "%.300s; the terminal shows: %s", spawn->failure.cause,
                      len > keep ? text + len - keep : text);
        error.outcome = spawn->failure.outcome;
        spawn->failure = error;
    }
    struct shp_error failure = spawn->failure;
    spawn_fail(spawn, &failure);
}

/* Not ready: what the terminal shows is the best explanation. */
static void not_ready(struct spawn *spawn, int code, const char *cause)
{
    uv_timer_stop(&spawn->timer);
    spawn->ready = true; /* no more looks */
    shp_error_set(&spawn->failure, code, spawn->machine->id, "wait for pi", "%s", cause);
    cJSON *params = cJSON_CreateObject();
    json_add(params, "pane_id", spawn_made(spawn, SPAWN_PANE));
    json_add(params, "source", "visible");
    spawn->calls++;
    herdr_call(spawn->machine, "pane.read", params, SHP_LIMIT_HERDR_CALL_TIMEOUT_MS, on_last_words,
               spawn);
}

static void on_receiver(struct machine *machine, const struct machine_answer *answer, void *user)
{
    (void)machine;
    struct spawn *spawn = user;
    if (spawn->op && spawn->ready) { /* a look has ended it already */
        spawn->calls--;
        return;
    }
    bool missing = answer->error && (answer->error->code == SHP_CODE_RECEIVER_MISSING ||
                                     answer->error->code == SHP_CODE_TIMEOUT);
    if (missing && spawn->op && !spawn->op->app->closing) {
        spawn->calls--;
        not_ready(spawn, SHP_CODE_RECEIVER_MISSING,
                  "Pi's receiver did not come up within 30 s; the extension did not load there");
        return;
    }
    if (!spawn_continues(spawn, answer->error))
        return;
    spawn->ready = true;
    spawn_note(spawn, SPAWN_SESSION, json_string(answer->result, "pi_session_id"));
    spawn_note(spawn, SPAWN_FILE, json_string(answer->result, "session_file"));
    uv_timer_stop(&spawn->timer);
    if (json_number(answer->result, "protocol_max", 0) < SHP_PROTOCOL_VERSION_MIN) {
        spawn_failf(spawn, SHP_CODE_RECEIVER_OUTDATED, "wait for pi",
                    "an older copy of the extension is installed there and came up first");
        return;
    }
    spawn_give_task(spawn);
}

static void on_look_timer(uv_timer_t *timer);

static void on_look(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    struct spawn *spawn = user;
    if (!spawn->op) {
        spawn_continues(spawn, NULL); /* counts it off; the last one frees */
        return;
    }
    spawn->calls--;
    if (spawn->ready || spawn->op->app->closing)
        return;
    if (spawn->op->canceled) {
        spawn->ready = true; /* the answer about the receiver comes to nothing */
        spawn_failf(spawn, SHP_CODE_CANCELED, "wait for pi",
                    "given up before the task was submitted");
        return;
    }
    const cJSON *agent = cJSON_GetObjectItemCaseSensitive(answer->result, "agent");
    const char *terminal = json_string(agent, "terminal_id");
    if (answer->error && strcmp(answer->herdr_code, "agent_not_found") == 0) {
        if (++spawn->tries >= LOOK_MISSES_MAX) {
            not_ready(spawn, SHP_CODE_SPAWN_FAILED, "Pi ended while it was starting");
            return;
        }
    } else if (terminal && strcmp(terminal, spawn_made(spawn, SPAWN_TERMINAL)) != 0) {
        not_ready(spawn, SHP_CODE_SPAWN_FAILED, "another terminal has the agent's name now");
        return;
    } else {
        spawn->tries = 0;
    }
    uv_timer_start(&spawn->timer, on_look_timer, LOOK_MS, 0);
}

/* agent.get also moves Herdr's own start-up of the agent forward. */
static void on_look_timer(uv_timer_t *timer)
{
    struct spawn *spawn = timer->data;
    cJSON *params = cJSON_CreateObject();
    json_add(params, "target", spawn_made(spawn, SPAWN_NAME));
    spawn->calls++;
    herdr_call(spawn->machine, "agent.get", params, SHP_LIMIT_HERDR_CALL_TIMEOUT_MS, on_look,
               spawn);
}

static void wait_ready(struct spawn *spawn)
{
    spawn->tries = 0;
    uv_timer_start(&spawn->timer, on_look_timer, LOOK_MS, 0);
    cJSON *params = cJSON_CreateObject();
    json_add(params, "terminal_id", spawn_made(spawn, SPAWN_TERMINAL));
    spawn->calls++;
    machine_request(spawn->machine, SHP_MSG_RECEIVER_WAIT, NULL,
                    SHP_LIMIT_RECEIVER_READY_TIMEOUT_MS, params, NULL, 0, on_receiver, spawn);
}

/* ---- start --------------------------------------------------------------------------------- */

/* The caller gives up, or the controller ends, between two tries. */
static void on_cancel_retry(struct operation *op, void *user)
{
    (void)op;
    struct spawn *spawn = user;
    uv_timer_stop(&spawn->timer);
    spawn->op->on_cancel = NULL;
    spawn->calls++;
    spawn_continues(spawn, NULL);
}

static void on_start_retry(uv_timer_t *timer)
{
    struct spawn *spawn = timer->data;
    spawn->op->on_cancel = NULL;
    start(spawn);
}

static void on_started(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    struct spawn *spawn = user;
    bool busy = answer->error && (strcmp(answer->herdr_code, "agent_pane_busy") == 0 ||
                                  strcmp(answer->herdr_code, "agent_pane_unavailable") == 0);
    bool created = spawn->op && spawn_made(spawn, SPAWN_CREATED);
    /* Only a pane of ours is waited for: its shell is still reading its start-up files. */
    if (busy && created && !spawn->op->app->closing && !spawn->op->canceled &&
        ++spawn->tries < BUSY_TRIES_MAX) {
        spawn->calls--;
        spawn->op->on_cancel = on_cancel_retry;
        spawn->op->on_cancel_user = spawn;
        uv_timer_start(&spawn->timer, on_start_retry, BUSY_RETRY_MS, 0);
        return;
    }
    if (!spawn_continues(spawn, answer->error))
        return;
    const cJSON *agent = cJSON_GetObjectItemCaseSensitive(answer->result, "agent");
    const char *terminal = json_string(agent, "terminal_id");
    if (!terminal) {
        spawn_failf(spawn, SHP_CODE_HERDR_INVALID, "agent.start", "no terminal id in the answer");
        return;
    }
    spawn_note(spawn, SPAWN_TERMINAL, terminal);
    if (spawn_acting(spawn, "started"))
        wait_ready(spawn);
}

static void add_arg(cJSON *args, const char *flag, const char *value)
{
    if (!value)
        return;
    if (flag)
        cJSON_AddItemToArray(args, cJSON_CreateString(flag));
    cJSON_AddItemToArray(args, cJSON_CreateString(value));
}

static void start(struct spawn *spawn)
{
    const struct shp_profile *profile = spawn->profile;
    cJSON *params = cJSON_CreateObject();
    json_add(params, "name", spawn_made(spawn, SPAWN_NAME));
    json_add(params, "kind", "pi");
    json_add(params, "pane_id", spawn_made(spawn, SPAWN_PANE));
    cJSON_AddNumberToObject(params, "timeout_ms", START_TIMEOUT_MS);
    cJSON *args = cJSON_AddArrayToObject(params, "args");
    add_arg(args, "--name", spawn->op->call.label);
    add_arg(args, "--model", profile->model);
    add_arg(args, "--thinking", profile->thinking);
    add_arg(args, "--append-system-prompt", spawn->prompt_path);
    add_arg(args, "-e", spawn->extension_path);
    for (size_t i = 0; i < profile->args_len; i++)
        add_arg(args, NULL, profile->args[i]);
    spawn->calls++;
    herdr_call(spawn->machine, "agent.start", params, START_TIMEOUT_MS + 5000, on_started, spawn);
}

/* ---- create -------------------------------------------------------------------------------- */

static void on_renamed(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    struct spawn *spawn = user;
    if (!spawn_continues(spawn, answer->error))
        return;
    if (!spawn_acting(spawn, "start"))
        return;
    spawn->tries = 0;
    start(spawn);
}

static void rename_tab(struct spawn *spawn)
{
    cJSON *params = cJSON_CreateObject();
    json_add(params, "tab_id", spawn_made(spawn, SPAWN_TAB));
    json_add(params, "label", spawn->op->call.label);
    spawn->calls++;
    herdr_call(spawn->machine, "tab.rename", params, SHP_LIMIT_HERDR_CALL_TIMEOUT_MS, on_renamed,
               spawn);
}

static void on_workspace_renamed(struct machine *machine, const struct herdr_answer *answer,
                                 void *user)
{
    (void)machine;
    struct spawn *spawn = user;
    if (spawn_continues(spawn, answer->error))
        rename_tab(spawn);
}

static void name_created(struct spawn *spawn)
{
    if (strcmp(spawn_made(spawn, SPAWN_CREATED), "tab") == 0) {
        rename_tab(spawn);
        return;
    }
    cJSON *params = cJSON_CreateObject();
    json_add(params, "workspace_id", spawn_made(spawn, SPAWN_WORKSPACE));
    json_add(params, "label", spawn->op->call.label);
    spawn->calls++;
    herdr_call(spawn->machine, "workspace.rename", params, SHP_LIMIT_HERDR_CALL_TIMEOUT_MS,
               on_workspace_renamed, spawn);
}

static void on_created(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    struct spawn *spawn = user;
    /* Also before a failure: what the answer names is closed by the rollback. */
    if (spawn->op && !answer->error) {
        const cJSON *tab = cJSON_GetObjectItemCaseSensitive(answer->result, "tab");
        const cJSON *pane = cJSON_GetObjectItemCaseSensitive(answer->result, "root_pane");
        spawn_note(spawn, SPAWN_TAB, json_string(tab, "tab_id"));
        spawn_note(spawn, SPAWN_WORKSPACE, json_string(tab, "workspace_id"));
        spawn_note(spawn, SPAWN_PANE, json_string(pane, "pane_id"));
        spawn_note(spawn, SPAWN_CREATED, spawn_made(spawn, SPAWN_PLACE));
    }
    if (!spawn_continues(spawn, answer->error))
        return;
    if (!spawn_made(spawn, SPAWN_PANE) || !spawn_made(spawn, SPAWN_TAB)) {
        spawn_failf(spawn, SHP_CODE_HERDR_INVALID, "create place", "no tab or pane in the answer");
        return;
    }
    if (spawn_acting(spawn, "created"))
        name_created(spawn);
}

static void create(struct spawn *spawn)
{
    spawn_make_ids(spawn);
    if (spawn->placement == SHP_PLACEMENT_PANE) {
        spawn_note(spawn, SPAWN_PANE, spawn->op->call.pane);
        if (spawn_acting(spawn, "start")) {
            spawn->tries = 0;
            start(spawn);
        }
        return;
    }
    bool tab = spawn->placement == SHP_PLACEMENT_TAB;
    char token[33];
    app_new_id(token);
    char *label = xasprintf("starting %.12s", token);
    spawn_note(spawn, SPAWN_TOKEN, label);
    spawn_note(spawn, SPAWN_PLACE, tab ? "tab" : "workspace");
    spawn_note(spawn, SPAWN_CREATED, NULL);
    free(label);
    if (!spawn_acting(spawn, "create"))
        return;
    cJSON *params = cJSON_CreateObject();
    if (tab)
        json_add(params, "workspace_id", spawn->workspace_id);
    json_add(params, "cwd", spawn->cwd);
    json_add(params, "label", spawn_made(spawn, SPAWN_TOKEN));
    cJSON_AddFalseToObject(params, "focus");
    spawn->calls++;
    herdr_call(spawn->machine, tab ? "tab.create" : "workspace.create", params,
               SHP_LIMIT_HERDR_CALL_TIMEOUT_MS, on_created, spawn);
}

/* ---- after a crash: look first ------------------------------------------------------------- */

static void on_orphan_closed(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    struct spawn *spawn = user;
    bool gone = strcmp(answer->herdr_code, "tab_not_found") == 0 ||
                strcmp(answer->herdr_code, "workspace_not_found") == 0;
    if (!spawn_continues(spawn, gone ? NULL : answer->error))
        return;
    spawn_note(spawn, SPAWN_CREATED, NULL);
    spawn_note(spawn, SPAWN_WORKSPACE, NULL);
    spawn_note(spawn, SPAWN_PANE, NULL);
    spawn_note(spawn, SPAWN_TAB, NULL);
    spawn_note(spawn, SPAWN_TERMINAL, NULL);
    create(spawn);
}

/* Noted first, so that a failure from here on names it. */
static void close_orphan(struct spawn *spawn, bool tab, const char *id)
{
    cJSON *params = cJSON_CreateObject();
    json_add(params, tab ? "tab_id" : "workspace_id", id);
    spawn_note(spawn, tab ? SPAWN_TAB : SPAWN_WORKSPACE, id);
    spawn_note(spawn, SPAWN_CREATED, tab ? "tab" : "workspace");
    spawn->calls++;
    herdr_call(spawn->machine, tab ? "tab.close" : "workspace.close", params,
               SHP_LIMIT_HERDR_CALL_TIMEOUT_MS, on_orphan_closed, spawn);
}

const cJSON *spawn_find_token(const struct spawn *spawn, const cJSON *roster)
{
    const char *place = spawn_made(spawn, SPAWN_PLACE);
    bool tab = place && strcmp(place, "tab") == 0;
    return json_find(cJSON_GetObjectItemCaseSensitive(roster, tab ? "tabs" : "workspaces"), "label",
                     spawn_made(spawn, SPAWN_TOKEN));
}

/*
 * The first attempt may have got anywhere. An agent of our name is adopted; a pane without it, or
 * a place with our token, is closed and made again; else nothing was made.
 */
static void reconcile(struct spawn *spawn)
{
    const cJSON *agents = cJSON_GetObjectItemCaseSensitive(spawn->roster, "agents");
    const char *step = spawn_made(spawn, SPAWN_STEP);
    const char *known = spawn_made(spawn, SPAWN_TERMINAL);
    const cJSON *agent = json_find(agents, known ? "terminal_id" : "name",
                                   known ? known : spawn_made(spawn, SPAWN_NAME));
    const char *pane = json_string(agent, "pane_id");
    const char *ours = spawn_made(spawn, SPAWN_PANE);
    /* Another's agent may have got our name before we asked to start. */
    if (!known && (!pane || !ours || strcmp(pane, ours) != 0))
        agent = NULL;
    bool asked_start = strcmp(step, "create") != 0 && strcmp(step, "created") != 0;
    if (agent && pane && asked_start) {
        spawn_note(spawn, SPAWN_TERMINAL, json_string(agent, "terminal_id"));
        spawn_note(spawn, SPAWN_PANE, pane);
        wait_ready(spawn);
        return;
    }
    if (spawn_submitted(spawn)) {
        /* The task may have been seen by a Pi that is gone now: never given twice. */
        spawn_failf(spawn, SHP_CODE_OPERATION_INTERRUPTED, "resume spawn",
                    "the worker %s is gone; its task (message %s) may have begun",
                    spawn_made(spawn, SPAWN_NAME), spawn_made(spawn, SPAWN_INPUT));
        return;
    }
    const char *place = spawn_made(spawn, SPAWN_PLACE);
    bool tab = place && strcmp(place, "tab") == 0;
    const cJSON *orphan = spawn_find_token(spawn, spawn->roster);
    if (spawn_made(spawn, SPAWN_CREATED))
        close_orphan(spawn, tab, spawn_made(spawn, tab ? SPAWN_TAB : SPAWN_WORKSPACE));
    else if (orphan)
        close_orphan(spawn, tab, json_string(orphan, tab ? "tab_id" : "workspace_id"));
    else
        create(spawn);
}

void spawn_launch(struct spawn *spawn)
{
    if (spawn->op->resumed && spawn_made(spawn, SPAWN_STEP))
        reconcile(spawn);
    else
        create(spawn);
}
