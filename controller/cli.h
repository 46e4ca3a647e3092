/*
 * The commands that people and scripts type. Each runs the controller in-process for its own time,
 * with state in memory. Result on standard output, errors on standard error; exit 0 done, 1 failed,
 * 2 wrong usage.
 */
#ifndef SHP_CONTROLLER_CLI_H
#define SHP_CONTROLLER_CLI_H

#include <stdbool.h>

/* agents '<json>' or help: one call of the tool; prints the result object as JSON. 2: no JSON, or
 * arguments that the tool refuses unread. */
int cli_agents(const char *program_dir, const char *call);

struct shp_error;
/* code (machine, step): cause, and the next action, on standard error. */
void cli_print_error(const struct shp_error *error);
/* At the end: status, or 1 when standard output did not take all of it. */
int cli_printed(int status);

#endif
