/*
 * How a link to a machine is made: which command line, which transport, which hello.
 */
#ifndef SHP_CONTROLLER_FLEET_CONNECT_H
#define SHP_CONTROLLER_FLEET_CONNECT_H

#include <stdbool.h>
#include <cjson/cJSON.h>

#include "base/error.h"
#include "controller/fleet/machine.h"

/*
 * Open a link with the bootstrap as its prelude: local over a pipe to /bin/sh, remote over SSH as
 * the settings say, the same command line. *error: helper_missing, settings_invalid,
 * target_invalid.
 */
int connect_open(struct machine *machine, const struct shp_link_callbacks *callbacks,
                 struct shp_link **link, struct shp_error *error);

/* Check the helper's hello (NULL: not an object); *error: build_mismatch, protocol_error. */
bool connect_hello_accept(const struct machine *machine, const cJSON *hello,
                          struct shp_error *error);

/*
 * What the end of a link means to a person: a handshake that nobody answered is not the deadline of
 * a request; a login shell that a limit stopped, or that speaks no sh, refused nothing; and bytes
 * that prove nothing come from what the shell left running. diagnostic: of the transport's end.
 */
void connect_explain(struct shp_error *error, const char *diagnostic);

/*
 * The server closed the connection before the login (MaxStartups, a full accept queue): nothing is
 * wrong but the moment.
 */
bool connect_was_crowded(const struct machine *machine, const struct shp_error *error);

#endif
