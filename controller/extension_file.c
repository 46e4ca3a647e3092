#include "controller/extension_file.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sodium.h>

#include "base/id.h"
#include "controller/xalloc.h"

static char *read_whole(const char *path, size_t *len)
{
    FILE *stream = fopen(path, "rbe");
    if (!stream)
        return NULL;
    char *content = xcalloc(1, EXTENSION_FILE_BYTES_MAX + 1);
    size_t got = fread(content, 1, EXTENSION_FILE_BYTES_MAX + 1, stream);
    fclose(stream);
    if (got == 0 || got > EXTENSION_FILE_BYTES_MAX) {
        free(content);
        return NULL;
    }
    *len = got;
    return xrealloc(content, got);
}

void extension_file_load(struct extension_file *file, const char *program_dir)
{
    static const char *const places[] = {"../pi-ext", "../libexec/shepherdr", "."};
    *file = (struct extension_file){0};
    for (size_t i = 0; !file->content && i < sizeof(places) / sizeof(places[0]); i++) {
        free(file->path);
        file->path = xasprintf("%s/%s/" EXTENSION_FILE_NAME, program_dir, places[i]);
        file->content = read_whole(file->path, &file->len);
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
