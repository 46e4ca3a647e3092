/*
 * The files of spec/vectors for tests: a file as a tree, and its bytes.
 */
#ifndef SHP_TESTS_SUPPORT_VECTORS_H
#define SHP_TESTS_SUPPORT_VECTORS_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

/* Below root (SHP_TEST_SOURCE_DIR); ends the test program when it cannot be read. */
cJSON *vectors_load(const char *root, const char *name);

/*
 * Bytes of a hex string, or of {hex, fill, count, then}. The caller frees with free(). Ends the
 * test program when item is something else.
 */
uint8_t *vectors_bytes(const cJSON *item, size_t *len);

/* Member of an object; ends the test program when it is absent. */
const cJSON *vectors_get(const cJSON *object, const char *name);
const char *vectors_string(const cJSON *object, const char *name);
int vectors_int(const cJSON *object, const char *name);

/* Hex member into exactly len bytes. */
void vectors_hex(const cJSON *object, const char *name, uint8_t *out, size_t len);

#endif
