/* A directory of a test's own below TMPDIR, and small file helpers. All abort the test on failure.
 */
#ifndef SHP_TESTS_SUPPORT_TEMP_ROOT_H
#define SHP_TESTS_SUPPORT_TEMP_ROOT_H

#include <stdbool.h>
#include <stddef.h>

/* Malloc'ed absolute path; mode 0755, so that a test may look at it as another user. */
char *temp_root_make(void);
/* Remove it with everything in it and free path. */
void temp_root_remove(char *path);

/* Malloc'ed root "/" name. */
char *temp_path(const char *root, const char *name);
void temp_write(const char *path, const void *bytes, size_t len);
/* Malloc'ed and NUL-terminated. */
char *temp_read(const char *path, size_t *len);
/* Entries of a directory, without . and .. */
size_t temp_entries(const char *path);

/* cmocka's setup and teardown: *state is the root. */
int temp_root_setup(void **state);
int temp_root_teardown(void **state);

#endif
