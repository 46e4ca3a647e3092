/* The handshake: foreign bytes from the first one on, and hellos of a peer that has the secret.
 *
 * input: u8 mode, u8 size of the pieces, then bytes. Mode bit 0: suite plain; bit 1: we are the
 * initiator; bit 2: the bytes are not the stream but the hello of a genuine peer. */
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "protocol/messages.h"
#include "tests/support/session_pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_events(struct shp_session *session, bool *closed)
{
    struct shp_event event;
    while (shp_session_next_event(session, &event)) {
        assert(!*closed);
        if (event.type == SHP_EVENT_HELLO || event.type == SHP_EVENT_ESTABLISHED)
            assert(event.json[0] != '\0' && event.json[event.json_len] == '\0');
        if (event.type == SHP_EVENT_REQUEST)
            (void)shp_session_cancel(session, event.stream, SHP_CODE_CANCELED);
        *closed = event.type == SHP_EVENT_CLOSED;
    }
}

static void feed(struct shp_session *session, const uint8_t *in, size_t len, size_t piece,
                 bool *closed)
{
    for (size_t at = 0; at < len;) {
        size_t part = len - at < piece ? len - at : piece;
        size_t taken;
        int err = shp_session_feed(session, in + at, part, &taken, 1000);
        assert(taken <= part && (err == 0 || shp_session_closed(session)));
        take_events(session, closed);
        at += taken;
        if (err != 0)
            return;
        assert(taken > 0);
    }
}

static void foreign_stream(enum shp_role role, enum shp_suite suite, const uint8_t *in, size_t len,
                           size_t piece)
{
    struct shp_session_config config = pair_config(role, suite);
    struct shp_session *session;
    bool closed = false;
    if (shp_session_new(&session, &config) != 0)
        return;
    feed(session, in, len, piece, &closed);
    shp_session_tick(session, 1000 + SHP_LIMIT_HANDSHAKE_TIMEOUT_MS + SHP_LIMIT_SILENCE_MAX_MS);
    take_events(session, &closed);
    assert(closed);
    shp_session_free(session);
}

static void genuine_peer(enum shp_role role, enum shp_suite suite, const uint8_t *hello, size_t len,
                         size_t piece)
{
    struct shp_session_config ours = pair_config(role, suite);
    struct shp_session_config theirs =
        pair_config(role == SHP_ROLE_INITIATOR ? SHP_ROLE_RESPONDER : SHP_ROLE_INITIATOR, suite);
    struct shp_session *session;
    struct shp_session *peer;
    bool closed = false;
    bool peer_closed = false;
    theirs.hello_json = (const char *)hello;
    theirs.hello_len = len;
    if (shp_session_new(&session, &ours) != 0)
        return;
    if (shp_session_new(&peer, &theirs) != 0) {
        shp_session_free(session);
        return;
    }
    for (int i = 0; i < 4; i++) {
        struct shp_session *from = i % 2 == (role == SHP_ROLE_INITIATOR ? 0 : 1) ? session : peer;
        struct shp_session *to = from == session ? peer : session;
        const uint8_t *out;
        size_t out_len = shp_session_output(from, &out, theirs.now_ms);
        feed(to, out, out_len, piece, to == session ? &closed : &peer_closed);
        shp_session_consume_output(from, out_len);
    }
    assert(shp_session_established(session) || closed);
    shp_session_free(session);
    shp_session_free(peer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    enum shp_suite suite = data[0] & 1 ? SHP_SUITE_PLAIN : SHP_SUITE_NOISE;
    enum shp_role role = data[0] & 2 ? SHP_ROLE_INITIATOR : SHP_ROLE_RESPONDER;
    size_t piece = (size_t)data[1] + 1;
    if (data[0] & 4 && size > 2) /* an empty hello means one that is set later */
        genuine_peer(role, suite, data + 2, size - 2, piece);
    else
        foreign_stream(role, suite, data + 2, size - 2, piece);
    return 0;
}
