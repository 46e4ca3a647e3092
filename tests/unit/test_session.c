/* The session as its owner sees it: both suites, two sessions joined in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "framing/frame.h"
#include "tests/support/session_pair.h"

#define CALL SHP_MSG_HERDR_CALL
#define EVENT SHP_MSG_SESSION_EVENT

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

/* Bytes put into a session of suite plain by hand. */
static int inject(struct pair_end *end, uint8_t type, uint8_t flags, uint32_t stream,
                  const void *payload, size_t len)
{
    uint8_t frame[4 + 8 + 1024];
    size_t taken;
    assert_true(len <= 1024);
    shp_frame_put_length(frame, (uint32_t)(8 + len));
    shp_frame_put_header(frame + 4, type, false, stream);
    frame[5] = flags;
    memcpy(frame + 12, payload, len);
    int err = shp_session_feed(end->session, frame, 12 + len, &taken, pair.now_ms);
    pair_take_events(end);
    return err;
}

/* ---- handshake ----------------------------------------------------------------------------- */

static void check_handshake(enum shp_suite suite, size_t piece)
{
    assert_int_equal(pair_new(&pair, suite), 0);
    pair.piece = piece;
    pair_run(&pair);
    struct pair_event *established = expect(&pair.a, SHP_EVENT_ESTABLISHED);
    assert_string_equal(established->json, "{\"versions\":[1,1],\"role\":\"test\"}");
    assert_string_equal(expect(&pair.b, SHP_EVENT_HELLO)->json, established->json);
    expect(&pair.b, SHP_EVENT_ESTABLISHED);
    expect_none(&pair.a);
    expect_none(&pair.b);
}

static void session_is_established_in_both_suites(void **state)
{
    (void)state;
    check_handshake(SHP_SUITE_NOISE, 0);
    pair_free(&pair);
    check_handshake(SHP_SUITE_PLAIN, 0);
    pair_free(&pair);
    check_handshake(SHP_SUITE_NOISE, 1);
    pair_free(&pair);
    check_handshake(SHP_SUITE_PLAIN, 1);
}

static void responder_may_set_its_hello_after_it_saw_the_peers(void **state)
{
    (void)state;
    assert_int_equal(pair_new(&pair, SHP_SUITE_NOISE), 0);
    shp_session_free(pair.b.session);
    struct shp_session_config config = pair_config(SHP_ROLE_RESPONDER, SHP_SUITE_NOISE);
    config.hello_len = 0;
    assert_int_equal(shp_session_new(&pair.b.session, &config), 0);
    assert_int_equal(shp_session_set_hello(pair.b.session, "{}", 2), SHP_ERR_STATE);
    pair_run(&pair);
    expect(&pair.b, SHP_EVENT_HELLO);
    expect_none(&pair.b);
    expect_none(&pair.a);
    static const char hello[] = "{\"versions\":[1,3],\"later\":true}";
    assert_int_equal(shp_session_set_hello(pair.b.session, "[]", 2), SHP_ERR_INVALID);
    assert_int_equal(shp_session_set_hello(pair.b.session, hello, sizeof(hello) - 1), 0);
    pair_run(&pair);
    assert_string_equal(expect(&pair.a, SHP_EVENT_ESTABLISHED)->json, hello);
    expect(&pair.b, SHP_EVENT_ESTABLISHED);
}

static void responder_refuses_a_hello_with_a_code(void **state)
{
    (void)state;
    assert_int_equal(pair_new(&pair, SHP_SUITE_PLAIN), 0);
    pair_move(&pair, &pair.a, &pair.a); /* nothing: a frame of ours is no frame of the peer */
    pair_free(&pair);
    assert_int_equal(pair_new(&pair, SHP_SUITE_PLAIN), 0);
    shp_session_free(pair.b.session);
    struct shp_session_config config = pair_config(SHP_ROLE_RESPONDER, SHP_SUITE_PLAIN);
    config.hello_len = 0;
    assert_int_equal(shp_session_new(&pair.b.session, &config), 0);
    pair_run(&pair);
    expect(&pair.b, SHP_EVENT_HELLO);
    shp_session_close(pair.b.session, SHP_CODE_AUTH_FAILED, "wrong token");
    pair_run(&pair);
    struct pair_event *closed = expect(&pair.a, SHP_EVENT_CLOSED);
    assert_int_equal(closed->error.code, SHP_CODE_AUTH_FAILED);
    assert_string_equal(closed->error.cause, "wrong token");
}

static void hello_without_common_version_ends_the_session(void **state)
{
    (void)state;
    static const char future[] = "{\"versions\":[2,9]}";
    assert_int_equal(pair_new(&pair, SHP_SUITE_PLAIN), 0);
    shp_session_free(pair.a.session);
    struct shp_session_config config = pair_config(SHP_ROLE_INITIATOR, SHP_SUITE_PLAIN);
    config.hello_json = future;
    config.hello_len = sizeof(future) - 1;
    assert_int_equal(shp_session_new(&pair.a.session, &config), 0);
    pair_run(&pair);
    assert_int_equal(expect(&pair.b, SHP_EVENT_CLOSED)->error.code, SHP_CODE_VERSION_UNSUPPORTED);
    assert_int_equal(expect(&pair.a, SHP_EVENT_CLOSED)->error.code, SHP_CODE_VERSION_UNSUPPORTED);
}

static void wrong_secret_or_marker_ends_without_an_answer(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pair_new(&pair, SHP_SUITE_NOISE), 0);
        shp_session_free(pair.a.session);
        struct shp_session_config config = pair_config(SHP_ROLE_INITIATOR, SHP_SUITE_NOISE);
        const uint8_t *out;
        if (i == 0)
            config.marker[3] = '0';
        assert_int_equal(shp_session_new(&pair.a.session, &config), 0);
        size_t len = shp_session_output(pair.a.session, &out);
        assert_true(len > SHP_PSK_BYTES);
        uint8_t bytes[512];
        assert_true(len <= sizeof(bytes));
        memcpy(bytes, out, len);
        if (i == 1)
            bytes[0] ^= 1;
        size_t taken;
        assert_int_equal(shp_session_feed(pair.b.session, bytes, len, &taken, 1000), SHP_ERR_AUTH);
        pair_take_events(&pair.b);
        assert_int_equal(expect(&pair.b, SHP_EVENT_CLOSED)->error.code, SHP_CODE_AUTH_FAILED);
        assert_int_equal(shp_session_output(pair.b.session, &out), 0);
        pair_free(&pair);
    }
}

static void handshake_that_takes_too_long_fails(void **state)
{
    (void)state;
    assert_int_equal(pair_new(&pair, SHP_SUITE_NOISE), 0);
    assert_int_equal(shp_session_deadline_ms(pair.a.session),
                     1000 + SHP_LIMIT_HANDSHAKE_TIMEOUT_MS);
    shp_session_tick(pair.a.session, 999 + SHP_LIMIT_HANDSHAKE_TIMEOUT_MS);
    assert_false(shp_session_closed(pair.a.session));
    shp_session_tick(pair.a.session, 1000 + SHP_LIMIT_HANDSHAKE_TIMEOUT_MS);
    pair_take_events(&pair.a);
    assert_int_equal(expect(&pair.a, SHP_EVENT_CLOSED)->error.code, SHP_CODE_TIMEOUT);
}

static void new_session_refuses_bad_configuration(void **state)
{
    (void)state;
    struct shp_session *session = NULL;
    struct shp_session_config config = pair_config(SHP_ROLE_INITIATOR, SHP_SUITE_NOISE);
    config.marker[31] = 'G';
    assert_int_equal(shp_session_new(&session, &config), SHP_ERR_INVALID);
    config = pair_config(SHP_ROLE_INITIATOR, SHP_SUITE_NOISE);
    config.marker[31] = '\0';
    assert_int_equal(shp_session_new(&session, &config), SHP_ERR_INVALID);
    config = pair_config(SHP_ROLE_INITIATOR, SHP_SUITE_PLAIN);
    config.hello_len = SHP_LIMIT_HELLO_BYTES_MAX + 1;
    assert_int_equal(shp_session_new(&session, &config), SHP_ERR_INVALID);
    config.hello_len = 0;
    assert_int_equal(shp_session_new(&session, &config), SHP_ERR_INVALID);
    assert_null(session);
}

/* ---- requests ------------------------------------------------------------------------------ */

static void check_round_trip(enum shp_suite suite, size_t piece)
{
    int tag = 0;
    open_pair(suite);
    pair.piece = piece;
    uint32_t stream = pair_ask(&pair, &pair.a, CALL, "{\"socket\":\"/x\"}", 9, true, &tag);
    assert_int_equal(stream, 1);
    assert_int_equal(shp_session_pending(pair.a.session), 1);
    pair_run(&pair);
    struct pair_event *request = expect(&pair.b, SHP_EVENT_REQUEST);
    assert_int_equal(request->message, CALL);
    assert_int_equal(request->timeout_ms, 60000);
    assert_int_equal(request->id[15], 9);
    assert_true(request->fin);
    assert_string_equal(request->json, "{\"socket\":\"/x\"}");
    assert_int_equal(
        shp_session_send_response(pair.b.session, request->stream, "{\"a\":1}", 7, true), 0);
    assert_int_equal(shp_session_send_response(pair.b.session, request->stream, "{}", 2, true),
                     SHP_ERR_NOT_FOUND);
    pair_run(&pair);
    struct pair_event *response = expect(&pair.a, SHP_EVENT_RESPONSE);
    assert_int_equal(response->stream, stream);
    assert_ptr_equal(response->user, &tag);
    assert_true(response->fin);
    assert_string_equal(response->json, "{\"a\":1}");
    expect_none(&pair.a);
    assert_int_equal(shp_session_pending(pair.a.session), 0);
    pair_free(&pair);
}

static void request_gets_its_response(void **state)
{
    (void)state;
    check_round_trip(SHP_SUITE_NOISE, 0);
    check_round_trip(SHP_SUITE_NOISE, 1);
    check_round_trip(SHP_SUITE_PLAIN, 0);
    check_round_trip(SHP_SUITE_PLAIN, 1);
}

static void responder_asks_on_even_streams(void **state)
{
    (void)state;
    open_pair(SHP_SUITE_NOISE);
    assert_int_equal(pair_ask(&pair, &pair.b, CALL, "{}", 1, true, NULL), 2);
    assert_int_equal(pair_ask(&pair, &pair.b, CALL, "{}", 2, true, NULL), 4);
    pair_run(&pair);
    assert_int_equal(expect(&pair.a, SHP_EVENT_REQUEST)->stream, 2);
    assert_int_equal(expect(&pair.a, SHP_EVENT_REQUEST)->stream, 4);
}

static void error_answer_carries_step_cause_and_outcome(void **state)
{
    (void)state;
    struct shp_error error;
    open_pair(SHP_SUITE_NOISE);
    pair_ask(&pair, &pair.a, CALL, "{}", 1, true, NULL);
    pair_run(&pair);
    uint32_t stream = expect(&pair.b, SHP_EVENT_REQUEST)->stream;
    shp_error_set(&error, SHP_CODE_HERDR_NO_ANSWER, "build box", "herdr call",
                  "it said \"no\"\n\\");
    error.outcome = SHP_OUTCOME_UNKNOWN;
    assert_int_equal(shp_session_send_error(pair.b.session, stream, &error), 0);
    pair_run(&pair);
    struct pair_event *failed = expect(&pair.a, SHP_EVENT_FAILED);
    assert_int_equal(failed->error.code, SHP_CODE_HERDR_NO_ANSWER);
    assert_int_equal(failed->error.outcome, SHP_OUTCOME_UNKNOWN);
    assert_string_equal(failed->error.machine, "build box");
    assert_string_equal(failed->error.step, "herdr call");
    assert_string_equal(failed->error.cause, "it said \"no\" \\");
    assert_non_null(strstr(failed->json, "\"next\":\"Look at the panes before you repeat.\""));
}

static void deadline_ends_a_request_once_and_tells_the_peer(void **state)
{
    (void)state;
    uint8_t id[16] = {0};
    uint32_t stream;
    open_pair(SHP_SUITE_NOISE);
    assert_int_equal(shp_session_send_request(pair.a.session, CALL, id, 250, "{}", 2, true, NULL,
                                              pair.now_ms, &stream),
                     0);
    pair_run(&pair);
    expect(&pair.b, SHP_EVENT_REQUEST);
    assert_int_equal(shp_session_deadline_ms(pair.a.session), pair.now_ms + 250);
    pair.now_ms += 249;
    shp_session_tick(pair.a.session, pair.now_ms);
    pair_take_events(&pair.a);
    expect_none(&pair.a);
    pair.now_ms += 1;
    shp_session_tick(pair.a.session, pair.now_ms);
    pair_run(&pair);
    struct pair_event *failed = expect(&pair.a, SHP_EVENT_FAILED);
    assert_int_equal(failed->error.code, SHP_CODE_TIMEOUT);
    assert_int_equal(failed->error.outcome, SHP_OUTCOME_UNKNOWN);
    expect(&pair.b, SHP_EVENT_CANCELED);
    assert_int_equal(shp_session_send_response(pair.b.session, stream, "{}", 2, true),
                     SHP_ERR_NOT_FOUND);
    pair_run(&pair);
    expect_none(&pair.a);
    expect_none(&pair.b);
}

static void answerer_gives_up_at_the_deadline_by_itself(void **state)
{
    (void)state;
    uint8_t id[16] = {0};
    uint32_t stream;
    open_pair(SHP_SUITE_PLAIN);
    shp_session_send_request(pair.a.session, CALL, id, 100, "{}", 2, true, NULL, pair.now_ms,
                             &stream);
    pair_run(&pair);
    expect(&pair.b, SHP_EVENT_REQUEST);
    shp_session_tick(pair.b.session, pair.now_ms + 100);
    pair_take_events(&pair.b);
    assert_int_equal(expect(&pair.b, SHP_EVENT_CANCELED)->stream, stream);
}

static void cancel_and_late_answer_make_one_end(void **state)
{
    (void)state;
    open_pair(SHP_SUITE_NOISE);
    uint32_t stream = pair_ask(&pair, &pair.a, CALL, "{}", 1, true, NULL);
    pair_run(&pair);
    expect(&pair.b, SHP_EVENT_REQUEST);
    assert_int_equal(shp_session_send_response(pair.b.session, stream, "{}", 2, true), 0);
    assert_int_equal(shp_session_cancel(pair.a.session, stream, SHP_CODE_CANCELED), 0);
    assert_int_equal(shp_session_cancel(pair.a.session, stream, SHP_CODE_CANCELED),
                     SHP_ERR_NOT_FOUND);
    pair_run(&pair);
    assert_int_equal(expect(&pair.a, SHP_EVENT_FAILED)->error.code, SHP_CODE_CANCELED);
    expect_none(&pair.a);
    expect_none(&pair.b);
    assert_false(shp_session_closed(pair.a.session));
    assert_false(shp_session_closed(pair.b.session));
}

static void lost_link_tells_rejected_from_unknown(void **state)
{
    (void)state;
    const uint8_t *out;
    open_pair(SHP_SUITE_NOISE);
    pair_ask(&pair, &pair.a, CALL, "{}", 1, true, NULL);
    shp_session_consume_output(pair.a.session, shp_session_output(pair.a.session, &out));
    pair_ask(&pair, &pair.a, CALL, "{}", 2, true, NULL);
    size_t len = shp_session_output(pair.a.session, &out);
    shp_session_consume_output(pair.a.session, len - 1); /* a frame that is not whole is none */
    shp_session_feed_end(pair.a.session, pair.now_ms);
    pair_take_events(&pair.a);
    struct pair_event *first = expect(&pair.a, SHP_EVENT_FAILED);
    assert_int_equal(first->error.code, SHP_CODE_LINK_LOST);
    assert_int_equal(first->error.outcome, SHP_OUTCOME_UNKNOWN);
    struct pair_event *second = expect(&pair.a, SHP_EVENT_FAILED);
    assert_int_equal(second->error.outcome, SHP_OUTCOME_REJECTED);
    assert_int_equal(expect(&pair.a, SHP_EVENT_CLOSED)->error.code, SHP_CODE_LINK_LOST);
    expect_none(&pair.a);
    assert_int_equal(shp_session_pending(pair.a.session), 0);
    assert_int_equal(pair_ask(&pair, &pair.a, CALL, "{}", 3, true, NULL), 0);
}

static void unknown_message_is_answered_by_the_engine(void **state)
{
    (void)state;
    open_pair(SHP_SUITE_NOISE);
    pair_ask(&pair, &pair.a, 9999, "{}", 1, true, NULL);
    pair_ask(&pair, &pair.a, EVENT, "{}", 2, true, NULL); /* a notification is no request */
    assert_int_equal(shp_session_send_notification(pair.a.session, 9998, "{}", 2, true, NULL), 0);
    pair_run(&pair);
    expect_none(&pair.b);
    for (int i = 0; i < 2; i++) {
        struct pair_event *failed = expect(&pair.a, SHP_EVENT_FAILED);
        assert_int_equal(failed->error.code, SHP_CODE_UNKNOWN_MESSAGE);
        assert_int_equal(failed->error.outcome, SHP_OUTCOME_REJECTED);
    }
}

static void request_above_the_stream_limit_is_refused_on_both_sides(void **state)
{
    (void)state;
    open_pair(SHP_SUITE_PLAIN);
    for (int i = 0; i < SHP_LIMIT_STREAMS_OPEN_MAX; i++)
        assert_true(pair_ask(&pair, &pair.a, CALL, "{}", 1, true, NULL) != 0);
    uint8_t id[16] = {0};
    uint32_t stream;
    assert_int_equal(shp_session_send_request(pair.a.session, CALL, id, 1, "{}", 2, true, NULL,
                                              pair.now_ms, &stream),
                     SHP_ERR_LIMIT);
    pair_run(&pair);
    pair_forget_events(&pair.b);
    /* A peer that does not keep the limit. */
    uint8_t head[26] = {SHP_KIND_REQUEST, 0, 0, 1};
    head[20] = 1;
    memcpy(head + 24, "{}", 2);
    assert_int_equal(
        inject(&pair.b, SHP_FRAME_HEAD, 1, 2 * SHP_LIMIT_STREAMS_OPEN_MAX + 1, head, sizeof(head)),
        0);
    expect_none(&pair.b);
    assert_false(shp_session_closed(pair.b.session));
}

/* ---- notifications ------------------------------------------------------------------------- */

static void notification_arrives_with_its_bulk(void **state)
{
    (void)state;
    uint32_t stream;
    size_t taken;
    open_pair(SHP_SUITE_NOISE);
    assert_int_equal(
        shp_session_send_notification(pair.a.session, EVENT, "{\"x\":1}", 7, false, &stream), 0);
    assert_int_equal(
        shp_session_send_bulk(pair.a.session, stream, (const uint8_t *)"abc", 3, true, &taken), 0);
    assert_int_equal(taken, 3);
    assert_int_equal(
        shp_session_send_bulk(pair.a.session, stream, (const uint8_t *)"d", 1, true, &taken),
        SHP_ERR_NOT_FOUND);
    pair_run(&pair);
    assert_false(expect(&pair.b, SHP_EVENT_NOTIFICATION)->fin);
    struct pair_event *bulk = expect(&pair.b, SHP_EVENT_BULK);
    assert_true(bulk->fin);
    assert_int_equal(bulk->data_len, 3);
    assert_memory_equal(bulk->data, "abc", 3);
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
        int err = inject(&pair.b, cases[i].type, cases[i].flags, cases[i].stream, cases[i].payload,
                         cases[i].len);
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
    assert_int_equal(inject(&pair.b, SHP_FRAME_HEAD, 0, 1, request_head, sizeof(request_head) - 1),
                     0);
    for (int i = 0; i < SHP_LIMIT_STREAM_CREDIT_BYTES / 1024; i++)
        assert_int_equal(inject(&pair.b, SHP_FRAME_BULK, 0, 1, bulk, sizeof(bulk)), 0);
    assert_int_equal(inject(&pair.b, SHP_FRAME_BULK, 0, 1, bulk, 1), SHP_ERR_CREDIT);
}

static void bulk_above_the_message_limit_refuses_the_request_only(void **state)
{
    (void)state;
    static uint8_t bulk[1024];
    open_pair(SHP_SUITE_PLAIN);
    assert_int_equal(inject(&pair.b, SHP_FRAME_HEAD, 0, 1, request_head, sizeof(request_head) - 1),
                     0);
    for (int i = 0; i < SHP_LIMIT_MESSAGE_BYTES_MAX / 1024; i++) {
        assert_int_equal(inject(&pair.b, SHP_FRAME_BULK, 0, 1, bulk, sizeof(bulk)), 0);
        const uint8_t *out; /* credit and pings of b go nowhere */
        shp_session_consume_output(pair.b.session, shp_session_output(pair.b.session, &out));
        pair_forget_events(&pair.b);
    }
    assert_int_equal(inject(&pair.b, SHP_FRAME_BULK, 1, 1, bulk, 1), 0);
    assert_int_equal(expect(&pair.b, SHP_EVENT_CANCELED)->stream, 1);
    assert_false(shp_session_closed(pair.b.session));
    const uint8_t *out;
    size_t len = shp_session_output(pair.b.session, &out);
    assert_true(len > 16);
    assert_int_equal(out[4], SHP_FRAME_HEAD);
    assert_int_equal(out[12], SHP_KIND_ERROR);
    assert_int_equal(out[14], SHP_CODE_MESSAGE_TOO_LARGE);
}

static void frames_of_an_ended_stream_are_ignored(void **state)
{
    (void)state;
    open_pair(SHP_SUITE_PLAIN);
    inject(&pair.b, SHP_FRAME_HEAD, 0, 5, request_head, sizeof(request_head) - 1);
    expect(&pair.b, SHP_EVENT_REQUEST);
    assert_int_equal(inject(&pair.b, SHP_FRAME_CANCEL, 0, 5, "\x0a\0", 2), 0);
    expect(&pair.b, SHP_EVENT_CANCELED);
    assert_int_equal(inject(&pair.b, SHP_FRAME_BULK, 0, 5, "x", 1), 0);
    assert_int_equal(inject(&pair.b, SHP_FRAME_CREDIT, 0, 5, "\1\0\0\0", 4), 0);
    assert_int_equal(inject(&pair.b, SHP_FRAME_CANCEL, 0, 5, "\x0a\0", 2), 0);
    assert_int_equal(inject(&pair.b, SHP_FRAME_HEAD, 1, 3, request_head, sizeof(request_head) - 1),
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
    size_t len = shp_session_output(pair.a.session, &out);
    assert_true(len <= sizeof(bytes));
    memcpy(bytes, out, len);
    bytes[len - 1] ^= 1;
    assert_int_equal(shp_session_feed(pair.b.session, bytes, len, &taken, pair.now_ms),
                     SHP_ERR_AUTH);
    pair_take_events(&pair.b);
    assert_int_equal(expect(&pair.b, SHP_EVENT_CLOSED)->error.code, SHP_CODE_AUTH_FAILED);
    assert_int_equal(shp_session_output(pair.b.session, &out), 0);
}

static void replayed_frame_ends_a_noise_session(void **state)
{
    (void)state;
    const uint8_t *out;
    uint8_t bytes[256];
    size_t taken;
    open_pair(SHP_SUITE_NOISE);
    pair_ask(&pair, &pair.a, CALL, "{}", 1, true, NULL);
    size_t len = shp_session_output(pair.a.session, &out);
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
        err = inject(&pair.b, SHP_FRAME_PING, 0, 0, "12345678", 8);
    assert_int_equal(err, SHP_ERR_LIMIT);
    const uint8_t *out;
    assert_true(shp_session_output(pair.b.session, &out) <=
                SHP_LIMIT_OUTPUT_BYTES_MAX + SHP_LIMIT_CONTROL_RESERVE_BYTES);
}

/* ---- liveness and end ---------------------------------------------------------------------- */

static void quiet_side_pings_and_measures_the_round_trip(void **state)
{
    (void)state;
    open_pair(SHP_SUITE_NOISE);
    assert_int_equal(shp_session_rtt_us(pair.a.session), 0);
    pair.now_ms += SHP_LIMIT_PING_INTERVAL_MS;
    assert_int_equal(shp_session_deadline_ms(pair.a.session), pair.now_ms);
    shp_session_tick(pair.a.session, pair.now_ms);
    pair_move(&pair, &pair.a, &pair.b);
    pair.now_ms += 40;
    pair_run(&pair);
    assert_int_equal(shp_session_rtt_us(pair.a.session), 40000);
}

static void silent_peer_ends_the_session(void **state)
{
    (void)state;
    open_pair(SHP_SUITE_NOISE);
    pair_ask(&pair, &pair.a, CALL, "{}", 1, true, NULL);
    pair.now_ms += SHP_LIMIT_SILENCE_MAX_MS;
    shp_session_tick(pair.a.session, pair.now_ms);
    pair_take_events(&pair.a);
    assert_int_equal(expect(&pair.a, SHP_EVENT_FAILED)->error.code, SHP_CODE_SILENCE);
    assert_int_equal(expect(&pair.a, SHP_EVENT_CLOSED)->error.code, SHP_CODE_SILENCE);
    assert_int_equal(shp_session_deadline_ms(pair.a.session), UINT64_MAX);
}

static void probe_wants_an_answer_in_a_third_of_the_time(void **state)
{
    (void)state;
    open_pair(SHP_SUITE_NOISE);
    shp_session_probe(pair.a.session, pair.now_ms);
    pair_run(&pair);
    shp_session_tick(pair.a.session, pair.now_ms + SHP_LIMIT_SILENCE_MAX_MS / 3);
    assert_false(shp_session_closed(pair.a.session));
    shp_session_probe(pair.a.session, pair.now_ms);
    shp_session_tick(pair.a.session, pair.now_ms + SHP_LIMIT_SILENCE_MAX_MS / 3);
    assert_true(shp_session_closed(pair.a.session));
}

static void orderly_close_reaches_the_peer_behind_heads(void **state)
{
    (void)state;
    open_pair(SHP_SUITE_NOISE);
    pair_ask(&pair, &pair.b, CALL, "{}", 1, true, NULL);
    pair_ask(&pair, &pair.a, CALL, "{}", 1, true, NULL);
    shp_session_close(pair.a.session, 0, "done");
    pair_take_events(&pair.a);
    assert_int_equal(expect(&pair.a, SHP_EVENT_FAILED)->error.code, SHP_CODE_LINK_LOST);
    assert_int_equal(expect(&pair.a, SHP_EVENT_CLOSED)->error.code, 0);
    pair_move(&pair, &pair.a, &pair.b);
    expect(&pair.b, SHP_EVENT_REQUEST);
    assert_int_equal(expect(&pair.b, SHP_EVENT_FAILED)->error.code, SHP_CODE_LINK_LOST);
    struct pair_event *closed = expect(&pair.b, SHP_EVENT_CLOSED);
    assert_int_equal(closed->error.code, 0);
    assert_string_equal(closed->error.cause, "done");
    shp_session_close(pair.a.session, 5, "again");
    pair_take_events(&pair.a);
    expect_none(&pair.a);
}

static void events_wait_before_more_bytes_are_taken(void **state)
{
    (void)state;
    const uint8_t *out;
    size_t taken;
    struct shp_event event;
    open_pair(SHP_SUITE_NOISE);
    pair_ask(&pair, &pair.a, CALL, "{}", 1, true, NULL);
    pair_ask(&pair, &pair.a, CALL, "{}", 2, true, NULL);
    size_t len = shp_session_output(pair.a.session, &out);
    assert_int_equal(shp_session_feed(pair.b.session, out, len, &taken, pair.now_ms), 0);
    assert_int_equal(taken, len / 2);
    size_t more;
    assert_int_equal(shp_session_feed(pair.b.session, out + taken, len - taken, &more, pair.now_ms),
                     0);
    assert_int_equal(more, 0);
    assert_true(shp_session_next_event(pair.b.session, &event));
    assert_false(shp_session_next_event(pair.b.session, &event));
    assert_int_equal(shp_session_feed(pair.b.session, out + taken, len - taken, &more, pair.now_ms),
                     0);
    assert_int_equal(more, len - taken);
}

static void large_head_travels_and_a_larger_one_is_refused(void **state)
{
    (void)state;
    static char json[SHP_LIMIT_HEAD_JSON_BYTES_MAX + 2];
    memset(json, 'x', sizeof(json));
    memcpy(json, "{\"a\":\"", 6);
    memcpy(json + SHP_LIMIT_HEAD_JSON_BYTES_MAX - 2, "\"}", 2);
    open_pair(SHP_SUITE_NOISE);
    uint8_t id[16] = {0};
    uint32_t stream;
    assert_int_equal(shp_session_send_request(pair.a.session, CALL, id, 1, json,
                                              SHP_LIMIT_HEAD_JSON_BYTES_MAX + 1, true, NULL,
                                              pair.now_ms, &stream),
                     SHP_ERR_LIMIT);
    assert_int_equal(shp_session_send_request(pair.a.session, CALL, id, 1, json,
                                              SHP_LIMIT_HEAD_JSON_BYTES_MAX, true, NULL,
                                              pair.now_ms, &stream),
                     0);
    assert_int_equal(shp_session_send_request(pair.a.session, CALL, id, 0, "{}", 2, true, NULL,
                                              pair.now_ms, &stream),
                     SHP_ERR_INVALID);
    pair_run(&pair);
    assert_int_equal(strlen(expect(&pair.b, SHP_EVENT_REQUEST)->json),
                     SHP_LIMIT_HEAD_JSON_BYTES_MAX);
}

#define CASE(name) cmocka_unit_test_teardown(name, close_pair)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(session_is_established_in_both_suites),
        CASE(responder_may_set_its_hello_after_it_saw_the_peers),
        CASE(responder_refuses_a_hello_with_a_code),
        CASE(hello_without_common_version_ends_the_session),
        CASE(wrong_secret_or_marker_ends_without_an_answer),
        CASE(handshake_that_takes_too_long_fails),
        CASE(new_session_refuses_bad_configuration),
        CASE(request_gets_its_response),
        CASE(responder_asks_on_even_streams),
        CASE(error_answer_carries_step_cause_and_outcome),
        CASE(deadline_ends_a_request_once_and_tells_the_peer),
        CASE(answerer_gives_up_at_the_deadline_by_itself),
        CASE(cancel_and_late_answer_make_one_end),
        CASE(lost_link_tells_rejected_from_unknown),
        CASE(unknown_message_is_answered_by_the_engine),
        CASE(request_above_the_stream_limit_is_refused_on_both_sides),
        CASE(notification_arrives_with_its_bulk),
        CASE(bulk_arrives_whole_under_credit),
        CASE(sender_stops_at_the_credit_of_a_slow_consumer),
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
        CASE(quiet_side_pings_and_measures_the_round_trip),
        CASE(silent_peer_ends_the_session),
        CASE(probe_wants_an_answer_in_a_third_of_the_time),
        CASE(orderly_close_reaches_the_peer_behind_heads),
        CASE(events_wait_before_more_bytes_are_taken),
        CASE(large_head_travels_and_a_larger_one_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
