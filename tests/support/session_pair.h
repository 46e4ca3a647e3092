/*
 * Two sessions joined in memory, for tests: bytes of one are fed to the other, in pieces of a
 * chosen size, and events are kept as copies.
 */
#ifndef SHP_TESTS_SUPPORT_SESSION_PAIR_H
#define SHP_TESTS_SUPPORT_SESSION_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/messages.h"
#include "protocol/session.h"

#define PAIR_EVENTS_MAX 4096
#define PAIR_MARKER "0123456789abcdef0123456789abcdef"

/* An event with its own memory. */
struct pair_event {
    enum shp_event_type type;
    uint32_t stream;
    uint16_t message;
    bool fin;
    uint8_t id[SHP_REQUEST_ID_BYTES];
    uint32_t timeout_ms;
    void *user;
    char *json;
    uint8_t *data;
    size_t data_len;
    struct shp_error error;
};

struct pair_end {
    struct shp_session *session;
    struct pair_event events[PAIR_EVENTS_MAX];
    size_t event_count;
    size_t seen;  /* events that pair_expect took */
    bool consume; /* give credit back for every BULK at once */
};

struct pair {
    struct pair_end a; /* initiator */
    struct pair_end b; /* responder */
    uint64_t now_ms;
    size_t piece; /* bytes per feed; 0: all */
};

/* Configurations with fixed keys. */
struct shp_session_config pair_config(enum shp_role role, enum shp_suite suite);

/* Both sessions, no byte moved yet. Returns 0 or the first error. */
int pair_new(struct pair *pair, enum shp_suite suite);
void pair_free(struct pair *pair);

/* Move bytes and take events until nothing moves any more. */
void pair_run(struct pair *pair);

/* One direction: everything that from has is fed to to. */
void pair_move(struct pair *pair, struct pair_end *from, struct pair_end *to);
void pair_take_events(struct pair_end *end);

/* pair_new and pair_run up to ESTABLISHED on both sides; those events are dropped. */
int pair_open(struct pair *pair, enum shp_suite suite);

/* Next event that was not seen; NULL: none. */
struct pair_event *pair_next(struct pair_end *end);

/* A request with the id (n, n, ...), one minute of time and no bulk; returns its stream, 0:
 * refused. */
uint32_t pair_ask(struct pair *pair, struct pair_end *end, uint16_t message, const char *json,
                  uint8_t n, bool fin, void *user);

void pair_forget_events(struct pair_end *end);

/*
 * A frame made by hand (payload at most 2048 bytes) is fed to a session of suite plain; its events
 * are taken. Returns what shp_session_feed returned.
 */
int pair_inject(struct pair *pair, struct pair_end *end, uint8_t type, uint8_t flags,
                uint32_t stream, const void *payload, size_t len);

#endif
