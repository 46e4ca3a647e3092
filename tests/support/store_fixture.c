#include "tests/support/store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

struct shp_store_options options_for(const char *root)
{
    return (struct shp_store_options){.agent_dir = root,
                                      .pi_session_id = SESSION,
                                      .header = SESSION " 2026-09-21T14:00:00.000Z",
                                      .pi_session_file = root,
                                      .now_unix_ms = NOW_MS};
}

struct shp_store *open_store(const char *root)
{
    struct shp_store_options options = options_for(root);
    struct shp_store *store = NULL;
    struct shp_error error = {0};
    int err = shp_store_open(&store, &options, &error);
    if (err != 0)
        print_error("open: %s\n", error.cause);
    assert_int_equal(err, 0);
    assert_int_equal(error.code, 0);
    return store;
}

void put_agent(struct shp_store *store, const char *id, const char *terminal, bool closed)
{
    struct shp_agent_record agent = {.machine = "local",
                                     .terminal_id = (char *)(uintptr_t)terminal,
                                     .pane = "w1:p1",
                                     .origin = SHP_AGENT_SPAWNED,
                                     .closed = closed};
    snprintf(agent.id, sizeof agent.id, "%s", id);
    assert_int_equal(shp_store_agent_put(store, &agent), 0);
}

int put_task(struct shp_store *store, unsigned number, enum shp_task_state state)
{
    struct shp_task_record task = {.agent = AGENT,
                                   .state = state,
                                   .delivery = SHP_DELIVERY_SENT,
                                   .text = "look at the failing test",
                                   .held = true,
                                   .created_unix_ms = NOW_MS + number};
    snprintf(task.id, sizeof task.id, "%032u", number);
    snprintf(task.input, sizeof task.input, "f%031u", number);
    return shp_store_task_put(store, &task);
}

struct shp_report_record report_of(const char *id, const char *task)
{
    struct shp_report_record report = {
        .details = "{\"machine\":\"local\"}", .text = "all green", .created_unix_ms = NOW_MS};
    snprintf(report.id, sizeof report.id, "%s", id);
    snprintf(report.task, sizeof report.task, "%s", task);
    return report;
}

void see(struct seen *seen, const char *id, int state)
{
    assert_true(seen->len < 8);
    snprintf(seen->ids[seen->len], SHP_STORE_KEY_MAX, "%s", id);
    seen->states[seen->len++] = state;
}

void see_task(const struct shp_task_record *task, void *user)
{
    see(user, task->id, (int)task->state);
}
