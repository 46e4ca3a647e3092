/* A session under a failing allocator: no crash, no leak, and every request still ends once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fail_alloc.h"
#include "tests/support/session_pair.h"

static struct pair pair;

struct tally {
    size_t asked;
    size_t ended;
};

static void count_ends(struct pair_end *end, struct tally *tally)
{
    for (struct pair_event *event; (event = pair_next(end));) {
        bool last_bulk = event->type == SHP_EVENT_BULK && event->fin && event->user;
        bool last_response = event->type == SHP_EVENT_RESPONSE && event->fin;
        if (event->type == SHP_EVENT_FAILED || last_bulk || last_response)
            tally->ended++;
    }
}

/* Answer what came: a response with bulk, an error, or nothing. */
static void answer(struct pair_end *end)
{
    static uint8_t data[100000];
    for (size_t i = 0; i < end->event_count; i++) {
        const struct pair_event *event = &end->events[i];
        size_t taken;
        struct shp_error error;
        if (event->type != SHP_EVENT_REQUEST)
            continue;
        switch (event->id[0]) {
        case 1:
            if (shp_session_send_response(end->session, event->stream, "{\"x\":[1]}", 9, false) ==
                0)
                (void)shp_session_send_bulk(end->session, event->stream, data, sizeof(data), true,
                                            &taken);
            break;
        case 2:
            shp_error_set(&error, SHP_CODE_HERDR_ERROR, NULL, "step", "cause");
            (void)shp_session_send_error(end->session, event->stream, &error);
            break;
        default:
            break;
        }
    }
}

static void ask(struct pair_end *end, uint8_t n, bool fin, struct tally *tally)
{
    size_t taken;
    uint32_t stream = pair_ask(&pair, end, SHP_MSG_HERDR_CALL, "{}", n, fin, tally);
    if (stream == 0)
        return;
    tally->asked++;
    if (!fin)
        (void)shp_session_send_bulk(end->session, stream, (const uint8_t *)"question", 8, true,
                                    &taken);
}

static void scenario(enum shp_suite suite, struct tally *tally)
{
    if (pair_new(&pair, suite) == 0) {
        pair.piece = 1000;
        pair_run(&pair);
        ask(&pair.a, 1, true, tally);
        ask(&pair.a, 2, false, tally);
        ask(&pair.a, 3, false, tally);
        (void)shp_session_send_notification(pair.a.session, SHP_MSG_SESSION_EVENT, "{}", 2, true,
                                            NULL);
        pair_run(&pair);
        answer(&pair.b);
        pair_run(&pair);
        pair.now_ms += SHP_LIMIT_PING_INTERVAL_MS;
        shp_session_tick(pair.a.session, pair.now_ms);
        pair_run(&pair);
        /* To the deadline of what nobody answers, without falling silent. */
        for (int i = 0; i < 2; i++) {
            pair.now_ms += 23000;
            shp_session_tick(pair.a.session, pair.now_ms);
            pair_run(&pair);
        }
        ask(&pair.a, 4, true, tally);
        shp_session_feed_end(pair.a.session, pair.now_ms);
        pair_run(&pair);
        count_ends(&pair.a, tally);
        assert_int_equal(shp_session_pending(pair.a.session), 0);
    }
    pair_free(&pair);
}

static void check_every_failure(enum shp_suite suite)
{
    struct tally whole = {0};
    fail_alloc_begin(SIZE_MAX);
    scenario(suite, &whole);
    assert_int_equal(fail_alloc_held(), 0);
    size_t allocations = fail_alloc_end();
    assert_int_equal(whole.asked, 4);
    assert_int_equal(whole.ended, 4);
    assert_true(allocations > 20);

    for (size_t i = 0; i < allocations; i++) {
        struct tally tally = {0};
        fail_alloc_begin(i);
        scenario(suite, &tally);
        size_t held = fail_alloc_held();
        (void)fail_alloc_end();
        if (held != 0 || tally.asked != tally.ended)
            fail_msg("allocation %zu: %zu pieces left, %zu asked, %zu ended", i, held, tally.asked,
                     tally.ended);
    }
}

static void every_failed_allocation_leaves_one_end_and_no_leak(void **state)
{
    (void)state;
    check_every_failure(SHP_SUITE_NOISE);
    check_every_failure(SHP_SUITE_PLAIN);
}

static void idle_session_holds_little_memory(void **state)
{
    (void)state;
    fail_alloc_begin(SIZE_MAX);
    assert_int_equal(pair_open(&pair, SHP_SUITE_NOISE), 0);
    /* Two sessions; the budget of an idle helper is 1 MiB for everything. */
    assert_true(fail_alloc_peak_bytes() < 64 * 1024);
    pair_free(&pair);
    assert_int_equal(fail_alloc_held(), 0);
    (void)fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failed_allocation_leaves_one_end_and_no_leak),
        cmocka_unit_test(idle_session_holds_little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
