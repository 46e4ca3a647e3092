#include "transport/transport_tail.h"

#include "base/error.h"

#include <string.h>

void shp_tail_add(struct shp_tail *tail, const char *data, size_t len)
{
    if (len > SHP_TAIL_BYTES) {
        data += len - SHP_TAIL_BYTES;
        len = SHP_TAIL_BYTES;
    }
    for (size_t i = 0; i < len; i++) {
        if (tail->len < SHP_TAIL_BYTES) {
            tail->bytes[tail->len++] = data[i];
        } else {
            tail->bytes[tail->at] = data[i];
            tail->at = (tail->at + 1) % SHP_TAIL_BYTES;
        }
    }
}

size_t shp_tail_copy(const struct shp_tail *tail, char out[SHP_TAIL_BYTES])
{
    size_t first = tail->len - tail->at;
    size_t len = tail->len;

    memcpy(out, tail->bytes + tail->at, first);
    memcpy(out + first, tail->bytes, tail->at);
    while (len > 0 && (out[len - 1] == '\n' || out[len - 1] == '\r'))
        len--;
    return len;
}

size_t shp_tail_clean(const struct shp_tail *tail, char *out, size_t size)
{
    char text[SHP_TAIL_BYTES];

    return shp_text_clean(out, size, text, shp_tail_copy(tail, text));
}
