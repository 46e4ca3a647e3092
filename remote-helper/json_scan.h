/*
 * Streaming JSON scanner: bytes in any pieces -> tokens, with no tree and no memory of its own.
 *
 * What it keeps is one bit per open container, the key at hand and a small piece of decoded text,
 * so a line of any length costs the same. Syntax is checked in full (RFC 8259). Text comes out as
 * valid UTF-8: what is not, and lone surrogates, become U+FFFD as in every JavaScript reader.
 *
 * The callback sees a value when it begins. scan->depth is the number of containers around it,
 * scan->key its member name ("" inside an array; names longer than JSON_SCAN_KEY_MAX are cut and
 * so equal no known name). An END token has the depth of its BEGIN; its key is not meaningful.
 */
#ifndef SHP_REMOTE_HELPER_JSON_SCAN_H
#define SHP_REMOTE_HELPER_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Deeper input is refused: nothing that we read nests a tenth of this. */
#define JSON_SCAN_DEPTH_MAX 512
#define JSON_SCAN_KEY_MAX 63
#define JSON_SCAN_NUMBER_MAX 63
#define JSON_SCAN_PIECE_MAX 512

enum json_token {
    JSON_OBJECT,
    JSON_OBJECT_END,
    JSON_ARRAY,
    JSON_ARRAY_END,
    JSON_STRING,      /* begins; JSON_SCAN_SKIP from the callback: no pieces of it, please */
    JSON_STRING_PART, /* text, len: whole characters, no more than was fed + PIECE_MAX */
    JSON_STRING_END,
    JSON_NUMBER, /* text, len: as written; digits behind JSON_SCAN_NUMBER_MAX are left out */
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL,
};

#define JSON_SCAN_SKIP 1

struct json_scan;

/* 0: go on; JSON_SCAN_SKIP; negative: stop, json_scan_feed returns it. text is borrowed. */
typedef int (*json_scan_cb)(struct json_scan *scan, enum json_token token, const char *text,
                            size_t len, void *user);

struct json_scan {
    /* Readable in the callback. */
    unsigned depth;
    char key[JSON_SCAN_KEY_MAX + 1];

    /* Private. */
    json_scan_cb cb;
    void *user;
    int status;
    uint8_t state;
    uint8_t number_state;
    bool in_key;
    bool skip;
    uint8_t literal, literal_at;
    uint8_t hex_left;
    uint16_t hex;
    uint16_t high_surrogate;
    uint8_t utf8_need, utf8_have, utf8_low, utf8_high;
    char utf8[4];
    size_t key_len;
    size_t piece_len;
    char piece[JSON_SCAN_PIECE_MAX];
    uint8_t containers[JSON_SCAN_DEPTH_MAX / 8]; /* bit set: object */
};

void json_scan_init(struct json_scan *scan, json_scan_cb cb, void *user);

/* 0, or for good: INVALID (syntax), LIMIT (depth), or what the callback returned. */
int json_scan_feed(struct json_scan *scan, const void *data, size_t len);

/* Nothing but white space so far. */
bool json_scan_blank(const struct json_scan *scan);

/* End of input. 0: exactly one whole value was seen; INVALID otherwise. */
int json_scan_finish(struct json_scan *scan);

#endif
