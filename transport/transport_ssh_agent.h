/*
 * Which of several ssh agents answers, asked on the loop, so that one that accepts and stays silent
 * holds up nothing: ssh(1) itself waits for an agent without a bound. Private to transport/.
 */
#ifndef SHP_TRANSPORT_SSH_AGENT_H
#define SHP_TRANSPORT_SSH_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#define SHP_SSH_AGENTS_MAX 2

/* The first in order that answers within this is taken. */
#define SHP_SSH_AGENT_MS 500

/* Until then the first that answers at all: one that looks into a card reader takes its time. */
#define SHP_SSH_AGENT_LAST_MS 3000

struct shp_ssh_agents;

/* chosen: index of a socket, or negative. silent: one took the question and gave no answer. */
typedef void (*shp_ssh_agents_cb)(int chosen, bool silent, void *user);

/*
 * Asks all sockets at once for their keys. done comes once, from the loop; everything is freed after
 * it. 0 or a negative enum shp_err: then it does not come.
 */
int shp_ssh_agents_ask(struct shp_ssh_agents **out, uv_loop_t *loop, const char *const *paths,
                       size_t count, shp_ssh_agents_cb done, void *user);

/* Ends it early; done still comes. */
void shp_ssh_agents_cancel(struct shp_ssh_agents *agents);

#endif
