#include "tests/support/link_world.h"

#include "protocol/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GUARD_MS 60000

static const char hello_a[] = "{\"versions\":[1,1],\"role\":\"controller\",\"build\":\"x\"}";
static const char hello_b[] = "{\"versions\":[1,1],\"role\":\"helper\",\"build\":\"x\"}";

uint8_t link_pattern(size_t at)
{
    return (uint8_t)((at * 0x9e3779b97f4a7c15u) >> 56);
}

uint8_t *link_new_bulk(size_t len)
{
    uint8_t *bulk = malloc(len);

    assert_non_null(bulk);
    for (size_t i = 0; i < len; i++)
        bulk[i] = link_pattern(i);
    return bulk;
}

void link_check_bulk(const uint8_t *bulk, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bulk[i] != link_pattern(i))
            fail_msg("byte %zu differs", i);
    }
}

/* ---- the answering side ------------------------------------------------------------------- */

static void send_pieces(struct link_side *side)
{
    size_t total = 1000000;

    while (side->piece_sent < total) {
        uint8_t piece[5000];
        size_t len = sizeof(piece);
        size_t taken = 0;
        bool fin;

        if (len > total - side->piece_sent)
            len = total - side->piece_sent;
        fin = side->piece_sent + len == total;
        for (size_t i = 0; i < len; i++)
            piece[i] = link_pattern(side->piece_sent + i);
        assert_int_equal(shp_link_send_bulk(side->link, side->stream, piece, len, fin, &taken), 0);
        side->piece_sent += taken;
        if (taken < len)
            return;
    }
}

static void answer_request(struct link_side *side)
{
    struct shp_error error;
    uint8_t *bulk;

    switch (side->behaviour) {
    case ANSWER:
        assert_int_equal(
            shp_link_respond(side->link, side->stream, side->json, side->bulk, side->bulk_len), 0);
        assert_int_equal(shp_link_respond(side->link, side->stream, "{}", NULL, 0),
                         SHP_ERR_NOT_FOUND);
        break;
    case ANSWER_ERROR:
        shp_error_set(&error, SHP_CODE_MACHINE_UNKNOWN, "box", "look", "no machine box");
        assert_int_equal(shp_link_respond_error(side->link, side->stream, &error), 0);
        break;
    case ANSWER_LARGE:
        bulk = link_new_bulk(SHP_LIMIT_MESSAGE_BYTES_MAX);
        assert_int_equal(
            shp_link_respond(side->link, side->stream, "{}", bulk, SHP_LIMIT_MESSAGE_BYTES_MAX), 0);
        free(bulk);
        break;
    case ANSWER_PIECES:
        assert_int_equal(shp_link_respond_begin(side->link, side->stream, "{}"), 0);
        send_pieces(side);
        break;
    case END_LINK:
        shp_link_close(side->link, SHP_CODE_SHUTTING_DOWN, "enough");
        break;
    case SILENT:
    case NO_CREDIT:
        break;
    }
}

static void on_request(struct shp_link *link, const struct shp_link_request *request,
                       const char *json, bool fin, void *user)
{
    struct link_side *side = user;

    assert_ptr_equal(link, side->link);
    assert_int_equal(request->message, MESSAGE);
    side->requests++;
    side->stream = request->stream;
    snprintf(side->json, sizeof(side->json), "%s", json);
    if (fin)
        answer_request(side);
}

static void on_notification(struct shp_link *link, uint32_t stream, uint16_t message,
                            const char *json, bool fin, void *user)
{
    struct link_side *side = user;

    (void)link;
    (void)stream;
    (void)message;
    assert_true(fin);
    side->notifications++;
    snprintf(side->json, sizeof(side->json), "%s", json);
}

static void on_bulk(struct shp_link *link, uint32_t stream, const uint8_t *data, size_t len,
                    bool fin, void *user)
{
    struct link_side *side = user;

    if (stream != side->stream) {
        /* Bulk of an earlier request, which shares the link with the newest: not kept. */
        shp_link_consume(link, stream, len);
        if (fin)
            assert_int_equal(shp_link_respond(link, stream, "{}", side->bulk, side->bulk_len), 0);
        return;
    }
    side->bulk = realloc(side->bulk, side->bulk_len + len + 1);
    memcpy(side->bulk + side->bulk_len, data, len);
    side->bulk_len += len;
    if (side->behaviour != NO_CREDIT)
        shp_link_consume(link, stream, len);
    if (fin)
        answer_request(side);
}

static void on_writable(struct shp_link *link, void *user)
{
    struct link_side *side = user;

    (void)link;
    if (side->behaviour == ANSWER_PIECES && side->stream != 0)
        send_pieces(side);
}

static void on_canceled(struct shp_link *link, uint32_t stream, void *user)
{
    struct link_side *side = user;

    (void)link;
    assert_int_equal(stream, side->stream);
    side->canceled++;
}

static void on_hello(struct shp_link *link, const char *json, void *user)
{
    struct link_side *side = user;

    assert_non_null(strstr(json, "controller"));
    if (side->refuse_hello)
        shp_link_close(link, SHP_CODE_AUTH_FAILED, "who are you");
    else
        assert_int_equal(shp_link_set_hello(link, hello_b), 0);
}

static void on_established(struct shp_link *link, const char *peer_hello, void *user)
{
    struct link_side *side = user;

    (void)link;
    side->established = true;
    snprintf(side->peer_hello, sizeof(side->peer_hello), "%s", peer_hello);
}

static void on_closed(struct shp_link *link, const struct shp_error *error,
                      const struct shp_transport_end *end, void *user)
{
    struct link_side *side = user;

    assert_false(side->closed);
    assert_int_equal(shp_link_pending(link), 0);
    assert_non_null(end->diagnostic);
    side->closed = true;
    side->error = *error;
    shp_link_close(link, 0, NULL);
    assert_int_equal(shp_link_request(link, MESSAGE, NULL, 1000, "{}", NULL, 0, NULL, NULL, NULL),
                     SHP_ERR_STATE);
    side->link = NULL;
}

/* ---- world -------------------------------------------------------------------------------- */

static void on_guard(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("the link hangs");
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

void link_open_side(struct link_world *world, struct link_side *side,
                    struct shp_transport *transport, enum shp_role role, enum shp_suite suite,
                    const struct shp_prelude *prelude)
{
    struct shp_link_options options = {
        .transport = transport,
        .session = {.role = role, .suite = suite, .marker = MARKER},
        .prelude = prelude,
        .callbacks = {.on_hello = on_hello,
                      .on_established = on_established,
                      .on_request = on_request,
                      .on_notification = on_notification,
                      .on_bulk = on_bulk,
                      .on_canceled = on_canceled,
                      .on_writable = on_writable,
                      .on_closed = on_closed},
        .user = side,
    };

    if (role == SHP_ROLE_INITIATOR) {
        options.session.hello_json = hello_a;
        options.session.hello_len = strlen(hello_a);
    }
    assert_int_equal(shp_link_open(&side->link, &world->loop, &options), 0);
    assert_false(shp_link_established(side->link));
}

void link_world_init(struct link_world *world)
{
    memset(world, 0, sizeof(*world));
    assert_int_equal(uv_loop_init(&world->loop), 0);
    uv_timer_init(&world->loop, &world->guard);
    uv_timer_init(&world->loop, &world->tick);
    uv_timer_start(&world->guard, on_guard, GUARD_MS, 0);
    uv_timer_start(&world->tick, on_tick, 1, 5);
    uv_unref((uv_handle_t *)&world->guard);
    uv_unref((uv_handle_t *)&world->tick);
}

void link_world_begin(struct link_world *world, enum shp_suite suite,
                      const struct shp_pipe_options *pipe)
{
    const struct shp_pipe_options whole = {.cut_after = -1};
    struct shp_transport *a = NULL;
    struct shp_transport *b = NULL;

    link_world_init(world);
    assert_int_equal(shp_transport_pipe_new(&a, &b, &world->loop, pipe != NULL ? pipe : &whole), 0);
    link_open_side(world, &world->a, a, SHP_ROLE_INITIATOR, suite, NULL);
    link_open_side(world, &world->b, b, SHP_ROLE_RESPONDER, suite, NULL);
    world->b_transport = b;
}

void link_world_establish(struct link_world *world)
{
    RUN_UNTIL(world, world->a.established && world->b.established);
    assert_true(shp_link_established(world->a.link));
    assert_non_null(strstr(world->a.peer_hello, "helper"));
    assert_non_null(strstr(world->b.peer_hello, "controller"));
}

void link_world_finish(struct link_world *world)
{
    if (world->a.link != NULL)
        shp_link_close(world->a.link, 0, "done");
    RUN_UNTIL(world, world->a.closed && (world->b.closed || world->b.link == NULL));
    uv_close((uv_handle_t *)&world->guard, NULL);
    uv_close((uv_handle_t *)&world->tick, NULL);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&world->loop), 0);
    free(world->a.bulk);
    free(world->b.bulk);
}

void link_on_answer(struct shp_link *link, const struct shp_link_answer *answer, void *user)
{
    struct link_answer_seen *got = user;

    (void)link;
    got->count++;
    assert_int_equal(got->count, 1);
    got->code = answer->error != NULL ? answer->error->code : 0;
    got->outcome = answer->error != NULL ? (int)answer->error->outcome : -1;
    assert_non_null(answer->json);
    snprintf(got->json, sizeof(got->json), "%s", answer->json);
    if (answer->bulk_len > 0) {
        assert_int_equal(answer->bulk[answer->bulk_len], 0);
        got->bulk = malloc(answer->bulk_len);
        memcpy(got->bulk, answer->bulk, answer->bulk_len);
    }
    got->bulk_len = answer->bulk_len;
}

uint32_t link_ask(struct link_world *world, struct link_answer_seen *answer, uint32_t timeout_ms,
                  const char *json, const uint8_t *bulk, size_t len)
{
    uint32_t stream = 0;

    memset(answer, 0, sizeof(*answer));
    assert_int_equal(shp_link_request(world->a.link, MESSAGE, NULL, timeout_ms, json, bulk, len,
                                      link_on_answer, answer, &stream),
                     0);
    assert_int_equal(answer->count, 0);
    return stream;
}
