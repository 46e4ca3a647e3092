/*
 * Strict JSON (RFC 8259) without a tree: is this text one value, well-formed, valid UTF-8, not
 * nested too deep? Everything from a peer passes here before a parser sees it. No allocation.
 */
#ifndef SHP_PROTOCOL_JSON_CHECK_H
#define SHP_PROTOCOL_JSON_CHECK_H

#include <stdbool.h>
#include <stddef.h>

/*
 * json[0..len) is one JSON object. depth_max counts the outer object as 1. INVALID: malformed, no
 * object, or too deep.
 */
int shp_json_check_object(const char *json, size_t len, unsigned depth_max);

/* The text holds the escape \u0000 somewhere, which a C string cannot carry. */
bool shp_json_has_nul(const char *json, size_t len);

/*
 * Append text as a JSON string with its quotes. *used is advanced; what does not fit in
 * out[0..size) is a mistake of the caller and makes *used stay above size.
 */
void shp_json_put_string(char *out, size_t size, size_t *used, const char *text);

/* Append text as it is, under the same rule. */
void shp_json_put_raw(char *out, size_t size, size_t *used, const char *text);

#endif
