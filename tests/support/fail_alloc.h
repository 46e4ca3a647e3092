/*
 * An allocator that counts and fails, for base/alloc.h and for cJSON. The scenario is run once
 * without failure to learn how many allocations it makes, then once for each of them with that one
 * failing.
 */
#ifndef SHP_TESTS_SUPPORT_FAIL_ALLOC_H
#define SHP_TESTS_SUPPORT_FAIL_ALLOC_H

#include <stddef.h>

/* From here on: the fail_at-th allocation (counted from 0) fails, once. SIZE_MAX: none does. */
void fail_alloc_begin(size_t fail_at);

/* The C library again. Returns how many allocations were asked for. */
size_t fail_alloc_end(void);

/* Pieces of memory that were taken and not given back; bytes that were held at most at a time. */
size_t fail_alloc_held(void);
size_t fail_alloc_peak_bytes(void);

#endif
