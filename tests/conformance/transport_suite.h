/*
 * What every kind of transport must do, as one list of cases. A kind brings a way to make a
 * transport whose peer behaves in one of a few ways; most peers are shell scripts.
 */
#ifndef SHP_TESTS_CONFORMANCE_TRANSPORT_SUITE_H
#define SHP_TESTS_CONFORMANCE_TRANSPORT_SUITE_H

#include "transport/transport.h"

enum suite_peer {
    SUITE_ECHO,   /* sends back what it gets, ends at our end */
    SUITE_TALKER, /* sends SUITE_WORDS_BYTES bytes 'w' and ends */
    SUITE_DEAF,   /* neither reads nor sends nor ends */
    SUITE_VANISH, /* sends one byte and dies */
    SUITE_FLOOD,  /* sends without end */
    SUITE_PEERS
};

#define SUITE_WORDS_BYTES 300000

struct suite_kind {
    const char *name;
    /* A fresh transport, not opened. */
    struct shp_transport *(*make)(void *context, uv_loop_t *loop, enum suite_peer peer);
    /* After on_closed of that transport, with its loop still there: end the peer. May be NULL. */
    void (*unmake)(void *context);
    void *context;
    int vanish_code;         /* enum shp_code of the end after SUITE_VANISH */
    bool children_of_others; /* this process has children that are not the transport's */
};

/* /bin/sh command line of a peer: works on its standard input and output. */
const char *suite_peer_script(enum suite_peer peer);

/* Runs all cases under the kind's name; returns the number of failures. */
int suite_run(const struct suite_kind *kind);

/* Descriptors that this process has open, as a check that nothing is left. */
int suite_count_descriptors(void);

#endif
