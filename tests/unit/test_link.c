/* Two links over the in-memory pair: requests, bulk, cancel, deadline, loss. */
#include "tests/support/link_world.h"

#include "protocol/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void answers_over(enum shp_suite suite, const struct shp_pipe_options *pipe)
{
    struct link_world world;
    struct link_answer_seen small;
    struct link_answer_seen large;
    uint8_t *bulk = link_new_bulk(3000000);

    link_world_begin(&world, suite, pipe);
    link_world_establish(&world);
    link_ask(&world, &small, 60000, "{\"socket\":\"/x\"}", NULL, 0);
    RUN_UNTIL(&world, small.count == 1);
    assert_int_equal(small.code, 0);
    assert_string_equal(small.json, "{\"socket\":\"/x\"}");
    link_ask(&world, &large, 60000, "{}", bulk, 3000000);
    RUN_UNTIL(&world, large.count == 1);
    assert_int_equal(large.code, 0);
    assert_int_equal(large.bulk_len, 3000000);
    link_check_bulk(large.bulk, large.bulk_len);
    assert_int_equal(world.b.requests, 2);
    link_world_finish(&world);
    assert_int_equal(world.a.error.code, 0);
    assert_int_equal(world.b.error.code, 0);
    free(large.bulk);
    free(bulk);
}

static void requests_are_answered_over_both_suites(void **state)
{
    (void)state;
    answers_over(SHP_SUITE_NOISE, NULL);
    answers_over(SHP_SUITE_PLAIN, NULL);
}

static void requests_are_answered_over_a_splitting_slow_pipe(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct shp_pipe_options pipe = {
            .seed = seed, .delay_ms = 1, .window_bytes = 70000, .cut_after = -1};

        answers_over(SHP_SUITE_NOISE, &pipe);
        answers_over(SHP_SUITE_PLAIN, &pipe);
    }
}

static void the_largest_answer_arrives_whole(void **state)
{
    struct link_world world;
    struct link_answer_seen answer;

    (void)state;
    link_world_begin(&world, SHP_SUITE_NOISE, NULL);
    world.b.behaviour = ANSWER_LARGE;
    link_world_establish(&world);
    link_ask(&world, &answer, 60000, "{}", NULL, 0);
    RUN_UNTIL(&world, answer.count == 1);
    assert_int_equal(answer.code, 0);
    assert_int_equal(answer.bulk_len, SHP_LIMIT_MESSAGE_BYTES_MAX);
    link_check_bulk(answer.bulk, answer.bulk_len);
    free(answer.bulk);
    link_world_finish(&world);
}

/* More than the link holds at a time: credit goes to the oldest, and all arrive. */
static void many_large_answers_all_arrive(void **state)
{
    struct link_world world;
    struct link_answer_seen answers[6];
    size_t done = 0;

    (void)state;
    link_world_begin(&world, SHP_SUITE_PLAIN, NULL);
    world.b.behaviour = ANSWER_LARGE;
    link_world_establish(&world);
    for (size_t i = 0; i < 6; i++)
        link_ask(&world, &answers[i], 60000, "{}", NULL, 0);
    while (done < 6) {
        uv_run(&world.loop, UV_RUN_ONCE);
        done = 0;
        for (size_t i = 0; i < 6; i++)
            done += answers[i].count == 1;
    }
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(answers[i].bulk_len, SHP_LIMIT_MESSAGE_BYTES_MAX);
        link_check_bulk(answers[i].bulk, answers[i].bulk_len);
        free(answers[i].bulk);
    }
    link_world_finish(&world);
}

static void an_answer_in_pieces_arrives_whole(void **state)
{
    struct shp_pipe_options pipe = {.seed = 5, .window_bytes = 30000, .cut_after = -1};
    struct link_world world;
    struct link_answer_seen answer;

    (void)state;
    link_world_begin(&world, SHP_SUITE_NOISE, &pipe);
    world.b.behaviour = ANSWER_PIECES;
    link_world_establish(&world);
    link_ask(&world, &answer, 60000, "{}", NULL, 0);
    RUN_UNTIL(&world, answer.count == 1);
    assert_int_equal(answer.bulk_len, 1000000);
    link_check_bulk(answer.bulk, answer.bulk_len);
    free(answer.bulk);
    link_world_finish(&world);
}

static void an_error_answer_keeps_its_code(void **state)
{
    struct link_world world;
    struct link_answer_seen answer;

    (void)state;
    link_world_begin(&world, SHP_SUITE_NOISE, NULL);
    world.b.behaviour = ANSWER_ERROR;
    link_world_establish(&world);
    link_ask(&world, &answer, 60000, "{}", NULL, 0);
    RUN_UNTIL(&world, answer.count == 1);
    assert_int_equal(answer.code, SHP_CODE_MACHINE_UNKNOWN);
    assert_non_null(strstr(answer.json, "machine_unknown"));
    link_world_finish(&world);
}

static void a_deadline_ends_a_request(void **state)
{
    struct link_world world;
    struct link_answer_seen answer;

    (void)state;
    link_world_begin(&world, SHP_SUITE_NOISE, NULL);
    world.b.behaviour = SILENT;
    link_world_establish(&world);
    link_ask(&world, &answer, 50, "{}", NULL, 0);
    RUN_UNTIL(&world, answer.count == 1);
    assert_int_equal(answer.code, SHP_CODE_TIMEOUT);
    assert_int_equal(answer.outcome, SHP_OUTCOME_UNKNOWN);
    link_world_finish(&world);
}

static void a_cancel_ends_a_request_on_both_sides(void **state)
{
    struct link_world world;
    struct link_answer_seen answer;
    uint32_t stream;

    (void)state;
    link_world_begin(&world, SHP_SUITE_NOISE, NULL);
    world.b.behaviour = SILENT;
    link_world_establish(&world);
    stream = link_ask(&world, &answer, 60000, "{}", NULL, 0);
    RUN_UNTIL(&world, world.b.requests == 1);
    shp_link_cancel(world.a.link, stream, SHP_CODE_CANCELED);
    assert_int_equal(answer.count, 0);
    RUN_UNTIL(&world, answer.count == 1 && world.b.canceled == 1);
    assert_int_equal(answer.code, SHP_CODE_CANCELED);
    assert_int_equal(shp_link_respond(world.b.link, world.b.stream, "{}", NULL, 0),
                     SHP_ERR_NOT_FOUND);
    link_world_finish(&world);
}

/* The peer that does not use up gets one credit's worth; the link stays usable and bounded. */
static void a_consumer_that_stops_stops_the_sender(void **state)
{
    struct link_world world;
    struct link_answer_seen stuck;
    struct link_answer_seen other;
    uint8_t *bulk = link_new_bulk(2000000);

    (void)state;
    link_world_begin(&world, SHP_SUITE_NOISE, NULL);
    world.b.behaviour = NO_CREDIT;
    link_world_establish(&world);
    link_ask(&world, &stuck, 60000, "{}", bulk, 2000000);
    RUN_UNTIL(&world, world.b.bulk_len == SHP_LIMIT_STREAM_CREDIT_BYTES);
    world.b.behaviour = ANSWER_ERROR;
    link_ask(&world, &other, 60000, "{}", NULL, 0);
    RUN_UNTIL(&world, other.count == 1);
    assert_int_equal(other.code, SHP_CODE_MACHINE_UNKNOWN);
    assert_int_equal(world.b.bulk_len, SHP_LIMIT_STREAM_CREDIT_BYTES);
    assert_int_equal(stuck.count, 0);
    link_world_finish(&world);
    assert_int_equal(stuck.count, 1);
    free(bulk);
}

static void too_large_bulk_is_refused(void **state)
{
    struct link_world world;
    struct link_answer_seen answer = {0};
    uint8_t *bulk = link_new_bulk(SHP_LIMIT_MESSAGE_BYTES_MAX + 1);

    (void)state;
    link_world_begin(&world, SHP_SUITE_PLAIN, NULL);
    link_world_establish(&world);
    assert_int_equal(shp_link_request(world.a.link, MESSAGE, NULL, 1000, "{}", bulk,
                                      SHP_LIMIT_MESSAGE_BYTES_MAX + 1, link_on_answer, &answer,
                                      NULL),
                     SHP_ERR_LIMIT);
    link_world_finish(&world);
    assert_int_equal(answer.count, 0);
    free(bulk);
}

static void a_cut_fails_every_request_once(void **state)
{
    (void)state;
    for (int64_t at = 0; at < 200000; at += 6661) {
        struct shp_pipe_options pipe = {.seed = (uint64_t)at + 1, .cut_after = at};
        struct link_answer_seen answers[5];
        struct link_world world;
        uint8_t *bulk = link_new_bulk(100000);
        int asked = 0;

        link_world_begin(&world, SHP_SUITE_NOISE, &pipe);
        RUN_UNTIL(&world, world.a.established || world.a.closed);
        for (; asked < 5 && world.a.link != NULL && shp_link_established(world.a.link); asked++)
            link_ask(&world, &answers[asked], 60000, "{}", asked % 2 ? bulk : NULL,
                     asked % 2 ? 100000 : 0);
        RUN_UNTIL(&world, world.a.closed && world.b.closed);
        assert_int_equal(world.a.error.code, SHP_CODE_LINK_LOST);
        for (int i = 0; i < asked; i++) {
            assert_int_equal(answers[i].count, 1);
            if (answers[i].code != 0)
                assert_int_equal(answers[i].code, SHP_CODE_LINK_LOST);
            free(answers[i].bulk);
        }
        link_world_finish(&world);
        free(bulk);
    }
}

static void the_peers_close_tells_its_reason(void **state)
{
    struct link_world world;
    struct link_answer_seen answer;

    (void)state;
    link_world_begin(&world, SHP_SUITE_NOISE, NULL);
    world.b.behaviour = END_LINK;
    link_world_establish(&world);
    link_ask(&world, &answer, 60000, "{}", NULL, 0);
    RUN_UNTIL(&world, world.a.closed && world.b.closed);
    assert_int_equal(answer.count, 1);
    assert_int_not_equal(answer.code, 0);
    assert_int_equal(world.a.error.code, SHP_CODE_SHUTTING_DOWN);
    assert_non_null(strstr(world.a.error.cause, "enough"));
    link_world_finish(&world);
}

static void a_hello_can_be_refused(void **state)
{
    struct link_world world;

    (void)state;
    link_world_begin(&world, SHP_SUITE_PLAIN, NULL);
    world.b.refuse_hello = true;
    RUN_UNTIL(&world, world.a.closed && world.b.closed);
    assert_int_equal(world.a.error.code, SHP_CODE_AUTH_FAILED);
    assert_false(world.a.established);
    link_world_finish(&world);
}

static void notifications_pass_both_ways(void **state)
{
    struct link_world world;

    (void)state;
    link_world_begin(&world, SHP_SUITE_NOISE, NULL);
    assert_int_equal(shp_link_notify(world.a.link, SHP_MSG_SESSION_EVENT, "{}"), SHP_ERR_STATE);
    link_world_establish(&world);
    assert_int_equal(shp_link_notify(world.a.link, SHP_MSG_SESSION_EVENT,
                                     "{\"pi_session_id\":\"s\",\"event\":\"started\"}"),
                     0);
    assert_int_equal(shp_link_notify(world.b.link, SHP_MSG_SESSION_EVENT,
                                     "{\"pi_session_id\":\"t\",\"event\":\"started\"}"),
                     0);
    RUN_UNTIL(&world, world.a.notifications == 1 && world.b.notifications == 1);
    assert_string_equal(world.b.json, "{\"pi_session_id\":\"s\",\"event\":\"started\"}");
    link_world_finish(&world);
}

static void a_close_before_the_transport_is_open_ends_in_order(void **state)
{
    struct link_world world;

    (void)state;
    link_world_begin(&world, SHP_SUITE_NOISE, NULL);
    shp_link_close(world.a.link, 0, "changed my mind");
    assert_false(world.a.closed);
    RUN_UNTIL(&world, world.a.closed && world.b.closed);
    assert_int_equal(world.a.error.code, 0);
    link_world_finish(&world);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(requests_are_answered_over_both_suites),
        cmocka_unit_test(requests_are_answered_over_a_splitting_slow_pipe),
        cmocka_unit_test(the_largest_answer_arrives_whole),
        cmocka_unit_test(many_large_answers_all_arrive),
        cmocka_unit_test(an_answer_in_pieces_arrives_whole),
        cmocka_unit_test(an_error_answer_keeps_its_code),
        cmocka_unit_test(a_deadline_ends_a_request),
        cmocka_unit_test(a_cancel_ends_a_request_on_both_sides),
        cmocka_unit_test(a_consumer_that_stops_stops_the_sender),
        cmocka_unit_test(too_large_bulk_is_refused),
        cmocka_unit_test(a_cut_fails_every_request_once),
        cmocka_unit_test(the_peers_close_tells_its_reason),
        cmocka_unit_test(a_hello_can_be_refused),
        cmocka_unit_test(notifications_pass_both_ways),
        cmocka_unit_test(a_close_before_the_transport_is_open_ends_in_order),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
