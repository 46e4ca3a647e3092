#include "tests/support/controller_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "controller/agents/operation.h"
#include "tests/support/controller_world.h"
#include "tests/support/temp_root.h"

/* Far above what anything here takes; reached only when something hangs. */
#define DEADLINE_MS 90000

#define EXTENSION "export default () => undefined;\n"

/* ---- loop ---------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

static void run(struct controller_rig *rig, const bool *flag,
                bool (*condition)(struct controller_rig *), uint64_t ms, bool must)
{
    uv_timer_t timer;
    bool late = false;
    uv_timer_init(&rig->loop, &timer);
    timer.data = &late;
    uv_update_time(&rig->loop);
    uv_timer_start(&timer, on_timer, ms, 0);
    while (!late && !(flag && *flag) && !(condition && condition(rig)))
        uv_run(&rig->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&rig->loop, UV_RUN_NOWAIT);
    if (must)
        assert_false(late);
}

void controller_until(struct controller_rig *rig, const bool *flag)
{
    run(rig, flag, NULL, DEADLINE_MS, true);
}

void controller_until_true(struct controller_rig *rig, bool (*condition)(struct controller_rig *))
{
    run(rig, NULL, condition, DEADLINE_MS, true);
}

void controller_linger(struct controller_rig *rig, uint64_t ms)
{
    run(rig, NULL, NULL, ms, false);
}

/* ---- life ---------------------------------------------------------------------------------- */

void controller_rig_catalog(struct controller_rig *rig, const char *json)
{
    char text[4096];
    char *path = temp_path(rig->root, "herdr");
    snprintf(text, sizeof text, "#!/bin/sh\ncat <<'END'\n%s\nEND\n", json);
    temp_write(path, text, strlen(text));
    assert_int_equal(chmod(path, 0700), 0);
    free(path);
}

void controller_rig_open(struct controller_rig *rig, const char *bin_dir)
{
    memset(rig, 0, sizeof *rig);
    assert_true(sodium_init() >= 0);
    rig->root = temp_root_make();
    assert_int_equal(setenv("HOME", rig->root, 1), 0);
    unsetenv("XDG_CONFIG_HOME");
    rig->program_dir = temp_path(rig->root, "bin");
    assert_int_equal(mkdir(rig->program_dir, 0700), 0);
    char *helper = temp_path(rig->program_dir, "shepherdr-helper");
    char *built = temp_path(bin_dir, "shepherdr-helper");
    assert_int_equal(symlink(built, helper), 0);
    free(built);
    free(helper);
    char *extension = temp_path(rig->program_dir, "pi-ext.mjs");
    temp_write(extension, EXTENSION, strlen(EXTENSION));
    free(extension);
    controller_rig_catalog(rig, "[]");
    assert_int_equal(uv_loop_init(&rig->loop), 0);
    world_open(&rig->world, &rig->loop, rig->root);
}

void controller_rig_close(struct controller_rig *rig)
{
    if (rig->app)
        controller_stop(rig);
    world_close(&rig->world);
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&rig->loop), 0);
    temp_root_remove(rig->root);
    free(rig->program_dir);
}

static void on_report_due(void *user)
{
    struct controller_rig *rig = user;
    rig->reports_due++;
}

static struct context make_context(const struct controller_rig *rig)
{
    return (struct context){
        .kind = rig->command ? CONTEXT_CLI : CONTEXT_PI,
        .pi_session_id = strdup(rig->command ? "cli" : "controlling-session"),
        .pi_session_file = temp_path(rig->root, "controlling.jsonl"),
        .header = strdup("head 2026"),
        .agent_dir = temp_path(rig->root, ".pi/agent"),
        .home = strdup(rig->root),
        .cwd = strdup(rig->root),
        .session_name = strdup("tests"),
        .herdr_socket = strdup(rig->world.socket),
        .herdr_bin = temp_path(rig->root, "herdr"),
        .herdr_pane = strdup("w1:p0"),
        .herdr_workspace = strdup("w1"),
    };
}

void controller_start(struct controller_rig *rig)
{
    struct context context = make_context(rig);
    struct app_events events = {.on_report_due = on_report_due, .user = rig};
    struct shp_error error = {0};
    assert_null(rig->app);
    rig->closed = false;
    int rc = app_open(&rig->app, &rig->loop, &context, rig->program_dir, &events, &error);
    if (rc != SHP_OK)
        fail_msg("app_open: %s", error.cause);
}

static void on_closed(struct app *app, void *user)
{
    (void)app;
    struct controller_rig *rig = user;
    rig->closed = true;
    rig->app = NULL;
}

void controller_stop_begin(struct controller_rig *rig)
{
    app_close(rig->app, on_closed, rig);
}

void controller_stop(struct controller_rig *rig)
{
    if (rig->app)
        controller_stop_begin(rig); /* again does nothing */
    controller_until(rig, &rig->closed);
}

/* ---- calls --------------------------------------------------------------------------------- */

static void on_done(const struct operation_result *result, void *user)
{
    struct rig_call *call = user;
    assert_false(call->done); /* once */
    call->done = true;
    if (result->error)
        call->error = *result->error;
    else
        call->value = cJSON_Duplicate(result->value, true);
    call->bulk = result->bulk ? strdup(result->bulk) : NULL;
    call->warning = result->warning ? strdup(result->warning) : NULL;
}

static void on_progress(const cJSON *value, void *user)
{
    (void)value;
    struct rig_call *call = user;
    assert_false(call->done);
    call->progress++;
}

void controller_ask(struct controller_rig *rig, const char *id, const char *json,
                    const char *message, struct rig_call *call)
{
    memset(call, 0, sizeof *call);
    cJSON *object = cJSON_Parse(json);
    assert_non_null(object);
    struct operation_caller caller = {on_done, on_progress, call};
    operation_start(rig->app, id, object, message, &caller);
    cJSON_Delete(object);
}

void rig_call_fini(struct rig_call *call)
{
    cJSON_Delete(call->value);
    free(call->bulk);
    free(call->warning);
    memset(call, 0, sizeof *call);
}

struct counting {
    enum shp_report_state state;
    size_t count;
};

static void count_report(const struct shp_report_record *report, void *user)
{
    struct counting *counting = user;
    counting->count += report->state == counting->state;
}

size_t controller_reports(struct controller_rig *rig, enum shp_report_state state)
{
    struct counting counting = {.state = state};
    assert_int_equal(shp_store_report_each_due(rig->app->store, count_report, &counting), 0);
    return counting.count;
}
