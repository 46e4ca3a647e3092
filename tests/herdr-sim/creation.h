/* What workspace.create, tab.create and pane.split have in common: cwd, label, focus, env. */
#ifndef HERDR_SIM_CREATION_H
#define HERDR_SIM_CREATION_H

#include "conn.h"
#include "model.h"

/*
 * Fills o with borrowed texts. False when the connection got its error already: invalid_env, or
 * failed_code for a cwd that is not an absolute path of a directory.
 */
bool creation_options(struct conn *c, const cJSON *params, const char *failed_code,
                      struct create_options *o);

#endif
