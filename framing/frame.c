#include "framing/frame.h"

#include "base/alloc.h"
#include "base/error.h"

#include <sodium.h>
#include <string.h>

/* Buffers grow to the next of these steps, so that a few odd lengths cause few allocations. */
#define BUFFER_STEP 4096

void shp_frame_put_length(uint8_t out[SHP_FRAME_LENGTH_BYTES], uint32_t body_len)
{
    shp_put_u32(out, body_len);
}

void shp_frame_put_header(uint8_t out[SHP_FRAME_HEADER_BYTES], uint8_t type, bool fin,
                          uint32_t stream)
{
    out[0] = type;
    out[1] = fin ? SHP_FRAME_FLAG_FIN : 0;
    shp_put_u16(out + 2, 0);
    shp_put_u32(out + 4, stream);
}

int shp_frame_parse(struct shp_frame *frame, const uint8_t *body, size_t len)
{
    if (len < SHP_FRAME_HEADER_BYTES || len - SHP_FRAME_HEADER_BYTES > SHP_FRAME_PAYLOAD_MAX)
        return SHP_ERR_PROTOCOL;
    if ((body[1] & ~SHP_FRAME_FLAG_FIN) != 0 || shp_get_u16(body + 2) != 0)
        return SHP_ERR_PROTOCOL;
    *frame = (struct shp_frame){
        .type = body[0],
        .fin = (body[1] & SHP_FRAME_FLAG_FIN) != 0,
        .stream = shp_get_u32(body + 4),
        .payload = body + SHP_FRAME_HEADER_BYTES,
        .payload_len = len - SHP_FRAME_HEADER_BYTES,
    };
    return SHP_OK;
}

void shp_frame_reader_init(struct shp_frame_reader *reader, uint32_t body_min, uint32_t body_max)
{
    *reader = (struct shp_frame_reader){
        .state = SHP_FRAME_READ_LENGTH, .body_min = body_min, .body_max = body_max};
}

static void release_buffer(struct shp_frame_reader *reader)
{
    if (reader->buffer)
        sodium_memzero(reader->buffer, reader->buffer_size);
    shp_free(reader->buffer);
    reader->buffer = NULL;
    reader->buffer_size = 0;
}

void shp_frame_reader_fini(struct shp_frame_reader *reader)
{
    release_buffer(reader);
    shp_frame_reader_init(reader, reader->body_min, reader->body_max);
}

void shp_frame_reader_trim(struct shp_frame_reader *reader)
{
    if (reader->state == SHP_FRAME_READ_LENGTH)
        release_buffer(reader);
}

int shp_frame_reader_buffer(struct shp_frame_reader *reader, size_t size, uint8_t **buffer)
{
    if (size > reader->buffer_size) {
        size_t rounded = (size + BUFFER_STEP - 1) / BUFFER_STEP * BUFFER_STEP;
        uint8_t *grown = shp_malloc(rounded);
        if (!grown)
            return SHP_ERR_NOMEM;
        if (reader->buffer_size > 0)
            memcpy(grown, reader->buffer, reader->buffer_size);
        release_buffer(reader);
        reader->buffer = grown;
        reader->buffer_size = rounded;
    }
    *buffer = reader->buffer;
    return SHP_OK;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns how many bytes were taken. */
static size_t read_length(struct shp_frame_reader *reader, const uint8_t *in, size_t len)
{
    size_t part = min_size(SHP_FRAME_LENGTH_BYTES - reader->have, len);
    memcpy(reader->length + reader->have, in, part);
    reader->have += part;
    if (reader->have == SHP_FRAME_LENGTH_BYTES) {
        reader->state = SHP_FRAME_READ_BODY;
        reader->body_len = shp_get_u32(reader->length);
        reader->have = 0;
    }
    return part;
}

int shp_frame_reader_feed(struct shp_frame_reader *reader, const uint8_t *in, size_t len,
                          size_t *taken, const uint8_t **body, size_t *body_len)
{
    *taken = 0;
    *body = NULL;
    *body_len = 0;
    if (reader->state == SHP_FRAME_READ_LENGTH) {
        *taken = read_length(reader, in, len);
        if (reader->state == SHP_FRAME_READ_LENGTH)
            return SHP_OK;
        if (reader->body_len < reader->body_min || reader->body_len > reader->body_max)
            return SHP_ERR_PROTOCOL;
    }

    const uint8_t *rest = in + *taken;
    size_t rest_len = len - *taken;
    if (reader->have == 0 && rest_len >= reader->body_len) {
        *body = rest;
        *taken += reader->body_len;
    } else if (rest_len > 0) {
        uint8_t *buffer;
        int err = shp_frame_reader_buffer(reader, reader->body_len, &buffer);
        if (err)
            return err;
        size_t part = min_size(reader->body_len - reader->have, rest_len);
        memcpy(buffer + reader->have, rest, part);
        reader->have += part;
        *taken += part;
        if (reader->have == reader->body_len)
            *body = buffer;
    }
    if (*body) {
        *body_len = reader->body_len;
        reader->state = SHP_FRAME_READ_LENGTH;
        reader->have = 0;
    }
    return SHP_OK;
}
