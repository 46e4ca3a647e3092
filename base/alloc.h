/*
 * The one way to memory for base, framing, protocol and transport, so that a test can count
 * allocations and fail any of them (tests/support/fail_alloc.h).
 *
 * The table is process-wide and is set before the first allocation, never while memory of the
 * former table is held.
 */
#ifndef SHP_BASE_ALLOC_H
#define SHP_BASE_ALLOC_H

#include <stddef.h>

struct shp_allocator {
    void *(*malloc)(size_t size, void *user);
    void *(*realloc)(void *ptr, size_t size, void *user);
    void (*free)(void *ptr, void *user);
    void *user;
};

/* Copies the table. NULL: the C library again. */
void shp_alloc_set(const struct shp_allocator *allocator);

/* As in the C library; NULL on failure. Sizes of 0 are rounded up to 1. */
void *shp_malloc(size_t size);
void *shp_calloc(size_t count, size_t size); /* NULL also when count * size overflows */
void *shp_realloc(void *ptr, size_t size);
void shp_free(void *ptr); /* NULL is fine */

/* Copies; the caller frees with shp_free. NULL on failure. */
char *shp_strdup(const char *text);
char *shp_strndup(const char *text, size_t len); /* exactly len bytes and a NUL */

#endif
