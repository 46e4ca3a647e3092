/*
 * Two sessions, a link in memory, and a seed that decides everything: who asks what, how the bytes
 * are cut and delayed, when a consumer is slow, who gives up, when the link is cut or a byte
 * changes.
 *
 *     sim_session [seed [count]]
 *
 * Without arguments a fixed set of seeds runs. A failure prints its seed, which replays it.
 *
 * What must hold: bulk arrives whole, in order and unchanged; nobody receives more than its window
 * beyond what it used up; output stays within its bound; requests arrive in the order in which they
 * were made; each request has exactly one end; "rejected" at a cut means that the peer never saw
 * it; nothing but a fault ends a session.
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
#include "tests/support/fail_alloc.h"
#include "tests/support/session_pair.h"

#define STEPS 1500
#define DRAIN_ROUNDS_MAX 20000
#define CALLS_MAX 4096
#define WIRE_MAX 200000
#define BYTES_MAX ((size_t)12 * 1024 * 1024)

/* ---- chance -------------------------------------------------------------------------------- */

static uint64_t chance_state;
static unsigned long long seed_now;
static const char *suite_now;
static bool suite_is_noise;

static uint32_t roll(uint32_t below)
{
    /* xorshift64* */
    chance_state ^= chance_state >> 12;
    chance_state ^= chance_state << 25;
    chance_state ^= chance_state >> 27;
    return (uint32_t)((chance_state * UINT64_C(2685821657736338717)) >> 33) % below;
}

static bool one_in(uint32_t n)
{
    return roll(n) == 0;
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "sim_session: %s:%d: %s (suite %s): run sim_session %llu\n", __FILE__, \
                    __LINE__, #condition, suite_now, seed_now);                                    \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* ---- the model ----------------------------------------------------------------------------- */

/* One direction of bulk: sender's and receiver's view of the same bytes. */
struct flow {
    bool begun; /* receiver: the half's HEAD came */
    uint32_t salt;
    size_t total; /* what the sender means to send */
    size_t sent;  /* taken by the engine */
    bool sent_all;
    size_t received;
    size_t consumed;
    bool received_all;
};

/* A request or notification, seen from both sides at once. */
struct call {
    int asker; /* end 0 or 1 */
    uint32_t stream;
    uint32_t number;
    bool notification;
    bool seen;    /* the answerer had its REQUEST */
    bool ended;   /* the asker had its last event */
    bool dropped; /* the answerer answered, or was told that it need not */
    bool answered;
    bool asker_gone; /* canceled or timed out: the asker sends no more */
    struct flow question;
    struct flow answer;
};

struct wire {
    uint8_t bytes[WIRE_MAX];
    size_t len;
};

struct end {
    struct shp_session *session;
    struct wire wire;   /* from this end to the other */
    uint32_t last_seen; /* number of the newest request that came in */
    bool established;
    bool closed;
    size_t pending;
};

static struct end ends[2];
static struct call calls[CALLS_MAX];
static size_t call_count;
static uint64_t now_ms;
static bool faulty;   /* something was done that ends sessions */
static bool draining; /* nobody starts anything new */
static bool slow;     /* consumers take their time in this run */
static bool fine;     /* the link moves few bytes at a time, and messages are small */

static uint8_t byte_at(uint32_t salt, size_t i)
{
    return (uint8_t)((i + salt) * 2654435761u >> 13);
}

static struct call *find_call(int asker, uint32_t stream)
{
    for (size_t i = call_count; i-- > 0;)
        if (calls[i].asker == asker && calls[i].stream == stream)
            return &calls[i];
    return NULL;
}

static size_t random_total(void)
{
    switch (roll(8)) {
    case 0:
        return 0;
    case 1:
        return roll(fine ? 20000 : 1000000);
    case 2:
        return fine || !one_in(12) ? roll(70000) : SHP_LIMIT_MESSAGE_BYTES_MAX - roll(2);
    default:
        return roll(3000);
    }
}

static void new_flow(struct flow *flow)
{
    flow->salt = roll(1u << 30);
    flow->total = random_total();
}

/* ---- sending ------------------------------------------------------------------------------- */

static void ask(int from)
{
    struct end *end = &ends[from];
    if (!end->established || end->closed || call_count == CALLS_MAX)
        return;
    struct call *call = &calls[call_count];
    memset(call, 0, sizeof(*call));
    call->asker = from;
    call->number = (uint32_t)call_count + 1;
    call->notification = one_in(5);
    if (!one_in(3))
        new_flow(&call->question);
    bool fin = call->question.total == 0 && one_in(2);
    call->question.sent_all = fin;

    char json[64];
    int len = snprintf(json, sizeof(json), "{\"n\":%u}", (unsigned)call->number);
    uint8_t id[SHP_REQUEST_ID_BYTES] = {0};
    memcpy(id, &call->number, sizeof(call->number));
    uint32_t timeout_ms = one_in(4) ? 1 + roll(2000) : 3600000;
    int err = call->notification
                  ? shp_session_send_notification(end->session, SHP_MSG_SESSION_EVENT, json,
                                                  (size_t)len, fin, &call->stream)
                  : shp_session_send_request(end->session, SHP_MSG_SESSION_REQUEST, id, timeout_ms,
                                             json, (size_t)len, fin, call, now_ms, &call->stream);
    CHECK(err == 0 || err == SHP_ERR_AGAIN || err == SHP_ERR_LIMIT);
    if (err)
        return;
    call_count++;
    if (!call->notification)
        end->pending++;
    else
        call->ended = true;
}

/* Offer a random part of what is left of a flow; false when the engine does not know it any more.
 */
static bool push(struct shp_session *session, uint32_t stream, struct flow *flow, bool ignored)
{
    static uint8_t data[200000];
    size_t left = flow->total - flow->sent;
    size_t most = fine ? 4096 : sizeof(data);
    size_t len = left < most ? left : most;
    if (len > 0 && one_in(2))
        len = roll((uint32_t)len) + 1;
    for (size_t i = 0; i < len; i++)
        data[i] = byte_at(flow->salt, flow->sent + i);
    bool fin = len == left;
    size_t taken;
    int err = shp_session_send_bulk(session, stream, data, len, fin, &taken);
    if (err == SHP_ERR_NOT_FOUND)
        return false;
    CHECK(err == 0 && taken <= len);
    flow->sent += taken;
    flow->sent_all = fin && taken == len;
    /* The rest of a question that has its answer is used up by the engine, unseen. */
    CHECK(ignored || flow->sent <= flow->consumed + SHP_LIMIT_STREAM_CREDIT_BYTES);
    return true;
}

static void push_some(void)
{
    if (call_count == 0)
        return;
    struct call *call = &calls[call_count - 1 - roll(call_count < 40 ? (uint32_t)call_count : 40)];
    struct shp_session *asker = ends[call->asker].session;
    struct shp_session *answerer = ends[1 - call->asker].session;
    if (!call->question.sent_all && !call->asker_gone &&
        !push(asker, call->stream, &call->question, call->answered)) {
        call->asker_gone = true;
        /* Gone without a fault: answered, canceled, or out of time. */
        CHECK(call->ended || faulty);
    }
    if (call->answered && !call->answer.sent_all && !call->dropped &&
        !push(answerer, call->stream, &call->answer, false))
        call->dropped = true;
}

static void answer(struct call *call)
{
    struct end *end = &ends[1 - call->asker];
    if (!call->seen || call->notification || call->answered || call->dropped || end->closed)
        return;
    if (one_in(6)) {
        struct shp_error error;
        shp_error_set(&error, SHP_CODE_HERDR_ERROR, NULL, "sim", "%u", (unsigned)call->number);
        int err = shp_session_send_error(end->session, call->stream, &error);
        CHECK(err == 0 || err == SHP_ERR_AGAIN);
        call->dropped = err == 0;
        return;
    }
    char json[64];
    int len = snprintf(json, sizeof(json), "{\"n\":%u}", (unsigned)call->number);
    new_flow(&call->answer);
    bool fin = call->answer.total == 0 && one_in(2);
    int err = shp_session_send_response(end->session, call->stream, json, (size_t)len, fin);
    CHECK(err == 0 || err == SHP_ERR_AGAIN);
    if (err)
        return;
    call->answered = true;
    call->answer.sent_all = fin;
}

static void answer_some(void)
{
    if (call_count > 0)
        answer(&calls[call_count - 1 - roll(call_count < 60 ? (uint32_t)call_count : 60)]);
}

static void cancel_some(void)
{
    if (call_count == 0)
        return;
    struct call *call = &calls[roll((uint32_t)call_count)];
    int side = (int)roll(2);
    bool asks = side == call->asker;
    if (ends[side].closed || (!asks && !call->seen))
        return;
    int err = shp_session_cancel(ends[side].session, call->stream, SHP_CODE_CANCELED);
    CHECK(err == 0 || err == SHP_ERR_NOT_FOUND);
    if (asks)
        call->asker_gone = true;
    else
        call->dropped = true;
}

/* ---- receiving ----------------------------------------------------------------------------- */

static void end_call(struct call *call)
{
    CHECK(!call->ended);
    call->ended = true;
    CHECK(ends[call->asker].pending > 0);
    ends[call->asker].pending--;
}

static void check_number(const struct shp_event *event, uint32_t number)
{
    char json[64];
    (void)snprintf(json, sizeof(json), "{\"n\":%u}", (unsigned)number);
    CHECK(strcmp(event->json, json) == 0 && event->json_len == strlen(json));
}

static void take_bulk(int side, const struct shp_event *event, struct flow *flow, struct call *call)
{
    CHECK(flow->begun && !flow->received_all);
    for (size_t i = 0; i < event->data_len; i++)
        CHECK(event->data[i] == byte_at(flow->salt, flow->received + i));
    flow->received += event->data_len;
    CHECK(flow->received <= flow->sent);
    CHECK(flow->received - flow->consumed <= SHP_LIMIT_STREAM_CREDIT_BYTES);
    if (event->fin) {
        flow->received_all = true;
        CHECK(flow->received == flow->total);
    }
    if (!slow) {
        flow->consumed = flow->received;
        shp_session_consume(ends[side].session, call->stream, event->data_len);
    }
}

static void on_failed(int side, const struct shp_event *event, struct call *call)
{
    CHECK(call && !call->notification);
    /* What was rejected at a cut was never seen; what the peer rejected it did see. */
    bool by_peer = event->json_len > 0;
    if (!by_peer && event->error.outcome == SHP_OUTCOME_REJECTED)
        CHECK(!call->seen && ends[side].closed == false && faulty);
    if (!faulty)
        CHECK(event->error.code == SHP_CODE_TIMEOUT || event->error.code == SHP_CODE_CANCELED ||
              event->error.code == SHP_CODE_HERDR_ERROR ||
              event->error.code == SHP_CODE_TOO_MANY_STREAMS);
    end_call(call);
    call->asker_gone = true;
}

static void on_event(int side, const struct shp_event *event)
{
    struct end *end = &ends[side];
    struct call *ours = find_call(side, event->stream);
    struct call *theirs = find_call(1 - side, event->stream);
    CHECK(!end->closed);
    switch (event->type) {
    case SHP_EVENT_NONE:
        CHECK(false);
        break;
    case SHP_EVENT_HELLO:
        CHECK(side == 1 && !end->established);
        break;
    case SHP_EVENT_ESTABLISHED:
        end->established = true;
        break;
    case SHP_EVENT_REQUEST:
    case SHP_EVENT_NOTIFICATION:
        CHECK(theirs && !theirs->seen);
        CHECK(theirs->notification == (event->type == SHP_EVENT_NOTIFICATION));
        check_number(event, theirs->number);
        CHECK(theirs->number > end->last_seen);
        end->last_seen = theirs->number;
        theirs->seen = true;
        theirs->question.begun = true;
        theirs->question.received_all = event->fin;
        CHECK(!event->fin || theirs->question.total == 0);
        break;
    case SHP_EVENT_RESPONSE:
        CHECK(ours && event->user == ours && !ours->ended && ours->answered);
        CHECK(!ours->answer.begun);
        check_number(event, ours->number);
        ours->answer.begun = true;
        if (event->fin) {
            CHECK(ours->answer.total == 0);
            end_call(ours);
        }
        break;
    case SHP_EVENT_BULK:
        if (ours && event->user == ours) {
            CHECK(!ours->ended);
            take_bulk(side, event, &ours->answer, ours);
            if (event->fin)
                end_call(ours);
        } else {
            CHECK(theirs && theirs->seen);
            take_bulk(side, event, &theirs->question, theirs);
        }
        break;
    case SHP_EVENT_FAILED:
        CHECK(event->user == ours);
        on_failed(side, event, ours);
        break;
    case SHP_EVENT_CANCELED:
        CHECK(theirs && theirs->seen);
        theirs->dropped = true;
        break;
    case SHP_EVENT_WRITABLE:
        break;
    case SHP_EVENT_CLOSED:
        CHECK(faulty);
        CHECK(end->pending == 0);
        end->closed = true;
        break;
    }
    CHECK(shp_session_pending(end->session) == end->pending);
}

static void take_events(int side)
{
    struct shp_event event;
    while (shp_session_next_event(ends[side].session, &event))
        on_event(side, &event);
}

static void consume_some(void)
{
    if (call_count == 0)
        return;
    struct call *call = &calls[roll((uint32_t)call_count)];
    struct flow *flow = one_in(2) ? &call->question : &call->answer;
    int side = flow == &call->question ? 1 - call->asker : call->asker;
    size_t held = flow->received - flow->consumed;
    if (held == 0 || ends[side].closed)
        return;
    size_t part = one_in(2) ? held : roll((uint32_t)held) + 1;
    flow->consumed += part;
    shp_session_consume(ends[side].session, call->stream, part);
}

/* ---- the link ------------------------------------------------------------------------------ */

static void load(int side)
{
    struct end *end = &ends[side];
    const uint8_t *out;
    size_t len = shp_session_output(end->session, &out, now_ms);
    CHECK(len <= SHP_LIMIT_OUTPUT_BYTES_MAX + SHP_LIMIT_CONTROL_RESERVE_BYTES);
    if (len > WIRE_MAX - end->wire.len)
        len = WIRE_MAX - end->wire.len;
    if (len > 0 && one_in(2))
        len = roll((uint32_t)len) + 1;
    if (len == 0)
        return;
    memcpy(end->wire.bytes + end->wire.len, out, len);
    end->wire.len += len;
    shp_session_consume_output(end->session, len);
}

static void deliver(int from)
{
    struct wire *wire = &ends[from].wire;
    struct shp_session *session = ends[1 - from].session;
    size_t len = wire->len;
    if (len > 0 && !one_in(4))
        len = roll(fine ? 100 : (uint32_t)len) + 1;
    if (len > wire->len)
        len = wire->len;
    size_t at = 0;
    while (at < len) {
        size_t taken;
        int err = shp_session_feed(session, wire->bytes + at, len - at, &taken, now_ms);
        CHECK(err == 0 || faulty);
        CHECK(taken > 0 || err != 0);
        at += taken;
        take_events(1 - from);
        if (err)
            at = len;
    }
    memmove(wire->bytes, wire->bytes + len, wire->len - len);
    wire->len -= len;
}

static void pass_time(uint32_t most_ms)
{
    now_ms += roll(most_ms);
    for (int side = 0; side < 2; side++) {
        if (shp_session_deadline_ms(ends[side].session) <= now_ms)
            shp_session_tick(ends[side].session, now_ms);
        take_events(side);
    }
}

static void cut(void)
{
    faulty = true;
    for (int side = 0; side < 2; side++) {
        ends[side].wire.len = 0;
        shp_session_feed_end(ends[side].session, now_ms);
        take_events(side);
    }
}

static void do_fault(void)
{
    faulty = true;
    int side = (int)roll(2);
    struct wire *wire = &ends[side].wire;
    /* Without authentication a changed byte may mean anything. */
    switch (roll(suite_is_noise ? 3 : 2)) {
    case 0:
        cut();
        break;
    case 1:
        shp_session_close(ends[side].session, roll(2) ? SHP_CODE_SHUTTING_DOWN : 0, "sim");
        take_events(side);
        break;
    default:
        if (wire->len > 0)
            wire->bytes[roll((uint32_t)wire->len)] ^= (uint8_t)(1 << roll(8));
        break;
    }
}

/* ---- a run --------------------------------------------------------------------------------- */

static void step(void)
{
    int side = (int)roll(2);
    switch (roll(12)) {
    case 0:
        if (!draining)
            ask(side);
        break;
    case 1:
    case 2:
        push_some();
        break;
    case 3:
        answer_some();
        break;
    case 4:
        if (!draining && one_in(10))
            cancel_some();
        break;
    case 5:
        consume_some();
        break;
    case 6:
        pass_time(draining ? 3 : 30);
        break;
    case 7:
    case 8:
        load(side);
        break;
    default:
        deliver(side);
        break;
    }
    take_events(0);
    take_events(1);
}

static bool finished(void)
{
    for (size_t i = 0; i < call_count; i++) {
        const struct call *call = &calls[i];
        if (!call->ended)
            return false;
        /* A notification arrives whole while nobody gives it up. */
        if (call->notification && !call->asker_gone && !call->dropped && !faulty &&
            !(call->seen && call->question.received_all))
            return false;
    }
    return true;
}

/* What one call still waits for. */
static void settle(struct call *call)
{
    struct end *asker = &ends[call->asker];
    struct end *answerer = &ends[1 - call->asker];
    for (int half = 0; half < 2; half++) {
        struct flow *flow = half ? &call->answer : &call->question;
        struct end *receiver = half ? asker : answerer;
        size_t held = flow->received - flow->consumed;
        if (held == 0 || receiver->closed)
            continue;
        flow->consumed += held;
        shp_session_consume(receiver->session, call->stream, held);
    }
    answer(call);
    if (!call->question.sent_all && !call->asker_gone && !asker->closed &&
        !push(asker->session, call->stream, &call->question, call->answered))
        call->asker_gone = true;
    if (call->answered && !call->answer.sent_all && !call->dropped && !answerer->closed &&
        !push(answerer->session, call->stream, &call->answer, false))
        call->dropped = true;
}

/* Nothing new is asked, and everything that is open gets what it waits for. */
static void drain(void)
{
    draining = true;
    for (int rounds = 0; !finished(); rounds++) {
        CHECK(rounds < DRAIN_ROUNDS_MAX);
        for (size_t i = 0; i < call_count; i++)
            settle(&calls[i]);
        for (int i = 0; i < 50; i++)
            step();
        /* What a fault has stopped on one side only would end by silence; a cut is quicker. */
        if (faulty && (ends[0].closed || ends[1].closed || rounds > 200))
            cut();
    }
}

static void run(enum shp_suite suite, unsigned long long seed)
{
    seed_now = seed;
    suite_is_noise = suite == SHP_SUITE_NOISE;
    suite_now = suite_is_noise ? "noise" : "plain";
    chance_state = seed * UINT64_C(0x9e3779b97f4a7c15) + (suite == SHP_SUITE_NOISE ? 1 : 2);
    for (int i = 0; i < 8; i++)
        (void)roll(2);
    memset(ends, 0, sizeof(ends));
    call_count = 0;
    now_ms = 1000;
    faulty = false;
    draining = false;
    slow = one_in(2);
    fine = one_in(2);

    fail_alloc_begin(SIZE_MAX);
    struct shp_session_config a = pair_config(SHP_ROLE_INITIATOR, suite);
    struct shp_session_config b = pair_config(SHP_ROLE_RESPONDER, suite);
    CHECK(shp_session_new(&ends[0].session, &a) == 0);
    CHECK(shp_session_new(&ends[1].session, &b) == 0);
    uint32_t fault_at = one_in(2) ? roll(STEPS) : STEPS;
    for (uint32_t i = 0; i < STEPS; i++) {
        if (i == fault_at)
            do_fault();
        step();
    }
    drain();
    for (size_t i = 0; i < call_count; i++)
        CHECK(calls[i].ended);
    CHECK(ends[0].pending == 0 && ends[1].pending == 0);
    CHECK(fail_alloc_peak_bytes() < BYTES_MAX);
    shp_session_free(ends[0].session);
    shp_session_free(ends[1].session);
    CHECK(fail_alloc_held() == 0);
    (void)fail_alloc_end();
}

static unsigned long long first_seed = 1;
static unsigned long long seed_count = 60;

static void sessions_keep_their_promises_under_every_seed(void **state)
{
    (void)state;
    for (unsigned long long seed = first_seed; seed < first_seed + seed_count; seed++) {
        run(SHP_SUITE_NOISE, seed);
        run(SHP_SUITE_PLAIN, seed);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        first_seed = strtoull(argv[1], NULL, 10);
        seed_count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_keep_their_promises_under_every_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
