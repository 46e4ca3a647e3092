/*
 * machines_get of pi-ext: the rows of all machines, after the catalog was read again or one
 * connection was made anew when that was asked.
 */
#ifndef SHP_CONTROLLER_MACHINES_GET_H
#define SHP_CONTROLLER_MACHINES_GET_H

#include <cjson/cJSON.h>

#include "base/error.h"
#include "controller/app.h"

/* error NULL: rows is an array, borrowed for the call. */
typedef void (*machines_get_cb)(const struct shp_error *error, const cJSON *rows, void *user);

/* One callback, from the loop or at once. params passed their table. */
void machines_get(struct app *app, const cJSON *params, machines_get_cb cb, void *user);

#endif
