/* controller/agents: the check of a call's arguments (order and fields of the agents tool). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/agents/call_internal.h"
#include "protocol/messages.h"

#define ID "0123456789abcdef0123456789abcdef"
#define SPAWN                                                                                      \
    "\"action\":\"spawn\",\"agent_type\":\"general\",\"label\":\"fix test\",\"message\":\"go\""

static struct shp_call accepts_with(const char *json, const char *message)
{
    cJSON *object = cJSON_Parse(json);
    struct shp_call call;
    struct shp_error error = {0};
    if (object == NULL)
        fail_msg("no JSON: %s", json);
    int err = shp_call_parse(&call, object, message, &error);
    cJSON_Delete(object);
    if (err != 0)
        fail_msg("%s: %s", json, error.cause);
    assert_int_equal(error.code, 0);
    return call;
}

static struct shp_call accepts(const char *json)
{
    return accepts_with(json, NULL);
}

static void refuses_with(const char *json, const char *message, int code, const char *cause)
{
    cJSON *object = cJSON_Parse(json);
    struct shp_call call = {.lines = 77};
    struct shp_error error = {0};
    if (object == NULL)
        fail_msg("no JSON: %s", json);
    int err = shp_call_parse(&call, object, message, &error);
    cJSON_Delete(object);
    if (err == 0)
        fail_msg("accepted: %s", json);
    assert_int_equal(err, SHP_ERR_INVALID);
    if (error.code != code)
        fail_msg("%s: code %d, not %d: %s", json, error.code, code, error.cause);
    assert_int_equal(error.outcome, SHP_OUTCOME_REJECTED);
    assert_string_equal(error.step, "check arguments");
    if (strstr(error.cause, cause) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", cause, error.cause);
    /* Left alone on failure. */
    assert_int_equal(call.lines, 77);
}

static void refuses(const char *json, int code, const char *cause)
{
    refuses_with(json, NULL, code, cause);
}

static void is_help(const char *json, bool commands)
{
    struct shp_call call = accepts(json);
    assert_int_equal(call.action, SHP_ACTION_HELP);
    assert_int_equal(call.commands, commands);
    shp_call_fini(&call);
}

static void every_form_of_help_is_help(void **state)
{
    (void)state;
    struct shp_call call;
    struct shp_error error = {0};
    assert_int_equal(shp_call_parse(&call, NULL, NULL, &error), 0);
    assert_int_equal(call.action, SHP_ACTION_HELP);
    shp_call_fini(&call);
    is_help("{}", false);
    is_help("{\"target\":null,\"action\":null}", false);
    is_help("\"help\"", false);
    is_help("\" help\\n\"", false);
    is_help("\"{}\"", false);
    is_help("{\"action\":\"help\"}", false);
    is_help("{\"commands\":true}", true);
    is_help("{\"action\":\"help\",\"commands\":true}", true);
    call = accepts("{\"commands\":true,\"target\":\"w1:p2\",\"machine\":\"" ID "\"}");
    assert_true(call.commands);
    assert_string_equal(call.target, "w1:p2");
    assert_string_equal(call.machine, ID);
    shp_call_fini(&call);
}

static void arguments_that_are_no_object_are_an_invalid_call(void **state)
{
    (void)state;
    refuses("[]", SHP_CODE_INVALID_CALL, "not an object");
    refuses("7", SHP_CODE_INVALID_CALL, "not an object");
    refuses("null", SHP_CODE_INVALID_CALL, "not an object");
    refuses("\"\"", SHP_CODE_INVALID_CALL, "neither help nor a JSON object");
    refuses("\"  \"", SHP_CODE_INVALID_CALL, "neither help nor a JSON object");
    refuses("\"helpme\"", SHP_CODE_INVALID_CALL, "neither help nor a JSON object");
    refuses("\"{\\\"action\\\":\"", SHP_CODE_INVALID_CALL, "no valid JSON");
    refuses("\"{} {}\"", SHP_CODE_INVALID_CALL, "no valid JSON");
    refuses("{\"target\":\"p1\"}", SHP_CODE_INVALID_CALL, "no action");
    refuses("{\"action\":\"list\",\"action\":\"list\"}", SHP_CODE_INVALID_CALL,
            "action is given twice");
    refuses_with("{}", "text", SHP_CODE_INVALID_CALL, "no action");
}

static void string_with_an_object_is_that_object(void **state)
{
    (void)state;
    struct shp_call call = accepts("\" {\\\"action\\\":\\\"list\\\"} \"");
    assert_int_equal(call.action, SHP_ACTION_LIST);
    assert_null(call.machine);
    shp_call_fini(&call);
}

static void unknown_action_names_those_that_are(void **state)
{
    (void)state;
    refuses("{\"action\":\"focus\"}", SHP_CODE_UNKNOWN_ACTION,
            "\"focus\" is no action; actions are: help, list");
    refuses("{\"action\":\"toString\"}", SHP_CODE_UNKNOWN_ACTION, "toString");
    refuses("{\"action\":\"Help\"}", SHP_CODE_UNKNOWN_ACTION, "Help");
    refuses("{\"action\":\"\"}", SHP_CODE_UNKNOWN_ACTION, "no action");
    refuses("{\"action\":7}", SHP_CODE_FIELD_INVALID, "action must be a string");
}

static void send_with_blocking_points_to_assign(void **state)
{
    (void)state;
    refuses("{\"action\":\"send\",\"blocking\":false}", SHP_CODE_FIELD_INVALID, "assign");
    refuses("{\"action\":\"send\",\"target\":\"p\",\"message\":\"m\",\"blocking\":null}",
            SHP_CODE_FIELD_INVALID, "assign");
}

static void commands_target_and_machine_of_help_go_together(void **state)
{
    (void)state;
    refuses("{\"action\":\"list\",\"commands\":true}", SHP_CODE_UNKNOWN_FIELD, "help alone");
    refuses("{\"action\":\"help\",\"target\":\"p1\"}", SHP_CODE_FIELD_INVALID, "commands: true");
    refuses("{\"action\":\"help\",\"machine\":\"local\"}", SHP_CODE_FIELD_INVALID,
            "commands: true");
    refuses("{\"action\":\"help\",\"commands\":false}", SHP_CODE_FIELD_INVALID, "true or left out");
    refuses("{\"commands\":true,\"machine\":\"local\"}", SHP_CODE_MISSING_FIELD,
            "does not identify a session");
}

static void unknown_fields_are_all_named(void **state)
{
    (void)state;
    refuses("{\"action\":\"list\",\"target\":\"p\",\"colour\":1,\"machine\":\"local\",\"x\":null}",
            SHP_CODE_UNKNOWN_FIELD, "list has no field target, colour");
    refuses_with("{\"action\":\"read\",\"target\":\"p\"}", "text", SHP_CODE_UNKNOWN_FIELD,
                 "read has no field message");
    /* Before the check of types. */
    refuses("{\"action\":\"read\",\"target\":7,\"colour\":1}", SHP_CODE_UNKNOWN_FIELD, "colour");
}

static void many_and_long_unknown_fields_stay_bounded(void **state)
{
    (void)state;
    char json[8192];
    size_t used = (size_t)snprintf(json, sizeof json, "{\"action\":\"list\"");
    for (int i = 0; i < 60; i++)
        used += (size_t)snprintf(json + used, sizeof json - used, ",\"%0100d\":1", i);
    snprintf(json + used, sizeof json - used, "}");
    refuses(json, SHP_CODE_UNKNOWN_FIELD, "list has no field 000");
    for (int i = 60; i < 65; i++)
        used += (size_t)snprintf(json + used, sizeof json - used, ",\"%0100d\":1", i);
    snprintf(json + used, sizeof json - used, "}");
    refuses(json, SHP_CODE_INVALID_CALL, "more than 64 fields");
}

static void spawn_takes_all_its_fields(void **state)
{
    (void)state;
    struct shp_call call = accepts(
        "{\"action\":\"spawn\",\"agent_type\":\" reviewer \",\"label\":\"\\tcheck parser \","
        "\"message\":\"  look at it\\n\",\"machine\":\"" ID "\",\"name\":\"checker-1\","
        "\"placement\":\"new_tab\",\"workspace\":\"w2\",\"cwd\":\"~/src\",\"base\":\"main\","
        "\"blocking\":false}");
    assert_int_equal(call.action, SHP_ACTION_SPAWN);
    assert_string_equal(call.agent_type, "reviewer");
    assert_string_equal(call.label, "check parser");
    assert_string_equal(call.message, "  look at it\n");
    assert_string_equal(call.machine, ID);
    assert_string_equal(call.name, "checker-1");
    assert_int_equal(call.placement, SHP_PLACEMENT_TAB);
    assert_string_equal(call.workspace, "w2");
    assert_string_equal(call.cwd, "~/src");
    assert_string_equal(call.base, "main");
    assert_int_equal(call.blocking, SHP_FALSE);
    assert_null(call.pane);
    shp_call_fini(&call);
    assert_null(call.label);

    call = accepts("{" SPAWN ",\"machine\":\" \",\"name\":\"\",\"cwd\":null}");
    assert_int_equal(call.placement, SHP_PLACEMENT_DEFAULT);
    assert_int_equal(call.blocking, SHP_UNSET);
    assert_null(call.machine);
    assert_null(call.name);
    assert_null(call.cwd);
    shp_call_fini(&call);

    call = accepts("{" SPAWN ",\"placement\":\"pane\",\"pane\":\"w1:p3\"}");
    assert_int_equal(call.placement, SHP_PLACEMENT_PANE);
    assert_string_equal(call.pane, "w1:p3");
    shp_call_fini(&call);
}

static void spawn_fields_that_contradict_are_refused(void **state)
{
    (void)state;
    refuses("{" SPAWN ",\"placement\":\"tab\"}", SHP_CODE_FIELD_INVALID,
            "placement must be one of: new_workspace, new_tab, pane");
    refuses("{" SPAWN ",\"placement\":\"pane\"}", SHP_CODE_MISSING_FIELD, "pane is missing");
    refuses("{" SPAWN ",\"placement\":\"pane\",\"pane\":\"p\",\"cwd\":\"/\"}",
            SHP_CODE_FIELD_INVALID, "cwd does not go with placement pane");
    refuses("{" SPAWN ",\"placement\":\"pane\",\"pane\":\"p\",\"workspace\":\"w\"}",
            SHP_CODE_FIELD_INVALID, "workspace does not go with placement pane");
    refuses("{" SPAWN ",\"pane\":\"p\"}", SHP_CODE_FIELD_INVALID, "placement pane only");
    refuses("{" SPAWN ",\"placement\":\"new_workspace\",\"workspace\":\"w\"}",
            SHP_CODE_FIELD_INVALID, "new_workspace");
    refuses("{" SPAWN ",\"name\":\"Checker\"}", SHP_CODE_FIELD_INVALID, "name must begin");
    refuses("{" SPAWN ",\"name\":\"abcdefghijklmnopqrstuvwxyz0123456\"}", SHP_CODE_FIELD_INVALID,
            "name must begin");
    refuses("{" SPAWN ",\"board_thread_id\":\"t1\"}", SHP_CODE_FIELD_INVALID, "message board");
}

static void needed_fields_that_are_missing_or_blank_are_named(void **state)
{
    (void)state;
    refuses("{\"action\":\"spawn\",\"label\":\"x\",\"message\":\"m\"}", SHP_CODE_MISSING_FIELD,
            "agent_type is missing");
    refuses("{\"action\":\"spawn\",\"agent_type\":\"g\",\"label\":\" \\n \",\"message\":\"m\"}",
            SHP_CODE_MISSING_FIELD, "label is missing or blank");
    refuses("{\"action\":\"spawn\",\"agent_type\":\"g\",\"label\":\"x\",\"message\":\" \\t\"}",
            SHP_CODE_MISSING_FIELD, "message is missing or blank");
    refuses("{\"action\":\"send\",\"message\":\"m\"}", SHP_CODE_MISSING_FIELD, "target");
    refuses("{\"action\":\"send\",\"target\":null,\"message\":\"m\"}", SHP_CODE_MISSING_FIELD,
            "target");
    refuses_with("{\"action\":\"send\",\"target\":\"p\"}", " \n", SHP_CODE_MISSING_FIELD,
                 "message");
    refuses("{\"action\":\"read\"}", SHP_CODE_MISSING_FIELD, "target");
}

static void types_are_checked(void **state)
{
    (void)state;
    refuses("{\"action\":\"list\",\"machine\":7}", SHP_CODE_FIELD_INVALID,
            "machine must be a string");
    refuses("{\"action\":\"send\",\"target\":[],\"message\":\"m\"}", SHP_CODE_FIELD_INVALID,
            "target must be a string");
    refuses("{\"action\":\"send\",\"target\":\"p\",\"message\":{}}", SHP_CODE_FIELD_INVALID,
            "message must be a string");
    refuses("{" SPAWN ",\"blocking\":\"false\"}", SHP_CODE_FIELD_INVALID,
            "blocking must be true or false");
}

static void short_texts_are_bounded_lines(void **state)
{
    (void)state;
    char json[512], label[80];
    memset(label, 'x', sizeof label);
    label[64] = '\0';
    snprintf(json, sizeof json,
             "{\"action\":\"spawn\",\"agent_type\":\"g\",\"message\":\"m\",\"label\":\"%s\"}",
             label);
    struct shp_call call = accepts(json);
    assert_int_equal(strlen(call.label), 64);
    shp_call_fini(&call);
    label[64] = 'x';
    label[65] = '\0';
    snprintf(json, sizeof json,
             "{\"action\":\"spawn\",\"agent_type\":\"g\",\"message\":\"m\",\"label\":\"%s\"}",
             label);
    refuses(json, SHP_CODE_FIELD_INVALID, "label has 65 bytes, more than 64");
    refuses("{\"action\":\"spawn\",\"agent_type\":\"g\",\"message\":\"m\",\"label\":\"a\\nb\"}",
            SHP_CODE_FIELD_INVALID, "label must be one line");
    refuses("{\"action\":\"list\",\"machine\":\"a\\u001b[2Jb\"}", SHP_CODE_FIELD_INVALID,
            "machine must be one line");
    refuses("{\"action\":\"list\",\"machine\":\"a\\u0085b\"}", SHP_CODE_FIELD_INVALID,
            "machine must be one line");
    refuses("{\"action\":\"list\",\"machine\":\"a\xff\"}", SHP_CODE_FIELD_INVALID,
            "machine must be one line");
}

static void message_limit_counts_utf8_bytes(void **state)
{
    (void)state;
    static const char json[] = "{\"action\":\"send\",\"target\":\"w1:p2\"}";
    size_t max = SHP_LIMIT_MESSAGE_TEXT_BYTES_MAX;
    char *text = malloc(max + 2);
    memset(text, 'x', max + 1);
    text[max] = '\0';
    struct shp_call call = accepts_with(json, text);
    assert_int_equal(strlen(call.message), max);
    shp_call_fini(&call);
    text[max] = 'x';
    text[max + 1] = '\0';
    refuses_with(json, text, SHP_CODE_MESSAGE_TOO_LARGE, "49153 bytes");
    /* As many characters, but two bytes more. */
    memcpy(text + max - 2, "é", 2);
    text[max] = '\0';
    call = accepts_with(json, text);
    shp_call_fini(&call);
    memcpy(text + max - 1, "é", 3);
    refuses_with(json, text, SHP_CODE_MESSAGE_TOO_LARGE, "49153 bytes");
    /* Above the limit comes before blank: nobody scans a huge blank text for a reason. */
    memset(text, ' ', max + 1);
    refuses_with(json, text, SHP_CODE_MESSAGE_TOO_LARGE, "49153 bytes");
    free(text);
    refuses_with(json, "caf\xe9", SHP_CODE_FIELD_INVALID, "UTF-8");
    refuses_with("{\"action\":\"send\",\"target\":\"p\",\"message\":\"a\"}", "b",
                 SHP_CODE_FIELD_INVALID, "twice");
}

static void read_takes_lines_for_terminal_sources_only(void **state)
{
    (void)state;
    struct shp_call call = accepts("{\"action\":\"read\",\"target\":\"w1:p2\"}");
    assert_int_equal(call.source, SHP_READ_LATEST);
    assert_int_equal(call.lines, 40);
    shp_call_fini(&call);
    call = accepts("{\"action\":\"read\",\"target\":\"p\",\"source\":\"recent\",\"lines\":200}");
    assert_int_equal(call.source, SHP_READ_RECENT);
    assert_int_equal(call.lines, 200);
    shp_call_fini(&call);
    call = accepts("{\"action\":\"read\",\"target\":\"p\",\"source\":\"visible\"}");
    assert_int_equal(call.source, SHP_READ_VISIBLE);
    shp_call_fini(&call);
#define READ "{\"action\":\"read\",\"target\":\"p\",\"source\":\"recent\",\"lines\":"
    refuses(READ "0}", SHP_CODE_FIELD_INVALID, "1 to 200");
    refuses(READ "201}", SHP_CODE_FIELD_INVALID, "1 to 200");
    refuses(READ "1.5}", SHP_CODE_FIELD_INVALID, "1 to 200");
    refuses(READ "1e300}", SHP_CODE_FIELD_INVALID, "1 to 200");
    refuses(READ "\"40\"}", SHP_CODE_FIELD_INVALID, "1 to 200");
    refuses("{\"action\":\"read\",\"target\":\"p\",\"lines\":40}", SHP_CODE_FIELD_INVALID,
            "visible or recent");
    refuses("{\"action\":\"read\",\"target\":\"p\",\"source\":\"all\"}", SHP_CODE_FIELD_INVALID,
            "source must be one of: latest, visible, recent");
}

/* The fields of what is not there yet are checked all the same, so that adding it changes no rule.
 */
static void actions_of_later_versions_are_checked_then_unsupported(void **state)
{
    (void)state;
    static const struct {
        const char *name, *good, *bad;
        int code;
    } cases[] = {
        {"find", "\"query\":\"x\",\"status\":\"done\"", "\"status\":\"busy\"",
         SHP_CODE_FIELD_INVALID},
        {"assign", "\"target\":\"p\",\"message\":\"m\",\"blocking\":false", "\"target\":\"p\"",
         SHP_CODE_MISSING_FIELD},
        {"attach", "\"target\":\"p\",\"context\":true,\"board\":false",
         "\"target\":\"p\",\"context\":true", SHP_CODE_MISSING_FIELD},
        {"attach", "\"target\":\"p\",\"context\":false,\"board\":true",
         "\"target\":\"p\",\"context\":false,\"board\":false", SHP_CODE_FIELD_INVALID},
        {"detach", "\"target\":\"p\",\"context\":true,\"board\":true",
         "\"target\":\"p\",\"context\":true,\"board\":\"yes\"", SHP_CODE_FIELD_INVALID},
        {"reply", "\"target\":\"p\",\"extension\":\"e\",\"id\":\"1\",\"message\":\"m\"",
         "\"target\":\"p\",\"id\":\"1\",\"message\":\"m\"", SHP_CODE_MISSING_FIELD},
        {"watch", "\"target\":\"p\",\"machine\":\"local\"", "\"machine\":\"local\"",
         SHP_CODE_MISSING_FIELD},
        {"unwatch", "\"target\":\"p\"", "\"target\":\"p\",\"lines\":1", SHP_CODE_UNKNOWN_FIELD},
    };
    char json[256];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(json, sizeof json, "{\"action\":\"%s\",%s}", cases[i].name, cases[i].good);
        refuses(json, SHP_CODE_UNSUPPORTED_ACTION, cases[i].name);
        snprintf(json, sizeof json, "{\"action\":\"%s\",%s}", cases[i].name, cases[i].bad);
        refuses(json, cases[i].code, "");
    }
}

static void action_table_is_complete(void **state)
{
    (void)state;
    static const char *const names[] = {
#define XX(upper, lower) #lower,
        SHP_ACTION_MAP(XX)
#undef XX
    };
    for (int i = 0; i < SHP_ACTION_COUNT; i++) {
        assert_string_equal(shp_action_name((enum shp_action)i), names[i]);
        for (const uint8_t *arg = shp_action_specs[i].fields; *arg != SHP_ARG_END; arg++)
            assert_non_null(shp_arg_specs[SHP_ARG_ID_OF(*arg)].name);
    }
    assert_true(shp_action_supported(SHP_ACTION_SPAWN));
    assert_false(shp_action_supported(SHP_ACTION_ATTACH));
    assert_false(shp_action_supported(SHP_ACTION_COUNT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_help_is_help),
        cmocka_unit_test(arguments_that_are_no_object_are_an_invalid_call),
        cmocka_unit_test(string_with_an_object_is_that_object),
        cmocka_unit_test(unknown_action_names_those_that_are),
        cmocka_unit_test(send_with_blocking_points_to_assign),
        cmocka_unit_test(commands_target_and_machine_of_help_go_together),
        cmocka_unit_test(unknown_fields_are_all_named),
        cmocka_unit_test(many_and_long_unknown_fields_stay_bounded),
        cmocka_unit_test(spawn_takes_all_its_fields),
        cmocka_unit_test(spawn_fields_that_contradict_are_refused),
        cmocka_unit_test(needed_fields_that_are_missing_or_blank_are_named),
        cmocka_unit_test(types_are_checked),
        cmocka_unit_test(short_texts_are_bounded_lines),
        cmocka_unit_test(message_limit_counts_utf8_bytes),
        cmocka_unit_test(read_takes_lines_for_terminal_sources_only),
        cmocka_unit_test(actions_of_later_versions_are_checked_then_unsupported),
        cmocka_unit_test(action_table_is_complete),
    };
    return cmocka_run_group_tests_name("call", tests, NULL, NULL);
}
