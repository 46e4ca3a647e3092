/*
 * Frames of the peer become events. spec/protocol.md 3 to 5.
 *
 * A frame that breaks a rule ends the session; a frame for a stream that has ended is ignored,
 * since it may have been under way when the stream ended.
 */
#include "protocol/codec.h"
#include "protocol/json_check.h"
#include "protocol/session_internal.h"

#include <string.h>

#define HEAD_PREFIX_BYTES 4
#define HEAD_REQUEST_BYTES (HEAD_PREFIX_BYTES + SHP_REQUEST_ID_BYTES + 4)
#define PING_BYTES 8
#define CLOSE_PREFIX_BYTES 2

static int broken(struct shp_session *session, const char *rule)
{
    return shp__session_fail(session, SHP_ERR_PROTOCOL, SHP_CODE_PROTOCOL_ERROR, "receive", "%s",
                             rule);
}

/* ---- one frame ----------------------------------------------------------------------------- */

int shp__session_read_frame(struct shp_session *session, const uint8_t *in, size_t len,
                            size_t *taken, struct shp_frame *frame, bool *complete)
{
    const uint8_t *body;
    size_t body_len;
    uint8_t *plain;
    *complete = false;
    int err = shp_frame_reader_feed(&session->reader, in, len, taken, &body, &body_len);
    /* A length stands outside of what a frame proves: an impossible one is foreign bytes. */
    if (err == SHP_ERR_PROTOCOL && session->suite == SHP_SUITE_NOISE)
        return SHP_ERR_AUTH;
    if (err || !body)
        return err;

    /* One byte more, so that the JSON of a HEAD can be ended with a NUL where it stands. */
    bool in_place = body == session->reader.buffer;
    err = shp_frame_reader_buffer(&session->reader, body_len + 1, &plain);
    if (err)
        return err;
    if (in_place)
        body = plain;
    if (session->suite == SHP_SUITE_NOISE) {
        err = shp_noise_open(&session->receive, body, body_len, plain);
        if (err)
            return err;
        body_len -= SHP_NOISE_TAG_BYTES;
    } else if (!in_place) {
        memcpy(plain, body, body_len);
    }
    plain[body_len] = '\0';
    err = shp_frame_parse(frame, plain, body_len);
    if (err)
        return err;
    *complete = true;
    return SHP_OK;
}

/* ---- the slot ------------------------------------------------------------------------------ */

static void set_slot(struct shp_session *session, enum shp_event_type type,
                     const struct shp_stream *stream, bool fin)
{
    struct shp_event *event = &session->slot;
    event->type = type;
    event->stream = stream->id;
    event->message = stream->message;
    event->fin = fin;
    event->timeout_ms = 0;
    event->user = stream->user;
    event->json = "";
    event->json_len = 0;
    event->data = NULL;
    event->data_len = 0;
    session->slot_ends_ours = false;
}

static void set_slot_json(struct shp_session *session, const uint8_t *json, size_t len)
{
    session->slot.json = (const char *)json;
    session->slot.json_len = len;
}

/* ---- HEAD ---------------------------------------------------------------------------------- */

static bool is_peers(const struct shp_session *session, uint32_t stream)
{
    bool odd = stream % 2 == 1;
    return odd == (session->role == SHP_ROLE_RESPONDER);
}

/* The number was open once, or belongs to an open that is over: frames for it are ignored. */
static bool was_open(const struct shp_session *session, uint32_t stream)
{
    if (is_peers(session, stream))
        return stream <= session->last_peer_stream;
    return session->next_stream == 0 || stream < session->next_stream;
}

/* An error answer of the engine itself. */
static int refuse(struct shp_session *session, uint32_t stream, int code, const char *cause)
{
    struct shp_error error;
    shp_error_set(&error, code, NULL, "receive", "%s", cause);
    return shp__session_must_put(session, shp__session_put_error(session, stream, &error));
}

static int open_peers(struct shp_session *session, const struct shp_frame *frame, bool request,
                      uint16_t message, struct shp_stream **out)
{
    *out = NULL;
    const struct shp_message_info *info = shp_message_find(message);
    enum shp_kind kind = request ? SHP_KIND_REQUEST : SHP_KIND_NOTIFICATION;
    session->last_peer_stream = frame->stream;
    if (!info || info->kind != kind) {
        if (request)
            return refuse(session, frame->stream, SHP_CODE_UNKNOWN_MESSAGE, "");
        session->dropped_notifications++;
        return SHP_OK;
    }
    int err = shp_streams_open(&session->streams, frame->stream, false, out);
    if (err == SHP_ERR_LIMIT) {
        if (request)
            return refuse(session, frame->stream, SHP_CODE_TOO_MANY_STREAMS, "");
        session->dropped_notifications++;
        return SHP_OK;
    }
    if (err)
        return shp__session_fail(session, err, SHP_CODE_OUT_OF_MEMORY, "receive", "%s", "");
    (*out)->message = message;
    (*out)->in = frame->fin ? SHP_HALF_ENDED : SHP_HALF_OPEN;
    return SHP_OK;
}

static int take_request(struct shp_session *session, const struct shp_frame *frame,
                        uint16_t message, const uint8_t *json, size_t json_len)
{
    struct shp_stream *stream;
    const uint8_t *id = frame->payload + HEAD_PREFIX_BYTES;
    uint32_t timeout_ms = shp_get_u32(id + SHP_REQUEST_ID_BYTES);
    if (timeout_ms == 0)
        return broken(session, "a request without time");
    if (timeout_ms > SHP_LIMIT_REQUEST_TIMEOUT_MS_MAX)
        timeout_ms = SHP_LIMIT_REQUEST_TIMEOUT_MS_MAX;
    int err = open_peers(session, frame, true, message, &stream);
    if (err || !stream)
        return err;
    stream->deadline_ms = session->now_ms + timeout_ms;
    if (stream->deadline_ms < session->requests_deadline_ms)
        session->requests_deadline_ms = stream->deadline_ms;
    set_slot(session, SHP_EVENT_REQUEST, stream, frame->fin);
    set_slot_json(session, json, json_len);
    memcpy(session->slot.id, id, SHP_REQUEST_ID_BYTES);
    session->slot.timeout_ms = timeout_ms;
    return SHP_OK;
}

static int take_notification(struct shp_session *session, const struct shp_frame *frame,
                             uint16_t message, const uint8_t *json, size_t json_len)
{
    struct shp_stream *stream;
    int err = open_peers(session, frame, false, message, &stream);
    if (err || !stream)
        return err;
    stream->notification = true;
    stream->out = SHP_HALF_ENDED;
    set_slot(session, SHP_EVENT_NOTIFICATION, stream, frame->fin);
    set_slot_json(session, json, json_len);
    if (frame->fin)
        shp_streams_drop(&session->streams, stream);
    return SHP_OK;
}

/*
 * Our request has its whole answer. What is left of our question is not wanted any more: it ends
 * with an empty FIN, so that the peer's side of the stream ends too.
 */
static int finish_ours(struct shp_session *session, struct shp_stream *stream)
{
    bool question_open = stream->out == SHP_HALF_OPEN;
    uint32_t id = stream->id;
    session->slot_ends_ours = true;
    shp_streams_drop(&session->streams, stream);
    if (!question_open)
        return SHP_OK;
    return shp__session_must_put(session,
                                 shp__session_put_frame(session, SHP_OUTPUT_MAX, SHP_FRAME_BULK,
                                                        true, id, NULL, 0, NULL, 0));
}

static int take_response(struct shp_session *session, struct shp_stream *stream,
                         const struct shp_frame *frame, const uint8_t *json, size_t json_len)
{
    set_slot(session, SHP_EVENT_RESPONSE, stream, frame->fin);
    set_slot_json(session, json, json_len);
    if (frame->fin)
        return finish_ours(session, stream);
    stream->in = SHP_HALF_OPEN;
    return SHP_OK;
}

static int take_error(struct shp_session *session, struct shp_stream *stream, uint16_t code,
                      const uint8_t *json, size_t json_len)
{
    set_slot(session, SHP_EVENT_FAILED, stream, true);
    set_slot_json(session, json, json_len);
    shp_codec_error_parse(&session->slot.error, code, (const char *)json, json_len);
    session->slot_ends_ours = true;
    shp_streams_drop(&session->streams, stream);
    return SHP_OK;
}

static int take_answer(struct shp_session *session, const struct shp_frame *frame, uint8_t kind,
                       uint16_t message, const uint8_t *json, size_t json_len)
{
    if (is_peers(session, frame->stream) || !was_open(session, frame->stream))
        return broken(session, "an answer on a stream that was never ours");
    if (kind == SHP_KIND_RESPONSE ? message != 0 : message == 0 || !frame->fin)
        return broken(session, "an answer with a wrong head");
    struct shp_stream *stream = shp_streams_find(&session->streams, frame->stream);
    if (!stream)
        return SHP_OK;
    /* An error may also come after a response: the answer breaks off. */
    if (stream->notification || (kind == SHP_KIND_RESPONSE && stream->in != SHP_HALF_IDLE))
        return broken(session, "an answer where none is open");
    if (kind == SHP_KIND_RESPONSE)
        return take_response(session, stream, frame, json, json_len);
    return take_error(session, stream, message, json, json_len);
}

static int take_head(struct shp_session *session, const struct shp_frame *frame)
{
    const uint8_t *payload = frame->payload;
    if (frame->stream == 0 || frame->payload_len < HEAD_PREFIX_BYTES || payload[1] != 0)
        return broken(session, "a malformed head");
    uint8_t kind = payload[0];
    uint16_t message = shp_get_u16(payload + 2);
    size_t prefix = kind == SHP_KIND_REQUEST ? HEAD_REQUEST_BYTES : HEAD_PREFIX_BYTES;
    if (kind < SHP_KIND_REQUEST || kind > SHP_KIND_NOTIFICATION || frame->payload_len < prefix)
        return broken(session, "a malformed head");
    const uint8_t *json = payload + prefix;
    size_t json_len = frame->payload_len - prefix;
    if (json_len > SHP_LIMIT_HEAD_JSON_BYTES_MAX ||
        shp_json_check_object((const char *)json, json_len, SHP_LIMIT_JSON_DEPTH_MAX) != SHP_OK)
        return broken(session, "a head whose JSON is no object, too long or too deep");

    if (kind == SHP_KIND_RESPONSE || kind == SHP_KIND_ERROR)
        return take_answer(session, frame, kind, message, json, json_len);
    if (!is_peers(session, frame->stream))
        return broken(session, "a stream of ours opened by the peer");
    if (frame->stream <= session->last_peer_stream)
        return shp_streams_find(&session->streams, frame->stream)
                   ? broken(session, "a second head on an open stream")
                   : SHP_OK;
    if (kind == SHP_KIND_REQUEST)
        return take_request(session, frame, message, json, json_len);
    return take_notification(session, frame, message, json, json_len);
}

/* ---- bulk and its control ------------------------------------------------------------------ */

/* More bulk than a message may have: this half ends here, for both sides. */
static int refuse_large(struct shp_session *session, struct shp_stream *stream)
{
    uint32_t id = stream->id;
    bool ours = stream->ours;
    bool answerable = !ours && !stream->notification && stream->out == SHP_HALF_IDLE;
    bool told = !stream->in_ignored;
    if (ours) {
        set_slot(session, SHP_EVENT_FAILED, stream, true);
        shp_error_set(&session->slot.error, SHP_CODE_MESSAGE_TOO_LARGE, NULL, "receive",
                      "the answer has more than %d bytes", SHP_LIMIT_MESSAGE_BYTES_MAX);
        session->slot.error.outcome = SHP_OUTCOME_UNKNOWN;
        session->slot_ends_ours = true;
    } else if (told) {
        set_slot(session, SHP_EVENT_CANCELED, stream, true);
    }
    shp_streams_drop(&session->streams, stream);
    if (answerable)
        return refuse(session, id, SHP_CODE_MESSAGE_TOO_LARGE, "");
    return shp__session_put_cancel(session, id, SHP_CODE_MESSAGE_TOO_LARGE);
}

/* The answer went out completely; the rest of the question is used up unseen. */
static int ignore_bulk(struct shp_session *session, struct shp_stream *stream,
                       const struct shp_frame *frame)
{
    if (frame->fin) {
        stream->in = SHP_HALF_ENDED;
        if (shp_stream_complete(stream))
            shp_streams_drop(&session->streams, stream);
        return SHP_OK;
    }
    shp_session_consume(session, stream->id, frame->payload_len);
    return session->state == SHP_SESSION_CLOSED ? SHP_ERR_LIMIT : SHP_OK;
}

static int take_bulk(struct shp_session *session, const struct shp_frame *frame)
{
    if (frame->payload_len == 0 && !frame->fin)
        return broken(session, "bulk without a byte");
    if (frame->stream == 0 || !was_open(session, frame->stream))
        return broken(session, "bulk on a stream that was never open");
    struct shp_stream *stream = shp_streams_find(&session->streams, frame->stream);
    if (!stream)
        return SHP_OK;
    if (stream->in != SHP_HALF_OPEN)
        return broken(session, "bulk where no half is open");
    int err = shp_credit_in_receive(&stream->in_credit, frame->payload_len);
    if (err)
        return shp__session_fail(session, err, SHP_CODE_CREDIT_VIOLATION, "receive", "stream %u",
                                 (unsigned)frame->stream);
    if (frame->payload_len > SHP_LIMIT_MESSAGE_BYTES_MAX - stream->in_bytes)
        return refuse_large(session, stream);
    stream->in_bytes += (uint32_t)frame->payload_len;
    if (stream->in_ignored)
        return ignore_bulk(session, stream, frame);

    set_slot(session, SHP_EVENT_BULK, stream, frame->fin);
    session->slot.data = frame->payload;
    session->slot.data_len = frame->payload_len;
    if (!frame->fin)
        return SHP_OK;
    if (stream->ours)
        return finish_ours(session, stream);
    stream->in = SHP_HALF_ENDED;
    if (stream->notification)
        shp_streams_drop(&session->streams, stream);
    return SHP_OK;
}

static int take_credit(struct shp_session *session, const struct shp_frame *frame)
{
    uint32_t bytes = frame->payload_len == 4 ? shp_get_u32(frame->payload) : 0;
    if (bytes == 0 || frame->stream == 0 || frame->fin || !was_open(session, frame->stream))
        return broken(session, "malformed credit");
    struct shp_stream *stream = shp_streams_find(&session->streams, frame->stream);
    if (!stream || stream->out == SHP_HALF_ENDED)
        return SHP_OK;
    if (shp_credit_out_give(&stream->out_credit, bytes) != SHP_OK)
        return broken(session, "more credit than a message has bytes");
    if (stream->wants_credit) {
        stream->wants_credit = false;
        session->writable_waits = true;
    }
    return SHP_OK;
}

static int take_cancel(struct shp_session *session, const struct shp_frame *frame)
{
    if (frame->payload_len != 2 || frame->stream == 0 || frame->fin ||
        !was_open(session, frame->stream))
        return broken(session, "a malformed cancel");
    struct shp_stream *stream = shp_streams_find(&session->streams, frame->stream);
    if (!stream)
        return SHP_OK;
    if (stream->ours && !stream->notification) {
        int code = shp_get_u16(frame->payload);
        set_slot(session, SHP_EVENT_FAILED, stream, true);
        shp_error_set(&session->slot.error, code != 0 ? code : SHP_CODE_CANCELED, NULL, "peer",
                      "the answer was broken off");
        session->slot.error.outcome = SHP_OUTCOME_UNKNOWN;
        session->slot_ends_ours = true;
    } else if (!stream->ours && !stream->in_ignored) {
        set_slot(session, SHP_EVENT_CANCELED, stream, true);
    }
    shp_streams_drop(&session->streams, stream);
    return SHP_OK;
}

/* ---- session-wide frames ------------------------------------------------------------------- */

static void take_pong(struct shp_session *session, const struct shp_frame *frame)
{
    struct shp_window_sample measured;
    uint64_t number = shp_get_u32(frame->payload) | (uint64_t)shp_get_u32(frame->payload + 4) << 32;
    /* A mark measures how long our own bulk waits; only the others tell of the line. */
    if (!shp_window_pong(&session->window, number, session->now_ms, &measured) || !measured.quiet)
        return;
    uint64_t elapsed_us = measured.rtt_ms * 1000;
    uint32_t sample = elapsed_us == 0           ? 500 /* below the clock's step */
                      : elapsed_us > UINT32_MAX ? UINT32_MAX
                                                : (uint32_t)elapsed_us;
    /* As TCP does (RFC 6298): an eighth of the newest. */
    session->rtt_us =
        session->rtt_us == 0 ? sample : session->rtt_us - session->rtt_us / 8 + sample / 8;
}

static int take_close(struct shp_session *session, const struct shp_frame *frame)
{
    char text[SHP_LIMIT_ERROR_TEXT_BYTES_MAX + 1];
    size_t len = frame->payload_len - CLOSE_PREFIX_BYTES;
    shp_text_clean(text, sizeof(text), (const char *)frame->payload + CLOSE_PREFIX_BYTES, len);
    return shp__session_fail(session, SHP_ERR_CLOSED, shp_get_u16(frame->payload), "peer", "%s",
                             text);
}

static int take_sessions(struct shp_session *session, const struct shp_frame *frame)
{
    bool ping = frame->type == SHP_FRAME_PING || frame->type == SHP_FRAME_PONG;
    bool fits = ping
                    ? frame->payload_len == PING_BYTES
                    : frame->payload_len >= CLOSE_PREFIX_BYTES &&
                          frame->payload_len <= CLOSE_PREFIX_BYTES + SHP_LIMIT_ERROR_TEXT_BYTES_MAX;
    if (frame->stream != 0 || frame->fin || !fits)
        return broken(session, "a malformed ping, pong or close");
    if (frame->type == SHP_FRAME_PING)
        return shp__session_put_control(session, SHP_FRAME_PONG, 0, frame->payload, PING_BYTES);
    if (frame->type == SHP_FRAME_CLOSE)
        return take_close(session, frame);
    take_pong(session, frame);
    return SHP_OK;
}

static int take_frame(struct shp_session *session, const struct shp_frame *frame)
{
    switch (frame->type) {
    case SHP_FRAME_HEAD:
        return take_head(session, frame);
    case SHP_FRAME_BULK:
        return take_bulk(session, frame);
    case SHP_FRAME_CREDIT:
        return take_credit(session, frame);
    case SHP_FRAME_CANCEL:
        return take_cancel(session, frame);
    case SHP_FRAME_PING:
    case SHP_FRAME_PONG:
    case SHP_FRAME_CLOSE:
        return take_sessions(session, frame);
    default:
        return broken(session, "an unknown frame");
    }
}

/* ---- feed ---------------------------------------------------------------------------------- */

static int feed_frame(struct shp_session *session, const uint8_t *in, size_t len, size_t *taken)
{
    struct shp_frame frame;
    bool complete;
    int err = shp__session_read_frame(session, in, len, taken, &frame, &complete);
    if (err == SHP_ERR_AUTH)
        return shp__session_fail(session, err, SHP_CODE_AUTH_FAILED, "receive",
                                 "a frame that the peer did not send");
    if (err == SHP_ERR_NOMEM)
        return shp__session_fail(session, err, SHP_CODE_OUT_OF_MEMORY, "receive", "%s", "");
    if (err)
        return broken(session, "a malformed frame");
    if (!complete)
        return SHP_OK;
    session->probe_deadline_ms = UINT64_MAX;
    return take_frame(session, &frame);
}

int shp_session_feed(struct shp_session *session, const uint8_t *in, size_t len, size_t *taken,
                     uint64_t now_ms)
{
    *taken = 0;
    session->now_ms = now_ms;
    if (session->state == SHP_SESSION_CLOSED) {
        *taken = len;
        return SHP_ERR_CLOSED;
    }
    if (len > 0)
        session->last_received_ms = now_ms;
    if (session->trim_wanted && session->slot.type == SHP_EVENT_NONE) {
        session->trim_wanted = false;
        shp_frame_reader_trim(&session->reader);
    }
    while (*taken < len && !shp__session_has_event(session)) {
        size_t part = 0;
        int err = session->state == SHP_SESSION_OPEN
                      ? feed_frame(session, in + *taken, len - *taken, &part)
                      : shp__handshake_feed(session, in + *taken, len - *taken, &part);
        *taken += part;
        if (err)
            return err;
    }
    return SHP_OK;
}
