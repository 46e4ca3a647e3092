#include "present.h"

#include "layout.h"
#include "proc.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Most urgent first: blocked, done, working, idle, unknown. */
static int urgency(const char *status)
{
    static const char *const order[] = {"blocked", "done", "working", "idle", "unknown"};
    int i = 0;
    while (i < 4 && strcmp(order[i], status) != 0)
        i++;
    return i;
}

static const char *tab_status(const struct tab *tab)
{
    const char *best = "unknown";
    for (const struct pane *p = tab->panes; p; p = p->next)
        if (urgency(agent_status(&p->agent)) < urgency(best))
            best = agent_status(&p->agent);
    return best;
}

static int count_panes(const struct tab *tab)
{
    int n = 0;
    for (const struct pane *p = tab->panes; p; p = p->next)
        n++;
    return n;
}

static void add_text(cJSON *j, const char *key, const char *text)
{
    if (text && *text)
        cJSON_AddStringToObject(j, key, text);
}

static void add_map(cJSON *j, const char *key, const cJSON *map)
{
    if (map && map->child)
        cJSON_AddItemToObject(j, key, cJSON_Duplicate(map, 1));
}

cJSON *present_workspace(const struct sim *sim, const struct workspace *ws)
{
    int number = 1, panes = 0, tabs = 0;
    const char *status = "unknown";
    for (const struct workspace *w = sim->model.workspaces; w && w != ws; w = w->next)
        number++;
    for (const struct tab *t = ws->tabs; t; t = t->next) {
        tabs++;
        panes += count_panes(t);
        if (urgency(tab_status(t)) < urgency(status))
            status = tab_status(t);
    }
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "workspace_id", ws->id);
    cJSON_AddNumberToObject(j, "number", number);
    cJSON_AddStringToObject(j, "label", ws->label);
    cJSON_AddBoolToObject(j, "focused", sim->model.active == ws);
    cJSON_AddNumberToObject(j, "pane_count", panes);
    cJSON_AddNumberToObject(j, "tab_count", tabs);
    cJSON_AddStringToObject(j, "active_tab_id", ws->active ? ws->active->id : "");
    cJSON_AddStringToObject(j, "agent_status", status);
    return j;
}

cJSON *present_tab(const struct sim *sim, const struct tab *tab)
{
    int number = 1;
    for (const struct tab *t = tab->ws->tabs; t && t != tab; t = t->next)
        number++;
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "tab_id", tab->id);
    cJSON_AddStringToObject(j, "workspace_id", tab->ws->id);
    cJSON_AddNumberToObject(j, "number", number);
    char *standard = sim_format("%d", number);
    cJSON_AddStringToObject(j, "label", tab->label ? tab->label : standard);
    free(standard);
    cJSON_AddBoolToObject(j, "focused", tab_in_view(&sim->model, tab));
    cJSON_AddNumberToObject(j, "pane_count", count_panes(tab));
    cJSON_AddStringToObject(j, "agent_status", tab_status(tab));
    return j;
}

const char *title_stripped(const char *title)
{
    const char *p = title;
    while (*p && !isalnum((unsigned char)*p) && *p != '~' && *p != '/')
        p++;
    return *p ? p : title;
}

static void add_common(const struct sim *sim, cJSON *j, const struct pane *pane)
{
    const struct agent *a = &pane->agent;
    cJSON_AddStringToObject(j, "pane_id", pane->id);
    cJSON_AddStringToObject(j, "terminal_id", pane->terminal_id);
    cJSON_AddStringToObject(j, "workspace_id", pane->tab->ws->id);
    cJSON_AddStringToObject(j, "tab_id", pane->tab->id);
    cJSON_AddBoolToObject(j, "focused", model_focused_pane(&sim->model) == pane);
    if (pane->pty) {
        char *cwd = proc_cwd(pty_pid(pane->pty));
        pid_t fg = pty_foreground(pane->pty);
        char *foreground_cwd = fg ? proc_cwd(fg) : NULL;
        add_text(j, "cwd", cwd);
        add_text(j, "foreground_cwd", foreground_cwd);
        free(cwd);
        free(foreground_cwd);
    }
    add_text(j, "agent", a->kind);
    add_text(j, "title", pane->title);
    const char *title = screen_title(pane->screen);
    if (*title) {
        add_text(j, "terminal_title", title);
        add_text(j, "terminal_title_stripped", title_stripped(title));
    }
    add_text(j, "display_agent", pane->display_agent);
    cJSON_AddStringToObject(j, "agent_status", agent_status(a));
    add_map(j, "state_labels", pane->state_labels);
    add_map(j, "tokens", pane->tokens);
    if (a->session_value) {
        cJSON *s = cJSON_AddObjectToObject(j, "agent_session");
        cJSON_AddStringToObject(s, "source", "herdr:pi");
        cJSON_AddStringToObject(s, "agent", "pi");
        cJSON_AddStringToObject(s, "kind", a->session_is_path ? "path" : "id");
        cJSON_AddStringToObject(s, "value", a->session_value);
    }
    cJSON_AddNumberToObject(j, "revision", 0);
}

cJSON *present_pane(const struct sim *sim, const struct pane *pane)
{
    cJSON *j = cJSON_CreateObject();
    add_common(sim, j, pane);
    add_text(j, "label", pane->label);
    cJSON *scroll = cJSON_AddObjectToObject(j, "scroll");
    cJSON_AddNumberToObject(scroll, "offset_from_bottom", 0);
    cJSON_AddNumberToObject(scroll, "max_offset_from_bottom",
                            (double)screen_history_lines(pane->screen));
    cJSON_AddNumberToObject(scroll, "viewport_rows", PANE_ROWS);
    return j;
}

cJSON *present_agent(const struct sim *sim, const struct pane *pane)
{
    const struct agent *a = &pane->agent;
    cJSON *j = cJSON_CreateObject();
    add_common(sim, j, pane);
    add_text(j, "name", a->name);
    if (a->authority && a->pgrp)
        cJSON_AddBoolToObject(j, "screen_detection_skipped", true);
    if (a->launch_pending)
        cJSON_AddBoolToObject(j, "launch_pending", true);
    if (a->interactive_ready)
        cJSON_AddBoolToObject(j, "interactive_ready", true);
    cJSON_AddNumberToObject(j, "state_change_seq", (double)a->state_change_seq);
    return j;
}

cJSON *present_workspaces(const struct sim *sim)
{
    cJSON *j = cJSON_CreateArray();
    for (const struct workspace *w = sim->model.workspaces; w; w = w->next)
        cJSON_AddItemToArray(j, present_workspace(sim, w));
    return j;
}

cJSON *present_tabs(const struct sim *sim, const struct workspace *ws)
{
    cJSON *j = cJSON_CreateArray();
    for (const struct workspace *w = sim->model.workspaces; w; w = w->next)
        for (const struct tab *t = w->tabs; t; t = t->next)
            if (!ws || ws == w)
                cJSON_AddItemToArray(j, present_tab(sim, t));
    return j;
}

cJSON *present_panes(const struct sim *sim, const struct workspace *ws)
{
    cJSON *j = cJSON_CreateArray();
    FOR_EACH_PANE(&sim->model, w, t, p)
    {
        if (!ws || ws == w)
            cJSON_AddItemToArray(j, present_pane(sim, p));
    }
    return j;
}

cJSON *present_agents(const struct sim *sim)
{
    cJSON *j = cJSON_CreateArray();
    FOR_EACH_PANE(&sim->model, w, t, p)
    {
        if (agent_present(&p->agent))
            cJSON_AddItemToArray(j, present_agent(sim, p));
    }
    return j;
}

cJSON *present_snapshot(const struct sim *sim)
{
    const struct workspace *ws = sim->model.active;
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "version", sim->opt.version);
    cJSON_AddNumberToObject(j, "protocol", (double)sim->opt.protocol);
    if (ws) {
        cJSON_AddStringToObject(j, "focused_workspace_id", ws->id);
        cJSON_AddStringToObject(j, "focused_tab_id", ws->active->id);
        cJSON_AddStringToObject(j, "focused_pane_id", ws->active->focused->id);
    }
    cJSON_AddItemToObject(j, "workspaces", present_workspaces(sim));
    cJSON_AddItemToObject(j, "tabs", present_tabs(sim, NULL));
    cJSON_AddItemToObject(j, "panes", present_panes(sim, NULL));
    cJSON *layouts = cJSON_AddArrayToObject(j, "layouts");
    for (const struct workspace *w = sim->model.workspaces; w; w = w->next)
        for (const struct tab *t = w->tabs; t; t = t->next)
            cJSON_AddItemToArray(layouts, layout_json(t));
    cJSON_AddItemToObject(j, "agents", present_agents(sim));
    return j;
}

cJSON *present_pane_ref(const struct pane *pane)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "pane_id", pane->id);
    cJSON_AddStringToObject(j, "workspace_id", pane->tab->ws->id);
    return j;
}

cJSON *present_status(const struct pane *pane)
{
    cJSON *j = present_pane_ref(pane);
    cJSON_AddStringToObject(j, "agent_status", agent_status(&pane->agent));
    add_text(j, "agent", pane->agent.kind);
    add_text(j, "title", pane->title);
    add_text(j, "display_agent", pane->display_agent);
    add_map(j, "state_labels", pane->state_labels);
    return j;
}
