/*
 * Profiles: what kinds of agents can be spawned. <agent dir>/shepherdr/profiles/<name>/profile.json
 * is authoritative and read again on every use; the three bundled ones are written at the first
 * load only, guarded by the marker <agent dir>/shepherdr/.profiles-initialized.
 */
#ifndef SHP_CONTROLLER_PROFILES_PROFILE_H
#define SHP_CONTROLLER_PROFILES_PROFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define SHP_PROFILE_NAME_MAX 32
#define SHP_PROFILES_MAX 256
#define SHP_PROFILE_ARGS_MAX 64

enum shp_tristate { SHP_UNSET = -1, SHP_FALSE = 0, SHP_TRUE = 1 };

struct shp_profile {
    char name[SHP_PROFILE_NAME_MAX + 1];
    char *description;
    char *model;
    char *thinking;
    char *prompt_path;  /* absolute path of the prompt file, or NULL */
    char *prepare_path; /* absolute path of the prepare module, or NULL */
    bool accepts_base;
    char **args; /* pi_args */
    size_t args_len;
    enum shp_tristate blocking;
    enum shp_tristate share_context;
};

struct shp_profiles {
    struct shp_profile *items; /* sorted by name */
    size_t len;
};

/*
 * Install the bundled profiles if this agent directory never had them, then read all. On failure
 * *error is profile_invalid with the file's path and what is wrong with it (one bad profile fails
 * the load). The caller owns *out (shp_profiles_fini).
 */
int shp_profiles_load(struct shp_profiles *out, const char *agent_dir, struct shp_error *error);
void shp_profiles_fini(struct shp_profiles *profiles);
/* Borrowed, or NULL. */
const struct shp_profile *shp_profiles_find(const struct shp_profiles *profiles, const char *name);

/* Read a prompt file, at most 256 KiB; malloc'ed, NUL-terminated. */
int shp_profile_read_prompt(const struct shp_profile *profile, char **text, size_t *len,
                            struct shp_error *error);

#endif
