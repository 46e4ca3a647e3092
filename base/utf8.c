#include "base/utf8.h"

static bool continues(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

size_t shp_utf8_char(const uint8_t *text, size_t len)
{
    if (len == 0)
        return 0;
    uint8_t first = text[0];
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        return len >= 2 && continues(text[1]) ? 2 : 0;
    if (first >= 0xe0 && first <= 0xef) {
        if (len < 3 || !continues(text[1]) || !continues(text[2]))
            return 0;
        bool overlong = first == 0xe0 && text[1] < 0xa0;
        bool surrogate = first == 0xed && text[1] > 0x9f;
        return overlong || surrogate ? 0 : 3;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        if (len < 4 || !continues(text[1]) || !continues(text[2]) || !continues(text[3]))
            return 0;
        bool overlong = first == 0xf0 && text[1] < 0x90;
        bool above = first == 0xf4 && text[1] > 0x8f;
        return overlong || above ? 0 : 4;
    }
    return 0;
}

bool shp_utf8_valid(const uint8_t *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t size = shp_utf8_char(text + i, len - i);
        if (size == 0)
            return false;
        i += size;
    }
    return true;
}
