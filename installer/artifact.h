/*
 * The helpers that this installation can send: static programs, one per system, with their digest.
 */
#ifndef SHP_INSTALLER_ARTIFACT_H
#define SHP_INSTALLER_ARTIFACT_H

#include <stddef.h>
#include <stdint.h>

#define SHP_ARTIFACTS_MAX 4
#define SHP_ARTIFACT_BYTES_MAX (32 * 1024 * 1024)
#define SHP_ARTIFACT_HASH_HEX 32

struct shp_artifact {
    char system[32]; /* as `uname -sm` prints it: "Linux x86_64" */
    char name[80];   /* helper-<os>-<arch>-<first 32 hex of the digest> */
    char digest[65]; /* SHA-256, hex */
    uint8_t *content;
    size_t len;
};

struct shp_artifacts {
    struct shp_artifact items[SHP_ARTIFACTS_MAX];
    size_t len;
    char *searched; /* the directories, for an error text */
};

/*
 * Find helpers from the directory of the program: helper-linux-<arch> for every known
 * architecture, and shepherdr-helper for the architecture that we run on, each in the directory
 * itself and in ../libexec/shepherdr beside it. NULL: out of memory. Finding none is not an error
 * here (len 0).
 */
struct shp_artifacts *shp_artifacts_load(const char *program_dir);
void shp_artifacts_free(struct shp_artifacts *artifacts); /* NULL is fine */

/*
 * A file of this installation, whole; the caller frees it with free. NULL: it cannot be read, is
 * empty, has more than bytes_max bytes, or there is no memory.
 */
uint8_t *shp_artifact_read(const char *path, size_t bytes_max, size_t *len);

#endif
