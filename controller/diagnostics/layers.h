/*
 * Findings from what is known: of the way to a machine (SSH facts, bootstrap, the error that a
 * connect ended with) and of the machine itself (machine_facts and other answers of its helper).
 * Pure: nothing is asked here.
 */
#ifndef SHP_CONTROLLER_DIAGNOSTICS_LAYERS_H
#define SHP_CONTROLLER_DIAGNOSTICS_LAYERS_H

#include <stdint.h>
#include <cjson/cJSON.h>

#include "controller/diagnostics/finding.h"
#include "controller/fleet/machine.h"
#include "controller/routing/herdr.h"

/* Below this the helper still runs, but what else we place may not fit. */
#define DISK_LOW_BYTES ((uint64_t)16 * 1024 * 1024)
#define CLOCK_SKEW_MAX_MS 5000
#define LINK_SLOW_BYTES_PER_S ((uint64_t)64 * 1024)

/* A connection that stands: config to shell. */
void layers_connected(struct diagnosis *diagnosis, const struct machine *machine);

/*
 * One that failed with error: the layers below it as far as they are known, its own, and the ones
 * above it skipped. An absent helper is a warning, and what an install would meet is told.
 */
void layers_unconnected(struct diagnosis *diagnosis, const struct machine *machine,
                        const struct shp_error *error);

/*
 * What machine_facts answered: home to helper, pi to clock. skew_ms: their clock less ours;
 * slack_ms: how much of that may be the way there.
 */
void layers_facts(struct diagnosis *diagnosis, const struct machine *machine, const cJSON *facts,
                  int64_t skew_ms, uint64_t slack_ms);
/* The helper did not answer machine_facts. */
void layers_facts_failed(struct diagnosis *diagnosis, const struct shp_error *error);

/* Herdr's ping; program: path of herdr there, or NULL. */
void layers_herdr(struct diagnosis *diagnosis, const struct machine *machine,
                  const struct herdr_answer *answer, const char *program);

/* receivers_list: the array of its bulk (NULL: malformed). */
void layers_receivers(struct diagnosis *diagnosis, const struct machine *machine,
                      const struct shp_error *error, const cJSON *receivers);

/* bytes went there and back in us; error NULL: they did. rtt_us 0: not measured. */
void layers_link(struct diagnosis *diagnosis, const struct machine *machine,
                 const struct shp_error *error, uint64_t rtt_us, uint64_t bytes, uint64_t us);

#endif
