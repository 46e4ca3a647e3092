/*
 * pane.move. In another workspace the pane gets a new id; its terminal, its processes and their
 * environment stay, and the old id goes on as an alias for pane methods.
 */
#include "dispatch.h"
#include "layout.h"
#include "present.h"

#include <stdio.h>
#include <string.h>

struct destination {
    struct tab *tab;     /* existing tab, or NULL */
    struct pane *target; /* pane of that tab to split */
    bool down;
    double ratio;
    struct workspace *ws; /* of a new tab; NULL with tab NULL: a new workspace */
    const char *label;
    const char *tab_label;
};

static const struct param tab_params[] = {
    {"type", PARAM_TEXT, PARAM_REQUIRED, "tab"},
    {"tab_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"split", PARAM_TEXT, PARAM_REQUIRED, "right|down"},
    {"target_pane_id", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"ratio", PARAM_NUMBER, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param new_tab_params[] = {
    {"type", PARAM_TEXT, PARAM_REQUIRED, "new_tab"},
    {"workspace_id", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"label", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param new_workspace_params[] = {
    {"type", PARAM_TEXT, PARAM_REQUIRED, "new_workspace"},
    {"label", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"tab_label", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};

/* NULL, or the error code. */
static const char *existing_tab(struct sim *sim, const cJSON *j, struct destination *d)
{
    const char *target = param_text(j, "target_pane_id");
    const cJSON *ratio = param_item(j, "ratio");
    d->tab = model_tab(&sim->model, param_text(j, "tab_id"));
    if (!d->tab)
        return "tab_not_found";
    d->target = target ? model_pane_any(&sim->model, target) : d->tab->focused;
    if (!d->target || d->target->tab != d->tab)
        return "target_pane_not_found";
    d->down = !strcmp(param_text(j, "split"), "down");
    d->ratio = ratio ? cJSON_GetNumberValue(ratio) : 0.5;
    d->ratio = d->ratio < 0.1 ? 0.1 : d->ratio > 0.9 ? 0.9 : d->ratio;
    return NULL;
}

static const char *parse(struct sim *sim, const struct pane *pane, const cJSON *j,
                         struct destination *d, char *why, size_t cap)
{
    const char *type = param_text(j, "type");
    const struct param *table = !type                      ? NULL
                                : !strcmp(type, "tab")     ? tab_params
                                : !strcmp(type, "new_tab") ? new_tab_params
                                                           : new_workspace_params;
    memset(d, 0, sizeof *d);
    if (!table || !params_check(table, j, sim->opt.strict_params, why, cap))
        return "invalid_request";
    snprintf(why, cap, "no such place");
    if (table == tab_params)
        return existing_tab(sim, j, d);
    d->label = param_text(j, "label");
    d->tab_label = param_text(j, "tab_label");
    if (table == new_tab_params) {
        const char *id = param_text(j, "workspace_id");
        d->ws = id ? model_workspace(&sim->model, id) : pane->tab->ws;
        d->tab_label = d->label;
        if (!d->ws)
            return "workspace_not_found";
    }
    return NULL;
}

static void emit_layout(struct sim *sim, const struct tab *tab)
{
    cJSON *data = cJSON_CreateObject();
    cJSON_AddItemToObject(data, "layout", layout_json(tab));
    events_emit(sim, EVENT_LAYOUT_UPDATED, NULL, data);
}

/* Drops what the move left empty and tells of it; true when the source tab still stands. */
static bool drop_empty(struct sim *sim, struct tab *source, cJSON *result)
{
    if (source->panes)
        return true;
    struct workspace *ws = source->ws;
    if (ws->tabs == source && !source->next) {
        cJSON_AddStringToObject(result, "closed_workspace_id", ws->id);
        model_drop_workspace(sim, ws);
    } else {
        cJSON_AddStringToObject(result, "closed_tab_id", source->id);
        model_drop_tab(source);
    }
    return false;
}

static void copy(cJSON *to, const cJSON *from, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(from, key);
    if (item)
        cJSON_AddItemToObject(to, key, cJSON_Duplicate(item, 1));
}

static void emit_moved(struct sim *sim, const struct pane *pane, const cJSON *result)
{
    static const char *const keys[] = {
        "previous_pane_id",  "previous_workspace_id", "previous_tab_id",     "pane",
        "created_workspace", "created_tab",           "closed_workspace_id", "closed_tab_id"};
    cJSON *data = cJSON_CreateObject();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        copy(data, result, keys[i]);
    events_emit(sim, EVENT_PANE_MOVED, pane, data);
}

static void perform(struct sim *sim, struct pane *pane, struct destination *d, bool focus,
                    cJSON *result)
{
    struct tab *source = pane->tab;
    bool new_workspace = !d->tab && !d->ws;
    bool new_tab = !d->tab;
    if (new_workspace)
        d->ws = model_empty_workspace(sim, d->label);
    if (new_tab)
        d->tab = model_empty_tab(d->ws, d->tab_label);
    model_detach_pane(pane);
    model_attach_pane(d->tab, pane);
    if (new_tab)
        d->tab->layout = layout_leaf(pane);
    else
        layout_split(d->tab, d->target, pane, d->down, d->ratio);
    bool source_stands = drop_empty(sim, source, result);
    if (new_workspace)
        cJSON_AddItemToObject(result, "created_workspace", present_workspace(sim, d->ws));
    if (new_tab)
        cJSON_AddItemToObject(result, "created_tab", present_tab(sim, d->tab));
    cJSON_AddItemToObject(result, "pane", present_pane(sim, pane));
    if (source_stands)
        cJSON_AddItemToObject(result, "source_layout", layout_json(source));
    emit_moved(sim, pane, result);
    if (source_stands)
        emit_layout(sim, source);
    emit_layout(sim, d->tab);
    if (focus)
        model_focus_pane(sim, pane);
}

static void pane_move(struct sim *sim, struct conn *c, const cJSON *params)
{
    char why[160];
    struct destination d;
    struct pane *pane = model_pane_any(&sim->model, param_text(params, "pane_id"));
    if (!pane) {
        conn_error(c, "pane_not_found", "no such pane");
        return;
    }
    const char *code = parse(sim, pane, param_item(params, "destination"), &d, why, sizeof why);
    if (code) {
        conn_error(c, code, "%s", why);
        return;
    }
    cJSON *r = result_new("pane_move");
    cJSON *move = cJSON_AddObjectToObject(r, "move_result");
    bool changed = d.tab != pane->tab;
    cJSON_AddBoolToObject(move, "changed", changed);
    cJSON_AddStringToObject(move, "previous_pane_id", pane->id);
    cJSON_AddStringToObject(move, "previous_workspace_id", pane->tab->ws->id);
    cJSON_AddStringToObject(move, "previous_tab_id", pane->tab->id);
    if (changed) {
        perform(sim, pane, &d, param_bool(params, "focus", false), move);
    } else {
        cJSON_AddStringToObject(move, "reason", "same_tab");
        cJSON_AddItemToObject(move, "pane", present_pane(sim, pane));
    }
    cJSON_AddItemToObject(move, "target_layout", layout_json(pane->tab));
    cJSON_AddStringToObject(move, "focused_pane_id", pane->tab->focused->id);
    conn_answer(c, r);
}

static const struct param move_params[] = {
    {"pane_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"destination", PARAM_OBJECT, PARAM_REQUIRED, NULL},
    {"focus", PARAM_BOOL, 0, NULL},
    {NULL, 0, 0, NULL},
};

const struct method methods_move[] = {
    {"pane.move", pane_move, move_params, false, false},
    {NULL, NULL, NULL, false, false},
};
