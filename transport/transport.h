/*
 * A byte stream to a peer on one libuv loop; knows nothing of frames. One interface for all kinds
 * (in memory, own descriptors, child process, ssh), one conformance suite (tests/conformance).
 *
 * Life: shp_transport_*_new (kind-specific) -> shp_transport_open -> on_open -> reads and writes ->
 * shp_transport_close -> on_closed exactly once -> shp_transport_free. A transport that fails or
 * whose peer ends calls on_closed by itself; then shp_transport_free only. Callbacks come from the
 * loop, never inside a call of this interface, and may call any function but shp_transport_free
 * (which is allowed in on_closed, and before shp_transport_open).
 *
 * The first transport of a process makes it ignore SIGPIPE where that signal still has its default
 * action: a peer that is gone is an error here, not a death.
 */
#ifndef SHP_TRANSPORT_TRANSPORT_H
#define SHP_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"

struct shp_transport;
struct shp_ssh_facts;

/* How it ended. Borrowed for the on_closed call. */
struct shp_transport_end {
    struct shp_error error; /* code 0: closed by us, or the peer ended in order */
    bool exited;            /* a child process: exit_status and term_signal hold */
    int64_t exit_status;
    int term_signal;
    const char *diagnostic;          /* cleaned tail of standard error, "" where none */
    const struct shp_ssh_facts *ssh; /* SSH transports: transport/ssh.h; else NULL */
};

struct shp_transport_callbacks {
    void (*on_open)(struct shp_transport *transport, void *user);
    /* Bytes of the peer; borrowed. Not called while reading is stopped. */
    void (*on_read)(struct shp_transport *transport, const uint8_t *data, size_t len, void *user);
    /* After a write that was not taken whole: room again. */
    void (*on_writable)(struct shp_transport *transport, void *user);
    void (*on_closed)(struct shp_transport *transport, const struct shp_transport_end *end,
                      void *user);
};

/* What a kind of transport implements; the wrappers below check the states. */
struct shp_transport_ops {
    const char *name; /* "pipe", "stdio", "process", "openssh" */
    int (*open)(struct shp_transport *transport);
    size_t (*write)(struct shp_transport *transport, const uint8_t *data, size_t len);
    void (*read_start)(struct shp_transport *transport);
    void (*read_stop)(struct shp_transport *transport);
    void (*close)(struct shp_transport *transport);
    void (*free)(struct shp_transport *transport);
};

/* Common head of every kind; kinds embed it first. Fields are private to transport/. */
struct shp_transport {
    const struct shp_transport_ops *ops;
    uv_loop_t *loop;
    struct shp_transport_callbacks callbacks;
    void *user;
    int state;
    bool reading; /* the user wants on_read */
};

/* Start. 0, or an error for what is wrong at once (STATE); later failures come as on_closed. */
int shp_transport_open(struct shp_transport *transport,
                       const struct shp_transport_callbacks *callbacks, void *user);

/*
 * Offer bytes: copies what it takes and returns how many, from 0 to len. Less than len: on_writable
 * comes when there is room (queue below its low watermark). 0 in every state but open.
 */
size_t shp_transport_write(struct shp_transport *transport, const uint8_t *data, size_t len);

/* Reading starts on; stop gives backpressure to the peer. Idempotent. */
void shp_transport_read_start(struct shp_transport *transport);
void shp_transport_read_stop(struct shp_transport *transport);

/*
 * Close: what was taken by write is flushed for at most 2 s, then the peer sees the end; a child
 * gets 2 s more to exit, then SIGKILL to its process group. on_closed follows. Idempotent.
 */
void shp_transport_close(struct shp_transport *transport);

/* NULL is fine. Only before open or after on_closed. */
void shp_transport_free(struct shp_transport *transport);
/* The kind's name; static. */
const char *shp_transport_name(const struct shp_transport *transport);

/* ---- kinds -------------------------------------------------------------------------------- */

/*
 * The _new functions return 0 and a transport that the caller owns (shp_transport_free), or
 * INVALID where it is named below, or NOMEM. Nothing starts before shp_transport_open.
 */

/* Two ends in one process, for tests. */
struct shp_pipe_options {
    uint64_t seed;       /* for the splitting of chunks; 0: whole writes */
    uint32_t delay_ms;   /* one-way delay */
    size_t window_bytes; /* bytes under way, each way, before write takes no more; 0: 256 KiB */
    int64_t cut_after;   /* the link breaks after that many bytes of both ways; negative: never */
};
int shp_transport_pipe_new(struct shp_transport **a, struct shp_transport **b, uv_loop_t *loop,
                           const struct shp_pipe_options *options);

/*
 * Descriptors that are ours, such as 0 and 1: pipes, sockets or terminals. Taken over on success:
 * 0 to 2 are replaced by /dev/null (so that a stray printf cannot reach the wire), others are
 * closed; non-blocking while in use, and put back to their old mode before they are closed.
 * INVALID: not such a descriptor.
 */
int shp_transport_stdio_new(struct shp_transport **out, uv_loop_t *loop, int fd_in, int fd_out);

/*
 * A connected or accepted unix socket given as an open uv_pipe_t from shp_malloc on the same loop:
 * taken over, closed and freed by the transport. Its data field is ours from here on.
 */
int shp_transport_socket_new(struct shp_transport **out, uv_loop_t *loop, uv_pipe_t *pipe);

/* Connect to a unix socket path, copied. INVALID: longer than such a path may be. */
int shp_transport_unix_new(struct shp_transport **out, uv_loop_t *loop, const char *path);

/*
 * A child process by argv (no shell), three pipes, own process group, every other descriptor
 * close-on-exec, environment as given (NULL: ours less HERDR_* and PI_*). Strings are copied.
 * INVALID: no argv.
 */
struct shp_process_options {
    char *const *argv;
    char *const *env; /* NULL: ours, without HERDR_* and PI_* */
    const char *set;  /* NULL, or "NAME=value" that replaces NAME in it */
    const char *cwd;  /* NULL: ours */
    /* NULL, or who takes standard error as it comes (from the loop, borrowed); none of it is in the
     * end's diagnostic then. */
    void (*on_stderr)(const char *data, size_t len, void *user);
    void *stderr_user;
};
int shp_transport_process_new(struct shp_transport **out, uv_loop_t *loop,
                              const struct shp_process_options *options);

#endif
