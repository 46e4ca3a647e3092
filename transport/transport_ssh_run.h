/*
 * One short run of ssh on the loop: its standard output whole, its end, within a deadline. Private
 * to transport/.
 */
#ifndef SHP_TRANSPORT_SSH_RUN_H
#define SHP_TRANSPORT_SSH_RUN_H

#include "transport/transport_internal.h"

#define SHP_SSH_RUN_OUTPUT_BYTES_MAX (256 * 1024)

struct shp_ssh_run;

/* Borrowed for the callback. */
struct shp_ssh_run_end {
    bool started;   /* the program could be started */
    bool timed_out; /* it was ended by us */
    int64_t exit_status;
    int term_signal;
    const char *output;
    size_t output_len;
    const char *diagnostic; /* cleaned standard error */
    const char *cause;      /* why it could not be started */
};

/*
 * Starts argv with the environment of transport_process (set: "NAME=value" or NULL). done comes
 * once, from the loop; the run is freed after it. 0 or a negative enum shp_err.
 */
int shp_ssh_run_start(struct shp_ssh_run **out, uv_loop_t *loop, const char *const *argv,
                      const char *set, uint32_t timeout_ms,
                      void (*done)(const struct shp_ssh_run_end *end, void *user), void *user);

/* Ends it early; done still comes. */
void shp_ssh_run_cancel(struct shp_ssh_run *run);

#endif
