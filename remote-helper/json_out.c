#include "remote-helper/json_out.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

void json_out_init(struct json_out *out, size_t bytes_max)
{
    *out = (struct json_out){.max = bytes_max};
}

void json_out_fini(struct json_out *out)
{
    free(out->data);
    *out = (struct json_out){0};
}

int json_out_status(const struct json_out *out)
{
    return out->status;
}

static void put(struct json_out *out, const char *text, size_t len)
{
    if (out->status != 0)
        return;
    if (len > out->max - out->len) {
        out->status = SHP_ERR_LIMIT;
        return;
    }
    size_t wanted = out->len + len + 1;
    if (wanted > out->capacity) {
        size_t capacity = out->capacity == 0 ? 256 : out->capacity;
        while (capacity < wanted)
            capacity *= 2;
        char *data = realloc(out->data, capacity);
        if (data == NULL) {
            out->status = SHP_ERR_NOMEM;
            return;
        }
        out->data = data;
        out->capacity = capacity;
    }
    memcpy(out->data + out->len, text, len);
    out->len += len;
    out->data[out->len] = '\0';
}

void json_out_raw(struct json_out *out, const char *text)
{
    put(out, text, strlen(text));
}

static void put_escaped(struct json_out *out, unsigned char byte)
{
    static const char hex[] = "0123456789abcdef";
    char text[7] = {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15], '\0'};
    switch (byte) {
    case '"':
    case '\\':
        text[1] = (char)byte;
        put(out, text, 2);
        break;
    case '\n':
        put(out, "\\n", 2);
        break;
    case '\t':
        put(out, "\\t", 2);
        break;
    default:
        put(out, text, 6);
    }
}

void json_out_string(struct json_out *out, const char *text, size_t len)
{
    const unsigned char *bytes = (const unsigned char *)text;
    put(out, "\"", 1);
    size_t at = 0;
    while (at < len && out->status == 0) {
        size_t run = at;
        size_t step = 1;
        while (run < len) {
            if (bytes[run] < 0x20 || bytes[run] == '"' || bytes[run] == '\\' || bytes[run] == 0x7f)
                break;
            step = shp_utf8_char(bytes + run, len - run);
            if (step == 0)
                break;
            run += step;
        }
        put(out, text + at, run - at);
        at = run;
        if (at == len)
            break;
        if (bytes[at] >= 0x80)
            put(out, "\xef\xbf\xbd", 3);
        else
            put_escaped(out, bytes[at]);
        at++;
    }
    put(out, "\"", 1);
}

void json_out_u64(struct json_out *out, uint64_t value)
{
    char text[20];
    size_t at = sizeof text;
    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    put(out, text + at, sizeof text - at);
}

void json_out_next(struct json_out *out)
{
    if (out->status != 0 || out->len == 0)
        return;
    char last = out->data[out->len - 1];
    if (last != '{' && last != '[')
        put(out, ",", 1);
}

void json_out_key(struct json_out *out, const char *key)
{
    json_out_next(out);
    put(out, "\"", 1);
    json_out_raw(out, key);
    put(out, "\":", 2);
}

void json_out_member_string(struct json_out *out, const char *key, const char *text)
{
    if (text == NULL)
        return;
    json_out_key(out, key);
    json_out_string(out, text, strlen(text));
}

void json_out_member_u64(struct json_out *out, const char *key, uint64_t value)
{
    json_out_key(out, key);
    json_out_u64(out, value);
}

void json_out_member_bool(struct json_out *out, const char *key, bool value)
{
    json_out_key(out, key);
    json_out_raw(out, value ? "true" : "false");
}
