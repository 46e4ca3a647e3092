#include "controller/agents/action.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sodium.h>

#include "base/id.h"
#include "controller/agents/sender.h"
#include "controller/agents/spawn_internal.h"
#include "controller/json.h"
#include "controller/monitor/monitor.h"
#include "controller/routing/herdr.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

#define FILE_TIMEOUT_MS 60000
#define NAME_ATTEMPTS_MAX 1000

/* ---- lives and ends ------------------------------------------------------------------------ */

const char *spawn_made(const struct spawn *spawn, const char *name)
{
    return json_string(spawn->op->progress, name);
}

void spawn_note(struct spawn *spawn, const char *name, const char *value)
{
    char *copy = xstrdup(value); /* it may be what stands there now */
    cJSON_DeleteItemFromObjectCaseSensitive(spawn->op->progress, name);
    json_add(spawn->op->progress, name, copy);
    free(copy);
}

static void spawn_release(struct spawn *spawn)
{
    if (spawn->op || spawn->calls > 0 || !spawn->timer_closed)
        return;
    cJSON_Delete(spawn->sender);
    cJSON_Delete(spawn->roster);
    free(spawn->cwd);
    free(spawn->workspace_id);
    free(spawn->extension_path);
    free(spawn->prompt_path);
    free(spawn->text);
    free(spawn);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct spawn *spawn = handle->data;
    spawn->timer_closed = true;
    spawn_release(spawn);
}

static void ended(struct spawn *spawn)
{
    spawn->op = NULL;
    uv_close((uv_handle_t *)&spawn->timer, on_timer_closed);
}

void spawn_finish(struct spawn *spawn, cJSON *value, const char *bulk_field, const char *bulk)
{
    operation_finish(spawn->op, value, bulk_field, bulk, NULL);
    ended(spawn);
}

void spawn_end_with(struct spawn *spawn, const struct shp_error *error)
{
    operation_fail(spawn->op, error);
    ended(spawn);
}

bool spawn_acting(struct spawn *spawn, const char *step)
{
    struct shp_error error = {0};
    char *before = xstrdup(spawn_made(spawn, SPAWN_STEP));
    spawn_note(spawn, SPAWN_STEP, step);
    bool stored = operation_acting(spawn->op, step, &error);
    if (!stored) {
        spawn_note(spawn, SPAWN_STEP, before); /* the step did not begin */
        spawn_fail(spawn, &error);
    }
    free(before);
    return stored;
}

/* What was made is gone, or it is named in the error. */
static void rolled_back(struct spawn *spawn, const char *left, const struct shp_error *why)
{
    struct shp_error error = spawn->failure;
    if (why) {
        char cause[SHP_ERROR_CAUSE_MAX];
        snprintf(cause, sizeof(cause), "%s", error.cause);
        shp_error_set(&error, error.code, error.machine, error.step,
                      "%.700s; what was made (%s) could not be closed: %.200s", cause,
                      left ? left : "?", why->cause);
        error.outcome = spawn->failure.outcome;
    } else {
        error.outcome = SHP_OUTCOME_REJECTED;
    }
    spawn_end_with(spawn, &error);
}

static void on_rolled_back(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    struct spawn *spawn = user;
    spawn->calls--;
    bool gone = strcmp(answer->herdr_code, "tab_not_found") == 0 ||
                strcmp(answer->herdr_code, "workspace_not_found") == 0;
    rolled_back(spawn, spawn_made(spawn, SPAWN_TAB), gone ? NULL : answer->error);
}

static void close_created(struct spawn *spawn)
{
    bool tab = strcmp(spawn_made(spawn, SPAWN_CREATED), "tab") == 0;
    cJSON *params = cJSON_CreateObject();
    json_add(params, tab ? "tab_id" : "workspace_id",
             spawn_made(spawn, tab ? SPAWN_TAB : SPAWN_WORKSPACE));
    spawn->calls++;
    herdr_call(spawn->machine, tab ? "tab.close" : "workspace.close", params,
               SHP_LIMIT_HERDR_CALL_TIMEOUT_MS, on_rolled_back, spawn);
}

static void on_lost_looked(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    struct spawn *spawn = user;
    spawn->calls--;
    const char *token = spawn_made(spawn, SPAWN_TOKEN);
    if (answer->error) {
        rolled_back(spawn, token, answer->error);
        return;
    }
    const cJSON *made = spawn_find_token(spawn, answer->result);
    if (!made) {
        rolled_back(spawn, NULL, NULL);
        return;
    }
    bool tab = strcmp(spawn_made(spawn, SPAWN_PLACE), "tab") == 0;
    spawn_note(spawn, tab ? SPAWN_TAB : SPAWN_WORKSPACE,
               json_string(made, tab ? "tab_id" : "workspace_id"));
    spawn_note(spawn, SPAWN_CREATED, tab ? "tab" : "workspace");
    close_created(spawn);
}

/* Asked to create, and no answer: what carries the token tells whether Herdr acted. */
static bool creation_lost(const struct spawn *spawn)
{
    const char *step = spawn_made(spawn, SPAWN_STEP);
    return spawn->machine && step && strcmp(step, "create") == 0 &&
           (spawn->op->resumed || spawn->failure.outcome == SHP_OUTCOME_UNKNOWN);
}

bool spawn_submitted(const struct spawn *spawn)
{
    const char *step = spawn_made(spawn, SPAWN_STEP);
    return step && strcmp(step, SPAWN_DELIVER) == 0;
}

void spawn_fail(struct spawn *spawn, const struct shp_error *error)
{
    if (!spawn_submitted(spawn) || spawn->op->app->closing) {
        spawn_undo(spawn, error);
        return;
    }
    uv_timer_stop(&spawn->timer);
    struct shp_error unknown = *error;
    unknown.outcome = SHP_OUTCOME_UNKNOWN;
    spawn_task_update(spawn, SHP_TASK_RUNNING, SHP_DELIVERY_UNKNOWN);
    monitor_follow(spawn->op->app->monitor, spawn_made(spawn, SPAWN_TASK), NULL, NULL);
    spawn_end_with(spawn, &unknown);
}

void spawn_undo(struct spawn *spawn, const struct shp_error *error)
{
    spawn->failure = *error;
    uv_timer_stop(&spawn->timer);
    /* While the controller ends, the store keeps the call open and the resume looks after it. */
    if (spawn->op->app->closing) {
        spawn_end_with(spawn, error);
        return;
    }
    spawn_task_update(spawn, SHP_TASK_CANCELED, SHP_DELIVERY_REJECTED);
    const char *created = spawn_made(spawn, SPAWN_CREATED);
    if (created && !spawn->machine) {
        rolled_back(spawn, spawn_made(spawn, SPAWN_TAB), error);
    } else if (created) {
        close_created(spawn);
    } else if (creation_lost(spawn)) {
        spawn->calls++;
        herdr_roster(spawn->machine, on_lost_looked, spawn);
    } else {
        spawn_end_with(spawn, error);
    }
}

void spawn_failf(struct spawn *spawn, int code, const char *step, const char *format, ...)
{
    struct shp_error error = {0};
    va_list args;
    va_start(args, format);
    shp_error_vset(&error, code, spawn->machine ? spawn->machine->id : NULL, step, format, args);
    va_end(args);
    spawn_fail(spawn, &error);
}

bool spawn_continues(struct spawn *spawn, const struct shp_error *error)
{
    spawn->calls--;
    if (!spawn->op) {
        spawn_release(spawn);
        return false;
    }
    if (spawn->op->app->closing) {
        struct shp_error closing = {0};
        shp_error_set(&closing, SHP_CODE_SHUTTING_DOWN, NULL, "spawn", "the controller ends");
        spawn_end_with(spawn, &closing);
        return false;
    }
    if (error) {
        spawn_fail(spawn, error);
        return false;
    }
    if (spawn->op->canceled) {
        spawn_failf(spawn, SHP_CODE_CANCELED, "spawn", "given up before the task was submitted");
        return false;
    }
    return true;
}

/* ---- files on the machine ------------------------------------------------------------------ */

static void put_prompt(struct spawn *spawn);

static cJSON *file_params(const char *kind, const char *digest, size_t size, bool probe)
{
    cJSON *params = cJSON_CreateObject();
    json_add(params, "kind", kind);
    json_add(params, "digest", digest);
    cJSON_AddNumberToObject(params, "size", (double)size);
    if (probe)
        cJSON_AddTrueToObject(params, "probe");
    return params;
}

static void on_extension_put(struct machine *machine, const struct machine_answer *answer,
                             void *user)
{
    (void)machine;
    struct spawn *spawn = user;
    if (!spawn_continues(spawn, answer->error))
        return;
    spawn->extension_path = xstrdup(json_string(answer->result, "path"));
    put_prompt(spawn);
}

static void on_extension_probe(struct machine *machine, const struct machine_answer *answer,
                               void *user)
{
    struct spawn *spawn = user;
    if (!spawn_continues(spawn, answer->error))
        return;
    if (json_bool(answer->result, "present")) {
        spawn->extension_path = xstrdup(json_string(answer->result, "path"));
        put_prompt(spawn);
        return;
    }
    const struct extension_file *file = &spawn->op->app->extension;
    spawn->calls++;
    machine_request(machine, SHP_MSG_FILE_PUT, NULL, FILE_TIMEOUT_MS,
                    file_params("extension", file->digest, file->len, false), file->content,
                    file->len, on_extension_put, spawn);
}

static void put_extension(struct spawn *spawn)
{
    const struct extension_file *file = &spawn->op->app->extension;
    if (!file->content) {
        spawn_failf(spawn, SHP_CODE_HELPER_MISSING, "find extension",
                    "this installation has no pi-ext.mjs (looked in %s)", file->path);
        return;
    }
    spawn->calls++;
    machine_request(spawn->machine, SHP_MSG_FILE_PUT, NULL, FILE_TIMEOUT_MS,
                    file_params("extension", file->digest, file->len, true), NULL, 0,
                    on_extension_probe, spawn);
}

static void on_prompt_put(struct machine *machine, const struct machine_answer *answer, void *user)
{
    (void)machine;
    struct spawn *spawn = user;
    if (!spawn_continues(spawn, answer->error))
        return;
    spawn->prompt_path = xstrdup(json_string(answer->result, "path"));
    spawn_launch(spawn);
}

static void put_prompt(struct spawn *spawn)
{
    const struct shp_profile *profile = spawn->profile;
    if (!profile->prompt_path || spawn->machine->local) {
        spawn->prompt_path = xstrdup(profile->prompt_path);
        spawn_launch(spawn);
        return;
    }
    char *text = NULL;
    size_t len = 0;
    struct shp_error error = {0};
    if (shp_profile_read_prompt(profile, &text, &len, &error) != SHP_OK) {
        spawn_fail(spawn, &error);
        return;
    }
    uint8_t digest[crypto_hash_sha256_BYTES];
    char hex[sizeof(digest) * 2 + 1];
    crypto_hash_sha256(digest, (const unsigned char *)text, len);
    shp_hex_encode(hex, digest, sizeof(digest));
    spawn->calls++;
    machine_request(spawn->machine, SHP_MSG_FILE_PUT, NULL, FILE_TIMEOUT_MS,
                    file_params("prompt", hex, len, false), text, len, on_prompt_put, spawn);
    free(text);
}

/* ---- name and place ------------------------------------------------------------------------ */

static bool name_taken(const cJSON *roster, const char *name)
{
    return json_find(cJSON_GetObjectItemCaseSensitive(roster, "agents"), "name", name) != NULL;
}

static bool choose_name(struct spawn *spawn)
{
    const struct shp_call *call = &spawn->op->call;
    char name[SHP_PROFILE_NAME_MAX + 1];
    if (spawn_made(spawn, SPAWN_NAME))
        return true; /* of the first attempt: the name finds what it made */
    if (call->name && name_taken(spawn->roster, call->name)) {
        spawn_failf(spawn, SHP_CODE_FIELD_INVALID, "choose name", "the name %s is taken",
                    call->name);
        return false;
    }
    if (call->name) {
        spawn_note(spawn, SPAWN_NAME, call->name);
        return true;
    }
    for (unsigned attempt = 1; attempt <= NAME_ATTEMPTS_MAX; attempt++) {
        shp_name_derive(name, call->label, attempt);
        if (!name_taken(spawn->roster, name)) {
            spawn_note(spawn, SPAWN_NAME, name);
            return true;
        }
    }
    spawn_failf(spawn, SHP_CODE_FIELD_INVALID, "choose name", "no free name for the label %s",
                call->label);
    return false;
}

/* A workspace by id, or by a label that only one has. */
static const char *find_workspace(const cJSON *roster, const char *wanted, int *matches)
{
    const cJSON *workspaces = cJSON_GetObjectItemCaseSensitive(roster, "workspaces");
    const cJSON *by_id = json_find(workspaces, "workspace_id", wanted);
    const char *found = json_string(by_id, "workspace_id");
    *matches = found ? 1 : 0;
    const cJSON *item = NULL;
    if (found)
        return found;
    cJSON_ArrayForEach(item, workspaces)
    {
        const char *label = json_string(item, "label");
        if (label && strcmp(label, wanted) == 0) {
            found = json_string(item, "workspace_id");
            (*matches)++;
        }
    }
    return *matches == 1 ? found : NULL;
}

static bool choose_place(struct spawn *spawn)
{
    const struct shp_call *call = &spawn->op->call;
    const char *own = spawn->machine->local ? spawn->op->app->context.herdr_workspace : NULL;
    int matches = 0;
    spawn->placement = call->placement;
    if (spawn->placement == SHP_PLACEMENT_DEFAULT && call->workspace)
        spawn->placement = SHP_PLACEMENT_TAB;
    if (spawn->placement == SHP_PLACEMENT_DEFAULT)
        spawn->placement = own && find_workspace(spawn->roster, own, &matches)
                               ? SHP_PLACEMENT_TAB
                               : SHP_PLACEMENT_WORKSPACE;
    if (spawn->placement != SHP_PLACEMENT_TAB)
        return true;
    const char *wanted = call->workspace ? call->workspace : own;
    if (!wanted) {
        spawn_failf(spawn, SHP_CODE_MISSING_FIELD, "choose place",
                    "workspace: a new tab on another machine needs one");
        return false;
    }
    const char *found = find_workspace(spawn->roster, wanted, &matches);
    if (!found) {
        spawn_failf(spawn, SHP_CODE_WORKSPACE_UNKNOWN, "choose place", "%d workspaces match %s",
                    matches, wanted);
        return false;
    }
    spawn->workspace_id = xstrdup(found);
    return true;
}

/* ---- plan ---------------------------------------------------------------------------------- */

static void on_roster(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    struct spawn *spawn = user;
    if (!spawn_continues(spawn, answer->error))
        return;
    spawn->roster = cJSON_Duplicate(answer->result, true);
    if (choose_name(spawn) && choose_place(spawn))
        put_extension(spawn);
}

static void ask_roster(struct spawn *spawn)
{
    spawn->calls++;
    herdr_roster(spawn->machine, on_roster, spawn);
}

static void on_directory(struct machine *machine, const struct machine_answer *answer, void *user)
{
    (void)machine;
    struct spawn *spawn = user;
    if (!spawn_continues(spawn, answer->error))
        return;
    spawn->cwd = xstrdup(json_string(answer->result, "path"));
    ask_roster(spawn);
}

static void on_sender(cJSON *sender, void *user)
{
    struct spawn *spawn = user;
    spawn->sender = sender;
    if (!spawn_continues(spawn, NULL))
        return;
    const struct shp_call *call = &spawn->op->call;
    if (call->placement == SHP_PLACEMENT_PANE) {
        ask_roster(spawn);
        return;
    }
    cJSON *params = cJSON_CreateObject();
    json_add(params, "path", call->cwd ? call->cwd : ".");
    if (spawn->machine->local)
        json_add(params, "base", spawn->op->app->context.cwd);
    spawn->calls++;
    machine_request(spawn->machine, SHP_MSG_DIRECTORY_RESOLVE, NULL,
                    SHP_LIMIT_HERDR_CALL_TIMEOUT_MS, params, NULL, 0, on_directory, spawn);
}

static void on_ready(struct fleet *fleet, const struct shp_error *catalog_error, void *user)
{
    (void)catalog_error; /* fleet_find tells it when it matters */
    struct spawn *spawn = user;
    struct shp_error error = {0};
    /* First: a call that was given up before a crash has its rollback there. */
    if (spawn->op)
        spawn->machine = fleet_find(fleet, spawn->op->call.machine, &error);
    if (!spawn_continues(spawn, spawn->machine ? NULL : &error))
        return;
    cJSON *value = cJSON_CreateObject();
    json_add(value, "machine", spawn->machine->id);
    json_add(value, "status", "starting");
    operation_progress(spawn->op, value);
    spawn->calls++;
    sender_describe(spawn->op->app, on_sender, spawn);
}

/* What can be refused before anything is asked. */
static bool refuse_early(struct operation *op, const struct shp_profile *profile)
{
    const struct shp_call *call = &op->call;
    if (!profile)
        operation_failf(op, SHP_CODE_PROFILE_UNKNOWN, NULL, "find profile", "%s", call->agent_type);
    else if (profile->prepare_path)
        operation_failf(op, SHP_CODE_UNSUPPORTED_ACTION, NULL, "find profile",
                        "profile %s has a prepare module, which this version does not run",
                        profile->name);
    else if (call->base && !profile->accepts_base)
        operation_failf(op, SHP_CODE_BASE_UNSUPPORTED, NULL, "check fields",
                        "profile %s does not accept base", profile->name);
    else if (call->placement == SHP_PLACEMENT_PANE && call->cwd)
        operation_failf(op, SHP_CODE_FIELD_INVALID, NULL, "check fields",
                        "cwd: an existing pane has its own directory");
    else if (call->placement == SHP_PLACEMENT_PANE && !call->pane)
        operation_failf(op, SHP_CODE_MISSING_FIELD, NULL, "check fields",
                        "pane: placement pane needs one");
    else if (op->app->context.kind == CONTEXT_CLI &&
             (call->blocking == SHP_FALSE || profile->blocking == SHP_FALSE))
        operation_failf(op, SHP_CODE_NEEDS_PI_SESSION, NULL, "check fields",
                        "blocking: a command has no conversation that could get a report");
    else
        return false;
    return true;
}

void action_spawn_start(struct operation *op)
{
    struct shp_error error = {0};
    if (shp_profiles_load(&op->profiles, op->app->context.agent_dir, &error) != SHP_OK) {
        operation_fail(op, &error);
        return;
    }
    const struct shp_profile *profile = shp_profiles_find(&op->profiles, op->call.agent_type);
    if (refuse_early(op, profile))
        return;
    struct spawn *spawn = xcalloc(1, sizeof(*spawn));
    spawn->op = op;
    spawn->profile = profile;
    uv_timer_init(op->app->loop, &spawn->timer);
    spawn->timer.data = spawn;
    spawn->calls++;
    fleet_ready(op->app->fleet, on_ready, spawn);
}
