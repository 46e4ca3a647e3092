/*
 * Transport over one or two uv_pipe_t that are ours: all of stdio and socket but the opening.
 * Private to transport/.
 */
#ifndef SHP_TRANSPORT_STREAM_H
#define SHP_TRANSPORT_STREAM_H

#include "transport/transport_duplex.h"

struct shp_uv_stream {
    struct shp_transport base;
    struct shp_duplex duplex;
    uv_pipe_t *in;  /* from shp_malloc */
    uv_pipe_t *out; /* may be in */
    struct shp_error error;
    unsigned handles; /* not closed yet: pipes and the timer */
    bool closing;     /* handles are being closed */
    bool unopened;    /* freed without having been opened */
    /* Before the handles are closed (restore modes); may be NULL. */
    void (*before_close)(struct shp_uv_stream *stream);
};

/* stream: zeroed memory from shp_malloc that is freed by shp_uv_stream_free. */
void shp_uv_stream_init(struct shp_uv_stream *stream, const struct shp_transport_ops *ops,
                        uv_loop_t *loop);

/* The pipes are open: on_open follows from the loop. */
void shp_uv_stream_opened(struct shp_uv_stream *stream);

/* Ends with a libuv error, from the loop. */
void shp_uv_stream_fail(struct shp_uv_stream *stream, const char *step, int uv_error);

/* ops of every stream kind but open */
size_t shp_uv_stream_write(struct shp_transport *transport, const uint8_t *data, size_t len);
void shp_uv_stream_read_start(struct shp_transport *transport);
void shp_uv_stream_read_stop(struct shp_transport *transport);
void shp_uv_stream_close(struct shp_transport *transport);
void shp_uv_stream_free(struct shp_transport *transport);

#endif
