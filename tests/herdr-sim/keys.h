/* Key names of pane.send_keys, pane.send_input and agent.send_keys. */
#ifndef HERDR_SIM_KEYS_H
#define HERDR_SIM_KEYS_H

#include "util.h"

/* Appends the bytes of one named key; -1 when the name is not a key. */
int key_bytes(const char *name, struct str *out);

#endif
