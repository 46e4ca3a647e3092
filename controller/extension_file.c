#include "controller/extension_file.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sodium.h>

#include "base/id.h"
#include "controller/xalloc.h"
#include "installer/artifact.h"

void extension_file_load(struct extension_file *file, const char *program_dir)
{
    static const char *const places[] = {"../pi-ext", "../libexec/shepherdr", "."};
    *file = (struct extension_file){0};
    for (size_t i = 0; !file->content && i < sizeof(places) / sizeof(places[0]); i++) {
        free(file->path);
        file->path = xasprintf("%s/%s/" EXTENSION_FILE_NAME, program_dir, places[i]);
        file->content = (char *)shp_artifact_read(file->path, EXTENSION_FILE_BYTES_MAX, &file->len);
    }
    if (!file->content) {
        free(file->path);
        file->path = xasprintf("%s/{%s,%s,%s}", program_dir, places[0], places[1], places[2]);
        return;
    }
    uint8_t digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(digest, (const unsigned char *)file->content, file->len);
    shp_hex_encode(file->digest, digest, sizeof(digest));
}

void extension_file_fini(struct extension_file *file)
{
    free(file->content);
    free(file->path);
    *file = (struct extension_file){0};
}
