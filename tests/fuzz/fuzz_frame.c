/* Frames: however the input is cut, the same bodies come out, and every body parses or is refused.
 *
 * input: u8 size of the pieces, then the stream. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "framing/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct result {
    int err;
    size_t bodies;
    size_t bytes;
    uint64_t digest;
};

static void add_body(struct result *result, const uint8_t *body, size_t len)
{
    struct shp_frame frame;
    result->bodies++;
    result->bytes += len;
    for (size_t i = 0; i < len; i++)
        result->digest = (result->digest ^ body[i]) * UINT64_C(1099511628211);
    if (shp_frame_parse(&frame, body, len) != SHP_OK)
        return;
    uint8_t header[SHP_FRAME_HEADER_BYTES];
    shp_frame_put_header(header, frame.type, frame.fin, frame.stream);
    assert(memcmp(header, body, sizeof(header)) == 0);
    assert(frame.payload_len + SHP_FRAME_HEADER_BYTES == len);
}

static struct result read_all(const uint8_t *in, size_t len, size_t piece)
{
    struct shp_frame_reader reader;
    struct result result = {.digest = 1};
    shp_frame_reader_init(&reader, SHP_FRAME_HEADER_BYTES,
                          SHP_FRAME_HEADER_BYTES + SHP_FRAME_PAYLOAD_MAX);
    for (size_t at = 0; at < len && result.err == SHP_OK;) {
        size_t part = len - at < piece ? len - at : piece;
        const uint8_t *body;
        size_t taken, body_len;
        result.err = shp_frame_reader_feed(&reader, in + at, part, &taken, &body, &body_len);
        assert(taken <= part);
        at += taken;
        if (result.err == SHP_OK && body)
            add_body(&result, body, body_len);
        else if (result.err == SHP_OK)
            assert(taken == part);
    }
    shp_frame_reader_fini(&reader);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct result whole = read_all(data + 1, size - 1, SIZE_MAX);
    struct result pieces = read_all(data + 1, size - 1, (size_t)data[0] + 1);
    assert(whole.err == pieces.err && whole.bodies == pieces.bodies);
    assert(whole.bytes == pieces.bytes && whole.digest == pieces.digest);
    return 0;
}
