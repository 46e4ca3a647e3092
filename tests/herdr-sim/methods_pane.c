/* Panes: listing, focus, split, close, layout, processes. */
#include "creation.h"
#include "dispatch.h"
#include "layout.h"
#include "present.h"
#include "proc.h"

#include <stdlib.h>
#include <string.h>

static struct pane *pane_param(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = model_pane_any(&sim->model, param_text(params, "pane_id"));
    if (!pane)
        conn_error(c, "pane_not_found", "no such pane");
    return pane;
}

/* The named pane or, without a name, the focused one. */
static struct pane *pane_or_focused(struct sim *sim, struct conn *c, const char *id)
{
    struct pane *pane = id ? model_pane_any(&sim->model, id) : model_focused_pane(&sim->model);
    if (!pane)
        conn_error(c, "pane_not_found", "no such pane");
    return pane;
}

static void answer_pane(struct sim *sim, struct conn *c, const char *type, const struct pane *pane)
{
    cJSON *r = result_new(type);
    cJSON_AddItemToObject(r, "pane", present_pane(sim, pane));
    conn_answer(c, r);
}

static void pane_list(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct workspace *ws = NULL;
    const char *id = param_text(params, "workspace_id");
    if (id && !(ws = model_workspace(&sim->model, id))) {
        conn_error(c, "workspace_not_found", "no such workspace");
        return;
    }
    cJSON *r = result_new("pane_list");
    cJSON_AddItemToObject(r, "panes", present_panes(sim, ws));
    conn_answer(c, r);
}

static void pane_get(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = pane_param(sim, c, params);
    if (pane)
        answer_pane(sim, c, "pane_info", pane);
}

static void pane_current(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = pane_or_focused(sim, c, param_text(params, "caller_pane_id"));
    if (pane)
        answer_pane(sim, c, "pane_current", pane);
}

static void pane_focus(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = pane_param(sim, c, params);
    if (!pane)
        return;
    model_focus_pane(sim, pane);
    answer_pane(sim, c, "pane_info", pane);
}

static void pane_rename(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = pane_param(sim, c, params);
    if (!pane)
        return;
    const char *label = param_text(params, "label");
    free(pane->label);
    pane->label = text_blank(label) ? NULL : sim_strdup(label);
    sim->layout_changed = true;
    answer_pane(sim, c, "pane_info", pane);
}

static struct pane *split_source(struct sim *sim, struct conn *c, const cJSON *params)
{
    const char *ws_id = param_text(params, "workspace_id");
    const char *target = param_text(params, "target_pane_id");
    if (target || !ws_id)
        return pane_or_focused(sim, c, target);
    struct workspace *ws = model_workspace(&sim->model, ws_id);
    if (!ws)
        conn_error(c, "pane_not_found", "no such workspace");
    return ws ? ws->active->focused : NULL;
}

static void pane_split(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct create_options o;
    struct pane *source = split_source(sim, c, params);
    if (!source || !creation_options(c, params, "pane_split_failed", &o))
        return;
    const cJSON *ratio_item = param_item(params, "ratio");
    double ratio = ratio_item ? cJSON_GetNumberValue(ratio_item) : 0.5;
    ratio = ratio < 0.1 ? 0.1 : ratio > 0.9 ? 0.9 : ratio;
    bool down = !strcmp(param_text(params, "direction"), "down");
    struct pane *pane = model_pane_split(sim, source, down, ratio, &o);
    if (pane)
        answer_pane(sim, c, "pane_info", pane);
    else
        conn_error(c, "pane_split_failed", "cannot start a shell");
}

static void pane_close(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = pane_param(sim, c, params);
    if (!pane)
        return;
    model_pane_close(sim, pane);
    conn_answer(c, result_new("ok"));
}

static void pane_layout(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = pane_or_focused(sim, c, param_text(params, "pane_id"));
    if (!pane)
        return;
    cJSON *r = result_new("pane_layout");
    cJSON_AddItemToObject(r, "layout", layout_json(pane->tab));
    conn_answer(c, r);
}

struct process_list {
    pid_t pgrp;
    cJSON *array;
};

static void add_process(const struct proc_stat *st, void *user)
{
    struct process_list *list = user;
    if (st->pgrp != list->pgrp || st->state == 'Z')
        return;
    cJSON *j = cJSON_CreateObject();
    cJSON_AddNumberToObject(j, "pid", st->pid);
    cJSON_AddStringToObject(j, "name", st->comm);
    char **argv = proc_argv(st->pid);
    if (argv) {
        struct str cmdline = {0};
        cJSON *args = cJSON_CreateArray();
        for (char **p = argv; *p; p++) {
            str_puts(&cmdline, p == argv ? "" : " ");
            str_puts(&cmdline, *p);
            cJSON_AddItemToArray(args, cJSON_CreateString(*p));
        }
        cJSON_AddStringToObject(j, "argv0", argv[0]);
        cJSON_AddItemToObject(j, "argv", args);
        cJSON_AddStringToObject(j, "cmdline", str_text(&cmdline));
        str_free(&cmdline);
        proc_argv_free(argv);
    }
    char *cwd = proc_cwd(st->pid);
    if (cwd)
        cJSON_AddStringToObject(j, "cwd", cwd);
    free(cwd);
    cJSON_AddItemToArray(list->array, j);
}

static void pane_process_info(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = pane_or_focused(sim, c, param_text(params, "pane_id"));
    if (!pane)
        return;
    cJSON *r = result_new("pane_process_info");
    cJSON *info = cJSON_AddObjectToObject(r, "process_info");
    cJSON_AddStringToObject(info, "pane_id", pane->id);
    if (pane->pty) {
        pid_t fg = pty_foreground(pane->pty);
        cJSON_AddNumberToObject(info, "shell_pid", pty_pid(pane->pty));
        cJSON_AddStringToObject(info, "tty", pty_name(pane->pty));
        if (fg) {
            struct process_list list = {fg, cJSON_CreateArray()};
            cJSON_AddNumberToObject(info, "foreground_process_group_id", fg);
            proc_for_each(add_process, &list);
            cJSON_AddItemToObject(info, "foreground_processes", list.array);
        }
    }
    conn_answer(c, r);
}

static const struct param pane_params[] = {
    {"pane_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param maybe_pane_params[] = {
    {"pane_id", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param list_params[] = {
    {"workspace_id", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param current_params[] = {
    {"caller_pane_id", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param rename_params[] = {
    {"pane_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"label", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param split_params[] = {
    {"direction", PARAM_TEXT, PARAM_REQUIRED, "right|down"},
    {"target_pane_id", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"workspace_id", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"ratio", PARAM_NUMBER, PARAM_NULLABLE, NULL},
    {"cwd", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"focus", PARAM_BOOL, 0, NULL},
    {"right_click", PARAM_TEXT, 0, "herdr|pane"},
    {"env", PARAM_MAP, 0, NULL},
    {NULL, 0, 0, NULL},
};

const struct method methods_pane[] = {
    {"pane.list", pane_list, list_params, false, false},
    {"pane.get", pane_get, pane_params, false, false},
    {"pane.current", pane_current, current_params, false, false},
    {"pane.focus", pane_focus, pane_params, false, false},
    {"pane.rename", pane_rename, rename_params, false, false},
    {"pane.split", pane_split, split_params, false, false},
    {"pane.close", pane_close, pane_params, false, false},
    {"pane.layout", pane_layout, maybe_pane_params, false, false},
    {"pane.process_info", pane_process_info, maybe_pane_params, false, false},
    {NULL, NULL, NULL, false, false},
};
