/*
 * UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
 */
#ifndef SHP_BASE_UTF8_H
#define SHP_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the character that begins at text (1 to 4), 0 when none does or len cuts it off. */
size_t shp_utf8_char(const uint8_t *text, size_t len);

/* All of text[0..len) are whole characters; so is the empty text. */
bool shp_utf8_valid(const uint8_t *text, size_t len);

#endif
