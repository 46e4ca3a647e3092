/* Small reads and paths for facts*.c. */
#ifndef SHP_REMOTE_HELPER_FACTS_FILES_H
#define SHP_REMOTE_HELPER_FACTS_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* out = dir "/" name; false: too long. dir may be "/". */
bool facts_join(char *out, size_t size, const char *dir, const char *name);

/*
 * A regular file's bytes, at most bytes_max of them from its begin, and a NUL that does not count;
 * the caller frees. NULL: no such file, not readable, no memory.
 */
char *facts_read(const char *path, size_t bytes_max, size_t *len);

#endif
