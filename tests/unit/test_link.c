/* Two links over the in-memory pair: requests, bulk, cancel, deadline, loss, preludes, garbage. */
#include "transport/link.h"

#include "protocol/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GUARD_MS 60000
#define MARKER "0123456789abcdef0123456789abcdef"
#define MESSAGE SHP_MSG_HERDR_CALL

static const char hello_a[] = "{\"versions\":[1,1],\"role\":\"controller\",\"build\":\"x\"}";
static const char hello_b[] = "{\"versions\":[1,1],\"role\":\"helper\",\"build\":\"x\"}";

enum behaviour {
    ANSWER,       /* with the params and the bulk that came */
    ANSWER_ERROR, /* machine_unknown */
    ANSWER_LARGE, /* the largest bulk that a message may have */
    ANSWER_PIECES,
    SILENT,    /* never */
    NO_CREDIT, /* never uses up what comes */
    END_LINK,  /* closes the link instead */
};

struct side {
    struct shp_link *link;
    enum behaviour behaviour;
    bool established;
    bool closed;
    struct shp_error error;
    char peer_hello[256];
    int requests;
    int notifications;
    int canceled;
    uint8_t *bulk;
    size_t bulk_len;
    uint32_t stream;
    char json[256];
    size_t piece_sent;
    bool refuse_hello;
};

struct world {
    uv_loop_t loop;
    uv_timer_t guard;
    uv_timer_t tick;
    struct side a;
    struct side b;
    struct shp_transport *b_transport;
};

struct answer {
    int count;
    int code;
    int outcome;
    char json[512];
    uint8_t *bulk;
    size_t bulk_len;
};

static uint8_t pattern(size_t at)
{
    return (uint8_t)((at * 0x9e3779b97f4a7c15u) >> 56);
}

static uint8_t *new_bulk(size_t len)
{
    uint8_t *bulk = malloc(len);

    assert_non_null(bulk);
    for (size_t i = 0; i < len; i++)
        bulk[i] = pattern(i);
    return bulk;
}

static void check_bulk(const uint8_t *bulk, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bulk[i] != pattern(i))
            fail_msg("byte %zu differs", i);
    }
}

/* ---- the answering side ------------------------------------------------------------------- */

static void send_pieces(struct side *side)
{
    size_t total = 1000000;

    while (side->piece_sent < total) {
        uint8_t piece[5000];
        size_t len = sizeof(piece);
        size_t taken = 0;
        bool fin;

        if (len > total - side->piece_sent)
            len = total - side->piece_sent;
        fin = side->piece_sent + len == total;
        for (size_t i = 0; i < len; i++)
            piece[i] = pattern(side->piece_sent + i);
        assert_int_equal(shp_link_send_bulk(side->link, side->stream, piece, len, fin, &taken), 0);
        side->piece_sent += taken;
        if (taken < len)
            return;
    }
}

static void answer_request(struct side *side)
{
    struct shp_error error;
    uint8_t *bulk;

    switch (side->behaviour) {
    case ANSWER:
        assert_int_equal(
            shp_link_respond(side->link, side->stream, side->json, side->bulk, side->bulk_len), 0);
        assert_int_equal(shp_link_respond(side->link, side->stream, "{}", NULL, 0),
                         SHP_ERR_NOT_FOUND);
        break;
    case ANSWER_ERROR:
        shp_error_set(&error, SHP_CODE_MACHINE_UNKNOWN, "box", "look", "no machine box");
        assert_int_equal(shp_link_respond_error(side->link, side->stream, &error), 0);
        break;
    case ANSWER_LARGE:
        bulk = new_bulk(SHP_LIMIT_MESSAGE_BYTES_MAX);
        assert_int_equal(
            shp_link_respond(side->link, side->stream, "{}", bulk, SHP_LIMIT_MESSAGE_BYTES_MAX), 0);
        free(bulk);
        break;
    case ANSWER_PIECES:
        assert_int_equal(shp_link_respond_begin(side->link, side->stream, "{}"), 0);
        send_pieces(side);
        break;
    case END_LINK:
        shp_link_close(side->link, SHP_CODE_SHUTTING_DOWN, "enough");
        break;
    case SILENT:
    case NO_CREDIT:
        break;
    }
}

static void on_request(struct shp_link *link, const struct shp_link_request *request,
                       const char *json, bool fin, void *user)
{
    struct side *side = user;

    assert_ptr_equal(link, side->link);
    assert_int_equal(request->message, MESSAGE);
    side->requests++;
    side->stream = request->stream;
    snprintf(side->json, sizeof(side->json), "%s", json);
    if (fin)
        answer_request(side);
}

static void on_notification(struct shp_link *link, uint32_t stream, uint16_t message,
                            const char *json, bool fin, void *user)
{
    struct side *side = user;

    (void)link;
    (void)stream;
    (void)message;
    assert_true(fin);
    side->notifications++;
    snprintf(side->json, sizeof(side->json), "%s", json);
}

static void on_bulk(struct shp_link *link, uint32_t stream, const uint8_t *data, size_t len,
                    bool fin, void *user)
{
    struct side *side = user;

    assert_int_equal(stream, side->stream);
    side->bulk = realloc(side->bulk, side->bulk_len + len + 1);
    memcpy(side->bulk + side->bulk_len, data, len);
    side->bulk_len += len;
    if (side->behaviour != NO_CREDIT)
        shp_link_consume(link, stream, len);
    if (fin)
        answer_request(side);
}

static void on_writable(struct shp_link *link, void *user)
{
    struct side *side = user;

    (void)link;
    if (side->behaviour == ANSWER_PIECES && side->stream != 0)
        send_pieces(side);
}

static void on_canceled(struct shp_link *link, uint32_t stream, void *user)
{
    struct side *side = user;

    (void)link;
    assert_int_equal(stream, side->stream);
    side->canceled++;
}

static void on_hello(struct shp_link *link, const char *json, void *user)
{
    struct side *side = user;

    assert_non_null(strstr(json, "controller"));
    if (side->refuse_hello)
        shp_link_close(link, SHP_CODE_AUTH_FAILED, "who are you");
    else
        assert_int_equal(shp_link_set_hello(link, hello_b), 0);
}

static void on_established(struct shp_link *link, const char *peer_hello, void *user)
{
    struct side *side = user;

    (void)link;
    side->established = true;
    snprintf(side->peer_hello, sizeof(side->peer_hello), "%s", peer_hello);
}

static void on_closed(struct shp_link *link, const struct shp_error *error,
                      const struct shp_transport_end *end, void *user)
{
    struct side *side = user;

    assert_false(side->closed);
    assert_int_equal(shp_link_pending(link), 0);
    assert_non_null(end->diagnostic);
    side->closed = true;
    side->error = *error;
    shp_link_close(link, 0, NULL);
    assert_int_equal(shp_link_request(link, MESSAGE, NULL, 1000, "{}", NULL, 0, NULL, NULL, NULL),
                     SHP_ERR_STATE);
    side->link = NULL;
}

/* ---- world -------------------------------------------------------------------------------- */

static void on_guard(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("the link hangs");
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

#define RUN_UNTIL(world, condition)                                                                \
    do {                                                                                           \
        while (!(condition))                                                                       \
            uv_run(&(world)->loop, UV_RUN_ONCE);                                                   \
    } while (0)

static void open_side(struct world *world, struct side *side, struct shp_transport *transport,
                      enum shp_role role, enum shp_suite suite, const struct shp_prelude *prelude)
{
    struct shp_link_options options = {
        .transport = transport,
        .session = {.role = role, .suite = suite, .marker = MARKER},
        .prelude = prelude,
        .callbacks = {.on_hello = on_hello,
                      .on_established = on_established,
                      .on_request = on_request,
                      .on_notification = on_notification,
                      .on_bulk = on_bulk,
                      .on_canceled = on_canceled,
                      .on_writable = on_writable,
                      .on_closed = on_closed},
        .user = side,
    };

    if (role == SHP_ROLE_INITIATOR) {
        options.session.hello_json = hello_a;
        options.session.hello_len = strlen(hello_a);
    }
    assert_int_equal(shp_link_open(&side->link, &world->loop, &options), 0);
    assert_false(shp_link_established(side->link));
}

static void init_world(struct world *world)
{
    memset(world, 0, sizeof(*world));
    assert_int_equal(uv_loop_init(&world->loop), 0);
    uv_timer_init(&world->loop, &world->guard);
    uv_timer_init(&world->loop, &world->tick);
    uv_timer_start(&world->guard, on_guard, GUARD_MS, 0);
    uv_timer_start(&world->tick, on_tick, 1, 5);
    uv_unref((uv_handle_t *)&world->guard);
    uv_unref((uv_handle_t *)&world->tick);
}

static void begin(struct world *world, enum shp_suite suite, const struct shp_pipe_options *pipe)
{
    const struct shp_pipe_options whole = {.cut_after = -1};
    struct shp_transport *a = NULL;
    struct shp_transport *b = NULL;

    init_world(world);
    assert_int_equal(shp_transport_pipe_new(&a, &b, &world->loop, pipe != NULL ? pipe : &whole), 0);
    open_side(world, &world->a, a, SHP_ROLE_INITIATOR, suite, NULL);
    open_side(world, &world->b, b, SHP_ROLE_RESPONDER, suite, NULL);
    world->b_transport = b;
}

static void establish(struct world *world)
{
    RUN_UNTIL(world, world->a.established && world->b.established);
    assert_true(shp_link_established(world->a.link));
    assert_non_null(strstr(world->a.peer_hello, "helper"));
    assert_non_null(strstr(world->b.peer_hello, "controller"));
}

/* Closes what is open, lets both end, and finds nothing left. */
static void finish(struct world *world)
{
    if (world->a.link != NULL)
        shp_link_close(world->a.link, 0, "done");
    RUN_UNTIL(world, world->a.closed && (world->b.closed || world->b.link == NULL));
    uv_close((uv_handle_t *)&world->guard, NULL);
    uv_close((uv_handle_t *)&world->tick, NULL);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&world->loop), 0);
    free(world->a.bulk);
    free(world->b.bulk);
}

static void on_answer(struct shp_link *link, const struct shp_link_answer *answer, void *user)
{
    struct answer *got = user;

    (void)link;
    got->count++;
    assert_int_equal(got->count, 1);
    got->code = answer->error != NULL ? answer->error->code : 0;
    got->outcome = answer->error != NULL ? (int)answer->error->outcome : -1;
    assert_non_null(answer->json);
    snprintf(got->json, sizeof(got->json), "%s", answer->json);
    if (answer->bulk_len > 0) {
        got->bulk = malloc(answer->bulk_len);
        memcpy(got->bulk, answer->bulk, answer->bulk_len);
    }
    got->bulk_len = answer->bulk_len;
}

static uint32_t ask(struct world *world, struct answer *answer, uint32_t timeout_ms,
                    const char *json, const uint8_t *bulk, size_t len)
{
    uint32_t stream = 0;

    memset(answer, 0, sizeof(*answer));
    assert_int_equal(shp_link_request(world->a.link, MESSAGE, NULL, timeout_ms, json, bulk, len,
                                      on_answer, answer, &stream),
                     0);
    assert_int_equal(answer->count, 0);
    return stream;
}

/* ---- cases -------------------------------------------------------------------------------- */

static void answers_over(enum shp_suite suite, const struct shp_pipe_options *pipe)
{
    struct world world;
    struct answer small;
    struct answer large;
    uint8_t *bulk = new_bulk(3000000);

    begin(&world, suite, pipe);
    establish(&world);
    ask(&world, &small, 60000, "{\"socket\":\"/x\"}", NULL, 0);
    RUN_UNTIL(&world, small.count == 1);
    assert_int_equal(small.code, 0);
    assert_string_equal(small.json, "{\"socket\":\"/x\"}");
    ask(&world, &large, 60000, "{}", bulk, 3000000);
    RUN_UNTIL(&world, large.count == 1);
    assert_int_equal(large.code, 0);
    assert_int_equal(large.bulk_len, 3000000);
    check_bulk(large.bulk, large.bulk_len);
    assert_int_equal(world.b.requests, 2);
    finish(&world);
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
    struct world world;
    struct answer answer;

    (void)state;
    begin(&world, SHP_SUITE_NOISE, NULL);
    world.b.behaviour = ANSWER_LARGE;
    establish(&world);
    ask(&world, &answer, 60000, "{}", NULL, 0);
    RUN_UNTIL(&world, answer.count == 1);
    assert_int_equal(answer.code, 0);
    assert_int_equal(answer.bulk_len, SHP_LIMIT_MESSAGE_BYTES_MAX);
    check_bulk(answer.bulk, answer.bulk_len);
    free(answer.bulk);
    finish(&world);
}

/* More than the link holds at a time: credit goes to the oldest, and all arrive. */
static void many_large_answers_all_arrive(void **state)
{
    struct world world;
    struct answer answers[6];
    size_t done = 0;

    (void)state;
    begin(&world, SHP_SUITE_PLAIN, NULL);
    world.b.behaviour = ANSWER_LARGE;
    establish(&world);
    for (size_t i = 0; i < 6; i++)
        ask(&world, &answers[i], 60000, "{}", NULL, 0);
    while (done < 6) {
        uv_run(&world.loop, UV_RUN_ONCE);
        done = 0;
        for (size_t i = 0; i < 6; i++)
            done += answers[i].count == 1;
    }
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(answers[i].bulk_len, SHP_LIMIT_MESSAGE_BYTES_MAX);
        check_bulk(answers[i].bulk, answers[i].bulk_len);
        free(answers[i].bulk);
    }
    finish(&world);
}

static void an_answer_in_pieces_arrives_whole(void **state)
{
    struct shp_pipe_options pipe = {.seed = 5, .window_bytes = 30000, .cut_after = -1};
    struct world world;
    struct answer answer;

    (void)state;
    begin(&world, SHP_SUITE_NOISE, &pipe);
    world.b.behaviour = ANSWER_PIECES;
    establish(&world);
    ask(&world, &answer, 60000, "{}", NULL, 0);
    RUN_UNTIL(&world, answer.count == 1);
    assert_int_equal(answer.bulk_len, 1000000);
    check_bulk(answer.bulk, answer.bulk_len);
    free(answer.bulk);
    finish(&world);
}

static void an_error_answer_keeps_its_code(void **state)
{
    struct world world;
    struct answer answer;

    (void)state;
    begin(&world, SHP_SUITE_NOISE, NULL);
    world.b.behaviour = ANSWER_ERROR;
    establish(&world);
    ask(&world, &answer, 60000, "{}", NULL, 0);
    RUN_UNTIL(&world, answer.count == 1);
    assert_int_equal(answer.code, SHP_CODE_MACHINE_UNKNOWN);
    assert_non_null(strstr(answer.json, "machine_unknown"));
    finish(&world);
}

static void a_deadline_ends_a_request(void **state)
{
    struct world world;
    struct answer answer;

    (void)state;
    begin(&world, SHP_SUITE_NOISE, NULL);
    world.b.behaviour = SILENT;
    establish(&world);
    ask(&world, &answer, 50, "{}", NULL, 0);
    RUN_UNTIL(&world, answer.count == 1);
    assert_int_equal(answer.code, SHP_CODE_TIMEOUT);
    assert_int_equal(answer.outcome, SHP_OUTCOME_UNKNOWN);
    finish(&world);
}

static void a_cancel_ends_a_request_on_both_sides(void **state)
{
    struct world world;
    struct answer answer;
    uint32_t stream;

    (void)state;
    begin(&world, SHP_SUITE_NOISE, NULL);
    world.b.behaviour = SILENT;
    establish(&world);
    stream = ask(&world, &answer, 60000, "{}", NULL, 0);
    RUN_UNTIL(&world, world.b.requests == 1);
    shp_link_cancel(world.a.link, stream, SHP_CODE_CANCELED);
    assert_int_equal(answer.count, 0);
    RUN_UNTIL(&world, answer.count == 1 && world.b.canceled == 1);
    assert_int_equal(answer.code, SHP_CODE_CANCELED);
    assert_int_equal(shp_link_respond(world.b.link, world.b.stream, "{}", NULL, 0),
                     SHP_ERR_NOT_FOUND);
    finish(&world);
}

/* The peer that does not use up gets one credit's worth; the link stays usable and bounded. */
static void a_consumer_that_stops_stops_the_sender(void **state)
{
    struct world world;
    struct answer stuck;
    struct answer other;
    uint8_t *bulk = new_bulk(2000000);

    (void)state;
    begin(&world, SHP_SUITE_NOISE, NULL);
    world.b.behaviour = NO_CREDIT;
    establish(&world);
    ask(&world, &stuck, 60000, "{}", bulk, 2000000);
    RUN_UNTIL(&world, world.b.bulk_len == SHP_LIMIT_STREAM_CREDIT_BYTES);
    world.b.behaviour = ANSWER_ERROR;
    ask(&world, &other, 60000, "{}", NULL, 0);
    RUN_UNTIL(&world, other.count == 1);
    assert_int_equal(other.code, SHP_CODE_MACHINE_UNKNOWN);
    assert_int_equal(world.b.bulk_len, SHP_LIMIT_STREAM_CREDIT_BYTES);
    assert_int_equal(stuck.count, 0);
    finish(&world);
    assert_int_equal(stuck.count, 1);
    free(bulk);
}

static void too_large_bulk_is_refused(void **state)
{
    struct world world;
    struct answer answer = {0};
    uint8_t *bulk = new_bulk(SHP_LIMIT_MESSAGE_BYTES_MAX + 1);

    (void)state;
    begin(&world, SHP_SUITE_PLAIN, NULL);
    establish(&world);
    assert_int_equal(shp_link_request(world.a.link, MESSAGE, NULL, 1000, "{}", bulk,
                                      SHP_LIMIT_MESSAGE_BYTES_MAX + 1, on_answer, &answer, NULL),
                     SHP_ERR_LIMIT);
    finish(&world);
    assert_int_equal(answer.count, 0);
    free(bulk);
}

static void a_cut_fails_every_request_once(void **state)
{
    (void)state;
    for (int64_t at = 0; at < 400000; at += 13337) {
        struct shp_pipe_options pipe = {.seed = (uint64_t)at + 1, .cut_after = at};
        struct answer answers[5];
        struct world world;
        uint8_t *bulk = new_bulk(100000);
        int asked = 0;

        begin(&world, SHP_SUITE_NOISE, &pipe);
        RUN_UNTIL(&world, world.a.established || world.a.closed);
        for (; asked < 5 && world.a.link != NULL && shp_link_established(world.a.link); asked++)
            ask(&world, &answers[asked], 60000, "{}", asked % 2 ? bulk : NULL,
                asked % 2 ? 100000 : 0);
        RUN_UNTIL(&world, world.a.closed && world.b.closed);
        assert_int_equal(world.a.error.code, SHP_CODE_LINK_LOST);
        for (int i = 0; i < asked; i++) {
            assert_int_equal(answers[i].count, 1);
            if (answers[i].code != 0)
                assert_int_equal(answers[i].code, SHP_CODE_LINK_LOST);
            free(answers[i].bulk);
        }
        finish(&world);
        free(bulk);
    }
}

static void the_peers_close_tells_its_reason(void **state)
{
    struct world world;
    struct answer answer;

    (void)state;
    begin(&world, SHP_SUITE_NOISE, NULL);
    world.b.behaviour = END_LINK;
    establish(&world);
    ask(&world, &answer, 60000, "{}", NULL, 0);
    RUN_UNTIL(&world, world.a.closed && world.b.closed);
    assert_int_equal(answer.count, 1);
    assert_int_not_equal(answer.code, 0);
    assert_int_equal(world.a.error.code, SHP_CODE_SHUTTING_DOWN);
    assert_non_null(strstr(world.a.error.cause, "enough"));
    finish(&world);
}

static void a_hello_can_be_refused(void **state)
{
    struct world world;

    (void)state;
    begin(&world, SHP_SUITE_PLAIN, NULL);
    world.b.refuse_hello = true;
    RUN_UNTIL(&world, world.a.closed && world.b.closed);
    assert_int_equal(world.a.error.code, SHP_CODE_AUTH_FAILED);
    assert_false(world.a.established);
    finish(&world);
}

static void notifications_pass_both_ways(void **state)
{
    struct world world;

    (void)state;
    begin(&world, SHP_SUITE_NOISE, NULL);
    assert_int_equal(shp_link_notify(world.a.link, SHP_MSG_SESSION_EVENT, "{}"), SHP_ERR_STATE);
    establish(&world);
    assert_int_equal(shp_link_notify(world.a.link, SHP_MSG_SESSION_EVENT,
                                     "{\"pi_session_id\":\"s\",\"event\":\"started\"}"),
                     0);
    assert_int_equal(shp_link_notify(world.b.link, SHP_MSG_SESSION_EVENT,
                                     "{\"pi_session_id\":\"t\",\"event\":\"started\"}"),
                     0);
    RUN_UNTIL(&world, world.a.notifications == 1 && world.b.notifications == 1);
    assert_string_equal(world.b.json, "{\"pi_session_id\":\"s\",\"event\":\"started\"}");
    finish(&world);
}

static void a_close_before_the_transport_is_open_ends_in_order(void **state)
{
    struct world world;

    (void)state;
    begin(&world, SHP_SUITE_NOISE, NULL);
    shp_link_close(world.a.link, 0, "changed my mind");
    assert_false(world.a.closed);
    RUN_UNTIL(&world, world.a.closed && world.b.closed);
    assert_int_equal(world.a.error.code, 0);
    finish(&world);
}

/* ---- raw peers and preludes --------------------------------------------------------------- */

struct raw {
    struct shp_transport *transport;
    const uint8_t *say;
    size_t len;
    bool end_after;
    uint8_t heard[256];
    size_t heard_len;
    bool closed;
};

static void raw_open(struct shp_transport *transport, void *user)
{
    struct raw *raw = user;

    assert_int_equal(shp_transport_write(transport, raw->say, raw->len), raw->len);
    if (raw->end_after)
        shp_transport_close(transport);
}

static void raw_read(struct shp_transport *transport, const uint8_t *data, size_t len, void *user)
{
    struct raw *raw = user;

    (void)transport;
    for (size_t i = 0; i < len && raw->heard_len < sizeof(raw->heard); i++)
        raw->heard[raw->heard_len++] = data[i];
}

static void raw_closed(struct shp_transport *transport, const struct shp_transport_end *end,
                       void *user)
{
    struct raw *raw = user;

    (void)end;
    raw->closed = true;
    shp_transport_free(transport);
}

static void begin_raw(struct world *world, struct raw *raw, enum shp_role role,
                      const struct shp_prelude *prelude)
{
    static const struct shp_transport_callbacks callbacks = {
        .on_open = raw_open, .on_read = raw_read, .on_closed = raw_closed};
    const struct shp_pipe_options whole = {.cut_after = -1};
    struct shp_transport *a = NULL;

    init_world(world);
    assert_int_equal(shp_transport_pipe_new(&a, &raw->transport, &world->loop, &whole), 0);
    assert_int_equal(shp_transport_open(raw->transport, &callbacks, raw), 0);
    open_side(world, &world->a, a, role, SHP_SUITE_NOISE, prelude);
}

static void garbage_instead_of_a_handshake_ends_the_link(void **state)
{
    uint8_t garbage[3000];

    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        for (int role = 0; role < 2; role++) {
            struct raw raw = {.say = garbage, .len = sizeof(garbage)};
            struct world world;

            for (size_t i = 0; i < sizeof(garbage); i++)
                garbage[i] = kind == 0 ? 0 : kind == 1 ? 0xff : pattern(i + (size_t)kind);
            begin_raw(&world, &raw, role == 0 ? SHP_ROLE_INITIATOR : SHP_ROLE_RESPONDER, NULL);
            RUN_UNTIL(&world, world.a.closed && raw.closed);
            assert_int_not_equal(world.a.error.code, 0);
            assert_false(world.a.established);
            finish(&world);
        }
    }
}

static void a_foreign_byte_after_the_handshake_ends_the_link(void **state)
{
    static const char foreign[] = "a line from a program in the background\n";
    struct world world;
    struct answer answer;

    (void)state;
    begin(&world, SHP_SUITE_NOISE, NULL);
    establish(&world);
    world.b.behaviour = SILENT;
    ask(&world, &answer, 60000, "{}", NULL, 0);
    RUN_UNTIL(&world, world.b.requests == 1);
    /* Past the link, straight into the stream. */
    assert_int_equal(
        shp_transport_write(world.b_transport, (const uint8_t *)foreign, sizeof(foreign)),
        sizeof(foreign));
    RUN_UNTIL(&world, world.a.closed && world.b.closed);
    assert_int_equal(answer.count, 1);
    assert_int_not_equal(answer.code, 0);
    assert_int_equal(answer.outcome, SHP_OUTCOME_UNKNOWN);
    assert_true(world.a.error.code == SHP_CODE_AUTH_FAILED ||
                world.a.error.code == SHP_CODE_PROTOCOL_ERROR);
    finish(&world);
}

/* A prelude that skips to a '!' and sends a word before. */
struct skip {
    const char *out;
    bool freed;
    bool fail;
    int ended;
};

static enum shp_prelude_status skip_feed(void *prelude, const uint8_t *in, size_t len,
                                         size_t *taken, bool ended, struct shp_error *error)
{
    struct skip *skip = prelude;

    if (len == 0) {
        skip->ended = ended ? 1 : 2;
        shp_error_set(error, ended ? SHP_CODE_SHELL_REFUSED : SHP_CODE_SHELL_SLOW, NULL, "skip",
                      "it ended");
        return SHP_PRELUDE_FAILED;
    }
    for (size_t i = 0; i < len; i++) {
        if (in[i] == '!') {
            *taken = i + 1;
            if (skip->fail) {
                shp_error_set(error, SHP_CODE_INSTALL_FAILED, NULL, "skip", "no room");
                return SHP_PRELUDE_FAILED;
            }
            return SHP_PRELUDE_READY;
        }
    }
    return SHP_PRELUDE_MORE;
}

static size_t skip_output(void *prelude, const uint8_t **out)
{
    struct skip *skip = prelude;

    *out = (const uint8_t *)skip->out;
    return strlen(skip->out);
}

static void skip_consume(void *prelude, size_t len)
{
    ((struct skip *)prelude)->out += len;
}

static void skip_free(void *prelude)
{
    struct skip *skip = prelude;

    assert_false(skip->freed);
    skip->freed = true;
}

static struct shp_prelude skip_prelude(struct skip *skip, uint32_t timeout_ms)
{
    return (struct shp_prelude){.feed = skip_feed,
                                .output = skip_output,
                                .consume = skip_consume,
                                .free = skip_free,
                                .prelude = skip,
                                .timeout_ms = timeout_ms};
}

/* The handshake of the initiator begins right behind what the prelude took. */
static void a_prelude_hands_over_to_the_session(void **state)
{
    struct skip skip = {.out = "word"};
    struct shp_prelude prelude = skip_prelude(&skip, 30000);
    struct raw raw = {.say = (const uint8_t *)"noise noise!", .len = 12};
    struct world world;

    (void)state;
    begin_raw(&world, &raw, SHP_ROLE_INITIATOR, &prelude);
    RUN_UNTIL(&world, raw.heard_len >= 4 + 32 + 2 + 32);
    assert_memory_equal(raw.heard, "word", 4);
    assert_true(skip.freed);
    /* The secret of the launch comes first, message 1 with its big-endian length after it. */
    assert_true((raw.heard[36] << 8 | raw.heard[37]) >= 48);
    shp_transport_close(raw.transport);
    RUN_UNTIL(&world, world.a.closed && raw.closed);
    assert_int_equal(world.a.error.code, SHP_CODE_LINK_LOST);
    finish(&world);
}

static void a_prelude_that_fails_gives_its_error(void **state)
{
    struct skip skip = {.out = "", .fail = true};
    struct shp_prelude prelude = skip_prelude(&skip, 30000);
    struct raw raw = {.say = (const uint8_t *)"!", .len = 1};
    struct world world;

    (void)state;
    begin_raw(&world, &raw, SHP_ROLE_INITIATOR, &prelude);
    RUN_UNTIL(&world, world.a.closed && raw.closed);
    assert_int_equal(world.a.error.code, SHP_CODE_INSTALL_FAILED);
    assert_string_equal(world.a.error.cause, "no room");
    finish(&world);
    assert_true(skip.freed);
}

static void a_prelude_hears_of_the_end_and_of_the_deadline(void **state)
{
    struct world world;
    struct skip skip = {.out = ""};
    struct shp_prelude prelude = skip_prelude(&skip, 30000);
    struct raw raw = {.say = (const uint8_t *)"bye", .len = 3, .end_after = true};

    (void)state;
    begin_raw(&world, &raw, SHP_ROLE_INITIATOR, &prelude);
    RUN_UNTIL(&world, world.a.closed && raw.closed);
    assert_int_equal(skip.ended, 1);
    assert_int_equal(world.a.error.code, SHP_CODE_SHELL_REFUSED);
    finish(&world);

    memset(&raw, 0, sizeof(raw));
    raw.say = (const uint8_t *)"...";
    raw.len = 3;
    skip = (struct skip){.out = ""};
    prelude = skip_prelude(&skip, 30);
    begin_raw(&world, &raw, SHP_ROLE_INITIATOR, &prelude);
    RUN_UNTIL(&world, world.a.closed && raw.closed);
    assert_int_equal(skip.ended, 2);
    assert_int_equal(world.a.error.code, SHP_CODE_SHELL_SLOW);
    finish(&world);
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
        cmocka_unit_test(garbage_instead_of_a_handshake_ends_the_link),
        cmocka_unit_test(a_foreign_byte_after_the_handshake_ends_the_link),
        cmocka_unit_test(a_prelude_hands_over_to_the_session),
        cmocka_unit_test(a_prelude_that_fails_gives_its_error),
        cmocka_unit_test(a_prelude_hears_of_the_end_and_of_the_deadline),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
