/*
 * One machine of the fleet: its link, in generations, and the requests that wait for it.
 *
 *     idle -> connecting -> connected -> (lost) waiting -> connecting ...
 *
 * A request made while there is no link starts a connect and waits for its end; when the connect
 * fails, all that wait fail with machine_unavailable, whose cause carries the connect's own code.
 * A machine that is wanted (an open task, an eager session) reconnects by itself, with capped and
 * jittered backoff; a success shorter than MACHINE_STABLE_MS does not reset it. An answer of an
 * old generation never reaches a caller as one of a new: the link ends every request at its loss.
 */
#ifndef SHP_CONTROLLER_FLEET_MACHINE_H
#define SHP_CONTROLLER_FLEET_MACHINE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include <cjson/cJSON.h>

#include "base/error.h"
#include "controller/fleet/catalog.h"
#include "installer/bootstrap.h"
#include "transport/link.h"
#include "transport/ssh.h"

#define MACHINE_LOCAL "local"
#define MACHINE_WAITING_MAX 1024
#define MACHINE_BACKOFF_MIN_MS 1000
#define MACHINE_BACKOFF_MAX_MS 120000
#define MACHINE_CROWDED_MAX 6 /* such starts are repeated this often before calls are told */
#define MACHINE_CROWDED_MS 250
#define MACHINE_STABLE_MS 60000

enum machine_state {
    MACHINE_IDLE, /* never tried, or closed on purpose */
    MACHINE_CONNECTING,
    MACHINE_CONNECTED,
    MACHINE_WAITING, /* lost or failed; reason holds; retried when wanted or asked */
    MACHINE_CLOSED,  /* removed, disabled, or the fleet ends */
};

struct machine;
struct fleet;

/* Answer of one request; borrowed for the call. */
struct machine_answer {
    const struct shp_error *error; /* NULL: success; else machine, step, cause are filled */
    const cJSON *result;
    const char *bulk; /* bulk_len bytes, followed by a NUL that does not count */
    size_t bulk_len;
};
typedef void (*machine_answer_cb)(struct machine *machine, const struct machine_answer *answer,
                                  void *user);

/* News of machines for the layer above; called from the loop. */
struct machine_events {
    void (*on_state)(struct machine *machine, void *user);
    /* A pi session on that machine has news (session_event params). */
    void (*on_session_event)(struct machine *machine, const cJSON *params, void *user);
    void *user;
};

struct machine {
    struct fleet *fleet;
    bool local;
    bool enabled;
    bool wanted;
    bool may_install; /* although the fleet only looks (doctor --fix) */
    char id[33];      /* "local" or the catalog's id */
    char *label;
    char *target;  /* NULL: local */
    char *session; /* Herdr session on it; NULL: by socket */
    enum machine_state state;
    struct shp_error reason; /* why it is not connected; code 0: none yet */
    uint32_t generation;     /* counts established links */
    uint64_t connected_at_ms;
    uint64_t last_seen_unix_ms;
    uint32_t backoff_ms;
    int crowded;                    /* starts in a row that a full server refused */
    struct shp_bootstrap_seen seen; /* by the last bootstrap */
    /* facts of the helper's hello */
    char *home;
    char *host;
    char *hostname;
    char *system;
    struct shp_ssh_facts ssh; /* of the link, or of its last attempt; local: empty */
    uint64_t inbound_refused; /* session_request refused as not_related */
    /* private */
    struct shp_link *link;
    struct shp_error link_error; /* set before we close a link for a reason of ours */
    uv_timer_t retry;
    uv_timer_t soon;                 /* delivers what failed inside a call, from the loop */
    struct machine_request *waiting; /* for a connect, or for room in the link's output */
    size_t waiting_len;
    struct machine_request *failed;
    int handles_open;
    bool ending;
};

/*
 * Used by fleet.c only. A machine lives as long as its fleet, so that calls under way may keep
 * pointers: one that left the catalog is closed (no link, every request fails) and may come back.
 */
struct machine *machine_new(struct fleet *fleet, const struct catalog_entry *entry);
void machine_close(struct machine *machine);
/* Adopt a changed entry: new label in place; new target or session: reconnect. */
void machine_update(struct machine *machine, const struct catalog_entry *entry);
/* Close, fail what is under way; ends with fleet_unref. The memory stays until machine_free. */
void machine_end(struct machine *machine);
void machine_free(struct machine *machine);

const char *machine_state_name(enum machine_state state);

/* Connect now when there is no link (ignores backoff). */
void machine_connect(struct machine *machine);

/* Reconnect by itself from now on, or no more. */
void machine_want(struct machine *machine, bool wanted);

/*
 * Ask the helper: one callback, from the loop. params is taken over (NULL: {}). id NULL: fresh.
 * bulk is copied. timeout_ms is for the request itself, waiting for a connect apart.
 */
void machine_request(struct machine *machine, uint16_t message, const uint8_t *id,
                     uint32_t timeout_ms, cJSON *params, const char *bulk, size_t bulk_len,
                     machine_answer_cb cb, void *user);

/* The error of a machine without a link: machine_unavailable with the reason inside. */
void machine_unavailable(const struct machine *machine, struct shp_error *error);

#endif
