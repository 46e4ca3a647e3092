/*
 * What the files of the session share. Inside protocol/ only.
 *
 *     handshake.c    from the first byte to the two hellos
 *     session_in.c   frames of the peer become events
 *     session_out.c  calls of the owner become frames
 *     session.c      life, events, time, end
 *
 * Two rules keep events safe without a queue. A frame makes at most one event, and no byte is taken
 * while an event waits, so one slot is enough. Ends that we make ourselves (deadline, cancel, end
 * of the session) are kept as ended streams, which exist already and need no memory.
 */
#ifndef SHP_PROTOCOL_SESSION_INTERNAL_H
#define SHP_PROTOCOL_SESSION_INTERNAL_H

#include "base/buf.h"
#include "framing/frame.h"
#include "framing/noise.h"
#include "protocol/messages.h"
#include "protocol/session.h"
#include "protocol/stream.h"
#include "protocol/window.h"

/* Bulk is encoded only while less than this waits encoded: a HEAD or a control frame that comes
 * later is behind no more than this and one frame. */
#define SHP_OUTPUT_BULK_MARK 65536

/* HEADs stop here and leave the rest of the reserve to control frames. */
#define SHP_OUTPUT_HEADS_MAX (SHP_LIMIT_OUTPUT_BYTES_MAX + SHP_LIMIT_CONTROL_RESERVE_BYTES / 2)
#define SHP_OUTPUT_MAX (SHP_LIMIT_OUTPUT_BYTES_MAX + SHP_LIMIT_CONTROL_RESERVE_BYTES)

enum shp_session_state {
    SHP_SESSION_READ_PSK,     /* noise responder: the launch secret */
    SHP_SESSION_READ_MESSAGE, /* noise: the peer's handshake message */
    SHP_SESSION_READ_HELLO,   /* plain: the peer's hello frame */
    SHP_SESSION_WAIT_HELLO,   /* responder: the owner's answer to HELLO */
    SHP_SESSION_OPEN,
    SHP_SESSION_CLOSED, /* nothing is read; output may still be drained */
};

struct shp_handshake {
    struct shp_noise noise;
    char marker[SHP_MARKER_HEX];
    uint8_t ephemeral[32];
    struct shp_buf in; /* noise: psk block or message, until it is whole */
    char *hello;       /* ours; NULL: not set yet */
    size_t hello_len;
};

struct shp_session {
    enum shp_role role;
    enum shp_suite suite;
    enum shp_session_state state;
    struct shp_handshake *handshake; /* NULL once it is over */
    char *peer_hello;
    size_t peer_hello_len;

    struct shp_noise_cipher send;
    struct shp_noise_cipher receive;
    struct shp_frame_reader reader;
    bool trim_wanted; /* the reader's buffer goes with the next feed: until then it is borrowed */

    struct shp_buf out;
    bool out_secret;         /* the launch secret is in it: wipe when drained */
    uint64_t out_appended;   /* bytes ever put into out */
    uint64_t out_consumed;   /* bytes ever taken from it */
    bool output_was_refused; /* the owner waits for WRITABLE */

    struct shp_streams streams;
    uint32_t next_stream; /* ours; 0: used up */
    uint32_t last_peer_stream;
    size_t pending;
    uint64_t dropped_notifications;

    /* events that wait */
    struct shp_event slot; /* type NONE: free */
    bool slot_ends_ours;   /* the slot is the last event of a request of ours */
    bool hello_waits;
    bool hello_was_given;
    bool established_waits;
    bool writable_waits;
    bool closed_waits;
    struct shp_error closed; /* why, once state is CLOSED */

    /* time */
    uint64_t now_ms;
    uint64_t handshake_deadline_ms;
    uint64_t last_sent_ms;
    uint64_t last_received_ms;
    uint64_t probe_deadline_ms;    /* UINT64_MAX: none */
    uint64_t requests_deadline_ms; /* not above the earliest deadline of a stream */
    uint64_t ping_number;          /* content of our newest ping */
    uint32_t rtt_us;
    struct shp_window window; /* of our bulk */
};

/* ---- session.c ---- */

/*
 * End the session from within: every pending request fails, CLOSED waits, and a CLOSE frame goes
 * out where the peer would understand and believe it. Returns err, so that a caller can pass it on.
 */
int shp__session_fail(struct shp_session *session, int err, int code, const char *step,
                      const char *cause_format, ...) __attribute__((format(printf, 5, 6)));
bool shp__session_has_event(const struct shp_session *session);

/* ---- handshake.c ---- */

int shp__handshake_begin(struct shp_session *session, const struct shp_session_config *config);
/* Takes bytes in the states before OPEN. */
int shp__handshake_feed(struct shp_session *session, const uint8_t *in, size_t len, size_t *taken);
/* Responder: our hello is there and the peer's was shown; answer. */
int shp__handshake_answer(struct shp_session *session);
int shp__handshake_set_hello(struct shp_session *session, const char *json, size_t len);
void shp__handshake_free(struct shp_session *session);

/* ---- session_in.c ---- */

/* One frame at most. */
int shp__session_read_frame(struct shp_session *session, const uint8_t *in, size_t len,
                            size_t *taken, struct shp_frame *frame, bool *complete);

/* ---- session_out.c ---- */

/* Append one frame of two payload parts. LIMIT: limit would be exceeded; NOMEM. */
int shp__session_put_frame(struct shp_session *session, size_t limit, uint8_t type, bool fin,
                           uint32_t stream, const uint8_t *a, size_t a_len, const void *b,
                           size_t b_len);
/* Result of putting a frame that must go out: on an error the session fails, since the peer does
 * not read, or without memory. Returns err. */
int shp__session_must_put(struct shp_session *session, int err);
/* A control frame, which must go out. */
int shp__session_put_control(struct shp_session *session, uint8_t type, uint32_t stream,
                             const void *payload, size_t len);
int shp__session_put_cancel(struct shp_session *session, uint32_t stream, int code);
/* quiet: it measures the line; otherwise it marks the bulk before it. */
int shp__session_put_ping(struct shp_session *session, bool quiet);
/* Error head on a stream of the peer. */
int shp__session_put_error(struct shp_session *session, uint32_t stream,
                           const struct shp_error *error);
/* What is known of a request whose answer will not come. */
enum shp_outcome shp__session_outcome(const struct shp_session *session,
                                      const struct shp_stream *stream);

#endif
