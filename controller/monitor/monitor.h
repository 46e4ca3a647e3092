/*
 * From evidence to reports: follows every open task until it settles.
 *
 * Events of a pi session are hints that start a question; the receiver's answer to `settlement` is
 * the truth, tied to the task by the id of its input. The end of a task and its report are stored
 * in one transaction, before anyone hears of them. Who hears: the call that waits, or else the
 * conversation, by a push (on_report_due); never both.
 *
 * On every new link, and at a slow pace besides, the monitor asks again for each open task: what
 * happened while nobody listened is found then.
 */
#ifndef SHP_CONTROLLER_MONITOR_MONITOR_H
#define SHP_CONTROLLER_MONITOR_MONITOR_H

#include <stdbool.h>
#include <cjson/cJSON.h>

#include "controller/app.h"
#include "controller/monitor/report.h"

#define MONITOR_POLL_MS 30000
#define MONITOR_RETRY_MS 2000
#define MONITOR_RETRIES_MAX 15 /* in a row at that pace, then at the poll's */

struct monitor *monitor_new(struct app *app);

/* Follow all open tasks of the store whose call has ended; the others belong to their call, which
 * waits for them or gives them up. */
void monitor_restore(struct monitor *monitor);

/* What a waiting call hears: the settlement, or the error that ends the waiting. Borrowed. */
struct task_outcome {
    const struct shp_error *error;
    const struct settlement *settlement;
    const struct shp_agent_record *agent;
    const char *report; /* id */
    bool told;          /* its report was handed to the conversation before: do not tell it again */
};
typedef void (*task_outcome_cb)(const struct task_outcome *outcome, void *user);

/*
 * Follow a task that its worker accepted. cb NULL: push the result; otherwise cb gets it, once,
 * unless monitor_detach gives it back to the push before. False: the task cannot be followed now
 * (its machine is not in the fleet); it is tried again by itself, but cb is not kept.
 */
bool monitor_follow(struct monitor *monitor, const char *task_id, task_outcome_cb cb, void *user);
void monitor_detach(struct monitor *monitor, const char *task_id);

void monitor_on_session_event(struct monitor *monitor, struct machine *machine,
                              const cJSON *params);
void monitor_on_machine_state(struct monitor *monitor, struct machine *machine);

/* Waiters get shutting_down; answers under way are ignored. Freed when the last came in. */
void monitor_close(struct monitor *monitor);

#endif
