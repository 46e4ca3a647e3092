/*
 * Ids and their text form. An id is 128 random bits that its maker draws once; this module makes
 * no random bytes, it is given them.
 */
#ifndef SHP_BASE_ID_H
#define SHP_BASE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHP_ID_BYTES 16
#define SHP_ID_HEX 32

/* Lower-case hex of in and a NUL: out has room for 2 * len + 1. */
void shp_hex_encode(char *out, const uint8_t *in, size_t len);

/*
 * Exactly 2 * out_len lower-case hex digits to out. INVALID: another length, or another character;
 * upper case too, since an id has one text form. out is left alone then.
 */
int shp_hex_decode(uint8_t *out, size_t out_len, const char *hex, size_t hex_len);

/* All of text[0..len) are lower-case hex digits. */
bool shp_hex_valid(const char *text, size_t len);

/* Equal, in a time that depends on len only. For tokens, tags, ids. */
bool shp_bytes_equal(const void *a, const void *b, size_t len);

/* Zero memory that held a secret; not optimised away. */
void shp_bytes_wipe(void *bytes, size_t len);

#endif
