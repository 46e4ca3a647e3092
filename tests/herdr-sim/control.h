/*
 * The control socket of tests (HERDR_SIM_CONTROL): JSON lines in, one JSON line out for each.
 * {"cmd":"get"} | {"cmd":"set",<option>:value...} | {"cmd":"stall","ms":N} |
 * {"cmd":"fault","method":M,"kind":"close|lose_answer|error|garbage","code":C?,"times":N?} |
 * {"cmd":"faults_clear"} | {"cmd":"burst","count":N} | {"cmd":"drop_connections"} |
 * {"cmd":"stop"}
 */
#ifndef HERDR_SIM_CONTROL_H
#define HERDR_SIM_CONTROL_H

#include "sim.h"

#define CONTROL_LINE_BYTES_MAX 65536

/* Everything a command may touch; one per server. */
struct control {
    struct sim *sim;
    uv_pipe_t listener;
    bool open;
    struct control_conn *conns;
    void (*stall)(struct sim *sim, uint64_t ms);
};

/* fd: a listening socket, owned from here on. */
void control_open(struct control *ctl, struct sim *sim, int fd,
                  void (*stall)(struct sim *sim, uint64_t ms));
void control_close(struct control *ctl);

#endif
