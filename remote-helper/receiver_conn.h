/*
 * Connections to the receivers of pi sessions on this machine: one per pi session, shared by all
 * requests, plain links over their unix sockets.
 *
 * A connection that receiver_open asked for stays until receiver_close and its loss is told to the
 * controller; any other is closed RECEIVER_IDLE_MS after its last use. What waits for a connection
 * is a waiter: it is called once, when the connection is established or has failed.
 */
#ifndef SHP_REMOTE_HELPER_RECEIVER_CONN_H
#define SHP_REMOTE_HELPER_RECEIVER_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "remote-helper/helper.h"

#define RECEIVER_IDLE_MS 60000
#define RECEIVER_CONNS_MAX 128

struct receiver_waiter {
    struct receiver_conn *conn; /* NULL: waits for nothing */
    struct receiver_waiter *next;
    /* error NULL: established, link is its link until on_closed. */
    void (*cb)(struct receiver_waiter *waiter, struct shp_link *link,
               const struct shp_error *error);
};

/*
 * A connection to that session, made now when there is none; cb of the waiter follows, from the
 * loop or, when it is established already, before this returns. terminal_id (may be NULL) must be
 * the receiver's. permanent: as for receiver_open. Failures at once: *error is receiver_missing,
 * receiver_outdated or too_many_streams, and cb does not come.
 */
int receiver_conn_get(struct helper *helper, const char *pi_session_id, const char *terminal_id,
                      bool permanent, struct receiver_waiter *waiter, struct shp_error *error);

/* Its cb does not come any more. Fine when it does not wait. */
void receiver_conn_forget(struct receiver_waiter *waiter);

/* What receiver_open began. No connection: fine. */
void receiver_conn_release(struct helper *helper, const char *pi_session_id);

/* The controller's link has ended. */
void receiver_conns_close(struct helper *helper);

#endif
