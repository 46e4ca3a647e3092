#include "controller/xalloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void xalloc_failed(void)
{
    static const char text[] = "shepherdr: out of memory\n";
    fwrite(text, 1, sizeof(text) - 1, stderr);
    abort();
}

static void *checked(void *pointer)
{
    if (!pointer)
        xalloc_failed();
    return pointer;
}

void *xcalloc(size_t count, size_t size)
{
    return checked(calloc(count ? count : 1, size ? size : 1));
}

void *xrealloc(void *pointer, size_t size)
{
    return checked(realloc(pointer, size ? size : 1));
}

char *xstrdup(const char *text)
{
    return text ? checked(strdup(text)) : NULL;
}

char *xstrndup(const char *text, size_t len)
{
    char *copy = checked(malloc(len + 1));
    memcpy(copy, text, len);
    copy[len] = 0;
    return copy;
}

char *xasprintf(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = NULL;
    int len = vasprintf(&text, format, args);
    va_end(args);
    return checked(len < 0 ? NULL : text);
}

void xreplace(char **slot, const char *text)
{
    char *copy = xstrdup(text);
    free(*slot);
    *slot = copy;
}
