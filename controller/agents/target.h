/*
 * From what a caller wrote to a live pi session: Herdr resolves the target, the receiver of that
 * terminal is found, and both are checked. Done anew in every acting call (identity is the pair of
 * terminal and pi session; panes move and names are reused).
 */
#ifndef SHP_CONTROLLER_AGENTS_TARGET_H
#define SHP_CONTROLLER_AGENTS_TARGET_H

#include <stdbool.h>

#include "base/error.h"
#include "controller/app.h"

struct target {
    struct machine *machine;
    char *pane;
    char *terminal_id;
    char *workspace_id;
    char *tab_id;
    char *name; /* or NULL */
    char *status;
    char *session_file;  /* of the receiver, else Herdr's; or NULL */
    char *pi_session_id; /* NULL: no live receiver */
    bool receiver_outdated;
};

/* target: borrowed for the call (error given) or the callee's to keep by target_move. */
typedef void (*target_cb)(struct target *target, const struct shp_error *error, void *user);

/* name: as the caller wrote it. Refuses what is no Pi agent and the caller's own pane. */
void target_resolve(struct app *app, struct machine *machine, const char *name, target_cb cb,
                    void *user);

void target_move(struct target *to, struct target *from);
void target_fini(struct target *target);

/* Whether messages may go there now; *error: receiver_missing, receiver_outdated, agent_blocked. */
bool target_reachable(const struct target *target, struct shp_error *error);

#endif
