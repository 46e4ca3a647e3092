/*
 * Streams of one session: the table, the two halves, and the order in which they end.
 *
 * Inside protocol/ only. A stream is open while it is in the table. Ended streams whose last event
 * was not taken yet wait in a list; their numbers are free of meaning for the peer by then.
 *
 * The life of a half: IDLE -> OPEN (its HEAD went by) -> ENDED (FIN). A notification has the
 * sender's half only; the other one is ENDED from the start.
 */
#ifndef SHP_PROTOCOL_STREAM_H
#define SHP_PROTOCOL_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/map.h"
#include "framing/credit.h"

enum shp_half {
    SHP_HALF_IDLE,
    SHP_HALF_OPEN,
    SHP_HALF_ENDED,
};

struct shp_stream {
    uint32_t id;
    uint16_t message;
    bool ours;         /* we opened it */
    bool notification; /* one half only */
    bool in_ignored;   /* the answer is complete: what still comes of the question is dropped */
    enum shp_half out;
    enum shp_half in;
    void *user;
    uint64_t deadline_ms; /* UINT64_MAX: none */
    uint64_t head_end;    /* ours: position in the session's output behind the HEAD */

    /* our bulk */
    struct shp_credit_out out_credit;
    uint32_t out_bytes;   /* taken from the owner */
    struct shp_buf stage; /* taken, within credit, not encoded */
    bool fin_staged;
    bool wants_credit; /* the owner was told to wait */
    bool in_turn;      /* in the round of bulk senders */
    struct shp_stream *turn_next;

    /* the peer's bulk */
    struct shp_credit_in in_credit;
    uint32_t in_bytes;

    /* how it ended, for the event that is still to come */
    int end_code;
    enum shp_outcome end_outcome;

    struct shp_stream *prev; /* list of open streams */
    struct shp_stream *next; /* list of open, or of ended streams */
};

struct shp_streams {
    struct shp_map map;
    struct shp_stream *open;
    size_t open_ours;
    size_t open_peers;
    struct shp_stream *ended_first;
    struct shp_stream *ended_last;
    struct shp_stream *turn_first; /* round of streams with bulk or FIN to encode */
    struct shp_stream *turn_last;
    size_t turn_count;
    size_t staged_bytes; /* sum of all stages */
};

void shp_streams_init(struct shp_streams *streams);
void shp_streams_fini(struct shp_streams *streams);

/* A new stream with both halves IDLE. LIMIT: that side has streams_open_max; NOMEM. */
int shp_streams_open(struct shp_streams *streams, uint32_t id, bool ours, struct shp_stream **out);

/* NULL: not open. */
struct shp_stream *shp_streams_find(const struct shp_streams *streams, uint32_t id);

/* Out of the table and freed. */
void shp_streams_drop(struct shp_streams *streams, struct shp_stream *stream);

/* Out of the table, and into the list of those that still owe the owner an event. */
void shp_streams_end(struct shp_streams *streams, struct shp_stream *stream, int code,
                     enum shp_outcome outcome);

/* First ended stream, out of the list; the caller frees it with shp_stream_free. NULL: none. */
struct shp_stream *shp_streams_take_ended(struct shp_streams *streams);
void shp_stream_free(struct shp_stream *stream);

/* Drop what is staged and leave the round. */
void shp_streams_unstage(struct shp_streams *streams, struct shp_stream *stream);

/* The round: put at its end (once), or take its first. */
void shp_streams_put_turn(struct shp_streams *streams, struct shp_stream *stream);
struct shp_stream *shp_streams_take_turn(struct shp_streams *streams);

/* Both halves went by. */
bool shp_stream_complete(const struct shp_stream *stream);

#endif
