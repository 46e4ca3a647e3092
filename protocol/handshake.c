/*
 * noise, initiator:  psk | len msg1 -> ... len msg2 -> OPEN
 * noise, responder:  READ_PSK -> READ_MESSAGE -> WAIT_HELLO -> OPEN
 * plain, initiator:  hello -> READ_HELLO -> OPEN
 * plain, responder:  READ_HELLO -> WAIT_HELLO -> OPEN
 *
 * spec/protocol.md 2. The initiator sends nothing further before it has the responder's hello.
 */
#include "base/alloc.h"
#include "base/id.h"
#include "protocol/codec.h"
#include "protocol/json_check.h"
#include "protocol/session_internal.h"

#include <string.h>

#define MESSAGE_LENGTH_BYTES 2
#define MESSAGE_BYTES_MAX (SHP_NOISE_OVERHEAD_BYTES + SHP_LIMIT_HELLO_BYTES_MAX)
#define PROLOGUE_VERSION 1

void shp__handshake_free(struct shp_session *session)
{
    struct shp_handshake *handshake = session->handshake;
    if (!handshake)
        return;
    shp_buf_wipe(&handshake->in);
    shp_noise_fini(&handshake->noise);
    shp_free(handshake->hello);
    shp_bytes_wipe(handshake, sizeof(*handshake));
    shp_free(handshake);
    session->handshake = NULL;
}

static void init_noise(struct shp_session *session, const uint8_t psk[SHP_PSK_BYTES])
{
    struct shp_handshake *handshake = session->handshake;
    uint8_t prologue[4 + SHP_MARKER_HEX + 1];
    memcpy(prologue, SHP_PROTOCOL_MAGIC, 4);
    memcpy(prologue + 4, handshake->marker, SHP_MARKER_HEX);
    prologue[4 + SHP_MARKER_HEX] = PROLOGUE_VERSION;
    shp_noise_init(&handshake->noise, session->role == SHP_ROLE_INITIATOR, prologue,
                   sizeof(prologue), psk, handshake->ephemeral);
    shp_bytes_wipe(handshake->ephemeral, sizeof(handshake->ephemeral));
}

/* Our handshake message with our hello, behind what is in the output already. */
static int put_message(struct shp_session *session)
{
    struct shp_handshake *handshake = session->handshake;
    size_t message_len = handshake->hello_len + SHP_NOISE_OVERHEAD_BYTES;
    uint8_t *room;
    int err = shp_buf_reserve(&session->out, MESSAGE_LENGTH_BYTES + message_len, &room);
    if (err)
        return err;
    room[0] = (uint8_t)(message_len >> 8);
    room[1] = (uint8_t)message_len;
    err = shp_noise_write(&handshake->noise, (const uint8_t *)handshake->hello,
                          handshake->hello_len, room + MESSAGE_LENGTH_BYTES);
    if (err)
        return err;
    shp_buf_commit(&session->out, MESSAGE_LENGTH_BYTES + message_len);
    session->out_appended += MESSAGE_LENGTH_BYTES + message_len;
    return SHP_OK;
}

static int put_hello_frame(struct shp_session *session)
{
    const struct shp_handshake *handshake = session->handshake;
    return shp__session_put_frame(session, SHP_OUTPUT_MAX, SHP_FRAME_HELLO, false, 0, NULL, 0,
                                  handshake->hello, handshake->hello_len);
}

static int begin_noise_initiator(struct shp_session *session, const uint8_t psk[SHP_PSK_BYTES])
{
    struct shp_handshake *handshake = session->handshake;
    uint8_t *room;
    /* Room for everything at once: a buffer that grows would leave a copy of the secret behind. */
    size_t total =
        SHP_PSK_BYTES + MESSAGE_LENGTH_BYTES + SHP_NOISE_OVERHEAD_BYTES + handshake->hello_len;
    int err = shp_buf_reserve(&session->out, total, &room);
    if (err)
        return err;
    memcpy(room, psk, SHP_PSK_BYTES);
    shp_buf_commit(&session->out, SHP_PSK_BYTES);
    session->out_appended += SHP_PSK_BYTES;
    session->out_secret = true;
    init_noise(session, psk);
    session->state = SHP_SESSION_READ_MESSAGE;
    return put_message(session);
}

int shp__handshake_begin(struct shp_session *session, const struct shp_session_config *config)
{
    struct shp_handshake *handshake = shp_calloc(1, sizeof(*handshake));
    if (!handshake)
        return SHP_ERR_NOMEM;
    session->handshake = handshake;
    shp_buf_init(&handshake->in, MESSAGE_LENGTH_BYTES + MESSAGE_BYTES_MAX);
    memcpy(handshake->marker, config->marker, SHP_MARKER_HEX);
    memcpy(handshake->ephemeral, config->ephemeral, sizeof(handshake->ephemeral));
    if (config->hello_len > 0) {
        handshake->hello = shp_strndup(config->hello_json, config->hello_len);
        if (!handshake->hello)
            return SHP_ERR_NOMEM;
        handshake->hello_len = config->hello_len;
    }

    if (session->suite == SHP_SUITE_PLAIN) {
        session->state = SHP_SESSION_READ_HELLO;
        return session->role == SHP_ROLE_INITIATOR ? put_hello_frame(session) : SHP_OK;
    }
    if (session->role == SHP_ROLE_INITIATOR)
        return begin_noise_initiator(session, config->psk);
    session->state = SHP_SESSION_READ_PSK;
    return SHP_OK;
}

static void become_open(struct shp_session *session)
{
    session->state = SHP_SESSION_OPEN;
    session->established_waits = true;
    session->last_received_ms = session->now_ms;
    session->last_sent_ms = session->now_ms;
    shp__handshake_free(session);
}

static int split_and_open(struct shp_session *session)
{
    int err = shp_noise_split(&session->handshake->noise, &session->send, &session->receive);
    if (err)
        return shp__session_fail(session, err, SHP_CODE_INTERNAL_ERROR, "handshake", "no keys");
    become_open(session);
    return SHP_OK;
}

/* Is there a version that both speak? versions is [min, max] of the peer. */
static int check_versions(struct shp_session *session)
{
    cJSON *hello = NULL;
    int err = shp_codec_parse(&hello, session->peer_hello, session->peer_hello_len);
    if (err)
        return shp__session_fail(
            session, err, err == SHP_ERR_NOMEM ? SHP_CODE_OUT_OF_MEMORY : SHP_CODE_PROTOCOL_ERROR,
            "handshake", "the hello of the peer is not an object");
    const cJSON *versions = cJSON_GetObjectItemCaseSensitive(hello, "versions");
    const cJSON *min = cJSON_IsArray(versions) ? cJSON_GetArrayItem(versions, 0) : NULL;
    const cJSON *max = cJSON_IsArray(versions) ? cJSON_GetArrayItem(versions, 1) : NULL;
    bool usable = cJSON_IsNumber(min) && cJSON_IsNumber(max);
    double min_value = usable ? min->valuedouble : 0;
    double max_value = usable ? max->valuedouble : 0;
    cJSON_Delete(hello);

    if (!usable || !(min_value <= max_value))
        return shp__session_fail(session, SHP_ERR_PROTOCOL, SHP_CODE_PROTOCOL_ERROR, "handshake",
                                 "the hello of the peer has no versions");
    if (min_value > SHP_PROTOCOL_VERSION_MAX || max_value < SHP_PROTOCOL_VERSION_MIN)
        return shp__session_fail(session, SHP_ERR_VERSION, SHP_CODE_VERSION_UNSUPPORTED,
                                 "handshake", "the peer speaks %.0f to %.0f, this side %d to %d",
                                 min_value, max_value, SHP_PROTOCOL_VERSION_MIN,
                                 SHP_PROTOCOL_VERSION_MAX);
    return SHP_OK;
}

/* The peer's hello is there. Responders show it before they answer, initiators are done. */
static int accept_hello(struct shp_session *session, const uint8_t *json, size_t len)
{
    if (len > SHP_LIMIT_HELLO_BYTES_MAX ||
        shp_json_check_object((const char *)json, len, SHP_LIMIT_JSON_DEPTH_MAX) != SHP_OK)
        return shp__session_fail(session, SHP_ERR_PROTOCOL, SHP_CODE_PROTOCOL_ERROR, "handshake",
                                 "the hello of the peer is not an object");
    session->peer_hello = shp_strndup((const char *)json, len);
    if (!session->peer_hello)
        return shp__session_fail(session, SHP_ERR_NOMEM, SHP_CODE_OUT_OF_MEMORY, "handshake", "%s",
                                 "");
    session->peer_hello_len = len;
    int err = check_versions(session);
    if (err)
        return err;
    if (session->role == SHP_ROLE_RESPONDER) {
        session->state = SHP_SESSION_WAIT_HELLO;
        session->hello_waits = true;
        return SHP_OK;
    }
    if (session->suite == SHP_SUITE_NOISE)
        return split_and_open(session);
    become_open(session);
    return SHP_OK;
}

int shp__handshake_answer(struct shp_session *session)
{
    int err = session->suite == SHP_SUITE_NOISE ? put_message(session) : put_hello_frame(session);
    if (err == SHP_ERR_AUTH)
        return shp__session_fail(session, err, SHP_CODE_AUTH_FAILED, "handshake",
                                 "the peer's key is not usable");
    if (err)
        return shp__session_fail(session, err, SHP_CODE_OUT_OF_MEMORY, "handshake", "%s", "");
    if (session->suite == SHP_SUITE_NOISE)
        return split_and_open(session);
    become_open(session);
    return SHP_OK;
}

int shp__handshake_set_hello(struct shp_session *session, const char *json, size_t len)
{
    struct shp_handshake *handshake = session->handshake;
    if (len > SHP_LIMIT_HELLO_BYTES_MAX ||
        shp_json_check_object(json, len, SHP_LIMIT_JSON_DEPTH_MAX) != SHP_OK)
        return SHP_ERR_INVALID;
    handshake->hello = shp_strndup(json, len);
    if (!handshake->hello)
        return SHP_ERR_NOMEM;
    handshake->hello_len = len;
    return SHP_OK;
}

/*
 * Gather bytes until wanted are there. They are wiped by the caller, or with the handshake. Returns
 * true when they are complete; *err tells of memory.
 */
static bool gather(struct shp_session *session, const uint8_t *in, size_t len, size_t *taken,
                   size_t wanted, int *err)
{
    struct shp_buf *buf = &session->handshake->in;
    size_t missing = wanted - shp_buf_len(buf);
    size_t part = missing < len ? missing : len;
    *err = shp_buf_append(buf, in, part);
    if (*err)
        return false;
    *taken += part;
    return part == missing;
}

static int read_psk(struct shp_session *session, const uint8_t *in, size_t len, size_t *taken)
{
    int err;
    if (!gather(session, in, len, taken, SHP_PSK_BYTES, &err))
        return err;
    init_noise(session, shp_buf_peek(&session->handshake->in));
    shp_buf_wipe(&session->handshake->in);
    session->state = SHP_SESSION_READ_MESSAGE;
    return SHP_OK;
}

static int read_message(struct shp_session *session, const uint8_t *in, size_t len, size_t *taken)
{
    struct shp_buf *buf = &session->handshake->in;
    int err;
    if (shp_buf_len(buf) < MESSAGE_LENGTH_BYTES) {
        size_t part = 0;
        if (!gather(session, in, len, &part, MESSAGE_LENGTH_BYTES, &err)) {
            *taken += part;
            return err;
        }
        *taken += part;
        in += part;
        len -= part;
    }
    const uint8_t *bytes = shp_buf_peek(buf);
    size_t message_len = (size_t)bytes[0] << 8 | bytes[1];
    if (message_len < SHP_NOISE_OVERHEAD_BYTES || message_len > MESSAGE_BYTES_MAX)
        return SHP_ERR_AUTH;
    if (!gather(session, in, len, taken, MESSAGE_LENGTH_BYTES + message_len, &err))
        return err;

    uint8_t hello[SHP_LIMIT_HELLO_BYTES_MAX];
    err = shp_noise_read(&session->handshake->noise, shp_buf_peek(buf) + MESSAGE_LENGTH_BYTES,
                         message_len, hello);
    if (err)
        return err;
    shp_buf_fini(buf);
    return accept_hello(session, hello, message_len - SHP_NOISE_OVERHEAD_BYTES);
}

/* While the owner decides, an initiator of suite plain may only say that it gives up. */
static int read_plain(struct shp_session *session, const uint8_t *in, size_t len, size_t *taken)
{
    struct shp_frame frame;
    bool complete;
    int err = shp__session_read_frame(session, in, len, taken, &frame, &complete);
    if (err || !complete)
        return err;
    if (frame.type == SHP_FRAME_CLOSE && frame.stream == 0 && !frame.fin &&
        frame.payload_len >= 2 && frame.payload_len <= 2 + SHP_LIMIT_ERROR_TEXT_BYTES_MAX) {
        char text[SHP_LIMIT_ERROR_TEXT_BYTES_MAX + 1];
        shp_text_clean(text, sizeof(text), (const char *)frame.payload + 2, frame.payload_len - 2);
        return shp__session_fail(session, SHP_ERR_CLOSED, shp_get_u16(frame.payload), "peer", "%s",
                                 text);
    }
    if (session->state != SHP_SESSION_READ_HELLO || frame.type != SHP_FRAME_HELLO ||
        frame.stream != 0 || frame.fin)
        return shp__session_fail(session, SHP_ERR_PROTOCOL, SHP_CODE_PROTOCOL_ERROR, "handshake",
                                 "the first frame is no hello");
    return accept_hello(session, frame.payload, frame.payload_len);
}

int shp__handshake_feed(struct shp_session *session, const uint8_t *in, size_t len, size_t *taken)
{
    int err;
    if (session->suite == SHP_SUITE_PLAIN)
        err = read_plain(session, in, len, taken);
    else if (session->state == SHP_SESSION_READ_PSK)
        err = read_psk(session, in, len, taken);
    else if (session->state == SHP_SESSION_READ_MESSAGE)
        err = read_message(session, in, len, taken);
    else
        err = SHP_ERR_AUTH; /* the initiator cannot have keys yet */

    if (err == SHP_OK || session->state == SHP_SESSION_CLOSED)
        return err;
    if (err == SHP_ERR_NOMEM)
        return shp__session_fail(session, err, SHP_CODE_OUT_OF_MEMORY, "handshake", "%s", "");
    bool foreign = err == SHP_ERR_AUTH || session->suite == SHP_SUITE_NOISE;
    int code = foreign ? SHP_CODE_AUTH_FAILED : SHP_CODE_PROTOCOL_ERROR;
    return shp__session_fail(session, err, code, "handshake",
                             "the first bytes of the peer are not those of a handshake");
}
