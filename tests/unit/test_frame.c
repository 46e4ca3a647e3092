/* Frames alone, and the vectors that pi-ext reads too, through reader and session. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "framing/frame.h"
#include "protocol/messages.h"
#include "tests/support/session_pair.h"
#include "tests/support/vectors.h"

static int type_of(const char *name)
{
    static const struct {
        const char *name;
        int type;
    } types[] = {{"head", SHP_FRAME_HEAD},     {"bulk", SHP_FRAME_BULK},
                 {"credit", SHP_FRAME_CREDIT}, {"cancel", SHP_FRAME_CANCEL},
                 {"ping", SHP_FRAME_PING},     {"pong", SHP_FRAME_PONG},
                 {"close", SHP_FRAME_CLOSE},   {"hello", SHP_FRAME_HELLO}};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].name, name) == 0)
            return types[i].type;
    fail_msg("no frame %s", name);
    return 0;
}

/* Feed in pieces; the one body that comes out is copied. */
static int read_one(const uint8_t *in, size_t len, size_t piece, uint8_t **body, size_t *body_len)
{
    struct shp_frame_reader reader;
    const uint8_t *found;
    int err = 0;
    shp_frame_reader_init(&reader, SHP_FRAME_HEADER_BYTES,
                          SHP_FRAME_HEADER_BYTES + SHP_FRAME_PAYLOAD_MAX);
    *body = NULL;
    for (size_t at = 0; at < len && err == 0;) {
        size_t part = len - at < piece ? len - at : piece;
        size_t taken;
        err = shp_frame_reader_feed(&reader, in + at, part, &taken, &found, body_len);
        at += taken;
        if (!err && found) {
            assert_int_equal(at, len);
            *body = malloc(*body_len);
            memcpy(*body, found, *body_len);
        } else if (!err) {
            assert_int_equal(taken, part);
        }
    }
    shp_frame_reader_fini(&reader);
    return err;
}

static void valid_vectors_mean_what_they_say_at_every_cut(void **state)
{
    (void)state;
    cJSON *file = vectors_load(SHP_TEST_SOURCE_DIR, "frames.json");
    const cJSON *vector;
    int count = 0;
    cJSON_ArrayForEach(vector, vectors_get(file, "valid"))
    {
        size_t len, payload_len, body_len;
        uint8_t *bytes = vectors_bytes(vectors_get(vector, "bytes"), &len);
        uint8_t *payload = vectors_bytes(vectors_get(vector, "payload"), &payload_len);
        static const size_t pieces[] = {1, 2, 3, 7, 4096, SIZE_MAX};
        for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
            uint8_t *body;
            struct shp_frame frame;
            assert_int_equal(read_one(bytes, len, pieces[i], &body, &body_len), 0);
            assert_non_null(body);
            assert_int_equal(shp_frame_parse(&frame, body, body_len), 0);
            assert_int_equal(frame.type, type_of(vectors_string(vector, "type")));
            assert_int_equal(frame.fin, cJSON_IsTrue(vectors_get(vector, "fin")));
            assert_true(frame.stream == (uint32_t)vectors_get(vector, "stream")->valuedouble);
            assert_int_equal(frame.payload_len, payload_len);
            assert_memory_equal(frame.payload, payload, payload_len);

            /* And back. */
            uint8_t header[12];
            shp_frame_put_length(header, (uint32_t)(8 + payload_len));
            shp_frame_put_header(header + 4, frame.type, frame.fin, frame.stream);
            assert_memory_equal(header, bytes, sizeof(header));
            free(body);
        }
        free(bytes);
        free(payload);
        count++;
    }
    assert_true(count >= 15);
    cJSON_Delete(file);
}

static void invalid_vectors_end_an_open_session(void **state)
{
    (void)state;
    static struct pair pair;
    cJSON *file = vectors_load(SHP_TEST_SOURCE_DIR, "frames.json");
    const cJSON *vector;
    int count = 0;
    cJSON_ArrayForEach(vector, vectors_get(file, "invalid"))
    {
        size_t len, taken;
        uint8_t *bytes = vectors_bytes(vectors_get(vector, "bytes"), &len);
        assert_int_equal(pair_open(&pair, SHP_SUITE_PLAIN), 0);
        int err = shp_session_feed(pair.b.session, bytes, len, &taken, pair.now_ms);
        if (err != SHP_ERR_PROTOCOL)
            fail_msg("%s: %d", vectors_string(vector, "name"), err);
        pair_take_events(&pair.b);
        assert_int_equal(pair.b.event_count, 1);
        assert_int_equal(pair.b.events[0].type, SHP_EVENT_CLOSED);
        assert_int_equal(pair.b.events[0].error.code, SHP_CODE_PROTOCOL_ERROR);
        pair_free(&pair);
        free(bytes);
        count++;
    }
    assert_true(count >= 40);
    cJSON_Delete(file);
}

static void reader_refuses_lengths_out_of_bounds_before_it_takes_memory(void **state)
{
    (void)state;
    struct shp_frame_reader reader;
    const uint8_t *body;
    size_t taken, body_len;
    static const uint32_t bad[] = {0, 23, 65536, UINT32_MAX};
    for (size_t i = 0; i < 4; i++) {
        uint8_t length[4];
        shp_frame_put_length(length, bad[i]);
        shp_frame_reader_init(&reader, 24, 65535);
        assert_int_equal(shp_frame_reader_feed(&reader, length, 4, &taken, &body, &body_len),
                         SHP_ERR_PROTOCOL);
        assert_null(reader.buffer);
        shp_frame_reader_fini(&reader);
    }
}

static void reader_borrows_a_whole_body_and_trims(void **state)
{
    (void)state;
    struct shp_frame_reader reader;
    const uint8_t *body;
    size_t taken, body_len;
    uint8_t bytes[12 + 3] = {8, 0, 0, 0};
    shp_frame_reader_init(&reader, 8, 100);
    assert_int_equal(shp_frame_reader_feed(&reader, bytes, sizeof(bytes), &taken, &body, &body_len),
                     0);
    assert_int_equal(taken, 12);
    assert_ptr_equal(body, bytes + 4);
    assert_null(reader.buffer);
    assert_int_equal(shp_frame_reader_feed(&reader, bytes, 6, &taken, &body, &body_len), 0);
    assert_null(body);
    assert_int_equal(reader.state, SHP_FRAME_READ_BODY);
    shp_frame_reader_trim(&reader);
    assert_non_null(reader.buffer); /* half a frame stands in it */
    assert_int_equal(shp_frame_reader_feed(&reader, bytes + 6, 6, &taken, &body, &body_len), 0);
    assert_ptr_equal(body, reader.buffer);
    shp_frame_reader_trim(&reader);
    assert_null(reader.buffer);
    shp_frame_reader_fini(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_vectors_mean_what_they_say_at_every_cut),
        cmocka_unit_test(invalid_vectors_end_an_open_session),
        cmocka_unit_test(reader_refuses_lengths_out_of_bounds_before_it_takes_memory),
        cmocka_unit_test(reader_borrows_a_whole_body_and_trims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
