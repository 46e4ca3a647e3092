/*
 * One call of Herdr's socket API: a fresh connection, one line out in one write, one line in.
 *
 * Herdr reads a line byte by byte and pauses whenever none is there, so the line goes out whole;
 * and it takes any further byte or half-close as "client gone", so nothing follows it.
 */
#ifndef SHP_REMOTE_HELPER_HERDR_CONN_H
#define SHP_REMOTE_HELPER_HERDR_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/error.h"

/* Herdr's own limit for a request line. */
#define HERDR_REQUEST_BYTES_MAX ((size_t)1024 * 1024)

/* sun_path with its NUL. */
#define HERDR_SOCKET_PATH_SIZE 108

struct herdr_conn;

enum herdr_end {
    HERDR_END_LINE,        /* the answer line is complete */
    HERDR_END_NOT_RUNNING, /* nobody listens: nothing was sent */
    HERDR_END_NO_ANSWER,   /* closed before the newline */
};

struct herdr_conn_callbacks {
    /* Bytes of the answer line, without its newline. */
    void (*on_data)(struct herdr_conn *conn, const char *data, size_t len, void *user);
    /* Last callback; cause says what the system said. The owner still closes. */
    void (*on_end)(struct herdr_conn *conn, enum herdr_end end, const char *cause, void *user);
};

/*
 * socket: absolute path, or NULL for the socket of session (NULL or "default": the unnamed one) by
 * Herdr's own rule from XDG_CONFIG_HOME and home. *error: invalid_params.
 */
int herdr_socket_path(char out[HERDR_SOCKET_PATH_SIZE], const char *socket, const char *session,
                      const char *home, struct shp_error *error);

/* Connect and send; line is copied, its newline added. Callbacks come from the loop. NOMEM. */
int herdr_conn_open(struct herdr_conn **out, uv_loop_t *loop, const char *path, const char *line,
                    size_t len, const struct herdr_conn_callbacks *callbacks, void *user);

/* Backpressure. Idempotent; no effect after on_end. */
void herdr_conn_read_start(struct herdr_conn *conn);
void herdr_conn_read_stop(struct herdr_conn *conn);

/* Ends at once; no callback comes any more and the memory goes when the handles are closed. */
void herdr_conn_close(struct herdr_conn *conn);

#endif
