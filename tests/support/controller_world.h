/* For controller_rig.c alone: the life of its world. */
#ifndef SHP_TESTS_SUPPORT_CONTROLLER_WORLD_H
#define SHP_TESTS_SUPPORT_CONTROLLER_WORLD_H

#include "tests/support/controller_rig.h"

void world_open(struct world *world, uv_loop_t *loop, const char *home);
/* Its handles end with the loop's next turns. */
void world_close(struct world *world);

#endif
