/* The suite over the in-memory pair: whole writes, and split at random with delay. */
#include "transport_suite.h"

#include <string.h>

/* The peer: the other end, driven by callbacks. */
static struct {
    struct shp_transport *end;
    enum suite_peer what;
    uint8_t pending[300000];
    size_t pending_len;
    size_t left;
} peer;

static void push(void)
{
    size_t taken = shp_transport_write(peer.end, peer.pending, peer.pending_len);

    memmove(peer.pending, peer.pending + taken, peer.pending_len - taken);
    peer.pending_len -= taken;
    if (peer.pending_len == 0)
        shp_transport_read_start(peer.end);
    else
        shp_transport_read_stop(peer.end);
}

static void talk(void)
{
    uint8_t chunk[1000];

    memset(chunk, 'w', sizeof(chunk));
    while (peer.left > 0) {
        size_t len = peer.left < sizeof(chunk) ? peer.left : sizeof(chunk);
        size_t taken = shp_transport_write(peer.end, chunk, len);

        peer.left -= taken;
        if (taken < len)
            return;
    }
    shp_transport_close(peer.end);
}

static void on_open(struct shp_transport *transport, void *user)
{
    (void)user;
    switch (peer.what) {
    case SUITE_ECHO:
        break;
    case SUITE_TALKER:
    case SUITE_FLOOD:
        talk();
        break;
    case SUITE_VANISH:
        shp_transport_write(transport, (const uint8_t *)"x", 1);
        shp_transport_close(transport);
        break;
    default:
        shp_transport_read_stop(transport);
        break;
    }
}

static void on_read(struct shp_transport *transport, const uint8_t *data, size_t len, void *user)
{
    (void)transport;
    (void)user;
    if (peer.what != SUITE_ECHO)
        return;
    memcpy(peer.pending + peer.pending_len, data, len);
    peer.pending_len += len;
    push();
}

static void on_writable(struct shp_transport *transport, void *user)
{
    (void)transport;
    (void)user;
    if (peer.what == SUITE_ECHO)
        push();
    else
        talk();
}

static void on_closed(struct shp_transport *transport, const struct shp_transport_end *end,
                      void *user)
{
    (void)end;
    (void)user;
    peer.end = NULL;
    shp_transport_free(transport);
}

static struct shp_transport *make(void *context, uv_loop_t *loop, enum suite_peer what)
{
    static const struct shp_transport_callbacks callbacks = {
        .on_open = on_open,
        .on_read = on_read,
        .on_writable = on_writable,
        .on_closed = on_closed,
    };
    struct shp_transport *ours = NULL;

    memset(&peer, 0, sizeof(peer));
    peer.what = what;
    peer.left = what == SUITE_FLOOD ? SIZE_MAX : SUITE_WORDS_BYTES;
    if (shp_transport_pipe_new(&ours, &peer.end, loop, context) != 0)
        return NULL;
    shp_transport_open(peer.end, &callbacks, NULL);
    return ours;
}

/* The deaf peer does not see our end. */
static void unmake(void *context)
{
    (void)context;
    if (peer.end != NULL)
        shp_transport_close(peer.end);
}

int main(void)
{
    struct shp_pipe_options whole = {.cut_after = -1};
    struct shp_pipe_options split = {
        .seed = 42, .delay_ms = 1, .window_bytes = 50000, .cut_after = -1};
    const struct suite_kind kinds[] = {
        {.name = "pipe", .make = make, .unmake = unmake, .context = &whole},
        {.name = "pipe, split and delayed", .make = make, .unmake = unmake, .context = &split},
    };

    return suite_run(&kinds[0]) + suite_run(&kinds[1]);
}
