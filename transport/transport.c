/*
 * The wrappers: they alone look at and move the states, so that a kind never sees a call that does
 * not fit.
 */
#include "transport/transport_internal.h"

#include <assert.h>
#include <signal.h>
#include <string.h>

static void ignore_sigpipe(void)
{
    struct sigaction old;

    if (sigaction(SIGPIPE, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
}

void shp_transport_init(struct shp_transport *transport, const struct shp_transport_ops *ops,
                        uv_loop_t *loop)
{
    ignore_sigpipe();
    transport->ops = ops;
    transport->loop = loop;
    transport->state = SHP_TRANSPORT_NEW;
    transport->reading = true;
}

int shp_transport_open(struct shp_transport *transport,
                       const struct shp_transport_callbacks *callbacks, void *user)
{
    int err;

    if (transport->state != SHP_TRANSPORT_NEW)
        return SHP_ERR_STATE;
    transport->callbacks = *callbacks;
    transport->user = user;
    transport->state = SHP_TRANSPORT_OPENING;
    err = transport->ops->open(transport);
    if (err != 0)
        transport->state = SHP_TRANSPORT_NEW;
    return err;
}

size_t shp_transport_write(struct shp_transport *transport, const uint8_t *data, size_t len)
{
    if (transport->state != SHP_TRANSPORT_OPEN || len == 0)
        return 0;
    return transport->ops->write(transport, data, len);
}

void shp_transport_read_start(struct shp_transport *transport)
{
    if (transport->reading)
        return;
    transport->reading = true;
    if (transport->state == SHP_TRANSPORT_OPEN)
        transport->ops->read_start(transport);
}

void shp_transport_read_stop(struct shp_transport *transport)
{
    if (!transport->reading)
        return;
    transport->reading = false;
    if (transport->state == SHP_TRANSPORT_OPEN)
        transport->ops->read_stop(transport);
}

void shp_transport_close(struct shp_transport *transport)
{
    if (shp_transport_begin_close(transport))
        transport->ops->close(transport);
}

void shp_transport_free(struct shp_transport *transport)
{
    if (transport == NULL)
        return;
    assert(transport->state == SHP_TRANSPORT_NEW || transport->state == SHP_TRANSPORT_CLOSED);
    transport->ops->free(transport);
}

const char *shp_transport_name(const struct shp_transport *transport)
{
    return transport->ops->name;
}

bool shp_transport_begin_close(struct shp_transport *transport)
{
    if (transport->state != SHP_TRANSPORT_OPENING && transport->state != SHP_TRANSPORT_OPEN)
        return false;
    transport->state = SHP_TRANSPORT_CLOSING;
    return true;
}

void shp_transport_report_open(struct shp_transport *transport)
{
    if (transport->state != SHP_TRANSPORT_OPENING)
        return;
    transport->state = SHP_TRANSPORT_OPEN;
    if (transport->callbacks.on_open != NULL)
        transport->callbacks.on_open(transport, transport->user);
    /* The callback may have stopped reading, or closed. */
    if (transport->state == SHP_TRANSPORT_OPEN && transport->reading)
        transport->ops->read_start(transport);
}

void shp_transport_report_read(struct shp_transport *transport, const uint8_t *data, size_t len)
{
    if (transport->state == SHP_TRANSPORT_OPEN && transport->callbacks.on_read != NULL)
        transport->callbacks.on_read(transport, data, len, transport->user);
}

void shp_transport_report_writable(struct shp_transport *transport)
{
    if (transport->state == SHP_TRANSPORT_OPEN && transport->callbacks.on_writable != NULL)
        transport->callbacks.on_writable(transport, transport->user);
}

void shp_transport_report_closed(struct shp_transport *transport,
                                 const struct shp_transport_end *end)
{
    assert(transport->state == SHP_TRANSPORT_CLOSING);
    transport->state = SHP_TRANSPORT_CLOSED;
    if (transport->callbacks.on_closed != NULL)
        transport->callbacks.on_closed(transport, end, transport->user);
}
