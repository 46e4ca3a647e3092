#include "base/buf.h"

#include "base/alloc.h"
#include "base/error.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

void shp_buf_init(struct shp_buf *buf, size_t max)
{
    *buf = (struct shp_buf){.max = max};
}

void shp_buf_fini(struct shp_buf *buf)
{
    shp_free(buf->data);
    shp_buf_init(buf, buf->max);
}

void shp_buf_wipe(struct shp_buf *buf)
{
    if (buf->data)
        sodium_memzero(buf->data, buf->capacity);
    shp_buf_fini(buf);
}

static int grow(struct shp_buf *buf, size_t needed)
{
    size_t capacity = buf->capacity > 0 ? buf->capacity : SHP_BUF_CAPACITY_FIRST;
    while (capacity < needed)
        capacity *= 2;
    /* Not realloc: the consumed front need not be copied, nor kept. */
    uint8_t *data = shp_malloc(capacity);
    if (!data)
        return SHP_ERR_NOMEM;
    if (buf->len > 0)
        memcpy(data, buf->data + buf->start, buf->len);
    shp_free(buf->data);
    buf->data = data;
    buf->start = 0;
    buf->capacity = capacity;
    return SHP_OK;
}

int shp_buf_reserve(struct shp_buf *buf, size_t len, uint8_t **room)
{
    if (len > buf->max - buf->len)
        return SHP_ERR_LIMIT;
    if (buf->start + buf->len + len > buf->capacity) {
        if (buf->len + len <= buf->capacity && buf->start >= buf->len) {
            if (buf->len > 0)
                memcpy(buf->data, buf->data + buf->start, buf->len);
            buf->start = 0;
        } else {
            /* With room for another len/2, so that start can pass len before the next move. */
            int err = grow(buf, buf->len + len + buf->len / 2);
            if (err)
                return err;
        }
    }
    *room = buf->data + buf->start + buf->len;
    return SHP_OK;
}

void shp_buf_commit(struct shp_buf *buf, size_t len)
{
    assert(len <= buf->capacity - buf->start - buf->len && len <= buf->max - buf->len);
    buf->len += len;
}

int shp_buf_append(struct shp_buf *buf, const void *data, size_t len)
{
    uint8_t *room;
    if (len == 0)
        return SHP_OK;
    int err = shp_buf_reserve(buf, len, &room);
    if (err)
        return err;
    memcpy(room, data, len);
    shp_buf_commit(buf, len);
    return SHP_OK;
}

const uint8_t *shp_buf_peek(const struct shp_buf *buf)
{
    return buf->len > 0 ? buf->data + buf->start : NULL;
}

size_t shp_buf_len(const struct shp_buf *buf)
{
    return buf->len;
}

void shp_buf_consume(struct shp_buf *buf, size_t len)
{
    assert(len <= buf->len);
    buf->start += len;
    buf->len -= len;
    if (buf->len > 0)
        return;
    buf->start = 0;
    if (buf->capacity > SHP_BUF_KEEP_BYTES)
        shp_buf_fini(buf);
}
