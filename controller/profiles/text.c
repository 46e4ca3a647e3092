#include "controller/profiles/text.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

bool shp_text_is_line(const char *text, size_t len)
{
    const uint8_t *bytes = (const uint8_t *)text;
    for (size_t i = 0; i < len;) {
        size_t size = shp_utf8_char(bytes + i, len - i);
        if (size == 0 || (size == 1 && (bytes[i] < 0x20 || bytes[i] == 0x7f)) ||
            (size == 2 && bytes[i] == 0xc2 && bytes[i + 1] < 0xa0))
            return false;
        i += size;
    }
    return true;
}

bool shp_text_is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n\v\f")] == '\0';
}

const char *shp_json_duplicate(const cJSON *object)
{
    for (const cJSON *a = object->child; a != NULL; a = a->next)
        for (const cJSON *b = a->next; b != NULL; b = b->next)
            if (strcmp(a->string, b->string) == 0)
                return a->string;
    return NULL;
}
