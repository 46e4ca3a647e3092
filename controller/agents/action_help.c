#include "controller/agents/action.h"

#include <string.h>

#include "controller/json.h"
#include "protocol/messages.h"

static void on_ready(struct fleet *fleet, const struct shp_error *error, void *user)
{
    (void)error; /* help works without a catalog; list tells what is wrong with it */
    struct operation *op = user;
    cJSON *machines = cJSON_CreateArray();
    for (size_t i = 0; i < fleet->len; i++) {
        const struct machine *machine = fleet->items[i];
        if (!machine->enabled || machine->state == MACHINE_CLOSED)
            continue;
        cJSON *item = cJSON_CreateObject();
        json_add(item, "id", machine->id);
        json_add(item, "label", machine->label);
        json_add(item, "status", machine_status(machine));
        cJSON_AddItemToArray(machines, item);
    }
    cJSON *value = shp_call_help(&op->profiles, machines);
    if (value)
        operation_finish(op, value, NULL, NULL, NULL);
    else
        operation_failf(op, SHP_CODE_OUT_OF_MEMORY, NULL, "help", "no memory");
}

void action_help_start(struct operation *op)
{
    struct shp_error error = {0};
    if (op->call.commands) {
        operation_failf(op, SHP_CODE_UNSUPPORTED_ACTION, NULL, "help",
                        "command discovery is not available in this version");
        return;
    }
    if (shp_profiles_load(&op->profiles, op->app->context.agent_dir, &error) != SHP_OK) {
        operation_fail(op, &error);
        return;
    }
    if (op->app->fleet->len == 0)
        on_ready(op->app->fleet, NULL, op);
    else
        fleet_ready(op->app->fleet, on_ready, op);
}
