/*
 * The thread side of the libssh transport, and what it shares with the loop side
 * (transport_libssh.c). Private to the two.
 *
 * The worker has two references: the loop side's and the thread's. Who lets go last frees it, so
 * that a thread which is stuck can be left behind. What is marked so is touched under the lock.
 */
#ifndef SHP_TRANSPORT_LIBSSH_WORKER_H
#define SHP_TRANSPORT_LIBSSH_WORKER_H

#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <uv.h>

#include "protocol/messages.h"
#include "transport/transport_internal.h"
#include "transport/transport_libssh.h"
#include "transport/transport_tail.h"

#define SHP_LIBSSH_ADDRESSES_MAX 16

#define SHP_LIBSSH_NAME_MS 10000
#define SHP_LIBSSH_TCP_MS 10000
#define SHP_LIBSSH_KEX_MS 10000
#define SHP_LIBSSH_AUTH_MS 15000
#define SHP_LIBSSH_CHANNEL_MS 10000
#define SHP_LIBSSH_AGENT_MS 500

/* Bytes between the two sides; bounded by whoever puts. */
struct shp_libssh_queue {
    uint8_t *data;
    size_t len;
    size_t size;
};

struct shp_libssh_worker {
    uv_mutex_t lock;
    int refs;          /* locked */
    uv_async_t *async; /* locked; NULL: the loop side has left */
    int wake[2];       /* a byte in it wakes the thread; both ends non-blocking */

    /* The plan: written before the thread starts. */
    struct shp_ssh_config config;
    struct shp_ssh_files files;
    char *command;
    char *agents[SHP_LIBSSH_AGENTS_MAX];
    bool post_quantum;
    struct sockaddr_storage addresses[SHP_LIBSSH_ADDRESSES_MAX];
    size_t addresses_len;

    /* Shared, all locked. */
    struct shp_libssh_queue to_ssh;
    struct shp_libssh_queue from_ssh;
    bool ssh_is_full;  /* a write was not taken whole: tell when there is room */
    bool room_made;    /* tell it now */
    bool loop_is_full; /* the thread waits for room in from_ssh */
    bool close_wanted;
    bool opened;
    bool ended;
    uint64_t deadline_ns; /* of the phase that runs; 0: none */
    struct shp_ssh_facts facts;
    struct shp_error error;
    bool greeted; /* the server told its version */
    bool exited;
    int64_t exit_status;
    int term_signal;
    char diagnostic[SHP_TAIL_BYTES + 1]; /* cleaned; set with ended */
};

/* Appends; false: no memory. */
bool shp_libssh_queue_put(struct shp_libssh_queue *queue, const uint8_t *data, size_t len);

void shp_libssh_worker_wake(struct shp_libssh_worker *worker);
void shp_libssh_worker_unref(struct shp_libssh_worker *worker);

/* The thread. Drops its reference. */
void shp_libssh_worker_main(void *worker);

/* ---- inside the thread -------------------------------------------------------------------- */

struct shp_libssh_pump;

struct shp_libssh_run {
    struct shp_libssh_worker *worker;
    ssh_session session;
    ssh_channel channel;
    struct ssh_channel_callbacks_struct callbacks;
    int fd;                     /* the session's, or ours before it has one */
    struct stat socket;         /* what fd was when it was opened */
    struct shp_ssh_facts facts; /* published by shp_libssh_publish */
    struct shp_error error;
    uint64_t deadline_ns;
    struct shp_tail tail; /* text of the peer that may tell a person something */
    bool cancelled;
    bool greeted;
    bool socket_ready; /* of the last wait: the session's socket */
    bool heard;
    bool early;  /* output came before there was a pump; libssh has it */
    bool eof;    /* of the command's output */
    bool closed; /* by the peer: the channel */
    struct shp_libssh_pump *pump;
    bool exited;
    int64_t exit_status;
    int term_signal;
};

enum shp_libssh_wait {
    SHP_LIBSSH_READY,
    SHP_LIBSSH_TIMEOUT,
    SHP_LIBSSH_CANCELLED,
    SHP_LIBSSH_GONE, /* the session has ended */
};

/* Begins a phase with its deadline, and shows it to the loop side. */
void shp_libssh_phase(struct shp_libssh_run *run, enum shp_ssh_phase phase, uint32_t ms);
void shp_libssh_publish(struct shp_libssh_run *run);

void shp_libssh_drain_wake(struct shp_libssh_worker *worker);

/* Until the session wants to be called again. */
enum shp_libssh_wait shp_libssh_wait(struct shp_libssh_run *run);

/* Sets the error with what libssh says last. Returns false, as the steps do on failure. */
bool shp_libssh_fail(struct shp_libssh_run *run, int code, const char *step, const char *what);

/* A connected socket to one of the addresses, or -1 with the error set. */
int shp_libssh_connect(struct shp_libssh_run *run);

/* The steps of a connection; false: the error is set, or cancelled. */
bool shp_libssh_check_host(struct shp_libssh_run *run);
bool shp_libssh_login(struct shp_libssh_run *run);

/* The channel's life after the command has it; returns when it is over. */
void shp_libssh_pump(struct shp_libssh_run *run);
void shp_libssh_channel_watch(struct shp_libssh_run *run);

#endif
