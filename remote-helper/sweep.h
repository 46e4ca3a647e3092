/*
 * Keeps the directory of installed helpers bounded (spec/protocol.md 9): at its start a helper
 * removes all but SWEEP_KEEP, itself and the newest others, and temporary files of uploads that are
 * older than SWEEP_TEMPORARY_S. Only regular files of our uid whose names we give.
 */
#ifndef SHP_REMOTE_HELPER_SWEEP_H
#define SHP_REMOTE_HELPER_SWEEP_H

#include <stdbool.h>
#include <stddef.h>

#define SWEEP_KEEP 4 /* the running one and three others: up- and downgrade without an upload */
#define SWEEP_TEMPORARY_S 3600

/* Name of an installed helper: helper-<os>-<arch>-<32 hex>. */
bool sweep_is_helper(const char *name);

/* out gets the path of the running program, by /proc or an absolute argv[0]. */
bool sweep_own_path(char *out, size_t size, const char *program);

/* How many files sweep_programs would remove now; removes none. */
size_t sweep_stale(const char *program);

/* program: path of the running one. Does nothing when it was not started from its place. */
void sweep_programs(const char *program);

#endif
