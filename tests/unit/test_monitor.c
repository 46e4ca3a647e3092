/* Evidence to reports: lost events, a worker that forgot, a worker that ended, and restarts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "controller/json.h"
#include "controller/monitor/monitor.h"
#include "controller/store/store_internal.h"
#include "protocol/messages.h"
#include "tests/support/controller_rig.h"
#include "tests/support/temp_root.h"

#define ID "0123456789abcdef0123456789abcdef"
#define SPAWN "{\"action\":\"spawn\",\"agent_type\":\"explorer\",\"label\":\"look around\"}"
#define SPAWN_ON                                                                                   \
    "{\"action\":\"spawn\",\"agent_type\":\"explorer\",\"label\":\"look around\","                 \
    "\"blocking\":false}"

static struct controller_rig rig;

static int setup(void **state)
{
    (void)state;
    controller_rig_open(&rig, SHP_TEST_BIN_DIR);
    controller_start(&rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    controller_rig_close(&rig);
    return 0;
}

static bool one_report_due(struct controller_rig *of)
{
    return controller_reports(of, SHP_REPORT_DUE) == 1;
}

static void start_worker(void)
{
    struct rig_call call;
    controller_ask(&rig, ID, SPAWN_ON, "Look.", &call);
    controller_until(&rig, &call.done);
    assert_int_equal(call.error.code, 0);
    rig_call_fini(&call);
}

static bool asked_twice(struct controller_rig *of)
{
    return of->world.count[WORLD_SETTLEMENT] >= 2;
}

struct report_text {
    char *text;
    cJSON *details;
};

static void take_text(const struct shp_report_record *report, void *user)
{
    struct report_text *out = user;
    free(out->text);
    cJSON_Delete(out->details);
    out->text = strdup(report->text);
    out->details = cJSON_Parse(report->details);
}

static struct report_text the_report(void)
{
    struct report_text out = {0};
    controller_until_true(&rig, one_report_due);
    assert_int_equal(shp_store_report_each_due(rig.app->store, take_text, &out), 0);
    assert_int_equal(app_open_tasks(rig.app), 0);
    return out;
}

static void report_fini(struct report_text *report)
{
    free(report->text);
    cJSON_Delete(report->details);
}

/* ---- tests --------------------------------------------------------------------------------- */

static bool asked_once(struct controller_rig *of)
{
    return of->world.count[WORLD_SETTLEMENT] >= 1;
}

static void a_lost_event_is_made_up_for(void **state)
{
    (void)state;
    start_worker();
    controller_until_true(&rig, asked_once);
    rig.world.silent = true;
    world_settle(&rig.world);
    world_break(&rig.world); /* the connection, and the event with it */
    struct report_text report = the_report();
    assert_non_null(strstr(report.text, WORLD_REPLY));
    assert_string_equal(json_string(report.details, "evidence"), "pi-ext");
    assert_string_equal(json_string(report.details, "state"), "settled");
    report_fini(&report);
}

/* The helper ends, the machine is connected again, and the worker is bound and asked again. */
static void a_lost_link_is_made_up_for(void **state)
{
    (void)state;
    start_worker();
    controller_until_true(&rig, asked_once);
    rig.world.silent = true;
    struct machine *local = fleet_local(rig.app->fleet);
    shp_link_close(local->link, 0, "test");
    world_settle(&rig.world);
    struct report_text report = the_report();
    assert_int_equal(local->generation, 2);
    assert_int_equal(rig.world.count[WORLD_BIND] >= 2, true);
    report_fini(&report);
}

static void a_worker_that_forgot_gets_the_task_again(void **state)
{
    (void)state;
    start_worker();
    controller_until_true(&rig, asked_once);
    assert_int_equal(rig.world.inputs_len, 1);
    char input[33];
    memcpy(input, rig.world.inputs[0], sizeof input);
    rig.world.inputs_len = 0; /* Pi ended before it had a file */
    world_break(&rig.world);
    controller_until_true(&rig, asked_twice);
    controller_linger(&rig, 200);
    assert_int_equal(rig.world.count[WORLD_DELIVER], 2);
    assert_int_equal(rig.world.inputs_len, 1);
    assert_string_equal(rig.world.inputs[0], input);
    world_settle(&rig.world);
    struct report_text report = the_report();
    report_fini(&report);
}

static void a_worker_that_ended_is_reported_as_failed(void **state)
{
    (void)state;
    start_worker();
    controller_until_true(&rig, asked_once);
    world_exit(&rig.world);
    struct report_text report = the_report();
    assert_string_equal(json_string(report.details, "state"), "failed");
    assert_string_equal(json_string(report.details, "evidence"), "herdr");
    assert_non_null(strstr(report.text, "<error>exited</error>"));
    assert_true(rig.world.count[WORLD_SNAPSHOT] >= 3); /* one look is not enough */
    report_fini(&report);
}

static void the_last_words_of_an_ended_worker_are_reported(void **state)
{
    (void)state;
    static const char transcript[] =
        "{\"type\":\"session\",\"version\":3,\"id\":\"worker-session\","
        "\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"cwd\":\"/\"}\n"
        "{\"type\":\"message\",\"id\":\"a0000001\",\"parentId\":null,"
        "\"timestamp\":\"2026-01-01T00:00:01.000Z\",\"message\":{\"role\":\"user\",\"content\":"
        "\"Look.\",\"timestamp\":1}}\n"
        "{\"type\":\"message\",\"id\":\"a0000002\",\"parentId\":\"a0000001\","
        "\"timestamp\":\"2026-01-01T00:00:02.000Z\",\"message\":{\"role\":\"assistant\","
        "\"content\":[{\"type\":\"text\",\"text\":\"Half way there.\"}],\"api\":\"x\","
        "\"provider\":\"x\",\"model\":\"x\",\"usage\":{},\"stopReason\":\"stop\",\"timestamp\":2}"
        "}\n";
    start_worker();
    controller_until_true(&rig, asked_once);
    char *path = temp_path(rig.root, "worker.jsonl");
    temp_write(path, transcript, strlen(transcript));
    free(path);
    world_exit(&rig.world);
    struct report_text report = the_report();
    assert_string_equal(json_string(report.details, "evidence"), "transcript");
    assert_non_null(strstr(report.text, "Half way there."));
    report_fini(&report);
}

/* Nothing is told before it is stored; the same settlement is found again. */
static void a_settlement_that_cannot_be_stored_is_told_later(void **state)
{
    (void)state;
    start_worker();
    controller_until_true(&rig, asked_once);
    sqlite3 *db = rig.app->store->db;
    assert_int_equal(sqlite3_exec(db, "PRAGMA query_only=ON", NULL, NULL, NULL), SQLITE_OK);
    world_settle(&rig.world);
    controller_until_true(&rig, asked_twice);
    controller_linger(&rig, 200);
    assert_int_equal(rig.reports_due, 0);
    assert_int_equal(app_open_tasks(rig.app), 1);
    assert_int_equal(sqlite3_exec(db, "PRAGMA query_only=OFF", NULL, NULL, NULL), SQLITE_OK);
    struct report_text report = the_report();
    assert_int_equal(rig.reports_due, 1);
    report_fini(&report);
}

static void a_task_is_followed_by_the_next_controller(void **state)
{
    (void)state;
    start_worker();
    controller_until_true(&rig, asked_once);
    controller_stop(&rig);
    world_settle(&rig.world);
    controller_start(&rig);
    struct report_text report = the_report();
    report_fini(&report);
}

static void settle_at_once(enum world_step step, void *user)
{
    (void)user;
    if (step == WORLD_SETTLEMENT && !rig.world.settled)
        world_settle(&rig.world);
}

/* A result that was handed to a call may be lost with it: it is offered again, under its id. */
static void a_held_report_is_offered_after_a_restart(void **state)
{
    (void)state;
    struct rig_call call;
    rig.world.on_step = settle_at_once;
    controller_ask(&rig, ID, SPAWN, "Look.", &call);
    controller_until(&rig, &call.done);
    assert_string_equal(call.bulk, WORLD_REPLY);
    const char *id = json_string(call.value, "report");
    assert_non_null(id);
    assert_int_equal(controller_reports(&rig, SHP_REPORT_DUE), 0);
    controller_stop(&rig);
    controller_start(&rig);
    assert_int_equal(controller_reports(&rig, SHP_REPORT_DUE), 1);
    /* Until the conversation is known to have it. */
    assert_int_equal(shp_store_report_mark(rig.app->store, id, SHP_REPORT_CONFIRMED), 0);
    controller_stop(&rig);
    controller_start(&rig);
    assert_int_equal(controller_reports(&rig, SHP_REPORT_DUE), 0);
    rig_call_fini(&call);
}

struct heard {
    bool done;
    bool told;
    char report[65];
};

static void on_outcome(const struct task_outcome *outcome, void *user)
{
    struct heard *heard = user;
    assert_false(heard->done);
    assert_null(outcome->error);
    heard->told = outcome->told;
    snprintf(heard->report, sizeof heard->report, "%s", outcome->report);
    heard->done = true;
}

/*
 * A call that is taken up after a crash waits for a task that has ended already. Its report goes to
 * the call as long as nobody else has it, and to nobody twice.
 */
static void a_reply_that_was_pushed_is_not_told_to_a_call(void **state)
{
    (void)state;
    struct rig_call call;
    rig.world.on_step = settle_at_once;
    controller_ask(&rig, ID, SPAWN_ON, "Look.", &call);
    controller_until_true(&rig, one_report_due);
    const char *task = json_string(call.value, "taskId");
    struct heard heard = {0};
    assert_true(monitor_follow(rig.app->monitor, task, on_outcome, &heard));
    controller_until(&rig, &heard.done);
    assert_false(heard.told);
    assert_int_equal(controller_reports(&rig, SHP_REPORT_DUE), 0);
    assert_int_equal(shp_store_report_mark(rig.app->store, heard.report, SHP_REPORT_PUSHED), 0);
    heard.done = false;
    assert_true(monitor_follow(rig.app->monitor, task, on_outcome, &heard));
    controller_until(&rig, &heard.done);
    assert_true(heard.told);
    assert_int_equal(controller_reports(&rig, SHP_REPORT_PUSHED), 1);
    rig_call_fini(&call);
}

/* The first end counts, whatever is found later, and the follower ends. */
static void a_task_that_ended_otherwise_stays_ended(void **state)
{
    (void)state;
    struct rig_call call;
    controller_ask(&rig, ID, SPAWN_ON, "Look.", &call);
    controller_until(&rig, &call.done);
    controller_until_true(&rig, asked_once);
    const char *task = json_string(call.value, "taskId");
    assert_int_equal(shp_store_task_settle(rig.app->store, task, SHP_TASK_FAILED, NULL), 0);
    struct heard heard = {0};
    assert_true(monitor_follow(rig.app->monitor, task, on_outcome, &heard));
    world_settle(&rig.world);
    controller_until(&rig, &heard.done);
    assert_true(heard.told);
    assert_int_equal(controller_reports(&rig, SHP_REPORT_DUE), 0);
    struct shp_task_record record;
    assert_int_equal(shp_store_task_get(rig.app->store, task, &record), 0);
    assert_int_equal(record.state, SHP_TASK_FAILED);
    shp_task_record_fini(&record);
    rig_call_fini(&call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lost_event_is_made_up_for, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_link_is_made_up_for, setup, teardown),
        cmocka_unit_test_setup_teardown(a_worker_that_forgot_gets_the_task_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_worker_that_ended_is_reported_as_failed, setup, teardown),
        cmocka_unit_test_setup_teardown(the_last_words_of_an_ended_worker_are_reported, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_settlement_that_cannot_be_stored_is_told_later, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_task_is_followed_by_the_next_controller, setup, teardown),
        cmocka_unit_test_setup_teardown(a_held_report_is_offered_after_a_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reply_that_was_pushed_is_not_told_to_a_call, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_task_that_ended_otherwise_stays_ended, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
