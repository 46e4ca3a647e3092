/* Receivers as the controller meets them through the helper: waiting, opening, asking, losing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "protocol/codec.h"
#include "protocol/messages.h"
#include "tests/support/helper_rig.h"
#include "tests/support/temp_root.h"

static struct rig rig;
static struct fake_receiver receiver;
static bool receiver_open;

static int open_rig(void **state)
{
    (void)state;
    rig_open(&rig);
    receiver_open = false;
    return 0;
}

static int open_receiver(void **state)
{
    open_rig(state);
    fake_receiver_open(&receiver, &rig, "worker", "term-1");
    receiver_open = true;
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    if (receiver_open)
        fake_receiver_close(&receiver);
    rig_close(&rig);
    return 0;
}

static cJSON *parsed(const char *json)
{
    cJSON *tree = NULL;
    assert_int_equal(shp_codec_parse(&tree, json, strlen(json)), 0);
    return tree;
}

static void call_ok(uint16_t message, const char *json)
{
    struct rig_answer answer;
    rig_call(&rig, message, json, NULL, 0, &answer);
    assert_int_equal(answer.code, 0);
    rig_answer_fini(&answer);
}

static const char *request_json(const char *service)
{
    static char json[512];
    snprintf(
        json, sizeof json,
        "{\"to\":\"worker\",\"service\":\"%s\",\"from\":{\"pi_session_id\":\"controlling\","
        "\"installation\":\"lie\",\"host\":\"lie\",\"name\":\"n\"},"
        "\"payload\":{\"kind\":\"message\",\"sender\":{\"host\":\"h\"},\"x\":[1,{\"y\":null}]}}",
        service);
    return json;
}

static void until_note(const char *part)
{
    for (;;) {
        for (size_t i = 0; i < rig.note_count; i++)
            if (strstr(rig.notes[i], part) != NULL)
                return;
        rig_linger(&rig, 1);
    }
}

static void the_list_holds_what_is_live(void **state)
{
    struct rig_answer answer;
    (void)state;
    rig_call(&rig, SHP_MSG_RECEIVERS_LIST, "{}", NULL, 0, &answer);
    assert_int_equal(answer.code, 0);
    assert_string_equal(answer.json, "{\"receivers\":1}");
    cJSON *list = cJSON_Parse(answer.bulk);
    const cJSON *one = cJSON_GetArrayItem(list, 0);
    assert_string_equal(shp_codec_string(one, "pi_session_id", ""), "worker");
    assert_string_equal(shp_codec_string(one, "terminal_id", ""), "term-1");
    assert_string_equal(shp_codec_string(one, "session_file", ""), "/made/up.jsonl");
    assert_int_equal(shp_codec_int(one, "pid", 0), getpid());
    assert_int_equal(shp_codec_int(one, "protocol_max", 0), 1);
    assert_null(strstr(answer.bulk, receiver.token));
    cJSON_Delete(list);
    rig_answer_fini(&answer);
}

static void an_empty_list_is_an_array(void **state)
{
    struct rig_answer answer;
    (void)state;
    rig_call(&rig, SHP_MSG_RECEIVERS_LIST, "{}", NULL, 0, &answer);
    assert_string_equal(answer.json, "{\"receivers\":0}");
    assert_string_equal(answer.bulk, "[]");
    rig_answer_fini(&answer);
}

static void waiting_ends_when_the_receiver_comes(void **state)
{
    struct rig_answer answer;
    (void)state;
    rig_ask(&rig, SHP_MSG_RECEIVER_WAIT, "{\"terminal_id\":\"term-1\"}", NULL, 0, 60000, &answer);
    rig_linger(&rig, 20);
    assert_false(answer.done);
    fake_receiver_open(&receiver, &rig, "worker", "term-1");
    receiver_open = true;
    rig_until(&rig, &answer.done);
    assert_int_equal(answer.code, 0);
    cJSON *result = parsed(answer.json);
    assert_int_equal(shp_codec_check_result(SHP_MSG_RECEIVER_WAIT, result, NULL, 0), 0);
    assert_string_equal(shp_codec_string(result, "pi_session_id", ""), "worker");
    cJSON_Delete(result);
    rig_answer_fini(&answer);
    /* One that is there already needs no waiting. */
    call_ok(SHP_MSG_RECEIVER_WAIT, "{\"terminal_id\":\"term-1\"}");
}

static void waiting_in_vain_ends_before_the_deadline(void **state)
{
    struct rig_answer answer;
    (void)state;
    rig_ask(&rig, SHP_MSG_RECEIVER_WAIT, "{\"terminal_id\":\"other\"}", NULL, 0, 600, &answer);
    rig_until(&rig, &answer.done);
    assert_int_equal(answer.code, SHP_CODE_RECEIVER_MISSING);
    assert_int_equal(answer.outcome, SHP_OUTCOME_REJECTED);
    rig_answer_fini(&answer);
}

static void a_request_passes_both_ways_under_its_id(void **state)
{
    static const uint8_t id[SHP_REQUEST_ID_BYTES] = {1, 2,  3,  4,  5,  6,  7,  8,
                                                     9, 10, 11, 12, 13, 14, 15, 16};
    struct rig_answer answer;
    size_t len = 300000;
    char *text = malloc(len);
    (void)state;
    for (size_t i = 0; i < len; i++)
        text[i] = (char)('a' + i % 21);
    rig_ask_id(&rig, SHP_MSG_SESSION_REQUEST, id, request_json("deliver"), text, len, 50000,
               &answer);
    rig_until(&rig, &answer.done);
    assert_int_equal(answer.code, 0);
    assert_string_equal(answer.json, "{\"answer\":{\"accepted\":true}}");
    assert_int_equal(answer.bulk_len, len);
    assert_memory_equal(answer.bulk, text, len);
    assert_memory_equal(receiver.id, id, sizeof id);
    assert_true(receiver.timeout_ms > 0 && receiver.timeout_ms <= 50000);
    cJSON *params = parsed(receiver.json);
    assert_int_equal(shp_codec_check_params(SHP_MSG_SESSION_REQUEST, params, NULL, 0), 0);
    assert_null(cJSON_GetObjectItemCaseSensitive(params, "to"));
    const cJSON *from = cJSON_GetObjectItemCaseSensitive(params, "from");
    assert_string_equal(shp_codec_string(from, "host", ""), rig.helper.identity.host);
    assert_string_equal(shp_codec_string(from, "installation", ""),
                        "0123456789abcdef0123456789abcdef");
    assert_string_equal(shp_codec_string(from, "pi_session_id", ""), "controlling");
    assert_string_equal(shp_codec_string(from, "name", ""), "n");
    char *payload = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(params, "payload"));
    assert_string_equal(payload, "{\"kind\":\"message\",\"sender\":{\"host\":\"h\"},"
                                 "\"x\":[1,{\"y\":null}]}");
    cJSON_free(payload);
    cJSON_Delete(params);
    free(text);
    rig_answer_fini(&answer);
}

static void the_hello_to_a_receiver_carries_what_it_checks(void **state)
{
    (void)state;
    call_ok(SHP_MSG_SESSION_REQUEST, request_json("session_state"));
    cJSON *hello = parsed(receiver.hello);
    assert_string_equal(shp_codec_string(hello, "role", ""), "helper");
    assert_string_equal(shp_codec_string(hello, "token", ""), receiver.token);
    assert_string_equal(shp_codec_string(hello, "pi_session_id", ""), "controlling");
    assert_string_equal(shp_codec_string(hello, "installation", ""),
                        "0123456789abcdef0123456789abcdef");
    assert_string_equal(shp_codec_string(hello, "host", ""), rig.helper.identity.host);
    cJSON_Delete(hello);
}

static void requests_share_one_connection(void **state)
{
    struct rig_answer answers[5];
    (void)state;
    for (size_t i = 0; i < 5; i++)
        rig_ask(&rig, SHP_MSG_SESSION_REQUEST, request_json("session_state"), NULL, 0, 50000,
                &answers[i]);
    for (size_t i = 0; i < 5; i++) {
        rig_until(&rig, &answers[i].done);
        assert_int_equal(answers[i].code, 0);
        rig_answer_fini(&answers[i]);
    }
    assert_int_equal(receiver.connections, 1);
    assert_int_equal(receiver.requests, 5);
}

static void expect_failure(const char *json, int code, enum shp_outcome outcome)
{
    struct rig_answer answer;
    rig_call(&rig, SHP_MSG_SESSION_REQUEST, json, "text", 4, &answer);
    assert_string_equal(shp_code_name(answer.code), shp_code_name(code));
    assert_int_equal(answer.outcome, outcome);
    assert_true(answer.error.cause[0] != '\0');
    rig_answer_fini(&answer);
}

static void errors_of_the_receiver_pass_unchanged(void **state)
{
    struct rig_answer answer;
    (void)state;
    receiver.mode = FAKE_RECEIVER_ERROR;
    rig_call(&rig, SHP_MSG_SESSION_REQUEST, request_json("deliver"), "text", 4, &answer);
    assert_int_equal(answer.code, SHP_CODE_RECEIVER_BUSY);
    assert_int_equal(answer.outcome, SHP_OUTCOME_REJECTED);
    assert_string_equal(answer.error.step, "deliver");
    assert_string_equal(answer.error.cause, "compacting");
    rig_answer_fini(&answer);
}

static void a_session_without_receiver_is_rejected(void **state)
{
    (void)state;
    expect_failure(request_json("deliver"), SHP_CODE_RECEIVER_MISSING, SHP_OUTCOME_REJECTED);
    expect_failure("{\"service\":\"bind\",\"from\":{},\"payload\":{}}", SHP_CODE_INVALID_PARAMS,
                   SHP_OUTCOME_REJECTED);
}

static void a_receiver_in_another_terminal_is_not_asked(void **state)
{
    (void)state;
    expect_failure("{\"to\":\"worker\",\"terminal_id\":\"term-2\",\"service\":\"deliver\","
                   "\"from\":{},\"payload\":{}}",
                   SHP_CODE_RECEIVER_MISSING, SHP_OUTCOME_REJECTED);
    assert_int_equal(receiver.requests, 0);
    call_ok(SHP_MSG_SESSION_REQUEST, "{\"to\":\"worker\",\"terminal_id\":\"term-1\",\"service\":"
                                     "\"session_state\",\"from\":{},\"payload\":{}}");
}

static void a_socket_that_nobody_serves_is_rejected(void **state)
{
    (void)state;
    uv_close((uv_handle_t *)&receiver.listener, NULL);
    rig_linger(&rig, 1);
    /* libuv has removed the socket's file with its listener: one without a listener in its place.
     */
    unlink(receiver.socket);
    uv_pipe_t bound;
    uv_pipe_init(&rig.loop, &bound, 0);
    assert_int_equal(uv_pipe_bind(&bound, receiver.socket), 0);
    expect_failure(request_json("deliver"), SHP_CODE_RECEIVER_MISSING, SHP_OUTCOME_REJECTED);
    uv_close((uv_handle_t *)&bound, NULL);
    rig_linger(&rig, 1);
    uv_pipe_init(&rig.loop, &receiver.listener, 0);
    receiver.listener.data = &receiver;
}

static void a_refused_token_is_told_apart(void **state)
{
    struct rig_answer answer;
    (void)state;
    receiver.refuse_token = true;
    expect_failure(request_json("deliver"), SHP_CODE_RECEIVER_REFUSED, SHP_OUTCOME_REJECTED);
    rig_call(&rig, SHP_MSG_RECEIVER_OPEN, "{\"pi_session_id\":\"worker\"}", NULL, 0, &answer);
    assert_int_equal(answer.code, SHP_CODE_AUTH_FAILED);
    rig_answer_fini(&answer);
}

static void an_old_receiver_is_outdated_not_missing(void **state)
{
    struct rig_answer answer;
    (void)state;
    receiver.versions = "[7,9]";
    expect_failure(request_json("deliver"), SHP_CODE_RECEIVER_OUTDATED, SHP_OUTCOME_REJECTED);
    rig_call(&rig, SHP_MSG_RECEIVER_OPEN, "{\"pi_session_id\":\"worker\"}", NULL, 0, &answer);
    assert_int_equal(answer.code, SHP_CODE_RECEIVER_OUTDATED);
    rig_answer_fini(&answer);
    /* The descriptor can say so without a connection. */
    size_t len;
    unsigned connections = receiver.connections;
    char *text = temp_read(receiver.descriptor, &len);
    memcpy(strstr(text, "[1,1]"), "[7,9]", 5);
    temp_write(receiver.descriptor, text, len);
    expect_failure(request_json("deliver"), SHP_CODE_RECEIVER_OUTDATED, SHP_OUTCOME_REJECTED);
    assert_int_equal(receiver.connections, connections);
    free(text);
}

static void an_idle_connection_is_closed_unless_it_is_kept(void **state)
{
    (void)state;
    rig.helper.receiver_idle_ms = 20;
    call_ok(SHP_MSG_SESSION_REQUEST, request_json("session_state"));
    rig_until(&rig, &receiver.gone);
    assert_int_equal(rig.note_count, 0);
    receiver.gone = false;
    call_ok(SHP_MSG_RECEIVER_OPEN, "{\"pi_session_id\":\"worker\"}");
    rig_linger(&rig, 100);
    assert_false(receiver.gone);
    call_ok(SHP_MSG_RECEIVER_CLOSE, "{\"pi_session_id\":\"worker\"}");
    rig_until(&rig, &receiver.gone);
    assert_int_equal(receiver.connections, 2);
}

static void a_connection_in_use_is_not_idle(void **state)
{
    struct rig_answer answer;
    (void)state;
    rig.helper.receiver_idle_ms = 20;
    receiver.mode = FAKE_RECEIVER_HOLD;
    rig_ask(&rig, SHP_MSG_SESSION_REQUEST, request_json("deliver"), NULL, 0, 60000, &answer);
    rig_until(&rig, &receiver.requested);
    rig_linger(&rig, 100);
    assert_false(receiver.gone);
    assert_int_equal(shp_link_respond(receiver.link, receiver.stream, "{\"answer\":{}}", NULL, 0),
                     0);
    rig_until(&rig, &answer.done);
    assert_int_equal(answer.code, 0);
    rig_answer_fini(&answer);
    rig_until(&rig, &receiver.gone);
}

static void another_session_at_the_socket_is_not_asked(void **state)
{
    (void)state;
    strcpy(receiver.pi_session_id, "switched");
    expect_failure(request_json("deliver"), SHP_CODE_RECEIVER_MISSING, SHP_OUTCOME_REJECTED);
    assert_int_equal(receiver.requests, 0);
}

static void a_loss_after_sending_is_unknown(void **state)
{
    (void)state;
    receiver.mode = FAKE_RECEIVER_DROP;
    expect_failure(request_json("deliver"), SHP_CODE_DELIVERY_UNKNOWN, SHP_OUTCOME_UNKNOWN);
    expect_failure(request_json("settlement"), SHP_CODE_LINK_LOST, SHP_OUTCOME_UNKNOWN);
    /* The next request finds a fresh connection. */
    receiver.mode = FAKE_RECEIVER_ANSWER;
    call_ok(SHP_MSG_SESSION_REQUEST, request_json("session_state"));
}

static void a_cancel_reaches_the_receiver(void **state)
{
    struct rig_answer answer;
    (void)state;
    receiver.mode = FAKE_RECEIVER_HOLD;
    rig_ask(&rig, SHP_MSG_SESSION_REQUEST, request_json("deliver"), NULL, 0, 60000, &answer);
    rig_until(&rig, &receiver.requested);
    shp_link_cancel(rig.controller, answer.stream, SHP_CODE_CANCELED);
    rig_until(&rig, &receiver.canceled);
    rig_until(&rig, &answer.done);
    rig_answer_fini(&answer);
}

static void a_deadline_passes_to_the_receiver_too(void **state)
{
    struct rig_answer answer;
    (void)state;
    receiver.mode = FAKE_RECEIVER_HOLD;
    rig_ask(&rig, SHP_MSG_SESSION_REQUEST, request_json("deliver"), NULL, 0, 100, &answer);
    rig_until(&rig, &answer.done);
    assert_int_equal(answer.code, SHP_CODE_TIMEOUT);
    assert_int_equal(answer.outcome, SHP_OUTCOME_UNKNOWN);
    assert_true(receiver.timeout_ms <= 100);
    rig_answer_fini(&answer);
}

static void events_come_through_and_a_loss_is_told(void **state)
{
    (void)state;
    call_ok(SHP_MSG_RECEIVER_OPEN, "{\"pi_session_id\":\"worker\"}");
    call_ok(SHP_MSG_RECEIVER_OPEN, "{\"pi_session_id\":\"worker\"}");
    assert_int_equal(receiver.connections, 1);
    assert_int_equal(shp_link_notify(receiver.link, SHP_MSG_SESSION_EVENT,
                                     "{\"pi_session_id\":\"somebody else\",\"event\":\"settled\","
                                     "\"entry_id\":\"e1\",\"aborted\":false}"),
                     0);
    until_note("settled");
    assert_non_null(strstr(rig.notes[0], "\"pi_session_id\":\"worker\""));
    assert_non_null(strstr(rig.notes[0], "\"entry_id\":\"e1\""));
    /* What is no event of the table goes no further. */
    assert_int_equal(shp_link_notify(receiver.link, SHP_MSG_SESSION_EVENT,
                                     "{\"pi_session_id\":\"worker\",\"event\":\"nonsense\"}"),
                     0);
    shp_link_close(receiver.link, SHP_CODE_SHUTTING_DOWN, "pi ends");
    until_note("\"lost\"");
    assert_int_equal(rig.note_count, 2);
    assert_non_null(strstr(rig.notes[1], "\"reason\":"));
    /* It can be opened again. */
    call_ok(SHP_MSG_RECEIVER_OPEN, "{\"pi_session_id\":\"worker\"}");
    assert_int_equal(receiver.connections, 2);
}

static void a_released_connection_is_lost_silently(void **state)
{
    (void)state;
    call_ok(SHP_MSG_RECEIVER_OPEN, "{\"pi_session_id\":\"worker\"}");
    call_ok(SHP_MSG_RECEIVER_CLOSE, "{\"pi_session_id\":\"worker\"}");
    call_ok(SHP_MSG_RECEIVER_CLOSE, "{\"pi_session_id\":\"never there\"}");
    shp_link_close(receiver.link, SHP_CODE_SHUTTING_DOWN, "pi ends");
    rig_until(&rig, &receiver.gone);
    rig_linger(&rig, 50);
    assert_int_equal(rig.note_count, 0);
}

struct back_answer {
    bool done;
    int code;
    char json[256];
    char bulk[64];
};

static void on_back_answer(struct shp_link *link, const struct shp_link_answer *answer, void *user)
{
    struct back_answer *out = user;
    (void)link;
    out->code = answer->error != NULL ? answer->error->code : 0;
    snprintf(out->json, sizeof out->json, "%s", answer->json);
    snprintf(out->bulk, sizeof out->bulk, "%.*s", (int)answer->bulk_len,
             answer->bulk_len > 0 ? (const char *)answer->bulk : "");
    out->done = true;
}

static void ask_back(const char *json, const char *bulk, struct back_answer *answer)
{
    static const uint8_t id[SHP_REQUEST_ID_BYTES] = {9, 9, 9};
    memset(answer, 0, sizeof *answer);
    assert_int_equal(shp_link_request(receiver.link, SHP_MSG_SESSION_REQUEST, id, 50000, json,
                                      (const uint8_t *)bulk, strlen(bulk), on_back_answer, answer,
                                      NULL),
                     0);
    rig_until(&rig, &answer->done);
}

static void a_session_asks_back_in_its_own_name(void **state)
{
    static const char json[] =
        "{\"service\":\"deliver\",\"from\":{\"pi_session_id\":\"a lie\",\"host\":\"a lie\","
        "\"installation\":\"i\",\"pi_session_id\":\"another "
        "lie\"},\"payload\":{\"kind\":\"message\"}}";
    struct back_answer answer;
    (void)state;
    call_ok(SHP_MSG_RECEIVER_OPEN, "{\"pi_session_id\":\"worker\"}");
    ask_back(json, "", &answer);
    assert_int_equal(answer.code, SHP_CODE_NOT_RELATED);
    rig.inbound_result = "{\"answer\":{\"accepted\":true}}";
    ask_back(json, "done", &answer);
    assert_int_equal(answer.code, 0);
    assert_string_equal(answer.json, rig.inbound_result);
    assert_string_equal(answer.bulk, "done");
    assert_int_equal(rig.inbound_id[0], 9);
    cJSON *params = parsed(rig.inbound_json);
    const cJSON *from = cJSON_GetObjectItemCaseSensitive(params, "from");
    assert_string_equal(shp_codec_string(from, "pi_session_id", ""), "worker");
    assert_string_equal(shp_codec_string(from, "host", ""), rig.helper.identity.host);
    assert_string_equal(shp_codec_string(from, "installation", ""), "i");
    assert_null(strstr(rig.inbound_json, "lie"));
    cJSON_Delete(params);
    ask_back("{\"service\":\"deliver\"}", "", &answer);
    assert_int_equal(answer.code, SHP_CODE_INVALID_PARAMS);
}

static void the_controllers_end_closes_every_connection(void **state)
{
    struct rig_answer answer;
    (void)state;
    call_ok(SHP_MSG_RECEIVER_OPEN, "{\"pi_session_id\":\"worker\"}");
    receiver.mode = FAKE_RECEIVER_HOLD;
    rig_ask(&rig, SHP_MSG_SESSION_REQUEST, request_json("deliver"), NULL, 0, 60000, &answer);
    rig_until(&rig, &receiver.requested);
    shp_link_close(rig.controller, 0, "bye");
    rig_until(&rig, &receiver.gone);
    rig_until(&rig, &answer.done);
    rig_answer_fini(&answer);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_rig, close_all)
#define RECEIVER_CASE(name) cmocka_unit_test_setup_teardown(name, open_receiver, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RECEIVER_CASE(the_list_holds_what_is_live),
        CASE(an_empty_list_is_an_array),
        CASE(waiting_ends_when_the_receiver_comes),
        CASE(waiting_in_vain_ends_before_the_deadline),
        RECEIVER_CASE(a_request_passes_both_ways_under_its_id),
        RECEIVER_CASE(the_hello_to_a_receiver_carries_what_it_checks),
        RECEIVER_CASE(requests_share_one_connection),
        RECEIVER_CASE(errors_of_the_receiver_pass_unchanged),
        CASE(a_session_without_receiver_is_rejected),
        RECEIVER_CASE(a_receiver_in_another_terminal_is_not_asked),
        RECEIVER_CASE(a_socket_that_nobody_serves_is_rejected),
        RECEIVER_CASE(a_refused_token_is_told_apart),
        RECEIVER_CASE(an_old_receiver_is_outdated_not_missing),
        RECEIVER_CASE(an_idle_connection_is_closed_unless_it_is_kept),
        RECEIVER_CASE(a_connection_in_use_is_not_idle),
        RECEIVER_CASE(another_session_at_the_socket_is_not_asked),
        RECEIVER_CASE(a_loss_after_sending_is_unknown),
        RECEIVER_CASE(a_cancel_reaches_the_receiver),
        RECEIVER_CASE(a_deadline_passes_to_the_receiver_too),
        RECEIVER_CASE(events_come_through_and_a_loss_is_told),
        RECEIVER_CASE(a_released_connection_is_lost_silently),
        RECEIVER_CASE(a_session_asks_back_in_its_own_name),
        RECEIVER_CASE(the_controllers_end_closes_every_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
