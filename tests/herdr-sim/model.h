/*
 * Workspaces, tabs and panes of one server. Ids use bijective base 32 and are never reused while
 * their workspace lives. The functions here change the model and emit the events that belong to
 * the change, in Herdr's order.
 */
#ifndef HERDR_SIM_MODEL_H
#define HERDR_SIM_MODEL_H

#include "agent.h"
#include "pty.h"
#include "screen.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#define PANE_ROWS 40
#define PANE_COLS 120
#define ID_BYTES 48
#define TOKENS_PER_PANE_MAX 32

struct sim;
struct layout;
struct tab;

struct pane {
    struct pane *next;
    struct sim *sim;
    struct tab *tab;
    char id[ID_BYTES];
    char terminal_id[ID_BYTES];
    char *label;
    char *title; /* metadata, not the terminal's own */
    char *display_agent;
    cJSON *tokens;       /* object of strings or NULL */
    cJSON *state_labels; /* object of strings or NULL */
    char shown_title[SCREEN_TITLE_MAX];
    uint64_t started_ms;
    struct pty *pty; /* NULL once the shell is gone */
    struct screen *screen;
    struct agent agent;
};

struct tab {
    struct tab *next;
    struct workspace *ws;
    char id[ID_BYTES];
    char *label; /* NULL: its number */
    struct pane *panes;
    struct pane *focused;
    struct layout *layout;
    uint64_t next_split;
};

struct workspace {
    struct workspace *next;
    char id[ID_BYTES];
    char *label;
    struct tab *tabs;
    struct tab *active;
    uint64_t next_tab, next_pane;
};

/* A pane id from before a move to another workspace. */
struct alias {
    struct alias *next;
    char old_id[ID_BYTES];
    char terminal_id[ID_BYTES];
};

struct model {
    struct workspace *workspaces;
    struct workspace *active;
    uint64_t next_workspace;
    uint64_t next_terminal;
    struct alias *aliases;
    uint64_t state_seq; /* stamped on agents whose detected state changes */
};

struct create_options {
    const char *cwd;   /* NULL: source pane's, else HOME */
    const char *label; /* NULL: standard */
    const cJSON *env;  /* object of strings or NULL */
    bool focus;
};

struct workspace *model_workspace(const struct model *m, const char *id);
struct tab *model_tab(const struct model *m, const char *id);
struct pane *model_pane(const struct model *m, const char *id); /* by its current id */
/* Also by an id from before a move, as most pane methods accept it. */
struct pane *model_pane_any(const struct model *m, const char *id);
struct pane *model_terminal(const struct model *m, const char *terminal_id);
struct pane *model_focused_pane(const struct model *m); /* or NULL */
bool tab_in_view(const struct model *m, const struct tab *t);

/* NULL when the shell cannot be started (nothing is changed, no event). */
struct workspace *model_workspace_create(struct sim *sim, const struct create_options *o);
struct tab *model_tab_create(struct sim *sim, struct workspace *ws, const struct create_options *o);
struct pane *model_pane_split(struct sim *sim, struct pane *source, bool down, double ratio,
                              const struct create_options *o);

/* Each marks what it shows as seen and emits what changed, outermost first. */
void model_focus_workspace(struct sim *sim, struct workspace *ws);
void model_focus_tab(struct sim *sim, struct tab *tab);
void model_focus_pane(struct sim *sim, struct pane *pane);

void model_workspace_close(struct sim *sim, struct workspace *ws);
void model_tab_close(struct sim *sim, struct tab *tab);
void model_pane_close(struct sim *sim, struct pane *pane);
void model_close_all(struct sim *sim); /* no events: the server ends */

/*
 * Rebuilding a stored layout: no events, ids given. The caller sets counters, focus and the tab's
 * layout; a tab without panes or a workspace without tabs must be dropped with model_drop_*.
 */
struct workspace *model_restore_workspace(struct sim *sim, const char *id, const char *label);
struct tab *model_restore_tab(struct workspace *ws, const char *id, const char *label);
struct pane *model_restore_pane(struct sim *sim, struct tab *tab, const char *id, const char *cwd);
/* Empty ones with fresh ids, for a pane that is moved there. NULL labels: the standard ones. */
struct tab *model_empty_tab(struct workspace *ws, const char *label);
struct workspace *model_empty_workspace(struct sim *sim, const char *label);
/* Out of its tab, which may be left empty; into a tab, with a fresh id in another workspace. */
void model_detach_pane(struct pane *pane);
void model_attach_pane(struct tab *tab, struct pane *pane);
void model_drop_tab(struct tab *tab);
void model_drop_workspace(struct sim *sim, struct workspace *ws);

/* The first call for a terminal title that differs emits pane_updated. */
void model_title_check(struct sim *sim, struct pane *pane);

#define FOR_EACH_PANE(m, w_, t_, p_)                                                               \
    for (struct workspace *w_ = (m)->workspaces; w_; w_ = w_->next)                                \
        for (struct tab *t_ = w_->tabs; t_; t_ = t_->next)                                         \
            for (struct pane *p_ = t_->panes; p_; p_ = p_->next)

#endif
