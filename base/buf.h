/*
 * A byte queue with a hard maximum: append at the end, consume from the front, everything in
 * between one contiguous piece of memory.
 *
 * Bytes are moved only when at least as many were consumed before, so that a long queue costs
 * nothing extra per operation. The memory behind it is therefore up to half again as large, rounded
 * up to a power of two. A buffer that runs empty keeps at most SHP_BUF_KEEP_BYTES.
 */
#ifndef SHP_BASE_BUF_H
#define SHP_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

/* Room of a full frame with the next one behind it: bulk passes a buffer that runs empty at every
 * frame, and memory given back each time costs more than sealing the frame. */
#define SHP_BUF_KEEP_BYTES 131072

/* Memory that a buffer takes with its first byte, when that is enough. */
#define SHP_BUF_CAPACITY_FIRST 512

struct shp_buf {
    uint8_t *data;
    size_t start; /* first byte that was not consumed */
    size_t len;
    size_t capacity;
    size_t max; /* largest len */
};

/* No memory is taken before the first byte. */
void shp_buf_init(struct shp_buf *buf, size_t max);
void shp_buf_fini(struct shp_buf *buf);

/* As fini, and the memory is zeroed first: for buffers that held secrets. */
void shp_buf_wipe(struct shp_buf *buf);

/*
 * Contiguous room for len bytes behind the last one; *room is borrowed until the next change.
 * What was written becomes part of the buffer by shp_buf_commit. LIMIT: above the maximum; NOMEM.
 */
int shp_buf_reserve(struct shp_buf *buf, size_t len, uint8_t **room);
void shp_buf_commit(struct shp_buf *buf, size_t len);

/* Copies all of data or nothing. LIMIT, NOMEM. */
int shp_buf_append(struct shp_buf *buf, const void *data, size_t len);

/* The bytes, borrowed until the next change; NULL when there are none. */
const uint8_t *shp_buf_peek(const struct shp_buf *buf);
size_t shp_buf_len(const struct shp_buf *buf);

/* Drop len bytes from the front; len is at most shp_buf_len. */
void shp_buf_consume(struct shp_buf *buf, size_t len);

#endif
