/* Bulk under credit, its order and its bounds; and peers that break the rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/session_pair.h"

#define CALL SHP_MSG_HERDR_CALL

static struct pair pair; /* large; every case makes it anew */

static void open_pair(enum shp_suite suite)
{
    assert_int_equal(pair_open(&pair, suite), 0);
}

static int close_pair(void **state)
{
    (void)state;
    pair_free(&pair);
    return 0;
}

static struct pair_event *expect(struct pair_end *end, enum shp_event_type type)
{
    struct pair_event *event = pair_next(end);
    assert_non_null(event);
    assert_int_equal(event->type, type);
    return event;
}

static void expect_none(struct pair_end *end)
{
    assert_null(pair_next(end));
}

/* ---- bulk ---------------------------------------------------------------------------------- */

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 31 + (i >> 8) * 7 + (i >> 16));
}

static void check_bulk(enum shp_suite suite, size_t total, size_t piece)
{
    uint8_t *data = malloc(total + 1);
    for (size_t i = 0; i < total; i++)
        data[i] = pattern(i);
    open_pair(suite);
    pair.piece = piece;
    uint32_t stream = pair_ask(&pair, &pair.a, CALL, "{}", 1, true, NULL);
    pair_run(&pair);
    expect(&pair.b, SHP_EVENT_REQUEST);
    assert_int_equal(shp_session_send_response(pair.b.session, stream, "{}", 2, false), 0);
    size_t sent = 0;
    size_t received = 0;
    bool done = false;
    bool told = false;
    while (!done) {
        size_t taken = 0;
        if (!told) {
            assert_int_equal(shp_session_send_bulk(pair.b.session, stream, data + sent,
                                                   total - sent, true, &taken),
                             0);
            sent += taken;
            told = sent == total;
        }
        pair_run(&pair);
        for (struct pair_event *event; (event = pair_next(&pair.a));) {
            if (event->type != SHP_EVENT_BULK)
                continue;
            assert_true(received + event->data_len <= total);
            assert_memory_equal(event->data, data + received, event->data_len);
            received += event->data_len;
            done = event->fin;
        }
        pair_forget_events(&pair.a);
        pair_forget_events(&pair.b);
    }
    assert_int_equal(received, total);
    assert_int_equal(shp_session_pending(pair.a.session), 0);
    free(data);
    pair_free(&pair);
}

static void bulk_arrives_whole_under_credit(void **state)
{
    (void)state;
    check_bulk(SHP_SUITE_NOISE, 0, 0);
    check_bulk(SHP_SUITE_NOISE, 1, 0);
    check_bulk(SHP_SUITE_NOISE, SHP_LIMIT_MESSAGE_BYTES_MAX, 0);
    check_bulk(SHP_SUITE_NOISE, 1000000, 777);
    check_bulk(SHP_SUITE_PLAIN, SHP_LIMIT_MESSAGE_BYTES_MAX, 4096);
}

static void sender_stops_at_the_credit_of_a_slow_consumer(void **state)
{
    (void)state;
    static uint8_t data[2 * SHP_LIMIT_STREAM_CREDIT_BYTES];
    size_t taken;
    open_pair(SHP_SUITE_NOISE);
    pair.b.consume = false;
    uint32_t stream = pair_ask(&pair, &pair.a, CALL, "{}", 1, false, NULL);
    assert_int_equal(
        shp_session_send_bulk(pair.a.session, stream, data, sizeof(data), true, &taken), 0);
    assert_int_equal(taken, SHP_LIMIT_STREAM_CREDIT_BYTES);
    pair_run(&pair);
    assert_int_equal(shp_session_send_bulk(pair.a.session, stream, data, 1, true, &taken), 0);
    assert_int_equal(taken, 0);
    expect_none(&pair.a);
    /* Less than half a window is not worth a frame; the rest makes the sender go on. */
    shp_session_consume(pair.b.session, stream, SHP_LIMIT_STREAM_CREDIT_BYTES / 2 - 1);
    pair_run(&pair);
    expect_none(&pair.a);
    shp_session_consume(pair.b.session, stream, 1);
    pair_run(&pair);
    expect(&pair.a, SHP_EVENT_WRITABLE);
    assert_int_equal(
        shp_session_send_bulk(pair.a.session, stream, data, sizeof(data), true, &taken), 0);
    assert_int_equal(taken, SHP_LIMIT_STREAM_CREDIT_BYTES / 2);
}

static void full_output_refuses_bulk_then_heads_but_not_control(void **state)
{
    (void)state;
    static uint8_t data[SHP_LIMIT_STREAM_CREDIT_BYTES];
    static char json[SHP_LIMIT_HEAD_JSON_BYTES_MAX];
    uint32_t streams[4];
    size_t taken;
    memset(json, ' ', sizeof(json));
    json[0] = '{';
    json[1] = '}';
    open_pair(SHP_SUITE_NOISE);
    for (int i = 0; i < 4; i++)
        streams[i] = pair_ask(&pair, &pair.a, CALL, "{}", 1, false, NULL);
    size_t total = 0;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(
            shp_session_send_bulk(pair.a.session, streams[i], data, sizeof(data), true, &taken), 0);
        total += taken;
    }
    assert_true(total < SHP_LIMIT_OUTPUT_BYTES_MAX);
    assert_true(total > SHP_LIMIT_OUTPUT_BYTES_MAX - 1000);
    uint8_t id[16] = {0};
    uint32_t stream;
    assert_int_equal(shp_session_send_request(pair.a.session, CALL, id, 1000, json, sizeof(json),
                                              true, NULL, pair.now_ms, &stream),
                     0);
    assert_int_equal(shp_session_send_request(pair.a.session, CALL, id, 1000, json, sizeof(json),
                                              true, NULL, pair.now_ms, &stream),
                     SHP_ERR_AGAIN);
    assert_int_equal(shp_session_cancel(pair.a.session, streams[0], SHP_CODE_CANCELED), 0);
    pair_run(&pair);
    expect(&pair.a, SHP_EVENT_FAILED);
    expect(&pair.a, SHP_EVENT_WRITABLE);
    expect_none(&pair.a);
}

static void small_head_overtakes_staged_bulk(void **state)
{
    (void)state;
    static uint8_t data[SHP_LIMIT_STREAM_CREDIT_BYTES];
    size_t taken;
    open_pair(SHP_SUITE_NOISE);
    uint32_t stream = pair_ask(&pair, &pair.a, CALL, "{}", 1, false, NULL);
    shp_session_send_bulk(pair.a.session, stream, data, sizeof(data), true, &taken);
    uint32_t other = pair_ask(&pair, &pair.a, CALL, "{}", 2, true, NULL);
    pair_run(&pair);
    expect(&pair.b, SHP_EVENT_REQUEST);
    assert_int_equal(expect(&pair.b, SHP_EVENT_REQUEST)->stream, other);
    expect(&pair.b, SHP_EVENT_BULK);
}

static void bulk_of_streams_takes_turns(void **state)
{
    (void)state;
    static uint8_t data[SHP_LIMIT_STREAM_CREDIT_BYTES / 2];
    size_t taken;
    open_pair(SHP_SUITE_NOISE);
    uint32_t first = pair_ask(&pair, &pair.a, CALL, "{}", 1, false, NULL);
    uint32_t second = pair_ask(&pair, &pair.a, CALL, "{}", 2, false, NULL);
    shp_session_send_bulk(pair.a.session, first, data, sizeof(data), true, &taken);
    shp_session_send_bulk(pair.a.session, second, data, sizeof(data), true, &taken);
    pair_run(&pair);
    expect(&pair.b, SHP_EVENT_REQUEST);
    expect(&pair.b, SHP_EVENT_REQUEST);
    for (int i = 0; i < 4; i++)
        assert_int_equal(expect(&pair.b, SHP_EVENT_BULK)->stream, i % 2 == 0 ? first : second);
}

static void complete_answer_ends_an_open_question(void **state)
{
    (void)state;
    static uint8_t data[SHP_LIMIT_STREAM_CREDIT_BYTES];
    size_t taken;
    open_pair(SHP_SUITE_NOISE);
    uint32_t stream = pair_ask(&pair, &pair.a, CALL, "{}", 1, false, NULL);
    shp_session_send_bulk(pair.a.session, stream, data, sizeof(data), false, &taken);
    pair_move(&pair, &pair.a, &pair.b);
    assert_int_equal(shp_session_send_response(pair.b.session, stream, "{}", 2, true), 0);
    pair_forget_events(&pair.b);
    pair_run(&pair);
    assert_true(expect(&pair.a, SHP_EVENT_RESPONSE)->fin);
    expect_none(&pair.b);
    assert_int_equal(shp_session_send_bulk(pair.a.session, stream, data, 1, true, &taken),
                     SHP_ERR_NOT_FOUND);
    /* Both sides have forgotten the stream: its place can be used 256 times again. */
    for (int i = 0; i < 2 * SHP_LIMIT_STREAMS_OPEN_MAX; i++) {
        uint32_t next = pair_ask(&pair, &pair.a, CALL, "{}", 1, false, NULL);
        assert_true(next != 0);
        pair_run(&pair);
        assert_int_equal(shp_session_send_response(pair.b.session, next, "{}", 2, true), 0);
        pair_run(&pair);
    }
    assert_int_equal(shp_session_pending(pair.a.session), 0);
}

static void answer_broken_off_in_its_bulk_fails_the_request(void **state)
{
    (void)state;
    size_t taken;
    open_pair(SHP_SUITE_NOISE);
    uint32_t stream = pair_ask(&pair, &pair.a, CALL, "{}", 1, true, NULL);
    pair_run(&pair);
    shp_session_send_response(pair.b.session, stream, "{}", 2, false);
    shp_session_send_bulk(pair.b.session, stream, (const uint8_t *)"x", 1, false, &taken);
    pair_run(&pair);
    assert_int_equal(shp_session_cancel(pair.b.session, stream, SHP_CODE_HERDR_NO_ANSWER), 0);
    pair_run(&pair);
    expect(&pair.a, SHP_EVENT_RESPONSE);
    expect(&pair.a, SHP_EVENT_BULK);
    assert_int_equal(expect(&pair.a, SHP_EVENT_FAILED)->error.code, SHP_CODE_HERDR_NO_ANSWER);
    expect_none(&pair.a);
}

static void message_above_its_limit_is_refused_before_sending(void **state)
{
    (void)state;
    static uint8_t data[SHP_LIMIT_MESSAGE_BYTES_MAX + 1];
    size_t taken;
    open_pair(SHP_SUITE_PLAIN);
    uint32_t stream = pair_ask(&pair, &pair.a, CALL, "{}", 1, false, NULL);
    assert_int_equal(
        shp_session_send_bulk(pair.a.session, stream, data, sizeof(data), true, &taken),
        SHP_ERR_LIMIT);
    assert_int_equal(taken, 0);
}

/* ---- peers that break the rules ------------------------------------------------------------ */

static const uint8_t request_head[] = "\x01\0\0\x01"
                                      "0123456789abcdef"
                                      "\x10\0\0\0{}";

static void broken_rules_end_the_session_with_a_code(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint8_t type;
        uint8_t flags;
        uint32_t stream;
        const char *payload;
        size_t len;
        int code;
    } cases[] = {
        {"unknown type", 99, 0, 0, "", 0, SHP_CODE_PROTOCOL_ERROR},
        {"unknown flag", SHP_FRAME_PING, 2, 0, "12345678", 8, SHP_CODE_PROTOCOL_ERROR},
        {"hello after hello", SHP_FRAME_HELLO, 0, 0, "{}", 2, SHP_CODE_PROTOCOL_ERROR},
        {"short ping", SHP_FRAME_PING, 0, 0, "1234567", 7, SHP_CODE_PROTOCOL_ERROR},
        {"ping on a stream", SHP_FRAME_PING, 0, 1, "12345678", 8, SHP_CODE_PROTOCOL_ERROR},
        {"head on stream 0", SHP_FRAME_HEAD, 1, 0, (const char *)request_head,
         sizeof(request_head) - 1, SHP_CODE_PROTOCOL_ERROR},
        {"head on our number", SHP_FRAME_HEAD, 1, 2, (const char *)request_head,
         sizeof(request_head) - 1, SHP_CODE_PROTOCOL_ERROR},
        {"head without object", SHP_FRAME_HEAD, 1, 1, "\4\0\x11\1[]", 6, SHP_CODE_PROTOCOL_ERROR},
        {"head with trailing text", SHP_FRAME_HEAD, 1, 1, "\4\0\x11\1{}x", 7,
         SHP_CODE_PROTOCOL_ERROR},
        {"head with a reserved byte", SHP_FRAME_HEAD, 1, 1, "\4\1\x11\1{}", 6,
         SHP_CODE_PROTOCOL_ERROR},
        {"head of no kind", SHP_FRAME_HEAD, 1, 1, "\5\0\x11\1{}", 6, SHP_CODE_PROTOCOL_ERROR},
        {"short request", SHP_FRAME_HEAD, 1, 1, "\1\0\0\1{}", 6, SHP_CODE_PROTOCOL_ERROR},
        {"answer to nothing", SHP_FRAME_HEAD, 1, 2, "\2\0\0\0{}", 6, SHP_CODE_PROTOCOL_ERROR},
        {"bulk on no stream", SHP_FRAME_BULK, 0, 1, "x", 1, SHP_CODE_PROTOCOL_ERROR},
        {"empty bulk", SHP_FRAME_BULK, 0, 1, "", 0, SHP_CODE_PROTOCOL_ERROR},
        {"credit on no stream", SHP_FRAME_CREDIT, 0, 1, "\1\0\0\0", 4, SHP_CODE_PROTOCOL_ERROR},
        {"credit of nothing", SHP_FRAME_CREDIT, 0, 1, "\0\0\0\0", 4, SHP_CODE_PROTOCOL_ERROR},
        {"cancel of nothing", SHP_FRAME_CANCEL, 0, 1, "\1\0", 2, SHP_CODE_PROTOCOL_ERROR},
        {"long cancel", SHP_FRAME_CANCEL, 0, 1, "\1\0\0", 3, SHP_CODE_PROTOCOL_ERROR},
        {"close without code", SHP_FRAME_CLOSE, 0, 0, "\1", 1, SHP_CODE_PROTOCOL_ERROR},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        open_pair(SHP_SUITE_PLAIN);
        int err = pair_inject(&pair, &pair.b, cases[i].type, cases[i].flags, cases[i].stream,
                              cases[i].payload, cases[i].len);
        if (err != SHP_ERR_PROTOCOL)
            fail_msg("%s: %d", cases[i].name, err);
        assert_int_equal(expect(&pair.b, SHP_EVENT_CLOSED)->error.code, cases[i].code);
        /* The peer is told. */
        pair_run(&pair);
        assert_int_equal(expect(&pair.a, SHP_EVENT_CLOSED)->error.code, cases[i].code);
        pair_free(&pair);
    }
}

static void bulk_above_credit_ends_the_session(void **state)
{
    (void)state;
    static uint8_t bulk[1024];
    open_pair(SHP_SUITE_PLAIN);
    pair.b.consume = false;
    assert_int_equal(
        pair_inject(&pair, &pair.b, SHP_FRAME_HEAD, 0, 1, request_head, sizeof(request_head) - 1),
        0);
    for (int i = 0; i < SHP_LIMIT_STREAM_CREDIT_BYTES / 1024; i++)
        assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_BULK, 0, 1, bulk, sizeof(bulk)), 0);
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_BULK, 0, 1, bulk, 1), SHP_ERR_CREDIT);
}

static void bulk_above_the_message_limit_refuses_the_request_only(void **state)
{
    (void)state;
    static uint8_t bulk[1024];
    open_pair(SHP_SUITE_PLAIN);
    assert_int_equal(
        pair_inject(&pair, &pair.b, SHP_FRAME_HEAD, 0, 1, request_head, sizeof(request_head) - 1),
        0);
    for (int i = 0; i < SHP_LIMIT_MESSAGE_BYTES_MAX / 1024; i++) {
        assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_BULK, 0, 1, bulk, sizeof(bulk)), 0);
        const uint8_t *out; /* credit and pings of b go nowhere */
        shp_session_consume_output(pair.b.session,
                                   shp_session_output(pair.b.session, &out, pair.now_ms));
        pair_forget_events(&pair.b);
    }
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_BULK, 1, 1, bulk, 1), 0);
    assert_int_equal(expect(&pair.b, SHP_EVENT_CANCELED)->stream, 1);
    assert_false(shp_session_closed(pair.b.session));
    const uint8_t *out;
    size_t len = shp_session_output(pair.b.session, &out, pair.now_ms);
    assert_true(len > 16);
    assert_int_equal(out[4], SHP_FRAME_HEAD);
    assert_int_equal(out[12], SHP_KIND_ERROR);
    assert_int_equal(out[14], SHP_CODE_MESSAGE_TOO_LARGE);
}

static void frames_of_an_ended_stream_are_ignored(void **state)
{
    (void)state;
    open_pair(SHP_SUITE_PLAIN);
    pair_inject(&pair, &pair.b, SHP_FRAME_HEAD, 0, 5, request_head, sizeof(request_head) - 1);
    expect(&pair.b, SHP_EVENT_REQUEST);
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_CANCEL, 0, 5, "\x0a\0", 2), 0);
    expect(&pair.b, SHP_EVENT_CANCELED);
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_BULK, 0, 5, "x", 1), 0);
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_CREDIT, 0, 5, "\1\0\0\0", 4), 0);
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_CANCEL, 0, 5, "\x0a\0", 2), 0);
    assert_int_equal(
        pair_inject(&pair, &pair.b, SHP_FRAME_HEAD, 1, 3, request_head, sizeof(request_head) - 1),
        0);
    expect_none(&pair.b);
}

static void changed_byte_ends_a_noise_session_silently(void **state)
{
    (void)state;
    const uint8_t *out;
    uint8_t bytes[256];
    size_t taken;
    open_pair(SHP_SUITE_NOISE);
    pair_ask(&pair, &pair.a, CALL, "{}", 1, true, NULL);
    size_t len = shp_session_output(pair.a.session, &out, pair.now_ms);
    assert_true(len <= sizeof(bytes));
    memcpy(bytes, out, len);
    bytes[len - 1] ^= 1;
    assert_int_equal(shp_session_feed(pair.b.session, bytes, len, &taken, pair.now_ms),
                     SHP_ERR_AUTH);
    pair_take_events(&pair.b);
    assert_int_equal(expect(&pair.b, SHP_EVENT_CLOSED)->error.code, SHP_CODE_AUTH_FAILED);
    assert_int_equal(shp_session_output(pair.b.session, &out, pair.now_ms), 0);
}

static void replayed_frame_ends_a_noise_session(void **state)
{
    (void)state;
    const uint8_t *out;
    uint8_t bytes[256];
    size_t taken;
    open_pair(SHP_SUITE_NOISE);
    pair_ask(&pair, &pair.a, CALL, "{}", 1, true, NULL);
    size_t len = shp_session_output(pair.a.session, &out, pair.now_ms);
    memcpy(bytes, out, len);
    assert_int_equal(shp_session_feed(pair.b.session, bytes, len, &taken, pair.now_ms), 0);
    pair_take_events(&pair.b);
    assert_int_equal(shp_session_feed(pair.b.session, bytes, len, &taken, pair.now_ms),
                     SHP_ERR_AUTH);
}

static void peer_that_asks_and_never_reads_is_dropped(void **state)
{
    (void)state;
    open_pair(SHP_SUITE_PLAIN);
    int err = 0;
    int pings = 0;
    while (err == 0 && pings++ < 100000)
        err = pair_inject(&pair, &pair.b, SHP_FRAME_PING, 0, 0, "12345678", 8);
    assert_int_equal(err, SHP_ERR_LIMIT);
    const uint8_t *out;
    assert_true(shp_session_output(pair.b.session, &out, pair.now_ms) <=
                SHP_LIMIT_OUTPUT_BYTES_MAX + SHP_LIMIT_CONTROL_RESERVE_BYTES);
}

static void peer_that_breaks_a_rule_of_an_open_stream_is_dropped(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint8_t type;
        uint8_t flags;
        uint32_t stream; /* 1: the peer's request, whole; 2: a request of ours */
        const char *payload;
        size_t len;
    } cases[] = {
        {"second head", SHP_FRAME_HEAD, 1, 1, (const char *)request_head, sizeof(request_head) - 1},
        {"bulk behind the end", SHP_FRAME_BULK, 1, 1, "x", 1},
        {"bulk before the response", SHP_FRAME_BULK, 1, 2, "x", 1},
        {"response with a message", SHP_FRAME_HEAD, 1, 2, "\2\0\1\0{}", 6},
        {"error without a code", SHP_FRAME_HEAD, 1, 2, "\3\0\0\0{}", 6},
        {"error without fin", SHP_FRAME_HEAD, 0, 2, "\3\0\1\0{}", 6},
        {"more credit than there is", SHP_FRAME_CREDIT, 0, 2, "\xff\xff\xff\xff", 4},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        open_pair(SHP_SUITE_PLAIN);
        assert_int_equal(pair_ask(&pair, &pair.b, CALL, "{}", 1, false, NULL), 2);
        assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_HEAD, 1, 1, request_head,
                                     sizeof(request_head) - 1),
                         0);
        int err = pair_inject(&pair, &pair.b, cases[i].type, cases[i].flags, cases[i].stream,
                              cases[i].payload, cases[i].len);
        if (err != SHP_ERR_PROTOCOL)
            fail_msg("%s: %d", cases[i].name, err);
        expect(&pair.b, SHP_EVENT_REQUEST);
        assert_int_equal(expect(&pair.b, SHP_EVENT_FAILED)->error.code, SHP_CODE_PROTOCOL_ERROR);
        expect(&pair.b, SHP_EVENT_CLOSED);
        expect_none(&pair.b);
        pair_free(&pair);
    }
}

static void second_response_is_broken_but_an_error_may_follow_one(void **state)
{
    (void)state;
    open_pair(SHP_SUITE_PLAIN);
    pair_ask(&pair, &pair.b, CALL, "{}", 1, true, NULL);
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_HEAD, 0, 2, "\2\0\0\0{}", 6), 0);
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_HEAD, 1, 2, "\3\0\x29\0{}", 6), 0);
    expect(&pair.b, SHP_EVENT_RESPONSE);
    assert_int_equal(expect(&pair.b, SHP_EVENT_FAILED)->error.code, SHP_CODE_HERDR_NO_ANSWER);
    pair_ask(&pair, &pair.b, CALL, "{}", 1, true, NULL);
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_HEAD, 0, 4, "\2\0\0\0{}", 6), 0);
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_HEAD, 0, 4, "\2\0\0\0{}", 6),
                     SHP_ERR_PROTOCOL);
}

static void answer_above_the_message_limit_fails_its_request_only(void **state)
{
    (void)state;
    static uint8_t bulk[1024];
    const uint8_t *out;
    open_pair(SHP_SUITE_PLAIN);
    pair_ask(&pair, &pair.b, CALL, "{}", 1, true, NULL);
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_HEAD, 0, 2, "\2\0\0\0{}", 6), 0);
    for (int i = 0; i < SHP_LIMIT_MESSAGE_BYTES_MAX / 1024; i++) {
        assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_BULK, 0, 2, bulk, sizeof(bulk)), 0);
        shp_session_consume_output(pair.b.session,
                                   shp_session_output(pair.b.session, &out, pair.now_ms));
        pair_forget_events(&pair.b);
    }
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_BULK, 1, 2, bulk, 1), 0);
    struct pair_event *failed = expect(&pair.b, SHP_EVENT_FAILED);
    assert_int_equal(failed->error.code, SHP_CODE_MESSAGE_TOO_LARGE);
    assert_int_equal(failed->error.outcome, SHP_OUTCOME_UNKNOWN);
    assert_int_equal(shp_session_pending(pair.b.session), 0);
    assert_int_equal(shp_session_output(pair.b.session, &out, pair.now_ms), 14);
    assert_int_equal(out[4], SHP_FRAME_CANCEL);
    assert_int_equal(out[12], SHP_CODE_MESSAGE_TOO_LARGE);
}

static void notifications_that_cannot_be_taken_are_dropped(void **state)
{
    (void)state;
    const uint8_t *out;
    open_pair(SHP_SUITE_PLAIN);
    /* Unknown, and with bulk that nobody waits for. */
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_HEAD, 0, 1, "\4\0\xff\xff{}", 6), 0);
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_BULK, 1, 1, "x", 1), 0);
    uint32_t stream = 3;
    for (int i = 0; i < SHP_LIMIT_STREAMS_OPEN_MAX; i++, stream += 2)
        assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_HEAD, 0, stream, "\4\0\x11\1{}", 6),
                         0);
    assert_int_equal(pair.b.event_count, SHP_LIMIT_STREAMS_OPEN_MAX);
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_HEAD, 0, stream, "\4\0\x11\1{}", 6), 0);
    assert_int_equal(pair.b.event_count, SHP_LIMIT_STREAMS_OPEN_MAX);
    assert_int_equal(shp_session_output(pair.b.session, &out, pair.now_ms), 0);
    /* One ends, one more fits. */
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_BULK, 1, 3, "", 0), 0);
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_HEAD, 0, stream + 2, "\4\0\x11\1{}", 6),
                     0);
    assert_int_equal(pair.b.event_count, SHP_LIMIT_STREAMS_OPEN_MAX + 2);
}

static void error_answer_waits_for_room_as_heads_do(void **state)
{
    (void)state;
    static uint8_t data[SHP_LIMIT_STREAM_CREDIT_BYTES];
    static char json[SHP_LIMIT_HEAD_JSON_BYTES_MAX];
    struct shp_error error;
    size_t taken;
    uint8_t id[16] = {0};
    uint32_t stream;
    memset(json, ' ', sizeof(json));
    memcpy(json, "{}", 2);
    open_pair(SHP_SUITE_PLAIN);
    pair_ask(&pair, &pair.a, CALL, "{}", 1, true, NULL);
    pair_run(&pair);
    uint32_t asked = expect(&pair.b, SHP_EVENT_REQUEST)->stream;
    for (int i = 0; i < 3; i++) {
        stream = pair_ask(&pair, &pair.b, CALL, "{}", 1, false, NULL);
        shp_session_send_bulk(pair.b.session, stream, data, sizeof(data), true, &taken);
    }
    assert_int_equal(shp_session_send_request(pair.b.session, CALL, id, 1000, json, sizeof(json),
                                              true, NULL, pair.now_ms, &stream),
                     0);
    shp_error_set(&error, SHP_CODE_HERDR_ERROR, NULL, "step", "cause");
    assert_int_equal(shp_session_send_error(pair.b.session, asked, &error), SHP_ERR_AGAIN);
    assert_int_equal(shp_session_send_response(pair.b.session, asked, json, sizeof(json), true),
                     SHP_ERR_AGAIN);
    pair_run(&pair);
    expect(&pair.b, SHP_EVENT_WRITABLE);
    assert_int_equal(shp_session_send_error(pair.b.session, asked, &error), 0);
    pair_run(&pair);
    struct pair_event *event;
    while ((event = pair_next(&pair.a)) && event->type != SHP_EVENT_FAILED)
        ;
    assert_non_null(event);
    assert_int_equal(event->error.code, SHP_CODE_HERDR_ERROR);
}

static void stream_in_the_middle_of_the_round_can_be_given_up(void **state)
{
    (void)state;
    static uint8_t data[1000];
    uint32_t streams[3];
    size_t taken;
    open_pair(SHP_SUITE_NOISE);
    for (int i = 0; i < 3; i++) {
        streams[i] = pair_ask(&pair, &pair.a, CALL, "{}", 1, false, NULL);
        shp_session_send_bulk(pair.a.session, streams[i], data, sizeof(data), true, &taken);
    }
    assert_int_equal(shp_session_cancel(pair.a.session, streams[1], SHP_CODE_CANCELED), 0);
    assert_int_equal(shp_session_cancel(pair.a.session, streams[2], SHP_CODE_CANCELED), 0);
    pair_run(&pair);
    size_t bulk = 0;
    for (struct pair_event *event; (event = pair_next(&pair.b));)
        if (event->type == SHP_EVENT_BULK) {
            assert_int_equal(event->stream, streams[0]);
            bulk += event->data_len;
        }
    assert_int_equal(bulk, sizeof(data));
}

/* A feed ends early where an event waits. */
static void feed_peer(const uint8_t *bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t taken;
        assert_int_equal(
            shp_session_feed(pair.b.session, bytes + at, len - at, &taken, pair.now_ms), 0);
        at += taken;
        pair_take_events(&pair.b);
        pair_forget_events(&pair.b);
    }
}

static void room_is_told_when_half_of_the_output_has_left(void **state)
{
    (void)state;
    static uint8_t data[SHP_LIMIT_STREAM_CREDIT_BYTES];
    struct shp_event event;
    const uint8_t *out;
    size_t taken;
    size_t left = 0;
    open_pair(SHP_SUITE_PLAIN);
    pair.b.consume = false;
    for (int i = 0; i < 3; i++) {
        uint32_t stream = pair_ask(&pair, &pair.a, CALL, "{}", 1, false, NULL);
        shp_session_send_bulk(pair.a.session, stream, data, sizeof(data), true, &taken);
    }
    assert_int_equal(taken, 0);
    while (!shp_session_next_event(pair.a.session, &event)) {
        assert_true(left < SHP_LIMIT_OUTPUT_BYTES_MAX);
        size_t len = shp_session_output(pair.a.session, &out, pair.now_ms);
        len = len < 1024 ? len : 1024;
        feed_peer(out, len);
        shp_session_consume_output(pair.a.session, len);
        left += len;
        /* The pongs that open the window. */
        len = shp_session_output(pair.b.session, &out, pair.now_ms);
        assert_int_equal(shp_session_feed(pair.a.session, out, len, &taken, pair.now_ms), 0);
        shp_session_consume_output(pair.b.session, len);
    }
    assert_int_equal(event.type, SHP_EVENT_WRITABLE);
    assert_true(left > SHP_LIMIT_OUTPUT_BYTES_MAX / 2 - 1024);
    assert_true(left < SHP_LIMIT_OUTPUT_BYTES_MAX / 2 + 8192);
}

#define CASE(name) cmocka_unit_test_teardown(name, close_pair)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(bulk_arrives_whole_under_credit),
        CASE(sender_stops_at_the_credit_of_a_slow_consumer),
        CASE(room_is_told_when_half_of_the_output_has_left),
        CASE(full_output_refuses_bulk_then_heads_but_not_control),
        CASE(small_head_overtakes_staged_bulk),
        CASE(bulk_of_streams_takes_turns),
        CASE(complete_answer_ends_an_open_question),
        CASE(answer_broken_off_in_its_bulk_fails_the_request),
        CASE(message_above_its_limit_is_refused_before_sending),
        CASE(broken_rules_end_the_session_with_a_code),
        CASE(bulk_above_credit_ends_the_session),
        CASE(bulk_above_the_message_limit_refuses_the_request_only),
        CASE(frames_of_an_ended_stream_are_ignored),
        CASE(changed_byte_ends_a_noise_session_silently),
        CASE(replayed_frame_ends_a_noise_session),
        CASE(peer_that_asks_and_never_reads_is_dropped),
        CASE(peer_that_breaks_a_rule_of_an_open_stream_is_dropped),
        CASE(second_response_is_broken_but_an_error_may_follow_one),
        CASE(answer_above_the_message_limit_fails_its_request_only),
        CASE(notifications_that_cannot_be_taken_are_dropped),
        CASE(error_answer_waits_for_room_as_heads_do),
        CASE(stream_in_the_middle_of_the_round_can_be_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
