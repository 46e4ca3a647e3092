/*
 * Two libuv streams (or one, both ways) driven as the byte flow of a transport: bounded output with
 * watermarks, reading with stop and start, and one report of the end. Used by every kind that has
 * descriptors; the kind owns the handles, opens and closes them. Private to transport/.
 */
#ifndef SHP_TRANSPORT_DUPLEX_H
#define SHP_TRANSPORT_DUPLEX_H

#include "transport/transport_internal.h"

struct shp_duplex;

struct shp_duplex_events {
    /*
     * The flow ended: 0 for an orderly end of the peer, else a libuv error. From the loop; comes
     * once, and again at most once for each shp_duplex_discard.
     */
    void (*on_end)(struct shp_duplex *duplex, int error);
    /* The output became empty while the transport is closing. */
    void (*on_drained)(struct shp_duplex *duplex);
};

struct shp_duplex {
    struct shp_transport *transport;
    const struct shp_duplex_events *events;
    uv_stream_t *in;
    uv_stream_t *out;
    uv_timer_t timer; /* one wait at a time: drain here, the others by the kind */
    void (*timer_fn)(struct shp_duplex *duplex);
    uv_write_t write;
    uint8_t *waiting; /* taken, not yet given to libuv */
    size_t waiting_len;
    size_t waiting_size;
    uint8_t *flying; /* given to libuv */
    size_t flying_len;
    size_t flying_size;
    bool writing;
    bool blocked; /* a write was not taken whole */
    bool active;  /* uv_read_start holds */
    int broken;   /* libuv error of the output; what is queued is dropped */
};

/* Starts the timer handle (the kind closes it); in and out are set by the kind when they exist. */
int shp_duplex_init(struct shp_duplex *duplex, struct shp_transport *transport,
                    const struct shp_duplex_events *events);
void shp_duplex_fini(struct shp_duplex *duplex);

size_t shp_duplex_write(struct shp_duplex *duplex, const uint8_t *data, size_t len);
void shp_duplex_read_start(struct shp_duplex *duplex);
void shp_duplex_read_stop(struct shp_duplex *duplex);

/* Read and drop, so that a peer which is being closed can leave. */
void shp_duplex_discard(struct shp_duplex *duplex);

/* Bytes that were taken and are not written yet. 0 when the output is broken. */
size_t shp_duplex_queued(const struct shp_duplex *duplex);

/* One wait; replaces a running one. fn NULL: stop. */
void shp_duplex_wait(struct shp_duplex *duplex, uint64_t ms, void (*fn)(struct shp_duplex *duplex));

/* A buffer for one read callback, shared by all streams of a thread. */
void shp_duplex_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);

#endif
