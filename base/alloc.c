#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *libc_malloc(size_t size, void *user)
{
    (void)user;
    return malloc(size);
}

static void *libc_realloc(void *ptr, size_t size, void *user)
{
    (void)user;
    return realloc(ptr, size);
}

static void libc_free(void *ptr, void *user)
{
    (void)user;
    free(ptr);
}

static const struct shp_allocator libc_allocator = {libc_malloc, libc_realloc, libc_free, NULL};
static struct shp_allocator current = {libc_malloc, libc_realloc, libc_free, NULL};

void shp_alloc_set(const struct shp_allocator *allocator)
{
    current = allocator ? *allocator : libc_allocator;
}

void *shp_malloc(size_t size)
{
    return current.malloc(size > 0 ? size : 1, current.user);
}

void *shp_calloc(size_t count, size_t size)
{
    if (size > 0 && count > SIZE_MAX / size)
        return NULL;
    void *ptr = shp_malloc(count * size);
    if (ptr)
        memset(ptr, 0, count * size);
    return ptr;
}

void *shp_realloc(void *ptr, size_t size)
{
    return current.realloc(ptr, size > 0 ? size : 1, current.user);
}

void shp_free(void *ptr)
{
    if (ptr)
        current.free(ptr, current.user);
}

char *shp_strdup(const char *text)
{
    return shp_strndup(text, strlen(text));
}

char *shp_strndup(const char *text, size_t len)
{
    char *copy = shp_malloc(len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}
