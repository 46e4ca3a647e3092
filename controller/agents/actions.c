#include "controller/agents/action.h"

#include <stddef.h>

static const struct action_entry actions[SHP_ACTION_COUNT] = {
    [SHP_ACTION_HELP] = {false, action_help_start},  [SHP_ACTION_LIST] = {false, action_list_start},
    [SHP_ACTION_SPAWN] = {true, action_spawn_start}, [SHP_ACTION_SEND] = {true, action_send_start},
    [SHP_ACTION_READ] = {false, action_read_start},
};

const struct action_entry *action_find(enum shp_action action)
{
    return actions[action].start ? &actions[action] : NULL;
}
