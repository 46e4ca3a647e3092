/*
 * Inside of the profiles: parsing apart from files (for the fuzz target and the tests), and the
 * bundled content.
 */
#ifndef SHP_CONTROLLER_PROFILES_PROFILE_INTERNAL_H
#define SHP_CONTROLLER_PROFILES_PROFILE_INTERNAL_H

#include "controller/profiles/profile.h"

#define SHP_PROFILE_PATH_MAX 4096
#define SHP_PROFILE_FILE_BYTES_MAX (64 * 1024)
#define SHP_PROFILE_PROMPT_BYTES_MAX (256 * 1024)
#define SHP_PROFILE_DESCRIPTION_BYTES_MAX 1024
#define SHP_PROFILE_VALUE_BYTES_MAX 256 /* model, thinking, one entry of accepts */
#define SHP_PROFILE_ARG_BYTES_MAX 4096
#define SHP_PROFILE_ACCEPTS_MAX 16

/* [a-z][a-z0-9_-]{0,31} */
bool shp_profile_name_valid(const char *name);

/*
 * Parse a profile.json. directory is put before the relative paths of prompt and prepare, which are
 * not looked at. path is for the error. *out is owned by the caller on success
 * (shp_profile_fini), and left alone on failure: SHP_ERR_INVALID, SHP_ERR_NOMEM.
 */
int shp_profile_parse(struct shp_profile *out, const char *name, const char *directory,
                      const char *path, const char *text, size_t len, struct shp_error *error);
void shp_profile_fini(struct shp_profile *profile);

/* Write the bundled profiles unless this agent directory had them before. */
int shp_profiles_install(const char *agent_dir, struct shp_error *error);

/* Read a regular file of at most max bytes; malloc'ed and NUL-terminated. SHP_ERR_NOT_FOUND,
 * SHP_ERR_LIMIT, SHP_ERR_INVALID (no regular file), SHP_ERR_NOMEM, SHP_ERR_IO (errno). */
int shp_profile_read_file(const char *path, size_t max, char **text, size_t *len);

struct shp_bundled_profile {
    const char *name;
    const char *json;
    const char *prompt; /* content of prompt.md */
};
extern const struct shp_bundled_profile shp_bundled_profiles[];
extern const size_t shp_bundled_profiles_len;

#endif
