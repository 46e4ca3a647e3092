/*
 * Session-to-session requests (protocol.md 8) from the controlling session to a pi session on any
 * machine: one primitive, and the services of this version on top of it.
 */
#ifndef SHP_CONTROLLER_ROUTING_SESSION_REQUEST_H
#define SHP_CONTROLLER_ROUTING_SESSION_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <cjson/cJSON.h>

#include "controller/fleet/machine.h"

/* Address of a live pi session. */
struct session_address {
    struct machine *machine;
    const char *pi_session_id;
    const char *terminal_id; /* NULL: any */
};

struct session_answer {
    const struct shp_error *error; /* outcome tells rejected from unknown */
    const cJSON *answer;           /* object of the service */
    const char *text;              /* bulk */
    size_t text_len;
};
typedef void (*session_answer_cb)(const struct session_answer *answer, void *user);

/* id: 32 hex, the message's id; NULL: fresh. payload is taken over. */
void session_request(const struct session_address *to, const char *service, const char *id,
                     cJSON *payload, const char *text, uint32_t timeout_ms, session_answer_cb cb,
                     void *user);

/*
 * Make the session a worker of ours, under a fresh capability that only this request carries.
 * agent: our id of it; name: its routing name, or NULL.
 */
void session_bind(const struct session_address *to, const char *agent, const char *name,
                  session_answer_cb cb, void *user);

/* What became of a delivery, after everything that may be asked was asked. */
struct delivery {
    bool accepted;
    bool provisional;
    bool duplicate;
    struct shp_error error; /* not accepted: outcome rejected or unknown (delivery_unknown) */
};
typedef void (*delivery_cb)(const struct delivery *delivery, void *user);

/*
 * Deliver a text under its id, repeatable: the receiver knows ids. When the outcome of the attempt
 * is unknown, delivery_status is asked once more before it is told as unknown. sender is borrowed.
 */
void deliver(const struct session_address *to, const char *id, const char *kind, const char *text,
             const cJSON *sender, delivery_cb cb, void *user);

#endif
