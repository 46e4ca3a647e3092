/*
 * One client connection: exactly one request line in, exactly one answer line out, then closed.
 * A method may hold the connection instead; a held connection is polled every 100 ms and ends
 * without a word when the client sends anything more or closes its write side.
 */
#ifndef HERDR_SIM_CONN_H
#define HERDR_SIM_CONN_H

#include "util.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define REQUEST_LINE_BYTES_MAX 1048576
#define REQUEST_LINE_MS 5000
#define WRITE_MS 5000

struct sim;
struct conn;
struct method;

struct held_ops {
    /* Every 100 ms; may answer or close. Not called while a write is unfinished. */
    void (*poll)(struct sim *sim, struct conn *c, void *state);
    void (*free)(void *state);
};

enum conn_state { CONN_READING, CONN_QUEUED, CONN_HELD, CONN_ANSWERED, CONN_CLOSED };

struct conn {
    struct conn *next;
    struct sim *sim;
    uint64_t number;
    enum conn_state state;
    uv_pipe_t pipe;
    uv_timer_t timer; /* request line deadline, later write deadline */
    int open_handles;
    char *line;
    size_t len, cap;
    bool extra; /* bytes followed the request line */
    char *id;
    const struct method *method;
    cJSON *request;
    const cJSON *params; /* inside request */
    uint64_t queued_ms;
    uint64_t queue_order;
    bool lose_answer; /* a fault: act, but never answer */
    const struct held_ops *ops;
    void *held;
    bool watching;
    unsigned writes;
    bool close_when_written;
};

void conn_accept(struct sim *sim, uv_stream_t *server);
/* {"type":type}: add the other fields, then hand it to conn_answer. */
cJSON *result_new(const char *type);
/* Takes result. The connection closes once it is written. */
void conn_answer(struct conn *c, cJSON *result);
void conn_error(struct conn *c, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Takes state. watch: further bytes or a half-close end the connection. */
void conn_hold(struct conn *c, const struct held_ops *ops, void *state, bool watch);
/* First answer line of a held connection that stays open. Takes result. */
void conn_answer_keep(struct conn *c, cJSON *result);
/* Lines of a held connection, newlines included. */
void conn_send_lines(struct conn *c, const struct str *lines, bool close_after);
void conn_close(struct conn *c);
/* Answers a line that is not JSON. */
void conn_garbage(struct conn *c);
/* One turn of every held connection. */
void conn_poll_all(struct sim *sim);
void conn_close_all(struct sim *sim);

#endif
