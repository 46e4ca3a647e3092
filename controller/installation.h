/* ~/.pi/agent/shepherdr/installation: 32 hex digits that name this home among others, 0600. */
#ifndef SHP_CONTROLLER_INSTALLATION_H
#define SHP_CONTROLLER_INSTALLATION_H

#include "base/error.h"

/* Read it, or make it; two processes at once get the same. *error: store_failed with the path. */
int installation_id(char out[33], const char *home, struct shp_error *error);

/* Read it; where there is none, out gets a random one that is stored nowhere. Writes nothing. */
void installation_look(char out[33], const char *home);

#endif
