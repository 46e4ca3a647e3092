/*
 * spawn through a real helper: every step met by a cancel, by the end of the controller, and by a
 * fault of Herdr or of the worker. What stays behind is counted: tabs, tasks given, reports.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "controller/agents/operation.h"
#include "controller/json.h"
#include "controller/store/store_internal.h"
#include "protocol/messages.h"
#include "tests/support/controller_rig.h"

#define SPAWN "{\"action\":\"spawn\",\"agent_type\":\"explorer\",\"label\":\"look around\"}"
#define SPAWN_ON                                                                                   \
    "{\"action\":\"spawn\",\"agent_type\":\"explorer\",\"label\":\"look around\","                 \
    "\"blocking\":false}"
#define TEXT "Look for the failing test."
#define ID "0123456789abcdef0123456789abcdef"

static struct controller_rig rig;

static int setup(void **state)
{
    (void)state;
    controller_rig_open(&rig, SHP_TEST_BIN_DIR);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    controller_rig_close(&rig);
    return 0;
}

static void settle_after_delivery(enum world_step step, void *user)
{
    (void)user;
    if (step == WORLD_SETTLEMENT && rig.world.count[step] == 1)
        world_settle(&rig.world); /* before the first answer: the event comes first */
}

static void expect_code(const struct rig_call *call, int code)
{
    assert_true(call->done);
    assert_string_equal(shp_code_name(call->error.code), shp_code_name(code));
}

static void expect_reply(const struct rig_call *call)
{
    assert_true(call->done);
    if (call->error.code)
        fail_msg("%s: %s", shp_code_name(call->error.code), call->error.cause);
    assert_string_equal(json_string(call->value, "status"), "done");
    assert_string_equal(call->bulk, WORLD_REPLY);
}

static bool one_report_due(struct controller_rig *of)
{
    return controller_reports(of, SHP_REPORT_DUE) == 1;
}

/* ---- the way through ----------------------------------------------------------------------- */

static void a_blocking_spawn_answers_with_the_reply(void **state)
{
    (void)state;
    struct rig_call call;
    rig.world.on_step = settle_after_delivery;
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN, TEXT, &call);
    controller_until(&rig, &call.done);
    expect_reply(&call);
    assert_string_equal(rig.world.last_text, TEXT);
    assert_string_equal(rig.world.tabs[0].label, "look around");
    assert_string_equal(json_string(call.value, "target"), rig.world.tabs[0].pane);
    assert_int_equal(rig.world.count[WORLD_BIND] > 0, true);
    assert_int_equal(app_open_tasks(rig.app), 0);
    /* Handed to the call, so not pushed. */
    assert_int_equal(controller_reports(&rig, SHP_REPORT_DUE), 0);
    assert_int_equal(rig.reports_due, 0);
    rig_call_fini(&call);
}

static void a_nonblocking_spawn_is_pushed_once(void **state)
{
    (void)state;
    struct rig_call call;
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN_ON, TEXT, &call);
    controller_until(&rig, &call.done);
    assert_string_equal(json_string(call.value, "status"), "working");
    assert_int_equal(app_open_tasks(rig.app), 1);
    world_settle(&rig.world);
    world_settle(&rig.world);
    controller_until_true(&rig, one_report_due);
    controller_linger(&rig, 300);
    assert_int_equal(controller_reports(&rig, SHP_REPORT_DUE), 1);
    assert_int_equal(rig.reports_due, 1);
    rig_call_fini(&call);
}

static void a_command_binds_nobody(void **state)
{
    (void)state;
    struct rig_call call;
    rig.command = true;
    rig.world.on_step = settle_after_delivery;
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN, TEXT, &call);
    controller_until(&rig, &call.done);
    expect_reply(&call);
    assert_int_equal(rig.world.count[WORLD_BIND], 0);
    rig_call_fini(&call);
}

/* ---- faults -------------------------------------------------------------------------------- */

static void expect_rollback(const struct rig_call *call, int code)
{
    expect_code(call, code);
    assert_int_equal(rig.world.tabs_len, 0);
    assert_int_equal(rig.world.delivered, 0);
    assert_int_equal(app_open_tasks(rig.app), 0);
    assert_string_equal(call->error.machine, "local");
    assert_true(*call->error.step && *call->error.cause);
}

static void what_herdr_refuses_is_rolled_back(void **state)
{
    (void)state;
    static const enum world_step steps[] = {WORLD_SNAPSHOT, WORLD_TAB_CREATE, WORLD_TAB_RENAME,
                                            WORLD_AGENT_START};
    controller_start(&rig);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct rig_call call;
        char id[33];
        snprintf(id, sizeof id, "%032zx", i + 1);
        rig.world.refuse[steps[i]] = "made_up_refusal";
        controller_ask(&rig, id, SPAWN, TEXT, &call);
        controller_until(&rig, &call.done);
        rig.world.refuse[steps[i]] = NULL;
        expect_rollback(&call, SHP_CODE_HERDR_ERROR);
        assert_non_null(strstr(call.error.cause, "made_up_refusal"));
        rig_call_fini(&call);
    }
}

static void a_lost_answer_is_looked_for(void **state)
{
    (void)state;
    static const enum world_step steps[] = {WORLD_TAB_CREATE, WORLD_TAB_RENAME, WORLD_AGENT_START};
    controller_start(&rig);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct rig_call call;
        char id[33];
        snprintf(id, sizeof id, "%032zx", i + 1);
        rig.world.drop[steps[i]] = true;
        controller_ask(&rig, id, SPAWN, TEXT, &call);
        controller_until(&rig, &call.done);
        assert_int_not_equal(call.error.code, 0);
        assert_int_equal(rig.world.tabs_len, 0);
        rig_call_fini(&call);
    }
}

static enum world_step cut_at;
static bool cut;

static void cut_link(enum world_step step, void *user)
{
    settle_after_delivery(step, user);
    if (step != cut_at || cut)
        return;
    cut = true;
    shp_link_close(fleet_local(rig.app->fleet)->link, SHP_CODE_INTERNAL_ERROR, "cut");
}

/* A rollback needs the machine, so it goes over the next link. */
static void a_lost_link_before_the_submission_leaves_nothing(void **state)
{
    (void)state;
    static const enum world_step steps[] = {WORLD_TAB_CREATE, WORLD_TAB_RENAME, WORLD_AGENT_START,
                                            WORLD_BIND};
    rig.world.on_step = cut_link;
    controller_start(&rig);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct rig_call call;
        char id[33];
        snprintf(id, sizeof id, "%032zx", i + 1);
        cut_at = steps[i];
        cut = false;
        controller_ask(&rig, id, SPAWN, TEXT, &call);
        controller_until(&rig, &call.done);
        assert_true(cut);
        assert_int_not_equal(call.error.code, 0);
        assert_string_equal(call.error.machine, "local");
        assert_int_equal(rig.world.tabs_len, 0);
        assert_int_equal(rig.world.delivered, 0);
        rig_call_fini(&call);
    }
}

static void a_lost_link_after_the_submission_loses_nothing(void **state)
{
    (void)state;
    static const enum world_step steps[] = {WORLD_DELIVER, WORLD_SETTLEMENT};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct rig_call call;
        void *inner = NULL;
        setup(&inner);
        rig.world.on_step = cut_link;
        cut_at = steps[i];
        cut = false;
        controller_start(&rig);
        controller_ask(&rig, ID, SPAWN, TEXT, &call);
        controller_until(&rig, &call.done);
        assert_true(cut);
        expect_reply(&call);
        assert_int_equal(rig.world.delivered, 1);
        rig_call_fini(&call);
        teardown(&inner);
    }
}

static void a_rejected_task_is_rolled_back(void **state)
{
    (void)state;
    struct rig_call call;
    rig.world.deliver = WORLD_BUSY;
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN, TEXT, &call);
    controller_until(&rig, &call.done);
    expect_rollback(&call, SHP_CODE_RECEIVER_BUSY);
    assert_int_equal(call.error.outcome, SHP_OUTCOME_REJECTED);
    controller_linger(&rig, 300);
    assert_int_equal(controller_reports(&rig, SHP_REPORT_DUE), 0);
    rig_call_fini(&call);
}

static void an_answer_that_is_lost_is_asked_for(void **state)
{
    (void)state;
    struct rig_call call;
    rig.world.deliver = WORLD_SEEN_LOST;
    rig.world.on_step = settle_after_delivery;
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN, TEXT, &call);
    controller_until(&rig, &call.done);
    expect_reply(&call);
    assert_int_equal(rig.world.count[WORLD_STATUS], 1);
    assert_int_equal(rig.world.delivered, 1);
    rig_call_fini(&call);
}

static void a_message_that_never_arrived_is_rejected(void **state)
{
    (void)state;
    struct rig_call call;
    rig.world.deliver = WORLD_LOST;
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN, TEXT, &call);
    controller_until(&rig, &call.done);
    assert_int_equal(call.error.outcome, SHP_OUTCOME_REJECTED);
    assert_int_equal(rig.world.count[WORLD_STATUS], 1);
    assert_int_equal(rig.world.tabs_len, 0);
    rig_call_fini(&call);
}

/* Neither the delivery nor the question about it gets an answer. */
static void break_everything(enum world_step step, void *user)
{
    (void)user;
    if (step == WORLD_DELIVER)
        rig.world.deliver = WORLD_SEEN_LOST;
    if (step == WORLD_STATUS)
        world_break(&rig.world);
    if (step == WORLD_STATUS)
        rig.world.on_step = NULL;
}

static void an_unknown_outcome_keeps_the_worker(void **state)
{
    (void)state;
    struct rig_call call;
    rig.world.on_step = break_everything;
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN, TEXT, &call);
    controller_until(&rig, &call.done);
    expect_code(&call, SHP_CODE_DELIVERY_UNKNOWN);
    assert_int_equal(call.error.outcome, SHP_OUTCOME_UNKNOWN);
    assert_int_equal(rig.world.tabs_len, 1);
    /* It is followed: its end comes as a report. */
    world_settle(&rig.world);
    controller_until_true(&rig, one_report_due);
    assert_int_equal(rig.world.delivered, 1);
    rig_call_fini(&call);
}

static void pi_that_ends_is_told_with_its_last_words(void **state)
{
    (void)state;
    struct rig_call call;
    rig.world.no_receiver = true;
    rig.world.refuse[WORLD_AGENT_GET] = "agent_not_found";
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN, TEXT, &call);
    controller_until(&rig, &call.done);
    expect_rollback(&call, SHP_CODE_SPAWN_FAILED);
    assert_non_null(strstr(call.error.cause, "no such model"));
    rig_call_fini(&call);
}

static void refuse_writes(bool refuse)
{
    assert_int_equal(sqlite3_exec(rig.app->store->db,
                                  refuse ? "PRAGMA query_only=ON" : "PRAGMA query_only=OFF", NULL,
                                  NULL, NULL),
                     SQLITE_OK);
}

static enum world_step fail_store_at;

static void fail_store(enum world_step step, void *user)
{
    (void)user;
    if (step == fail_store_at)
        refuse_writes(true);
}

/* What cannot be stored does not act, and what was made before is closed. */
static void a_step_that_cannot_be_stored_is_undone(void **state)
{
    (void)state;
    static const enum world_step steps[] = {WORLD_SNAPSHOT, WORLD_TAB_CREATE, WORLD_TAB_RENAME,
                                            WORLD_AGENT_START, WORLD_BIND};
    rig.world.on_step = fail_store;
    controller_start(&rig);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct rig_call call;
        char id[33];
        snprintf(id, sizeof id, "%032zx", i + 1);
        fail_store_at = steps[i];
        controller_ask(&rig, id, SPAWN, TEXT, &call);
        controller_until(&rig, &call.done);
        refuse_writes(false);
        expect_code(&call, SHP_CODE_STORE_FAILED);
        assert_int_equal(rig.world.tabs_len, 0);
        assert_int_equal(rig.world.delivered, 0);
        rig_call_fini(&call);
    }
}

static bool retry_waits(struct controller_rig *of)
{
    return of->world.count[WORLD_AGENT_START] >= 2 && of->app->operations->on_cancel;
}

static bool nothing_under_way(struct controller_rig *of)
{
    return of->app->operations == NULL;
}

static void a_pane_that_is_busy_is_waited_for(void **state)
{
    (void)state;
    struct rig_call call;
    rig.world.refuse[WORLD_AGENT_START] = "agent_pane_busy";
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN_ON, TEXT, &call);
    controller_until_true(&rig, retry_waits);
    rig.world.refuse[WORLD_AGENT_START] = NULL;
    controller_until(&rig, &call.done);
    assert_int_equal(call.error.code, 0);
    assert_int_equal(rig.world.tabs_len, 1);
    rig_call_fini(&call);
}

static void a_cancel_between_two_tries_leaves_nothing(void **state)
{
    (void)state;
    struct rig_call call;
    rig.world.refuse[WORLD_AGENT_START] = "agent_pane_busy";
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN, TEXT, &call);
    controller_until_true(&rig, retry_waits);
    operation_detach(rig.app, ID, &call);
    controller_until_true(&rig, nothing_under_way);
    assert_false(call.done);
    assert_int_equal(rig.world.tabs_len, 0);
}

static void an_end_between_two_tries_is_taken_up(void **state)
{
    (void)state;
    struct rig_call call;
    rig.world.refuse[WORLD_AGENT_START] = "agent_pane_busy";
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN_ON, TEXT, &call);
    controller_until_true(&rig, retry_waits);
    controller_stop(&rig);
    expect_code(&call, SHP_CODE_SHUTTING_DOWN);
    rig_call_fini(&call);
    rig.world.refuse[WORLD_AGENT_START] = NULL;
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN_ON, TEXT, &call);
    controller_until(&rig, &call.done);
    assert_int_equal(call.error.code, 0);
    assert_int_equal(rig.world.tabs_len, 1);
    assert_int_equal(rig.world.delivered, 1);
    rig_call_fini(&call);
}

/* ---- cancel and end at each step ------------------------------------------------------------ */

static enum world_step stop_at;
static struct rig_call *stop_call;
static bool stopped;

static void cancel_at(enum world_step step, void *user)
{
    (void)user;
    if (step != stop_at || stopped)
        return;
    stopped = true;
    operation_detach(rig.app, ID, stop_call);
}

static void cancel_before_the_submission(enum world_step step)
{
    struct rig_call call;
    void *state = NULL;
    setup(&state);
    stop_at = step;
    stop_call = &call;
    stopped = false;
    rig.world.on_step = cancel_at;
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN, TEXT, &call);
    controller_until(&rig, &stopped);
    controller_until_true(&rig, nothing_under_way);
    assert_false(call.done);
    assert_int_equal(rig.world.tabs_len, 0);
    assert_int_equal(rig.world.delivered, 0);
    assert_int_equal(app_open_tasks(rig.app), 0);
    /* The same call asked again hears what became of it. */
    controller_ask(&rig, ID, SPAWN, TEXT, &call);
    controller_until(&rig, &call.done);
    expect_code(&call, SHP_CODE_CANCELED);
    rig_call_fini(&call);
    teardown(&state);
}

static void a_cancel_before_the_submission_leaves_nothing(void **state)
{
    (void)state;
    static const enum world_step steps[] = {WORLD_PANE_CURRENT, WORLD_SNAPSHOT,    WORLD_TAB_CREATE,
                                            WORLD_TAB_RENAME,   WORLD_AGENT_START, WORLD_BIND};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        cancel_before_the_submission(steps[i]);
}

static void a_cancel_while_pi_starts_leaves_nothing(void **state)
{
    (void)state;
    struct rig_call call;
    rig.world.no_receiver = true;
    stop_at = WORLD_AGENT_GET;
    stop_call = &call;
    stopped = false;
    rig.world.on_step = cancel_at;
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN, TEXT, &call);
    controller_until(&rig, &stopped);
    controller_until_true(&rig, nothing_under_way);
    assert_int_equal(rig.world.tabs_len, 0);
}

static void a_cancel_while_waiting_detaches(void **state)
{
    (void)state;
    struct rig_call call;
    stop_at = WORLD_SETTLEMENT;
    stop_call = &call;
    stopped = false;
    rig.world.on_step = cancel_at;
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN, TEXT, &call);
    controller_until(&rig, &stopped);
    controller_until_true(&rig, nothing_under_way);
    assert_false(call.done);
    assert_int_equal(rig.world.tabs_len, 1);
    world_settle(&rig.world);
    controller_until_true(&rig, one_report_due);
    assert_int_equal(rig.reports_due, 1);
}

static void close_at(enum world_step step, void *user)
{
    (void)user;
    if (step != stop_at || stopped)
        return;
    stopped = true;
    rig.world.on_step = settle_after_delivery;
    rig.world.count[WORLD_SETTLEMENT] = 0;
    controller_stop_begin(&rig); /* the answer of this step comes too late */
}

/* The controller ends when the world has acted; another one takes the call up. */
static void end_at(enum world_step step, bool repeated)
{
    struct rig_call call;
    void *state = NULL;
    setup(&state);
    stop_at = step;
    stopped = false;
    rig.world.on_step = close_at;
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN, TEXT, &call);
    controller_until(&rig, &stopped);
    controller_stop(&rig);
    rig_call_fini(&call);
    controller_start(&rig);
    if (repeated) {
        controller_ask(&rig, ID, SPAWN, TEXT, &call);
        controller_until(&rig, &call.done);
        expect_reply(&call);
        controller_linger(&rig, 100);
        assert_int_equal(controller_reports(&rig, SHP_REPORT_DUE), 0);
        rig_call_fini(&call);
    } else {
        controller_until_true(&rig, one_report_due);
    }
    assert_int_equal(rig.world.tabs_len, 1);
    assert_int_equal(rig.world.delivered, 1);
    assert_string_equal(rig.world.tabs[0].label, "look around");
    assert_int_equal(app_open_tasks(rig.app), 0);
    teardown(&state);
}

static const enum world_step ends[] = {WORLD_PANE_CURRENT, WORLD_SNAPSHOT,    WORLD_TAB_CREATE,
                                       WORLD_TAB_RENAME,   WORLD_AGENT_START, WORLD_BIND,
                                       WORLD_DELIVER,      WORLD_SETTLEMENT};

static void a_repeated_call_goes_on_where_the_controller_ended(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        end_at(ends[i], true);
}

static void a_call_that_nobody_repeats_ends_as_a_report(void **state)
{
    (void)state;
    end_at(WORLD_TAB_CREATE, false);
    end_at(WORLD_DELIVER, false);
    end_at(WORLD_SETTLEMENT, false);
}

static void cancel_and_close_at(enum world_step step, void *user)
{
    if (step == stop_at && !stopped) {
        cancel_at(step, user);
        controller_stop_begin(&rig);
    }
}

static void a_cancel_outlives_the_controller(void **state)
{
    (void)state;
    struct rig_call call;
    stop_at = WORLD_AGENT_START;
    stop_call = &call;
    stopped = false;
    rig.world.on_step = cancel_and_close_at;
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN, TEXT, &call);
    controller_until(&rig, &stopped);
    controller_stop(&rig);
    assert_int_equal(rig.world.tabs_len, 1);
    controller_start(&rig);
    controller_linger(&rig, 3500); /* nobody repeats it */
    controller_until_true(&rig, nothing_under_way);
    assert_int_equal(rig.world.tabs_len, 0);
    assert_int_equal(rig.world.delivered, 0);
}

/* An error that the resumed call meets on its way is no reason to close a worker at its task. */
static void a_resumed_call_that_fails_keeps_the_worker(void **state)
{
    (void)state;
    struct rig_call call;
    stop_at = WORLD_DELIVER;
    stopped = false;
    rig.world.on_step = close_at;
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN, TEXT, &call);
    controller_until(&rig, &stopped);
    controller_stop(&rig);
    rig_call_fini(&call);
    rig.world.refuse[WORLD_SNAPSHOT] = "made_up_refusal";
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN, TEXT, &call);
    controller_until(&rig, &call.done);
    expect_code(&call, SHP_CODE_HERDR_ERROR);
    assert_int_equal(call.error.outcome, SHP_OUTCOME_UNKNOWN);
    assert_int_equal(rig.world.tabs_len, 1);
    controller_until_true(&rig, one_report_due);
    rig_call_fini(&call);
}

/* Names around the sender change between the attempts; the bytes of the message must not. */
static void a_repeat_sends_the_same_bytes(void **state)
{
    (void)state;
    struct rig_call call;
    stop_at = WORLD_DELIVER;
    stopped = false;
    rig.world.on_step = close_at;
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN, TEXT, &call);
    controller_until(&rig, &stopped);
    controller_stop(&rig);
    rig_call_fini(&call);
    rig.world.refuse[WORLD_PANE_CURRENT] = "pane_not_found";
    controller_start(&rig);
    controller_ask(&rig, ID, SPAWN, TEXT, &call);
    controller_until(&rig, &call.done);
    expect_reply(&call);
    assert_int_equal(rig.world.count[WORLD_DELIVER], 2);
    assert_int_equal(rig.world.delivered, 1);
    rig_call_fini(&call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_blocking_spawn_answers_with_the_reply, setup, teardown),
        cmocka_unit_test_setup_teardown(a_nonblocking_spawn_is_pushed_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_command_binds_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(what_herdr_refuses_is_rolled_back, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_answer_is_looked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_link_before_the_submission_leaves_nothing, setup,
                                        teardown),
        cmocka_unit_test(a_lost_link_after_the_submission_loses_nothing),
        cmocka_unit_test_setup_teardown(a_rejected_task_is_rolled_back, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_that_is_lost_is_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(a_message_that_never_arrived_is_rejected, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unknown_outcome_keeps_the_worker, setup, teardown),
        cmocka_unit_test_setup_teardown(pi_that_ends_is_told_with_its_last_words, setup, teardown),
        cmocka_unit_test_setup_teardown(a_step_that_cannot_be_stored_is_undone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pane_that_is_busy_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cancel_between_two_tries_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(an_end_between_two_tries_is_taken_up, setup, teardown),
        cmocka_unit_test(a_cancel_before_the_submission_leaves_nothing),
        cmocka_unit_test_setup_teardown(a_cancel_while_pi_starts_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cancel_while_waiting_detaches, setup, teardown),
        cmocka_unit_test(a_repeated_call_goes_on_where_the_controller_ended),
        cmocka_unit_test(a_call_that_nobody_repeats_ends_as_a_report),
        cmocka_unit_test_setup_teardown(a_cancel_outlives_the_controller, setup, teardown),
        cmocka_unit_test_setup_teardown(a_resumed_call_that_fails_keeps_the_worker, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_repeat_sends_the_same_bytes, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
