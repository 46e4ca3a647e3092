/*
 * The latest assistant reply on the active branch of a pi session file.
 *
 * The file is append-only and a parent always stands above its children, so one pass from the end
 * upwards, following parentId, meets every entry of the branch and needs no index. Only the lines
 * below the reply are read, each in pieces; memory does not depend on the length of a line or of
 * the file. Work comes in steps that the owner spreads over its loop.
 *
 *     transcript_open -> transcript_step ... DONE -> transcript_result -> transcript_text ...
 *
 * Rules: the leaf is the given one, else the last complete line that parses and has an id. The
 * first assistant message above it is the latest attempt: its id and status are reported. Its text
 * is the reply; when it did not stop with "stop" and has no visible text, or a context_edit hides
 * it (a retry took its place), the text is the last one above that is not hidden.
 */
#ifndef SHP_REMOTE_HELPER_TRANSCRIPT_H
#define SHP_REMOTE_HELPER_TRANSCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "remote-helper/transcript_line.h"

/* Bytes read at once. */
#define TRANSCRIPT_BLOCK_BYTES 65536

/* Bytes looked at in one step: well below a millisecond. */
#define TRANSCRIPT_STEP_BYTES 131072

/* The header must come within this much, as in Pi. */
#define TRANSCRIPT_HEADER_BYTES_MAX 1048576

/* Entries hidden by edits below them whose target has not been met yet; the oldest is dropped. */
#define TRANSCRIPT_HIDDEN_MAX 64

struct transcript;

enum transcript_status {
    TRANSCRIPT_MORE,
    TRANSCRIPT_DONE,
    TRANSCRIPT_FAILED,
};

/* Borrowed until transcript_free. */
struct transcript_result {
    bool found;
    bool torn;
    bool truncated;
    uint32_t bad_lines;
    uint64_t size;
    uint64_t text_bytes;
    char entry_id[TRANSCRIPT_ID_MAX + 1];
    char stop_reason[TRANSCRIPT_NAME_MAX + 1];
    char error_message[TRANSCRIPT_ERROR_TEXT_MAX + 1];
};

/*
 * path absolute; leaf may be NULL or "". *out is the caller's (transcript_free). Fails with
 * *error: transcript_missing, transcript_invalid (not a regular file, no header), out_of_memory.
 * A file without one complete line is a session that was not written yet: nothing is found.
 */
int transcript_open(struct transcript **out, const char *path, const char *leaf,
                    uint64_t text_bytes_max, struct shp_error *error);
void transcript_free(struct transcript *transcript); /* NULL is fine */

enum transcript_status transcript_step(struct transcript *transcript, struct shp_error *error);
const struct transcript_result *transcript_result(const struct transcript *transcript);

/*
 * After DONE: the next piece of the reply's text, borrowed until the next call; *len 0: the end.
 * AGAIN: nothing yet, call again after other work had its turn; IO: the file changed under us.
 */
int transcript_text(struct transcript *transcript, const char **text, size_t *len);

#endif
