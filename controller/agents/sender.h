/*
 * Who sends: host, Herdr session, pane, workspace and tab with their current names, from Herdr at
 * the time of sending. Without Herdr (a command in a plain terminal) the host alone.
 */
#ifndef SHP_CONTROLLER_AGENTS_SENDER_H
#define SHP_CONTROLLER_AGENTS_SENDER_H

#include <cjson/cJSON.h>

#include "controller/app.h"

/* sender is the callee's to delete; never NULL. A Herdr that does not answer leaves fields out. */
typedef void (*sender_cb)(cJSON *sender, void *user);
void sender_describe(struct app *app, sender_cb cb, void *user);

#endif
