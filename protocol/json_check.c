#include "protocol/json_check.h"

#include "base/error.h"
#include "base/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Containers are bits on a stack: 1 for an object, 0 for an array. */
#define DEPTH_LIMIT 64

struct scanner {
    const uint8_t *at;
    const uint8_t *end;
    uint64_t objects;
    unsigned depth;
    unsigned depth_max;
};

static void skip_space(struct scanner *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
}

static bool take(struct scanner *s, char c)
{
    if (s->at == s->end || *s->at != (uint8_t)c)
        return false;
    s->at++;
    return true;
}

static bool take_word(struct scanner *s, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(s->end - s->at) < len || memcmp(s->at, word, len) != 0)
        return false;
    s->at += len;
    return true;
}

static int hex4(struct scanner *s)
{
    int value = 0;
    if (s->end - s->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        uint8_t c = *s->at++;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* Behind a backslash. A surrogate must be one half of a pair: alone it has no UTF-8. */
static bool take_escape(struct scanner *s)
{
    if (s->at == s->end)
        return false;
    uint8_t c = *s->at++;
    if (c != 'u')
        return strchr("\"\\/bfnrt", c) && c != '\0';
    int unit = hex4(s);
    if (unit < 0 || (unit >= 0xdc00 && unit <= 0xdfff))
        return false;
    if (unit >= 0xd800 && unit <= 0xdbff) {
        if (!take(s, '\\') || !take(s, 'u'))
            return false;
        int low = hex4(s);
        return low >= 0xdc00 && low <= 0xdfff;
    }
    return true;
}

static bool take_string(struct scanner *s)
{
    if (!take(s, '"'))
        return false;
    while (s->at < s->end) {
        uint8_t c = *s->at;
        if (c == '"') {
            s->at++;
            return true;
        }
        if (c < 0x20)
            return false;
        if (c == '\\') {
            s->at++;
            if (!take_escape(s))
                return false;
            continue;
        }
        size_t size = shp_utf8_char(s->at, (size_t)(s->end - s->at));
        if (size == 0)
            return false;
        s->at += size;
    }
    return false;
}

static bool take_digits(struct scanner *s)
{
    const uint8_t *begin = s->at;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
        s->at++;
    return s->at > begin;
}

static bool take_number(struct scanner *s)
{
    (void)take(s, '-');
    if (!take(s, '0') && !take_digits(s))
        return false;
    if (take(s, '.') && !take_digits(s))
        return false;
    if (take(s, 'e') || take(s, 'E')) {
        if (!take(s, '+'))
            (void)take(s, '-');
        if (!take_digits(s))
            return false;
    }
    return true;
}

static bool push(struct scanner *s, bool object)
{
    if (s->depth == s->depth_max)
        return false;
    s->objects = s->objects << 1 | (object ? 1 : 0);
    s->depth++;
    return true;
}

static bool in_object(const struct scanner *s)
{
    return (s->objects & 1) != 0;
}

static void pop(struct scanner *s)
{
    s->objects >>= 1;
    s->depth--;
}

static bool take_key(struct scanner *s)
{
    skip_space(s);
    if (!take_string(s))
        return false;
    skip_space(s);
    return take(s, ':');
}

/*
 * A value up to where it is complete, or until a container was opened that is not empty: *complete
 * tells which.
 */
static bool take_value(struct scanner *s, bool *complete)
{
    *complete = true;
    skip_space(s);
    if (s->at == s->end)
        return false;
    switch (*s->at) {
    case '{':
    case '[': {
        bool object = *s->at++ == '{';
        if (!push(s, object))
            return false;
        skip_space(s);
        if (take(s, object ? '}' : ']')) {
            pop(s);
            return true;
        }
        *complete = false;
        return !object || take_key(s);
    }
    case '"':
        return take_string(s);
    case 't':
        return take_word(s, "true");
    case 'f':
        return take_word(s, "false");
    case 'n':
        return take_word(s, "null");
    default:
        return take_number(s);
    }
}

/* Behind a complete value: close containers that end here, or go on to the next value. */
static bool after_value(struct scanner *s, bool *done)
{
    *done = false;
    while (s->depth > 0) {
        skip_space(s);
        if (take(s, ','))
            return !in_object(s) || take_key(s);
        if (!take(s, in_object(s) ? '}' : ']'))
            return false;
        pop(s);
    }
    *done = true;
    return true;
}

int shp_json_check_object(const char *json, size_t len, unsigned depth_max)
{
    struct scanner s = {
        .at = (const uint8_t *)json,
        .end = (const uint8_t *)json + len,
        .depth_max = depth_max < DEPTH_LIMIT ? depth_max : DEPTH_LIMIT,
    };
    skip_space(&s);
    if (s.at == s.end || *s.at != '{')
        return SHP_ERR_INVALID;
    for (bool done = false; !done;) {
        bool complete;
        if (!take_value(&s, &complete))
            return SHP_ERR_INVALID;
        if (complete && !after_value(&s, &done))
            return SHP_ERR_INVALID;
    }
    skip_space(&s);
    return s.at == s.end ? SHP_OK : SHP_ERR_INVALID;
}

bool shp_json_has_nul(const char *json, size_t len)
{
    static const char escape[] = "\\u0000";
    const size_t escape_len = sizeof(escape) - 1;
    for (size_t i = 0; i + escape_len <= len; i++) {
        if (json[i] != '\\')
            continue;
        if (memcmp(json + i, escape, escape_len) == 0)
            return true;
        i++; /* the escaped character, which may be a backslash itself */
    }
    return false;
}

static void put(char *out, size_t size, size_t *used, const char *bytes, size_t len)
{
    if (*used <= size && len <= size - *used)
        memcpy(out + *used, bytes, len);
    *used += len;
}

void shp_json_put_raw(char *out, size_t size, size_t *used, const char *text)
{
    put(out, size, used, text, strlen(text));
}

void shp_json_put_string(char *out, size_t size, size_t *used, const char *text)
{
    put(out, size, used, "\"", 1);
    for (const char *c = text; *c != '\0'; c++) {
        char escaped[8];
        if (*c == '"' || *c == '\\') {
            escaped[0] = '\\';
            escaped[1] = *c;
            put(out, size, used, escaped, 2);
        } else if ((unsigned char)*c < 0x20) {
            (void)snprintf(escaped, sizeof(escaped), "\\u%04x", (unsigned)(unsigned char)*c);
            put(out, size, used, escaped, 6);
        } else {
            put(out, size, used, c, 1);
        }
    }
    put(out, size, used, "\"", 1);
}
