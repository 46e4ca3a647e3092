/*
 * Two ends in one process. Each end owns what is under way to it: a list of writes with the time
 * from which they may arrive. An idle handle delivers what is due, one piece per turn of the loop,
 * a timer waits for what is not; the seed decides where the pieces end.
 *
 * Both ends share a core that lives until both are freed.
 */
#include "transport/transport_internal.h"

#include "base/alloc.h"
#include "protocol/messages.h"

#include <string.h>

#define WINDOW_BYTES_DEFAULT (256 * 1024)

struct chunk {
    struct chunk *next;
    uint64_t due_ms;
    size_t len;
    size_t offset;
    uint8_t data[];
};

struct pipe_core {
    unsigned ends; /* not freed yet */
    struct shp_pipe_options options;
    uint64_t random;
    int64_t left; /* bytes until the cut; negative: no cut */
    bool cut;
};

struct pipe_end {
    struct shp_transport base;
    struct pipe_core *core;
    struct pipe_end *peer; /* NULL once that end is freed */
    uv_idle_t idle;
    uv_timer_t timer;
    struct chunk *first;
    struct chunk **last;
    size_t under_way; /* bytes in the list: the peer's window is full at window_bytes */
    bool blocked;     /* a write of this end was not taken whole */
    bool peer_ended;  /* nothing follows the list */
    bool opened;
    bool closing;
    unsigned handles;
    struct shp_error error;
};

static void schedule(struct pipe_end *end);

/* splitmix64: small, seeded, the same everywhere. */
static uint64_t next_random(struct pipe_core *core)
{
    uint64_t z = (core->random += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Mostly small pieces, as they find the faults; now and then all, as it finds the others. */
static size_t piece_len(struct pipe_core *core, size_t len)
{
    uint64_t random;
    size_t max;

    if (core->options.seed == 0)
        return len;
    random = next_random(core);
    switch (random & 3) {
    case 0:
        max = 3;
        break;
    case 1:
        max = 64;
        break;
    case 2:
        max = 16 * 1024;
        break;
    default:
        return len;
    }
    max = 1 + (size_t)((random >> 8) % max);
    return max < len ? max : len;
}

static void drop_chunks(struct pipe_end *end)
{
    while (end->first != NULL) {
        struct chunk *chunk = end->first;

        end->first = chunk->next;
        shp_free(chunk);
    }
    end->last = &end->first;
    end->under_way = 0;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct pipe_end *end = handle->data;
    struct shp_transport_end result = {.error = end->error, .diagnostic = ""};

    if (--end->handles == 0)
        shp_transport_report_closed(&end->base, &result);
}

static void finish(struct pipe_end *end)
{
    if (end->closing)
        return;
    end->closing = true;
    drop_chunks(end);
    if (end->peer != NULL) {
        end->peer->peer_ended = true;
        schedule(end->peer);
    }
    end->handles = 2;
    uv_close((uv_handle_t *)&end->idle, on_handle_closed);
    uv_close((uv_handle_t *)&end->timer, on_handle_closed);
}

static void cut(struct pipe_end *end)
{
    if (!shp_transport_begin_close(&end->base))
        return;
    shp_error_set(&end->error, SHP_CODE_LINK_LOST, NULL, "connection", "the pipe was cut");
    end->error.outcome = SHP_OUTCOME_UNKNOWN;
    finish(end);
}

static void deliver(struct pipe_end *end)
{
    struct chunk *chunk = end->first;
    struct pipe_core *core = end->core;
    size_t len = piece_len(core, chunk->len - chunk->offset);
    const uint8_t *data = chunk->data + chunk->offset;

    if (core->left >= 0) {
        if ((int64_t)len > core->left)
            len = (size_t)core->left;
        core->left -= (int64_t)len;
        core->cut = core->left == 0;
    }
    /* Out of the list for the call: the callback may close, which empties the list. */
    end->first = chunk->next;
    if (end->first == NULL)
        end->last = &end->first;
    chunk->offset += len;
    end->under_way -= len;
    if (len > 0)
        shp_transport_report_read(&end->base, data, len);
    if (chunk->offset == chunk->len || end->closing) {
        shp_free(chunk);
    } else {
        chunk->next = end->first;
        if (end->first == NULL)
            end->last = &chunk->next;
        end->first = chunk;
    }
    /* on_writable comes from the peer's own turn, as every callback of it. */
    if (end->peer != NULL && end->peer->blocked)
        schedule(end->peer);
}

static bool is_writable_again(const struct pipe_end *end)
{
    return end->blocked && end->peer != NULL &&
           end->peer->under_way <= end->core->options.window_bytes / 2;
}

static void turn(struct pipe_end *end)
{
    struct pipe_core *core = end->core;

    if (core->cut) {
        if (end->peer != NULL)
            cut(end->peer);
        cut(end);
        return;
    }
    if (!end->opened) {
        end->opened = true;
        shp_transport_report_open(&end->base);
    } else if (is_writable_again(end)) {
        end->blocked = false;
        shp_transport_report_writable(&end->base);
    } else if (end->base.reading && end->first != NULL &&
               end->first->due_ms <= uv_now(end->base.loop)) {
        deliver(end);
    } else if (end->base.reading && end->first == NULL && end->peer_ended) {
        if (shp_transport_begin_close(&end->base))
            finish(end);
    }
    schedule(end);
}

static void on_idle(uv_idle_t *idle)
{
    turn(idle->data);
}

static void on_timer(uv_timer_t *timer)
{
    schedule(timer->data);
}

/* Decides whether the next turn comes at once, later, or when something changes. */
static void schedule(struct pipe_end *end)
{
    uint64_t now = uv_now(end->base.loop);
    bool due = end->core->cut || !end->opened || is_writable_again(end);

    if (end->closing || end->base.state == SHP_TRANSPORT_NEW)
        return;
    uv_idle_stop(&end->idle);
    uv_timer_stop(&end->timer);
    if (end->base.reading && end->first != NULL) {
        if (end->first->due_ms > now && !due)
            uv_timer_start(&end->timer, on_timer, end->first->due_ms - now, 0);
        else
            due = true;
    } else if (end->base.reading && end->peer_ended) {
        due = true;
    }
    if (due)
        uv_idle_start(&end->idle, on_idle);
}

static int pipe_open(struct shp_transport *transport)
{
    struct pipe_end *end = (struct pipe_end *)transport;

    uv_idle_init(transport->loop, &end->idle);
    uv_timer_init(transport->loop, &end->timer);
    end->idle.data = end;
    end->timer.data = end;
    schedule(end);
    return SHP_OK;
}

static size_t pipe_write(struct shp_transport *transport, const uint8_t *data, size_t len)
{
    struct pipe_end *end = (struct pipe_end *)transport;
    struct pipe_end *peer = end->peer;
    size_t room;
    size_t taken;
    struct chunk *chunk;

    if (peer == NULL || peer->closing)
        return 0; /* nobody reads any more; the end is reported soon */
    room = end->core->options.window_bytes - peer->under_way;
    taken = len < room ? len : room;
    if (taken < len)
        end->blocked = true;
    if (taken == 0)
        return 0;
    chunk = shp_malloc(sizeof(*chunk) + taken);
    if (chunk == NULL) {
        end->blocked = true;
        return 0;
    }
    chunk->next = NULL;
    chunk->due_ms = uv_now(transport->loop) + end->core->options.delay_ms;
    chunk->len = taken;
    chunk->offset = 0;
    memcpy(chunk->data, data, taken);
    *peer->last = chunk;
    peer->last = &chunk->next;
    peer->under_way += taken;
    schedule(peer);
    return taken;
}

static void pipe_read_changed(struct shp_transport *transport)
{
    schedule((struct pipe_end *)transport);
}

static void pipe_close(struct shp_transport *transport)
{
    finish((struct pipe_end *)transport);
}

static void pipe_free(struct shp_transport *transport)
{
    struct pipe_end *end = (struct pipe_end *)transport;

    drop_chunks(end);
    if (end->peer != NULL) {
        end->peer->peer = NULL;
        if (!end->peer->peer_ended) { /* freed without having been opened */
            end->peer->peer_ended = true;
            schedule(end->peer);
        }
    }
    if (--end->core->ends == 0)
        shp_free(end->core);
    shp_free(end);
}

static const struct shp_transport_ops ops = {
    .name = "pipe",
    .open = pipe_open,
    .write = pipe_write,
    .read_start = pipe_read_changed,
    .read_stop = pipe_read_changed,
    .close = pipe_close,
    .free = pipe_free,
};

int shp_transport_pipe_new(struct shp_transport **a, struct shp_transport **b, uv_loop_t *loop,
                           const struct shp_pipe_options *options)
{
    struct pipe_core *core = shp_calloc(1, sizeof(*core));
    struct pipe_end *ends[2] = {shp_calloc(1, sizeof(*ends[0])), shp_calloc(1, sizeof(*ends[1]))};

    if (core == NULL || ends[0] == NULL || ends[1] == NULL) {
        shp_free(core);
        shp_free(ends[0]);
        shp_free(ends[1]);
        return SHP_ERR_NOMEM;
    }
    core->ends = 2;
    core->options = *options;
    if (core->options.window_bytes == 0)
        core->options.window_bytes = WINDOW_BYTES_DEFAULT;
    core->random = options->seed;
    core->left = options->cut_after < 0 ? -1 : options->cut_after;
    core->cut = core->left == 0;
    for (int i = 0; i < 2; i++) {
        shp_transport_init(&ends[i]->base, &ops, loop);
        ends[i]->core = core;
        ends[i]->peer = ends[1 - i];
        ends[i]->last = &ends[i]->first;
    }
    *a = &ends[0]->base;
    *b = &ends[1]->base;
    return SHP_OK;
}
