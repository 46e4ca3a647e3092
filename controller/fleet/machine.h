/*
 * One machine of the fleet: its link, in generations, and the requests that wait for it.
 *
 *     idle -> connecting -> connected -> (lost) waiting -> connecting ...
 *
 * A request made while there is no link starts a connect and waits for its end; when the connect
 * fails, all that wait fail with machine_unavailable, whose cause carries the connect's own code.
 * A machine that is wanted (an open task, an eager session) reconnects by itself, with capped and
 * jittered backoff; a success shorter than MACHINE_STABLE_MS does not reset it. When only a person
 * can help it is tried again slowly, and after a changed host key not at all, until a call or a
 * refresh asks for it. Logins in a minute are bounded in every case (pace.h).
 *
 * There is one link at a time: the next begins after the end of the last was told. An answer of an
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
#include "controller/fleet/pace.h"
#include "installer/bootstrap.h"
#include "transport/link.h"
#include "transport/ssh.h"

#define MACHINE_LOCAL "local"
#define MACHINE_WAITING_MAX 1024
#define MACHINE_CROWDED_MAX 6 /* such starts are repeated this often before calls are told */
#define MACHINE_CROWDED_MS 250
#define MACHINE_STABLE_MS 60000
/* A call waits so long for the next login that the bound allows; else it fails with the time. */
#define MACHINE_SLOT_WAIT_MS 10000

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
    /* Of the state; attempts in between do not count as another one. */
    uint64_t state_since_unix_ms;
    struct shp_error reason;     /* why it is not connected; code 0: none yet, or connected */
    struct shp_error last_error; /* the last reason, kept after a reconnect; code 0: none */
    uint64_t last_error_unix_ms;
    uint32_t generation; /* counts established links */
    uint64_t connected_at_ms;
    uint64_t last_seen_unix_ms;
    struct pace pace;
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
    enum machine_state rest;     /* the last state that was no attempt */
    bool asked;                  /* a person wants the next attempt, at once */
    bool woke;                   /* at woke_at_ms: a loss soon after is repaired at once */
    uint64_t woke_at_ms;
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

/* What people and JSON are told: the state's name, "disabled", or "action_required" for a machine
 * that waits for a person (a host key, a locked key, a login that asks). Static. */
const char *machine_status(const struct machine *machine);

/* Connect when there is no link, without the backoff, as soon as the bound on logins allows. */
void machine_connect(struct machine *machine);

/* A person asks: make the link anew. Only the wider bound on logins holds. */
void machine_reconnect(struct machine *machine);

/* Reconnect by itself from now on, or no more. */
void machine_want(struct machine *machine, bool wanted);

/* The catalog was read again: a wanted machine that waits for a person is tried at once. */
void machine_refreshed(struct machine *machine);

/* Time was lost (wake.h): prove the link, or connect at once what is wanted. */
void machine_wake(struct machine *machine);

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
