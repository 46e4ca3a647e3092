/*
 * Calls of Herdr's socket API on a machine, through its helper.
 */
#ifndef SHP_CONTROLLER_ROUTING_HERDR_H
#define SHP_CONTROLLER_ROUTING_HERDR_H

#include <stdint.h>
#include <cjson/cJSON.h>

#include "controller/fleet/machine.h"

struct herdr_answer {
    const struct shp_error *error; /* NULL: success */
    const char *herdr_code;        /* Herdr's own code when it refused, else "" */
    const cJSON *result;
};
typedef void (*herdr_cb)(struct machine *machine, const struct herdr_answer *answer, void *user);

/*
 * params is taken over (NULL: {}). One callback, from the loop. Herdr's refusals are herdr_error
 * with outcome rejected; calls that act are never repeated by anything below the caller.
 */
void herdr_call(struct machine *machine, const char *method, cJSON *params, uint32_t timeout_ms,
                herdr_cb cb, void *user);

/* Which Herdr of the machine: the params that herdr_call and roster_get carry. */
cJSON *herdr_address(const struct machine *machine);

/* Roster (protocol: roster_get); result is the parsed object. */
void herdr_roster(struct machine *machine, herdr_cb cb, void *user);

#endif
