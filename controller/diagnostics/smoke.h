/*
 * The smoke test: a command in a throw-away tab of a machine's Herdr, and its output back. Costs no
 * tokens. Whatever happens the tab is closed again, also one whose making was answered too late.
 */
#ifndef SHP_CONTROLLER_DIAGNOSTICS_SMOKE_H
#define SHP_CONTROLLER_DIAGNOSTICS_SMOKE_H

#include "controller/fleet/machine.h"

/* error NULL: text says what was done. error names what stays when something could not be closed. */
typedef void (*smoke_cb)(const struct shp_error *error, const char *text, void *user);

/* One callback, from the loop. */
void smoke_run(struct machine *machine, smoke_cb cb, void *user);

#endif
