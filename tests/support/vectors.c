#include "tests/support/vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"

static void die(const char *what, const char *name)
{
    fprintf(stderr, "vectors: %s: %s\n", what, name);
    exit(1);
}

cJSON *vectors_load(const char *root, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/spec/vectors/%s", root, name);
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        die("cannot open", path);
    long size = ftell(file);
    rewind(file);
    char *text = size > 0 ? malloc((size_t)size) : NULL;
    if (!text || fread(text, 1, (size_t)size, file) != (size_t)size)
        die("cannot read", path);
    fclose(file);
    cJSON *tree = cJSON_ParseWithLength(text, (size_t)size);
    free(text);
    if (!tree)
        die("no JSON", path);
    return tree;
}

const cJSON *vectors_get(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!item)
        die("no member", name);
    return item;
}

const char *vectors_string(const cJSON *object, const char *name)
{
    const cJSON *item = vectors_get(object, name);
    if (!cJSON_IsString(item))
        die("no string", name);
    return item->valuestring;
}

int vectors_int(const cJSON *object, const char *name)
{
    const cJSON *item = vectors_get(object, name);
    if (!cJSON_IsNumber(item))
        die("no number", name);
    return (int)item->valuedouble;
}

void vectors_hex(const cJSON *object, const char *name, uint8_t *out, size_t len)
{
    const char *hex = vectors_string(object, name);
    if (shp_hex_decode(out, len, hex, strlen(hex)) != 0)
        die("no hex of the wanted length", name);
}

uint8_t *vectors_bytes(const cJSON *item, size_t *len)
{
    const char *first = "";
    const char *last = "";
    size_t count = 0;
    int fill = 0;
    if (cJSON_IsString(item)) {
        first = item->valuestring;
    } else {
        first = vectors_string(item, "hex");
        last = vectors_string(item, "then");
        count = (size_t)vectors_int(item, "count");
        fill = vectors_int(item, "fill");
    }
    size_t first_len = strlen(first) / 2;
    size_t last_len = strlen(last) / 2;
    *len = first_len + count + last_len;
    uint8_t *out = malloc(*len > 0 ? *len : 1);
    if (!out || shp_hex_decode(out, first_len, first, strlen(first)) != 0 ||
        shp_hex_decode(out + first_len + count, last_len, last, strlen(last)) != 0)
        die("no hex", first);
    memset(out + first_len, fill, count);
    return out;
}
