#include "tests/support/fail_alloc.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"

/* Before every piece, for the count of bytes. */
struct prefix {
    size_t size;
    size_t unused; /* keeps the alignment */
};

static struct {
    size_t asked;
    size_t fail_at;
    size_t held;
    size_t bytes;
    size_t peak_bytes;
} state;

static bool refuse(void)
{
    return state.asked++ == state.fail_at;
}

static void *count_in(struct prefix *prefix, size_t size)
{
    prefix->size = size;
    state.held++;
    state.bytes += size;
    if (state.bytes > state.peak_bytes)
        state.peak_bytes = state.bytes;
    return prefix + 1;
}

static void count_out(const struct prefix *prefix)
{
    state.held--;
    state.bytes -= prefix->size;
}

static void *counted_malloc(size_t size, void *user)
{
    (void)user;
    if (refuse())
        return NULL;
    struct prefix *prefix = malloc(sizeof(*prefix) + size);
    return prefix ? count_in(prefix, size) : NULL;
}

static void counted_free(void *ptr, void *user)
{
    (void)user;
    struct prefix *prefix = (struct prefix *)ptr - 1;
    count_out(prefix);
    free(prefix);
}

static void *counted_realloc(void *ptr, size_t size, void *user)
{
    if (!ptr)
        return counted_malloc(size, user);
    if (refuse())
        return NULL;
    struct prefix *prefix = (struct prefix *)ptr - 1;
    size_t old_size = prefix->size;
    struct prefix *moved = realloc(prefix, sizeof(*moved) + size);
    if (!moved)
        return NULL;
    state.held--;
    state.bytes -= old_size;
    return count_in(moved, size);
}

void fail_alloc_begin(size_t fail_at)
{
    static const struct shp_allocator allocator = {counted_malloc, counted_realloc, counted_free,
                                                   NULL};
    state.asked = 0;
    state.fail_at = fail_at;
    state.held = 0;
    state.bytes = 0;
    state.peak_bytes = 0;
    shp_alloc_set(&allocator);
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = shp_malloc, .free_fn = shp_free});
}

size_t fail_alloc_end(void)
{
    shp_alloc_set(NULL);
    cJSON_InitHooks(NULL);
    return state.asked;
}

size_t fail_alloc_held(void)
{
    return state.held;
}

size_t fail_alloc_peak_bytes(void)
{
    return state.peak_bytes;
}
