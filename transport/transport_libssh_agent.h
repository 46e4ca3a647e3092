/*
 * The agent protocol, as far as libssh must be kept away from it: libssh waits for an agent without
 * a bound, and offers every key. So keys are listed here, within a deadline; and signing goes
 * through a relay with a thread of its own that shows libssh the keys we choose and hangs up at the
 * deadline. Private to transport/.
 */
#ifndef SHP_TRANSPORT_LIBSSH_AGENT_H
#define SHP_TRANSPORT_LIBSSH_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHP_AGENT_KEYS_MAX 256

struct shp_agent_key {
    const uint8_t *blob; /* public key, borrowed from the answer */
    size_t blob_len;
    const uint8_t *comment;
    size_t comment_len;
};

struct shp_agent {
    int fd;          /* connected; -1: none */
    uint8_t *answer; /* owned */
    struct shp_agent_key keys[SHP_AGENT_KEYS_MAX];
    size_t keys_len;
};

enum shp_agent_state {
    SHP_AGENT_ANSWERED,
    SHP_AGENT_ABSENT, /* nothing listens at the path */
    SHP_AGENT_SILENT, /* no answer in time */
    SHP_AGENT_ODD,    /* no agent's answer */
};

/* Asks for the keys. deadline_ns as of uv_hrtime. On ANSWERED the caller frees with _fini. */
enum shp_agent_state shp_agent_open(struct shp_agent *agent, const char *path,
                                    uint64_t deadline_ns);
void shp_agent_fini(struct shp_agent *agent);

struct shp_agent_relay;

/*
 * Starts the relay to the agent with these of its keys (indexes). *client_fd: what libssh may have
 * and close. Takes agent->fd over on success. 0 or NOMEM, IO.
 */
int shp_agent_relay_start(struct shp_agent_relay **out, struct shp_agent *agent,
                          const size_t *chosen, size_t chosen_len, uint64_t deadline_ns,
                          int *client_fd);

/* Ends and frees it. True: the agent did not answer a request before the deadline. */
bool shp_agent_relay_stop(struct shp_agent_relay *relay);

#endif
