/*
 * Errors, in two families that stay apart (one conversion at each border).
 *
 * enum shp_err: what a function of ours returns: 0 or a negative number. Results come through
 * out-parameters, which are left alone on failure.
 *
 * struct shp_error: what a person reads: a stable code (enum shp_code, generated from
 * spec/messages.json), the machine, the step that failed, the bounded and cleaned cause, and what
 * is known about the outcome. The next action belongs to the code (shp_code_next).
 */
#ifndef SHP_BASE_ERROR_H
#define SHP_BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#define SHP_ERR_MAP(XX)                                                                            \
    XX(NOMEM, -1, "out of memory")                                                                 \
    XX(INVALID, -2, "invalid argument or content")                                                 \
    XX(LIMIT, -3, "above a limit")                                                                 \
    XX(PROTOCOL, -4, "protocol broken by the peer")                                                \
    XX(AUTH, -5, "authentication failed")                                                          \
    XX(STATE, -6, "not possible in this state")                                                    \
    XX(AGAIN, -7, "not now, try again when writable")                                              \
    XX(CLOSED, -8, "closed")                                                                       \
    XX(NOT_FOUND, -9, "not found")                                                                 \
    XX(EXISTS, -10, "exists already")                                                              \
    XX(IO, -11, "input or output failed")                                                          \
    XX(TIMEOUT, -12, "deadline passed")                                                            \
    XX(CANCELED, -13, "canceled")                                                                  \
    XX(VERSION, -14, "no common version")                                                          \
    XX(CREDIT, -15, "more bytes than credit")

enum shp_err {
    SHP_OK = 0,
#define XX(name, value, text) SHP_ERR_##name = value,
    SHP_ERR_MAP(XX)
#undef XX
};

/* Text of an enum shp_err; static, never NULL. */
const char *shp_strerror(int err);

/* What is known of a request that failed. */
enum shp_outcome {
    SHP_OUTCOME_REJECTED = 0, /* the other side did not act */
    SHP_OUTCOME_UNKNOWN = 1,  /* it may have acted: look before repeating */
};

#define SHP_ERROR_CAUSE_MAX 1024
#define SHP_ERROR_STEP_MAX 64
#define SHP_ERROR_MACHINE_MAX 136

/* A failure for people. Plain value: copy it, nothing to free. code 0 means no failure. */
struct shp_error {
    int code; /* enum shp_code */
    enum shp_outcome outcome;
    char machine[SHP_ERROR_MACHINE_MAX]; /* id or label; empty: this process */
    char step[SHP_ERROR_STEP_MAX];
    char cause[SHP_ERROR_CAUSE_MAX];
};

/*
 * Fill an error. The cause is cut at its size on a UTF-8 boundary and control characters are
 * replaced, so that foreign text is safe to show. machine and step may be NULL (empty).
 */
void shp_error_set(struct shp_error *error, int code, const char *machine, const char *step,
                   const char *cause_format, ...) __attribute__((format(printf, 5, 6)));
void shp_error_vset(struct shp_error *error, int code, const char *machine, const char *step,
                    const char *cause_format, va_list args) __attribute__((format(printf, 5, 0)));

/* Put the machine into an error that was made below the layer that knows it; keeps a set one. */
void shp_error_add_machine(struct shp_error *error, const char *machine);

/*
 * Copy text with control characters (C0 but tab, DEL, C1, broken UTF-8) replaced by '?', newlines
 * by a space, and cut to size - 1 bytes on a UTF-8 boundary. Returns the length written.
 */
size_t shp_text_clean(char *out, size_t size, const char *text, size_t len);

#endif
