/*
 * JSON text into one growing, bounded buffer: for what is too long or too frequent for a tree.
 *
 * Errors stick: after the first one nothing is added and json_out_status tells, so that a writer
 * checks once at its end. Strings come out as valid UTF-8 whatever went in.
 */
#ifndef SHP_REMOTE_HELPER_JSON_OUT_H
#define SHP_REMOTE_HELPER_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_out {
    char *data; /* NUL-terminated once something was added */
    size_t len;
    size_t capacity;
    size_t max;
    int status;
};

void json_out_init(struct json_out *out, size_t bytes_max);
void json_out_fini(struct json_out *out);

/* 0, NOMEM, or LIMIT: above bytes_max. */
int json_out_status(const struct json_out *out);

void json_out_raw(struct json_out *out, const char *text);
void json_out_string(struct json_out *out, const char *text, size_t len);
void json_out_u64(struct json_out *out, uint64_t value);

/*
 * A member: ,"key":value. The comma is left out behind '{'. key is written as it is.
 * member_string takes NULL for "no such member".
 */
void json_out_key(struct json_out *out, const char *key);
void json_out_member_string(struct json_out *out, const char *key, const char *text);
void json_out_member_u64(struct json_out *out, const char *key, uint64_t value);
void json_out_member_bool(struct json_out *out, const char *key, bool value);

/* A comma, unless an array or object has just begun. */
void json_out_next(struct json_out *out);

#endif
