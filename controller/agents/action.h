/*
 * The actions of the agents tool, one file each. Adding one: HACKING.md.
 */
#ifndef SHP_CONTROLLER_AGENTS_ACTION_H
#define SHP_CONTROLLER_AGENTS_ACTION_H

#include <stdbool.h>

#include "controller/agents/operation.h"

struct action_entry {
    bool acts; /* changes something outside: stored as an operation */
    void (*start)(struct operation *op);
};

/* Its row; never NULL for a supported action. */
const struct action_entry *action_find(enum shp_action action);

/* Begin; each ends the operation once, inside the call or later from the loop. */
void action_help_start(struct operation *op);
void action_list_start(struct operation *op);
void action_spawn_start(struct operation *op);
void action_send_start(struct operation *op);
void action_read_start(struct operation *op);

#endif
