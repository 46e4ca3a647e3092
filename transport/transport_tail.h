/*
 * The last bytes of a text that grows without bound: what is kept of a child's standard error for
 * people. Private to transport/.
 */
#ifndef SHP_TRANSPORT_TAIL_H
#define SHP_TRANSPORT_TAIL_H

#include <stddef.h>

#include "protocol/messages.h"

#define SHP_TAIL_BYTES SHP_LIMIT_DIAGNOSTIC_BYTES_MAX

/* A ring once it is full. Zeroed memory is an empty one. */
struct shp_tail {
    size_t len;
    size_t at; /* the oldest byte */
    char bytes[SHP_TAIL_BYTES];
};

void shp_tail_add(struct shp_tail *tail, const char *data, size_t len);

/*
 * The text in order, without the line ends at its end. Returns its length; not cleaned, no NUL
 * behind it.
 */
size_t shp_tail_copy(const struct shp_tail *tail, char out[SHP_TAIL_BYTES]);

/* The same as shp_text_clean gives it, in size bytes. Returns its length. */
size_t shp_tail_clean(const struct shp_tail *tail, char *out, size_t size);

#endif
