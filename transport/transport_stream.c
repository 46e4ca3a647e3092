#include "transport/transport_stream.h"

#include "base/alloc.h"
#include "protocol/messages.h"

#include <string.h>

static void on_end(struct shp_duplex *duplex, int error);
static void finish(struct shp_duplex *duplex);

static const struct shp_duplex_events events = {.on_end = on_end, .on_drained = finish};

void shp_uv_stream_init(struct shp_uv_stream *stream, const struct shp_transport_ops *ops,
                        uv_loop_t *loop)
{
    shp_transport_init(&stream->base, ops, loop);
    shp_duplex_init(&stream->duplex, &stream->base, &events);
}

static void report_open(struct shp_duplex *duplex)
{
    shp_transport_report_open(duplex->transport);
}

void shp_uv_stream_opened(struct shp_uv_stream *stream)
{
    stream->duplex.in = (uv_stream_t *)stream->in;
    stream->duplex.out = (uv_stream_t *)stream->out;
    shp_duplex_wait(&stream->duplex, 0, report_open);
}

static void release(struct shp_uv_stream *stream)
{
    shp_duplex_fini(&stream->duplex);
    shp_free(stream->in);
    if (stream->out != stream->in)
        shp_free(stream->out);
    shp_free(stream);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct shp_duplex *duplex = handle->data;
    struct shp_uv_stream *stream = (struct shp_uv_stream *)duplex->transport;
    struct shp_transport_end end = {.error = stream->error, .diagnostic = ""};

    if (--stream->handles > 0)
        return;
    if (stream->unopened)
        release(stream);
    else
        shp_transport_report_closed(&stream->base, &end);
}

static void close_handle(struct shp_uv_stream *stream, uv_handle_t *handle)
{
    handle->data = &stream->duplex;
    stream->handles++;
    uv_close(handle, on_handle_closed);
}

static void finish(struct shp_duplex *duplex)
{
    struct shp_uv_stream *stream = (struct shp_uv_stream *)duplex->transport;

    if (stream->closing)
        return;
    stream->closing = true;
    if (stream->before_close != NULL)
        stream->before_close(stream);
    close_handle(stream, (uv_handle_t *)&duplex->timer);
    if (stream->in != NULL)
        close_handle(stream, (uv_handle_t *)stream->in);
    if (stream->out != NULL && stream->out != stream->in)
        close_handle(stream, (uv_handle_t *)stream->out);
}

/* What was taken is still wanted by a peer that only ended its own half. */
static void flush(struct shp_uv_stream *stream)
{
    if (stream->duplex.out != NULL && shp_duplex_queued(&stream->duplex) > 0)
        shp_duplex_wait(&stream->duplex, SHP_TRANSPORT_FLUSH_MS, finish);
    else
        finish(&stream->duplex);
}

void shp_uv_stream_fail(struct shp_uv_stream *stream, const char *step, int uv_error)
{
    if (!shp_transport_begin_close(&stream->base))
        return;
    shp_error_set(&stream->error, SHP_CODE_LINK_LOST, NULL, step, "%s", uv_strerror(uv_error));
    stream->error.outcome = SHP_OUTCOME_UNKNOWN;
    finish(&stream->duplex);
}

static void on_end(struct shp_duplex *duplex, int error)
{
    struct shp_uv_stream *stream = (struct shp_uv_stream *)duplex->transport;

    if (error != 0)
        shp_uv_stream_fail(stream, "connection", error);
    else if (shp_transport_begin_close(&stream->base))
        flush(stream);
}

size_t shp_uv_stream_write(struct shp_transport *transport, const uint8_t *data, size_t len)
{
    return shp_duplex_write(&((struct shp_uv_stream *)transport)->duplex, data, len);
}

void shp_uv_stream_read_start(struct shp_transport *transport)
{
    shp_duplex_read_start(&((struct shp_uv_stream *)transport)->duplex);
}

void shp_uv_stream_read_stop(struct shp_transport *transport)
{
    shp_duplex_read_stop(&((struct shp_uv_stream *)transport)->duplex);
}

void shp_uv_stream_close(struct shp_transport *transport)
{
    struct shp_uv_stream *stream = (struct shp_uv_stream *)transport;

    if (stream->duplex.in != NULL)
        shp_duplex_read_stop(&stream->duplex);
    flush(stream);
}

void shp_uv_stream_free(struct shp_transport *transport)
{
    struct shp_uv_stream *stream = (struct shp_uv_stream *)transport;

    if (transport->state == SHP_TRANSPORT_NEW) {
        stream->unopened = true;
        finish(&stream->duplex);
    } else {
        release(stream);
    }
}
