#include "persist.h"

#include "layout.h"
#include "params.h"
#include "proc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *session_file(const struct sim *sim)
{
    return sim_format("%s/session.json", sim->paths.session_dir);
}

static cJSON *save_layout(const struct layout *l)
{
    bool down;
    double ratio;
    const struct layout *first, *second;
    const struct pane *pane = layout_node(l, &down, &ratio, &first, &second);
    cJSON *j = cJSON_CreateObject();
    if (pane) {
        char *cwd = pane->pty ? proc_cwd(pty_pid(pane->pty)) : NULL;
        cJSON_AddStringToObject(j, "id", pane->id);
        cJSON_AddStringToObject(j, "cwd", cwd ? cwd : "/");
        if (pane->label)
            cJSON_AddStringToObject(j, "label", pane->label);
        free(cwd);
        return j;
    }
    cJSON_AddBoolToObject(j, "down", down);
    cJSON_AddNumberToObject(j, "ratio", ratio);
    cJSON_AddItemToObject(j, "first", save_layout(first));
    cJSON_AddItemToObject(j, "second", save_layout(second));
    return j;
}

static cJSON *save_workspace(const struct workspace *ws)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "id", ws->id);
    cJSON_AddStringToObject(j, "label", ws->label);
    cJSON_AddNumberToObject(j, "next_tab", (double)ws->next_tab);
    cJSON_AddNumberToObject(j, "next_pane", (double)ws->next_pane);
    cJSON_AddStringToObject(j, "active", ws->active->id);
    cJSON *tabs = cJSON_AddArrayToObject(j, "tabs");
    for (const struct tab *t = ws->tabs; t; t = t->next) {
        cJSON *tab = cJSON_CreateObject();
        cJSON_AddStringToObject(tab, "id", t->id);
        if (t->label)
            cJSON_AddStringToObject(tab, "label", t->label);
        cJSON_AddStringToObject(tab, "focused", t->focused->id);
        cJSON_AddItemToObject(tab, "layout", save_layout(t->layout));
        cJSON_AddItemToArray(tabs, tab);
    }
    return j;
}

void persist_save(struct sim *sim)
{
    sim->layout_changed = false;
    if (!sim->opt.restore)
        return;
    cJSON *j = cJSON_CreateObject();
    cJSON_AddNumberToObject(j, "next_workspace", (double)sim->model.next_workspace);
    if (sim->model.active)
        cJSON_AddStringToObject(j, "active", sim->model.active->id);
    cJSON *list = cJSON_AddArrayToObject(j, "workspaces");
    for (const struct workspace *ws = sim->model.workspaces; ws; ws = ws->next)
        cJSON_AddItemToArray(list, save_workspace(ws));
    char *text = cJSON_PrintUnformatted(j);
    char *path = session_file(sim);
    int rc = write_file_atomic(path, text, strlen(text));
    if (rc < 0)
        fprintf(stderr, "herdr: cannot write %s: %s\n", path, strerror(-rc));
    free(path);
    free(text);
    cJSON_Delete(j);
}

/* NULL when nothing of the subtree could be started. */
static struct layout *load_layout(struct sim *sim, struct tab *tab, const cJSON *j)
{
    const char *id = param_text(j, "id");
    const char *label = param_text(j, "label");
    if (id) {
        struct pane *pane = model_restore_pane(sim, tab, id, param_text(j, "cwd"));
        if (!pane)
            return NULL;
        pane->label = sim_strdup(label);
        return layout_leaf(pane);
    }
    if (!param_item(j, "first") || !param_item(j, "second"))
        return NULL;
    struct layout *first = load_layout(sim, tab, param_item(j, "first"));
    struct layout *second = load_layout(sim, tab, param_item(j, "second"));
    if (!first || !second)
        return first ? first : second;
    double ratio = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(j, "ratio"));
    return layout_join(tab, param_bool(j, "down", false), ratio, first, second);
}

static void load_tab(struct sim *sim, struct workspace *ws, const cJSON *j)
{
    if (!param_text(j, "id"))
        return;
    struct tab *tab = model_restore_tab(ws, param_text(j, "id"), param_text(j, "label"));
    const cJSON *layout = param_item(j, "layout");
    tab->layout = layout ? load_layout(sim, tab, layout) : NULL;
    if (!tab->layout) {
        model_drop_tab(tab);
        return;
    }
    const char *focused = param_text(j, "focused");
    struct pane *pane = focused ? model_pane(&sim->model, focused) : NULL;
    tab->focused = pane && pane->tab == tab ? pane : tab->panes;
}

static void load_workspace(struct sim *sim, const cJSON *j)
{
    const char *id = param_text(j, "id"), *label = param_text(j, "label");
    if (!id || !label)
        return;
    struct workspace *ws = model_restore_workspace(sim, id, label);
    const cJSON *tabs = param_item(j, "tabs");
    for (const cJSON *t = tabs ? tabs->child : NULL; t; t = t->next)
        load_tab(sim, ws, t);
    if (!ws->tabs) {
        model_drop_workspace(sim, ws);
        return;
    }
    param_uint(j, "next_tab", &ws->next_tab);
    param_uint(j, "next_pane", &ws->next_pane);
    const char *active = param_text(j, "active");
    struct tab *tab = active ? model_tab(&sim->model, active) : NULL;
    if (tab && tab->ws == ws)
        ws->active = tab;
}

int persist_load(struct sim *sim)
{
    if (!sim->opt.restore)
        return 0;
    char *path = session_file(sim);
    char *text = read_file(path, SESSION_FILE_BYTES_MAX, NULL);
    cJSON *j = text ? cJSON_Parse(text) : NULL;
    const cJSON *list = param_item(j, "workspaces");
    for (const cJSON *w = list ? list->child : NULL; w; w = w->next)
        load_workspace(sim, w);
    param_uint(j, "next_workspace", &sim->model.next_workspace);
    const char *active = param_text(j, "active");
    struct workspace *ws = active ? model_workspace(&sim->model, active) : NULL;
    if (ws)
        sim->model.active = ws;
    int count = 0;
    for (ws = sim->model.workspaces; ws; ws = ws->next)
        count++;
    cJSON_Delete(j);
    free(text);
    free(path);
    return count;
}
