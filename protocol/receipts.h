/*
 * The last ids that came in, each with a digest of what came with it and the answer that was given:
 * a repeat gets the same answer, and other bytes under a known id are refused (spec/protocol.md 8).
 */
#ifndef SHP_PROTOCOL_RECEIPTS_H
#define SHP_PROTOCOL_RECEIPTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

#define SHP_RECEIPT_DIGEST_BYTES 32
#define SHP_RECEIPT_ANSWER_MAX 4096

struct shp_receipts;

enum shp_receipt_status {
    SHP_RECEIPT_NEW,
    SHP_RECEIPT_DUPLICATE, /* the same id and digest */
    SHP_RECEIPT_CONFLICT,  /* the same id, another digest */
};

/* Remembers the newest ids_max ids (1 to 65535). NOMEM, INVALID. */
int shp_receipts_new(struct shp_receipts **out, size_t ids_max);
void shp_receipts_free(struct shp_receipts *receipts);

/*
 * Look an id up. *answer (may be NULL) is what was stored with it, NUL-terminated, "" when that was
 * nothing; borrowed until the next shp_receipts_store. It is set for a duplicate only.
 */
enum shp_receipt_status shp_receipts_find(const struct shp_receipts *receipts,
                                          const uint8_t id[SHP_ID_BYTES],
                                          const uint8_t digest[SHP_RECEIPT_DIGEST_BYTES],
                                          const char **answer);

/*
 * Remember an id, or replace the answer of one that is there with this digest. Copies. The oldest
 * id is forgotten when there are too many. EXISTS: there with another digest; LIMIT: answer too
 * long; NOMEM: nothing changed.
 */
int shp_receipts_store(struct shp_receipts *receipts, const uint8_t id[SHP_ID_BYTES],
                       const uint8_t digest[SHP_RECEIPT_DIGEST_BYTES], const char *answer,
                       size_t answer_len);

size_t shp_receipts_count(const struct shp_receipts *receipts);

#endif
