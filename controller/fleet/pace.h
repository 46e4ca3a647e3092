/*
 * How often a machine is logged in to: the backoff between attempts of its own, and the bound on
 * logins in any minute, so that a link that breaks at once, or calls that repeat, never look like
 * an attack to a server. Pure: times come from the caller, in milliseconds of the boot time, so
 * that sleep counts as the pause that it is.
 */
#ifndef SHP_CONTROLLER_FLEET_PACE_H
#define SHP_CONTROLLER_FLEET_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACE_SPAN_MS 60000
#define PACE_LOGINS_MAX 6        /* in a span: attempts of its own and for calls */
#define PACE_LOGINS_ASKED_MAX 12 /* in a span: with those that a person asked for */
#define PACE_BACKOFF_MIN_MS 1000
#define PACE_BACKOFF_MAX_MS 120000
#define PACE_PERSON_MS 120000 /* between attempts while a person is needed */

struct pace {
    uint64_t logins_ms[PACE_LOGINS_ASKED_MAX]; /* the last ones, oldest first */
    size_t logins_len;
    uint32_t backoff_ms; /* of the last pause; 0: none yet */
};

/* When a login may begin; now_ms: at once. */
uint64_t pace_free_at_ms(const struct pace *pace, uint64_t now_ms, bool asked);

void pace_took(struct pace *pace, uint64_t now_ms);

/* The last one was no login: the server refused the connection before it. */
void pace_give_back(struct pace *pace);

/* The next pause: doubled each time up to the maximum, jittered between its half and its whole. */
uint32_t pace_backoff(struct pace *pace);

/* The pause while a person is needed: PACE_PERSON_MS, a quarter more or less. */
uint32_t pace_person_ms(void);

#endif
