/*
 * A TCP relay on the loop of a test, between a client and a server on loopback: it stands for the
 * network. Everything aborts the test on failure.
 */
#ifndef SHP_TESTS_SUPPORT_RELAY_H
#define SHP_TESTS_SUPPORT_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct relay_pair;

struct relay {
    uv_loop_t *loop;
    uv_tcp_t listener;
    char address[16];
    int port;
    int target_port;
    struct relay_pair *pairs;
    /* set by the test, at any time */
    bool hole;            /* nothing is carried either way, and no end is told; connects succeed */
    uint64_t back_budget; /* bytes from the server that are still carried; UINT64_MAX: all */
    /* told */
    unsigned accepted;
    uint64_t back_bytes;           /* carried from the server so far */
    void (*on_accept)(void *user); /* may be NULL */
    void *user;
};

/* address: of 127.0.0.0/8. The port is a free one. */
void relay_open(struct relay *relay, uv_loop_t *loop, const char *address, int target_port);

/* After a change of hole or back_budget: what was held flows. */
void relay_resume(struct relay *relay);

/* Connections of now stay a hole for good; those to come do not. */
void relay_abandon(struct relay *relay);

/* What relay_abandon left behind is carried after all. */
void relay_recall(struct relay *relay);

/* Connections of now are reset. */
void relay_cut(struct relay *relay);

/* With its connections; the handles end with the loop's next turns. */
void relay_close(struct relay *relay);

#endif
