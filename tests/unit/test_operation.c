/* One id is one call: what a repeat hears, of what was stored, of what runs, and of other bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "controller/agents/operation.h"
#include "controller/json.h"
#include "protocol/messages.h"
#include "tests/support/controller_rig.h"

#define ID "0123456789abcdef0123456789abcdef"
#define OTHER_ID "1123456789abcdef0123456789abcdef"
#define SEND "{\"action\":\"send\",\"target\":\"scout\"}"

static struct controller_rig rig;

static int setup(void **state)
{
    (void)state;
    controller_rig_open(&rig, SHP_TEST_BIN_DIR);
    world_worker(&rig.world);
    controller_start(&rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    controller_rig_close(&rig);
    return 0;
}

static void expect_code(const struct rig_call *call, int code)
{
    assert_true(call->done);
    assert_string_equal(shp_code_name(call->error.code), shp_code_name(code));
}

static void send_once(const char *id, const char *text, struct rig_call *call)
{
    controller_ask(&rig, id, SEND, text, call);
    controller_until(&rig, &call->done);
}

static void a_repeat_of_a_done_call_hears_its_result(void **state)
{
    (void)state;
    struct rig_call first, second;
    send_once(ID, "hello", &first);
    expect_code(&first, 0);
    assert_true(json_bool(first.value, "sent"));
    assert_string_equal(rig.world.last_text, "hello");
    send_once(ID, "hello", &second);
    expect_code(&second, 0);
    assert_true(cJSON_Compare(first.value, second.value, true));
    assert_int_equal(rig.world.count[WORLD_DELIVER], 1);
    /* Also for the next controller of the session. */
    rig_call_fini(&second);
    controller_stop(&rig);
    controller_start(&rig);
    send_once(ID, "hello", &second);
    assert_true(cJSON_Compare(first.value, second.value, true));
    assert_int_equal(rig.world.count[WORLD_DELIVER], 1);
    rig_call_fini(&first);
    rig_call_fini(&second);
}

static void a_repeat_of_a_failed_call_hears_its_error(void **state)
{
    (void)state;
    struct rig_call first, second;
    rig.world.deliver = WORLD_BUSY;
    send_once(ID, "hello", &first);
    expect_code(&first, SHP_CODE_RECEIVER_BUSY);
    rig.world.deliver = WORLD_ACCEPT;
    send_once(ID, "hello", &second);
    expect_code(&second, SHP_CODE_RECEIVER_BUSY);
    assert_string_equal(second.error.cause, first.error.cause);
    assert_string_equal(second.error.machine, "local");
    assert_int_equal(rig.world.delivered, 0);
    rig_call_fini(&first);
    rig_call_fini(&second);
}

static void other_bytes_under_a_known_id_are_a_conflict(void **state)
{
    (void)state;
    struct rig_call first, second;
    send_once(ID, "hello", &first);
    send_once(ID, "other", &second);
    expect_code(&second, SHP_CODE_DUPLICATE_CONFLICT);
    assert_int_equal(rig.world.delivered, 1);
    rig_call_fini(&first);
    rig_call_fini(&second);
}

static void a_running_call_is_joined_by_its_repeat_only(void **state)
{
    (void)state;
    struct rig_call first, other, second;
    controller_ask(&rig, ID, SEND, "hello", &first);
    controller_ask(&rig, ID, SEND, "other", &other);
    expect_code(&other, SHP_CODE_DUPLICATE_CONFLICT);
    assert_false(first.done);
    controller_ask(&rig, ID, SEND, "hello", &second);
    /* The caller before hears that it was replaced, and nothing later. */
    expect_code(&first, SHP_CODE_CANCELED);
    controller_until(&rig, &second.done);
    expect_code(&second, 0);
    assert_int_equal(rig.world.delivered, 1);
    rig_call_fini(&first);
    rig_call_fini(&other);
    rig_call_fini(&second);
}

static bool nothing_under_way(struct controller_rig *of)
{
    return of->app->operations == NULL;
}

static void who_gave_up_hears_nothing_and_nothing_is_sent(void **state)
{
    (void)state;
    struct rig_call call;
    controller_ask(&rig, ID, SEND, "hello", &call);
    operation_detach(rig.app, ID, &rig); /* another's pointer */
    assert_false(rig.app->operations->canceled);
    operation_detach(rig.app, ID, &call);
    controller_until_true(&rig, nothing_under_way);
    assert_false(call.done);
    assert_int_equal(rig.world.delivered, 0);
    controller_ask(&rig, ID, SEND, "hello", &call);
    expect_code(&call, SHP_CODE_CANCELED);
}

static bool at_delivery;

/* The end begins within the step: the message is there, its receipt comes too late. */
static void end_at_delivery(enum world_step step, void *user)
{
    (void)user;
    if (at_delivery || step != WORLD_DELIVER)
        return;
    at_delivery = true;
    controller_stop_begin(&rig);
}

static void a_message_under_way_at_the_end_is_sent_once(void **state)
{
    (void)state;
    struct rig_call call;
    rig.world.on_step = end_at_delivery;
    at_delivery = false;
    controller_ask(&rig, ID, SEND, "hello", &call);
    controller_until(&rig, &at_delivery);
    controller_stop(&rig);
    /* What the sender is called may be unknown now: the message is the stored one. */
    rig.world.refuse[WORLD_PANE_CURRENT] = "pane_not_found";
    rig_call_fini(&call);
    controller_start(&rig);
    send_once(ID, "hello", &call);
    expect_code(&call, 0);
    assert_int_equal(rig.world.delivered, 1);
    assert_int_equal(rig.world.inputs_len, 1);
    rig_call_fini(&call);
}

/* The first attempt may have arrived: a repeat that fails early does not say that it was not. */
static void a_repeat_that_cannot_send_leaves_the_outcome_open(void **state)
{
    (void)state;
    struct rig_call call;
    rig.world.on_step = end_at_delivery;
    at_delivery = false;
    controller_ask(&rig, ID, SEND, "hello", &call);
    controller_until(&rig, &at_delivery);
    controller_stop(&rig);
    world_exit(&rig.world);
    rig_call_fini(&call);
    controller_start(&rig);
    send_once(ID, "hello", &call);
    expect_code(&call, SHP_CODE_AGENT_NOT_FOUND);
    assert_int_equal(call.error.outcome, SHP_OUTCOME_UNKNOWN);
    rig_call_fini(&call);
}

static void callers_hear_of_the_end_of_the_controller(void **state)
{
    (void)state;
    struct rig_call send, list;
    controller_ask(&rig, ID, SEND, "hello", &send);
    controller_ask(&rig, OTHER_ID, "{\"action\":\"list\"}", NULL, &list);
    controller_stop(&rig);
    expect_code(&send, SHP_CODE_SHUTTING_DOWN);
    expect_code(&list, SHP_CODE_SHUTTING_DOWN);
    rig_call_fini(&send);
    rig_call_fini(&list);
}

static void arguments_are_checked_before_anything_is_stored(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        int code;
    } cases[] = {
        {"{\"action\":\"fly\"}", SHP_CODE_UNKNOWN_ACTION},
        {"{\"action\":\"send\",\"target\":\"x\",\"wings\":2}", SHP_CODE_UNKNOWN_FIELD},
        {"{\"action\":\"send\",\"message\":\"x\"}", SHP_CODE_MISSING_FIELD},
        {"{\"action\":\"send\",\"target\":\"x\",\"message\":\"y\",\"machine\":\"nowhere\"}",
         SHP_CODE_MACHINE_UNKNOWN},
        {"{\"action\":\"spawn\",\"agent_type\":\"x\",\"label\":\"a b\",\"message\":\"y\"}",
         SHP_CODE_PROFILE_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rig_call call;
        char id[33];
        memset(id, 'a' + (int)i, 32);
        id[32] = 0;
        controller_ask(&rig, id, cases[i].json, NULL, &call);
        controller_until(&rig, &call.done);
        expect_code(&call, cases[i].code);
        assert_int_equal(call.error.outcome, SHP_OUTCOME_REJECTED);
        rig_call_fini(&call);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_repeat_of_a_done_call_hears_its_result, setup, teardown),
        cmocka_unit_test_setup_teardown(a_repeat_of_a_failed_call_hears_its_error, setup, teardown),
        cmocka_unit_test_setup_teardown(other_bytes_under_a_known_id_are_a_conflict, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_running_call_is_joined_by_its_repeat_only, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(who_gave_up_hears_nothing_and_nothing_is_sent, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_message_under_way_at_the_end_is_sent_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_repeat_that_cannot_send_leaves_the_outcome_open, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(callers_hear_of_the_end_of_the_controller, setup, teardown),
        cmocka_unit_test_setup_teardown(arguments_are_checked_before_anything_is_stored, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
