#include "model.h"

#include "layout.h"
#include "present.h"
#include "proc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

/* Bijective base 32: 1 -> "1", 32 -> "0", 33 -> "11". */
static void format_number(uint64_t n, char *out, size_t cap)
{
    static const char digits[] = "123456789ABCDEFGHJKMNPQRSTVWXYZ0";
    char rev[16];
    size_t len = 0;
    while (n > 0 && len < sizeof rev) {
        rev[len++] = digits[(n - 1) % 32];
        n = (n - 1) / 32;
    }
    size_t at = 0;
    while (len > 0 && at + 1 < cap)
        out[at++] = rev[--len];
    out[at] = '\0';
}

struct workspace *model_workspace(const struct model *m, const char *id)
{
    for (struct workspace *w = m->workspaces; w; w = w->next)
        if (!strcmp(w->id, id))
            return w;
    return NULL;
}

struct tab *model_tab(const struct model *m, const char *id)
{
    for (struct workspace *w = m->workspaces; w; w = w->next)
        for (struct tab *t = w->tabs; t; t = t->next)
            if (!strcmp(t->id, id))
                return t;
    return NULL;
}

struct pane *model_pane(const struct model *m, const char *id)
{
    FOR_EACH_PANE(m, w, t, p)
    {
        if (!strcmp(p->id, id))
            return p;
    }
    return NULL;
}

struct pane *model_terminal(const struct model *m, const char *terminal_id)
{
    FOR_EACH_PANE(m, w, t, p)
    {
        if (!strcmp(p->terminal_id, terminal_id))
            return p;
    }
    return NULL;
}

struct pane *model_pane_any(const struct model *m, const char *id)
{
    struct pane *pane = model_pane(m, id);
    for (const struct alias *a = m->aliases; a && !pane; a = a->next)
        if (!strcmp(a->old_id, id))
            pane = model_terminal(m, a->terminal_id);
    return pane;
}

struct pane *model_focused_pane(const struct model *m)
{
    return m->active ? m->active->active->focused : NULL;
}

bool tab_in_view(const struct model *m, const struct tab *t)
{
    return m->active && m->active->active == t;
}

/* Environment of a pane's shell */

struct env_list {
    char **items;
    size_t n;
};

static void env_set(struct env_list *e, const char *key, const char *value)
{
    size_t n = strlen(key);
    char *item = sim_format("%s=%s", key, value);
    for (size_t i = 0; i < e->n; i++) {
        if (!strncmp(e->items[i], key, n) && e->items[i][n] == '=') {
            free(e->items[i]);
            e->items[i] = item;
            return;
        }
    }
    e->items = sim_realloc(e->items, sizeof *e->items * (e->n + 2));
    e->items[e->n++] = item;
    e->items[e->n] = NULL;
}

static bool env_kept(const char *item)
{
    static const char *const dropped[] = {"CODEX_THREAD_ID=", "HERDR_SIM_", "HERDR_STARTUP_CWD="};
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
        if (!strncmp(item, dropped[i], strlen(dropped[i])))
            return false;
    return strchr(item, '=') != NULL;
}

static struct env_list pane_env(const struct sim *sim, const struct pane *pane, const cJSON *extra)
{
    struct env_list e = {.items = sim_alloc(sizeof *e.items)};
    for (char **p = environ; *p; p++) {
        if (!env_kept(*p))
            continue;
        char *key = sim_strdup(*p);
        char *equals = strchr(key, '=');
        *equals = '\0';
        env_set(&e, key, equals + 1);
        free(key);
    }
    env_set(&e, "TERM", "xterm-256color");
    env_set(&e, "COLORTERM", "truecolor");
    for (const cJSON *item = extra ? extra->child : NULL; item; item = item->next)
        env_set(&e, item->string, item->valuestring);
    env_set(&e, "HERDR_ENV", "1");
    env_set(&e, "HERDR_SOCKET_PATH", sim->paths.socket);
    env_set(&e, "HERDR_BIN_PATH", sim->bin_path);
    env_set(&e, "HERDR_WORKSPACE_ID", pane->tab->ws->id);
    env_set(&e, "HERDR_TAB_ID", pane->tab->id);
    env_set(&e, "HERDR_PANE_ID", pane->id);
    return e;
}

static void env_free(struct env_list *e)
{
    for (size_t i = 0; i < e->n; i++)
        free(e->items[i]);
    free(e->items);
}

/* Panes */

static void on_pane_output(const uint8_t *bytes, size_t len, void *user)
{
    struct pane *pane = user;
    screen_feed(pane->screen, bytes, len);
    model_title_check(pane->sim, pane);
}

static void on_screen_reply(const char *bytes, size_t len, void *user)
{
    struct pane *pane = user;
    if (pane->pty)
        pty_write(pane->pty, bytes, len);
}

static void on_pane_exit(void *user);

static void append_pane(struct tab *tab, struct pane *pane)
{
    struct pane **at = &tab->panes;
    while (*at)
        at = &(*at)->next;
    *at = pane;
}

/* NULL when the shell cannot be started. */
static struct pane *pane_start(struct sim *sim, struct tab *tab, const char *id,
                               const struct create_options *o)
{
    struct pane *pane = sim_alloc(sizeof *pane);
    pane->sim = sim;
    pane->tab = tab;
    snprintf(pane->id, sizeof pane->id, "%s", id);
    snprintf(pane->terminal_id, sizeof pane->terminal_id, "term_%llx",
             (unsigned long long)(wall_us() + ++sim->model.next_terminal));
    pane->started_ms = now_ms();
    pane->screen = screen_new(PANE_ROWS, PANE_COLS, on_screen_reply, pane);

    const char *shell = getenv("SHELL");
    struct env_list env = pane_env(sim, pane, o->env);
    struct pty_spec spec = {
        .shell = shell && *shell ? shell : "/bin/sh",
        .cwd = o->cwd,
        .env = env.items,
        .rows = PANE_ROWS,
        .cols = PANE_COLS,
    };
    struct pty_callbacks cb = {.on_output = on_pane_output, .on_exit = on_pane_exit};
    int rc = pty_open(&sim->ptys, &spec, &cb, pane, &pane->pty);
    env_free(&env);
    if (rc < 0) {
        screen_free(pane->screen);
        free(pane);
        return NULL;
    }
    append_pane(tab, pane);
    return pane;
}

static void next_pane_id(const struct workspace *ws, char *id)
{
    char number[24];
    format_number(ws->next_pane + 1, number, sizeof number);
    snprintf(id, ID_BYTES, "%.20s:p%s", ws->id, number);
}

static struct pane *pane_new(struct sim *sim, struct tab *tab, const struct create_options *o)
{
    char id[ID_BYTES];
    next_pane_id(tab->ws, id);
    struct pane *pane = pane_start(sim, tab, id, o);
    if (pane)
        tab->ws->next_pane++;
    return pane;
}

static void pane_free(struct pane *pane)
{
    if (pane->pty)
        pty_close(pane->pty);
    screen_free(pane->screen);
    agent_fini(&pane->agent);
    free(pane->label);
    free(pane->title);
    free(pane->display_agent);
    cJSON_Delete(pane->tokens);
    cJSON_Delete(pane->state_labels);
    free(pane);
}

static void tab_free(struct tab *tab)
{
    while (tab->panes) {
        struct pane *next = tab->panes->next;
        pane_free(tab->panes);
        tab->panes = next;
    }
    layout_free(tab->layout);
    free(tab->label);
    free(tab);
}

static void workspace_free(struct workspace *ws)
{
    while (ws->tabs) {
        struct tab *next = ws->tabs->next;
        tab_free(ws->tabs);
        ws->tabs = next;
    }
    free(ws->label);
    free(ws);
}

/* Directory of a new terminal: the asked one, else the source pane's, else HOME. */
static char *resolve_cwd(const struct create_options *o, const struct pane *source)
{
    char *cwd = NULL;
    if (o->cwd)
        return sim_strdup(o->cwd);
    if (source && source->pty)
        cwd = proc_cwd(pty_pid(source->pty));
    if (cwd)
        return cwd;
    const char *home = getenv("HOME");
    return sim_strdup(home && *home ? home : "/");
}

static void append_tab(struct tab *tab)
{
    struct tab **at = &tab->ws->tabs;
    while (*at)
        at = &(*at)->next;
    *at = tab;
    if (!tab->ws->active)
        tab->ws->active = tab;
}

static void append_workspace(struct model *m, struct workspace *ws)
{
    struct workspace **at = &m->workspaces;
    while (*at)
        at = &(*at)->next;
    *at = ws;
    if (!m->active)
        m->active = ws;
}

static void next_tab_id(const struct workspace *ws, char *id)
{
    char number[24];
    format_number(ws->next_tab + 1, number, sizeof number);
    snprintf(id, ID_BYTES, "%.20s:t%s", ws->id, number);
}

static struct tab *tab_new(struct sim *sim, struct workspace *ws, const struct create_options *o)
{
    struct tab *tab = sim_alloc(sizeof *tab);
    tab->ws = ws;
    next_tab_id(ws, tab->id);
    struct pane *pane = pane_new(sim, tab, o);
    if (!pane) {
        free(tab);
        return NULL;
    }
    ws->next_tab++;
    tab->label = text_blank(o->label) ? NULL : sim_strdup(o->label);
    tab->focused = pane;
    tab->layout = layout_leaf(pane);
    append_tab(tab);
    return tab;
}

static void emit_workspace(struct sim *sim, enum event_kind kind, const struct workspace *ws)
{
    cJSON *data = cJSON_CreateObject();
    cJSON_AddItemToObject(data, "workspace", present_workspace(sim, ws));
    events_emit(sim, kind, NULL, data);
}

static void emit_layout(struct sim *sim, const struct tab *tab)
{
    cJSON *data = cJSON_CreateObject();
    cJSON_AddItemToObject(data, "layout", layout_json(tab));
    events_emit(sim, EVENT_LAYOUT_UPDATED, NULL, data);
}

static void emit_pane(struct sim *sim, enum event_kind kind, const struct pane *pane)
{
    cJSON *data = cJSON_CreateObject();
    cJSON_AddItemToObject(data, "pane", present_pane(sim, pane));
    events_emit(sim, kind, pane, data);
}

static void emit_tab_created(struct sim *sim, const struct tab *tab)
{
    cJSON *data = cJSON_CreateObject();
    cJSON_AddItemToObject(data, "tab", present_tab(sim, tab));
    events_emit(sim, EVENT_TAB_CREATED, NULL, data);
    emit_pane(sim, EVENT_PANE_CREATED, tab->focused);
    emit_layout(sim, tab);
}

static void next_workspace_id(const struct model *m, char *id)
{
    char number[24];
    format_number(m->next_workspace + 1, number, sizeof number);
    snprintf(id, ID_BYTES, "w%s", number);
}

struct workspace *model_workspace_create(struct sim *sim, const struct create_options *o)
{
    struct model *m = &sim->model;
    char *cwd = resolve_cwd(o, model_focused_pane(m));
    struct create_options root = {.cwd = cwd, .env = o->env};
    struct workspace *ws = sim_alloc(sizeof *ws);
    next_workspace_id(m, ws->id);
    const char *base = strrchr(cwd, '/');
    ws->label = sim_strdup(!text_blank(o->label) ? o->label : base && base[1] ? base + 1 : cwd);
    struct tab *tab = tab_new(sim, ws, &root);
    free(cwd);
    if (!tab) {
        free(ws->label);
        free(ws);
        return NULL;
    }
    m->next_workspace++;
    append_workspace(m, ws);
    emit_workspace(sim, EVENT_WORKSPACE_CREATED, ws);
    emit_tab_created(sim, tab);
    if (o->focus)
        model_focus_workspace(sim, ws);
    return ws;
}

struct tab *model_tab_create(struct sim *sim, struct workspace *ws, const struct create_options *o)
{
    char *cwd = resolve_cwd(o, ws->active->focused);
    struct create_options with_cwd = {.cwd = cwd, .label = o->label, .env = o->env};
    struct tab *tab = tab_new(sim, ws, &with_cwd);
    free(cwd);
    if (!tab)
        return NULL;
    emit_tab_created(sim, tab);
    if (o->focus)
        model_focus_tab(sim, tab);
    return tab;
}

struct pane *model_pane_split(struct sim *sim, struct pane *source, bool down, double ratio,
                              const struct create_options *o)
{
    char *cwd = resolve_cwd(o, source);
    struct create_options with_cwd = {.cwd = cwd, .env = o->env};
    struct pane *pane = pane_new(sim, source->tab, &with_cwd);
    free(cwd);
    if (!pane)
        return NULL;
    layout_split(source->tab, source, pane, down, ratio);
    emit_pane(sim, EVENT_PANE_CREATED, pane);
    emit_layout(sim, source->tab);
    if (o->focus)
        model_focus_pane(sim, pane);
    return pane;
}

/* Focus */

static void set_focus(struct sim *sim, struct workspace *ws, struct tab *tab, struct pane *pane)
{
    struct model *m = &sim->model;
    bool ws_changed = m->active != ws;
    bool tab_changed = ws_changed || ws->active != tab;
    bool pane_changed = tab_changed || tab->focused != pane;
    m->active = ws;
    ws->active = tab;
    tab->focused = pane;
    for (struct pane *p = tab->panes; p; p = p->next)
        agent_mark_seen(p);
    if (ws_changed) {
        cJSON *data = cJSON_CreateObject();
        cJSON_AddStringToObject(data, "workspace_id", ws->id);
        events_emit(sim, EVENT_WORKSPACE_FOCUSED, NULL, data);
    }
    if (tab_changed) {
        cJSON *data = cJSON_CreateObject();
        cJSON_AddStringToObject(data, "tab_id", tab->id);
        cJSON_AddStringToObject(data, "workspace_id", ws->id);
        events_emit(sim, EVENT_TAB_FOCUSED, NULL, data);
    }
    if (pane_changed)
        events_emit(sim, EVENT_PANE_FOCUSED, pane, present_pane_ref(pane));
}

void model_focus_workspace(struct sim *sim, struct workspace *ws)
{
    set_focus(sim, ws, ws->active, ws->active->focused);
}

void model_focus_tab(struct sim *sim, struct tab *tab)
{
    set_focus(sim, tab->ws, tab, tab->focused);
}

void model_focus_pane(struct sim *sim, struct pane *pane)
{
    set_focus(sim, pane->tab->ws, pane->tab, pane);
}

/* Closing */

static void unlink_workspace(struct sim *sim, struct workspace *ws)
{
    struct model *m = &sim->model;
    struct workspace *prev = NULL;
    struct workspace **at = &m->workspaces;
    while (*at != ws) {
        prev = *at;
        at = &(*at)->next;
    }
    *at = ws->next;
    if (m->active == ws)
        m->active = ws->next ? ws->next : prev;
}

static void unlink_tab(struct tab *tab)
{
    struct workspace *ws = tab->ws;
    struct tab *prev = NULL;
    struct tab **at = &ws->tabs;
    while (*at != tab) {
        prev = *at;
        at = &(*at)->next;
    }
    *at = tab->next;
    if (ws->active == tab)
        ws->active = tab->next ? tab->next : prev;
}

static void unlink_pane(struct pane *pane)
{
    struct tab *tab = pane->tab;
    struct pane *prev = NULL;
    struct pane **at = &tab->panes;
    while (*at != pane) {
        prev = *at;
        at = &(*at)->next;
    }
    *at = pane->next;
    layout_remove(tab, pane);
    if (tab->focused == pane)
        tab->focused = pane->next ? pane->next : prev;
}

void model_workspace_close(struct sim *sim, struct workspace *ws)
{
    cJSON *data = cJSON_CreateObject();
    cJSON_AddStringToObject(data, "workspace_id", ws->id);
    cJSON_AddItemToObject(data, "workspace", present_workspace(sim, ws));
    unlink_workspace(sim, ws);
    events_emit(sim, EVENT_WORKSPACE_CLOSED, NULL, data);
    workspace_free(ws);
}

void model_tab_close(struct sim *sim, struct tab *tab)
{
    struct workspace *ws = tab->ws;
    cJSON *data = cJSON_CreateObject();
    cJSON_AddStringToObject(data, "tab_id", tab->id);
    cJSON_AddStringToObject(data, "workspace_id", ws->id);
    events_emit(sim, EVENT_TAB_CLOSED, NULL, data);
    if (!tab->next && ws->tabs == tab) {
        model_workspace_close(sim, ws);
        return;
    }
    unlink_tab(tab);
    tab_free(tab);
}

static bool only_pane(const struct tab *tab)
{
    return !tab->panes->next;
}

void model_pane_close(struct sim *sim, struct pane *pane)
{
    struct tab *tab = pane->tab;
    events_emit(sim, EVENT_PANE_CLOSED, pane, present_pane_ref(pane));
    if (only_pane(tab)) {
        if (!tab->next && tab->ws->tabs == tab)
            model_workspace_close(sim, tab->ws);
        else
            model_tab_close(sim, tab);
        return;
    }
    unlink_pane(pane);
    pane_free(pane);
    emit_layout(sim, tab);
}

/*
 * The shell ended by itself: no pane_closed, and the tab and workspace that thereby become empty
 * disappear without a word.
 */
static void on_pane_exit(void *user)
{
    struct pane *pane = user;
    struct sim *sim = pane->sim;
    struct tab *tab = pane->tab;
    agent_release(sim, pane);
    events_emit(sim, EVENT_PANE_EXITED, pane, present_pane_ref(pane));
    if (!only_pane(tab)) {
        unlink_pane(pane);
        pane_free(pane);
        emit_layout(sim, tab);
    } else if (tab->next || tab->ws->tabs != tab) {
        model_drop_tab(tab);
    } else {
        model_drop_workspace(sim, tab->ws);
    }
}

void model_close_all(struct sim *sim)
{
    while (sim->model.workspaces) {
        struct workspace *next = sim->model.workspaces->next;
        workspace_free(sim->model.workspaces);
        sim->model.workspaces = next;
    }
    sim->model.active = NULL;
    while (sim->model.aliases) {
        struct alias *next = sim->model.aliases->next;
        free(sim->model.aliases);
        sim->model.aliases = next;
    }
}

struct workspace *model_restore_workspace(struct sim *sim, const char *id, const char *label)
{
    struct workspace *ws = sim_alloc(sizeof *ws);
    snprintf(ws->id, sizeof ws->id, "%s", id);
    ws->label = sim_strdup(label);
    append_workspace(&sim->model, ws);
    return ws;
}

struct tab *model_restore_tab(struct workspace *ws, const char *id, const char *label)
{
    struct tab *tab = sim_alloc(sizeof *tab);
    tab->ws = ws;
    snprintf(tab->id, sizeof tab->id, "%s", id);
    tab->label = sim_strdup(label);
    append_tab(tab);
    return tab;
}

struct pane *model_restore_pane(struct sim *sim, struct tab *tab, const char *id, const char *cwd)
{
    struct create_options o = {.cwd = cwd};
    return pane_start(sim, tab, id, &o);
}

struct tab *model_empty_tab(struct workspace *ws, const char *label)
{
    char id[ID_BYTES];
    next_tab_id(ws, id);
    ws->next_tab++;
    return model_restore_tab(ws, id, text_blank(label) ? NULL : label);
}

struct workspace *model_empty_workspace(struct sim *sim, const char *label)
{
    char id[ID_BYTES];
    next_workspace_id(&sim->model, id);
    sim->model.next_workspace++;
    return model_restore_workspace(sim, id, text_blank(label) ? id : label);
}

void model_detach_pane(struct pane *pane)
{
    unlink_pane(pane);
    pane->next = NULL;
}

void model_attach_pane(struct tab *tab, struct pane *pane)
{
    if (pane->tab->ws != tab->ws) {
        struct alias *a = sim_alloc(sizeof *a);
        strcpy(a->old_id, pane->id);
        strcpy(a->terminal_id, pane->terminal_id);
        a->next = pane->sim->model.aliases;
        pane->sim->model.aliases = a;
        next_pane_id(tab->ws, pane->id);
        tab->ws->next_pane++;
    }
    pane->tab = tab;
    append_pane(tab, pane);
    if (!tab->focused)
        tab->focused = pane;
}

void model_drop_tab(struct tab *tab)
{
    unlink_tab(tab);
    tab_free(tab);
}

void model_drop_workspace(struct sim *sim, struct workspace *ws)
{
    unlink_workspace(sim, ws);
    workspace_free(ws);
}

void model_title_check(struct sim *sim, struct pane *pane)
{
    /* A turning spinner is no news. */
    const char *title = title_stripped(screen_title(pane->screen));
    if (!strcmp(title, pane->shown_title))
        return;
    snprintf(pane->shown_title, sizeof pane->shown_title, "%s", title);
    emit_pane(sim, EVENT_PANE_UPDATED, pane);
}
