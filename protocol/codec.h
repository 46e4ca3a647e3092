/*
 * JSON of params, results, services and errors, checked against the tables of messages.h. cJSON
 * trees begin and end here or in the handler that asked for one.
 */
#ifndef SHP_PROTOCOL_CODEC_H
#define SHP_PROTOCOL_CODEC_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "protocol/messages.h"

/* Room for the largest text that shp_codec_error_print makes, with its NUL. */
#define SHP_CODEC_ERROR_JSON_MAX 8192

/*
 * A tree of one JSON object, within head_json_bytes_max and json_depth_max; the caller frees it
 * with cJSON_Delete. INVALID: malformed, or a string holds U+0000; NOMEM.
 */
int shp_codec_parse(cJSON **out, const char *json, size_t len);

/*
 * Text of a tree, at most head_json_bytes_max bytes, NUL-terminated; the caller frees it with
 * cJSON_free. LIMIT: longer; NOMEM.
 */
int shp_codec_print(char **out, size_t *len, const cJSON *object);

/*
 * Does the object fit the table? INVALID: a field is missing, of the wrong type, out of bounds, or
 * given twice; with strict also when it is unknown. field gets its name, cut (may be NULL).
 */
int shp_codec_check_fields(const struct shp_fields *table, const cJSON *object, bool strict,
                           char *field, size_t field_size);

/* Params are strict, results are not (spec/protocol.md 4). NOT_FOUND: no such message. */
int shp_codec_check_params(uint16_t message, const cJSON *object, char *field, size_t field_size);
int shp_codec_check_result(uint16_t message, const cJSON *object, char *field, size_t field_size);

/* The same for a service of session_request (enum shp_service). */
int shp_codec_check_payload(int service, const cJSON *object, char *field, size_t field_size);
int shp_codec_check_answer(int service, const cJSON *object, char *field, size_t field_size);

/* Fields of a checked object; the fallback when absent or null. Strings are borrowed. */
const char *shp_codec_string(const cJSON *object, const char *name, const char *fallback);
int64_t shp_codec_int(const cJSON *object, const char *name, int64_t fallback);
bool shp_codec_bool(const cJSON *object, const char *name, bool fallback);

/*
 * The error object of the wire (spec/protocol.md 6). out has SHP_CODEC_ERROR_JSON_MAX bytes.
 * Returns its length.
 */
size_t shp_codec_error_print(char out[SHP_CODEC_ERROR_JSON_MAX], const struct shp_error *error);

/*
 * The same back. code is the one of the frame and counts; what the text lacks stays empty, and the
 * outcome is unknown unless the text says rejected. Never fails.
 */
void shp_codec_error_parse(struct shp_error *error, int code, const char *json, size_t len);

#endif
