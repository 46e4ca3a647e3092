/* The bound on logins, the pauses between them, and what counts as lost time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>

#include "controller/fleet/pace.h"
#include "controller/fleet/wake.h"

#define START_MS 1000000

static void logins_in_any_minute_are_bounded(void **state)
{
    (void)state;
    struct pace pace = {0};
    for (uint64_t i = 0; i < PACE_LOGINS_MAX; i++) {
        assert_int_equal(pace_free_at_ms(&pace, START_MS + i, false), START_MS + i);
        pace_took(&pace, START_MS + i);
    }
    uint64_t now_ms = START_MS + 100;
    assert_int_equal(pace_free_at_ms(&pace, now_ms, false), START_MS + PACE_SPAN_MS);
    /* The span slides: each login makes room when it is a minute old. */
    now_ms = START_MS + PACE_SPAN_MS;
    assert_int_equal(pace_free_at_ms(&pace, now_ms, false), now_ms);
    pace_took(&pace, now_ms);
    assert_int_equal(pace_free_at_ms(&pace, now_ms, false), now_ms + 1);
}

static void what_a_person_asks_for_has_a_wider_bound(void **state)
{
    (void)state;
    struct pace pace = {0};
    for (int i = 0; i < PACE_LOGINS_ASKED_MAX; i++) {
        assert_int_equal(pace_free_at_ms(&pace, START_MS, true), START_MS);
        pace_took(&pace, START_MS);
    }
    assert_int_equal(pace_free_at_ms(&pace, START_MS, true), START_MS + PACE_SPAN_MS);
    assert_int_equal(pace_free_at_ms(&pace, START_MS, false), START_MS + PACE_SPAN_MS);
    /* More than fit: the oldest are forgotten. */
    pace_took(&pace, START_MS + PACE_SPAN_MS);
    assert_int_equal(pace.logins_len, PACE_LOGINS_ASKED_MAX);
    assert_int_equal(pace.logins_ms[PACE_LOGINS_ASKED_MAX - 1], START_MS + PACE_SPAN_MS);
}

static void what_was_no_login_does_not_count(void **state)
{
    (void)state;
    struct pace pace = {0};
    pace_give_back(&pace);
    for (int i = 0; i < 10 * PACE_LOGINS_MAX; i++) {
        pace_took(&pace, START_MS);
        pace_give_back(&pace);
    }
    assert_int_equal(pace_free_at_ms(&pace, START_MS, false), START_MS);
}

static void pauses_double_up_to_two_minutes_and_are_jittered(void **state)
{
    (void)state;
    struct pace pace = {0};
    uint32_t whole = PACE_BACKOFF_MIN_MS;
    for (int i = 0; i < 20; i++) {
        uint32_t pause = pace_backoff(&pace);
        assert_in_range(pause, whole / 2, whole);
        whole = whole * 2 > PACE_BACKOFF_MAX_MS ? PACE_BACKOFF_MAX_MS : whole * 2;
    }
    uint32_t least = UINT32_MAX, most = 0;
    for (int i = 0; i < 200; i++) {
        uint32_t pause = pace_person_ms();
        least = pause < least ? pause : least;
        most = pause > most ? pause : most;
    }
    assert_in_range(least, PACE_PERSON_MS * 3 / 4, PACE_PERSON_MS);
    assert_in_range(most, PACE_PERSON_MS, PACE_PERSON_MS * 5 / 4);
}

static void time_that_was_lost_is_seen(void **state)
{
    (void)state;
    const struct clock_times before = {2000000, 600000, 500000};
    struct {
        int64_t wall_ms, boot_ms, monotonic_ms;
        bool lost;
    } cases[] = {
        {WAKE_LOOK_MS, WAKE_LOOK_MS, WAKE_LOOK_MS, false},
        {3600000, 3600000, WAKE_LOOK_MS, true},      /* the system slept */
        {3600000, WAKE_LOOK_MS, WAKE_LOOK_MS, true}, /* in a container that hides it */
        {60000, 60000, 60000, true},                 /* this process stood still */
        {WAKE_LOOK_MS + WAKE_JUMP_MS, WAKE_LOOK_MS, WAKE_LOOK_MS, false},
        {WAKE_LOOK_MS + WAKE_JUMP_MS + 1, WAKE_LOOK_MS, WAKE_LOOK_MS, true},
        {-1800000, WAKE_LOOK_MS, WAKE_LOOK_MS, false}, /* the clock was set back */
        {9000, 9000, 9000, false},                     /* a busy system */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct clock_times after = {
            before.wall_ms + (uint64_t)cases[i].wall_ms,
            before.boot_ms + (uint64_t)cases[i].boot_ms,
            before.monotonic_ms + (uint64_t)cases[i].monotonic_ms,
        };
        if (wake_lost_time(&before, &after) != cases[i].lost)
            fail_msg("case %zu", i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logins_in_any_minute_are_bounded),
        cmocka_unit_test(what_a_person_asks_for_has_a_wider_bound),
        cmocka_unit_test(what_was_no_login_does_not_count),
        cmocka_unit_test(pauses_double_up_to_two_minutes_and_are_jittered),
        cmocka_unit_test(time_that_was_lost_is_seen),
    };
    if (sodium_init() < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
