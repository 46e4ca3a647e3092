/*
 * A machine as `shepherdr machines --json` and machines_get show it: {id, local, label, target,
 * session, status, since, lastSeen, transport, transportReason, kex, roundTripMs, error, lastError,
 * snapshotError}; what is unknown is left out, times are Unix milliseconds. error: why it is not
 * connected; lastError: the last such reason and when (at), kept after a reconnect.
 */
#ifndef SHP_CONTROLLER_FLEET_MACHINE_ROW_H
#define SHP_CONTROLLER_FLEET_MACHINE_ROW_H

#include <cjson/cJSON.h>

#include "controller/fleet/machine.h"

struct fleet;

/* snapshot: why its Herdr could not be looked at; NULL or code 0: it could, or was not asked. */
cJSON *machine_row(const struct machine *machine, const struct shp_error *snapshot);

/* Rows of all machines that the catalog has. */
cJSON *machine_rows(const struct fleet *fleet);

#endif
