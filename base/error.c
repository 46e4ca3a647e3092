#include "base/error.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *shp_strerror(int err)
{
    switch (err) {
    case SHP_OK:
        return "success";
#define XX(name, value, text)                                                                      \
    case value:                                                                                    \
        return text;
        SHP_ERR_MAP(XX)
#undef XX
    default:
        return "unknown error";
    }
}

/* C1 control characters are U+0080 to U+009F: C2 80 to C2 9F. */
static bool is_control(const uint8_t *character, size_t size)
{
    if (size == 1)
        return (character[0] < 0x20 && character[0] != '\t') || character[0] == 0x7f;
    return size == 2 && character[0] == 0xc2 && character[1] < 0xa0;
}

size_t shp_text_clean(char *out, size_t size, const char *text, size_t len)
{
    const uint8_t *in = (const uint8_t *)text;
    size_t used = 0;
    if (size == 0)
        return 0;
    for (size_t i = 0; i < len;) {
        size_t bytes = shp_utf8_char(in + i, len - i);
        bool replaced = bytes == 0 || is_control(in + i, bytes);
        size_t out_bytes = replaced ? 1 : bytes;
        if (used + out_bytes > size - 1)
            break;
        if (replaced)
            out[used] = in[i] == '\n' ? ' ' : '?';
        else
            memcpy(out + used, in + i, bytes);
        used += out_bytes;
        i += bytes > 0 ? bytes : 1;
    }
    out[used] = '\0';
    return used;
}

static void clean_into(char *out, size_t size, const char *text)
{
    shp_text_clean(out, size, text ? text : "", text ? strlen(text) : 0);
}

void shp_error_vset(struct shp_error *error, int code, const char *machine, const char *step,
                    const char *cause_format, va_list args)
{
    /* Twice the size: text that vsnprintf cuts inside a character is cut again, cleanly, below. */
    char raw[2 * SHP_ERROR_CAUSE_MAX];
    raw[0] = '\0';
    if (cause_format)
        (void)vsnprintf(raw, sizeof(raw), cause_format, args);
    /* The arguments may point into *error (a cause that is wrapped): it is written after them. */
    struct shp_error made = {.code = code, .outcome = SHP_OUTCOME_REJECTED};
    clean_into(made.machine, sizeof(made.machine), machine);
    clean_into(made.step, sizeof(made.step), step);
    clean_into(made.cause, sizeof(made.cause), raw);
    *error = made;
}

void shp_error_set(struct shp_error *error, int code, const char *machine, const char *step,
                   const char *cause_format, ...)
{
    va_list args;
    va_start(args, cause_format);
    shp_error_vset(error, code, machine, step, cause_format, args);
    va_end(args);
}

void shp_error_add_machine(struct shp_error *error, const char *machine)
{
    if (error->machine[0] == '\0')
        clean_into(error->machine, sizeof(error->machine), machine);
}
