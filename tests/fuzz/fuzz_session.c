/* Two established sessions and a program of operations: what the owners do, what the link does,
 * and, in suite plain, frames that no engine would send.
 *
 * input: u8 flags (bit 0: suite plain), then operations of one byte with their arguments. What must
 * hold for every program: no crash, one end per request, and the count of pending requests. */
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "framing/frame.h"
#include "protocol/messages.h"
#include "tests/support/session_pair.h"

#define STREAMS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at;
    const uint8_t *end;
};

struct side {
    struct shp_session *session;
    bool closed;
    bool forged; /* frames were put into its input by hand */
    size_t asked;
    size_t ended;
    uint32_t streams[STREAMS_MAX]; /* the newest that this side heard of */
    size_t stream_count;
};

static struct side sides[2];
static uint64_t now_ms;
static uint8_t filler[70000];

static uint8_t u8(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static size_t u16(struct input *in)
{
    size_t low = u8(in);
    return low | (size_t)u8(in) << 8;
}

static uint32_t any_stream(struct side *side, struct input *in)
{
    uint8_t n = u8(in);
    if (side->stream_count == 0 || n >= 0xf0)
        return n;
    return side->streams[n % (side->stream_count < STREAMS_MAX ? side->stream_count : STREAMS_MAX)];
}

static void remember(struct side *side, uint32_t stream)
{
    side->streams[side->stream_count++ % STREAMS_MAX] = stream;
}

static void take_events(struct side *side)
{
    struct shp_event event;
    while (shp_session_next_event(side->session, &event)) {
        assert(!side->closed);
        assert(event.json && event.json[event.json_len] == '\0');
        bool ours = event.user == side;
        switch (event.type) {
        case SHP_EVENT_REQUEST:
        case SHP_EVENT_NOTIFICATION:
            remember(side, event.stream);
            break;
        case SHP_EVENT_RESPONSE:
        case SHP_EVENT_BULK:
            side->ended += ours && event.fin;
            break;
        case SHP_EVENT_FAILED:
            assert(ours && event.error.code != 0);
            side->ended++;
            break;
        case SHP_EVENT_CLOSED:
            side->closed = true;
            break;
        default:
            break;
        }
    }
    assert(side->ended <= side->asked);
    assert(shp_session_pending(side->session) == side->asked - side->ended);
}

static void feed(struct side *side, const uint8_t *bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t taken;
        int err = shp_session_feed(side->session, bytes + at, len - at, &taken, now_ms);
        assert(taken <= len - at);
        take_events(side);
        at += taken;
        if (err != 0)
            return;
        assert(taken > 0);
    }
}

static void move(struct side *from, struct side *to, size_t most)
{
    const uint8_t *out;
    size_t len = shp_session_output(from->session, &out, now_ms);
    assert(len <= SHP_LIMIT_OUTPUT_BYTES_MAX + SHP_LIMIT_CONTROL_RESERVE_BYTES);
    if (len > most)
        len = most;
    feed(to, out, len);
    shp_session_consume_output(from->session, len);
}

/* A frame by hand: its content is the input's, or filler of any length. */
static void forge(struct side *to, struct input *in)
{
    static uint8_t frame[12 + sizeof(filler)];
    uint8_t type = u8(in) % 10;
    uint8_t flags = u8(in);
    uint32_t stream = any_stream(to, in);
    size_t len = u8(in);
    size_t there = (size_t)(in->end - in->at);
    if (len == 255) {
        len = u16(in);
        there = 0;
    }
    if (len > there && there > 0)
        len = there;
    shp_frame_put_length(frame, (uint32_t)(8 + len));
    shp_frame_put_header(frame + 4, type, false, stream);
    frame[5] = flags;
    if (there > 0) {
        memcpy(frame + 12, in->at, len);
        in->at += len;
    } else {
        memset(frame + 12, 'f', len);
    }
    to->forged = true;
    feed(to, frame, 12 + len);
}

static void ask(struct side *side, struct input *in)
{
    static const char json[] = "{\"a\":[1,{\"b\":\"c\"}]}";
    uint8_t how = u8(in);
    uint8_t id[SHP_REQUEST_ID_BYTES] = {how};
    uint16_t message = how & 64 ? (uint16_t)u16(in) : SHP_MSG_SESSION_REQUEST;
    uint32_t stream;
    bool fin = how & 1;
    int err;
    if (how & 2) {
        err = shp_session_send_notification(side->session, SHP_MSG_SESSION_EVENT, json,
                                            sizeof(json) - 1, fin, &stream);
    } else {
        err = shp_session_send_request(side->session, message, id, (uint32_t)(how >> 2) * 50 + 1,
                                       json, sizeof(json) - 1, fin, side, now_ms, &stream);
        side->asked += err == 0;
    }
    if (err == 0)
        remember(side, stream);
}

static void send_error(struct side *side, uint32_t stream, int code)
{
    struct shp_error error;
    shp_error_set(&error, code, "machine", "step", "cause");
    (void)shp_session_send_error(side->session, stream, &error);
}

static void operate(struct input *in, bool plain)
{
    uint8_t op = u8(in);
    struct side *side = &sides[op >> 7];
    struct side *other = &sides[1 - (op >> 7)];
    size_t taken;
    switch (op & 15) {
    case 0:
        ask(side, in);
        break;
    case 1: {
        uint32_t stream = any_stream(side, in);
        (void)shp_session_send_response(side->session, stream, "{}", 2, op & 16);
        break;
    }
    case 2: {
        uint32_t stream = any_stream(side, in);
        send_error(side, stream, 1 + u8(in));
        break;
    }
    case 3: {
        uint32_t stream = any_stream(side, in);
        size_t len = u16(in);
        (void)shp_session_send_bulk(side->session, stream, filler, len, op & 16, &taken);
        break;
    }
    case 4: {
        uint32_t stream = any_stream(side, in);
        (void)shp_session_cancel(side->session, stream, u8(in));
        break;
    }
    case 5: {
        uint32_t stream = any_stream(side, in);
        shp_session_consume(side->session, stream, u16(in));
        break;
    }
    case 6:
        now_ms += u16(in);
        shp_session_tick(side->session, now_ms);
        break;
    case 7:
        shp_session_probe(side->session, now_ms);
        break;
    case 8:
        if (op & 16)
            shp_session_close(side->session, u8(in), "closed by hand");
        break;
    case 9:
        if (op & 16)
            shp_session_feed_end(side->session, now_ms);
        break;
    case 10:
    case 11:
        if (plain)
            forge(side, in);
        break;
    default:
        move(side, other, op & 16 ? SIZE_MAX : u16(in));
        break;
    }
    take_events(&sides[0]);
    take_events(&sides[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pair pair;
    struct input in = {data, data + size};
    if (size == 0)
        return 0;
    bool plain = u8(&in) & 1;
    memset(sides, 0, sizeof(sides));
    now_ms = 1000;
    if (pair_open(&pair, plain ? SHP_SUITE_PLAIN : SHP_SUITE_NOISE) != 0)
        return 0;
    sides[0].session = pair.a.session;
    sides[1].session = pair.b.session;
    for (int i = 0; i < 2000 && in.at < in.end; i++)
        operate(&in, plain);
    for (int i = 0; i < 2; i++) {
        shp_session_feed_end(sides[i].session, now_ms);
        take_events(&sides[i]);
        assert(sides[i].closed && sides[i].ended == sides[i].asked);
    }
    pair_free(&pair);
    return 0;
}
