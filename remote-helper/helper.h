/*
 * The helper: one session with a controller, a table of handlers, and the jobs under way.
 *
 *     helper_new -> helper_run (the loop, until the link has ended) -> helper_free
 */
#ifndef SHP_REMOTE_HELPER_HELPER_H
#define SHP_REMOTE_HELPER_HELPER_H

#include <uv.h>

#include "remote-helper/identity.h"
#include "remote-helper/job.h"
#include "transport/link.h"

struct receiver_conn;

/* Hex digits of an installation, and the longest pi session id. */
#define HELPER_INSTALLATION_MAX 32
#define HELPER_PI_SESSION_MAX 128

struct helper {
    uv_loop_t *loop;
    struct shp_link *link; /* NULL: has ended */
    struct identity identity;
    const char *build;
    const char *program; /* argv[0], borrowed for good; NULL: not a program (tests) */
    char installation[HELPER_INSTALLATION_MAX + 1]; /* of the controller's hello */
    char pi_session_id[HELPER_PI_SESSION_MAX + 1];
    struct job *jobs;
    struct receiver_conn *receiver_conns;
    size_t receiver_conn_count;
    uint64_t receiver_idle_ms; /* RECEIVER_IDLE_MS; tests shorten it */
    uv_timer_t deadline;       /* of the job that is due first */
    uv_idle_t work;            /* runs while a job is runnable */
    bool handles_open;
    struct shp_error end; /* why the link ended; code 0: in order */
};

/*
 * Opens the link over transport (taken over on success) as responder to the launch named by
 * marker. build: this helper's build id, borrowed for good. INVALID, NOMEM.
 */
int helper_open(struct helper *helper, uv_loop_t *loop, struct shp_transport *transport,
                const char *marker, const char *build);

/* End in order; everything else follows from the loop, which then runs out of handles. */
void helper_close(struct helper *helper, int code, const char *text);

/* What both hellos of a helper begin with: an open object with versions and role. */
void helper_hello_begin(struct json_out *out);

/* After job->runnable or a deadline changed. */
void helper_touched(struct helper *helper);

#endif
