#include "remote-helper/json_scan.h"

#include <string.h>

#include "base/error.h"

/* Shorter runs of ASCII are gathered, longer ones are passed on without a copy. */
#define RUN_DIRECT_BYTES 64

enum scan_state {
    SCAN_VALUE,        /* a value must begin */
    SCAN_ARRAY_FIRST,  /* a value, or the end of an empty array */
    SCAN_OBJECT_FIRST, /* a key, or the end of an empty object */
    SCAN_KEY,          /* a key must begin */
    SCAN_COLON,
    SCAN_AFTER, /* a comma or the end of the container */
    SCAN_STRING,
    SCAN_ESCAPE,
    SCAN_HEX,
    SCAN_NUMBER,
    SCAN_LITERAL,
    SCAN_DONE,
};

enum number_state {
    NUMBER_MINUS,
    NUMBER_ZERO,
    NUMBER_INT,
    NUMBER_POINT,
    NUMBER_FRACTION,
    NUMBER_E,
    NUMBER_E_SIGN,
    NUMBER_EXPONENT,
};

static const char *const literals[] = {"true", "false", "null"};
static const uint8_t literal_tokens[] = {JSON_TRUE, JSON_FALSE, JSON_NULL};

void json_scan_init(struct json_scan *scan, json_scan_cb cb, void *user)
{
    /* The big arrays need no clearing. */
    memset(scan, 0, offsetof(struct json_scan, piece));
    scan->cb = cb;
    scan->user = user;
    scan->state = SCAN_VALUE;
}

static int emit(struct json_scan *scan, enum json_token token, const char *text, size_t len)
{
    int result = scan->cb(scan, token, text, len, scan->user);
    return result < 0 ? result : (result == JSON_SCAN_SKIP && token == JSON_STRING ? result : 0);
}

static void value_done(struct json_scan *scan)
{
    scan->state = scan->depth == 0 ? SCAN_DONE : SCAN_AFTER;
}

static bool in_object(const struct json_scan *scan)
{
    unsigned at = scan->depth - 1;
    return (scan->containers[at / 8] >> (at % 8) & 1) != 0;
}

static int container_begin(struct json_scan *scan, bool object)
{
    if (scan->depth >= JSON_SCAN_DEPTH_MAX)
        return SHP_ERR_LIMIT;
    int status = emit(scan, object ? JSON_OBJECT : JSON_ARRAY, NULL, 0);
    if (status != 0)
        return status;
    unsigned at = scan->depth++;
    uint8_t bit = (uint8_t)(1u << (at % 8));
    if (object)
        scan->containers[at / 8] |= bit;
    else
        scan->containers[at / 8] &= (uint8_t)~bit;
    scan->key[0] = '\0';
    scan->state = object ? SCAN_OBJECT_FIRST : SCAN_ARRAY_FIRST;
    return 0;
}

static int container_end(struct json_scan *scan, bool object)
{
    if (scan->depth == 0 || in_object(scan) != object)
        return SHP_ERR_INVALID;
    scan->depth--;
    int status = emit(scan, object ? JSON_OBJECT_END : JSON_ARRAY_END, NULL, 0);
    scan->key[0] = '\0';
    value_done(scan);
    return status;
}

/* ---- text --------------------------------------------------------------------------------- */

static int piece_flush(struct json_scan *scan)
{
    if (scan->piece_len == 0)
        return 0;
    size_t len = scan->piece_len;
    scan->piece_len = 0;
    return emit(scan, JSON_STRING_PART, scan->piece, len);
}

/* Append one whole character. */
static int text_put(struct json_scan *scan, const char *text, size_t len)
{
    if (scan->in_key) {
        /* A cut key must not equal a known one, so nothing is added after the first that misses. */
        if (scan->key_len + len <= JSON_SCAN_KEY_MAX)
            memcpy(scan->key + scan->key_len, text, len);
        scan->key_len += len;
        return 0;
    }
    if (scan->piece_len + len > sizeof scan->piece) {
        int status = piece_flush(scan);
        if (status != 0)
            return status;
    }
    memcpy(scan->piece + scan->piece_len, text, len);
    scan->piece_len += len;
    return 0;
}

static int text_put_replacement(struct json_scan *scan)
{
    return text_put(scan, "\xef\xbf\xbd", 3);
}

static int text_put_code(struct json_scan *scan, uint32_t code)
{
    char out[4];
    size_t len;
    if (code < 0x80) {
        out[0] = (char)code;
        len = 1;
    } else if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        len = 2;
    } else if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        len = 3;
    } else {
        out[0] = (char)(0xf0 | code >> 18);
        out[1] = (char)(0x80 | (code >> 12 & 0x3f));
        out[2] = (char)(0x80 | (code >> 6 & 0x3f));
        out[3] = (char)(0x80 | (code & 0x3f));
        len = 4;
    }
    return text_put(scan, out, len);
}

/* What was begun (a high surrogate, a UTF-8 sequence) did not go on. */
static int text_break_off(struct json_scan *scan)
{
    int status = 0;
    if (scan->high_surrogate != 0) {
        scan->high_surrogate = 0;
        status = text_put_replacement(scan);
    }
    if (scan->utf8_need != 0) {
        scan->utf8_need = 0;
        if (status == 0)
            status = text_put_replacement(scan);
    }
    return status;
}

/* A byte of at least 0x80 inside a string: the decoder of the WHATWG encoding standard. */
static int text_put_high_byte(struct json_scan *scan, uint8_t byte)
{
    if (scan->utf8_need != 0) {
        if (byte >= scan->utf8_low && byte <= scan->utf8_high) {
            scan->utf8[scan->utf8_have++] = (char)byte;
            scan->utf8_low = 0x80;
            scan->utf8_high = 0xbf;
            if (scan->utf8_have < scan->utf8_need)
                return 0;
            scan->utf8_need = 0;
            return text_put(scan, scan->utf8, scan->utf8_have);
        }
    }
    int status = text_break_off(scan);
    if (status != 0)
        return status;
    scan->utf8_low = 0x80;
    scan->utf8_high = 0xbf;
    if (byte >= 0xc2 && byte <= 0xdf) {
        scan->utf8_need = 2;
    } else if (byte >= 0xe0 && byte <= 0xef) {
        scan->utf8_need = 3;
        if (byte == 0xe0)
            scan->utf8_low = 0xa0;
        if (byte == 0xed)
            scan->utf8_high = 0x9f;
    } else if (byte >= 0xf0 && byte <= 0xf4) {
        scan->utf8_need = 4;
        if (byte == 0xf0)
            scan->utf8_low = 0x90;
        if (byte == 0xf4)
            scan->utf8_high = 0x8f;
    } else {
        return text_put_replacement(scan);
    }
    scan->utf8[0] = (char)byte;
    scan->utf8_have = 1;
    return 0;
}

static int text_put_unit(struct json_scan *scan, uint16_t unit)
{
    if (unit >= 0xdc00 && unit <= 0xdfff && scan->high_surrogate != 0) {
        uint32_t code = 0x10000u + ((uint32_t)(scan->high_surrogate - 0xd800) << 10) +
                        (uint32_t)(unit - 0xdc00);
        scan->high_surrogate = 0;
        return text_put_code(scan, code);
    }
    int status = text_break_off(scan);
    if (status != 0)
        return status;
    if (unit >= 0xd800 && unit <= 0xdbff) {
        scan->high_surrogate = unit;
        return 0;
    }
    if (unit >= 0xdc00 && unit <= 0xdfff)
        return text_put_replacement(scan);
    return text_put_code(scan, unit);
}

static void string_begin(struct json_scan *scan, bool key)
{
    scan->in_key = key;
    scan->key_len = key ? 0 : scan->key_len;
    scan->piece_len = 0;
    scan->skip = false;
    scan->high_surrogate = 0;
    scan->utf8_need = 0;
    scan->state = SCAN_STRING;
}

static int string_end(struct json_scan *scan)
{
    int status = text_break_off(scan);
    if (status != 0)
        return status;
    if (scan->in_key) {
        size_t len = scan->key_len < JSON_SCAN_KEY_MAX ? scan->key_len : JSON_SCAN_KEY_MAX;
        if (scan->key_len > JSON_SCAN_KEY_MAX)
            memset(scan->key, '?', sizeof scan->key - 1);
        /* A NUL inside would let a longer key look like a known one. */
        if (memchr(scan->key, '\0', len) != NULL)
            memset(scan->key, '?', len);
        scan->key[len] = '\0';
        scan->in_key = false;
        scan->state = SCAN_COLON;
        return 0;
    }
    status = piece_flush(scan);
    if (status == 0)
        status = emit(scan, JSON_STRING_END, NULL, 0);
    value_done(scan);
    return status;
}

/* Bytes of data from at on that are printable ASCII and need no look at each. */
static size_t plain_run(const uint8_t *data, size_t len, size_t at)
{
    size_t i = at;
    while (i < len && data[i] >= 0x20 && data[i] < 0x80 && data[i] != '"' && data[i] != '\\')
        i++;
    return i - at;
}

/* A run of ASCII: long ones go out as they stand in the input. */
static int text_put_run(struct json_scan *scan, const uint8_t *run, size_t len)
{
    int status = text_break_off(scan);
    if (status == 0 && !scan->in_key && len >= RUN_DIRECT_BYTES) {
        status = piece_flush(scan);
        return status != 0 ? status : emit(scan, JSON_STRING_PART, (const char *)run, len);
    }
    for (size_t i = 0; i < len && status == 0; i++)
        status = text_put(scan, (const char *)run + i, 1);
    return status;
}

/* Inside a string; advances *at up to the byte that needs another state. */
static int scan_string(struct json_scan *scan, const uint8_t *data, size_t len, size_t *at)
{
    size_t i = *at;
    int status = 0;
    if (scan->skip) {
        while (i < len && data[i] != '"' && data[i] != '\\' && data[i] >= 0x20)
            i++;
    } else {
        while (i < len && status == 0) {
            size_t run = plain_run(data, len, i);
            if (run > 0) {
                status = text_put_run(scan, data + i, run);
                i += run;
                continue;
            }
            if (data[i] < 0x80)
                break;
            if (scan->high_surrogate != 0)
                status = text_break_off(scan);
            if (status == 0)
                status = text_put_high_byte(scan, data[i]);
            i++;
        }
    }
    *at = i;
    if (status != 0 || i == len)
        return status;
    if (data[i] < 0x20)
        return SHP_ERR_INVALID;
    *at = i + 1;
    if (data[i] == '"')
        return string_end(scan);
    scan->state = SCAN_ESCAPE;
    return 0;
}

static int scan_escape(struct json_scan *scan, uint8_t byte)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    if (byte == 'u') {
        scan->hex = 0;
        scan->hex_left = 4;
        scan->state = SCAN_HEX;
        return 0;
    }
    const char *found = byte == 0 ? NULL : strchr(from, byte);
    if (found == NULL)
        return SHP_ERR_INVALID;
    scan->state = SCAN_STRING;
    if (scan->skip)
        return 0;
    int status = text_break_off(scan);
    return status != 0 ? status : text_put(scan, &to[found - from], 1);
}

static int scan_hex(struct json_scan *scan, uint8_t byte)
{
    unsigned digit;
    if (byte >= '0' && byte <= '9')
        digit = (unsigned)(byte - '0');
    else if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f')
        digit = (unsigned)((byte | 0x20) - 'a' + 10);
    else
        return SHP_ERR_INVALID;
    scan->hex = (uint16_t)((unsigned)scan->hex << 4 | digit);
    if (--scan->hex_left != 0)
        return 0;
    scan->state = SCAN_STRING;
    return scan->skip ? 0 : text_put_unit(scan, scan->hex);
}

/* ---- numbers ------------------------------------------------------------------------------ */

/* Next state for a byte, -1 when the number ends before it. */
static int number_next(uint8_t state, uint8_t byte)
{
    bool digit = byte >= '0' && byte <= '9';
    bool exponent = byte == 'e' || byte == 'E';
    switch ((enum number_state)state) {
    case NUMBER_MINUS:
        return !digit ? -1 : byte == '0' ? NUMBER_ZERO : NUMBER_INT;
    case NUMBER_ZERO:
        return byte == '.' ? NUMBER_POINT : exponent ? NUMBER_E : -1;
    case NUMBER_INT:
        return digit ? NUMBER_INT : byte == '.' ? NUMBER_POINT : exponent ? NUMBER_E : -1;
    case NUMBER_POINT:
        return digit ? NUMBER_FRACTION : -1;
    case NUMBER_FRACTION:
        return digit ? NUMBER_FRACTION : exponent ? NUMBER_E : -1;
    case NUMBER_E:
        return digit ? NUMBER_EXPONENT : byte == '+' || byte == '-' ? NUMBER_E_SIGN : -1;
    case NUMBER_E_SIGN:
    case NUMBER_EXPONENT:
        return digit ? NUMBER_EXPONENT : -1;
    }
    return -1;
}

static int number_end(struct json_scan *scan)
{
    uint8_t state = scan->number_state;
    if (state != NUMBER_ZERO && state != NUMBER_INT && state != NUMBER_FRACTION &&
        state != NUMBER_EXPONENT)
        return SHP_ERR_INVALID;
    size_t len = scan->piece_len;
    scan->piece_len = 0;
    scan->piece[len] = '\0';
    int status = emit(scan, JSON_NUMBER, scan->piece, len);
    value_done(scan);
    return status;
}

static void number_put(struct json_scan *scan, uint8_t byte)
{
    if (scan->piece_len < JSON_SCAN_NUMBER_MAX)
        scan->piece[scan->piece_len++] = (char)byte;
}

static int scan_value(struct json_scan *scan, uint8_t byte)
{
    if (byte == '{')
        return container_begin(scan, true);
    if (byte == '[')
        return container_begin(scan, false);
    if (byte == '"') {
        int status = emit(scan, JSON_STRING, NULL, 0);
        if (status < 0)
            return status;
        string_begin(scan, false);
        scan->skip = status == JSON_SCAN_SKIP;
        return 0;
    }
    if (byte == '-' || (byte >= '0' && byte <= '9')) {
        scan->piece_len = 0;
        scan->number_state = byte == '-' ? NUMBER_MINUS : byte == '0' ? NUMBER_ZERO : NUMBER_INT;
        number_put(scan, byte);
        scan->state = SCAN_NUMBER;
        return 0;
    }
    for (uint8_t i = 0; i < 3; i++) {
        if (byte == (uint8_t)literals[i][0]) {
            scan->literal = i;
            scan->literal_at = 1;
            scan->state = SCAN_LITERAL;
            return 0;
        }
    }
    return SHP_ERR_INVALID;
}

static int scan_structure(struct json_scan *scan, uint8_t byte)
{
    if (byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r')
        return 0;
    switch ((enum scan_state)scan->state) {
    case SCAN_VALUE:
        return scan_value(scan, byte);
    case SCAN_ARRAY_FIRST:
        return byte == ']' ? container_end(scan, false) : scan_value(scan, byte);
    case SCAN_OBJECT_FIRST:
        if (byte == '}')
            return container_end(scan, true);
        /* fall through */
    case SCAN_KEY:
        if (byte != '"')
            return SHP_ERR_INVALID;
        string_begin(scan, true);
        return 0;
    case SCAN_COLON:
        if (byte != ':')
            return SHP_ERR_INVALID;
        scan->state = SCAN_VALUE;
        return 0;
    case SCAN_AFTER:
        if (byte == ',') {
            scan->state = in_object(scan) ? SCAN_KEY : SCAN_VALUE;
            return 0;
        }
        return byte == '}' || byte == ']' ? container_end(scan, byte == '}') : SHP_ERR_INVALID;
    default:
        return SHP_ERR_INVALID;
    }
}

int json_scan_feed(struct json_scan *scan, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    size_t at = 0;
    while (scan->status == 0 && at < len) {
        switch ((enum scan_state)scan->state) {
        case SCAN_STRING:
            scan->status = scan_string(scan, bytes, len, &at);
            break;
        case SCAN_ESCAPE:
            scan->status = scan_escape(scan, bytes[at++]);
            break;
        case SCAN_HEX:
            scan->status = scan_hex(scan, bytes[at++]);
            break;
        case SCAN_NUMBER: {
            int next = number_next(scan->number_state, bytes[at]);
            if (next < 0) {
                scan->status = number_end(scan);
            } else {
                scan->number_state = (uint8_t)next;
                number_put(scan, bytes[at++]);
            }
            break;
        }
        case SCAN_LITERAL: {
            const char *literal = literals[scan->literal];
            if (bytes[at++] != (uint8_t)literal[scan->literal_at++]) {
                scan->status = SHP_ERR_INVALID;
            } else if (literal[scan->literal_at] == '\0') {
                scan->status = emit(scan, (enum json_token)literal_tokens[scan->literal], NULL, 0);
                value_done(scan);
            }
            break;
        }
        default:
            scan->status = scan_structure(scan, bytes[at++]);
        }
    }
    return scan->status;
}

bool json_scan_blank(const struct json_scan *scan)
{
    return scan->status == 0 && scan->state == SCAN_VALUE && scan->depth == 0;
}

int json_scan_finish(struct json_scan *scan)
{
    if (scan->status == 0 && scan->state == SCAN_NUMBER && scan->depth == 0)
        scan->status = number_end(scan);
    if (scan->status == 0 && scan->state != SCAN_DONE)
        scan->status = SHP_ERR_INVALID;
    return scan->status;
}
