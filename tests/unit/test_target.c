/* From what a caller wrote to a live pi session, and what is refused on the way; read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "controller/agents/target.h"
#include "controller/json.h"
#include "protocol/messages.h"
#include "tests/support/controller_rig.h"

#define ID "0123456789abcdef0123456789abcdef"
#define SEND "{\"action\":\"send\",\"target\":\"scout\"}"

static struct controller_rig rig;
static struct world_tab *tab;

static int setup(void **state)
{
    (void)state;
    controller_rig_open(&rig, SHP_TEST_BIN_DIR);
    tab = world_worker(&rig.world);
    controller_start(&rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    controller_rig_close(&rig);
    return 0;
}

static void expect(const char *json, const char *message, int code)
{
    struct rig_call call;
    controller_ask(&rig, ID, json, message, &call);
    controller_until(&rig, &call.done);
    assert_string_equal(shp_code_name(call.error.code), shp_code_name(code));
    assert_string_equal(call.error.machine, "local");
    assert_true(*call.error.step && *call.error.cause);
    assert_int_equal(call.error.outcome, SHP_OUTCOME_REJECTED);
    assert_int_equal(rig.world.delivered, 0);
    rig_call_fini(&call);
}

static void an_unknown_name_is_named(void **state)
{
    (void)state;
    expect("{\"action\":\"send\",\"target\":\"nobody\"}", "hi", SHP_CODE_AGENT_NOT_FOUND);
}

static void an_ambiguous_name_is_herdrs_refusal(void **state)
{
    (void)state;
    rig.world.refuse[WORLD_AGENT_GET] = "agent_target_ambiguous";
    expect(SEND, "hi", SHP_CODE_AGENT_NOT_FOUND);
}

static void the_callers_own_pane_is_refused(void **state)
{
    (void)state;
    strcpy(tab->pane, "w1:p0");
    expect(SEND, "hi", SHP_CODE_AGENT_IS_SELF);
}

static void an_agent_without_receiver_is_refused(void **state)
{
    (void)state;
    strcpy(tab->terminal, "term_9"); /* Pi was started again, without the extension */
    expect(SEND, "hi", SHP_CODE_RECEIVER_MISSING);
}

static void what_may_be_reached(void **state)
{
    (void)state;
    static struct machine machine = {.id = "local", .local = true};
    struct target target = {.machine = &machine,
                            .pane = (char[]){"p1"},
                            .terminal_id = (char[]){"t1"},
                            .status = (char[]){"idle"},
                            .pi_session_id = (char[]){"s1"}};
    struct shp_error error = {0};
    assert_true(target_reachable(&target, &error));
    target.status = (char[]){"working"};
    assert_true(target_reachable(&target, &error));
    target.status = (char[]){"blocked"};
    assert_false(target_reachable(&target, &error));
    assert_int_equal(error.code, SHP_CODE_AGENT_BLOCKED);
    target.status = (char[]){"idle"};
    target.receiver_outdated = true;
    assert_false(target_reachable(&target, &error));
    assert_int_equal(error.code, SHP_CODE_RECEIVER_OUTDATED);
    target.pi_session_id = NULL;
    assert_false(target_reachable(&target, &error));
    assert_int_equal(error.code, SHP_CODE_RECEIVER_MISSING);
    assert_string_equal(error.machine, "local");
}

static void read_shows_the_terminal_or_the_transcript(void **state)
{
    (void)state;
    struct rig_call call;
    controller_ask(&rig, ID, "{\"action\":\"read\",\"target\":\"scout\",\"source\":\"visible\"}",
                   NULL, &call);
    controller_until(&rig, &call.done);
    assert_int_equal(call.error.code, 0);
    assert_string_equal(call.bulk, "$ pi\nno such model");
    assert_string_equal(json_string(call.value, "status"), "idle");
    rig_call_fini(&call);
    expect("{\"action\":\"read\",\"target\":\"scout\"}", NULL, SHP_CODE_TRANSCRIPT_MISSING);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_unknown_name_is_named),        TEST(an_ambiguous_name_is_herdrs_refusal),
        TEST(the_callers_own_pane_is_refused), TEST(an_agent_without_receiver_is_refused),
        cmocka_unit_test(what_may_be_reached), TEST(read_shows_the_terminal_or_the_transcript),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
