/*
 * The machines of one controlling session: the local one and those of Herdr's catalog.
 */
#ifndef SHP_CONTROLLER_FLEET_FLEET_H
#define SHP_CONTROLLER_FLEET_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "controller/context.h"
#include "controller/fleet/catalog.h"
#include "controller/fleet/machine.h"
#include "installer/artifact.h"

struct fleet {
    uv_loop_t *loop;
    const struct context *context;         /* borrowed */
    const struct shp_artifacts *artifacts; /* borrowed: helpers that can be sent */
    char installation[33];
    struct machine_events events;
    struct machine **items; /* [0] is local when there is one; those in state closed left */
    size_t len;
    bool catalog_read;              /* read at least once */
    struct shp_error catalog_error; /* of the last read; code 0: good */
    bool closing;
    bool probe_only; /* doctor: never install */
    /* private */
    struct catalog_reader *reader;
    struct wake *wake;
    struct fleet_waiter *waiters;
    size_t waiters_len;
    size_t ended_len; /* items after fleet_close, for fleet_free */
    size_t alive;     /* machines that have not ended, calls under way, the wake */
    void (*on_closed)(struct fleet *fleet, void *user);
    void *on_closed_user;
};

/* with_local: the host of the session is a machine (inside Herdr, and for commands). */
struct fleet *fleet_new(uv_loop_t *loop, const struct context *context,
                        const struct shp_artifacts *artifacts, const char *installation,
                        bool with_local, const struct machine_events *events);

/*
 * Read the catalog again, then call back once, from the loop (error NULL: good). New machines
 * appear, changed ones are updated, removed and disabled ones lose their link; healthy links stay.
 */
typedef void (*fleet_refresh_cb)(struct fleet *fleet, const struct shp_error *error, void *user);
void fleet_refresh(struct fleet *fleet, fleet_refresh_cb cb, void *user);

/* As fleet_refresh, but only when the catalog was never read (cb comes at once from the loop). */
void fleet_ready(struct fleet *fleet, fleet_refresh_cb cb, void *user);

struct machine *fleet_local(const struct fleet *fleet); /* NULL: none */

/*
 * By what a caller wrote: NULL or "local": the local one. *error: not_in_herdr, machine_unknown,
 * machine_disabled, or the catalog's own error when that is why it is unknown.
 */
struct machine *fleet_find(const struct fleet *fleet, const char *id, struct shp_error *error);

/* Close all links; on_closed from the loop when nothing of the fleet is left but fleet_free. */
void fleet_close(struct fleet *fleet, void (*on_closed)(struct fleet *, void *), void *user);
void fleet_free(struct fleet *fleet);

/* Machines and calls tell that they ended; fleet/ only. */
void fleet_unref(struct fleet *fleet);

#endif
