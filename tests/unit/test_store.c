/* controller/store: records; what was committed is there again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/messages.h"
#include "tests/support/store_fixture.h"
#include "tests/support/temp_root.h"

static void see_operation(const struct shp_operation *operation, void *user)
{
    see(user, operation->id, (int)operation->state);
}

static void see_agent(const struct shp_agent_record *agent, void *user)
{
    see(user, agent->id, agent->closed);
}

static void see_report(const struct shp_report_record *report, void *user)
{
    see(user, report->id, (int)report->state);
}

/* ---- operations --------------------------------------------------------------------------------
 */

static void operation_that_is_repeated_is_the_stored_one(void **state)
{
    struct shp_store *store = open_store(*state);
    struct shp_operation operation = {0};
    bool same = false;
    assert_int_equal(shp_store_operation_begin(store, "op1", "{\"action\":\"spawn\"}", "do it",
                                               NOW_MS, &operation, &same),
                     0);
    assert_true(same);
    assert_int_equal(operation.state, SHP_OPERATION_PLANNED);
    assert_string_equal(operation.progress, "{}");
    assert_null(operation.result);
    shp_operation_fini(&operation);

    assert_int_equal(shp_store_operation_acting(store, "op1", "tab", "{\"tab\":\"t1\"}"), 0);
    assert_int_equal(shp_store_operation_begin(store, "op1", "{\"action\":\"spawn\"}", "do it",
                                               NOW_MS, &operation, &same),
                     SHP_ERR_EXISTS);
    assert_true(same);
    assert_int_equal(operation.state, SHP_OPERATION_ACTING);
    assert_string_equal(operation.progress, "{\"tab\":\"t1\"}");
    shp_operation_fini(&operation);

    assert_int_equal(shp_store_operation_begin(store, "op1", "{\"action\":\"spawn\"}", "other",
                                               NOW_MS, NULL, &same),
                     SHP_ERR_EXISTS);
    assert_false(same);
    assert_int_equal(shp_store_operation_begin(store, "op1", "{\"action\":\"spawn\"}", NULL, NOW_MS,
                                               NULL, &same),
                     SHP_ERR_EXISTS);
    assert_false(same);
    shp_store_close(store);
}

static void operation_results_survive_a_new_open(void **state)
{
    struct shp_store *store = open_store(*state);
    struct shp_operation operation = {0};
    struct seen seen = {0};
    assert_int_equal(shp_store_operation_begin(store, "op1", "{}", NULL, NOW_MS, NULL, NULL), 0);
    assert_int_equal(shp_store_operation_begin(store, "op2", "{}", NULL, NOW_MS, NULL, NULL), 0);
    assert_int_equal(shp_store_operation_begin(store, "op3", "{}", NULL, NOW_MS, NULL, NULL), 0);
    assert_int_equal(shp_store_operation_acting(store, "op3", "start", NULL), 0);
    assert_int_equal(shp_store_operation_done(store, "op1", "{\"sent\":true}", "reply", "grün"), 0);
    assert_int_equal(shp_store_operation_failed(store, "op2", "{\"code\":75}"), 0);
    shp_store_close(store);

    store = open_store(*state);
    assert_int_equal(shp_store_operation_begin(store, "op1", "{}", NULL, NOW_MS, &operation, NULL),
                     SHP_ERR_EXISTS);
    assert_int_equal(operation.state, SHP_OPERATION_DONE);
    assert_string_equal(operation.result, "{\"sent\":true}");
    assert_string_equal(operation.bulk_field, "reply");
    assert_string_equal(operation.bulk, "grün");
    shp_operation_fini(&operation);
    assert_int_equal(shp_store_operation_begin(store, "op2", "{}", NULL, NOW_MS, &operation, NULL),
                     SHP_ERR_EXISTS);
    assert_int_equal(operation.state, SHP_OPERATION_FAILED);
    assert_string_equal(operation.result, "{\"code\":75}");
    shp_operation_fini(&operation);
    assert_int_equal(shp_store_operation_each_open(store, see_operation, &seen), 0);
    assert_int_equal(seen.len, 1);
    assert_string_equal(seen.ids[0], "op3");
    assert_int_equal(seen.states[0], SHP_OPERATION_ACTING);
    shp_store_close(store);
}

static void operation_that_is_unknown_or_over_does_not_act(void **state)
{
    struct shp_store *store = open_store(*state);
    assert_int_equal(shp_store_operation_acting(store, "none", "tab", "{}"), SHP_ERR_NOT_FOUND);
    assert_int_equal(shp_store_operation_done(store, "none", "{}", NULL, NULL), SHP_ERR_NOT_FOUND);
    assert_int_equal(shp_store_operation_failed(store, "none", "{}"), SHP_ERR_NOT_FOUND);
    assert_int_equal(shp_store_operation_begin(store, "op1", "{}", NULL, NOW_MS, NULL, NULL), 0);
    assert_int_equal(shp_store_operation_done(store, "op1", "{}", NULL, NULL), 0);
    assert_int_equal(shp_store_operation_acting(store, "op1", "tab", "{}"), SHP_ERR_NOT_FOUND);
    shp_store_close(store);
}

static void old_finished_operations_are_removed_and_open_ones_kept(void **state)
{
    struct shp_store *store = open_store(*state);
    char id[33];
    assert_int_equal(shp_store_operation_begin(store, "open", "{}", NULL, NOW_MS, NULL, NULL), 0);
    for (unsigned i = 0; i < 2 * SHP_STORE_OPERATIONS_KEPT; i++) {
        snprintf(id, sizeof id, "%032u", i);
        assert_int_equal(shp_store_operation_begin(store, id, "{}", NULL, NOW_MS, NULL, NULL), 0);
        assert_int_equal(shp_store_operation_done(store, id, "{}", NULL, NULL), 0);
    }
    /* Gone: the same id begins anew. Kept: the newest. */
    snprintf(id, sizeof id, "%032u", 0);
    assert_int_equal(shp_store_operation_begin(store, id, "{}", NULL, NOW_MS, NULL, NULL), 0);
    snprintf(id, sizeof id, "%032u", 2 * SHP_STORE_OPERATIONS_KEPT - 1);
    assert_int_equal(shp_store_operation_begin(store, id, "{}", NULL, NOW_MS, NULL, NULL),
                     SHP_ERR_EXISTS);
    assert_int_equal(shp_store_operation_begin(store, "open", "{}", NULL, NOW_MS, NULL, NULL),
                     SHP_ERR_EXISTS);
    shp_store_close(store);
}

/* ---- agents ------------------------------------------------------------------------------------
 */

static void agent_is_put_found_and_replaced(void **state)
{
    struct shp_store *store = open_store(*state);
    struct shp_agent_record agent = {.id = AGENT,
                                     .machine = "0123456789abcdef0123456789abcdef",
                                     .terminal_id = "term-1",
                                     .pane = "w2:p1",
                                     .label = "fix test",
                                     .origin = SHP_AGENT_OBSERVED,
                                     .watched = true};
    struct shp_agent_record got = {0};
    assert_int_equal(shp_store_agent_put(store, &agent), 0);
    agent.pi_session_id = SESSION;
    agent.pane = "w2:p9";
    assert_int_equal(shp_store_agent_put(store, &agent), 0);
    shp_store_close(store);

    store = open_store(*state);
    assert_int_equal(shp_store_agent_find(store, agent.machine, "term-1", &got), 0);
    assert_string_equal(got.id, AGENT);
    assert_string_equal(got.pane, "w2:p9");
    assert_string_equal(got.pi_session_id, SESSION);
    assert_string_equal(got.label, "fix test");
    assert_null(got.name);
    assert_null(got.profile);
    assert_int_equal(got.origin, SHP_AGENT_OBSERVED);
    assert_true(got.watched);
    assert_false(got.closed);
    shp_agent_record_fini(&got);
    assert_int_equal(shp_store_agent_get(store, AGENT, &got), 0);
    assert_string_equal(got.terminal_id, "term-1");
    shp_agent_record_fini(&got);
    assert_int_equal(shp_store_agent_get(store, "none", &got), SHP_ERR_NOT_FOUND);
    assert_int_equal(shp_store_agent_find(store, "local", "term-1", &got), SHP_ERR_NOT_FOUND);
    shp_store_close(store);
}

static void agent_of_a_reused_terminal_id_is_the_open_one(void **state)
{
    struct shp_store *store = open_store(*state);
    struct shp_agent_record got = {0};
    struct seen seen = {0};
    put_agent(store, "a1", "term-1", false);
    put_agent(store, "a2", "term-1", true);
    assert_int_equal(shp_store_agent_find(store, "local", "term-1", &got), 0);
    assert_string_equal(got.id, "a1");
    shp_agent_record_fini(&got);
    assert_int_equal(shp_store_agent_each(store, see_agent, &seen), 0);
    assert_int_equal(seen.len, 2);
    assert_string_equal(seen.ids[0], "a1");
    assert_string_equal(seen.ids[1], "a2");
    shp_store_close(store);
}

/* ---- tasks and reports -------------------------------------------------------------------------
 */

static void task_is_kept_and_no_longer_held_after_a_new_open(void **state)
{
    struct shp_store *store = open_store(*state);
    struct shp_task_record got = {0};
    put_agent(store, AGENT, "term-1", false);
    assert_int_equal(put_task(store, 1, SHP_TASK_RUNNING), 0);
    assert_int_equal(shp_store_task_by_input(store, "f0000000000000000000000000000001", &got), 0);
    assert_true(got.held);
    shp_task_record_fini(&got);
    shp_store_close(store);

    store = open_store(*state);
    assert_int_equal(shp_store_task_get(store, "00000000000000000000000000000001", &got), 0);
    assert_false(got.held);
    assert_string_equal(got.agent, AGENT);
    assert_string_equal(got.text, "look at the failing test");
    assert_null(got.sender);
    assert_int_equal(got.state, SHP_TASK_RUNNING);
    assert_int_equal(got.delivery, SHP_DELIVERY_SENT);
    assert_int_equal(got.created_unix_ms, NOW_MS + 1);
    shp_task_record_fini(&got);
    assert_int_equal(shp_store_task_by_input(store, "none", &got), SHP_ERR_NOT_FOUND);
    shp_store_close(store);
}

static void task_needs_its_agent_and_its_own_input(void **state)
{
    struct shp_store *store = open_store(*state);
    assert_int_equal(put_task(store, 1, SHP_TASK_RUNNING), SHP_ERR_NOT_FOUND);
    put_agent(store, AGENT, "term-1", false);
    assert_int_equal(put_task(store, 1, SHP_TASK_RUNNING), 0);
    struct shp_task_record thief = {
        .id = "2", .agent = AGENT, .input = "f0000000000000000000000000000001", .text = "x"};
    assert_int_equal(shp_store_task_put(store, &thief), SHP_ERR_EXISTS);
    shp_store_close(store);
}

static void settle_next_one(const struct shp_task_record *task, void *user)
{
    struct seen *seen = user;
    see_task(task, user);
    assert_int_equal(shp_store_task_settle(seen->store, "00000000000000000000000000000002",
                                           SHP_TASK_CANCELED, NULL),
                     0);
}

static void open_tasks_come_oldest_first_and_a_callback_may_settle_them(void **state)
{
    struct shp_store *store = open_store(*state);
    struct seen seen = {.store = store};
    size_t count = 99;
    put_agent(store, AGENT, "term-1", false);
    assert_int_equal(put_task(store, 3, SHP_TASK_RUNNING), 0);
    assert_int_equal(put_task(store, 1, SHP_TASK_CREATED), 0);
    assert_int_equal(put_task(store, 4, SHP_TASK_COMPLETED), 0);
    assert_int_equal(shp_store_task_count_open(store, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(shp_store_task_each_open(store, see_task, &seen), 0);
    assert_int_equal(seen.len, 2);
    assert_string_equal(seen.ids[0], "00000000000000000000000000000003");
    assert_string_equal(seen.ids[1], "00000000000000000000000000000001");

    seen.len = 0;
    assert_int_equal(put_task(store, 2, SHP_TASK_RUNNING), 0);
    assert_int_equal(shp_store_task_each_open(store, settle_next_one, &seen), 0);
    assert_int_equal(seen.len, 2);
    shp_store_close(store);
}

static void settlement_is_made_once(void **state)
{
    struct shp_store *store = open_store(*state);
    static const char task[] = "00000000000000000000000000000001";
    struct shp_report_record report = report_of("session/entry-7", task);
    struct shp_report_record other = report_of("session/entry-9", task);
    struct shp_task_record got = {0};
    struct seen seen = {0};
    put_agent(store, AGENT, "term-1", false);
    assert_int_equal(put_task(store, 1, SHP_TASK_RUNNING), 0);
    assert_int_equal(shp_store_task_settle(store, "none", SHP_TASK_COMPLETED, &report),
                     SHP_ERR_NOT_FOUND);
    assert_int_equal(shp_store_task_settle(store, task, SHP_TASK_COMPLETED, &report), 0);
    assert_int_equal(shp_store_task_settle(store, task, SHP_TASK_COMPLETED, &report), 0);
    assert_int_equal(shp_store_task_settle(store, task, SHP_TASK_COMPLETED, &other), 0);
    assert_int_equal(shp_store_task_settle(store, task, SHP_TASK_FAILED, &other), SHP_ERR_EXISTS);
    shp_store_close(store);

    store = open_store(*state);
    assert_int_equal(shp_store_task_get(store, task, &got), 0);
    assert_int_equal(got.state, SHP_TASK_COMPLETED);
    assert_false(got.held);
    shp_task_record_fini(&got);
    assert_int_equal(shp_store_report_each_due(store, see_report, &seen), 0);
    assert_int_equal(seen.len, 1);
    assert_string_equal(seen.ids[0], "session/entry-7");
    shp_store_close(store);
}

static void report_marks_decide_what_is_due(void **state)
{
    struct shp_store *store = open_store(*state);
    struct seen seen = {0};
    static const char *const ids[] = {"due", "pushed", "provisional", "confirmed", "held"};
    for (size_t i = 0; i < 5; i++) {
        struct shp_report_record report = report_of(ids[i], "");
        assert_int_equal(shp_store_report_add(store, &report), 0);
        assert_int_equal(shp_store_report_mark(store, ids[i], (enum shp_report_state)i), 0);
    }
    struct shp_report_record again = report_of("confirmed", "");
    assert_int_equal(shp_store_report_add(store, &again), SHP_ERR_EXISTS);
    assert_int_equal(shp_store_report_mark(store, "none", SHP_REPORT_DUE), SHP_ERR_NOT_FOUND);
    assert_int_equal(shp_store_report_each_due(store, see_report, &seen), 0);
    assert_int_equal(seen.len, 2);
    assert_int_equal(seen.states[0], SHP_REPORT_DUE);
    assert_int_equal(seen.states[1], SHP_REPORT_PUSHED);
    shp_store_close(store);

    /* What the former process pushed is due again, under the same id. */
    seen.len = 0;
    store = open_store(*state);
    assert_int_equal(shp_store_report_each_due(store, see_report, &seen), 0);
    assert_int_equal(seen.len, 2);
    assert_string_equal(seen.ids[1], "pushed");
    assert_int_equal(seen.states[1], SHP_REPORT_DUE);

    /* So is, when asked for, all that Pi has not confirmed. */
    seen.len = 0;
    assert_int_equal(shp_store_report_release(store), 0);
    assert_int_equal(shp_store_report_each_due(store, see_report, &seen), 0);
    assert_int_equal(seen.len, 4);
    assert_string_equal(seen.ids[2], "provisional");
    assert_string_equal(seen.ids[3], "held");
    shp_store_close(store);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, temp_root_setup, temp_root_teardown)
    const struct CMUnitTest tests[] = {
        CASE(operation_that_is_repeated_is_the_stored_one),
        CASE(operation_results_survive_a_new_open),
        CASE(operation_that_is_unknown_or_over_does_not_act),
        CASE(old_finished_operations_are_removed_and_open_ones_kept),
        CASE(agent_is_put_found_and_replaced),
        CASE(agent_of_a_reused_terminal_id_is_the_open_one),
        CASE(task_is_kept_and_no_longer_held_after_a_new_open),
        CASE(task_needs_its_agent_and_its_own_input),
        CASE(open_tasks_come_oldest_first_and_a_callback_may_settle_them),
        CASE(settlement_is_made_once),
        CASE(report_marks_decide_what_is_due),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
