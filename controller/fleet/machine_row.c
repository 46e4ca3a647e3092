#include "controller/fleet/machine_row.h"

#include <stdlib.h>

#include "controller/fleet/fleet.h"
#include "controller/json.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

static void add_filled(cJSON *row, const char *name, const char *text)
{
    json_add(row, name, *text ? text : NULL);
}

static cJSON *add_error(cJSON *row, const char *name, const struct shp_error *error)
{
    cJSON *item = cJSON_AddObjectToObject(row, name);
    json_add(item, "code", shp_code_name(error->code));
    json_add(item, "step", error->step);
    json_add(item, "cause", *error->cause ? error->cause : shp_code_doc(error->code));
    json_add(item, "next", shp_code_next(error->code));
    return item;
}

cJSON *machine_row(const struct machine *machine, const struct shp_error *snapshot)
{
    cJSON *row = cJSON_CreateObject();
    json_add(row, "id", machine->id);
    cJSON_AddBoolToObject(row, "local", machine->local);
    json_add(row, "label", machine->label);
    json_add(row, "target", machine->target);
    json_add(row, "session", machine->session);
    json_add(row, "status", machine_status(machine));
    cJSON_AddNumberToObject(row, "since", (double)machine->state_since_unix_ms);
    if (machine->last_seen_unix_ms > 0)
        cJSON_AddNumberToObject(row, "lastSeen", (double)machine->last_seen_unix_ms);
    add_filled(row, "transport", machine->local ? "pipe" : machine->ssh.transport);
    add_filled(row, "transportReason", machine->ssh.reason);
    add_filled(row, "kex", machine->ssh.kex);
    uint32_t rtt_us = machine->link ? shp_link_rtt_us(machine->link) : 0;
    if (rtt_us > 0)
        cJSON_AddNumberToObject(row, "roundTripMs", (double)rtt_us / 1000);
    if (machine->reason.code)
        add_error(row, "error", &machine->reason);
    if (machine->last_error.code) {
        cJSON *last = add_error(row, "lastError", &machine->last_error);
        cJSON_AddNumberToObject(last, "at", (double)machine->last_error_unix_ms);
    }
    if (snapshot && snapshot->code) {
        char *text = xasprintf("%s: %s", shp_code_name(snapshot->code), snapshot->cause);
        json_add(row, "snapshotError", text);
        free(text);
    }
    return row;
}

cJSON *machine_rows(const struct fleet *fleet)
{
    cJSON *rows = cJSON_CreateArray();
    for (size_t i = 0; i < fleet->len; i++)
        if (fleet->items[i]->state != MACHINE_CLOSED)
            cJSON_AddItemToArray(rows, machine_row(fleet->items[i], NULL));
    return rows;
}
