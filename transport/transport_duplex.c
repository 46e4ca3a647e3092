/*
 * Output: a write goes to the descriptor at once when nothing waits; the rest is copied into
 * `waiting`. When libuv has finished `flying`, the two swap. Together they hold at most
 * SHP_TRANSPORT_HIGH_BYTES.
 *
 * Broken output does not end the flow at once: what the peer said before it went (often the reason)
 * is still in the input. It is read for SHP_TRANSPORT_DRAIN_MS at most.
 */
#include "transport/transport_duplex.h"

#include "base/alloc.h"

#include <string.h>

#define READ_BYTES (64 * 1024)
#define QUEUE_BYTES_MIN 4096

static void write_waiting(struct shp_duplex *duplex);

static void on_timer(uv_timer_t *timer)
{
    struct shp_duplex *duplex = timer->data;

    duplex->timer_fn(duplex);
}

int shp_duplex_init(struct shp_duplex *duplex, struct shp_transport *transport,
                    const struct shp_duplex_events *events)
{
    memset(duplex, 0, sizeof(*duplex));
    duplex->transport = transport;
    duplex->events = events;
    uv_timer_init(transport->loop, &duplex->timer);
    duplex->timer.data = duplex;
    return 0;
}

void shp_duplex_fini(struct shp_duplex *duplex)
{
    shp_free(duplex->waiting);
    shp_free(duplex->flying);
    duplex->waiting = NULL;
    duplex->flying = NULL;
}

void shp_duplex_wait(struct shp_duplex *duplex, uint64_t ms, void (*fn)(struct shp_duplex *duplex))
{
    duplex->timer_fn = fn;
    if (fn == NULL) {
        uv_timer_stop(&duplex->timer);
        return;
    }
    /* The cached time may be old after a long callback, and a wait must not be cut by that. */
    uv_update_time(duplex->transport->loop);
    uv_timer_start(&duplex->timer, on_timer, ms, 0);
}

static void report_broken(struct shp_duplex *duplex)
{
    shp_duplex_read_stop(duplex);
    duplex->events->on_end(duplex, duplex->broken);
}

static void break_output(struct shp_duplex *duplex, int error)
{
    if (duplex->broken != 0)
        return;
    duplex->broken = error;
    duplex->waiting_len = 0;
    if (duplex->transport->state == SHP_TRANSPORT_OPEN)
        shp_duplex_wait(duplex, duplex->transport->reading ? SHP_TRANSPORT_DRAIN_MS : 0,
                        report_broken);
}

static void after_write(uv_write_t *request, int status)
{
    struct shp_duplex *duplex = request->data;

    duplex->writing = false;
    duplex->flying_len = 0;
    if (status < 0) {
        if (status != UV_ECANCELED)
            break_output(duplex, status);
    } else if (duplex->waiting_len > 0) {
        write_waiting(duplex);
    }
    if (duplex->blocked && duplex->broken == 0 &&
        shp_duplex_queued(duplex) < SHP_TRANSPORT_LOW_BYTES) {
        duplex->blocked = false;
        shp_transport_report_writable(duplex->transport);
    }
    if (duplex->transport->state == SHP_TRANSPORT_CLOSING && shp_duplex_queued(duplex) == 0)
        duplex->events->on_drained(duplex);
}

static void write_waiting(struct shp_duplex *duplex)
{
    uint8_t *data = duplex->waiting;
    size_t size = duplex->waiting_size;
    uv_buf_t buf = uv_buf_init((char *)data, (unsigned)duplex->waiting_len);
    int err;

    duplex->waiting = duplex->flying;
    duplex->waiting_size = duplex->flying_size;
    duplex->flying = data;
    duplex->flying_size = size;
    duplex->flying_len = duplex->waiting_len;
    duplex->waiting_len = 0;
    duplex->write.data = duplex;
    err = uv_write(&duplex->write, duplex->out, &buf, 1, after_write);
    if (err < 0) {
        duplex->flying_len = 0;
        break_output(duplex, err);
    } else {
        duplex->writing = true;
    }
}

/* Copies what fits; false: no memory. */
static bool append(struct shp_duplex *duplex, const uint8_t *data, size_t len)
{
    size_t need = duplex->waiting_len + len;

    if (need > duplex->waiting_size) {
        size_t size =
            duplex->waiting_size < QUEUE_BYTES_MIN ? QUEUE_BYTES_MIN : duplex->waiting_size;
        uint8_t *grown;

        while (size < need)
            size *= 2;
        grown = shp_realloc(duplex->waiting, size);
        if (grown == NULL)
            return false;
        duplex->waiting = grown;
        duplex->waiting_size = size;
    }
    memcpy(duplex->waiting + duplex->waiting_len, data, len);
    duplex->waiting_len = need;
    return true;
}

size_t shp_duplex_write(struct shp_duplex *duplex, const uint8_t *data, size_t len)
{
    size_t taken = 0;
    size_t room;
    size_t rest;

    if (duplex->broken != 0)
        return 0;
    if (!duplex->writing && duplex->waiting_len == 0) {
        unsigned part = len > SHP_TRANSPORT_HIGH_BYTES ? SHP_TRANSPORT_HIGH_BYTES : (unsigned)len;
        uv_buf_t buf = uv_buf_init((char *)(uintptr_t)data, part);
        int written = uv_try_write(duplex->out, &buf, 1);

        if (written >= 0) {
            taken = (size_t)written;
        } else if (written != UV_EAGAIN) {
            break_output(duplex, written);
            return 0;
        }
    }
    room = SHP_TRANSPORT_HIGH_BYTES - duplex->waiting_len - duplex->flying_len;
    rest = len - taken < room ? len - taken : room;
    if (rest > 0) {
        if (!append(duplex, data + taken, rest)) {
            break_output(duplex, UV_ENOMEM);
            return taken;
        }
        taken += rest;
    }
    if (!duplex->writing && duplex->waiting_len > 0)
        write_waiting(duplex);
    if (taken < len)
        duplex->blocked = true;
    return taken;
}

size_t shp_duplex_queued(const struct shp_duplex *duplex)
{
    return duplex->broken != 0 ? 0 : duplex->waiting_len + duplex->flying_len;
}

static _Thread_local uint8_t read_buffer[READ_BYTES];

void shp_duplex_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init((char *)read_buffer, sizeof(read_buffer));
}

static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
    struct shp_duplex *duplex = stream->data;

    if (nread > 0) {
        shp_transport_report_read(duplex->transport, (const uint8_t *)buf->base, (size_t)nread);
    } else if (nread < 0) {
        shp_duplex_read_stop(duplex);
        duplex->events->on_end(duplex, nread == UV_EOF ? duplex->broken : (int)nread);
    }
}

void shp_duplex_read_start(struct shp_duplex *duplex)
{
    if (duplex->active)
        return;
    duplex->in->data = duplex;
    duplex->active = uv_read_start(duplex->in, shp_duplex_alloc, on_read) == 0;
}

void shp_duplex_read_stop(struct shp_duplex *duplex)
{
    if (duplex->active)
        uv_read_stop(duplex->in);
    duplex->active = false;
}

void shp_duplex_discard(struct shp_duplex *duplex)
{
    shp_duplex_read_start(duplex);
}
