/*
 * SSH to a machine, whichever program or library speaks it. A target is resolved once by `ssh -G`
 * (bounded: 10 s; OpenSSH owns configuration and credentials), the kind is chosen by what that
 * says, and the result is one transport (transport.h) whose name is "libssh" or "openssh".
 *
 * auto is libssh when the resolved configuration holds only what libssh honours; a failure of
 * libssh before the login falls back to openssh once, never on a host key that does not match.
 * Without an ssh program auto is libssh with the target's own words.
 */
#ifndef SHP_TRANSPORT_SSH_H
#define SHP_TRANSPORT_SSH_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"

enum shp_ssh_kind {
    SHP_SSH_AUTO,
    SHP_SSH_LIBSSH,
    SHP_SSH_OPENSSH,
};

/* How far a connection came; each phase has its own deadline. */
enum shp_ssh_phase {
    SHP_SSH_PHASE_CONFIG, /* ssh -G */
    SHP_SSH_PHASE_NAME,   /* host name to addresses */
    SHP_SSH_PHASE_TCP,
    SHP_SSH_PHASE_KEX,
    SHP_SSH_PHASE_HOST_KEY,
    SHP_SSH_PHASE_AUTH,
    SHP_SSH_PHASE_CHANNEL,
    SHP_SSH_PHASE_RUNNING, /* the command has the channel */
};

struct shp_ssh_options {
    const char *target;        /* shp_openssh_target_ok, else INVALID */
    const char *command;       /* remote command line */
    const char *ssh_auth_sock; /* NULL: as in our environment */
    const char *ssh_path;      /* NULL: "ssh" from PATH */
    enum shp_ssh_kind kind;
    bool post_quantum; /* require: only a key exchange that is safe against quantum computers */
};

/* What is known of a connection, for people; strings are cleaned and empty where unknown. */
struct shp_ssh_facts {
    enum shp_ssh_phase phase;
    char transport[16]; /* "libssh", "openssh" */
    char reason[200];   /* why this one, one sentence without full stop */
    char hostname[256]; /* resolved; the rest of the resolved configuration alike */
    char user[128];
    uint32_t port;
    char proxy[256];        /* ProxyJump or ProxyCommand */
    char address[64];       /* connected to */
    char kex[96];           /* negotiated */
    char host_key[160];     /* type and SHA256 fingerprint */
    char auth_offered[128]; /* methods that the server accepts, comma separated */
    char auth_used[64];     /* method that succeeded */
    char agent[200];        /* state of the agent socket: "3 keys", "does not answer", "none" ... */
    bool agent_silent;      /* an agent took the question and gave no answer in time */
    uint32_t keys_tried;
};

/* Not empty, at most 512 bytes, no control characters, does not begin with '-'. */
bool shp_openssh_target_ok(const char *target);

/* Version of the libssh that is built in; "" without one. */
const char *shp_ssh_libssh_version(void);

/* INVALID: a target that is refused, no command, libssh asked for and not built in. */
int shp_transport_ssh_new(struct shp_transport **out, uv_loop_t *loop,
                          const struct shp_ssh_options *options);

/* Borrowed until the transport is freed; NULL when it is no SSH transport. Also after the end. */
const struct shp_ssh_facts *shp_transport_ssh_facts(const struct shp_transport *transport);

/*
 * ssh(1) alone, with hardened flags and one remote command; kind and post_quantum are not looked
 * at. End errors are classified from the exit and standard error (connect_failed, ...).
 */
int shp_transport_openssh_new(struct shp_transport **out, uv_loop_t *loop,
                              const struct shp_ssh_options *options);

#endif
