#include "controller/diagnostics/smoke.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sodium.h>
#include <uv.h>

#include "base/id.h"
#include "controller/fleet/fleet.h"
#include "controller/json.h"
#include "controller/routing/herdr.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

#define CALL_TIMEOUT_MS 10000
/* A login shell with a long start-up file may take its time before it reads. */
#define OUTPUT_TIMEOUT_MS 15000
#define OUTPUT_MARGIN_MS 3000
#define HALF_BYTES 6

struct smoke {
    struct machine *machine;
    smoke_cb cb;
    void *user;
    uint64_t began_ns;
    char half[2][2 * HALF_BYTES + 1]; /* the command prints both as one word, the typed line not */
    char label[40];
    char pane[128];
    char place[128]; /* id of what we made: a tab, or a workspace where there was none */
    bool workspace;
    struct shp_error error;
};

static void finish(struct smoke *smoke)
{
    char text[96];
    snprintf(text, sizeof(text), "a command ran in a throw-away tab and came back in %.0f ms",
             (double)(uv_hrtime() - smoke->began_ns) / 1e6);
    smoke->cb(smoke->error.code ? &smoke->error : NULL, text, smoke->user);
    free(smoke);
}

/* The first error is the one that counts. */
static void note(struct smoke *smoke, const char *step, const char *cause)
{
    if (!smoke->error.code)
        shp_error_set(&smoke->error, SHP_CODE_SMOKE_FAILED, smoke->machine->id, step, "%s", cause);
}

static void note_error(struct smoke *smoke, const char *step, const struct shp_error *error)
{
    char cause[SHP_ERROR_CAUSE_MAX];
    snprintf(cause, sizeof(cause), "%s: %.900s", shp_code_name(error->code), error->cause);
    note(smoke, step, cause);
}

/* ---- rollback ------------------------------------------------------------------------------ */

static void on_closed(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    struct smoke *smoke = user;
    bool gone = strcmp(answer->herdr_code, "tab_not_found") == 0 ||
                strcmp(answer->herdr_code, "workspace_not_found") == 0;
    if (answer->error && !gone) {
        char step[SHP_ERROR_STEP_MAX];
        snprintf(step, sizeof(step), "close %s %.40s", smoke->workspace ? "workspace" : "tab",
                 smoke->place);
        note_error(smoke, step, answer->error);
    }
    finish(smoke);
}

static void close_place(struct smoke *smoke)
{
    cJSON *params = cJSON_CreateObject();
    json_add(params, smoke->workspace ? "workspace_id" : "tab_id", smoke->place);
    herdr_call(smoke->machine, smoke->workspace ? "workspace.close" : "tab.close", params,
               CALL_TIMEOUT_MS, on_closed, smoke);
}

/* The making was not answered: what has our label is ours. */
static void on_listed(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    struct smoke *smoke = user;
    const char *list = smoke->workspace ? "workspaces" : "tabs";
    const cJSON *mine = answer->error
                            ? NULL
                            : json_find(cJSON_GetObjectItemCaseSensitive(answer->result, list),
                                        "label", smoke->label);
    const char *id = json_string(mine, smoke->workspace ? "workspace_id" : "tab_id");
    if (!id) {
        finish(smoke);
        return;
    }
    snprintf(smoke->place, sizeof(smoke->place), "%s", id);
    close_place(smoke);
}

/* ---- there and back ------------------------------------------------------------------------ */

static void on_output(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    struct smoke *smoke = user;
    if (answer->error)
        note_error(smoke, "read the output", answer->error);
    close_place(smoke);
}

static void wait_output(struct smoke *smoke)
{
    cJSON *params = cJSON_CreateObject();
    char word[sizeof(smoke->half)];
    snprintf(word, sizeof(word), "%s%s", smoke->half[0], smoke->half[1]);
    json_add(params, "pane_id", smoke->pane);
    json_add(params, "source", "recent_unwrapped");
    cJSON *match = cJSON_AddObjectToObject(params, "match");
    json_add(match, "type", "substring");
    json_add(match, "value", word);
    cJSON_AddNumberToObject(params, "timeout_ms", OUTPUT_TIMEOUT_MS);
    herdr_call(smoke->machine, "pane.wait_for_output", params, OUTPUT_TIMEOUT_MS + OUTPUT_MARGIN_MS,
               on_output, smoke);
}

static void on_typed(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    struct smoke *smoke = user;
    if (answer->error) {
        note_error(smoke, "type the command", answer->error);
        close_place(smoke);
    } else {
        wait_output(smoke);
    }
}

/* The space in front keeps it out of most histories, the environment of the tab out of the rest. */
static void type_command(struct smoke *smoke)
{
    cJSON *params = cJSON_CreateObject();
    char *line = xasprintf(" printf '%%s%%s\\n' %s %s", smoke->half[0], smoke->half[1]);
    json_add(params, "pane_id", smoke->pane);
    json_add(params, "text", line);
    free(line);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(params, "keys"), cJSON_CreateString("enter"));
    herdr_call(smoke->machine, "pane.send_input", params, CALL_TIMEOUT_MS, on_typed, smoke);
}

/* ---- the place ----------------------------------------------------------------------------- */

static void create(struct smoke *smoke);

static void create_failed(struct smoke *smoke, const struct herdr_answer *answer)
{
    /* No workspace is open there: one of our own, then. */
    if (!smoke->workspace && strcmp(answer->herdr_code, "workspace_not_found") == 0) {
        smoke->workspace = true;
        create(smoke);
        return;
    }
    note_error(smoke, smoke->workspace ? "create workspace" : "create tab", answer->error);
    if (answer->error->outcome == SHP_OUTCOME_UNKNOWN)
        herdr_call(smoke->machine, smoke->workspace ? "workspace.list" : "tab.list", NULL,
                   CALL_TIMEOUT_MS, on_listed, smoke);
    else
        finish(smoke);
}

static void on_created(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    struct smoke *smoke = user;
    if (answer->error) {
        create_failed(smoke, answer);
        return;
    }
    const cJSON *tab = cJSON_GetObjectItemCaseSensitive(answer->result, "tab");
    const cJSON *pane = cJSON_GetObjectItemCaseSensitive(answer->result, "root_pane");
    const char *place = json_string(tab, smoke->workspace ? "workspace_id" : "tab_id");
    const char *pane_id = json_string(pane, "pane_id");
    snprintf(smoke->place, sizeof(smoke->place), "%s", place ? place : "");
    snprintf(smoke->pane, sizeof(smoke->pane), "%s", pane_id ? pane_id : "");
    if (place && pane_id) {
        type_command(smoke);
        return;
    }
    note(smoke, "create tab", "no tab or pane in the answer");
    if (place)
        close_place(smoke);
    else
        finish(smoke);
}

static void create(struct smoke *smoke)
{
    cJSON *params = cJSON_CreateObject();
    json_add(params, "label", smoke->label);
    cJSON_AddFalseToObject(params, "focus");
    cJSON *env = cJSON_AddObjectToObject(params, "env");
    json_add(env, "HISTFILE", "");
    json_add(env, "fish_history", "");
    herdr_call(smoke->machine, smoke->workspace ? "workspace.create" : "tab.create", params,
               CALL_TIMEOUT_MS, on_created, smoke);
}

void smoke_run(struct machine *machine, smoke_cb cb, void *user)
{
    struct smoke *smoke = xcalloc(1, sizeof(*smoke));
    uint8_t bytes[2][HALF_BYTES];
    smoke->machine = machine;
    smoke->cb = cb;
    smoke->user = user;
    smoke->began_ns = uv_hrtime();
    randombytes_buf(bytes, sizeof(bytes));
    for (int i = 0; i < 2; i++)
        shp_hex_encode(smoke->half[i], bytes[i], HALF_BYTES);
    snprintf(smoke->label, sizeof(smoke->label), "shepherdr smoke %s", smoke->half[0]);
    create(smoke);
}
