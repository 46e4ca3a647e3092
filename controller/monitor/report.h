/*
 * Building a report: its id from stable facts, its text for the model, its details for renderers.
 */
#ifndef SHP_CONTROLLER_MONITOR_REPORT_H
#define SHP_CONTROLLER_MONITOR_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "controller/fleet/machine.h"
#include "controller/store/store.h"

/* What the evidence says about a finished task. Borrowed strings; NULL: not known. */
struct settlement {
    const char *evidence; /* "pi-ext", "transcript", "herdr" */
    const char *entry_id;
    const char *stop_reason;
    const char *error_message;
    const char *reply;
    bool aborted; /* a person stopped the run */
    bool exited;  /* the worker's Pi is gone */
};

bool settlement_failed(const struct settlement *settlement);

/*
 * Fill a report (state DUE); the caller owns it (shp_report_record_fini). The id is a digest of
 * pi session, entry and input: the same settlement seen twice is one report.
 */
void report_build(struct shp_report_record *report, const struct machine *machine,
                  const struct shp_agent_record *agent, const struct shp_task_record *task,
                  const struct settlement *settlement, uint64_t now_unix_ms);

/*
 * A reply as the model gets it: whole up to reply_verbatim_bytes_max, above it head, tail, size
 * and the call that reads it. malloc'ed.
 */
char *report_reply_text(const char *reply, const char *machine, const char *target);

#endif
