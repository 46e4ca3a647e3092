/* `shepherdr machines`; exit statuses as in cli.h. */
#ifndef SHP_CONTROLLER_CLI_MACHINES_H
#define SHP_CONTROLLER_CLI_MACHINES_H

#include <stdbool.h>

struct cli_machines_options {
    const char *program_dir;
    bool json;
    const char *session;   /* pi session whose controller is asked; NULL: look ourselves */
    const char *reconnect; /* with session: id of a machine to connect anew first, or NULL */
    bool refresh;          /* with session: read the catalog again first */
};

/*
 * The catalog with states, after one connect attempt each. 1 when the catalog cannot be read (the
 * local machine is shown all the same), or that session cannot be asked; 2 when it does not know
 * the machine.
 */
int cli_machines(const struct cli_machines_options *options);

#endif
