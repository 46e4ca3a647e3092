/*
 * What the kinds of transport share: states and the two reports that move them. Private to
 * transport/.
 */
#ifndef SHP_TRANSPORT_INTERNAL_H
#define SHP_TRANSPORT_INTERNAL_H

#include "transport/transport.h"

enum shp_transport_state {
    SHP_TRANSPORT_NEW,
    SHP_TRANSPORT_OPENING,
    SHP_TRANSPORT_OPEN,
    SHP_TRANSPORT_CLOSING, /* by us, or by the peer or a failure: no callback but on_closed */
    SHP_TRANSPORT_CLOSED,
};

/* Time for queued output after close, and for a child to leave after that. */
#define SHP_TRANSPORT_FLUSH_MS 2000
#define SHP_TRANSPORT_EXIT_MS 2000

/* After broken output, time in which what the peer still said is read. */
#define SHP_TRANSPORT_DRAIN_MS 1000

/* Queued output: write takes no more above HIGH, on_writable comes below LOW. */
#define SHP_TRANSPORT_HIGH_BYTES (256 * 1024)
#define SHP_TRANSPORT_LOW_BYTES (64 * 1024)

void shp_transport_init(struct shp_transport *transport, const struct shp_transport_ops *ops,
                        uv_loop_t *loop);

/* From the loop. OPENING becomes OPEN; in another state nothing happens. */
void shp_transport_report_open(struct shp_transport *transport);
void shp_transport_report_read(struct shp_transport *transport, const uint8_t *data, size_t len);
void shp_transport_report_writable(struct shp_transport *transport);

/* From the loop, last: the transport may be freed when this returns. */
void shp_transport_report_closed(struct shp_transport *transport,
                                 const struct shp_transport_end *end);

/* The kind begins to end by itself. False: it was closing already. */
bool shp_transport_begin_close(struct shp_transport *transport);

#endif
