/*
 * Two sessions and a line between them that has a rate, a delay, and a queue deep enough to hold
 * seconds of bulk, as a modem, a socket and an SSH server have together. All in simulated time.
 *
 * What must hold while bulk flows without a pause: a small request is not stuck behind it, the line
 * is used, and a line that changes is followed. Each case prints what it measured.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/messages.h"
#include "protocol/session.h"
#include "tests/support/session_pair.h"

#define QUEUE_MAX ((size_t)4 * 1024 * 1024)
#define PACKET_BYTES 1400
#define STREAMS_MAX 16
#define ASKS_MAX 8192
#define ASK_EVERY_MS 20
#define CALL SHP_MSG_SESSION_REQUEST

/* ---- the line ------------------------------------------------------------------------------ */

struct packet {
    uint64_t due_ms;
    size_t len;
};

/* One direction. What is queued or under way stands in bytes; packets cut what is under way. */
struct line {
    uint32_t bytes_per_ms;
    uint32_t delay_ms;
    uint32_t lost_in; /* one packet in so many comes late, and holds up those behind it; 0: none */
    uint8_t bytes[2 * QUEUE_MAX];
    size_t len;    /* all that is held */
    size_t flying; /* of it, already sent */
    struct packet packets[QUEUE_MAX / PACKET_BYTES * 2];
    size_t packet_count;
    size_t budget; /* bytes that the rate allows and nothing used yet */
    uint64_t last_due_ms;
};

struct end {
    struct shp_session *session;
    struct line line; /* to the other end */
};

/* A small request and when its answer came. */
struct ask {
    uint64_t asked_ms;
    uint64_t took_ms; /* UINT64_MAX: not yet */
};

/* A stream that asks for bulk; b answers without end. */
struct source {
    uint32_t stream;
    size_t left; /* to be given to the session by b */
    size_t received;
};

static struct end ends[2]; /* 0 asks, 1 answers */
static uint64_t now_ms;
static size_t queue_max; /* what the line takes from a session */
static uint64_t chance;
static struct source sources[STREAMS_MAX];
static bool resting; /* no further bulk is asked for */
static size_t source_count;
static struct ask asks[ASKS_MAX];
static size_t ask_count;
static uint64_t next_ask_ms;
static uint64_t received;  /* bulk at the asker */
static uint32_t upload;    /* notification of the asker; 0: none */
static size_t upload_left; /* to be given to its session */
static uint64_t uploaded;  /* bulk at the answerer */
static uint64_t sent_up;   /* bytes that left the asker */

static uint32_t roll(uint32_t below)
{
    chance ^= chance >> 12;
    chance ^= chance << 25;
    chance ^= chance >> 27;
    return (uint32_t)((chance * UINT64_C(2685821657736338717)) >> 33) % below;
}

/* What the rate lets leave in this millisecond. */
static void send_packets(struct line *line)
{
    line->budget += line->bytes_per_ms;
    while (line->flying < line->len) {
        size_t len = line->len - line->flying;
        len = len < PACKET_BYTES ? len : PACKET_BYTES;
        if (line->budget < len)
            return;
        line->budget -= len;
        uint64_t due = now_ms + line->delay_ms;
        /* As TCP does: sent again after about a round trip, and the rest waits for it. */
        if (line->lost_in > 0 && roll(line->lost_in) == 0)
            due += 3 * (uint64_t)line->delay_ms;
        if (due < line->last_due_ms)
            due = line->last_due_ms;
        line->last_due_ms = due;
        line->packets[line->packet_count++] = (struct packet){.due_ms = due, .len = len};
        line->flying += len;
        assert_true(line->packet_count < sizeof(line->packets) / sizeof(line->packets[0]));
    }
    line->budget = 0; /* an idle line saves nothing up */
}

static void take_output(struct end *end)
{
    struct line *line = &end->line;
    const uint8_t *out;
    size_t len;
    while ((len = shp_session_output(end->session, &out, now_ms)) > 0) {
        size_t room = line->len < queue_max ? queue_max - line->len : 0;
        len = len < room ? len : room;
        if (len == 0)
            return;
        memcpy(line->bytes + line->len, out, len);
        line->len += len;
        shp_session_consume_output(end->session, len);
        if (end == &ends[0])
            sent_up += len;
    }
}

/* ---- the two users of the sessions --------------------------------------------------------- */

static uint32_t ask(uint8_t kind, void *user)
{
    uint8_t id[SHP_REQUEST_ID_BYTES];
    uint32_t stream;
    memset(id, kind, sizeof(id));
    assert_int_equal(shp_session_send_request(ends[0].session, CALL, id, 600000, "{}", 2, true,
                                              user, now_ms, &stream),
                     0);
    return stream;
}

static struct source *find_source(uint32_t stream)
{
    for (size_t i = 0; i < source_count; i++)
        if (sources[i].stream == stream)
            return &sources[i];
    return NULL;
}

static void open_source(struct source *source)
{
    source->stream = ask(2, source);
    source->left = SHP_LIMIT_MESSAGE_BYTES_MAX;
}

static void open_upload(void)
{
    assert_int_equal(shp_session_send_notification(ends[0].session, SHP_MSG_SESSION_EVENT, "{}", 2,
                                                   false, &upload),
                     0);
    upload_left = SHP_LIMIT_MESSAGE_BYTES_MAX;
}

static void asker_event(const struct shp_event *event)
{
    struct source *source = find_source(event->stream);
    if (event->type == SHP_EVENT_BULK) {
        assert_non_null(source);
        source->received += event->data_len;
        received += event->data_len;
        shp_session_consume(ends[0].session, event->stream, event->data_len);
        if (event->fin)
            source->stream = 0;
        if (event->fin && !resting)
            open_source(source);
    } else if (event->type == SHP_EVENT_FAILED) {
        assert_int_equal(event->error.code, SHP_CODE_CANCELED);
    } else if (event->type == SHP_EVENT_RESPONSE && !source) {
        struct ask *answered = event->user;
        answered->took_ms = now_ms - answered->asked_ms;
    } else {
        assert_true(event->type == SHP_EVENT_RESPONSE || event->type == SHP_EVENT_WRITABLE ||
                    event->type == SHP_EVENT_ESTABLISHED);
    }
}

static void answerer_event(const struct shp_event *event)
{
    if (event->type == SHP_EVENT_BULK) {
        uploaded += event->data_len;
        shp_session_consume(ends[1].session, event->stream, event->data_len);
        if (event->fin)
            open_upload();
    } else if (event->type == SHP_EVENT_REQUEST)
        assert_int_equal(
            shp_session_send_response(ends[1].session, event->stream, "{}", 2, event->id[0] == 1),
            0);
    else
        assert_true(event->type == SHP_EVENT_WRITABLE || event->type == SHP_EVENT_HELLO ||
                    event->type == SHP_EVENT_ESTABLISHED || event->type == SHP_EVENT_NOTIFICATION ||
                    event->type == SHP_EVENT_CANCELED);
}

static void take_events(int side)
{
    struct shp_event event;
    while (shp_session_next_event(ends[side].session, &event)) {
        if (side == 0)
            asker_event(&event);
        else
            answerer_event(&event);
    }
}

static void give_bulk(void)
{
    static uint8_t data[SHP_LIMIT_STREAM_CREDIT_BYTES];
    for (size_t i = 0; i < source_count; i++) {
        struct source *source = &sources[i];
        size_t len = source->left < sizeof(data) ? source->left : sizeof(data);
        size_t taken = 0;
        if (len == 0)
            continue;
        int err = shp_session_send_bulk(ends[1].session, source->stream, data, len,
                                        len == source->left, &taken);
        assert_true(err == 0 || err == SHP_ERR_NOT_FOUND); /* not asked yet */
        source->left -= taken;
    }
    size_t taken = 0;
    size_t len = upload_left < sizeof(data) ? upload_left : sizeof(data);
    if (upload != 0 && len > 0)
        assert_int_equal(
            shp_session_send_bulk(ends[0].session, upload, data, len, len == upload_left, &taken),
            0);
    upload_left -= taken;
}

static void deliver(int from)
{
    struct line *line = &ends[from].line;
    size_t count = 0;
    size_t len = 0;
    while (count < line->packet_count && line->packets[count].due_ms <= now_ms)
        len += line->packets[count++].len;
    for (size_t at = 0; at < len;) {
        size_t taken;
        assert_int_equal(
            shp_session_feed(ends[1 - from].session, line->bytes + at, len - at, &taken, now_ms),
            0);
        at += taken;
        take_events(1 - from);
    }
    line->packet_count -= count;
    memmove(line->packets, line->packets + count, line->packet_count * sizeof(line->packets[0]));
    line->len -= len;
    line->flying -= len;
    memmove(line->bytes, line->bytes + len, line->len);
}

static void step(void)
{
    now_ms++;
    for (int side = 0; side < 2; side++) {
        if (now_ms >= shp_session_deadline_ms(ends[side].session))
            shp_session_tick(ends[side].session, now_ms);
        deliver(side);
        take_events(side);
    }
    if (next_ask_ms != 0 && now_ms >= next_ask_ms && ask_count < ASKS_MAX) {
        asks[ask_count].asked_ms = now_ms;
        asks[ask_count].took_ms = UINT64_MAX;
        (void)ask(1, &asks[ask_count]);
        ask_count++;
        next_ask_ms += ASK_EVERY_MS;
    }
    give_bulk();
    for (int side = 0; side < 2; side++) {
        take_output(&ends[side]);
        send_packets(&ends[side].line);
        assert_false(shp_session_closed(ends[side].session));
        /* A time that stays in the past would keep its owner's loop spinning. */
        assert_true(shp_session_deadline_ms(ends[side].session) > now_ms);
    }
    size_t window = shp_session_bulk_window(ends[1].session);
    assert_in_range(window, SHP_LIMIT_BULK_WINDOW_BYTES_MIN, SHP_LIMIT_BULK_WINDOW_BYTES_MAX);
}

static void run_for(uint64_t ms)
{
    for (uint64_t until = now_ms + ms; now_ms < until;)
        step();
}

/* ---- measuring ----------------------------------------------------------------------------- */

static void set_line(uint32_t bytes_per_ms, uint32_t round_trip_ms)
{
    for (int side = 0; side < 2; side++) {
        ends[side].line.bytes_per_ms = bytes_per_ms;
        ends[side].line.delay_ms = round_trip_ms / 2;
    }
}

static void begin(enum shp_suite suite, uint32_t bytes_per_ms, uint32_t round_trip_ms)
{
    memset(ends, 0, sizeof(ends));
    memset(sources, 0, sizeof(sources));
    now_ms = 1000;
    queue_max = QUEUE_MAX;
    chance = 88172645463325252u;
    source_count = 0;
    next_ask_ms = 0;
    resting = false;
    upload = 0;
    upload_left = 0;
    uploaded = 0;
    received = 0;
    struct shp_session_config a = pair_config(SHP_ROLE_INITIATOR, suite);
    struct shp_session_config b = pair_config(SHP_ROLE_RESPONDER, suite);
    assert_int_equal(shp_session_new(&ends[0].session, &a), 0);
    assert_int_equal(shp_session_new(&ends[1].session, &b), 0);
    set_line(bytes_per_ms, round_trip_ms);
    while (!shp_session_established(ends[0].session) || !shp_session_established(ends[1].session)) {
        assert_true(now_ms < 1000 + SHP_LIMIT_HANDSHAKE_TIMEOUT_MS);
        step();
    }
}

static int end_run(void **state)
{
    (void)state;
    shp_session_free(ends[0].session);
    shp_session_free(ends[1].session);
    ends[0].session = NULL;
    ends[1].session = NULL;
    return 0;
}

static void stop_bulk(void)
{
    resting = true;
    for (size_t i = 0; i < source_count; i++)
        (void)shp_session_cancel(ends[0].session, sources[i].stream, SHP_CODE_CANCELED);
    source_count = 0;
}

static void start_bulk(size_t streams)
{
    resting = false;
    source_count = streams;
    for (size_t i = 0; i < streams; i++)
        open_source(&sources[i]);
}

static void forget_measured(void)
{
    ask_count = 0;
    received = 0;
    for (size_t i = 0; i < source_count; i++)
        sources[i].received = 0;
}

static int by_time(const void *a, const void *b)
{
    uint64_t left = ((const struct ask *)a)->took_ms;
    uint64_t right = ((const struct ask *)b)->took_ms;
    return left < right ? -1 : left > right;
}

struct result {
    uint64_t median_ms;
    uint64_t p99_ms;
    uint64_t per_ms; /* bulk bytes */
};

/* So long with bulk under way and a small request each ASK_EVERY_MS; all of them are answered. */
static struct result measure(const char *name, uint64_t ms)
{
    forget_measured();
    next_ask_ms = now_ms + 1;
    run_for(ms);
    uint64_t per_ms = received / ms;
    next_ask_ms = 0;
    for (int i = 0; i < 60000 && asks[ask_count - 1].took_ms == UINT64_MAX; i++)
        step();
    qsort(asks, ask_count, sizeof(asks[0]), by_time);
    assert_true(asks[ask_count - 1].took_ms != UINT64_MAX);
    struct result result = {.median_ms = asks[ask_count / 2].took_ms,
                            .p99_ms = asks[ask_count * 99 / 100].took_ms,
                            .per_ms = per_ms};
    printf("%s: line %u B/ms, %u ms: requests median %llu ms, p99 %llu ms; bulk %llu B/ms, window "
           "%u\n",
           name, (unsigned)ends[1].line.bytes_per_ms, 2 * (unsigned)ends[1].line.delay_ms,
           (unsigned long long)result.median_ms, (unsigned long long)result.p99_ms,
           (unsigned long long)result.per_ms, (unsigned)shp_session_bulk_window(ends[1].session));
    return result;
}

/* ---- cases --------------------------------------------------------------------------------- */

/* What a request may take beside bulk: the round trip at which the window halves, and half of it
 * again, as the window grows before that is seen; on the slowest lines, the window at the start. */
static uint64_t allowed_ms(uint32_t bytes_per_ms, uint32_t round_trip_ms)
{
    uint64_t halves_at = round_trip_ms + round_trip_ms / 2 + SHP_LIMIT_BULK_DELAY_MS;
    uint64_t first = SHP_LIMIT_BULK_WINDOW_BYTES_START / bytes_per_ms + round_trip_ms;
    uint64_t later = halves_at * 3 / 2;
    return later > first ? later : first;
}

static void requests_pass_bulk_on_every_line(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t bytes_per_ms;
        uint32_t round_trip_ms;
    } lines[] = {
        {"2 Mbit/s", 250, 50},   {"2 Mbit/s, far", 250, 200}, {"512 kbit/s", 64, 50},
        {"10 Mbit/s", 1250, 20}, {"20 Mbit/s", 2500, 100},    {"100 Mbit/s", 12500, 10},
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        begin(i % 2 ? SHP_SUITE_PLAIN : SHP_SUITE_NOISE, lines[i].bytes_per_ms,
              lines[i].round_trip_ms);
        start_bulk(12);
        /* The start is part of it: a person does not wait for a window to settle. */
        struct result result = measure(lines[i].name, 8000);
        assert_true(result.p99_ms <= allowed_ms(lines[i].bytes_per_ms, lines[i].round_trip_ms));
        assert_true(result.per_ms >= (uint64_t)lines[i].bytes_per_ms * 85 / 100);
        end_run(NULL);
    }
}

static void requests_pass_bulk_while_packets_are_lost(void **state)
{
    (void)state;
    begin(SHP_SUITE_NOISE, 250, 50);
    ends[0].line.lost_in = 100;
    ends[1].line.lost_in = 100;
    start_bulk(1);
    struct result result = measure("1 % lost", 30000);
    assert_true(result.p99_ms <= 300);
    assert_true(result.per_ms >= 250 * 6 / 10);
}

static void bulk_of_both_sides_leaves_room(void **state)
{
    (void)state;
    begin(SHP_SUITE_NOISE, 250, 50);
    start_bulk(4);
    /* The asker sends as well: a notification of bulk without end. */
    open_upload();
    struct result result = measure("both ways", 20000);
    /* A pong waits in the other side's queue as well, so each window sees both. */
    assert_true(result.p99_ms <= 2 * allowed_ms(250, 50));
    assert_true(result.per_ms >= 250 / 2);
    assert_true(uploaded / 20000 >= 250 / 2);
}

static void full_pipe_before_a_fast_line_is_waited_for(void **state)
{
    (void)state;
    begin(SHP_SUITE_NOISE, 2500, 100);
    queue_max = 280000; /* the line itself holds 250000 of it */
    start_bulk(12);
    struct result result = measure("small pipe, 20 Mbit/s, far", 8000);
    assert_true(result.per_ms >= 2500 * 7 / 10);
    assert_true(result.p99_ms <= allowed_ms(2500, 100));
}

static void one_stream_reaches_what_its_credit_allows(void **state)
{
    (void)state;
    begin(SHP_SUITE_PLAIN, 100000, 2);
    start_bulk(1);
    struct result result = measure("800 Mbit/s, one stream", 2000);
    /* One window of credit in each round trip and the steps of this simulation. */
    assert_true(result.per_ms >= SHP_LIMIT_STREAM_CREDIT_BYTES / 6);
    assert_true(result.p99_ms <= 30);
}

static void window_follows_a_line_that_changes(void **state)
{
    (void)state;
    begin(SHP_SUITE_NOISE, 250, 50);
    start_bulk(12);
    (void)measure("slow at first", 10000);
    set_line(5000, 50);
    run_for(3000);
    struct result fast = measure("then fast", 5000);
    assert_true(fast.per_ms >= 5000 * 8 / 10);
    assert_true(shp_session_bulk_window(ends[1].session) > 5000 * 50 / 2);
    set_line(250, 50);
    run_for(5000);
    struct result slow = measure("slow again", 10000);
    assert_true(slow.p99_ms <= allowed_ms(250, 50));
    assert_true(slow.per_ms >= 250 * 8 / 10);
}

static void way_that_gets_longer_is_measured_anew(void **state)
{
    (void)state;
    begin(SHP_SUITE_NOISE, 1250, 20);
    start_bulk(12);
    (void)measure("near", 5000);
    set_line(1250, 200);
    run_for(2 * SHP_LIMIT_BULK_BASE_AGE_MS);
    struct result far = measure("then far", 20000);
    assert_true(far.per_ms >= 1250 * 8 / 10);
    assert_true(far.p99_ms <= allowed_ms(1250, 200));
}

static void window_starts_again_after_a_rest(void **state)
{
    (void)state;
    begin(SHP_SUITE_NOISE, 12500, 10);
    start_bulk(12);
    (void)measure("fast line", 3000);
    assert_true(shp_session_bulk_window(ends[1].session) > 2 * SHP_LIMIT_BULK_WINDOW_BYTES_START);
    stop_bulk();
    run_for(2 * SHP_LIMIT_BULK_BASE_AGE_MS);
    set_line(250, 50);
    start_bulk(12);
    struct result result = measure("another line after a rest", 10000);
    assert_true(result.p99_ms <= allowed_ms(250, 50));
}

static void streams_share_a_slow_line_evenly(void **state)
{
    (void)state;
    begin(SHP_SUITE_NOISE, 250, 50);
    start_bulk(5);
    (void)measure("five streams", 20000);
    size_t least = SIZE_MAX;
    size_t most = 0;
    for (size_t i = 0; i < source_count; i++) {
        least = sources[i].received < least ? sources[i].received : least;
        most = sources[i].received > most ? sources[i].received : most;
    }
    printf("from %zu to %zu bytes each\n", least, most);
    assert_true(most - least <= SHP_LIMIT_STREAM_CREDIT_BYTES);
}

static void pings_are_few(void **state)
{
    (void)state;
    begin(SHP_SUITE_PLAIN, 250, 50);
    start_bulk(3);
    uint64_t before = sent_up;
    run_for(20000);
    /* All that goes up is pongs and credit: a small part of what comes down. */
    printf("up %llu bytes for %llu down\n", (unsigned long long)(sent_up - before),
           (unsigned long long)received);
    assert_true((sent_up - before) * 50 < received);
    stop_bulk();
    run_for(1000);
    before = sent_up;
    run_for(SHP_LIMIT_PING_INTERVAL_MS * 4);
    assert_true(sent_up - before <= 9 * 20); /* the pings and pongs of liveness */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(requests_pass_bulk_on_every_line, end_run),
        cmocka_unit_test_teardown(requests_pass_bulk_while_packets_are_lost, end_run),
        cmocka_unit_test_teardown(bulk_of_both_sides_leaves_room, end_run),
        cmocka_unit_test_teardown(full_pipe_before_a_fast_line_is_waited_for, end_run),
        cmocka_unit_test_teardown(one_stream_reaches_what_its_credit_allows, end_run),
        cmocka_unit_test_teardown(window_follows_a_line_that_changes, end_run),
        cmocka_unit_test_teardown(way_that_gets_longer_is_measured_anew, end_run),
        cmocka_unit_test_teardown(window_starts_again_after_a_rest, end_run),
        cmocka_unit_test_teardown(streams_share_a_slow_line_evenly, end_run),
        cmocka_unit_test_teardown(pings_are_few, end_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
