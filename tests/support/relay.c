#include "tests/support/relay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>

#define CHUNK 16384

enum { CLIENT, SERVER };

struct relay_side {
    uv_tcp_t tcp;
    struct relay_pair *pair;
    char chunk[CHUNK];
    bool reading;
};

struct relay_pair {
    struct relay *relay;
    struct relay_side sides[2];
    bool abandoned;
    bool connected;
    bool closing;
    int handles_open;
    struct relay_pair *next;
};

struct write {
    uv_write_t request;
    size_t len;
    char bytes[];
};

static void resume(struct relay_pair *pair);

static void on_side_closed(uv_handle_t *handle)
{
    struct relay_side *side = handle->data;
    struct relay_pair *pair = side->pair;
    if (--pair->handles_open > 0)
        return;
    struct relay_pair **at = &pair->relay->pairs;
    while (*at != pair)
        at = &(*at)->next;
    *at = pair->next;
    free(pair);
}

static void close_pair(struct relay_pair *pair)
{
    if (pair->closing)
        return;
    pair->closing = true;
    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&pair->sides[i].tcp, on_side_closed);
}

static void on_written(uv_write_t *request, int status)
{
    struct write *write = (struct write *)request;
    struct relay_pair *pair = request->data;
    free(write);
    if (status < 0)
        close_pair(pair);
    else
        resume(pair);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct relay_side *side = handle->data;
    size_t room = CHUNK;
    if (side == &side->pair->sides[SERVER] && side->pair->relay->back_budget < room)
        room = (size_t)side->pair->relay->back_budget;
    *buf = uv_buf_init(side->chunk, (unsigned)room);
}

/* One chunk is under way at a time: what is not carried stays with its sender. */
static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct relay_side *side = stream->data;
    struct relay_pair *pair = side->pair;
    struct relay *relay = pair->relay;
    if (len < 0) {
        close_pair(pair);
        return;
    }
    if (len == 0)
        return;
    uv_read_stop(stream);
    side->reading = false;
    if (side == &pair->sides[SERVER]) {
        relay->back_bytes += (uint64_t)len;
        if (relay->back_budget != UINT64_MAX)
            relay->back_budget -= (uint64_t)len;
    }
    struct write *write = malloc(sizeof *write + (size_t)len);
    assert_non_null(write);
    write->len = (size_t)len;
    memcpy(write->bytes, buf->base, (size_t)len);
    write->request.data = pair;
    uv_buf_t out = uv_buf_init(write->bytes, (unsigned)len);
    struct relay_side *other = &pair->sides[side == &pair->sides[CLIENT] ? SERVER : CLIENT];
    if (uv_write(&write->request, (uv_stream_t *)&other->tcp, &out, 1, on_written) != 0) {
        free(write);
        close_pair(pair);
    }
}

static bool carries(const struct relay_pair *pair, int from)
{
    const struct relay *relay = pair->relay;
    return pair->connected && !pair->closing && !relay->hole && !pair->abandoned &&
           (from == CLIENT || relay->back_budget > 0);
}

static void resume(struct relay_pair *pair)
{
    for (int i = 0; i < 2; i++) {
        struct relay_side *side = &pair->sides[i];
        if (carries(pair, i) && !side->reading) {
            if (uv_read_start((uv_stream_t *)&side->tcp, on_alloc, on_read) != 0)
                close_pair(pair);
            else
                side->reading = true;
        } else if (!carries(pair, i) && side->reading && !pair->closing) {
            uv_read_stop((uv_stream_t *)&side->tcp);
            side->reading = false;
        }
    }
}

static void on_connected(uv_connect_t *request, int status)
{
    struct relay_pair *pair = request->data;
    free(request);
    if (pair->closing)
        return;
    if (status < 0) {
        close_pair(pair);
        return;
    }
    pair->connected = true;
    resume(pair);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct relay *relay = listener->data;
    assert_int_equal(status, 0);
    struct relay_pair *pair = calloc(1, sizeof *pair);
    assert_non_null(pair);
    pair->relay = relay;
    pair->handles_open = 2;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(uv_tcp_init(relay->loop, &pair->sides[i].tcp), 0);
        pair->sides[i].tcp.data = &pair->sides[i];
        pair->sides[i].pair = pair;
    }
    pair->next = relay->pairs;
    relay->pairs = pair;
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&pair->sides[CLIENT].tcp), 0);
    uv_tcp_nodelay(&pair->sides[CLIENT].tcp, 1);
    uv_tcp_nodelay(&pair->sides[SERVER].tcp, 1);
    struct sockaddr_in to;
    assert_int_equal(uv_ip4_addr("127.0.0.1", relay->target_port, &to), 0);
    uv_connect_t *connect = calloc(1, sizeof *connect);
    assert_non_null(connect);
    connect->data = pair;
    if (uv_tcp_connect(connect, &pair->sides[SERVER].tcp, (struct sockaddr *)&to, on_connected) !=
        0) {
        free(connect);
        close_pair(pair);
    }
    relay->accepted++;
    if (relay->on_accept)
        relay->on_accept(relay->user);
}

void relay_open(struct relay *relay, uv_loop_t *loop, const char *address, int target_port)
{
    struct sockaddr_in at;
    int len = sizeof at;
    *relay = (struct relay){.loop = loop, .target_port = target_port, .back_budget = UINT64_MAX};
    snprintf(relay->address, sizeof relay->address, "%s", address);
    assert_int_equal(uv_ip4_addr(address, 0, &at), 0);
    assert_int_equal(uv_tcp_init(loop, &relay->listener), 0);
    relay->listener.data = relay;
    assert_int_equal(uv_tcp_bind(&relay->listener, (struct sockaddr *)&at, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&relay->listener, 64, on_connection), 0);
    assert_int_equal(uv_tcp_getsockname(&relay->listener, (struct sockaddr *)&at, &len), 0);
    relay->port = ntohs(at.sin_port);
}

void relay_resume(struct relay *relay)
{
    for (struct relay_pair *pair = relay->pairs; pair; pair = pair->next)
        resume(pair);
}

void relay_abandon(struct relay *relay)
{
    for (struct relay_pair *pair = relay->pairs; pair; pair = pair->next)
        pair->abandoned = true;
    relay_resume(relay);
}

void relay_recall(struct relay *relay)
{
    for (struct relay_pair *pair = relay->pairs; pair; pair = pair->next)
        pair->abandoned = false;
    relay_resume(relay);
}

void relay_cut(struct relay *relay)
{
    for (struct relay_pair *pair = relay->pairs; pair; pair = pair->next)
        close_pair(pair);
}

void relay_close(struct relay *relay)
{
    relay_cut(relay);
    uv_close((uv_handle_t *)&relay->listener, NULL);
}
