#include "controller/app.h"

#include <stdlib.h>
#include <sodium.h>

#include "base/id.h"
#include "controller/agents/operation.h"
#include "controller/clock.h"
#include "controller/extension_file.h"
#include "controller/installation.h"
#include "controller/monitor/monitor.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

/* A caller that lived through our crash repeats its calls at once; what nobody repeats by then was
 * asked by a Pi that is gone, and is taken up without it. */
#define RESUME_GRACE_MS 3000

struct app_whole {
    struct app app;
    struct app_events events;
};

const struct app_events *app_events(const struct app *app)
{
    return &((const struct app_whole *)app)->events;
}

void app_new_id(char out[33])
{
    uint8_t bytes[SHP_ID_BYTES];
    randombytes_buf(bytes, sizeof(bytes));
    shp_hex_encode(out, bytes, sizeof(bytes));
}

size_t app_open_tasks(const struct app *app)
{
    size_t count = 0;
    shp_store_task_count_open(app->store, &count);
    return count;
}

/* ---- news ---------------------------------------------------------------------------------- */

static void on_machine_state(struct machine *machine, void *user)
{
    struct app *app = user;
    if (app->monitor && !app->closing)
        monitor_on_machine_state(app->monitor, machine);
    if (app_events(app)->on_machine_state)
        app_events(app)->on_machine_state(machine, app_events(app)->user);
}

static void on_session_event(struct machine *machine, const cJSON *params, void *user)
{
    struct app *app = user;
    if (app->monitor && !app->closing)
        monitor_on_session_event(app->monitor, machine, params);
}

/* ---- open ---------------------------------------------------------------------------------- */

static void app_free(struct app *app)
{
    if (app->fleet)
        fleet_free(app->fleet);
    shp_store_close(app->store);
    shp_artifacts_free(app->artifacts);
    extension_file_fini(&app->extension);
    context_fini(&app->context);
    free(app);
}

static void on_resume(uv_timer_t *timer)
{
    struct app *app = timer->data;
    operation_resume_open(app);
    if (app_events(app)->on_report_due)
        app_events(app)->on_report_due(app_events(app)->user);
}

static void on_catalog(struct fleet *fleet, const struct shp_error *error, void *user)
{
    (void)error; /* shown by list and doctor; the local machine works without a catalog */
    struct app *app = user;
    if (app->closing)
        return;
    monitor_restore(app->monitor);
    for (size_t i = 0; app->context.eager && i < fleet->len; i++)
        if (fleet->items[i]->enabled && fleet->items[i]->state != MACHINE_CLOSED)
            machine_want(fleet->items[i], true);
}

int app_open(struct app **out, uv_loop_t *loop, struct context *context, const char *program_dir,
             const struct app_events *events, struct shp_error *error)
{
    struct app_whole *whole = xcalloc(1, sizeof(*whole));
    struct app *app = &whole->app;
    whole->events = *events;
    app->loop = loop;
    app->context = *context;
    *context = (struct context){0};
    bool in_memory = app->context.kind == CONTEXT_CLI || !app->context.pi_session_file;
    struct shp_store_options store = {
        .agent_dir = app->context.agent_dir,
        .pi_session_id = app->context.pi_session_id,
        .header = app->context.header ? app->context.header : "",
        .pi_session_file = app->context.pi_session_file,
        .memory = in_memory,
        .now_unix_ms = clock_unix_ms(),
    };
    int rc = installation_id(app->installation, app->context.home, error);
    if (rc == SHP_OK)
        rc = shp_store_open(&app->store, &store, error);
    if (rc != SHP_OK) {
        app_free(app);
        return rc;
    }
    /* Before anything is handed to a call of this process. */
    if (shp_store_report_release(app->store) != SHP_OK) {
        shp_error_set(error, SHP_CODE_STORE_FAILED, NULL, "open session", "%s",
                      shp_store_error(app->store));
        app_free(app);
        return SHP_ERR_IO;
    }
    if (!in_memory)
        shp_store_sweep(app->context.agent_dir, store.now_unix_ms);
    extension_file_load(&app->extension, program_dir);
    app->artifacts = shp_artifacts_load(program_dir);
    struct machine_events machine_events = {on_machine_state, on_session_event, app};
    bool with_local = app->context.kind == CONTEXT_CLI || app->context.herdr_socket;
    app->fleet = fleet_new(loop, &app->context, app->artifacts, app->installation, with_local,
                           &machine_events);
    app->monitor = monitor_new(app);
    uv_timer_init(loop, &app->resume);
    app->resume.data = app;
    uv_unref((uv_handle_t *)&app->resume);
    if (!in_memory)
        uv_timer_start(&app->resume, on_resume, RESUME_GRACE_MS, 0);
    if (with_local && (app->context.eager || app_open_tasks(app) > 0))
        fleet_ready(app->fleet, on_catalog, app);
    *out = app;
    return SHP_OK;
}

/* ---- close --------------------------------------------------------------------------------- */

static void on_resume_closed(uv_handle_t *handle)
{
    struct app *app = handle->data;
    void (*on_closed)(struct app *, void *) = app->on_closed;
    void *user = app->on_closed_user;
    on_closed(app, user);
    app_free(app);
}

static void on_fleet_closed(struct fleet *fleet, void *user)
{
    (void)fleet;
    struct app *app = user;
    uv_close((uv_handle_t *)&app->resume, on_resume_closed);
}

void app_close(struct app *app, void (*on_closed)(struct app *, void *), void *user)
{
    if (app->closing)
        return;
    app->closing = true;
    app->on_closed = on_closed;
    app->on_closed_user = user;
    uv_timer_stop(&app->resume);
    operation_abandon_all(app);
    monitor_close(app->monitor);
    fleet_close(app->fleet, on_fleet_closed, app);
}
