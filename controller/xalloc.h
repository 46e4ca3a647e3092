/*
 * Allocation for the program on top: running out of memory ends the controller (its state is in
 * the store, pi-ext starts it again). The layers below report it instead (base/alloc.h).
 */
#ifndef SHP_CONTROLLER_XALLOC_H
#define SHP_CONTROLLER_XALLOC_H

#include <stddef.h>

_Noreturn void xalloc_failed(void);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *pointer, size_t size);
char *xstrdup(const char *text); /* NULL gives NULL */
char *xstrndup(const char *text, size_t len);
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Replace an owned string by a copy of text. */
void xreplace(char **slot, const char *text);

#endif
