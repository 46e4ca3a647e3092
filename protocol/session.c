/* Life, events, time and end of a session; session_internal.h says how the files divide the work.
 */
#include "protocol/session.h"

#include "base/alloc.h"
#include "base/id.h"
#include "protocol/session_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Static_assert(SHP_ERROR_CAUSE_MAX == SHP_LIMIT_ERROR_TEXT_BYTES_MAX, "causes");
_Static_assert(SHP_REQUEST_ID_BYTES == SHP_ID_BYTES && SHP_MARKER_HEX == SHP_ID_HEX, "ids");

/* ---- life ---------------------------------------------------------------------------------- */

int shp_session_new(struct shp_session **out, const struct shp_session_config *config)
{
    bool noise = config->suite == SHP_SUITE_NOISE;
    if (config->hello_len > SHP_LIMIT_HELLO_BYTES_MAX ||
        (config->role == SHP_ROLE_INITIATOR && config->hello_len == 0))
        return SHP_ERR_INVALID;
    if (noise && (strnlen(config->marker, sizeof(config->marker)) != SHP_MARKER_HEX ||
                  !shp_hex_valid(config->marker, SHP_MARKER_HEX)))
        return SHP_ERR_INVALID;

    struct shp_session *session = shp_calloc(1, sizeof(*session));
    if (!session)
        return SHP_ERR_NOMEM;
    uint32_t tag = noise ? SHP_NOISE_TAG_BYTES : 0;
    session->role = config->role;
    session->suite = config->suite;
    session->next_stream = config->role == SHP_ROLE_INITIATOR ? 1 : 2;
    session->now_ms = config->now_ms;
    session->last_received_ms = config->now_ms;
    session->last_sent_ms = config->now_ms;
    session->handshake_deadline_ms = config->now_ms + SHP_LIMIT_HANDSHAKE_TIMEOUT_MS;
    session->probe_deadline_ms = UINT64_MAX;
    session->requests_deadline_ms = UINT64_MAX;
    shp_buf_init(&session->out, SHP_OUTPUT_MAX);
    shp_streams_init(&session->streams);
    shp_window_init(&session->window);
    shp_frame_reader_init(&session->reader, SHP_FRAME_HEADER_BYTES + tag,
                          SHP_FRAME_HEADER_BYTES + SHP_FRAME_PAYLOAD_MAX + tag);
    int err = shp__handshake_begin(session, config);
    if (err) {
        shp_session_free(session);
        return err;
    }
    *out = session;
    return SHP_OK;
}

void shp_session_free(struct shp_session *session)
{
    if (!session)
        return;
    shp__handshake_free(session);
    shp_frame_reader_fini(&session->reader);
    shp_streams_fini(&session->streams);
    shp_buf_wipe(&session->out);
    shp_free(session->peer_hello);
    shp_bytes_wipe(session, sizeof(*session));
    shp_free(session);
}

int shp_session_set_hello(struct shp_session *session, const char *json, size_t len)
{
    if (session->state != SHP_SESSION_WAIT_HELLO || session->handshake->hello)
        return SHP_ERR_STATE;
    int err = shp__handshake_set_hello(session, json, len);
    if (err || session->hello_waits)
        return err;
    return shp__handshake_answer(session);
}

/* ---- end ----------------------------------------------------------------------------------- */

/* Outcomes for the end of a transport: what was encoded and not consumed never leaves. */
static void end_requests(struct shp_session *session, int code, bool output_goes_out)
{
    struct shp_streams *streams = &session->streams;
    struct shp_stream *stream = streams->open;
    /* The list has the newest first; the oldest ends first. */
    while (stream && stream->next)
        stream = stream->next;
    for (struct shp_stream *newer; stream; stream = newer) {
        newer = stream->prev;
        if (stream->ours && !stream->notification)
            shp_streams_end(streams, stream, code,
                            output_goes_out ? SHP_OUTCOME_UNKNOWN
                                            : shp__session_outcome(session, stream));
        else
            shp_streams_drop(streams, stream);
    }
}

static void put_close(struct shp_session *session, int code, const char *text)
{
    uint8_t prefix[2];
    size_t len = strnlen(text, SHP_LIMIT_ERROR_TEXT_BYTES_MAX);
    shp_put_u16(prefix, (uint16_t)code);
    /* Best effort: a peer that does not get it sees the transport end. */
    (void)shp__session_put_frame(session, SHP_OUTPUT_MAX, SHP_FRAME_CLOSE, false, 0, prefix,
                                 sizeof(prefix), text, len);
}

/*
 * A CLOSE can be sent once there are keys, and in suite plain from the start. After a frame that
 * did not authenticate nothing is answered (spec/protocol.md 2.1).
 */
static bool may_send_close(const struct shp_session *session, int err)
{
    if (session->state == SHP_SESSION_OPEN)
        return err != SHP_ERR_AUTH && err != SHP_ERR_CLOSED;
    return session->suite == SHP_SUITE_PLAIN && err != SHP_ERR_CLOSED;
}

static void become_closed(struct shp_session *session, int code, const char *step,
                          const char *cause, bool output_goes_out)
{
    int requests_code = code != 0 ? code : SHP_CODE_LINK_LOST;
    end_requests(session, requests_code, output_goes_out);
    shp_error_set(&session->closed, code, NULL, step, "%s", cause);
    session->closed.outcome = SHP_OUTCOME_UNKNOWN;
    session->state = SHP_SESSION_CLOSED;
    session->hello_waits = false;
    session->established_waits = false;
    session->writable_waits = false;
    session->closed_waits = true;
    shp__handshake_free(session);
    shp_bytes_wipe(&session->send, sizeof(session->send));
    shp_bytes_wipe(&session->receive, sizeof(session->receive));
}

int shp__session_fail(struct shp_session *session, int err, int code, const char *step,
                      const char *cause_format, ...)
{
    char cause[SHP_ERROR_CAUSE_MAX];
    if (session->state == SHP_SESSION_CLOSED)
        return err;
    va_list args;
    va_start(args, cause_format);
    (void)vsnprintf(cause, sizeof(cause), cause_format, args);
    va_end(args);
    bool answer = may_send_close(session, err);
    if (answer)
        put_close(session, code, cause);
    become_closed(session, code, step, cause, answer);
    return err;
}

void shp_session_close(struct shp_session *session, int code, const char *text)
{
    if (session->state == SHP_SESSION_CLOSED)
        return;
    bool answer = may_send_close(session, SHP_OK);
    if (answer)
        put_close(session, code, text ? text : "");
    become_closed(session, code, "close", text ? text : "", answer);
}

void shp_session_feed_end(struct shp_session *session, uint64_t now_ms)
{
    session->now_ms = now_ms;
    if (session->state == SHP_SESSION_CLOSED)
        return;
    bool handshaking = session->state != SHP_SESSION_OPEN;
    become_closed(session, SHP_CODE_LINK_LOST, handshaking ? "handshake" : "receive",
                  "the transport ended", false);
    shp_buf_wipe(&session->out);
}

/* ---- events -------------------------------------------------------------------------------- */

bool shp__session_has_event(const struct shp_session *session)
{
    return session->slot.type != SHP_EVENT_NONE || session->streams.ended_first ||
           session->hello_waits || session->established_waits || session->writable_waits ||
           session->closed_waits;
}

static void clear_event(struct shp_event *event, enum shp_event_type type)
{
    event->type = type;
    event->stream = 0;
    event->message = 0;
    event->fin = false;
    memset(event->id, 0, sizeof(event->id));
    event->timeout_ms = 0;
    event->user = NULL;
    event->json = "";
    event->json_len = 0;
    event->data = NULL;
    event->data_len = 0;
    event->error.code = 0;
    event->error.outcome = SHP_OUTCOME_REJECTED;
    event->error.machine[0] = '\0';
    event->error.step[0] = '\0';
    event->error.cause[0] = '\0';
}

static void take_slot(struct shp_session *session, struct shp_event *event)
{
    const struct shp_event *slot = &session->slot;
    clear_event(event, slot->type);
    event->stream = slot->stream;
    event->message = slot->message;
    event->fin = slot->fin;
    event->user = slot->user;
    event->json = slot->json;
    event->json_len = slot->json_len;
    event->data = slot->data;
    event->data_len = slot->data_len;
    if (slot->type == SHP_EVENT_REQUEST) {
        memcpy(event->id, slot->id, sizeof(event->id));
        event->timeout_ms = slot->timeout_ms;
    }
    if (slot->type == SHP_EVENT_FAILED)
        event->error = slot->error;
    if (session->slot_ends_ours)
        session->pending--;
    session->slot_ends_ours = false;
    session->slot.type = SHP_EVENT_NONE;
}

static const char *cause_of_end(const struct shp_session *session, int code)
{
    switch (code) {
    case SHP_CODE_TIMEOUT:
        return "no answer before the deadline";
    case SHP_CODE_CANCELED:
        return "given up by the asking side";
    default:
        return session->closed.cause;
    }
}

/* FAILED of our request, or CANCELED of the peer's that ran out of time. */
static void take_ended(struct shp_session *session, struct shp_event *event)
{
    struct shp_stream *stream = shp_streams_take_ended(&session->streams);
    clear_event(event, stream->ours ? SHP_EVENT_FAILED : SHP_EVENT_CANCELED);
    event->stream = stream->id;
    event->message = stream->message;
    event->fin = true;
    event->user = stream->user;
    if (stream->ours) {
        /* The text of the end belongs to requests that the end of the session took along. */
        bool closed = session->state == SHP_SESSION_CLOSED;
        const char *step = stream->end_code == SHP_CODE_TIMEOUT    ? "wait"
                           : stream->end_code == SHP_CODE_CANCELED ? "cancel"
                           : closed                                ? session->closed.step
                                                                   : "";
        shp_error_set(&event->error, stream->end_code, NULL, step, "%s",
                      cause_of_end(session, stream->end_code));
        event->error.outcome = stream->end_outcome;
        session->pending--;
    }
    shp_stream_free(stream);
}

static void show_peer_hello(struct shp_session *session, struct shp_event *event)
{
    event->json = session->peer_hello;
    event->json_len = session->peer_hello_len;
}

bool shp_session_next_event(struct shp_session *session, struct shp_event *event)
{
    /* A hello that was given beforehand answers once the owner has seen the peer's and let it be.
     */
    if (session->hello_was_given && session->state == SHP_SESSION_WAIT_HELLO &&
        session->handshake->hello) {
        session->hello_was_given = false;
        (void)shp__handshake_answer(session);
    }

    if (session->slot.type != SHP_EVENT_NONE) {
        take_slot(session, event);
    } else if (session->streams.ended_first) {
        take_ended(session, event);
    } else if (session->hello_waits) {
        session->hello_waits = false;
        session->hello_was_given = true;
        clear_event(event, SHP_EVENT_HELLO);
        show_peer_hello(session, event);
    } else if (session->established_waits) {
        session->established_waits = false;
        clear_event(event, SHP_EVENT_ESTABLISHED);
        show_peer_hello(session, event);
    } else if (session->writable_waits) {
        session->writable_waits = false;
        clear_event(event, SHP_EVENT_WRITABLE);
    } else if (session->closed_waits) {
        session->closed_waits = false;
        clear_event(event, SHP_EVENT_CLOSED);
        event->error = session->closed;
    } else {
        return false;
    }
    return true;
}

/* ---- time ---------------------------------------------------------------------------------- */

static uint64_t min_ms(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t shp_session_deadline_ms(const struct shp_session *session)
{
    if (session->state == SHP_SESSION_CLOSED)
        return UINT64_MAX;
    if (session->state != SHP_SESSION_OPEN)
        return session->handshake_deadline_ms;
    uint64_t deadline = session->last_sent_ms + SHP_LIMIT_PING_INTERVAL_MS;
    deadline = min_ms(deadline, session->last_received_ms + SHP_LIMIT_SILENCE_MAX_MS);
    deadline = min_ms(deadline, session->probe_deadline_ms);
    if (session->streams.turn_first)
        deadline = min_ms(deadline, session->window.resume_ms);
    return min_ms(deadline, session->requests_deadline_ms);
}

/* Deadlines that passed. The bound for the next look is made anew on the way. */
static void end_late_requests(struct shp_session *session)
{
    uint64_t earliest = UINT64_MAX;
    struct shp_stream *next;
    for (struct shp_stream *stream = session->streams.open; stream; stream = next) {
        next = stream->next;
        if (stream->deadline_ms > session->now_ms) {
            earliest = min_ms(earliest, stream->deadline_ms);
            continue;
        }
        uint32_t id = stream->id;
        bool ours = stream->ours;
        if (!ours && stream->in_ignored)
            shp_streams_drop(&session->streams, stream);
        else
            shp_streams_end(&session->streams, stream, SHP_CODE_TIMEOUT, SHP_OUTCOME_UNKNOWN);
        if (ours && shp__session_put_cancel(session, id, SHP_CODE_TIMEOUT) != SHP_OK)
            return;
    }
    session->requests_deadline_ms = earliest;
}

void shp_session_tick(struct shp_session *session, uint64_t now_ms)
{
    session->now_ms = now_ms;
    if (session->state == SHP_SESSION_CLOSED)
        return;
    if (session->state != SHP_SESSION_OPEN) {
        if (now_ms >= session->handshake_deadline_ms)
            (void)shp__session_fail(session, SHP_ERR_TIMEOUT, SHP_CODE_TIMEOUT, "handshake",
                                    "not finished after %d ms", SHP_LIMIT_HANDSHAKE_TIMEOUT_MS);
        return;
    }
    if (now_ms >= session->last_received_ms + SHP_LIMIT_SILENCE_MAX_MS) {
        (void)shp__session_fail(session, SHP_ERR_TIMEOUT, SHP_CODE_SILENCE, "receive",
                                "nothing came for %d ms", SHP_LIMIT_SILENCE_MAX_MS);
        return;
    }
    if (now_ms >= session->probe_deadline_ms) {
        (void)shp__session_fail(session, SHP_ERR_TIMEOUT, SHP_CODE_SILENCE, "probe",
                                "no answer for %d ms", SHP_LIMIT_SILENCE_MAX_MS / 3);
        return;
    }
    if (now_ms >= session->requests_deadline_ms)
        end_late_requests(session);
    if (session->state == SHP_SESSION_OPEN &&
        now_ms >= session->last_sent_ms + SHP_LIMIT_PING_INTERVAL_MS) {
        /* Quiet for a while: what large frames needed is not needed now. */
        session->trim_wanted = true;
        if (shp_buf_len(&session->out) == 0)
            shp_buf_fini(&session->out);
        (void)shp__session_put_ping(session, true);
    }
}

void shp_session_probe(struct shp_session *session, uint64_t now_ms)
{
    session->now_ms = now_ms;
    if (session->state != SHP_SESSION_OPEN)
        return;
    /* After a sleep the clock has moved and the peer had no chance to speak. */
    session->last_received_ms = now_ms;
    session->probe_deadline_ms = now_ms + SHP_LIMIT_SILENCE_MAX_MS / 3;
    shp_window_distrust(&session->window);
    (void)shp__session_put_ping(session, true);
}

void shp_session_measure(struct shp_session *session, uint64_t now_ms)
{
    session->now_ms = now_ms;
    if (session->state == SHP_SESSION_OPEN)
        (void)shp__session_put_ping(session, true);
}

/* ---- questions ----------------------------------------------------------------------------- */

bool shp_session_established(const struct shp_session *session)
{
    return session->state == SHP_SESSION_OPEN;
}

bool shp_session_closed(const struct shp_session *session)
{
    return session->state == SHP_SESSION_CLOSED;
}

uint32_t shp_session_rtt_us(const struct shp_session *session)
{
    return session->rtt_us;
}

uint32_t shp_session_bulk_window(const struct shp_session *session)
{
    return session->window.bytes;
}

size_t shp_session_pending(const struct shp_session *session)
{
    return session->pending;
}
