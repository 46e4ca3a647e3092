/*
 * The table of fields that both the check (call.c) and the help text (help.c) are made from, so
 * that they cannot say different things.
 */
#ifndef SHP_CONTROLLER_AGENTS_CALL_INTERNAL_H
#define SHP_CONTROLLER_AGENTS_CALL_INTERNAL_H

#include <stdint.h>

#include "controller/agents/call.h"

#define SHP_CALL_FIELDS_MAX 12 /* of one action */
#define SHP_CALL_LINES_MAX 200
#define SHP_CALL_LINES_DEFAULT 40

enum shp_arg_type { SHP_ARG_LINE, SHP_ARG_TEXT, SHP_ARG_BOOL, SHP_ARG_INT };

enum shp_arg {
    SHP_ARG_END = 0, /* ends an action's list */
    SHP_ARG_AGENT_TYPE,
    SHP_ARG_BASE,
    SHP_ARG_BLOCKING,
    SHP_ARG_BOARD,
    SHP_ARG_BOARD_THREAD_ID,
    SHP_ARG_COMMANDS,
    SHP_ARG_CONTEXT,
    SHP_ARG_CWD,
    SHP_ARG_EXTENSION,
    SHP_ARG_ID,
    SHP_ARG_LABEL,
    SHP_ARG_LINES,
    SHP_ARG_MACHINE,
    SHP_ARG_MESSAGE,
    SHP_ARG_NAME,
    SHP_ARG_PANE,
    SHP_ARG_PLACEMENT,
    SHP_ARG_QUERY,
    SHP_ARG_SOURCE,
    SHP_ARG_STATUS,
    SHP_ARG_TARGET,
    SHP_ARG_WORKSPACE,
    SHP_ARG_COUNT
};

struct shp_arg_spec {
    const char *name;
    enum shp_arg_type type;
    uint32_t bytes_max;         /* of a line */
    const char *const *choices; /* NULL-ended, or NULL: free */
};

struct shp_action_spec {
    const char *name;
    bool supported;
    /* Needed ones first; SHP_ARG_OPTIONAL is or'ed to the others. In the order of the help. */
    uint8_t fields[SHP_CALL_FIELDS_MAX + 1];
};
#define SHP_ARG_OPTIONAL 0x80
#define SHP_ARG_ID_OF(entry) ((enum shp_arg)((entry)&0x7f))

extern const struct shp_arg_spec shp_arg_specs[SHP_ARG_COUNT];
extern const struct shp_action_spec shp_action_specs[SHP_ACTION_COUNT];

#endif
