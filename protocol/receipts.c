/*
 * Entries stand in a ring in the order of their arrival, so that the oldest is next to be replaced;
 * buckets chain them by id. Ids are random, so their first bytes are the hash.
 */
#include "protocol/receipts.h"

#include "base/alloc.h"
#include "base/error.h"
#include "framing/frame.h"

#include <stdbool.h>
#include <string.h>

#define NONE UINT16_MAX
#define ENTRIES_FIRST 64

struct entry {
    uint8_t id[SHP_ID_BYTES];
    uint8_t digest[SHP_RECEIPT_DIGEST_BYTES];
    char *answer; /* NULL: none */
    uint16_t next;
};

struct shp_receipts {
    struct entry *entries;
    size_t entries_capacity;
    size_t ids_max;
    size_t count;
    size_t oldest; /* next to be replaced once count is ids_max */
    uint16_t *buckets;
    size_t bucket_count; /* power of two */
};

int shp_receipts_new(struct shp_receipts **out, size_t ids_max)
{
    if (ids_max == 0 || ids_max >= NONE)
        return SHP_ERR_INVALID;
    struct shp_receipts *receipts = shp_calloc(1, sizeof(*receipts));
    if (!receipts)
        return SHP_ERR_NOMEM;
    receipts->ids_max = ids_max;
    *out = receipts;
    return SHP_OK;
}

void shp_receipts_free(struct shp_receipts *receipts)
{
    if (!receipts)
        return;
    for (size_t i = 0; i < receipts->count; i++)
        shp_free(receipts->entries[i].answer);
    shp_free(receipts->entries);
    shp_free(receipts->buckets);
    shp_free(receipts);
}

static uint16_t *bucket_of(const struct shp_receipts *receipts, const uint8_t *id)
{
    return &receipts->buckets[shp_get_u32(id) & (receipts->bucket_count - 1)];
}

static struct entry *find(const struct shp_receipts *receipts, const uint8_t *id)
{
    if (receipts->bucket_count == 0)
        return NULL;
    for (uint16_t i = *bucket_of(receipts, id); i != NONE; i = receipts->entries[i].next)
        if (memcmp(receipts->entries[i].id, id, SHP_ID_BYTES) == 0)
            return &receipts->entries[i];
    return NULL;
}

static void link_entry(struct shp_receipts *receipts, size_t index)
{
    uint16_t *bucket = bucket_of(receipts, receipts->entries[index].id);
    receipts->entries[index].next = *bucket;
    *bucket = (uint16_t)index;
}

static void unlink_entry(struct shp_receipts *receipts, size_t index)
{
    uint16_t *at = bucket_of(receipts, receipts->entries[index].id);
    while (*at != index)
        at = &receipts->entries[*at].next;
    *at = receipts->entries[index].next;
}

/* Room for one entry more, below ids_max. */
static int grow(struct shp_receipts *receipts)
{
    size_t capacity =
        receipts->entries_capacity > 0 ? 2 * receipts->entries_capacity : ENTRIES_FIRST;
    if (capacity > receipts->ids_max)
        capacity = receipts->ids_max;
    size_t bucket_count = ENTRIES_FIRST;
    while (bucket_count < capacity)
        bucket_count *= 2;

    uint16_t *buckets = shp_malloc(bucket_count * sizeof(*buckets));
    if (!buckets)
        return SHP_ERR_NOMEM;
    struct entry *entries = shp_realloc(receipts->entries, capacity * sizeof(*entries));
    if (!entries) {
        shp_free(buckets);
        return SHP_ERR_NOMEM;
    }
    shp_free(receipts->buckets);
    receipts->entries = entries;
    receipts->entries_capacity = capacity;
    receipts->buckets = buckets;
    receipts->bucket_count = bucket_count;
    memset(buckets, 0xff, bucket_count * sizeof(*buckets));
    for (size_t i = 0; i < receipts->count; i++)
        link_entry(receipts, i);
    return SHP_OK;
}

enum shp_receipt_status shp_receipts_find(const struct shp_receipts *receipts,
                                          const uint8_t id[SHP_ID_BYTES],
                                          const uint8_t digest[SHP_RECEIPT_DIGEST_BYTES],
                                          const char **answer)
{
    const struct entry *entry = find(receipts, id);
    if (!entry)
        return SHP_RECEIPT_NEW;
    if (!shp_bytes_equal(entry->digest, digest, SHP_RECEIPT_DIGEST_BYTES))
        return SHP_RECEIPT_CONFLICT;
    if (answer)
        *answer = entry->answer ? entry->answer : "";
    return SHP_RECEIPT_DUPLICATE;
}

int shp_receipts_store(struct shp_receipts *receipts, const uint8_t id[SHP_ID_BYTES],
                       const uint8_t digest[SHP_RECEIPT_DIGEST_BYTES], const char *answer,
                       size_t answer_len)
{
    if (answer_len > SHP_RECEIPT_ANSWER_MAX)
        return SHP_ERR_LIMIT;
    struct entry *entry = find(receipts, id);
    if (entry && !shp_bytes_equal(entry->digest, digest, SHP_RECEIPT_DIGEST_BYTES))
        return SHP_ERR_EXISTS;
    bool replace_oldest = !entry && receipts->count == receipts->ids_max;
    if (!entry && !replace_oldest && receipts->count == receipts->entries_capacity) {
        int err = grow(receipts);
        if (err)
            return err;
    }
    char *copy = NULL;
    if (answer_len > 0 && !(copy = shp_strndup(answer, answer_len)))
        return SHP_ERR_NOMEM;

    if (!entry) {
        size_t index = receipts->count;
        if (replace_oldest) {
            index = receipts->oldest;
            receipts->oldest = (receipts->oldest + 1) % receipts->ids_max;
            unlink_entry(receipts, index);
            shp_free(receipts->entries[index].answer);
        } else {
            receipts->count++;
        }
        entry = &receipts->entries[index];
        memcpy(entry->id, id, SHP_ID_BYTES);
        memcpy(entry->digest, digest, SHP_RECEIPT_DIGEST_BYTES);
        entry->answer = NULL;
        link_entry(receipts, index);
    }
    shp_free(entry->answer);
    entry->answer = copy;
    return SHP_OK;
}

size_t shp_receipts_count(const struct shp_receipts *receipts)
{
    return receipts->count;
}
