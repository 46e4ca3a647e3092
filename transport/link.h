/*
 * A link joins one protocol session to one transport on one loop: it feeds, drains, ticks, and
 * turns the session's events into callbacks. It is the only place that knows both.
 *
 * Before the session an optional *prelude* owns the bytes (the bootstrap that finds the marker and
 * uploads the helper): it sees every received byte until it says where the session begins.
 *
 * Life: shp_link_open -> on_established -> traffic -> shp_link_close or loss -> on_closed exactly
 * once, from the loop, after every pending request got its completion -> the link frees itself
 * after on_closed returns. Pointers to it are invalid then.
 */
#ifndef SHP_TRANSPORT_LINK_H
#define SHP_TRANSPORT_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "protocol/session.h"
#include "transport/transport.h"

struct shp_link;

/* In the cause of auth_failed, before the text that came in the place of a frame. */
#define SHP_LINK_FOREIGN "what came is text: "

/* Result of a prelude step. */
enum shp_prelude_status {
    SHP_PRELUDE_MORE,   /* all bytes taken, more wanted */
    SHP_PRELUDE_READY,  /* the session begins after *taken bytes */
    SHP_PRELUDE_FAILED, /* *error says why; the link closes */
};

struct shp_prelude {
    /* Received bytes (len 0: the peer ended, or the deadline passed: ended tells). */
    enum shp_prelude_status (*feed)(void *prelude, const uint8_t *in, size_t len, size_t *taken,
                                    bool ended, struct shp_error *error);
    /* Bytes that the prelude wants sent, borrowed; consumed by consume. */
    size_t (*output)(void *prelude, const uint8_t **out);
    void (*consume)(void *prelude, size_t len);
    void (*free)(void *prelude);
    void *prelude;
    uint32_t timeout_ms; /* whole prelude, restarted by every upload progress */
};

/* A request of the peer that waits for our answer. */
struct shp_link_request {
    uint32_t stream;
    uint16_t message;
    uint8_t id[SHP_REQUEST_ID_BYTES];
    uint32_t timeout_ms;
};

/*
 * All come from the loop, never inside a call of this interface. json, data, error and end are
 * borrowed for the call. Each may be NULL; requests are answered unknown_message then.
 */
struct shp_link_callbacks {
    /* Responder: the peer's hello. Answer with shp_link_set_hello, or refuse with shp_link_close.
     */
    void (*on_hello)(struct shp_link *link, const char *json, void *user);
    /* Both hellos are exchanged: from here on requests are possible. */
    void (*on_established)(struct shp_link *link, const char *peer_hello, void *user);
    /* With fin false BULK follows in on_bulk. Keep the stream number and answer later. */
    void (*on_request)(struct shp_link *link, const struct shp_link_request *request,
                       const char *json, bool fin, void *user);
    /* With fin false BULK follows, as above. */
    void (*on_notification)(struct shp_link *link, uint32_t stream, uint16_t message,
                            const char *json, bool fin, void *user);
    /* Bulk of a peer's request or notification. Call shp_link_consume for what is used up. */
    void (*on_bulk)(struct shp_link *link, uint32_t stream, const uint8_t *data, size_t len,
                    bool fin, void *user);
    /* The peer gave its request up, or its time is over: an answer would be dropped. */
    void (*on_canceled)(struct shp_link *link, uint32_t stream, void *user);
    /* What was refused with AGAIN, or not taken whole, can be offered again. */
    void (*on_writable)(struct shp_link *link, void *user);
    /* Last. error: why (code 0: in order); end: how the transport ended. */
    void (*on_closed)(struct shp_link *link, const struct shp_error *error,
                      const struct shp_transport_end *end, void *user);
};

/* One answer to a request of ours, delivered whole. */
struct shp_link_answer {
    const struct shp_error *error; /* NULL: success */
    const char *json;              /* result, or the peer's error object; borrowed */
    /* Whole bulk, kept by the link up to message_bytes_max, and a NUL that does not count; NULL
     * when there was none. */
    const uint8_t *bulk;
    size_t bulk_len;
};
typedef void (*shp_link_answer_cb)(struct shp_link *link, const struct shp_link_answer *answer,
                                   void *user);

struct shp_link_options {
    struct shp_transport *transport;   /* not opened yet; the link owns it from here on success */
    struct shp_session_config session; /* psk, ephemeral and now_ms are filled in by the link */
    const struct shp_prelude *prelude; /* NULL: the session begins at once; copied, freed by us */
    struct shp_link_callbacks callbacks;
    void *user;
};

/* On failure (INVALID, NOMEM) the caller keeps transport and prelude. */
int shp_link_open(struct shp_link **out, uv_loop_t *loop, const struct shp_link_options *options);

/* In or after on_hello: our hello, copied. STATE: not asked for, or given before; INVALID, NOMEM.
 */
int shp_link_set_hello(struct shp_link *link, const char *json);

/* A fresh public marker of a launch: 32 hex digits. sodium_init was called. */
void shp_link_random_marker(char marker[SHP_MARKER_HEX + 1]);

/*
 * Ask and get one answer callback, never inside this call, also at deadline, cancel and loss.
 * json: the params; bulk: whole bulk in, copied (NULL: none). id NULL: a fresh random one.
 * *stream (may be NULL) is for shp_link_cancel. STATE: not established or closing; LIMIT: too many
 * open streams, json or bulk too long; AGAIN: too much output waits, ask again in on_writable.
 */
int shp_link_request(struct shp_link *link, uint16_t message, const uint8_t *id,
                     uint32_t timeout_ms, const char *json, const uint8_t *bulk, size_t bulk_len,
                     shp_link_answer_cb cb, void *user, uint32_t *stream);

/* Give our request up (its callback gets canceled), or break our half off with code (enum
 * shp_code). A stream that has ended is ignored. */
void shp_link_cancel(struct shp_link *link, uint32_t stream, int code);

/*
 * Answers, whole: the bulk is copied and sent under credit by the link, a head that finds the
 * output full waits. NOT_FOUND: the asker gave up, or the link is closing; drop the answer. LIMIT,
 * NOMEM: nothing was sent, answer with an error.
 */
int shp_link_respond(struct shp_link *link, uint32_t stream, const char *json, const uint8_t *bulk,
                     size_t bulk_len);
int shp_link_respond_error(struct shp_link *link, uint32_t stream, const struct shp_error *error);

/* A notification without bulk. STATE: not established; LIMIT: json too long, or too many open
 * streams; AGAIN: tell again in on_writable. */
int shp_link_notify(struct shp_link *link, uint16_t message, const char *json);

/*
 * Answers in pieces, for what is relayed: head (AGAIN as above), then bulk as
 * shp_session_send_bulk: *taken may be less than len, the rest goes in on_writable.
 */
int shp_link_respond_begin(struct shp_link *link, uint32_t stream, const char *json);
int shp_link_send_bulk(struct shp_link *link, uint32_t stream, const uint8_t *data, size_t len,
                       bool fin, size_t *taken);
/* Bytes of on_bulk were used up: their credit goes back to the peer. */
void shp_link_consume(struct shp_link *link, uint32_t stream, size_t len);

/* Orderly end, code and text for the peer; on_closed follows. */
void shp_link_close(struct shp_link *link, int code, const char *text);

/* Requests are possible: after on_established, before the end. */
bool shp_link_established(const struct shp_link *link);

/* As shp_session_probe, _rtt_us and _pending; 0 before there is a session. */
void shp_link_probe(struct shp_link *link);
uint32_t shp_link_rtt_us(const struct shp_link *link);
size_t shp_link_pending(const struct shp_link *link);

/* Of an SSH transport, borrowed until the next turn; NULL for others and once it is gone (then the
 * end that on_closed got has them). */
const struct shp_ssh_facts *shp_link_ssh_facts(const struct shp_link *link);

/* Static; "" once the transport is gone. */
const char *shp_link_transport_name(const struct shp_link *link);

#endif
