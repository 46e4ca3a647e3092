#include "controller/agents/call_internal.h"

/* Bounds: a name of ours 32, an id of another program 128, what a person types 256, a path 4096. */
#define NAME_BYTES_MAX 32
#define LABEL_BYTES_MAX 64
#define ID_BYTES_MAX 128
#define WORDS_BYTES_MAX 256
#define PATH_BYTES_MAX 4096

static const char *const placements[] = {"new_workspace", "new_tab", "pane", NULL};
static const char *const sources[] = {"latest", "visible", "recent", NULL};
static const char *const statuses[] = {"idle", "working", "blocked", "done", "unknown", NULL};

const struct shp_arg_spec shp_arg_specs[SHP_ARG_COUNT] = {
    [SHP_ARG_AGENT_TYPE] = {"agent_type", SHP_ARG_LINE, NAME_BYTES_MAX, NULL},
    [SHP_ARG_BASE] = {"base", SHP_ARG_LINE, WORDS_BYTES_MAX, NULL},
    [SHP_ARG_BLOCKING] = {"blocking", SHP_ARG_BOOL, 0, NULL},
    [SHP_ARG_BOARD] = {"board", SHP_ARG_BOOL, 0, NULL},
    [SHP_ARG_BOARD_THREAD_ID] = {"board_thread_id", SHP_ARG_LINE, ID_BYTES_MAX, NULL},
    [SHP_ARG_COMMANDS] = {"commands", SHP_ARG_BOOL, 0, NULL},
    [SHP_ARG_CONTEXT] = {"context", SHP_ARG_BOOL, 0, NULL},
    [SHP_ARG_CWD] = {"cwd", SHP_ARG_LINE, PATH_BYTES_MAX, NULL},
    [SHP_ARG_EXTENSION] = {"extension", SHP_ARG_LINE, ID_BYTES_MAX, NULL},
    [SHP_ARG_ID] = {"id", SHP_ARG_LINE, ID_BYTES_MAX, NULL},
    [SHP_ARG_LABEL] = {"label", SHP_ARG_LINE, LABEL_BYTES_MAX, NULL},
    [SHP_ARG_LINES] = {"lines", SHP_ARG_INT, 0, NULL},
    [SHP_ARG_MACHINE] = {"machine", SHP_ARG_LINE, ID_BYTES_MAX, NULL},
    [SHP_ARG_MESSAGE] = {"message", SHP_ARG_TEXT, 0, NULL},
    [SHP_ARG_NAME] = {"name", SHP_ARG_LINE, WORDS_BYTES_MAX, NULL},
    [SHP_ARG_PANE] = {"pane", SHP_ARG_LINE, ID_BYTES_MAX, NULL},
    [SHP_ARG_PLACEMENT] = {"placement", SHP_ARG_LINE, NAME_BYTES_MAX, placements},
    [SHP_ARG_QUERY] = {"query", SHP_ARG_LINE, WORDS_BYTES_MAX, NULL},
    [SHP_ARG_SOURCE] = {"source", SHP_ARG_LINE, NAME_BYTES_MAX, sources},
    [SHP_ARG_STATUS] = {"status", SHP_ARG_LINE, NAME_BYTES_MAX, statuses},
    [SHP_ARG_TARGET] = {"target", SHP_ARG_LINE, WORDS_BYTES_MAX, NULL},
    [SHP_ARG_WORKSPACE] = {"workspace", SHP_ARG_LINE, WORDS_BYTES_MAX, NULL},
};

#define NEED(name) (SHP_ARG_##name)
#define MAY(name) (SHP_ARG_##name | SHP_ARG_OPTIONAL)

const struct shp_action_spec shp_action_specs[SHP_ACTION_COUNT] = {
    [SHP_ACTION_HELP] = {"help", true, {MAY(COMMANDS), MAY(TARGET), MAY(MACHINE)}},
    [SHP_ACTION_LIST] = {"list", true, {MAY(MACHINE)}},
    [SHP_ACTION_FIND] = {"find", false, {MAY(QUERY), MAY(STATUS), MAY(MACHINE)}},
    [SHP_ACTION_SPAWN] = {"spawn",
                          true,
                          {NEED(AGENT_TYPE), NEED(LABEL), NEED(MESSAGE), MAY(MACHINE), MAY(NAME),
                           MAY(CWD), MAY(PLACEMENT), MAY(WORKSPACE), MAY(PANE), MAY(BASE),
                           MAY(BLOCKING), MAY(BOARD_THREAD_ID)}},
    [SHP_ACTION_SEND] = {"send", true, {NEED(TARGET), NEED(MESSAGE), MAY(MACHINE)}},
    [SHP_ACTION_ASSIGN] = {"assign",
                           false,
                           {NEED(TARGET), NEED(MESSAGE), MAY(MACHINE), MAY(BLOCKING)}},
    [SHP_ACTION_ATTACH] = {"attach",
                           false,
                           {NEED(TARGET), NEED(CONTEXT), NEED(BOARD), MAY(MACHINE)}},
    [SHP_ACTION_DETACH] = {"detach",
                           false,
                           {NEED(TARGET), NEED(CONTEXT), NEED(BOARD), MAY(MACHINE)}},
    [SHP_ACTION_READ] = {"read", true, {NEED(TARGET), MAY(SOURCE), MAY(LINES), MAY(MACHINE)}},
    [SHP_ACTION_REPLY] = {"reply",
                          false,
                          {NEED(TARGET), NEED(EXTENSION), NEED(ID), NEED(MESSAGE), MAY(MACHINE)}},
    [SHP_ACTION_WATCH] = {"watch", false, {NEED(TARGET), MAY(MACHINE)}},
    [SHP_ACTION_UNWATCH] = {"unwatch", false, {NEED(TARGET), MAY(MACHINE)}},
};
