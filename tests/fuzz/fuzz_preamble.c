/* The preamble: however the input is cut, the same lines are found and the same noise is counted.
 *
 * input: u8 size of the pieces, then the stream; the byte 0xff stands for the pattern, so that
 * mutation finds its way behind it. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "framing/preamble.h"

#define MARKER "00112233445566778899aabbccddeeff"
#define PATTERN "\n@@SHP1 " MARKER " "
#define NOISE_MAX 20000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct result {
    int err;
    size_t lines;
    size_t noise;
    uint64_t digest;
};

static struct result read_all(const uint8_t *in, size_t len, size_t piece)
{
    static struct shp_preamble preamble;
    static char text[SHP_PREAMBLE_TAIL_MAX + 1];
    struct result result = {.digest = 1};
    if (shp_preamble_init(&preamble, MARKER, NOISE_MAX) != SHP_OK)
        abort();
    for (size_t at = 0; at < len && result.err == SHP_OK;) {
        size_t part = len - at < piece ? len - at : piece;
        const char *line;
        size_t taken;
        result.err = shp_preamble_feed(&preamble, in + at, part, &taken, &line);
        assert(taken <= part && (taken == part || line || result.err));
        at += taken;
        if (!line)
            continue;
        result.lines++;
        assert(strlen(line) <= SHP_PREAMBLE_LINE_MAX);
        for (const char *c = line; *c; c++)
            result.digest = (result.digest ^ (uint8_t)*c) * UINT64_C(1099511628211);
    }
    result.noise = preamble.noise_bytes;
    size_t text_len = shp_preamble_diagnostic(&preamble, text, sizeof(text));
    assert(text_len == strlen(text));
    if (result.err == SHP_OK)
        for (size_t i = 0; i < text_len; i++)
            result.digest = (result.digest ^ (uint8_t)text[i]) * UINT64_C(1099511628211);
    shp_preamble_fini(&preamble);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 100000)
        return 0;
    uint8_t *in = malloc(size * sizeof(PATTERN));
    size_t len = 0;
    if (!in)
        return 0;
    for (size_t i = 1; i < size; i++) {
        if (data[i] == 0xff) {
            memcpy(in + len, PATTERN, sizeof(PATTERN) - 1);
            len += sizeof(PATTERN) - 1;
        } else {
            in[len++] = data[i];
        }
    }
    struct result whole = read_all(in, len, SIZE_MAX);
    struct result pieces = read_all(in, len, (size_t)data[0] + 1);
    assert(whole.err == pieces.err && whole.lines == pieces.lines);
    assert(whole.err != SHP_OK || (whole.noise == pieces.noise && whole.digest == pieces.digest));
    free(in);
    return 0;
}
