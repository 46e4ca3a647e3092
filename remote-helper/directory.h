/* Directories as a person writes them -> the real path that a program can be started in. */
#ifndef SHP_REMOTE_HELPER_DIRECTORY_H
#define SHP_REMOTE_HELPER_DIRECTORY_H

#include <stddef.h>

#include "base/error.h"

/*
 * "~" and "~/..." begin at home, relative paths at base (absolute) or, without it, at home. The
 * directory must exist and be open to us. out gets the real path.
 * *error: invalid_params (empty, another user's ~, base not absolute), directory_missing.
 */
int directory_resolve(const char *path, const char *base, const char *home, char *out, size_t size,
                      struct shp_error *error);

#endif
