#include "base/id.h"

#include "base/error.h"

#include <sodium.h>

void shp_hex_encode(char *out, const uint8_t *in, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[in[i] >> 4];
        out[2 * i + 1] = digits[in[i] & 15];
    }
    out[2 * len] = '\0';
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

bool shp_hex_valid(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (digit_value(text[i]) < 0)
            return false;
    return true;
}

int shp_hex_decode(uint8_t *out, size_t out_len, const char *hex, size_t hex_len)
{
    if (hex_len % 2 != 0 || hex_len / 2 != out_len || !shp_hex_valid(hex, hex_len))
        return SHP_ERR_INVALID;
    for (size_t i = 0; i < out_len; i++)
        out[i] = (uint8_t)(digit_value(hex[2 * i]) * 16 + digit_value(hex[2 * i + 1]));
    return SHP_OK;
}

bool shp_bytes_equal(const void *a, const void *b, size_t len)
{
    return sodium_memcmp(a, b, len) == 0;
}

void shp_bytes_wipe(void *bytes, size_t len)
{
    sodium_memzero(bytes, len);
}
