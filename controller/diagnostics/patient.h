/*
 * One machine under examination: connects, asks everything at once, then measures the link, and
 * ends with a diagnosis. Nothing is installed and nothing is changed unless the options say so.
 */
#ifndef SHP_CONTROLLER_DIAGNOSTICS_PATIENT_H
#define SHP_CONTROLLER_DIAGNOSTICS_PATIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <cjson/cJSON.h>

#include "controller/diagnostics/finding.h"
#include "controller/fleet/machine.h"

struct patient;
typedef void (*patient_cb)(struct patient *patient, void *user);

struct patient {
    struct machine *machine;
    struct diagnosis diagnosis;
    bool fix;   /* install an absent helper, sweep stale files beside one */
    bool smoke; /* a command in a throw-away tab at the end */
    patient_cb done;
    void *user;
    /* private */
    int pending; /* of the questions that are asked at once */
    bool fixed;
    uint64_t asked_unix_ms; /* when the link came up, which sends the questions */
    uint64_t echo_began_ns;
    size_t echo_bytes;
    struct shp_error lost; /* the connect's own error */
    bool herdr_seen, herdr_failed;
    struct shp_error herdr_error;
    cJSON *herdr_result;
    cJSON *facts;
};

/* done is called once, from the loop. Machine, done, user, fix and smoke were set. */
void patient_examine(struct patient *patient);

/* The machine changed its state (fleet's event). */
void patient_on_state(struct patient *patient);

void patient_fini(struct patient *patient);

#endif
