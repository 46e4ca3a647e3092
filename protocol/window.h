/*
 * How much bulk one side of a link may have under way. spec/protocol.md 5.
 *
 * The sender puts a ping, a *mark*, behind every eighth of the window. The stream is in order, so
 * the pong of a mark proves that the bulk before it arrived, and tells the round trip of a line
 * that carries our bulk. While that stays near the *base* (the lowest round trip, that of an empty
 * line) the window grows; when it rises the window halves. A queue on the way, wherever it is, so
 * stays about as long as bulk_delay_ms and half of the base.
 *
 * Arithmetic only: no I/O, no clock, no memory of its own. Inside protocol/ only. Times are
 * milliseconds of the session's clock, which never goes back.
 */
#ifndef SHP_PROTOCOL_WINDOW_H
#define SHP_PROTOCOL_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pings under way whose pongs are waited for. A full window has about a dozen marks. */
#define SHP_WINDOW_MARKS_MAX 32

struct shp_window_mark {
    uint64_t number; /* of the ping */
    uint64_t sent_ms;
    uint64_t position; /* bulk sent before it */
    bool quiet;        /* not behind bulk of ours: it measures the line, not our queue */
};

struct shp_window {
    uint32_t bytes;
    bool opening; /* it never was too large: every acknowledged byte makes room for another one */
    uint64_t sent;
    uint64_t acknowledged;
    uint64_t marked;      /* sent before the newest mark */
    uint64_t held_at;     /* sent when it last held bulk back */
    uint64_t judged_from; /* marks up to here tell of a window that is gone */
    uint64_t last_sent_ms;
    uint64_t burst_ms;  /* begin of what goes at once */
    uint64_t burst;     /* bytes of it */
    uint64_t resume_ms; /* bulk is held back until then, pong or not; UINT64_MAX: it is not */
    bool base_known;
    uint64_t base_ms;
    uint64_t base_seen_ms; /* last round trip that was about the base */
    struct shp_window_mark marks[SHP_WINDOW_MARKS_MAX]; /* oldest first */
    size_t mark_count;
};

void shp_window_init(struct shp_window *window);

/*
 * The most that one frame of bulk may carry now, given what is staged; 0: nothing may go before a
 * pong comes, or before resume_ms. At most an eighth of the window, so that what is made meanwhile is behind little.
 */
size_t shp_window_frame(struct shp_window *window, size_t staged, uint64_t now_ms);

/* Bulk of a frame went out. */
void shp_window_sent(struct shp_window *window, size_t bytes, uint64_t now_ms);

/* A mark is wanted now: an eighth of the window is not marked, or no pong could open it. */
bool shp_window_wants_mark(const struct shp_window *window, bool blocked);

/* A ping went out. One that finds the table full is not waited for. */
void shp_window_mark(struct shp_window *window, uint64_t number, bool quiet, uint64_t now_ms);

/* What a pong told. */
struct shp_window_sample {
    uint64_t rtt_ms;
    bool quiet;
};

/* A pong came; false: to no ping that is waited for. */
bool shp_window_pong(struct shp_window *window, uint64_t number, uint64_t now_ms,
                     struct shp_window_sample *sample);

/* We slept: what is under way tells nothing of the line. */
void shp_window_distrust(struct shp_window *window);

#endif
