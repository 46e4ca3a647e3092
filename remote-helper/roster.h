/*
 * Herdr's session.snapshot, reduced while it streams in to what routing needs.
 *
 * A snapshot may be megabytes (layouts, panes); only the listed fields are kept, in one bounded
 * store. Unknown fields are passed over; a known one of the wrong type is herdr_invalid with its
 * path. Label and working directory of an agent come from its pane where the agent has none.
 *
 *     roster_new -> roster_feed ... -> roster_finish -> roster_write
 */
#ifndef SHP_REMOTE_HELPER_ROSTER_H
#define SHP_REMOTE_HELPER_ROSTER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "remote-helper/json_out.h"

/* What is kept of one snapshot: thousands of agents. More is message_too_large. */
#define ROSTER_BYTES_MAX ((size_t)4 * 1024 * 1024)

/* Longer texts are cut; nothing that identifies an agent comes near. */
#define ROSTER_TEXT_BYTES_MAX 4096

struct roster;

/* The request line that roster_feed reads the answer of, without newline. */
extern const char roster_request[];

int roster_new(struct roster **out); /* NOMEM */
void roster_free(struct roster *roster);

/* Bytes of the answer line. After an error (negative) the rest is not wanted. */
int roster_feed(struct roster *roster, const void *data, size_t len);

/*
 * The line has ended. Else *error: herdr_error (Herdr's own code in the cause), herdr_invalid,
 * message_too_large, out_of_memory.
 */
int roster_finish(struct roster *roster, struct shp_error *error);

size_t roster_agents(const struct roster *roster);

/* {version, protocol, agents, workspaces, tabs} of spec/messages.json, roster_get. */
void roster_write(const struct roster *roster, struct json_out *out);

#endif
