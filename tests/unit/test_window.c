/* The bulk window: its arithmetic, and what a session does with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <string.h>

#include "framing/frame.h"
#include "protocol/window.h"
#include "tests/support/session_pair.h"

#define CALL SHP_MSG_SESSION_REQUEST
#define PART(bytes) ((bytes) / 8)

static struct shp_window window;
static struct shp_window_sample sample;
static uint64_t now_ms;
static uint64_t ping;
static struct pair pair;

static int begin(void **state)
{
    (void)state;
    shp_window_init(&window);
    now_ms = 100000;
    ping = 0;
    return 0;
}

static int end(void **state)
{
    (void)state;
    pair_free(&pair);
    return 0;
}

/* ---- arithmetic ---------------------------------------------------------------------------- */

/* Sends all that may go, in its pace, with its marks; returns the bytes. */
static size_t fill(void)
{
    size_t sent = 0;
    for (;;) {
        size_t part = shp_window_frame(&window, SIZE_MAX, now_ms);
        if (part == 0 && window.resume_ms == UINT64_MAX)
            return sent;
        if (part == 0) {
            assert_true(window.resume_ms > now_ms);
            now_ms = window.resume_ms;
            continue;
        }
        shp_window_sent(&window, part, now_ms);
        sent += part;
        if (shp_window_wants_mark(&window, false))
            shp_window_mark(&window, ++ping, false, now_ms);
    }
}

/* Each pong comes so long after its ping. */
static void answer_all(uint32_t after_ms)
{
    while (window.mark_count > 0) {
        uint64_t due_ms = window.marks[0].sent_ms + after_ms;
        now_ms = now_ms > due_ms ? now_ms : due_ms;
        assert_true(shp_window_pong(&window, window.marks[0].number, now_ms, &sample));
    }
}

static void learn_base(uint32_t rtt_ms)
{
    shp_window_mark(&window, ++ping, true, now_ms);
    answer_all(rtt_ms);
    assert_int_equal(window.base_ms, rtt_ms);
}

static void nothing_goes_beyond_the_window(void **state)
{
    (void)state;
    learn_base(50);
    assert_int_equal(fill(), SHP_LIMIT_BULK_WINDOW_BYTES_START);
    assert_int_equal(shp_window_frame(&window, 1, now_ms), 0);
    assert_true(window.mark_count >= 8);
    /* A pong lets as much go as came before its ping. */
    uint64_t first = window.marks[0].position;
    window.opening = false;
    assert_true(shp_window_pong(&window, window.marks[0].number, now_ms, &sample));
    assert_true(first > 0);
    assert_true(fill() >= first);
}

static void frame_is_a_small_part_of_the_window(void **state)
{
    (void)state;
    learn_base(0);
    assert_int_equal(shp_window_frame(&window, SIZE_MAX, now_ms),
                     PART(SHP_LIMIT_BULK_WINDOW_BYTES_START));
    assert_int_equal(shp_window_frame(&window, 5, now_ms), 5);
    window.bytes = SHP_LIMIT_BULK_WINDOW_BYTES_MAX;
    window.last_sent_ms = now_ms;
    assert_int_equal(shp_window_frame(&window, SIZE_MAX, now_ms), SHP_FRAME_PAYLOAD_MAX);
}

static void bulk_goes_in_parts_where_the_line_has_a_delay(void **state)
{
    (void)state;
    learn_base(80);
    size_t sent = 0;
    size_t part;
    uint64_t start_ms = now_ms;
    while ((part = shp_window_frame(&window, SIZE_MAX, now_ms)) > 0) {
        shp_window_sent(&window, part, now_ms);
        sent += part;
    }
    assert_int_equal(sent, SHP_LIMIT_BULK_WINDOW_BYTES_START / 4);
    assert_in_range(window.resume_ms, now_ms + 1, now_ms + 20);
    /* The whole window leaves within a round trip. */
    sent += fill();
    assert_int_equal(sent, SHP_LIMIT_BULK_WINDOW_BYTES_START);
    assert_true(now_ms - start_ms < 80);
    /* Near by there is nothing to gain. */
    shp_window_init(&window);
    learn_base(2);
    start_ms = now_ms;
    assert_int_equal(fill(), SHP_LIMIT_BULK_WINDOW_BYTES_START);
    assert_int_equal(now_ms, start_ms);
}

static void only_little_goes_before_the_base_is_known(void **state)
{
    (void)state;
    size_t most = PART(SHP_LIMIT_BULK_WINDOW_BYTES_START);
    assert_int_equal(shp_window_frame(&window, most + 1, now_ms), 0);
    assert_true(shp_window_wants_mark(&window, true));
    assert_int_equal(shp_window_frame(&window, most - 1, now_ms), most - 1);
    shp_window_sent(&window, most - 1, now_ms);
    assert_int_equal(shp_window_frame(&window, 2, now_ms), 0);
    assert_int_equal(shp_window_frame(&window, 1, now_ms), 1);
    learn_base(50);
    assert_true(shp_window_frame(&window, SIZE_MAX, now_ms) > 0);
}

static void window_doubles_in_each_round_trip_at_first(void **state)
{
    (void)state;
    learn_base(50);
    uint32_t before = window.bytes;
    (void)fill();
    answer_all(50);
    assert_in_range(window.bytes, 2 * before - PART(before), 2 * before);
    for (int i = 0; i < 20; i++) {
        (void)fill();
        answer_all(50);
    }
    assert_int_equal(window.bytes, SHP_LIMIT_BULK_WINDOW_BYTES_MAX);
}

static void window_that_is_not_used_does_not_grow(void **state)
{
    (void)state;
    learn_base(50);
    for (int i = 0; i < 100; i++) {
        shp_window_sent(&window, window.bytes / 4, now_ms);
        shp_window_mark(&window, ++ping, false, now_ms);
        answer_all(50);
    }
    assert_int_equal(window.bytes, SHP_LIMIT_BULK_WINDOW_BYTES_START);
}

static void window_halves_once_for_one_flight(void **state)
{
    (void)state;
    learn_base(50);
    for (int i = 0; i < 3; i++) {
        (void)fill();
        answer_all(50);
    }
    uint32_t before = window.bytes;
    (void)fill();
    answer_all(50 + 25 + SHP_LIMIT_BULK_DELAY_MS + 1);
    assert_int_equal(window.bytes, before / 2);
    /* From now on it grows slowly. */
    (void)fill();
    answer_all(50);
    assert_in_range(window.bytes, before / 2 + 1, before / 2 * 5 / 4);
    /* And never below its least. */
    for (int i = 0; i < 12; i++) {
        (void)fill();
        answer_all(400);
    }
    assert_int_equal(window.bytes, SHP_LIMIT_BULK_WINDOW_BYTES_MIN);
    assert_int_equal(fill(), SHP_LIMIT_BULK_WINDOW_BYTES_MIN);
}

static void round_trip_that_just_is_near_its_base_halves_nothing(void **state)
{
    (void)state;
    learn_base(50);
    (void)fill();
    answer_all(50 + 25 + SHP_LIMIT_BULK_DELAY_MS);
    assert_true(window.bytes > SHP_LIMIT_BULK_WINDOW_BYTES_START);
}

static void old_base_is_taken_anew_on_an_empty_line(void **state)
{
    (void)state;
    learn_base(20);
    for (int i = 0; i < 5; i++) {
        (void)fill();
        answer_all(200); /* the way got longer */
    }
    assert_int_equal(window.bytes, SHP_LIMIT_BULK_WINDOW_BYTES_MIN);
    (void)fill();
    now_ms += SHP_LIMIT_BULK_BASE_AGE_MS - 1000;
    assert_true(shp_window_pong(&window, window.marks[0].number, now_ms, &sample));
    assert_int_equal(shp_window_frame(&window, SIZE_MAX, now_ms), 0); /* waits */
    assert_true(window.base_known);
    answer_all(200);
    assert_int_equal(shp_window_frame(&window, SIZE_MAX, now_ms), 0);
    assert_false(window.base_known);
    assert_int_equal(shp_window_frame(&window, SIZE_MAX, now_ms), 0);
    assert_true(shp_window_wants_mark(&window, true));
    learn_base(200);
    uint32_t before = window.bytes;
    (void)fill();
    answer_all(200);
    assert_true(window.bytes > before);
}

static void base_that_is_seen_again_does_not_age(void **state)
{
    (void)state;
    learn_base(50);
    for (int i = 0; i < 3; i++) {
        now_ms += SHP_LIMIT_BULK_BASE_AGE_MS / 2;
        (void)fill();
        answer_all(53);
    }
    assert_true(fill() > 0);
    assert_true(window.base_known);
    assert_int_equal(window.base_ms, 50);
}

static void window_starts_again_after_a_rest(void **state)
{
    (void)state;
    learn_base(1);
    for (int i = 0; i < 10; i++) {
        (void)fill();
        answer_all(1);
    }
    assert_true(window.bytes > SHP_LIMIT_BULK_WINDOW_BYTES_START);
    now_ms += SHP_LIMIT_BULK_BASE_AGE_MS;
    /* What was too little for a mark of the large window fills the small one: it gets one now. */
    (void)fill();
    if (shp_window_wants_mark(&window, true))
        shp_window_mark(&window, ++ping, false, now_ms);
    assert_int_equal(window.bytes, SHP_LIMIT_BULK_WINDOW_BYTES_START);
    answer_all(1);
    assert_in_range(fill(), 1, 2 * SHP_LIMIT_BULK_WINDOW_BYTES_START);
}

static void window_is_never_stuck_without_a_mark(void **state)
{
    (void)state;
    learn_base(1);
    for (int i = 0; i < 10; i++) {
        (void)fill();
        answer_all(1);
    }
    /* Less than a mark's worth is open when the window shrinks below it. */
    size_t open = PART(window.bytes) - 1 - (size_t)(window.sent - window.marked);
    shp_window_sent(&window, open, now_ms);
    assert_false(shp_window_wants_mark(&window, false));
    now_ms += SHP_LIMIT_BULK_BASE_AGE_MS;
    assert_int_equal(shp_window_frame(&window, SIZE_MAX, now_ms), 0);
    assert_true(shp_window_wants_mark(&window, true));
    shp_window_mark(&window, ++ping, false, now_ms);
    assert_false(shp_window_wants_mark(&window, true));
    answer_all(1);
    assert_true(fill() > 0);
}

static void pongs_of_nothing_change_nothing(void **state)
{
    (void)state;
    learn_base(1);
    (void)fill();
    struct shp_window before = window;
    assert_false(shp_window_pong(&window, ping + 1, now_ms, &sample));
    assert_false(shp_window_pong(&window, 0, now_ms, &sample));
    assert_memory_equal(&before, &window, sizeof(window));
    /* A later pong answers for earlier ones; those count no more. */
    assert_true(shp_window_pong(&window, ping, now_ms, &sample));
    assert_false(shp_window_pong(&window, ping - 1, now_ms, &sample));
}

static void marks_that_are_never_answered_stay_bounded(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++)
        shp_window_mark(&window, ++ping, true, now_ms);
    assert_int_equal(window.mark_count, SHP_WINDOW_MARKS_MAX);
    assert_false(shp_window_wants_mark(&window, true));
    assert_false(shp_window_pong(&window, ping, now_ms, &sample));
    assert_true(shp_window_pong(&window, SHP_WINDOW_MARKS_MAX, now_ms, &sample));
    assert_int_equal(window.mark_count, 0);
}

static void what_was_under_way_in_a_sleep_is_not_judged(void **state)
{
    (void)state;
    learn_base(50);
    (void)fill();
    shp_window_distrust(&window);
    answer_all(3600000);
    assert_int_equal(window.bytes, SHP_LIMIT_BULK_WINDOW_BYTES_START);
}

/* ---- in a session -------------------------------------------------------------------------- */

static uint8_t data[SHP_LIMIT_STREAM_CREDIT_BYTES];
static uint8_t wire[SHP_LIMIT_OUTPUT_BYTES_MAX];

/* A request of b waits for bulk of a, and a stages as much as its credit allows. */
static uint32_t stage_bulk(void)
{
    size_t taken;
    assert_int_equal(pair_open(&pair, SHP_SUITE_PLAIN), 0);
    shp_session_measure(pair.a.session, pair.now_ms);
    uint32_t stream = pair_ask(&pair, &pair.b, CALL, "{}", 1, true, NULL);
    pair_run(&pair);
    pair_forget_events(&pair.a);
    assert_int_equal(shp_session_send_response(pair.a.session, stream, "{}", 2, false), 0);
    assert_int_equal(
        shp_session_send_bulk(pair.a.session, stream, data, sizeof(data), false, &taken), 0);
    assert_int_equal(taken, sizeof(data));
    return stream;
}

/* All that a sends goes into wire; returns its length. */
static size_t take_wire(void)
{
    const uint8_t *out;
    size_t len = 0;
    size_t part;
    while ((part = shp_session_output(pair.a.session, &out, pair.now_ms)) > 0) {
        assert_true(len + part <= sizeof(wire));
        memcpy(wire + len, out, part);
        len += part;
        shp_session_consume_output(pair.a.session, part);
    }
    return len;
}

/* Frames of that type in the first len bytes of wire, and their payload bytes together. */
static size_t count_frames(size_t len, uint8_t type, size_t *bytes)
{
    size_t count = 0;
    size_t sum = 0;
    for (size_t at = 0; at < len;) {
        size_t body = wire[at] | (size_t)wire[at + 1] << 8 | (size_t)wire[at + 2] << 16;
        if (wire[at + SHP_FRAME_LENGTH_BYTES] == type) {
            count++;
            sum += body - SHP_FRAME_HEADER_BYTES;
        }
        at += SHP_FRAME_LENGTH_BYTES + body;
    }
    if (bytes)
        *bytes = sum;
    return count;
}

static void give_wire(size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t taken;
        assert_int_equal(shp_session_feed(pair.b.session, wire + at, len - at, &taken, pair.now_ms),
                         0);
        at += taken;
        pair_take_events(&pair.b);
    }
}

static void bulk_waits_for_pongs_and_a_head_does_not(void **state)
{
    (void)state;
    size_t bytes;
    uint32_t stream = stage_bulk();
    size_t len = take_wire();
    count_frames(len, SHP_FRAME_BULK, &bytes);
    assert_int_equal(bytes, SHP_LIMIT_BULK_WINDOW_BYTES_START);
    assert_int_equal(take_wire(), 0);
    /* What is small passes. */
    (void)pair_ask(&pair, &pair.a, CALL, "{}", 2, true, NULL);
    shp_session_probe(pair.a.session, pair.now_ms);
    assert_int_equal(shp_session_cancel(pair.a.session, stream, SHP_CODE_CANCELED), 0);
    size_t small = take_wire();
    assert_int_equal(count_frames(small, SHP_FRAME_HEAD, NULL), 1);
    assert_int_equal(count_frames(small, SHP_FRAME_PING, NULL), 1);
    assert_int_equal(count_frames(small, SHP_FRAME_CANCEL, NULL), 1);
    assert_int_equal(count_frames(small, SHP_FRAME_BULK, NULL), 0);
}

static void owner_is_told_when_the_window_made_room(void **state)
{
    (void)state;
    size_t taken;
    uint32_t stream = stage_bulk();
    uint32_t second = pair_ask(&pair, &pair.a, CALL, "{}", 2, false, NULL);
    assert_int_equal(
        shp_session_send_bulk(pair.a.session, second, data, sizeof(data), false, &taken), 0);
    uint32_t third = pair_ask(&pair, &pair.a, CALL, "{}", 3, false, NULL);
    assert_int_equal(shp_session_send_bulk(pair.a.session, third, data, sizeof(data), true, &taken),
                     0);
    assert_true(taken < sizeof(data));
    give_wire(take_wire());
    pair_take_events(&pair.a);
    assert_null(pair_next(&pair.a)); /* the window holds the rest */
    pair_run(&pair);
    struct pair_event *event = pair_next(&pair.a);
    assert_non_null(event);
    assert_int_equal(event->type, SHP_EVENT_WRITABLE);
    (void)stream;
}

static void peer_that_answers_no_ping_gets_one_window_and_few_pings(void **state)
{
    (void)state;
    size_t bytes;
    (void)stage_bulk();
    size_t len = take_wire();
    count_frames(len, SHP_FRAME_BULK, &bytes);
    size_t pings = count_frames(len, SHP_FRAME_PING, NULL);
    assert_int_equal(bytes, SHP_LIMIT_BULK_WINDOW_BYTES_START);
    assert_in_range(pings, 8, 9);
    /* It speaks, but never a pong: only the pings of liveness go on. */
    for (int i = 0; i < 100; i++) {
        pair.now_ms += SHP_LIMIT_PING_INTERVAL_MS;
        assert_int_equal(pair_inject(&pair, &pair.a, SHP_FRAME_PING, 0, 0, "12345678", 8), 0);
        shp_session_tick(pair.a.session, pair.now_ms);
        len = take_wire();
        assert_int_equal(count_frames(len, SHP_FRAME_BULK, NULL), 0);
        assert_true(count_frames(len, SHP_FRAME_PING, NULL) <= 1);
    }
    assert_false(shp_session_closed(pair.a.session));
}

static void silent_peer_and_late_requests_end_as_ever_while_bulk_waits(void **state)
{
    (void)state;
    (void)stage_bulk();
    (void)pair_ask(&pair, &pair.a, CALL, "{}", 2, true, NULL); /* has one minute */
    (void)take_wire();
    uint64_t start = pair.now_ms;
    pair.now_ms = start + SHP_LIMIT_SILENCE_MAX_MS - 1;
    shp_session_tick(pair.a.session, pair.now_ms);
    assert_false(shp_session_closed(pair.a.session));
    assert_int_equal(pair_inject(&pair, &pair.a, SHP_FRAME_PONG, 0, 0, "nobodys!", 8), 0);
    pair.now_ms = start + 60000;
    shp_session_tick(pair.a.session, pair.now_ms);
    pair_take_events(&pair.a);
    struct pair_event *event = pair_next(&pair.a);
    assert_int_equal(event->type, SHP_EVENT_FAILED);
    assert_int_equal(event->error.code, SHP_CODE_TIMEOUT);
    /* The answer's own time is over as well. */
    assert_int_equal(pair_next(&pair.a)->type, SHP_EVENT_CANCELED);
    pair.now_ms = start + SHP_LIMIT_SILENCE_MAX_MS - 1 + SHP_LIMIT_SILENCE_MAX_MS;
    assert_true(shp_session_deadline_ms(pair.a.session) <= pair.now_ms);
    shp_session_tick(pair.a.session, pair.now_ms);
    pair_take_events(&pair.a);
    event = pair_next(&pair.a);
    assert_int_equal(event->type, SHP_EVENT_CLOSED);
    assert_int_equal(event->error.code, SHP_CODE_SILENCE);
}

static void small_answers_bring_no_ping(void **state)
{
    (void)state;
    size_t taken;
    assert_int_equal(pair_open(&pair, SHP_SUITE_PLAIN), 0);
    for (uint8_t i = 0; i < 15; i++) {
        uint32_t stream = pair_ask(&pair, &pair.b, CALL, "{}", i, true, NULL);
        pair_run(&pair);
        assert_int_equal(shp_session_send_response(pair.a.session, stream, "{}", 2, false), 0);
        assert_int_equal(shp_session_send_bulk(pair.a.session, stream, data, 200, true, &taken), 0);
        size_t len = take_wire();
        assert_int_equal(count_frames(len, SHP_FRAME_BULK, NULL), 1);
        assert_int_equal(count_frames(len, SHP_FRAME_PING, NULL), 0);
        give_wire(len);
    }
}

static void round_trip_is_not_that_of_our_own_queue(void **state)
{
    (void)state;
    size_t taken;
    assert_int_equal(pair_open(&pair, SHP_SUITE_PLAIN), 0);
    uint32_t stream = pair_ask(&pair, &pair.b, CALL, "{}", 1, true, NULL);
    pair_run(&pair);
    shp_session_measure(pair.a.session, pair.now_ms);
    give_wire(take_wire());
    pair.now_ms += 30;
    pair_move(&pair, &pair.b, &pair.a);
    assert_int_equal(shp_session_rtt_us(pair.a.session), 30000);
    /* Pings behind bulk that come back after 400 ms. */
    assert_int_equal(shp_session_send_response(pair.a.session, stream, "{}", 2, false), 0);
    assert_int_equal(
        shp_session_send_bulk(pair.a.session, stream, data, sizeof(data), false, &taken), 0);
    give_wire(take_wire());
    assert_true(shp_session_deadline_ms(pair.a.session) < pair.now_ms + 30);
    pair.now_ms += 400;
    pair_move(&pair, &pair.b, &pair.a);
    assert_int_equal(shp_session_rtt_us(pair.a.session), 30000);
    assert_int_equal(shp_session_bulk_window(pair.a.session), SHP_LIMIT_BULK_WINDOW_BYTES_MIN);
}

static void full_output_sets_no_time_in_the_past(void **state)
{
    (void)state;
    static char json[SHP_LIMIT_HEAD_JSON_BYTES_MAX + 1];
    const uint8_t *out;
    size_t taken;
    memset(json, ' ', sizeof(json) - 1);
    json[0] = '{';
    json[1] = '}';
    assert_int_equal(pair_open(&pair, SHP_SUITE_PLAIN), 0);
    uint32_t stream = pair_ask(&pair, &pair.b, CALL, "{}", 1, true, NULL);
    pair_run(&pair);
    shp_session_measure(pair.a.session, pair.now_ms);
    give_wire(take_wire());
    pair.now_ms += 40;
    pair_move(&pair, &pair.b, &pair.a);
    assert_int_equal(shp_session_send_response(pair.a.session, stream, "{}", 2, false), 0);
    assert_int_equal(
        shp_session_send_bulk(pair.a.session, stream, data, sizeof(data), false, &taken), 0);
    /* The pace holds bulk back; meanwhile heads fill the output, and the transport takes nothing. */
    assert_true(shp_session_output(pair.a.session, &out, pair.now_ms) > 0);
    uint64_t resume_ms = shp_session_deadline_ms(pair.a.session);
    assert_in_range(resume_ms, pair.now_ms + 1, pair.now_ms + 20);
    for (uint8_t i = 0; i < 2; i++)
        assert_int_not_equal(pair_ask(&pair, &pair.a, CALL, json, i, true, NULL), 0);
    pair.now_ms = resume_ms + 5;
    shp_session_tick(pair.a.session, pair.now_ms);
    assert_true(shp_session_output(pair.a.session, &out, pair.now_ms) > 65536);
    assert_true(shp_session_deadline_ms(pair.a.session) > pair.now_ms);
}

#define WINDOW(name) cmocka_unit_test_setup(name, begin)
#define SESSION(name) cmocka_unit_test_teardown(name, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WINDOW(nothing_goes_beyond_the_window),
        WINDOW(frame_is_a_small_part_of_the_window),
        WINDOW(bulk_goes_in_parts_where_the_line_has_a_delay),
        WINDOW(only_little_goes_before_the_base_is_known),
        WINDOW(window_doubles_in_each_round_trip_at_first),
        WINDOW(window_that_is_not_used_does_not_grow),
        WINDOW(window_halves_once_for_one_flight),
        WINDOW(round_trip_that_just_is_near_its_base_halves_nothing),
        WINDOW(old_base_is_taken_anew_on_an_empty_line),
        WINDOW(base_that_is_seen_again_does_not_age),
        WINDOW(window_starts_again_after_a_rest),
        WINDOW(window_is_never_stuck_without_a_mark),
        WINDOW(pongs_of_nothing_change_nothing),
        WINDOW(marks_that_are_never_answered_stay_bounded),
        WINDOW(what_was_under_way_in_a_sleep_is_not_judged),
        SESSION(bulk_waits_for_pongs_and_a_head_does_not),
        SESSION(owner_is_told_when_the_window_made_room),
        SESSION(peer_that_answers_no_ping_gets_one_window_and_few_pings),
        SESSION(silent_peer_and_late_requests_end_as_ever_while_bulk_waits),
        SESSION(small_answers_bring_no_ping),
        SESSION(round_trip_is_not_that_of_our_own_queue),
        SESSION(full_output_sets_no_time_in_the_past),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
