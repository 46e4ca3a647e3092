/*
 * One SSH connection of a test, from its opening to its end: what was heard and how it ended.
 * Everything aborts the test on failure; one generous deadline.
 */
#ifndef SHP_TESTS_SUPPORT_SSH_ATTEMPT_H
#define SHP_TESTS_SUPPORT_SSH_ATTEMPT_H

#include "transport/ssh.h"

struct ssh_attempt {
    uv_loop_t loop;
    bool opened;
    bool closed;
    struct shp_error error;
    char diagnostic[2048];
    char heard[256];
    size_t heard_len;
    struct shp_ssh_facts facts;
};

/* Which transport: shp_transport_ssh_new, shp_transport_openssh_new. */
typedef int (*ssh_attempt_new)(struct shp_transport **out, uv_loop_t *loop,
                               const struct shp_ssh_options *options);

void ssh_attempt_run(struct ssh_attempt *attempt, ssh_attempt_new make,
                     const struct shp_ssh_options *options);

/* The on_closed of a test that opens by itself, user its attempt: keeps the end, frees. */
void ssh_attempt_on_closed(struct shp_transport *transport, const struct shp_transport_end *end,
                           void *user);

/* It ended with that code before anything was heard or opened, and says step and cause. */
void ssh_attempt_failed(const struct ssh_attempt *attempt, const char *target, int code);

/* Targets that are refused at once. */
void ssh_attempt_bad_targets(ssh_attempt_new make);

#endif
