/* Machines of a catalog that changes, list over them, and the end while they answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "controller/json.h"
#include "controller/routing/herdr.h"
#include "protocol/messages.h"
#include "tests/support/controller_rig.h"
#include "tests/support/temp_root.h"

#define ID "0123456789abcdef0123456789abcdef"
#define BOX "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define LIST "{\"action\":\"list\"}"
#define ENTRY(enabled)                                                                             \
    "[{\"id\":\"" BOX "\",\"label\":\"box\",\"target\":\"nobody@build.invalid\","                  \
    "\"session\":\"default\",\"enabled\":" enabled "}]"

static struct controller_rig rig;
static char *path_before;

/* An ssh that fails at once, so that no test depends on a network. */
static int setup(void **state)
{
    (void)state;
    static const char ssh[] = "#!/bin/sh\necho 'ssh: no route' >&2\nexit 255\n";
    char path[4096];
    controller_rig_open(&rig, SHP_TEST_BIN_DIR);
    char *program = temp_path(rig.program_dir, "ssh");
    temp_write(program, ssh, strlen(ssh));
    chmod(program, 0700);
    free(program);
    path_before = strdup(getenv("PATH"));
    snprintf(path, sizeof path, "%s:%s", rig.program_dir, path_before);
    setenv("PATH", path, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    controller_rig_close(&rig);
    setenv("PATH", path_before, 1);
    free(path_before);
    return 0;
}

static void call(const char *json, struct rig_call *out)
{
    controller_ask(&rig, ID, json, NULL, out);
    controller_until(&rig, &out->done);
}

static const cJSON *entry(const struct rig_call *list, const char *id)
{
    return json_find(cJSON_GetObjectItemCaseSensitive(list->value, "machines"), "id", id);
}

static void list_shows_agents_and_why_a_machine_is_not_there(void **state)
{
    (void)state;
    struct rig_call list;
    world_worker(&rig.world);
    controller_rig_catalog(&rig, ENTRY("true"));
    controller_start(&rig);
    call(LIST, &list);
    assert_int_equal(list.error.code, 0);
    const cJSON *local = entry(&list, "local"), *box = entry(&list, BOX);
    assert_string_equal(json_string(local, "status"), "connected");
    assert_null(json_string(local, "snapshotError"));
    assert_string_equal(json_string(box, "label"), "box");
    assert_string_equal(json_string(box, "status"), "unavailable");
    assert_non_null(strstr(json_string(box, "reason"), "no route"));
    const cJSON *agents = cJSON_GetObjectItemCaseSensitive(list.value, "agents");
    assert_int_equal(cJSON_GetArraySize(agents), 1);
    const cJSON *scout = json_find(agents, "name", "scout");
    assert_string_equal(json_string(scout, "target"), "w1:p1");
    assert_string_equal(json_string(scout, "workspace"), "home");
    assert_string_equal(json_string(scout, "tab"), "scouting");
    assert_true(json_bool(scout, "receiver"));
    assert_true(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(scout, "monitored")));
    rig_call_fini(&list);
}

static void a_reason_that_needs_a_person_has_its_own_status(void **state)
{
    (void)state;
    static const int codes[] = {SHP_CODE_HOST_KEY_UNKNOWN, SHP_CODE_HOST_KEY_CHANGED,
                                SHP_CODE_LOGIN_DENIED, SHP_CODE_KEY_LOCKED,
                                SHP_CODE_INTERACTION_REQUIRED};
    struct machine machine = {.enabled = true, .state = MACHINE_WAITING};
    machine.reason.code = SHP_CODE_LINK_LOST;
    assert_string_equal(machine_status(&machine), "unavailable");
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        machine.reason.code = codes[i];
        machine.state = MACHINE_WAITING;
        assert_string_equal(machine_status(&machine), "action_required");
        machine.state = MACHINE_CONNECTING;
        assert_string_equal(machine_status(&machine), "connecting");
    }
    machine.enabled = false;
    assert_string_equal(machine_status(&machine), "disabled");
}

static void a_herdr_that_refuses_fails_its_machine_only(void **state)
{
    (void)state;
    struct rig_call list;
    rig.world.refuse[WORLD_SNAPSHOT] = "made_up_refusal";
    controller_start(&rig);
    call(LIST, &list);
    assert_int_equal(list.error.code, 0);
    assert_non_null(strstr(json_string(entry(&list, "local"), "snapshotError"), "made_up_refusal"));
    rig_call_fini(&list);
}

static void a_catalog_that_fails_is_a_warning(void **state)
{
    (void)state;
    struct rig_call list, send;
    controller_rig_catalog(&rig, "not json");
    controller_start(&rig);
    call(LIST, &list);
    assert_int_equal(list.error.code, 0);
    assert_non_null(strstr(list.warning, "catalog_invalid"));
    assert_string_equal(json_string(entry(&list, "local"), "status"), "connected");
    /* Whoever needs the catalog hears its error, not that the machine is unknown. */
    call("{\"action\":\"read\",\"target\":\"x\",\"machine\":\"" BOX "\"}", &send);
    assert_int_equal(send.error.code, SHP_CODE_CATALOG_INVALID);
    rig_call_fini(&list);
    rig_call_fini(&send);
}

static void without_a_herdr_program_the_local_machine_works(void **state)
{
    (void)state;
    struct rig_call list;
    char *path = temp_path(rig.root, "herdr");
    unlink(path);
    free(path);
    controller_start(&rig);
    call(LIST, &list);
    assert_int_equal(list.error.code, 0);
    assert_non_null(strstr(list.warning, "herdr_missing"));
    assert_string_equal(json_string(entry(&list, "local"), "status"), "connected");
    rig_call_fini(&list);
}

static void a_disabled_machine_is_left_alone(void **state)
{
    (void)state;
    struct rig_call list;
    struct shp_error error = {0};
    controller_rig_catalog(&rig, ENTRY("true"));
    controller_start(&rig);
    call(LIST, &list);
    rig_call_fini(&list);
    struct machine *box = fleet_find(rig.app->fleet, BOX, &error);
    assert_non_null(box);
    machine_want(box, true); /* as for an open task: it is tried again by itself */
    assert_true(uv_is_active((uv_handle_t *)&box->retry));
    controller_rig_catalog(&rig, ENTRY("false"));
    call(LIST, &list);
    assert_string_equal(json_string(entry(&list, BOX), "status"), "disabled");
    rig_call_fini(&list);
    assert_null(fleet_find(rig.app->fleet, BOX, &error));
    assert_int_equal(error.code, SHP_CODE_MACHINE_DISABLED);
    assert_false(uv_is_active((uv_handle_t *)&box->retry));
    machine_want(box, true);
    assert_false(box->wanted);
    machine_connect(box);
    assert_null(box->link);
}

static void a_removed_machine_is_unknown_until_it_is_back(void **state)
{
    (void)state;
    struct rig_call list, read;
    struct shp_error error = {0};
    controller_rig_catalog(&rig, ENTRY("true"));
    controller_start(&rig);
    call(LIST, &list);
    rig_call_fini(&list);
    controller_rig_catalog(&rig, "[]");
    call(LIST, &list);
    assert_null(entry(&list, BOX));
    rig_call_fini(&list);
    call("{\"action\":\"read\",\"target\":\"x\",\"machine\":\"" BOX "\"}", &read);
    assert_int_equal(read.error.code, SHP_CODE_MACHINE_UNKNOWN);
    rig_call_fini(&read);
    controller_rig_catalog(&rig, ENTRY("true"));
    call(LIST, &list);
    assert_non_null(strstr(json_string(entry(&list, BOX), "reason"), "no route"));
    assert_non_null(fleet_find(rig.app->fleet, BOX, &error));
    rig_call_fini(&list);
}

/* The reason below stands in the error of every call that waited. */
static void a_call_to_a_machine_without_link_tells_why(void **state)
{
    (void)state;
    struct rig_call read;
    controller_rig_catalog(&rig, ENTRY("true"));
    controller_start(&rig);
    call("{\"action\":\"read\",\"target\":\"x\",\"machine\":\"" BOX "\"}", &read);
    assert_int_equal(read.error.code, SHP_CODE_MACHINE_UNAVAILABLE);
    assert_string_equal(read.error.machine, BOX);
    assert_non_null(strstr(read.error.cause, "no route"));
    rig_call_fini(&read);
}

/* ---- the end ------------------------------------------------------------------------------- */

static bool reached;
static enum world_step reach;

/* The end begins within the step: its answer comes too late. */
static void end_at(enum world_step step, void *user)
{
    (void)user;
    if (reached || step != reach)
        return;
    reached = true;
    controller_stop_begin(&rig);
}

/* One machine has ended already when the answers of another are still to come. */
static void the_end_while_a_list_is_under_way(void **state)
{
    (void)state;
    struct rig_call list;
    controller_rig_catalog(&rig, ENTRY("true"));
    controller_start(&rig);
    call(LIST, &list); /* both are known, one is connected */
    rig_call_fini(&list);
    reached = false;
    reach = WORLD_SNAPSHOT;
    rig.world.on_step = end_at;
    controller_ask(&rig, ID, LIST, NULL, &list);
    controller_until(&rig, &reached);
    controller_stop(&rig);
    assert_true(list.done);
    assert_int_equal(list.error.code, SHP_CODE_SHUTTING_DOWN);
    rig_call_fini(&list);
}

static void the_end_while_the_catalog_is_read(void **state)
{
    (void)state;
    struct rig_call list;
    char *path = temp_path(rig.root, "herdr");
    static const char slow[] = "#!/bin/sh\nsleep 30\n";
    temp_write(path, slow, strlen(slow));
    free(path);
    controller_start(&rig);
    controller_ask(&rig, ID, LIST, NULL, &list);
    controller_stop(&rig);
    assert_int_equal(list.error.code, SHP_CODE_SHUTTING_DOWN);
    rig_call_fini(&list);
}

/* ---- herdr_call ---------------------------------------------------------------------------- */

struct heard {
    bool done;
    struct shp_error error;
    char code[64];
    char *result;
};

static void on_herdr(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    struct heard *heard = user;
    assert_true(machine->local);
    assert_false(heard->done);
    heard->done = true;
    if (answer->error)
        heard->error = *answer->error;
    snprintf(heard->code, sizeof heard->code, "%s", answer->herdr_code);
    heard->result = answer->result ? json_print(answer->result) : NULL;
}

static void ask_herdr(const char *method, struct heard *heard)
{
    *heard = (struct heard){0};
    herdr_call(fleet_local(rig.app->fleet), method, NULL, 20000, on_herdr, heard);
    assert_false(heard->done); /* never inside the call */
    controller_until(&rig, &heard->done);
}

static void herdr_answers_are_told_apart(void **state)
{
    (void)state;
    struct heard heard;
    controller_start(&rig);
    ask_herdr("ping", &heard);
    assert_int_equal(heard.error.code, 0);
    assert_non_null(strstr(heard.result, "0.9.2"));
    free(heard.result);
    rig.world.refuse[WORLD_PING] = "made_up_refusal";
    ask_herdr("ping", &heard);
    assert_int_equal(heard.error.code, SHP_CODE_HERDR_ERROR);
    assert_int_equal(heard.error.outcome, SHP_OUTCOME_REJECTED);
    assert_string_equal(heard.code, "made_up_refusal");
    assert_string_equal(heard.error.step, "ping");
    rig.world.refuse[WORLD_PING] = NULL;
    rig.world.drop[WORLD_PING] = true;
    ask_herdr("ping", &heard);
    assert_int_equal(heard.error.code, SHP_CODE_HERDR_NO_ANSWER);
    assert_int_equal(heard.error.outcome, SHP_OUTCOME_UNKNOWN);
    assert_string_equal(heard.error.machine, "local");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(list_shows_agents_and_why_a_machine_is_not_there, setup,
                                        teardown),
        cmocka_unit_test(a_reason_that_needs_a_person_has_its_own_status),
        cmocka_unit_test_setup_teardown(a_herdr_that_refuses_fails_its_machine_only, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_catalog_that_fails_is_a_warning, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_herdr_program_the_local_machine_works, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_disabled_machine_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_removed_machine_is_unknown_until_it_is_back, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_call_to_a_machine_without_link_tells_why, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_end_while_a_list_is_under_way, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_while_the_catalog_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(herdr_answers_are_told_apart, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
