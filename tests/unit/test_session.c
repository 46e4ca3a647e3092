/* The session as its owner sees it: both suites, two sessions joined in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

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
        size_t len = shp_session_output(pair.a.session, &out, pair.now_ms);
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
        assert_int_equal(shp_session_output(pair.b.session, &out, pair.now_ms), 0);
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
    shp_session_consume_output(pair.a.session,
                               shp_session_output(pair.a.session, &out, pair.now_ms));
    pair_ask(&pair, &pair.a, CALL, "{}", 2, true, NULL);
    size_t len = shp_session_output(pair.a.session, &out, pair.now_ms);
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
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_HEAD, 1,
                                 2 * SHP_LIMIT_STREAMS_OPEN_MAX + 1, head, sizeof(head)),
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
    size_t len = shp_session_output(pair.a.session, &out, pair.now_ms);
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

static void deadlines_pass_one_by_one(void **state)
{
    (void)state;
    uint8_t id[16] = {0};
    uint32_t streams[3];
    static const uint32_t timeouts[3] = {300, 100, 200};
    open_pair(SHP_SUITE_NOISE);
    uint64_t start = pair.now_ms;
    for (int i = 0; i < 3; i++)
        assert_int_equal(shp_session_send_request(pair.a.session, CALL, id, timeouts[i], "{}", 2,
                                                  true, NULL, start, &streams[i]),
                         0);
    static const int order[3] = {1, 2, 0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(shp_session_deadline_ms(pair.a.session), start + timeouts[order[i]]);
        shp_session_tick(pair.a.session, start + timeouts[order[i]]);
        pair_take_events(&pair.a);
        assert_int_equal(expect(&pair.a, SHP_EVENT_FAILED)->stream, streams[order[i]]);
        expect_none(&pair.a);
    }
    assert_int_equal(shp_session_deadline_ms(pair.a.session),
                     start + 300 + SHP_LIMIT_PING_INTERVAL_MS);
}

static void answered_question_that_never_ends_is_forgotten_in_time(void **state)
{
    (void)state;
    open_pair(SHP_SUITE_PLAIN);
    static const uint8_t head[] = "\x01\0\x10\x01"
                                  "0123456789abcdef"
                                  "\x64\0\0\0{}";
    pair_inject(&pair, &pair.b, SHP_FRAME_HEAD, 0, 1, head, sizeof(head) - 1);
    expect(&pair.b, SHP_EVENT_REQUEST);
    assert_int_equal(shp_session_send_response(pair.b.session, 1, "{}", 2, true), 0);
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_BULK, 0, 1, "x", 1), 0);
    shp_session_tick(pair.b.session, pair.now_ms + 100);
    pair_take_events(&pair.b);
    expect_none(&pair.b);
    /* Forgotten: what was a rule for an open stream is ignored for an ended one. */
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_HEAD, 0, 1, head, sizeof(head) - 1), 0);
    assert_false(shp_session_closed(pair.b.session));
}

static void hello_without_usable_versions_is_refused(void **state)
{
    (void)state;
    static const char *const hellos[] = {
        "{}",
        "{\"versions\":1}",
        "{\"versions\":[1]}",
        "{\"versions\":[\"1\",\"1\"]}",
        "{\"versions\":[2,1]}",
        "[1,1]",
        "{\"versions\":[1,1]",
    };
    for (size_t i = 0; i < sizeof(hellos) / sizeof(hellos[0]); i++) {
        assert_int_equal(pair_new(&pair, SHP_SUITE_PLAIN), 0);
        assert_int_equal(
            pair_inject(&pair, &pair.b, SHP_FRAME_HELLO, 0, 0, hellos[i], strlen(hellos[i])),
            SHP_ERR_PROTOCOL);
        assert_int_equal(expect(&pair.b, SHP_EVENT_CLOSED)->error.code, SHP_CODE_PROTOCOL_ERROR);
        pair_free(&pair);
    }
    /* A frame that is no hello, and a hello that is followed before it was answered. */
    assert_int_equal(pair_new(&pair, SHP_SUITE_PLAIN), 0);
    assert_int_equal(pair_inject(&pair, &pair.b, SHP_FRAME_PING, 0, 0, "12345678", 8),
                     SHP_ERR_PROTOCOL);
    pair_free(&pair);
    assert_int_equal(pair_new(&pair, SHP_SUITE_NOISE), 0);
    static const uint8_t short_message[SHP_PSK_BYTES + 2] = {[SHP_PSK_BYTES + 1] = 47};
    size_t taken;
    assert_int_equal(
        shp_session_feed(pair.b.session, short_message, sizeof(short_message), &taken, pair.now_ms),
        SHP_ERR_AUTH);
}

static void bytes_before_our_hello_end_the_handshake(void **state)
{
    (void)state;
    struct shp_session_config config = pair_config(SHP_ROLE_RESPONDER, SHP_SUITE_NOISE);
    const uint8_t *out;
    size_t taken;
    assert_int_equal(pair_new(&pair, SHP_SUITE_NOISE), 0);
    shp_session_free(pair.b.session);
    config.hello_len = 0;
    assert_int_equal(shp_session_new(&pair.b.session, &config), 0);
    size_t len = shp_session_output(pair.a.session, &out, pair.now_ms);
    assert_int_equal(shp_session_feed(pair.b.session, out, len, &taken, pair.now_ms), 0);
    assert_int_equal(taken, len);
    pair_take_events(&pair.b);
    expect(&pair.b, SHP_EVENT_HELLO);
    assert_int_equal(shp_session_feed(pair.b.session, out, 1, &taken, pair.now_ms), SHP_ERR_AUTH);
    assert_int_equal(shp_session_set_hello(pair.b.session, "{}", 2), SHP_ERR_STATE);
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
        CASE(quiet_side_pings_and_measures_the_round_trip),
        CASE(silent_peer_ends_the_session),
        CASE(probe_wants_an_answer_in_a_third_of_the_time),
        CASE(orderly_close_reaches_the_peer_behind_heads),
        CASE(events_wait_before_more_bytes_are_taken),
        CASE(large_head_travels_and_a_larger_one_is_refused),
        CASE(deadlines_pass_one_by_one),
        CASE(answered_question_that_never_ends_is_forgotten_in_time),
        CASE(hello_without_usable_versions_is_refused),
        CASE(bytes_before_our_hello_end_the_handshake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
