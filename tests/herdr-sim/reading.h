/* Reading a pane's text: pane.read, agent.read and everything that matches output. */
#ifndef HERDR_SIM_READING_H
#define HERDR_SIM_READING_H

#include "sim.h"

#define READ_LINES_MAX 1000
#define READ_LINES_STANDARD 80

/* lines NULL: the source's standard. Result is a PaneReadResult; caller deletes. */
cJSON *read_pane(const struct pane *pane, const char *source, const uint64_t *lines,
                 const char *format);

#endif
