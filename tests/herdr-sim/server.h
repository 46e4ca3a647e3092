/* The headless server in the foreground. */
#ifndef HERDR_SIM_SERVER_H
#define HERDR_SIM_SERVER_H

#include "paths.h"

/* Runs until server.stop, SIGTERM, SIGINT, SIGHUP or the end of HERDR_SIM_PARENT_PID. Exit code. */
int server_run(const struct paths *paths);
/* Does something answer on this socket path? */
int socket_alive(const char *path);

#endif
