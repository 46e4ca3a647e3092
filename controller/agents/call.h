/*
 * The arguments of one `agents` call, checked: which action, and exactly its fields, in the order
 * shape, action, fields, bounds, support. Nothing here does I/O.
 */
#ifndef SHP_CONTROLLER_AGENTS_CALL_H
#define SHP_CONTROLLER_AGENTS_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <cjson/cJSON.h>

#include "base/error.h"
#include "controller/profiles/profile.h"

#define SHP_ACTION_MAP(XX)                                                                         \
    XX(HELP, help)                                                                                 \
    XX(LIST, list)                                                                                 \
    XX(FIND, find)                                                                                 \
    XX(SPAWN, spawn)                                                                               \
    XX(SEND, send)                                                                                 \
    XX(ASSIGN, assign)                                                                             \
    XX(ATTACH, attach)                                                                             \
    XX(DETACH, detach)                                                                             \
    XX(READ, read)                                                                                 \
    XX(REPLY, reply)                                                                               \
    XX(WATCH, watch)                                                                               \
    XX(UNWATCH, unwatch)

enum shp_action {
#define XX(upper, lower) SHP_ACTION_##upper,
    SHP_ACTION_MAP(XX)
#undef XX
        SHP_ACTION_COUNT
};

const char *shp_action_name(enum shp_action action);
/* Whether this version performs it: help, list, spawn, send, read. */
bool shp_action_supported(enum shp_action action);

enum shp_placement {
    SHP_PLACEMENT_DEFAULT,
    SHP_PLACEMENT_WORKSPACE,
    SHP_PLACEMENT_TAB,
    SHP_PLACEMENT_PANE
};
enum shp_read_source { SHP_READ_LATEST, SHP_READ_VISIBLE, SHP_READ_RECENT };

/* Strings are trimmed copies owned by the call; NULL: not given. */
struct shp_call {
    enum shp_action action;
    bool commands;
    char *machine; /* NULL: not given; never blank */
    char *target;
    char *message; /* untrimmed text; never blank when present */
    char *query;
    char *status;
    char *agent_type;
    char *label;
    char *name;
    char *workspace;
    char *pane;
    char *cwd;
    char *base;
    char *extension;
    char *id;
    enum shp_placement placement;
    enum shp_tristate blocking;
    enum shp_read_source source;
    int lines;    /* 1..200, default 40 */
    bool context; /* attach, detach */
    bool board;   /* attach, detach */
};

/*
 * Check arguments. object: NULL or {} (help), a string (help, or JSON of an object), or an object;
 * members that are null count as not given. message: the text that travelled beside the object
 * (then object has no message field), or NULL. *error on failure: invalid_call, unknown_action,
 * unknown_field (all of them are named), missing_field, field_invalid, message_too_large,
 * unsupported_action (last: the fields were right); outcome rejected. Returns 0, SHP_ERR_INVALID or
 * SHP_ERR_NOMEM. *out is filled on success only, and then the caller's (shp_call_fini).
 */
int shp_call_parse(struct shp_call *out, const cJSON *object, const char *message,
                   struct shp_error *error);
void shp_call_fini(struct shp_call *call);

/* Result object of help: {actions, rules, profiles, machines, advanced}; at most 6 KiB of JSON.
 * Only supported actions are in it. machines is consumed (may be NULL). NULL: out of memory. */
cJSON *shp_call_help(const struct shp_profiles *profiles, cJSON *machines);

/* The `profiles` member of help and list. */
cJSON *shp_profiles_json(const struct shp_profiles *profiles);

/* Derive a routing name from a label, at most 32 characters ([a-z][a-z0-9_-]{0,31}). attempt 1 is
 * the plain name, n > 1 gets -n. */
void shp_name_derive(char out[33], const char *label, unsigned attempt);
bool shp_name_valid(const char *name);

#endif
