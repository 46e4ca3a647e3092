/* The shell side of the bootstrap; installer/ only. */
#ifndef SHP_INSTALLER_COMMAND_H
#define SHP_INSTALLER_COMMAND_H

#include "installer/bootstrap.h"

/* The command line, malloc'ed; NULL: out of memory. Options were checked. */
char *shp_bootstrap_command(const struct shp_bootstrap_options *options);

#endif
