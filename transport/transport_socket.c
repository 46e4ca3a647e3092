/* Unix sockets: one that was accepted or connected elsewhere, and one that we connect to a path. */
#include "transport/transport_stream.h"

#include "base/alloc.h"

#include <string.h>

/* sun_path of Linux with its NUL; a longer path would be cut silently by some libuv versions. */
#define UNIX_PATH_BYTES 108

struct unix_client {
    struct shp_uv_stream stream;
    uv_connect_t request;
    char path[UNIX_PATH_BYTES];
};

static int socket_open(struct shp_transport *transport)
{
    shp_uv_stream_opened((struct shp_uv_stream *)transport);
    return SHP_OK;
}

static const struct shp_transport_ops socket_ops = {
    .name = "socket",
    .open = socket_open,
    .write = shp_uv_stream_write,
    .read_start = shp_uv_stream_read_start,
    .read_stop = shp_uv_stream_read_stop,
    .close = shp_uv_stream_close,
    .free = shp_uv_stream_free,
};

int shp_transport_socket_new(struct shp_transport **out, uv_loop_t *loop, uv_pipe_t *pipe)
{
    struct shp_uv_stream *stream = shp_calloc(1, sizeof(*stream));

    if (stream == NULL)
        return SHP_ERR_NOMEM;
    shp_uv_stream_init(stream, &socket_ops, loop);
    stream->in = pipe;
    stream->out = pipe;
    *out = &stream->base;
    return SHP_OK;
}

static void on_connect(uv_connect_t *request, int status)
{
    struct unix_client *client = request->data;

    if (status == UV_ECANCELED)
        return;
    if (status != 0)
        shp_uv_stream_fail(&client->stream, "connect", status);
    else
        shp_uv_stream_opened(&client->stream);
}

static int unix_open(struct shp_transport *transport)
{
    struct unix_client *client = (struct unix_client *)transport;
    uv_pipe_t *pipe = shp_malloc(sizeof(*pipe));

    if (pipe == NULL)
        return SHP_ERR_NOMEM;
    uv_pipe_init(transport->loop, pipe, 0);
    client->stream.in = pipe;
    client->stream.out = pipe;
    client->request.data = client;
    /* Failures come through on_connect too. */
    uv_pipe_connect(&client->request, pipe, client->path, on_connect);
    return SHP_OK;
}

static const struct shp_transport_ops unix_ops = {
    .name = "socket",
    .open = unix_open,
    .write = shp_uv_stream_write,
    .read_start = shp_uv_stream_read_start,
    .read_stop = shp_uv_stream_read_stop,
    .close = shp_uv_stream_close,
    .free = shp_uv_stream_free,
};

int shp_transport_unix_new(struct shp_transport **out, uv_loop_t *loop, const char *path)
{
    struct unix_client *client;
    size_t len = strlen(path);

    if (len == 0 || len >= UNIX_PATH_BYTES)
        return SHP_ERR_INVALID;
    client = shp_calloc(1, sizeof(*client));
    if (client == NULL)
        return SHP_ERR_NOMEM;
    shp_uv_stream_init(&client->stream, &unix_ops, loop);
    memcpy(client->path, path, len + 1);
    *out = &client->stream.base;
    return SHP_OK;
}
