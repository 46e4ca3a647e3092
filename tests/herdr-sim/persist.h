/*
 * session.json beside the socket: workspaces, tabs, panes and splits with their ids. Processes are
 * not kept: a restored pane has a new shell and a new terminal id.
 */
#ifndef HERDR_SIM_PERSIST_H
#define HERDR_SIM_PERSIST_H

#include "sim.h"

#define SESSION_FILE_BYTES_MAX (4 * 1024 * 1024)

/* Writes the file unless the restore switch is off; a failure is reported on stderr only. */
void persist_save(struct sim *sim);
/* Number of workspaces that came back. */
int persist_load(struct sim *sim);

#endif
