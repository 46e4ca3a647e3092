/* What the chooser (transport_ssh.c) gives to and asks of the openssh transport. Private. */
#ifndef SHP_TRANSPORT_SSH_INTERNAL_H
#define SHP_TRANSPORT_SSH_INTERNAL_H

#include "transport/ssh.h"

/* The answer of `ssh -G`, so that it is asked for once. */
struct shp_openssh_prepared {
    const struct shp_ssh_facts *facts; /* copied */
    unsigned optional;                 /* mask of options that this client takes */
    const char *kex;                   /* NULL, or the only key exchanges to offer; copied */
    bool no_agent;                     /* keep ssh from the agent of its configuration */
    bool no_control;                   /* and from the connection that it would share */
};

/* Before open. */
int shp_transport_openssh_prepare(struct shp_transport *transport,
                                  const struct shp_openssh_prepared *prepared);

/* NULL: another kind. */
const struct shp_ssh_facts *shp_transport_openssh_facts(const struct shp_transport *transport);

#endif
