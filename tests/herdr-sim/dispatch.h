/*
 * From a request line to a method. ping is answered by the connection itself; everything else goes
 * through the application queue, one at a time in arrival order, which the stall switch stops.
 */
#ifndef HERDR_SIM_DISPATCH_H
#define HERDR_SIM_DISPATCH_H

#include "conn.h"
#include "params.h"
#include "sim.h"

/* Probes of held methods give up on a stuck application after this long. */
#define PROBE_MS 5000

typedef void (*method_fn)(struct sim *sim, struct conn *c, const cJSON *params);

struct method {
    const char *name;
    method_fn run;
    const struct param *params;
    bool immediate; /* never queued */
    bool probe;     /* gives up with server_unavailable when the queue does not move */
};

/* Tables end with a NULL name. */
extern const struct method methods_server[];
extern const struct method methods_workspace[];
extern const struct method methods_pane[];
extern const struct method methods_pane_io[];
extern const struct method methods_move[];
extern const struct method methods_agent[];
extern const struct method methods_report[];

/* The connection holds a complete line. */
void dispatch_line(struct conn *c);
/* Runs what is queued unless stalled; then looks after probes that waited too long. */
void dispatch_queue(struct sim *sim);

/*
 * Faults for tests: the next `times` calls of a method are closed before acting ("close"), act but
 * lose their answer ("lose_answer"), answer an error code ("error") or a line that is not JSON
 * ("garbage").
 */
enum fault_kind { FAULT_CLOSE, FAULT_LOSE_ANSWER, FAULT_ERROR, FAULT_GARBAGE };
void fault_add(struct sim *sim, const char *method, enum fault_kind kind, const char *code,
               uint64_t times);
void faults_clear(struct sim *sim);

extern const struct param params_none[];

#endif
