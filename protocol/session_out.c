/*
 * Calls of the owner become frames.
 *
 * HEADs and control frames are encoded at once. Bulk is copied into the stage of its stream and
 * encoded when the owner asks for output, one frame of each stream in turn, only while little waits
 * encoded, and only as far as the bulk window reaches: so a HEAD or a cancel that is made later
 * overtakes all bulk that still is staged (spec/protocol.md 5), and on a slow line it is not behind
 * more than the window. Staged and encoded bytes together stay below output_bytes_max.
 */
#include "base/alloc.h"
#include "protocol/codec.h"
#include "protocol/session_internal.h"

#include <assert.h>
#include <string.h>

#define HEAD_PREFIX_BYTES 4
#define HEAD_REQUEST_BYTES (HEAD_PREFIX_BYTES + SHP_REQUEST_ID_BYTES + 4)

/* Length, header and tag around a payload. */
#define FRAME_OVERHEAD_BYTES (SHP_FRAME_LENGTH_BYTES + SHP_FRAME_HEADER_BYTES + SHP_NOISE_TAG_BYTES)

_Static_assert(SHP_FRAME_PAYLOAD_MAX == SHP_LIMIT_FRAME_PAYLOAD_BYTES_MAX, "framing and spec");
_Static_assert(SHP_FRAME_HEADER_BYTES + SHP_FRAME_PAYLOAD_MAX + SHP_NOISE_TAG_BYTES ==
                   SHP_LIMIT_FRAME_BYTES_MAX,
               "a full frame fits its length bound");
_Static_assert(HEAD_REQUEST_BYTES + SHP_LIMIT_HEAD_JSON_BYTES_MAX <= SHP_FRAME_PAYLOAD_MAX,
               "a HEAD is one frame");

/* ---- encoding ------------------------------------------------------------------------------ */

int shp__session_put_frame(struct shp_session *session, size_t limit, uint8_t type, bool fin,
                           uint32_t stream, const uint8_t *a, size_t a_len, const void *b,
                           size_t b_len)
{
    size_t plain_len = SHP_FRAME_HEADER_BYTES + a_len + b_len;
    size_t body_len = plain_len;
    if (session->suite == SHP_SUITE_NOISE)
        body_len += SHP_NOISE_TAG_BYTES;
    size_t frame_len = SHP_FRAME_LENGTH_BYTES + body_len;
    uint8_t *room;
    if (shp_buf_len(&session->out) + frame_len > limit)
        return SHP_ERR_LIMIT;
    int err = shp_buf_reserve(&session->out, frame_len, &room);
    if (err)
        return err;

    uint8_t *body = room + SHP_FRAME_LENGTH_BYTES;
    shp_frame_put_length(room, (uint32_t)body_len);
    shp_frame_put_header(body, type, fin, stream);
    if (a_len > 0)
        memcpy(body + SHP_FRAME_HEADER_BYTES, a, a_len);
    if (b_len > 0)
        memcpy(body + SHP_FRAME_HEADER_BYTES + a_len, b, b_len);
    if (session->suite == SHP_SUITE_NOISE) {
        err = shp_noise_seal(&session->send, body, plain_len, body);
        if (err)
            return err;
    }
    shp_buf_commit(&session->out, frame_len);
    session->out_appended += frame_len;
    session->last_sent_ms = session->now_ms;
    return SHP_OK;
}

int shp__session_must_put(struct shp_session *session, int err)
{
    if (err == SHP_ERR_LIMIT)
        return shp__session_fail(session, err, SHP_CODE_PROTOCOL_ERROR, "send",
                                 "the peer does not read what it asks for");
    if (err)
        return shp__session_fail(session, err, SHP_CODE_OUT_OF_MEMORY, "send", "%s", "");
    return SHP_OK;
}

int shp__session_put_control(struct shp_session *session, uint8_t type, uint32_t stream,
                             const void *payload, size_t len)
{
    return shp__session_must_put(session,
                                 shp__session_put_frame(session, SHP_OUTPUT_MAX, type, false,
                                                        stream, NULL, 0, payload, len));
}

int shp__session_put_cancel(struct shp_session *session, uint32_t stream, int code)
{
    uint8_t payload[2];
    shp_put_u16(payload, (uint16_t)code);
    return shp__session_put_control(session, SHP_FRAME_CANCEL, stream, payload, sizeof(payload));
}

int shp__session_put_ping(struct shp_session *session, bool quiet)
{
    uint8_t payload[8];
    uint64_t number = ++session->ping_number;
    shp_put_u32(payload, (uint32_t)number);
    shp_put_u32(payload + 4, (uint32_t)(number >> 32));
    shp_window_mark(&session->window, number, quiet, session->now_ms);
    return shp__session_put_control(session, SHP_FRAME_PING, 0, payload, sizeof(payload));
}

static void put_head_prefix(uint8_t out[HEAD_PREFIX_BYTES], uint8_t kind, uint16_t message)
{
    out[0] = kind;
    out[1] = 0;
    shp_put_u16(out + 2, message);
}

int shp__session_put_error(struct shp_session *session, uint32_t stream,
                           const struct shp_error *error)
{
    char json[SHP_CODEC_ERROR_JSON_MAX];
    uint8_t prefix[HEAD_PREFIX_BYTES];
    size_t len = shp_codec_error_print(json, error);
    put_head_prefix(prefix, SHP_KIND_ERROR, (uint16_t)error->code);
    return shp__session_put_frame(session, SHP_OUTPUT_MAX, SHP_FRAME_HEAD, true, stream, prefix,
                                  sizeof(prefix), json, len);
}

enum shp_outcome shp__session_outcome(const struct shp_session *session,
                                      const struct shp_stream *stream)
{
    return session->out_consumed < stream->head_end ? SHP_OUTCOME_REJECTED : SHP_OUTCOME_UNKNOWN;
}

/* ---- output -------------------------------------------------------------------------------- */

static size_t waiting_bytes(const struct shp_session *session)
{
    return shp_buf_len(&session->out) + session->streams.staged_bytes;
}

/* Our half has gone out with its FIN. */
static void finish_out(struct shp_session *session, struct shp_stream *stream)
{
    stream->out = SHP_HALF_ENDED;
    if (stream->notification || shp_stream_complete(stream))
        shp_streams_drop(&session->streams, stream);
}

/* One frame of the stream whose turn it is. */
static int encode_bulk(struct shp_session *session, struct shp_stream *stream, size_t part)
{
    size_t staged = shp_buf_len(&stream->stage);
    bool fin = stream->fin_staged && part == staged;
    int err = shp__session_put_frame(session, SHP_OUTPUT_MAX, SHP_FRAME_BULK, fin, stream->id, NULL,
                                     0, shp_buf_peek(&stream->stage), part);
    if (err)
        return err;
    shp_buf_consume(&stream->stage, part);
    session->streams.staged_bytes -= part;
    shp_window_sent(&session->window, part, session->now_ms);
    if (fin) {
        stream->fin_staged = false;
        finish_out(session, stream);
    } else if (part < staged) {
        shp_streams_put_turn(&session->streams, stream);
    }
    return SHP_OK;
}

/* The next frame of bulk with the pings around it. False: the window, or an error, holds it. */
static bool encode_next(struct shp_session *session)
{
    struct shp_window *window = &session->window;
    size_t staged = shp_buf_len(&session->streams.turn_first->stage);
    size_t part = shp_window_frame(window, staged, session->now_ms);
    /* A FIN alone has no bytes and always passes. */
    if (part == 0 && staged > 0) {
        if (shp_window_wants_mark(window, true))
            (void)shp__session_put_ping(session, !window->base_known);
        return false;
    }
    struct shp_stream *stream = shp_streams_take_turn(&session->streams);
    int err = encode_bulk(session, stream, part);
    if (err) {
        (void)shp__session_fail(session, err, SHP_CODE_OUT_OF_MEMORY, "send", "%s", "");
        return false;
    }
    return !shp_window_wants_mark(window, false) || shp__session_put_ping(session, false) == SHP_OK;
}

size_t shp_session_output(struct shp_session *session, const uint8_t **out, uint64_t now_ms)
{
    session->now_ms = now_ms;
    /* Output that is full is waited for by its owner, not by a time that stays in the past. */
    session->window.resume_ms = UINT64_MAX;
    while (session->state == SHP_SESSION_OPEN && session->streams.turn_first &&
           shp_buf_len(&session->out) < SHP_OUTPUT_BULK_MARK && encode_next(session))
        continue;
    *out = shp_buf_peek(&session->out);
    return shp_buf_len(&session->out);
}

void shp_session_consume_output(struct shp_session *session, size_t len)
{
    session->out_consumed += len;
    if (session->out_secret && len == shp_buf_len(&session->out)) {
        shp_buf_wipe(&session->out);
        session->out_secret = false;
    } else {
        shp_buf_consume(&session->out, len);
    }
    if (session->output_was_refused && session->state == SHP_SESSION_OPEN &&
        waiting_bytes(session) <= SHP_LIMIT_OUTPUT_BYTES_MAX / 2) {
        session->output_was_refused = false;
        session->writable_waits = true;
    }
}

/* ---- HEADs --------------------------------------------------------------------------------- */

/* A HEAD of ours. AGAIN: no room even for it. */
static int put_head(struct shp_session *session, uint32_t stream, bool fin, const uint8_t *prefix,
                    size_t prefix_len, const char *json, size_t json_len)
{
    size_t encoded = FRAME_OVERHEAD_BYTES + prefix_len + json_len;
    if (waiting_bytes(session) + encoded > SHP_OUTPUT_HEADS_MAX) {
        session->output_was_refused = true;
        return SHP_ERR_AGAIN;
    }
    return shp__session_put_frame(session, SHP_OUTPUT_HEADS_MAX, SHP_FRAME_HEAD, fin, stream,
                                  prefix, prefix_len, json, json_len);
}

/* Opens our next stream and sends its HEAD; nothing is changed on failure. */
static int open_stream(struct shp_session *session, bool fin, const uint8_t *prefix,
                       size_t prefix_len, const char *json, size_t json_len,
                       struct shp_stream **out)
{
    struct shp_stream *stream;
    if (session->state != SHP_SESSION_OPEN || session->next_stream == 0)
        return SHP_ERR_STATE;
    if (json_len > SHP_LIMIT_HEAD_JSON_BYTES_MAX)
        return SHP_ERR_LIMIT;
    int err = shp_streams_open(&session->streams, session->next_stream, true, &stream);
    if (err)
        return err;
    err = put_head(session, stream->id, fin, prefix, prefix_len, json, json_len);
    if (err) {
        shp_streams_drop(&session->streams, stream);
        return err;
    }
    /* 0 after the last number: the session then only ends what it has. */
    session->next_stream = session->next_stream > UINT32_MAX - 2 ? 0 : session->next_stream + 2;
    stream->out = fin ? SHP_HALF_ENDED : SHP_HALF_OPEN;
    stream->head_end = session->out_appended;
    *out = stream;
    return SHP_OK;
}

int shp_session_send_request(struct shp_session *session, uint16_t message,
                             const uint8_t id[SHP_REQUEST_ID_BYTES], uint32_t timeout_ms,
                             const char *json, size_t json_len, bool fin, void *user,
                             uint64_t now_ms, uint32_t *stream)
{
    uint8_t prefix[HEAD_REQUEST_BYTES];
    struct shp_stream *opened;
    if (timeout_ms == 0 || timeout_ms > SHP_LIMIT_REQUEST_TIMEOUT_MS_MAX)
        return SHP_ERR_INVALID;
    put_head_prefix(prefix, SHP_KIND_REQUEST, message);
    memcpy(prefix + HEAD_PREFIX_BYTES, id, SHP_REQUEST_ID_BYTES);
    shp_put_u32(prefix + HEAD_PREFIX_BYTES + SHP_REQUEST_ID_BYTES, timeout_ms);
    session->now_ms = now_ms;
    int err = open_stream(session, fin, prefix, sizeof(prefix), json, json_len, &opened);
    if (err)
        return err;
    opened->message = message;
    opened->user = user;
    opened->deadline_ms = now_ms + timeout_ms;
    if (opened->deadline_ms < session->requests_deadline_ms)
        session->requests_deadline_ms = opened->deadline_ms;
    session->pending++;
    *stream = opened->id;
    return SHP_OK;
}

int shp_session_send_notification(struct shp_session *session, uint16_t message, const char *json,
                                  size_t json_len, bool fin, uint32_t *stream)
{
    uint8_t prefix[HEAD_PREFIX_BYTES];
    struct shp_stream *opened;
    put_head_prefix(prefix, SHP_KIND_NOTIFICATION, message);
    int err = open_stream(session, fin, prefix, sizeof(prefix), json, json_len, &opened);
    if (err)
        return err;
    if (stream)
        *stream = opened->id;
    opened->message = message;
    opened->notification = true;
    opened->in = SHP_HALF_ENDED;
    if (fin)
        shp_streams_drop(&session->streams, opened);
    return SHP_OK;
}

/* A request of the peer that was not answered yet; NULL otherwise. */
static struct shp_stream *find_unanswered(struct shp_session *session, uint32_t id)
{
    struct shp_stream *stream = shp_streams_find(&session->streams, id);
    bool unanswered =
        stream && !stream->ours && !stream->notification && stream->out == SHP_HALF_IDLE;
    return unanswered ? stream : NULL;
}

int shp_session_send_response(struct shp_session *session, uint32_t stream, const char *json,
                              size_t json_len, bool fin)
{
    uint8_t prefix[HEAD_PREFIX_BYTES];
    struct shp_stream *request = find_unanswered(session, stream);
    if (!request)
        return SHP_ERR_NOT_FOUND;
    if (json_len > SHP_LIMIT_HEAD_JSON_BYTES_MAX)
        return SHP_ERR_LIMIT;
    put_head_prefix(prefix, SHP_KIND_RESPONSE, 0);
    int err = put_head(session, stream, fin, prefix, sizeof(prefix), json, json_len);
    if (err)
        return err;
    request->out = SHP_HALF_OPEN;
    if (fin) {
        request->in_ignored = true;
        finish_out(session, request);
    }
    return SHP_OK;
}

int shp_session_send_error(struct shp_session *session, uint32_t stream,
                           const struct shp_error *error)
{
    struct shp_stream *request = find_unanswered(session, stream);
    if (!request)
        return SHP_ERR_NOT_FOUND;
    if (waiting_bytes(session) + FRAME_OVERHEAD_BYTES + SHP_CODEC_ERROR_JSON_MAX >
        SHP_OUTPUT_HEADS_MAX) {
        session->output_was_refused = true;
        return SHP_ERR_AGAIN;
    }
    int err = shp__session_put_error(session, stream, error);
    if (err)
        return err;
    shp_streams_drop(&session->streams, request);
    return SHP_OK;
}

/* ---- bulk ---------------------------------------------------------------------------------- */

/*
 * How much more the stream may have staged. No more than its share: whoever offers first would
 * otherwise keep all the room for itself while a slow line makes a little of it free at a time.
 */
static size_t stage_room(const struct shp_session *session, const struct shp_stream *stream)
{
    size_t waiting = waiting_bytes(session);
    size_t room = waiting < SHP_LIMIT_OUTPUT_BYTES_MAX ? SHP_LIMIT_OUTPUT_BYTES_MAX - waiting : 0;
    size_t sharers = session->streams.turn_count + (stream->in_turn ? 0 : 1);
    size_t share = SHP_LIMIT_OUTPUT_BYTES_MAX / sharers;
    size_t staged = shp_buf_len(&stream->stage);
    size_t left = staged < share ? share - staged : 0;
    return left < room ? left : room;
}

int shp_session_send_bulk(struct shp_session *session, uint32_t stream, const uint8_t *data,
                          size_t len, bool fin, size_t *taken)
{
    struct shp_stream *open = shp_streams_find(&session->streams, stream);
    *taken = 0;
    if (session->state != SHP_SESSION_OPEN || !open || open->out != SHP_HALF_OPEN ||
        open->fin_staged)
        return SHP_ERR_NOT_FOUND;
    if (len > SHP_LIMIT_MESSAGE_BYTES_MAX - open->out_bytes)
        return SHP_ERR_LIMIT;

    size_t room = stage_room(session, open);
    size_t credit = open->out_credit.available;
    size_t part = len < room ? len : room;
    if (part > credit)
        part = credit;
    int err = shp_buf_append(&open->stage, data, part);
    if (err)
        return err;
    (void)shp_credit_out_take(&open->out_credit, part);
    /* What stopped it has to come before the owner is told to go on. */
    if (part < len && part == credit)
        open->wants_credit = true;
    else if (part < len)
        session->output_was_refused = true;
    open->out_bytes += (uint32_t)part;
    session->streams.staged_bytes += part;
    *taken = part;
    if (fin && part == len) {
        open->fin_staged = true;
        if (!open->ours)
            open->in_ignored = true;
    }
    if (part > 0 || open->fin_staged)
        shp_streams_put_turn(&session->streams, open);
    return SHP_OK;
}

void shp_session_consume(struct shp_session *session, uint32_t stream, size_t len)
{
    struct shp_stream *open = shp_streams_find(&session->streams, stream);
    if (!open || open->in != SHP_HALF_OPEN || session->state != SHP_SESSION_OPEN)
        return;
    uint32_t given = shp_credit_in_consume(&open->in_credit, len);
    if (given == 0)
        return;
    uint8_t payload[4];
    shp_put_u32(payload, given);
    (void)shp__session_put_control(session, SHP_FRAME_CREDIT, stream, payload, sizeof(payload));
}

int shp_session_cancel(struct shp_session *session, uint32_t stream, int code)
{
    struct shp_stream *open = shp_streams_find(&session->streams, stream);
    if (!open || session->state != SHP_SESSION_OPEN)
        return SHP_ERR_NOT_FOUND;
    /* The HEAD is encoded and will go out, so the peer may act before the cancel reaches it. */
    if (open->ours && !open->notification)
        shp_streams_end(&session->streams, open, SHP_CODE_CANCELED, SHP_OUTCOME_UNKNOWN);
    else
        shp_streams_drop(&session->streams, open);
    (void)shp__session_put_cancel(session, stream, code);
    return SHP_OK;
}
