/*
 * Two links on one loop over the in-memory pair, for tests: a asks, b answers as its behaviour
 * says. Everything aborts the test on failure; waiting has one generous deadline.
 */
#ifndef SHP_TESTS_SUPPORT_LINK_WORLD_H
#define SHP_TESTS_SUPPORT_LINK_WORLD_H

#include "transport/link.h"

#define MARKER "0123456789abcdef0123456789abcdef"
#define MESSAGE SHP_MSG_HERDR_CALL

enum link_behaviour {
    ANSWER,       /* with the params and the bulk that came */
    ANSWER_ERROR, /* machine_unknown */
    ANSWER_LARGE, /* the largest bulk that a message may have */
    ANSWER_PIECES,
    SILENT,    /* never */
    NO_CREDIT, /* never uses up what comes */
    END_LINK,  /* closes the link instead */
};

struct link_side {
    struct shp_link *link;
    enum link_behaviour behaviour;
    bool established;
    bool closed;
    struct shp_error error;
    char peer_hello[256];
    int requests;
    int notifications;
    int canceled;
    uint8_t *bulk;
    size_t bulk_len;
    uint32_t stream;
    char json[256];
    size_t piece_sent;
    bool refuse_hello;
};

struct link_world {
    uv_loop_t loop;
    uv_timer_t guard;
    uv_timer_t tick;
    struct link_side a;
    struct link_side b;
    struct shp_transport *b_transport;
};

struct link_answer_seen {
    int count;
    int code;
    int outcome;
    char json[512];
    uint8_t *bulk;
    size_t bulk_len;
};

#define RUN_UNTIL(world, condition)                                                                \
    do {                                                                                           \
        while (!(condition))                                                                       \
            uv_run(&(world)->loop, UV_RUN_ONCE);                                                   \
    } while (0)

/* Content of test bulk: byte at a place. */
uint8_t link_pattern(size_t at);
uint8_t *link_new_bulk(size_t len);
void link_check_bulk(const uint8_t *bulk, size_t len);

/* The initiator says hello at once, the responder answers in its callback. */
void link_open_side(struct link_world *world, struct link_side *side,
                    struct shp_transport *transport, enum shp_role role, enum shp_suite suite,
                    const struct shp_prelude *prelude);
void link_world_init(struct link_world *world);
/* Two links over a pipe; pipe NULL: whole writes, no cut. */
void link_world_begin(struct link_world *world, enum shp_suite suite,
                      const struct shp_pipe_options *pipe);
void link_world_establish(struct link_world *world);
/* Closes what is open, lets both end, and finds nothing left. */
void link_world_finish(struct link_world *world);

/* A request of side a; *answer is filled by its one answer. */
uint32_t link_ask(struct link_world *world, struct link_answer_seen *answer, uint32_t timeout_ms,
                  const char *json, const uint8_t *bulk, size_t len);
void link_on_answer(struct shp_link *link, const struct shp_link_answer *answer, void *user);

#endif
