/*
 * libssh as a transport: one exec channel of one session, in a thread of its own. Private to
 * transport/; without libssh at build time every function says so.
 *
 * All of libssh is called from that thread, non-blocking, over a socket that we connected; what can
 * block all the same (a key file on a dead file system) blocks this one machine and is abandoned at
 * its deadline. An agent is never talked to by libssh directly: transport_libssh_agent.h.
 */
#ifndef SHP_TRANSPORT_LIBSSH_H
#define SHP_TRANSPORT_LIBSSH_H

#include "transport/ssh.h"
#include "transport/ssh_config.h"

#define SHP_LIBSSH_AGENTS_MAX 2

struct shp_libssh_options {
    struct shp_ssh_config *config; /* resolved; moved away on success */
    struct shp_ssh_files *files;   /* moved away on success */
    const char *command;
    const char *agents[SHP_LIBSSH_AGENTS_MAX]; /* sockets in the order to ask; NULL: none */
    bool post_quantum;
    const struct shp_ssh_facts *facts; /* what is known already: reason, resolved names */
};

/* Built with libssh, and the library at hand is new enough. */
bool shp_libssh_available(void);

/* Its version, "" where there is none. */
const char *shp_libssh_version(void);

/* Whether it has this key exchange. */
bool shp_libssh_knows_kex(const char *name);

/*
 * The facts of an end tell how far it came: a phase before CHANNEL was no login. INVALID: no libssh.
 */
int shp_transport_libssh_new(struct shp_transport **out, uv_loop_t *loop,
                             const struct shp_libssh_options *options);

/* After its end: whether the server told its version before it ended the connection. */
bool shp_transport_libssh_greeted(const struct shp_transport *transport);

/* NULL: another kind. */
const struct shp_ssh_facts *shp_transport_libssh_facts(const struct shp_transport *transport);

#endif
