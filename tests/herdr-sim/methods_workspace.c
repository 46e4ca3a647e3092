/* Workspaces and tabs. */
#include "creation.h"
#include "dispatch.h"
#include "present.h"

#include <stdlib.h>

static struct workspace *workspace_param(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct workspace *ws = model_workspace(&sim->model, param_text(params, "workspace_id"));
    if (!ws)
        conn_error(c, "workspace_not_found", "no such workspace");
    return ws;
}

static struct tab *tab_param(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct tab *tab = model_tab(&sim->model, param_text(params, "tab_id"));
    if (!tab)
        conn_error(c, "tab_not_found", "no such tab");
    return tab;
}

static void answer_workspace(struct sim *sim, struct conn *c, const struct workspace *ws)
{
    cJSON *r = result_new("workspace_info");
    cJSON_AddItemToObject(r, "workspace", present_workspace(sim, ws));
    conn_answer(c, r);
}

static void answer_tab(struct sim *sim, struct conn *c, const struct tab *tab)
{
    cJSON *r = result_new("tab_info");
    cJSON_AddItemToObject(r, "tab", present_tab(sim, tab));
    conn_answer(c, r);
}

static void workspace_list(struct sim *sim, struct conn *c, const cJSON *params)
{
    (void)params;
    cJSON *r = result_new("workspace_list");
    cJSON_AddItemToObject(r, "workspaces", present_workspaces(sim));
    conn_answer(c, r);
}

static void workspace_get(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct workspace *ws = workspace_param(sim, c, params);
    if (ws)
        answer_workspace(sim, c, ws);
}

static void workspace_create(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct create_options o;
    if (!creation_options(c, params, "workspace_create_failed", &o))
        return;
    struct workspace *ws = model_workspace_create(sim, &o);
    if (!ws) {
        conn_error(c, "workspace_create_failed", "cannot start a shell");
        return;
    }
    cJSON *r = result_new("workspace_created");
    cJSON_AddItemToObject(r, "workspace", present_workspace(sim, ws));
    cJSON_AddItemToObject(r, "tab", present_tab(sim, ws->tabs));
    cJSON_AddItemToObject(r, "root_pane", present_pane(sim, ws->tabs->panes));
    conn_answer(c, r);
}

static void workspace_focus(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct workspace *ws = workspace_param(sim, c, params);
    if (!ws)
        return;
    model_focus_workspace(sim, ws);
    answer_workspace(sim, c, ws);
}

static void workspace_rename(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct workspace *ws = workspace_param(sim, c, params);
    if (!ws)
        return;
    free(ws->label);
    ws->label = sim_strdup(param_text(params, "label"));
    cJSON *data = cJSON_CreateObject();
    cJSON_AddStringToObject(data, "workspace_id", ws->id);
    cJSON_AddStringToObject(data, "label", ws->label);
    events_emit(sim, EVENT_WORKSPACE_RENAMED, NULL, data);
    answer_workspace(sim, c, ws);
}

static void workspace_close(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct workspace *ws = workspace_param(sim, c, params);
    if (!ws)
        return;
    model_workspace_close(sim, ws);
    conn_answer(c, result_new("ok"));
}

static void tab_list(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct workspace *ws = NULL;
    if (param_text(params, "workspace_id") && !(ws = workspace_param(sim, c, params)))
        return;
    cJSON *r = result_new("tab_list");
    cJSON_AddItemToObject(r, "tabs", present_tabs(sim, ws));
    conn_answer(c, r);
}

static void tab_get(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct tab *tab = tab_param(sim, c, params);
    if (tab)
        answer_tab(sim, c, tab);
}

static void tab_create(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct create_options o;
    struct workspace *ws = sim->model.active;
    if (param_text(params, "workspace_id"))
        ws = model_workspace(&sim->model, param_text(params, "workspace_id"));
    if (!ws) {
        conn_error(c, "workspace_not_found", "no such workspace");
        return;
    }
    if (!creation_options(c, params, "tab_create_failed", &o))
        return;
    struct tab *tab = model_tab_create(sim, ws, &o);
    if (!tab) {
        conn_error(c, "tab_create_failed", "cannot start a shell");
        return;
    }
    cJSON *r = result_new("tab_created");
    cJSON_AddItemToObject(r, "tab", present_tab(sim, tab));
    cJSON_AddItemToObject(r, "root_pane", present_pane(sim, tab->panes));
    conn_answer(c, r);
}

static void tab_focus(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct tab *tab = tab_param(sim, c, params);
    if (!tab)
        return;
    model_focus_tab(sim, tab);
    answer_tab(sim, c, tab);
}

static void tab_rename(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct tab *tab = tab_param(sim, c, params);
    if (!tab)
        return;
    free(tab->label);
    tab->label = sim_strdup(param_text(params, "label"));
    cJSON *data = cJSON_CreateObject();
    cJSON_AddStringToObject(data, "tab_id", tab->id);
    cJSON_AddStringToObject(data, "workspace_id", tab->ws->id);
    cJSON_AddStringToObject(data, "label", tab->label);
    events_emit(sim, EVENT_TAB_RENAMED, NULL, data);
    answer_tab(sim, c, tab);
}

static void tab_close(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct tab *tab = tab_param(sim, c, params);
    if (!tab)
        return;
    model_tab_close(sim, tab);
    conn_answer(c, result_new("ok"));
}

static const struct param workspace_params[] = {
    {"workspace_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param workspace_rename_params[] = {
    {"workspace_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"label", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param workspace_close_params[] = {
    {"workspace_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"close_group", PARAM_BOOL, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param workspace_create_params[] = {
    {"cwd", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"focus", PARAM_BOOL, 0, NULL},
    {"label", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"env", PARAM_MAP, 0, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param maybe_workspace_params[] = {
    {"workspace_id", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param tab_params[] = {
    {"tab_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param tab_rename_params[] = {
    {"tab_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"label", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param tab_create_params[] = {
    {"workspace_id", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"cwd", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"focus", PARAM_BOOL, 0, NULL},
    {"label", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"env", PARAM_MAP, 0, NULL},
    {NULL, 0, 0, NULL},
};

const struct method methods_workspace[] = {
    {"workspace.list", workspace_list, params_none, false, false},
    {"workspace.get", workspace_get, workspace_params, false, false},
    {"workspace.create", workspace_create, workspace_create_params, false, false},
    {"workspace.focus", workspace_focus, workspace_params, false, false},
    {"workspace.rename", workspace_rename, workspace_rename_params, false, false},
    {"workspace.close", workspace_close, workspace_close_params, false, false},
    {"tab.list", tab_list, maybe_workspace_params, false, false},
    {"tab.get", tab_get, tab_params, false, false},
    {"tab.create", tab_create, tab_create_params, false, false},
    {"tab.focus", tab_focus, tab_params, false, false},
    {"tab.rename", tab_rename, tab_rename_params, false, false},
    {"tab.close", tab_close, tab_params, false, false},
    {NULL, NULL, NULL, false, false},
};
