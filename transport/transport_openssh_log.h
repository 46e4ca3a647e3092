/*
 * Standard error of ssh(1) at LogLevel DEBUG1: its own lines tell how far the connection came and
 * become facts; everything else (errors, banners, texts of a proxy, of the remote shell) is kept
 * for people. Incremental and bounded; pure, so that it can be tested and fuzzed. Private to
 * transport/.
 *
 * Own lines are those that begin with "debug1: ", and the few of level VERBOSE that come with them.
 * Once the command has its channel they are dropped unread: from then on the remote side writes to
 * the same descriptor, and nothing that it prints shall pass for a fact.
 */
#ifndef SHP_TRANSPORT_OPENSSH_LOG_H
#define SHP_TRANSPORT_OPENSSH_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "transport/ssh.h"
#include "transport/transport_tail.h"

/* Longer lines: of ours the rest is dropped, others pass through in pieces. */
#define SHP_OPENSSH_LINE_BYTES 1024

/* Private keys without a public half that ssh went through, each with a newline behind it. */
#define SHP_OPENSSH_TRIED_BYTES 1024

enum shp_openssh_line {
    SHP_OPENSSH_LINE_COLLECT,
    SHP_OPENSSH_LINE_DROP, /* the rest of a long line of ssh's */
    SHP_OPENSSH_LINE_PASS, /* the rest of a long line of another */
};

struct shp_openssh_key {
    char name[200]; /* file, or comment of an agent's key; "" for none */
    bool of_agent;
    bool of_device; /* a security key that ssh itself speaks to */
};

/* Zeroed memory with facts set is a fresh one. */
struct shp_openssh_log {
    struct shp_ssh_facts *facts; /* filled in; borrowed */
    struct shp_tail tail;        /* what is kept for people */
    char line[SHP_OPENSSH_LINE_BYTES];
    size_t len;
    enum shp_openssh_line state;

    bool spoke;                 /* ssh logged a line of its own */
    bool opened;                /* the command has its channel */
    bool partial;               /* a method succeeded, and another is asked for */
    bool keys_listed;           /* ssh knows what it will offer: the agent has answered */
    bool signing;               /* the server takes `key`, and its signature is under way */
    bool url_waits;             /* nothing came from the server since `url` was said */
    bool tried_last;            /* the last of `tried` was the last key */
    struct shp_openssh_key key; /* offered last */
    struct shp_openssh_key unsigned_key; /* taken by the server, and never signed with */
    bool pin_missing;                    /* a token wants its PIN before it lists its keys */
    char token[200];                     /* provider of such a token; "" for none */
    char url[256];                       /* said last by another than ssh */
    char tried[SHP_OPENSSH_TRIED_BYTES];
};

void shp_openssh_log_feed(struct shp_openssh_log *log, const char *data, size_t len);

/* No more comes, or the text is wanted as it is: a line without its end counts. */
void shp_openssh_log_flush(struct shp_openssh_log *log);

/* The first URL of a text, without what ends a sentence behind it. False: none. */
bool shp_openssh_find_url(char *out, size_t size, const char *text, size_t len);

#endif
