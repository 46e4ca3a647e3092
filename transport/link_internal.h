/* What link.c and link_streams.c share. Private to the link. */
#ifndef SHP_TRANSPORT_LINK_INTERNAL_H
#define SHP_TRANSPORT_LINK_INTERNAL_H

#include "transport/link.h"

/*
 * Bulk of answers that the link holds at a time before it gives credit to the oldest unfinished
 * answer only: 256 answers of 8 MiB each would be too much for a process beside a person's editor.
 */
#define SHP_LINK_HELD_BYTES_MAX (32u * 1024 * 1024)

/* Time for the last output of a session (its CLOSE frame) to leave. */
#define SHP_LINK_DRAIN_MS 2000

enum shp_link_state {
    SHP_LINK_OPENING,  /* the transport opens */
    SHP_LINK_PRELUDE,  /* the prelude owns the bytes */
    SHP_LINK_SESSION,  /* the session owns them */
    SHP_LINK_DRAINING, /* the session is closed, its output leaves */
    SHP_LINK_CLOSING,  /* the transport closes */
};

/* A request of ours without its last event. In order of asking. */
struct shp_link_ask {
    struct shp_link_ask *next;
    uint32_t stream;
    shp_link_answer_cb cb;
    void *user;
    char *json; /* result, once its bulk follows */
    uint8_t *bulk;
    size_t bulk_len;
    size_t bulk_size;
    size_t owed; /* used up, but not given back as credit yet */
    int failed;  /* enum shp_code: we gave it up for a reason of ours */
};

/* What is still to be sent of one half of a stream: a whole bulk, sometimes a head before it. */
struct shp_link_out {
    struct shp_link_out *next;
    uint32_t stream;
    char *head; /* response that the session did not take yet */
    struct shp_error *error;
    uint8_t *data;
    size_t len;
    size_t offset;
};

struct shp_link {
    uv_loop_t *loop;
    struct shp_transport *transport;
    struct shp_session *session;
    struct shp_session_config config;
    char *hello;
    struct shp_prelude prelude; /* feed NULL: none, or freed */
    struct shp_link_callbacks callbacks;
    void *user;
    enum shp_link_state state;
    uv_timer_t timer;
    uint64_t step_deadline_ms; /* of prelude or draining; UINT64_MAX: none */
    bool turn_due;             /* events wait that must come from the loop */
    bool dispatching;
    bool established;
    bool transport_closed;
    struct shp_error error; /* first reason of the end; code 0: orderly */
    bool has_error;
    struct shp_transport_end end;
    char *diagnostic;
    struct shp_link_ask *asks;
    size_t held_bytes;
    struct shp_link_out *outs;
};

/* link_streams.c */

/* Sends what the session takes of the queued heads and bulk. */
void shp_link_flush_outs(struct shp_link *link);
void shp_link_drop_out(struct shp_link *link, uint32_t stream);
void shp_link_free_streams(struct shp_link *link);

/* RESPONSE, BULK and FAILED events of our requests; call the answer callback when one is whole. */
void shp_link_ask_response(struct shp_link *link, const struct shp_event *event);
void shp_link_ask_bulk(struct shp_link *link, const struct shp_event *event);
void shp_link_ask_failed(struct shp_link *link, const struct shp_event *event);

/* link.c */

/* Something was given to the session: send it, and have its events and its deadline looked at. */
void shp_link_touched(struct shp_link *link);

#endif
