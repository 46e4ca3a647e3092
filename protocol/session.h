/*
 * The protocol engine of one link: bytes in, events out, and back (spec/protocol.md).
 *
 * It does no I/O, owns no clock and makes no random bytes: the owner feeds received bytes, takes
 * events until there are none, sends what shp_session_output shows, and calls shp_session_tick
 * at shp_session_deadline_ms. There are no callbacks, so nothing can re-enter.
 *
 *     shp_session_feed -> shp_session_next_event ... -> shp_session_output / _consume_output
 *
 * A stream is one request with its response, or one notification. Each half is a HEAD (message,
 * JSON) and up to message_bytes_max of bulk bytes under credit and the link's bulk window. The engine keeps the table of our
 * pending requests: each ends in exactly one RESPONSE or FAILED event, also at the deadline, at a
 * cancel, and at the end of the session.
 *
 * All times are milliseconds of one monotonic clock of the owner.
 */
#ifndef SHP_PROTOCOL_SESSION_H
#define SHP_PROTOCOL_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define SHP_REQUEST_ID_BYTES 16
#define SHP_PSK_BYTES 32
#define SHP_MARKER_HEX 32

enum shp_role {
    SHP_ROLE_INITIATOR, /* opens odd streams: controller to helper, helper to receiver, pi-ext */
    SHP_ROLE_RESPONDER, /* opens even streams */
};

enum shp_suite {
    SHP_SUITE_NOISE, /* Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b, AEAD frames */
    SHP_SUITE_PLAIN, /* the same frames in the clear; hello frames instead of the handshake */
};

struct shp_session_config {
    enum shp_role role;
    enum shp_suite suite;
    const char *hello_json;          /* our hello, at most hello_bytes_max; copied */
    size_t hello_len;                /* a responder may pass 0 and call shp_session_set_hello */
    char marker[SHP_MARKER_HEX + 1]; /* noise: public marker of the launch, part of the prologue */
    uint8_t psk[SHP_PSK_BYTES];      /* noise initiator: the launch secret, fresh random bytes;
                                        a responder reads it from its input */
    uint8_t ephemeral[32];           /* noise: fresh random bytes for our ephemeral key */
    uint64_t now_ms;
};

struct shp_session;

/* Create; *out is the caller's (shp_session_free). INVALID: hello too long or marker malformed. */
int shp_session_new(struct shp_session **out, const struct shp_session_config *config);
void shp_session_free(struct shp_session *session); /* NULL is fine; wipes keys */

/* ---- bytes in, bytes out ------------------------------------------------------------------ */

/*
 * Take received bytes. *taken may be less than len when events are waiting: take the events, feed
 * the rest. 0 on success; a negative error means that the session is closed with a CLOSED event
 * waiting (PROTOCOL, AUTH, CREDIT, LIMIT, VERSION, NOMEM; CLOSED: the peer closed, or it was
 * closed before and the bytes are dropped).
 */
int shp_session_feed(struct shp_session *session, const uint8_t *in, size_t len, size_t *taken,
                     uint64_t now_ms);

/* The transport ended. Every pending request fails, then CLOSED(link_lost) comes. */
void shp_session_feed_end(struct shp_session *session, uint64_t now_ms);

/*
 * Bytes to send: borrowed until the next call of any function. Length 0: nothing, until something
 * is sent, received, or due. Bulk is encoded here, as far as the bulk
 * window reaches; what a pong lets go appears after the feed that took it. now_ms: round trips are
 * measured from it, so it must be of this moment.
 */
size_t shp_session_output(struct shp_session *session, const uint8_t **out, uint64_t now_ms);
void shp_session_consume_output(struct shp_session *session, size_t len);

/* ---- events ------------------------------------------------------------------------------- */

enum shp_event_type {
    SHP_EVENT_NONE,
    SHP_EVENT_HELLO,        /* responder, plain or noise: the peer's hello is there, ours may still
                               be set or the peer refused (shp_session_close). json */
    SHP_EVENT_ESTABLISHED,  /* both hellos exchanged; json: the peer's hello */
    SHP_EVENT_REQUEST,      /* a peer's request: stream, message, id, timeout_ms, json, fin */
    SHP_EVENT_NOTIFICATION, /* stream, message, json, fin */
    SHP_EVENT_RESPONSE,     /* answer to ours: stream, user, json, fin. With fin the stream ends */
    SHP_EVENT_FAILED,       /* our request ended without an answer or in the middle of its bulk:
                               stream, user, error (code, step, cause, outcome); json: the error
                               object of the peer or "" */
    SHP_EVENT_BULK,         /* stream, user (of our requests), data, fin */
    SHP_EVENT_CANCELED,     /* the peer gave its request up (or broke its notification off), or its
                               time is over: no answer is wanted any more */
    SHP_EVENT_WRITABLE,     /* bulk that shp_session_send_bulk did not take can be offered again */
    SHP_EVENT_CLOSED,       /* last event: error says why (code 0: orderly) */
};

struct shp_event {
    enum shp_event_type type;
    uint32_t stream;
    uint16_t message; /* enum shp_message */
    bool fin;         /* nothing follows in this half */
    uint8_t id[SHP_REQUEST_ID_BYTES];
    uint32_t timeout_ms; /* REQUEST: what the asker still grants */
    void *user;          /* RESPONSE, FAILED, BULK of our requests: as given to send_request */
    const char *json;    /* NUL-terminated, syntactically valid JSON object; "" where none */
    size_t json_len;
    const uint8_t *data;
    size_t data_len;
    struct shp_error error;
};

/*
 * Next event; false: none. The event and what it points to are borrowed until the next call of
 * shp_session_next_event or shp_session_feed.
 */
bool shp_session_next_event(struct shp_session *session, struct shp_event *event);

/* ---- sending ------------------------------------------------------------------------------ */

/* Responder, after HELLO: our hello. STATE when it was set already. */
int shp_session_set_hello(struct shp_session *session, const char *json, size_t len);

/*
 * Ask. id: made by the asker before the first attempt, copied. timeout_ms counts from now, at
 * least 1, at most request_timeout_ms_max. fin: no bulk follows. *stream is the handle of the
 * request until its last event.
 * STATE: not established or closing; LIMIT: too many open streams, or json too long; AGAIN: the
 * output is full even for HEADs (offer again after WRITABLE).
 */
int shp_session_send_request(struct shp_session *session, uint16_t message,
                             const uint8_t id[SHP_REQUEST_ID_BYTES], uint32_t timeout_ms,
                             const char *json, size_t json_len, bool fin, void *user,
                             uint64_t now_ms, uint32_t *stream);

/* Answer a peer's request once. NOT_FOUND: it was canceled or never was (drop the answer). */
int shp_session_send_response(struct shp_session *session, uint32_t stream, const char *json,
                              size_t json_len, bool fin);

/*
 * Answer with an error: {"code","message","step","cause","next","outcome"} is made from it.
 * NOT_FOUND as above, also after a response: break that off with shp_session_cancel. AGAIN.
 */
int shp_session_send_error(struct shp_session *session, uint32_t stream,
                           const struct shp_error *error);

/* Tell. *stream (may be NULL when fin) is the handle for following bulk. */
int shp_session_send_notification(struct shp_session *session, uint16_t message, const char *json,
                                  size_t json_len, bool fin, uint32_t *stream);

/*
 * Bulk of our open half. Copies; *taken may be less than len (even 0): offer the rest after
 * WRITABLE. fin marks the end and is taken only with the last byte (*taken == len).
 * NOT_FOUND: the stream is gone; LIMIT: above message_bytes_max.
 */
int shp_session_send_bulk(struct shp_session *session, uint32_t stream, const uint8_t *data,
                          size_t len, bool fin, size_t *taken);

/*
 * Give a stream up: our request is canceled (FAILED with canceled follows), or our half is broken
 * off with code (enum shp_code). NOT_FOUND: it has ended.
 */
int shp_session_cancel(struct shp_session *session, uint32_t stream, int code);

/*
 * Bytes of BULK events were used up: gives that credit back to the peer. Whoever does not call it
 * holds the peer to stream_credit_bytes. Unknown streams are ignored.
 */
void shp_session_consume(struct shp_session *session, uint32_t stream, size_t len);

/* ---- time and end ------------------------------------------------------------------------- */

/* Time of the next shp_session_tick; UINT64_MAX: never. */
uint64_t shp_session_deadline_ms(const struct shp_session *session);

/* Deadlines of requests, pings, silence of the peer, handshake. */
void shp_session_tick(struct shp_session *session, uint64_t now_ms);

/* Ping at once (wake from sleep). The peer must answer before silence_max_ms / 3. */
void shp_session_probe(struct shp_session *session, uint64_t now_ms);

/* Ping at once for the sake of shp_session_rtt_us: no deadline follows from it. */
void shp_session_measure(struct shp_session *session, uint64_t now_ms);

/*
 * End: CLOSE with code (0: orderly) and text goes out after what is queued of control and HEADs;
 * pending requests fail; CLOSED follows. The owner drains the output, then closes the transport.
 */
void shp_session_close(struct shp_session *session, int code, const char *text);

bool shp_session_established(const struct shp_session *session);
bool shp_session_closed(const struct shp_session *session);

/* Smoothed round trip of pings in microseconds, those behind our own bulk left out; 0: not measured
 * yet. */
uint32_t shp_session_rtt_us(const struct shp_session *session);

/* Most bulk, in bytes, that may be under way to the peer now (spec/protocol.md 5). */
uint32_t shp_session_bulk_window(const struct shp_session *session);

/* Requests of ours that have no last event yet. */
size_t shp_session_pending(const struct shp_session *session);

#endif
