/*
 * Small helpers of the stand-in: memory that aborts when it runs out (this is a test program), a
 * growing byte string, time, text checks.
 */
#ifndef HERDR_SIM_UTIL_H
#define HERDR_SIM_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *sim_alloc(size_t size);              /* zeroed; never NULL; free() it */
void *sim_realloc(void *old, size_t size); /* never NULL */
char *sim_strdup(const char *s);           /* never NULL for a non-NULL s; NULL for NULL */
char *sim_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A byte string that is always NUL terminated. Zero-initialise; free with str_free. */
struct str {
    char *data;
    size_t len;
    size_t cap;
};
void str_add(struct str *s, const void *data, size_t len);
void str_puts(struct str *s, const char *text);
void str_free(struct str *s);
/* Borrowed text; "" when nothing was added. */
const char *str_text(const struct str *s);

uint64_t now_ms(void);  /* monotonic */
uint64_t wall_us(void); /* microseconds since the epoch */
bool utf8_valid(const char *s, size_t len);
bool text_blank(const char *s);       /* NULL, empty or white space only */
bool text_has_control(const char *s); /* bytes below 0x20 or 0x7f */
/* mkdir -p with the given mode for every new level; 0 or -errno. */
int make_dirs(const char *path, unsigned mode);
/* Whole file, at most max bytes, NUL terminated; NULL with errno (EFBIG above max). Caller frees.
 */
char *read_file(const char *path, size_t max, size_t *len);
/* Writes beside the file and renames over it; 0 or -errno. Mode 0600. */
int write_file_atomic(const char *path, const char *data, size_t len);

#endif
