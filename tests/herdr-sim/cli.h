/* The command line parts of Herdr that a controller uses. Exit codes 0, 1, 2 as Herdr's. */
#ifndef HERDR_SIM_CLI_H
#define HERDR_SIM_CLI_H

#include "paths.h"

int cli_run(int argc, char **argv);
int cli_usage(const char *why); /* prints to stderr, returns 2 */

int cli_status(const struct paths *paths, int argc, char **argv);
int cli_machine(const struct paths *paths, int argc, char **argv);
int cli_integration(int argc, char **argv);
int cli_session_list(const struct paths *paths);

#endif
