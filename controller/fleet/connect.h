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
 * Open a link with the bootstrap as its prelude: local over a pipe to /bin/sh, remote over
 * OpenSSH, the same command line. *error: helper_missing, settings_invalid,
 * target_invalid.
 */
int connect_open(struct machine *machine, const struct shp_link_callbacks *callbacks,
                 struct shp_link **link, struct shp_error *error);

/* Check the helper's hello (NULL: not an object); *error: build_mismatch, protocol_error. */
bool connect_hello_accept(const struct machine *machine, const cJSON *hello,
                          struct shp_error *error);

#endif
