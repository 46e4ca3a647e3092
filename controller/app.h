/*
 * One controlling session in this process: its context, fleet, durable state, monitor and the
 * calls under way. Start order: store, fleet, monitor, what was left open; stop in reverse.
 */
#ifndef SHP_CONTROLLER_APP_H
#define SHP_CONTROLLER_APP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include <cjson/cJSON.h>

#include "base/error.h"
#include "controller/context.h"
#include "controller/extension_file.h"
#include "controller/fleet/fleet.h"
#include "controller/store/store.h"
#include "installer/artifact.h"

struct operation;
struct monitor;

struct app {
    uv_loop_t *loop;
    struct context context;
    struct shp_artifacts *artifacts;
    struct extension_file extension;
    struct fleet *fleet;
    struct shp_store *store;
    struct monitor *monitor;
    struct operation *operations; /* under way */
    char installation[33];
    uv_timer_t resume; /* takes up operations that nobody asked for again */
    bool closing;
    void (*on_closed)(struct app *, void *user);
    void *on_closed_user;
};

/* Above the app: whoever shows things to the model or the user. */
struct app_events {
    /* A report is due (again); push from the store (monitor.h). */
    void (*on_report_due)(void *user);
    void (*on_machine_state)(struct machine *machine, void *user);
    void *user;
};

/*
 * context is taken over. program_dir: directory of this binary, from where helpers and the
 * extension file are found. *error: session_in_use, store_failed. On failure nothing is left.
 */
int app_open(struct app **out, uv_loop_t *loop, struct context *context, const char *program_dir,
             const struct app_events *events, struct shp_error *error);
const struct app_events *app_events(const struct app *app);

/* End: links closed, calls failed with shutting_down; on_closed from the loop, then freed. */
void app_close(struct app *app, void (*on_closed)(struct app *, void *), void *user);

/* Open tasks of the store. */
size_t app_open_tasks(const struct app *app);

/* Fresh random id, 32 hex. */
void app_new_id(char out[33]);

#endif
