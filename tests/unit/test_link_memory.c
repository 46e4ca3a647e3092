/* A life of two links with each allocation failing in turn: it ends, answers once, keeps nothing.
 */
#include "tests/support/fail_alloc.h"
#include "transport/link.h"

#include "protocol/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define GUARD_MS 60000
#define MARKER "0123456789abcdef0123456789abcdef"
#define BULK_BYTES 60000
#define ALLOCATIONS_MAX 2000

static const char hello_a[] = "{\"versions\":[1,1],\"role\":\"controller\"}";
static const char hello_b[] = "{\"versions\":[1,1],\"role\":\"helper\"}";
static const uint8_t bulk[BULK_BYTES];

struct side {
    struct shp_link *link;
    bool closed;
    uint32_t stream;
    size_t bulk_len;
};

struct scenario {
    uv_loop_t loop;
    struct side a;
    struct side b;
    int asked;
    int answered;
    int succeeded;
};

static struct scenario scenario;

static void on_answer(struct shp_link *link, const struct shp_link_answer *answer, void *user)
{
    (void)user;
    scenario.answered++;
    if (answer->error == NULL) {
        assert_int_equal(answer->bulk_len, BULK_BYTES);
        scenario.succeeded++;
    }
    shp_link_close(link, 0, "done");
}

static void on_established(struct shp_link *link, const char *peer_hello, void *user)
{
    (void)peer_hello;
    if (user != &scenario.a)
        return;
    if (shp_link_request(link, SHP_MSG_HERDR_CALL, NULL, 1000, "{}", bulk, BULK_BYTES, on_answer,
                         NULL, NULL) == 0)
        scenario.asked++;
    else
        shp_link_close(link, SHP_CODE_OUT_OF_MEMORY, "cannot ask");
}

static void on_request(struct shp_link *link, const struct shp_link_request *request,
                       const char *json, bool fin, void *user)
{
    struct side *side = user;

    (void)link;
    (void)json;
    assert_false(fin);
    side->stream = request->stream;
}

static void on_bulk(struct shp_link *link, uint32_t stream, const uint8_t *data, size_t len,
                    bool fin, void *user)
{
    struct side *side = user;
    struct shp_error error;

    (void)data;
    side->bulk_len += len;
    shp_link_consume(link, stream, len);
    if (!fin)
        return;
    assert_int_equal(side->bulk_len, BULK_BYTES);
    if (shp_link_respond(link, stream, "{}", bulk, BULK_BYTES) == 0)
        return;
    shp_error_set(&error, SHP_CODE_OUT_OF_MEMORY, NULL, "answer", "no memory");
    shp_link_respond_error(link, stream, &error);
}

static void on_closed(struct shp_link *link, const struct shp_error *error,
                      const struct shp_transport_end *end, void *user)
{
    struct side *side = user;

    (void)link;
    (void)error;
    assert_non_null(end->diagnostic);
    assert_false(side->closed);
    side->closed = true;
}

static int open_side(struct side *side, struct shp_transport *transport, enum shp_role role)
{
    const char *hello = role == SHP_ROLE_INITIATOR ? hello_a : hello_b;
    struct shp_link_options options = {
        .transport = transport,
        .session = {.role = role,
                    .suite = SHP_SUITE_NOISE,
                    .marker = MARKER,
                    .hello_json = hello,
                    .hello_len = strlen(hello)},
        .callbacks = {.on_established = on_established,
                      .on_request = on_request,
                      .on_bulk = on_bulk,
                      .on_closed = on_closed},
        .user = side,
    };

    return shp_link_open(&side->link, &scenario.loop, &options);
}

static void on_guard(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("the links hang");
}

static void run(void)
{
    const struct shp_pipe_options pipe = {.seed = 3, .window_bytes = 20000, .cut_after = -1};
    struct shp_transport *a = NULL;
    struct shp_transport *b = NULL;
    uv_timer_t guard;

    memset(&scenario, 0, sizeof(scenario));
    assert_int_equal(uv_loop_init(&scenario.loop), 0);
    uv_timer_init(&scenario.loop, &guard);
    uv_timer_start(&guard, on_guard, GUARD_MS, 0);
    uv_unref((uv_handle_t *)&guard);
    if (shp_transport_pipe_new(&a, &b, &scenario.loop, &pipe) == 0) {
        /* A link that did not open leaves its transport to us. */
        if (open_side(&scenario.a, a, SHP_ROLE_INITIATOR) != 0)
            shp_transport_free(a);
        if (open_side(&scenario.b, b, SHP_ROLE_RESPONDER) != 0)
            shp_transport_free(b);
    }
    uv_run(&scenario.loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&guard, NULL);
    uv_run(&scenario.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&scenario.loop), 0);
    assert_int_equal(scenario.a.closed, scenario.a.link != NULL);
    assert_int_equal(scenario.b.closed, scenario.b.link != NULL);
    assert_int_equal(scenario.answered, scenario.asked);
}

static void every_allocation_may_fail(void **state)
{
    size_t count;
    int survived = 0;

    (void)state;
    fail_alloc_begin(SIZE_MAX);
    run();
    count = fail_alloc_end();
    assert_int_equal(scenario.succeeded, 1);
    assert_int_equal(fail_alloc_held(), 0);
    assert_in_range(count, 10, ALLOCATIONS_MAX);
    for (size_t at = 0; at < count; at++) {
        fail_alloc_begin(at);
        run();
        fail_alloc_end();
        if (fail_alloc_held() != 0)
            fail_msg("allocation %zu of %zu: %zu pieces are kept", at, count, fail_alloc_held());
        survived += scenario.succeeded;
    }
    /* Some failures cost only a retry. */
    assert_true(survived > 0);
    assert_true(survived < (int)count);
}

int main(void)
{
    const struct CMUnitTest cases[] = {cmocka_unit_test(every_allocation_may_fail)};

    return cmocka_run_group_tests(cases, NULL, NULL);
}
