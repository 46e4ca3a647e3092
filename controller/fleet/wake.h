/*
 * Tells that time was lost: the system slept, or this process stood still. Links may be dead since
 * then without anybody knowing, and waiting for their silence would take most of a minute.
 *
 * Three clocks are compared every WAKE_LOOK_MS. Sleep shows in the boot time, in a container that
 * hides it in the wall time, and a stopped process in the monotonic one; SIGCONT tells at once.
 */
#ifndef SHP_CONTROLLER_FLEET_WAKE_H
#define SHP_CONTROLLER_FLEET_WAKE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "controller/clock.h"

#define WAKE_LOOK_MS 5000
#define WAKE_JUMP_MS 10000
/* SIGCONT and the jump that it explains are one event. */
#define WAKE_QUIET_MS 1000

struct wake;
typedef void (*wake_cb)(void *user);

/* cb comes from the loop, for each loss of time. The handles do not keep the loop running. */
struct wake *wake_new(uv_loop_t *loop, wake_cb cb, void *user);

/* No cb any more; closed (from the loop) when the handles are gone and wake is freed. */
void wake_close(struct wake *wake, wake_cb closed);

/* Look now: what the timer does. */
void wake_look(struct wake *wake);

/* Whether between two looks more time passed than a look takes. Pure. */
bool wake_lost_time(const struct clock_times *before, const struct clock_times *after);

#endif
