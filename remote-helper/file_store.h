/*
 * Content-addressed files of ours below <home>/.pi/agent/shepherdr: put there whole or not at all.
 *
 * A file is written under a random name, synced, and linked into place under its own name, which
 * never replaces anything: an equal file that is there already is good, everything else at that
 * path stays untouched and is a conflict. Temporary files go away with the operation, those of a
 * killed process after an hour.
 */
#ifndef SHP_REMOTE_HELPER_FILE_STORE_H
#define SHP_REMOTE_HELPER_FILE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define FILE_STORE_DIGEST_HEX 64
#define FILE_STORE_BYTES_MAX 8388608
#define FILE_STORE_STALE_SECONDS 3600

enum file_kind {
    FILE_KIND_EXTENSION, /* ext/pi-ext-<hash>.mjs */
    FILE_KIND_PROMPT,    /* prompts/<hash>.md */
};

struct file_put;

/*
 * Look for the file; *present: it is there with these bytes, nothing is left to do. digest: 64
 * lower-case hex. *out is the caller's (file_put_free) also when the file is present.
 * *error: invalid_params, file_conflict, install_failed, install_no_space, out_of_memory.
 */
int file_put_begin(struct file_put **out, const char *home, enum file_kind kind, const char *digest,
                   uint64_t size, bool *present, struct shp_error *error);

/* The next bytes. *error: install_no_space, install_failed, install_corrupt (more than size). */
int file_put_write(struct file_put *put, const void *data, size_t len, struct shp_error *error);

/* All bytes are there: check, sync, activate. *written: false when another process was faster. */
int file_put_finish(struct file_put *put, bool *written, struct shp_error *error);

const char *file_put_path(const struct file_put *put);

/* Removes the temporary file when there still is one. NULL is fine. */
void file_put_free(struct file_put *put);

#endif
