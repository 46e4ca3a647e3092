/*
 * R9 and R10: a helper that stops reading, and one that floods. Our side stays within bounds, ends
 * the link for the right reason, and other links do not feel it. Time is the session's injected
 * clock, so 45 seconds of silence take none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "framing/frame.h"
#include "tests/support/fail_alloc.h"
#include "tests/support/link_world.h"
#include "tests/support/session_pair.h"

#define CALL SHP_MSG_SESSION_REQUEST
#define KIB ((size_t)1024)
#define STEP_MS 100

/*
 * What a session may hold for its peer: output with its reserve, one frame that comes in, a stage
 * and a table entry per stream; doubled, since buffers grow by doubling.
 */
#define SESSION_BYTES_MAX                                                                          \
    (2 * (SHP_LIMIT_OUTPUT_BYTES_MAX + SHP_LIMIT_CONTROL_RESERVE_BYTES + 2 * 64 * KIB) +           \
     2 * SHP_LIMIT_STREAMS_OPEN_MAX * 2 * KIB)

static struct pair faulty; /* a is our side, b the helper's */
static struct pair healthy;
static uint8_t bulk[SHP_LIMIT_STREAM_CREDIT_BYTES];

static int begin(void **state)
{
    (void)state;
    fail_alloc_begin(SIZE_MAX);
    return 0;
}

static int end(void **state)
{
    (void)state;
    pair_free(&faulty);
    pair_free(&healthy);
    size_t held = fail_alloc_held();
    (void)fail_alloc_end();
    return held == 0 ? 0 : -1;
}

/* The other link works: one request with a large answer, at the same clock. */
static void check_healthy(uint64_t now_ms)
{
    size_t taken;
    healthy.now_ms = now_ms;
    uint32_t stream = pair_ask(&healthy, &healthy.a, CALL, "{}", 1, true, NULL);
    assert_int_not_equal(stream, 0);
    pair_run(&healthy);
    assert_int_equal(shp_session_send_response(healthy.b.session, stream, "{}", 2, false), 0);
    assert_int_equal(
        shp_session_send_bulk(healthy.b.session, stream, bulk, sizeof(bulk), true, &taken), 0);
    pair_run(&healthy);
    size_t got = 0;
    for (struct pair_event *event; (event = pair_next(&healthy.a));)
        got += event->type == SHP_EVENT_BULK ? event->data_len : 0;
    assert_int_equal(got, sizeof(bulk));
    assert_int_equal(shp_session_pending(healthy.a.session), 0);
    pair_forget_events(&healthy.a);
    pair_forget_events(&healthy.b);
}

/* ---- R9: it stops reading ------------------------------------------------------------------ */

/* Everything that our side may want: requests, some with bulk, and news. */
static void want(uint64_t now_ms, size_t *asked)
{
    uint8_t id[SHP_REQUEST_ID_BYTES] = {0};
    uint32_t stream;
    size_t taken;
    int err = shp_session_send_request(faulty.a.session, CALL, id, 10 * 60 * 1000, "{}", 2, false,
                                       NULL, now_ms, &stream);
    assert_true(err == 0 || err == SHP_ERR_AGAIN || err == SHP_ERR_LIMIT);
    if (err == 0) {
        (*asked)++;
        assert_int_equal(
            shp_session_send_bulk(faulty.a.session, stream, bulk, sizeof(bulk), true, &taken), 0);
    }
    err =
        shp_session_send_notification(faulty.a.session, SHP_MSG_SESSION_EVENT, "{}", 2, true, NULL);
    assert_true(err == 0 || err == SHP_ERR_AGAIN || err == SHP_ERR_LIMIT);
}

static void r9_a_helper_that_stops_reading_is_bounded_and_ends_by_silence(void **state)
{
    (void)state;
    const uint8_t *out;
    size_t asked = 0;
    size_t failed = 0;
    assert_int_equal(pair_open(&faulty, SHP_SUITE_NOISE), 0);
    assert_int_equal(pair_open(&healthy, SHP_SUITE_NOISE), 0);
    uint64_t start_ms = faulty.now_ms;
    /* The pipe to it takes 64 KiB more, then nothing moves in either direction. */
    size_t room = 64 * KIB;
    while (!shp_session_closed(faulty.a.session)) {
        faulty.now_ms += STEP_MS;
        want(faulty.now_ms, &asked);
        size_t len = shp_session_output(faulty.a.session, &out, faulty.now_ms);
        assert_true(len <= SHP_LIMIT_OUTPUT_BYTES_MAX + SHP_LIMIT_CONTROL_RESERVE_BYTES);
        len = len < room ? len : room;
        shp_session_consume_output(faulty.a.session, len);
        room -= len;
        if (faulty.now_ms >= shp_session_deadline_ms(faulty.a.session))
            shp_session_tick(faulty.a.session, faulty.now_ms);
        pair_take_events(&faulty.a);
        if ((faulty.now_ms - start_ms) % (100 * STEP_MS) == 0)
            check_healthy(faulty.now_ms);
        assert_true(faulty.now_ms <= start_ms + SHP_LIMIT_SILENCE_MAX_MS + STEP_MS);
    }
    assert_true(faulty.now_ms >= start_ms + SHP_LIMIT_SILENCE_MAX_MS);
    for (struct pair_event *event; (event = pair_next(&faulty.a));) {
        if (event->type == SHP_EVENT_FAILED) {
            failed++;
            assert_int_equal(event->error.code, SHP_CODE_SILENCE);
        } else if (event->type == SHP_EVENT_CLOSED) {
            assert_int_equal(event->error.code, SHP_CODE_SILENCE);
        }
    }
    assert_true(asked > 10);
    assert_int_equal(failed, asked);
    assert_int_equal(shp_session_pending(faulty.a.session), 0);
    assert_true(fail_alloc_peak_bytes() <= 3 * SESSION_BYTES_MAX);
    check_healthy(faulty.now_ms);
}

static void r9_a_helper_that_talks_and_never_reads_ends_as_well(void **state)
{
    (void)state;
    assert_int_equal(pair_open(&faulty, SHP_SUITE_PLAIN), 0);
    int err = 0;
    size_t pings = 0;
    /* Silence never comes; that nothing of our answers leaves is reason enough. */
    while (err == 0) {
        assert_true(++pings <= 100000);
        faulty.now_ms += 10;
        err = pair_inject(&faulty, &faulty.a, SHP_FRAME_PING, 0, 0, "12345678", 8);
    }
    assert_int_equal(err, SHP_ERR_LIMIT);
    struct pair_event *event = pair_next(&faulty.a);
    assert_int_equal(event->type, SHP_EVENT_CLOSED);
    assert_int_equal(event->error.code, SHP_CODE_PROTOCOL_ERROR);
    assert_true(fail_alloc_peak_bytes() <= 2 * SESSION_BYTES_MAX);
}

/* A helper by hand behind a socket, which reads only when it is pumped. */
static void pump(struct shp_session *session, int fd, uint64_t now_ms)
{
    static uint8_t bytes[64 * 1024];
    struct shp_event event;
    const uint8_t *out;
    size_t len;
    ssize_t got = read(fd, bytes, sizeof(bytes));
    assert_true(got > 0 || errno == EAGAIN);
    for (size_t at = 0; got > 0 && at < (size_t)got;) {
        size_t taken;
        assert_int_equal(shp_session_feed(session, bytes + at, (size_t)got - at, &taken, now_ms),
                         0);
        at += taken;
        while (shp_session_next_event(session, &event))
            continue;
    }
    while ((len = shp_session_output(session, &out, now_ms)) > 0) {
        assert_int_equal(write(fd, out, len), len);
        shp_session_consume_output(session, len);
    }
}

struct ends {
    size_t count;
};

static void on_lost(struct shp_link *link, const struct shp_link_answer *answer, void *user)
{
    struct ends *ends = user;
    (void)link;
    assert_non_null(answer->error);
    ends->count++;
}

static void r9_a_link_that_is_not_read_holds_no_other_up(void **state)
{
    (void)state;
    static uint8_t piece[64 * 1024];
    struct link_world world;
    struct link_side deaf = {.behaviour = SILENT};
    struct shp_transport *transport;
    struct shp_session_config config = pair_config(SHP_ROLE_RESPONDER, SHP_SUITE_PLAIN);
    struct shp_session *helper;
    struct link_answer_seen answer;
    struct ends ends = {0};
    int sockets[2];

    link_world_begin(&world, SHP_SUITE_NOISE, NULL);
    link_world_establish(&world);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets),
                     0);
    assert_int_equal(shp_transport_stdio_new(&transport, &world.loop, sockets[0], dup(sockets[0])),
                     0);
    link_open_side(&world, &deaf, transport, SHP_ROLE_INITIATOR, SHP_SUITE_PLAIN, NULL);
    assert_int_equal(shp_session_new(&helper, &config), 0);
    while (!deaf.established) {
        uv_run(&world.loop, UV_RUN_ONCE);
        pump(helper, sockets[1], uv_now(&world.loop));
    }
    /* From here nobody reads. */
    int err = 0;
    size_t asked = 0;
    while (err == 0) {
        err = shp_link_request(deaf.link, MESSAGE, NULL, 600000, "{}", piece, sizeof(piece),
                               on_lost, &ends, NULL);
        asked += err == 0;
    }
    assert_true(err == SHP_ERR_AGAIN || err == SHP_ERR_LIMIT);
    assert_in_range(asked, 1, SHP_LIMIT_STREAMS_OPEN_MAX);
    for (int i = 0; i < 50; i++) {
        uint8_t *data = link_new_bulk(100000);
        link_ask(&world, &answer, 60000, "{\"n\":1}", data, 100000);
        RUN_UNTIL(&world, answer.count == 1);
        assert_int_equal(answer.code, 0);
        free(answer.bulk);
        free(world.b.bulk);
        world.b.bulk = NULL;
        world.b.bulk_len = 0;
        free(data);
    }
    assert_int_equal(ends.count, 0);
    shp_session_free(helper);
    close(sockets[1]);
    RUN_UNTIL(&world, deaf.closed);
    assert_int_equal(ends.count, asked);
    link_world_finish(&world);
}

/* ---- R10: it floods ------------------------------------------------------------------------ */

/* A frame of the helper as our side's input; suite plain. */
static int flood(uint8_t type, uint8_t flags, uint32_t stream, const void *payload, size_t len)
{
    static uint8_t frame[SHP_FRAME_LENGTH_BYTES + SHP_FRAME_HEADER_BYTES + SHP_FRAME_PAYLOAD_MAX];
    size_t whole = SHP_FRAME_LENGTH_BYTES + SHP_FRAME_HEADER_BYTES + len;
    size_t taken;
    shp_frame_put_length(frame, (uint32_t)(SHP_FRAME_HEADER_BYTES + len));
    shp_frame_put_header(frame + SHP_FRAME_LENGTH_BYTES, type, false, stream);
    frame[SHP_FRAME_LENGTH_BYTES + 1] = flags;
    memcpy(frame + SHP_FRAME_LENGTH_BYTES + SHP_FRAME_HEADER_BYTES, payload, len);
    int err = shp_session_feed(faulty.a.session, frame, whole, &taken, faulty.now_ms);
    pair_take_events(&faulty.a);
    return err;
}

static void drop_output(void)
{
    const uint8_t *out;
    shp_session_consume_output(faulty.a.session,
                               shp_session_output(faulty.a.session, &out, faulty.now_ms));
}

static void r10_bulk_beyond_its_credit_ends_the_link(void **state)
{
    (void)state;
    assert_int_equal(pair_open(&faulty, SHP_SUITE_PLAIN), 0);
    assert_int_equal(pair_open(&healthy, SHP_SUITE_NOISE), 0);
    faulty.a.consume = false;
    assert_int_equal(pair_ask(&faulty, &faulty.a, CALL, "{}", 1, true, NULL), 1);
    drop_output();
    assert_int_equal(flood(SHP_FRAME_HEAD, 0, 1, "\2\0\0\0{}", 6), 0);
    size_t sent = 0;
    int err = 0;
    while (err == 0 && sent <= 2 * sizeof(bulk)) {
        err = flood(SHP_FRAME_BULK, 0, 1, bulk, 16 * KIB);
        sent += 16 * KIB;
        check_healthy(faulty.now_ms);
    }
    assert_int_equal(err, SHP_ERR_CREDIT);
    assert_int_equal(sent, SHP_LIMIT_STREAM_CREDIT_BYTES + 16 * KIB);
    struct pair_event *event;
    do {
        event = pair_next(&faulty.a);
        assert_non_null(event);
    } while (event->type != SHP_EVENT_FAILED);
    assert_int_equal(event->error.code, SHP_CODE_CREDIT_VIOLATION);
    event = pair_next(&faulty.a);
    assert_int_equal(event->type, SHP_EVENT_CLOSED);
    assert_int_equal(event->error.code, SHP_CODE_CREDIT_VIOLATION);
    assert_true(fail_alloc_peak_bytes() <= 3 * SESSION_BYTES_MAX);
    check_healthy(faulty.now_ms);
}

/* A HEAD with as much JSON as may be. */
static size_t large_head(uint8_t *head, uint8_t kind, uint16_t message)
{
    size_t prefix = kind == SHP_KIND_REQUEST ? 24 : 4;
    memset(head, 0, prefix);
    head[0] = kind;
    head[2] = (uint8_t)message;
    head[3] = (uint8_t)(message >> 8);
    if (kind == SHP_KIND_REQUEST)
        head[21] = 1; /* its time */
    memset(head + prefix, ' ', SHP_LIMIT_HEAD_JSON_BYTES_MAX);
    head[prefix] = '{';
    head[prefix + SHP_LIMIT_HEAD_JSON_BYTES_MAX - 1] = '}';
    return prefix + SHP_LIMIT_HEAD_JSON_BYTES_MAX;
}

static void r10_a_flood_of_requests_keeps_the_tables_small(void **state)
{
    (void)state;
    static uint8_t head[64 * 1024];
    size_t requests = 0;
    assert_int_equal(pair_open(&faulty, SHP_SUITE_PLAIN), 0);
    size_t len = large_head(head, SHP_KIND_REQUEST, CALL);
    for (uint32_t i = 0; i < 3000; i++) {
        assert_int_equal(flood(SHP_FRAME_HEAD, 1, 2 * i + 2, head, len), 0);
        for (struct pair_event *event; (event = pair_next(&faulty.a));)
            requests += event->type == SHP_EVENT_REQUEST;
        pair_forget_events(&faulty.a);
        drop_output();
    }
    /* Nobody answers them here: the rest was refused, each with its answer. */
    assert_int_equal(requests, SHP_LIMIT_STREAMS_OPEN_MAX);
    assert_false(shp_session_closed(faulty.a.session));
    assert_true(fail_alloc_peak_bytes() <= SESSION_BYTES_MAX);
    /* One that does not read the refusals either is ended. */
    int err = 0;
    for (uint32_t i = 3000; err == 0; i++) {
        assert_true(i < 100000);
        err = flood(SHP_FRAME_HEAD, 1, 2 * i + 2, head, len);
    }
    assert_int_equal(err, SHP_ERR_LIMIT);
    assert_true(fail_alloc_peak_bytes() <= 2 * SESSION_BYTES_MAX);
}

static void r10_a_flood_of_news_is_not_kept(void **state)
{
    (void)state;
    static uint8_t head[64 * 1024];
    size_t news = 0;
    assert_int_equal(pair_open(&faulty, SHP_SUITE_PLAIN), 0);
    size_t len = large_head(head, SHP_KIND_NOTIFICATION, SHP_MSG_SESSION_EVENT);
    for (uint32_t i = 0; i < 3000; i++) {
        /* Every other one says that bulk follows, which never comes. */
        assert_int_equal(flood(SHP_FRAME_HEAD, i % 2, 2 * i + 2, head, len), 0);
        for (struct pair_event *event; (event = pair_next(&faulty.a));)
            news += event->type == SHP_EVENT_NOTIFICATION;
        pair_forget_events(&faulty.a);
    }
    assert_in_range(news, SHP_LIMIT_STREAMS_OPEN_MAX, 3000);
    assert_true(fail_alloc_peak_bytes() <= SESSION_BYTES_MAX);
    assert_false(shp_session_closed(faulty.a.session));
}

static void r10_bytes_that_are_no_frames_end_the_link_at_once(void **state)
{
    (void)state;
    uint8_t garbage[4096];
    size_t taken;
    memset(garbage, 'A', sizeof(garbage));
    assert_int_equal(pair_open(&faulty, SHP_SUITE_NOISE), 0);
    int err = 0;
    size_t fed = 0;
    while (err == 0) {
        err = shp_session_feed(faulty.a.session, garbage, sizeof(garbage), &taken, faulty.now_ms);
        fed += sizeof(garbage);
        assert_true(fed <= 128 * KIB);
    }
    pair_take_events(&faulty.a);
    assert_int_equal(pair_next(&faulty.a)->type, SHP_EVENT_CLOSED);
    assert_true(fail_alloc_peak_bytes() <= SESSION_BYTES_MAX);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(r9_a_helper_that_stops_reading_is_bounded_and_ends_by_silence),
        CASE(r9_a_helper_that_talks_and_never_reads_ends_as_well),
        cmocka_unit_test(r9_a_link_that_is_not_read_holds_no_other_up),
        CASE(r10_bulk_beyond_its_credit_ends_the_link),
        CASE(r10_a_flood_of_requests_keeps_the_tables_small),
        CASE(r10_a_flood_of_news_is_not_kept),
        CASE(r10_bytes_that_are_no_frames_end_the_link_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
