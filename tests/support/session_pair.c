#include "tests/support/session_pair.h"

#include <stdlib.h>
#include <string.h>

#include "framing/frame.h"

static const char hello[] = "{\"versions\":[1,1],\"role\":\"test\"}";

struct shp_session_config pair_config(enum shp_role role, enum shp_suite suite)
{
    struct shp_session_config config = {
        .role = role,
        .suite = suite,
        .hello_json = hello,
        .hello_len = sizeof(hello) - 1,
        .marker = PAIR_MARKER,
        .now_ms = 1000,
    };
    memset(config.psk, 7, sizeof(config.psk));
    memset(config.ephemeral, role == SHP_ROLE_INITIATOR ? 1 : 2, sizeof(config.ephemeral));
    return config;
}

int pair_new(struct pair *pair, enum shp_suite suite)
{
    memset(pair, 0, sizeof(*pair));
    pair->now_ms = 1000;
    pair->a.consume = true;
    pair->b.consume = true;
    struct shp_session_config a = pair_config(SHP_ROLE_INITIATOR, suite);
    struct shp_session_config b = pair_config(SHP_ROLE_RESPONDER, suite);
    int err = shp_session_new(&pair->a.session, &a);
    return err ? err : shp_session_new(&pair->b.session, &b);
}

void pair_forget_events(struct pair_end *end)
{
    for (size_t i = 0; i < end->event_count; i++) {
        free(end->events[i].json);
        free(end->events[i].data);
    }
    end->event_count = 0;
    end->seen = 0;
}

void pair_free(struct pair *pair)
{
    pair_forget_events(&pair->a);
    pair_forget_events(&pair->b);
    shp_session_free(pair->a.session);
    shp_session_free(pair->b.session);
    pair->a.session = NULL;
    pair->b.session = NULL;
}

void pair_take_events(struct pair_end *end)
{
    struct shp_event event;
    while (shp_session_next_event(end->session, &event)) {
        if (end->event_count == PAIR_EVENTS_MAX)
            abort();
        struct pair_event *copy = &end->events[end->event_count++];
        *copy = (struct pair_event){
            .type = event.type,
            .stream = event.stream,
            .message = event.message,
            .fin = event.fin,
            .timeout_ms = event.timeout_ms,
            .user = event.user,
            .json = malloc(event.json_len + 1),
            .data = malloc(event.data_len + 1),
            .data_len = event.data_len,
            .error = event.error,
        };
        memcpy(copy->id, event.id, sizeof(copy->id));
        memcpy(copy->json, event.json, event.json_len);
        copy->json[event.json_len] = '\0';
        if (event.data_len > 0)
            memcpy(copy->data, event.data, event.data_len);
        if (event.type == SHP_EVENT_BULK && end->consume)
            shp_session_consume(end->session, event.stream, event.data_len);
    }
}

void pair_move(struct pair *pair, struct pair_end *from, struct pair_end *to)
{
    const uint8_t *out;
    size_t len;
    while ((len = shp_session_output(from->session, &out, pair->now_ms)) > 0) {
        size_t taken;
        if (pair->piece > 0 && len > pair->piece)
            len = pair->piece;
        (void)shp_session_feed(to->session, out, len, &taken, pair->now_ms);
        shp_session_consume_output(from->session, taken);
        pair_take_events(to);
        if (taken == 0)
            break;
    }
}

static bool has_output(const struct pair *pair, struct pair_end *end)
{
    const uint8_t *out;
    return shp_session_output(end->session, &out, pair->now_ms) > 0;
}

void pair_run(struct pair *pair)
{
    do {
        pair_take_events(&pair->a);
        pair_take_events(&pair->b);
        pair_move(pair, &pair->a, &pair->b);
        pair_move(pair, &pair->b, &pair->a);
    } while (has_output(pair, &pair->a) || has_output(pair, &pair->b));
}

int pair_open(struct pair *pair, enum shp_suite suite)
{
    int err = pair_new(pair, suite);
    if (err)
        return err;
    pair_run(pair);
    if (!shp_session_established(pair->a.session) || !shp_session_established(pair->b.session))
        return SHP_ERR_STATE;
    pair_forget_events(&pair->a);
    pair_forget_events(&pair->b);
    return SHP_OK;
}

struct pair_event *pair_next(struct pair_end *end)
{
    return end->seen < end->event_count ? &end->events[end->seen++] : NULL;
}

uint32_t pair_ask(struct pair *pair, struct pair_end *end, uint16_t message, const char *json,
                  uint8_t n, bool fin, void *user)
{
    uint8_t id[SHP_REQUEST_ID_BYTES];
    uint32_t stream = 0;
    memset(id, n, sizeof(id));
    int err = shp_session_send_request(end->session, message, id, 60000, json, strlen(json), fin,
                                       user, pair->now_ms, &stream);
    return err ? 0 : stream;
}

int pair_inject(struct pair *pair, struct pair_end *end, uint8_t type, uint8_t flags,
                uint32_t stream, const void *payload, size_t len)
{
    uint8_t frame[SHP_FRAME_LENGTH_BYTES + SHP_FRAME_HEADER_BYTES + 2048];
    size_t taken;
    if (len > 2048)
        abort();
    shp_frame_put_length(frame, (uint32_t)(SHP_FRAME_HEADER_BYTES + len));
    shp_frame_put_header(frame + SHP_FRAME_LENGTH_BYTES, type, false, stream);
    frame[SHP_FRAME_LENGTH_BYTES + 1] = flags;
    memcpy(frame + SHP_FRAME_LENGTH_BYTES + SHP_FRAME_HEADER_BYTES, payload, len);
    int err =
        shp_session_feed(end->session, frame, SHP_FRAME_LENGTH_BYTES + SHP_FRAME_HEADER_BYTES + len,
                         &taken, pair->now_ms);
    pair_take_events(end);
    return err;
}
