/*
 * Live receivers of this home, by their descriptors (spec/protocol.md 11).
 *
 * What is read decides whom a message goes to, so nothing is taken on trust: the directory must be
 * ours and 0700, a descriptor a regular 0600 file of ours and small, its process alive on this
 * host with the start time that it names, its socket ours in a 0700 directory of ours. Whatever
 * fails is no receiver; nothing is removed here.
 */
#ifndef SHP_REMOTE_HELPER_RECEIVERS_H
#define SHP_REMOTE_HELPER_RECEIVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "remote-helper/identity.h"

#define RECEIVER_DESCRIPTOR_BYTES_MAX 16384
#define RECEIVER_ENTRIES_MAX 8192 /* of the directory that are looked at */

/* Strings belong to tree. */
struct receiver {
    cJSON *tree;
    const char *socket;
    const char *host; /* "" where the system has no boot id */
    const char *agent_dir;
    const char *pi_session_id;
    const char *session_file; /* NULL: none */
    const char *terminal_id;  /* NULL: unknown */
    const char *token;
    int64_t pid;
    int64_t start; /* -1: unknown */
    int64_t protocol_min, protocol_max;
    int64_t modified_ns; /* of the descriptor; the newest of several wins */
};

/*
 * A descriptor's text. INVALID: malformed, a field missing or of the wrong type; NOMEM. *out is the
 * caller's (receiver_fini) on success.
 */
int receiver_parse(struct receiver *out, const char *text, size_t len);
void receiver_fini(struct receiver *receiver);

/* Same host, process alive, same start time as far as these can be known. */
bool receiver_lives(const struct receiver *receiver, const struct identity *identity);

/* The socket may be connected to. */
bool receiver_socket_good(const struct receiver *receiver);

/* Each live receiver, borrowed for the call; false from cb ends the search. */
typedef bool (*receiver_cb)(struct receiver *receiver, void *user);
void receivers_each(const struct identity *identity, receiver_cb cb, void *user);

/*
 * The newest live one of that pi session or terminal (one of them NULL). NOT_FOUND. *out is the
 * caller's (receiver_fini).
 */
int receivers_find(struct receiver *out, const struct identity *identity, const char *pi_session_id,
                   const char *terminal_id);

/* Path of the directory; it may not exist. */
void receivers_path(char *out, size_t size, const struct identity *identity);

#endif
