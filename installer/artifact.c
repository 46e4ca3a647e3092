#include "installer/artifact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sodium.h>

#include "base/id.h"

static const char *const architectures[] = {"x86_64", "aarch64"};
static const char *const places[] = {".", "../libexec/shepherdr"};

uint8_t *shp_artifact_read(const char *path, size_t bytes_max, size_t *len)
{
    FILE *file = fopen(path, "rbe");
    if (!file)
        return NULL;
    uint8_t *content = NULL;
    size_t size = 0;
    if (fseek(file, 0, SEEK_END) == 0) {
        long end = ftell(file);
        if (end > 0 && (size_t)end <= bytes_max && fseek(file, 0, SEEK_SET) == 0) {
            size = (size_t)end;
            content = malloc(size);
        }
    }
    if (content && fread(content, 1, size, file) != size) {
        free(content);
        content = NULL;
    }
    fclose(file);
    *len = size;
    return content;
}

static void add(struct shp_artifacts *artifacts, const char *arch, const char *path)
{
    size_t len = 0;
    uint8_t *content = shp_artifact_read(path, SHP_ARTIFACT_BYTES_MAX, &len);
    if (!content)
        return;
    struct shp_artifact *artifact = &artifacts->items[artifacts->len++];
    uint8_t digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(digest, content, len);
    shp_hex_encode(artifact->digest, digest, sizeof(digest));
    snprintf(artifact->system, sizeof(artifact->system), "Linux %s", arch);
    char hash[SHP_ARTIFACT_HASH_HEX + 1];
    shp_hex_encode(hash, digest, SHP_ARTIFACT_HASH_HEX / 2);
    snprintf(artifact->name, sizeof(artifact->name), "helper-linux-%s-%s", arch, hash);
    artifact->content = content;
    artifact->len = len;
}

struct shp_artifacts *shp_artifacts_load(const char *program_dir)
{
    struct shp_artifacts *artifacts = calloc(1, sizeof(*artifacts));
    struct utsname self;
    const char *own = uname(&self) == 0 ? self.machine : "";
    size_t size = 2 * strlen(program_dir) + 128;
    char *path = malloc(size);
    if (artifacts)
        artifacts->searched = malloc(size);
    if (!artifacts || !path || !artifacts->searched) {
        shp_artifacts_free(artifacts);
        free(path);
        return NULL;
    }
    snprintf(artifacts->searched, size, "%s, %s/%s", program_dir, program_dir, places[1]);
    for (size_t a = 0; a < sizeof(architectures) / sizeof(architectures[0]); a++) {
        size_t before = artifacts->len;
        for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++) {
            if (artifacts->len == before && strcmp(own, architectures[a]) == 0) {
                snprintf(path, size, "%s/%s/shepherdr-helper", program_dir, places[p]);
                add(artifacts, architectures[a], path);
            }
            if (artifacts->len == before) {
                snprintf(path, size, "%s/%s/helper-linux-%s", program_dir, places[p],
                         architectures[a]);
                add(artifacts, architectures[a], path);
            }
        }
    }
    free(path);
    return artifacts;
}

void shp_artifacts_free(struct shp_artifacts *artifacts)
{
    if (!artifacts)
        return;
    for (size_t i = 0; i < artifacts->len; i++)
        free(artifacts->items[i].content);
    free(artifacts->searched);
    free(artifacts);
}
