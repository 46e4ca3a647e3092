/* The whole server; owned by server.c, passed down to everything else. */
#ifndef HERDR_SIM_SIM_H
#define HERDR_SIM_SIM_H

#include "events.h"
#include "model.h"
#include "options.h"
#include "paths.h"
#include "pty.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct conn;
struct fault;

struct sim {
    uv_loop_t loop;
    struct options opt;
    struct paths paths;
    char bin_path[4096];
    struct model model;
    struct ring ring;
    struct pty_set ptys;
    struct conn *conns;
    uint64_t next_conn;
    uint64_t accepted;
    uint64_t next_order;
    struct fault *faults;
    /* The application loop does nothing before this time (control command "stall"). */
    uint64_t stall_until_ms;
    uint64_t last_notification_ms;
    bool layout_changed; /* since it was last stored */
    bool stopping;       /* server.stop was answered */
};

/* Begins the end of the server after the answers in flight; safe to call twice. */
void sim_stop(struct sim *sim, uint64_t delay_ms);
bool sim_stalled(const struct sim *sim);

#endif
