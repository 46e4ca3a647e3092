/* The wire of both suites against bytes that another implementation made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/messages.h"
#include "protocol/session.h"
#include "tests/support/session_pair.h"
#include "tests/support/vectors.h"

static struct pair pair;

static int close_pair(void **state)
{
    (void)state;
    pair_free(&pair);
    return 0;
}

static void feed(struct pair_end *end, const uint8_t *bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t taken;
        (void)shp_session_feed(end->session, bytes + at, len - at, &taken, pair.now_ms);
        pair_take_events(end);
        at += taken;
        if (taken == 0)
            break;
    }
}

static void expect_output(struct pair_end *end, const uint8_t *bytes, size_t len)
{
    const uint8_t *out;
    assert_int_equal(shp_session_output(end->session, &out, pair.now_ms), len);
    assert_memory_equal(out, bytes, len);
    shp_session_consume_output(end->session, len);
}

static void noise_wire_is_the_same_byte_for_byte(void **state)
{
    (void)state;
    cJSON *file = vectors_load(SHP_TEST_SOURCE_DIR, "noise-wire.json");
    struct shp_session_config a = pair_config(SHP_ROLE_INITIATOR, SHP_SUITE_NOISE);
    struct shp_session_config b = pair_config(SHP_ROLE_RESPONDER, SHP_SUITE_NOISE);
    memset(&pair, 0, sizeof(pair));
    pair.now_ms = 1000;
    memcpy(a.marker, vectors_string(file, "marker"), sizeof(a.marker));
    memcpy(b.marker, a.marker, sizeof(a.marker));
    vectors_hex(file, "psk", a.psk, sizeof(a.psk));
    vectors_hex(file, "initiator_ephemeral", a.ephemeral, sizeof(a.ephemeral));
    vectors_hex(file, "responder_ephemeral", b.ephemeral, sizeof(b.ephemeral));
    a.hello_json = vectors_string(file, "initiator_hello");
    a.hello_len = strlen(a.hello_json);
    b.hello_json = vectors_string(file, "responder_hello");
    b.hello_len = strlen(b.hello_json);
    assert_int_equal(shp_session_new(&pair.a.session, &a), 0);
    assert_int_equal(shp_session_new(&pair.b.session, &b), 0);

    size_t len;
    uint8_t *bytes = vectors_bytes(vectors_get(file, "initiator_bytes"), &len);
    expect_output(&pair.a, bytes, len);
    feed(&pair.b, bytes, len);
    free(bytes);
    bytes = vectors_bytes(vectors_get(file, "responder_bytes"), &len);
    expect_output(&pair.b, bytes, len);
    feed(&pair.a, bytes, len);
    free(bytes);
    assert_true(shp_session_established(pair.a.session));
    assert_true(shp_session_established(pair.b.session));

    static const uint8_t id[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    uint32_t stream;
    size_t taken;
    const cJSON *frames = vectors_get(file, "frames");
    uint8_t *sent[4];
    size_t lens[4];
    for (int i = 0; i < 4; i++)
        sent[i] = vectors_bytes(vectors_get(cJSON_GetArrayItem(frames, i), "bytes"), &lens[i]);
    shp_session_send_request(pair.a.session, SHP_MSG_HERDR_CALL, id, 1000, "{}", 2, true, NULL,
                             pair.now_ms, &stream);
    expect_output(&pair.a, sent[0], lens[0]);
    feed(&pair.b, sent[0], lens[0]);
    shp_session_send_response(pair.b.session, 1, "{}", 2, false);
    expect_output(&pair.b, sent[1], lens[1]);
    shp_session_send_bulk(pair.b.session, 1, (const uint8_t *)"pong", 4, true, &taken);
    expect_output(&pair.b, sent[2], lens[2]);
    feed(&pair.a, sent[1], lens[1]);
    feed(&pair.a, sent[2], lens[2]);
    assert_int_equal(pair.a.events[pair.a.event_count - 1].type, SHP_EVENT_BULK);
    assert_true(pair.a.events[pair.a.event_count - 1].fin);
    feed(&pair.b, sent[3], lens[3]);
    const uint8_t *out;
    assert_int_equal(shp_session_output(pair.b.session, &out, pair.now_ms), lens[3]); /* a pong */
    for (int i = 0; i < 4; i++)
        free(sent[i]);
    cJSON_Delete(file);
}

static void check_event(const cJSON *wanted, const struct pair_event *event)
{
    static const struct {
        const char *name;
        enum shp_event_type type;
    } names[] = {
        {"hello", SHP_EVENT_HELLO},       {"established", SHP_EVENT_ESTABLISHED},
        {"request", SHP_EVENT_REQUEST},   {"notification", SHP_EVENT_NOTIFICATION},
        {"response", SHP_EVENT_RESPONSE}, {"failed", SHP_EVENT_FAILED},
        {"bulk", SHP_EVENT_BULK},         {"canceled", SHP_EVENT_CANCELED},
        {"closed", SHP_EVENT_CLOSED},
    };
    const char *type = vectors_string(wanted, "type");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i].name, type) == 0)
            assert_int_equal(event->type, names[i].type);
    const cJSON *item;
    cJSON_ArrayForEach(item, wanted)
    {
        if (strcmp(item->string, "stream") == 0)
            assert_int_equal(event->stream, item->valuedouble);
        if (strcmp(item->string, "message") == 0)
            assert_int_equal(event->message, item->valuedouble);
        if (strcmp(item->string, "fin") == 0)
            assert_int_equal(event->fin, cJSON_IsTrue(item));
        if (strcmp(item->string, "timeout_ms") == 0)
            assert_int_equal(event->timeout_ms, item->valuedouble);
        if (strcmp(item->string, "code") == 0)
            assert_int_equal(event->error.code, item->valuedouble);
        if (strcmp(item->string, "cause") == 0)
            assert_string_equal(event->error.cause, item->valuestring);
        if (strcmp(item->string, "outcome") == 0)
            assert_int_equal(event->error.outcome, strcmp(item->valuestring, "rejected") == 0
                                                       ? SHP_OUTCOME_REJECTED
                                                       : SHP_OUTCOME_UNKNOWN);
        if (strcmp(item->string, "text") == 0) {
            assert_int_equal(event->data_len, strlen(item->valuestring));
            assert_memory_equal(event->data, item->valuestring, event->data_len);
        }
        if (strcmp(item->string, "id") == 0) {
            uint8_t id[16];
            vectors_hex(wanted, "id", id, sizeof(id));
            assert_memory_equal(event->id, id, sizeof(id));
        }
        if (strcmp(item->string, "json") == 0) {
            cJSON *json = cJSON_Parse(event->json);
            assert_true(cJSON_Compare(json, item, true));
            cJSON_Delete(json);
        }
    }
}

/* The streams that the initiator of the conversation opens, so that answers to them are expected.
 */
static void ask_as_in_the_conversation(struct pair_end *end)
{
    assert_int_equal(pair_ask(&pair, end, SHP_MSG_SESSION_REQUEST, "{}", 0, false, NULL), 1);
    size_t taken;
    assert_int_equal(shp_session_send_bulk(end->session, 1, (const uint8_t *)"x", 1, true, &taken),
                     0);
    assert_int_equal(pair_ask(&pair, end, SHP_MSG_SESSION_REQUEST, "{}", 0, true, NULL), 3);
    assert_int_equal(pair_ask(&pair, end, SHP_MSG_SESSION_REQUEST, "{}", 0, true, NULL), 5);
    const uint8_t *out;
    shp_session_consume_output(end->session, shp_session_output(end->session, &out, pair.now_ms));
}

static void conversation_makes_these_events(void **state)
{
    (void)state;
    cJSON *file = vectors_load(SHP_TEST_SOURCE_DIR, "conversation.json");
    const cJSON *step;
    int count = 0;
    bool canceled = false;
    assert_int_equal(pair_new(&pair, SHP_SUITE_PLAIN), 0);
    cJSON_ArrayForEach(step, vectors_get(file, "steps"))
    {
        bool from_initiator = strcmp(vectors_string(step, "from"), "initiator") == 0;
        struct pair_end *end = from_initiator ? &pair.b : &pair.a;
        const cJSON *wanted = vectors_get(step, "event");
        size_t len;
        uint8_t *bytes = vectors_bytes(vectors_get(step, "bytes"), &len);
        pair_forget_events(end);
        feed(end, bytes, len);
        free(bytes);
        assert_true(end->event_count >= 1);
        if (strcmp(vectors_string(wanted, "type"), "closed") == 0) {
            /* The request that is still open ends first. */
            assert_int_equal(end->event_count, 2);
            assert_int_equal(end->events[0].type, SHP_EVENT_FAILED);
            check_event(wanted, &end->events[1]);
        } else {
            check_event(wanted, &end->events[0]);
        }
        if (strcmp(vectors_string(wanted, "type"), "established") == 0)
            ask_as_in_the_conversation(end);
        canceled = canceled || strcmp(vectors_string(wanted, "type"), "canceled") == 0;
        count++;
    }
    assert_true(count >= 10 && canceled);
    cJSON_Delete(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(noise_wire_is_the_same_byte_for_byte, close_pair),
        cmocka_unit_test_teardown(conversation_makes_these_events, close_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
