/* JSON: the strict check, fields against the tables, errors there and back; the tables themselves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include <stdio.h>

#include "protocol/codec.h"
#include "protocol/json_check.h"

static int check(const char *json)
{
    return shp_json_check_object(json, strlen(json), 3);
}

static void strict_check_takes_json_objects(void **state)
{
    (void)state;
    static const char *const good[] = {
        "{}",
        " \t\r\n{ } ",
        "{\"a\":1,\"b\":[true,false,null],\"c\":{\"d\":\"e\"}}",
        "{\"\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uD834\\udd1e\"}",
        "{\"n\":[0,-0,10,1.5,-1e3,1E+2,1e-2,0.25e10]}",
        "{\"a\":{\"b\":{}}}",
        "{\"a\":[[]]}",
        "{\"a\":1,\"a\":2}",
    };
    static const char *const bad[] = {
        "",
        "[]",
        "1",
        "null",
        "{",
        "}",
        "{}}",
        "{} {}",
        "{\"a\"}",
        "{\"a\":}",
        "{:1}",
        "{\"a\":1,}",
        "{,}",
        "{\"a\" 1}",
        "{\"a\":[1,]}",
        "{\"a\":[,]}",
        "{\"a\":[1 2]}",
        "{\"a\":(1)}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":1e}",
        "{\"a\":00}",
        "{\"a\":tru}",
        "{\"a\":True}",
        "{\"a\":\"}",
        "{\"a\":\"\\",
        "{\"a\":\"\\u12",
        "{\"a\":\"\\ud834\"}",
        "{\"a\":\"\\ud834\\u0041\"}",
        "{\"a\":\"\\udd1e\"}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\xff\"}",
        "{\"a\":{\"b\":{\"c\":{}}}}",
        "{\"a\":[[[]]]}",
        "{\"a\":1]",
        "{\"a\":[1}",
        "\xef\xbb\xbf{}",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (check(good[i]) != 0)
            fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (check(bad[i]) != SHP_ERR_INVALID)
            fail_msg("taken: %s", bad[i]);
    /* Every prefix of an object is incomplete. */
    const char *whole = good[2];
    for (size_t len = 0; len < strlen(whole); len++)
        assert_int_equal(shp_json_check_object(whole, len, 16), SHP_ERR_INVALID);
}

static void escaped_nul_is_found_and_refused_by_the_parser(void **state)
{
    (void)state;
    cJSON *object = NULL;
    assert_true(shp_json_has_nul("{\"a\":\"x\\u0000\"}", 14));
    assert_false(shp_json_has_nul("{\"a\":\"\\\\u0000\"}", 14));
    assert_false(shp_json_has_nul("{\"a\":\"\\u0001\"}", 13));
    assert_int_equal(shp_codec_parse(&object, "{\"a\":\"\\u0000\"}", 14), SHP_ERR_INVALID);
    assert_int_equal(shp_codec_parse(&object, "{\"a\":", 5), SHP_ERR_INVALID);
    assert_null(object);
    assert_int_equal(shp_codec_parse(&object, "{\"a\":1}trailing", 7), 0);
    assert_int_equal(shp_codec_int(object, "a", 0), 1);
    cJSON_Delete(object);
}

static int params(uint16_t message, const char *json, char field[64])
{
    cJSON *object = NULL;
    strcpy(field, "(none)");
    assert_int_equal(shp_codec_parse(&object, json, strlen(json)), 0);
    int err = shp_codec_check_params(message, object, field, 64);
    cJSON_Delete(object);
    return err;
}

static void params_are_checked_against_their_table(void **state)
{
    (void)state;
    char field[64];
    char json[8192];
    static const struct {
        uint16_t message;
        const char *json;
        const char *field; /* NULL: fine */
    } cases[] = {
        {SHP_MSG_HERDR_CALL, "{}", NULL},
        {SHP_MSG_HERDR_CALL, "{\"socket\":\"/s\",\"session\":\"x\"}", NULL},
        {SHP_MSG_HERDR_CALL, "{\"socket\":1}", "socket"},
        {SHP_MSG_HERDR_CALL, "{\"socket\":null}", "socket"},
        {SHP_MSG_HERDR_CALL, "{\"sockets\":\"/s\"}", "sockets"},
        {SHP_MSG_HERDR_CALL, "{\"session\":\"x\",\"session\":\"y\"}", "session"},
        {SHP_MSG_DIRECTORY_RESOLVE, "{}", "path"},
        {SHP_MSG_DIRECTORY_RESOLVE, "{\"path\":\"\"}", NULL},
        {SHP_MSG_FILE_PUT, "{\"kind\":\"extension\",\"digest\":\"\",\"size\":8388608}", NULL},
        {SHP_MSG_FILE_PUT, "{\"kind\":\"extension\",\"digest\":\"\",\"size\":8388609}", "size"},
        {SHP_MSG_FILE_PUT, "{\"kind\":\"extension\",\"digest\":\"\",\"size\":-1}", "size"},
        {SHP_MSG_FILE_PUT, "{\"kind\":\"extension\",\"digest\":\"\",\"size\":1.5}", "size"},
        {SHP_MSG_FILE_PUT, "{\"kind\":\"extension\",\"digest\":\"\",\"size\":1e300}", "size"},
        {SHP_MSG_FILE_PUT, "{\"kind\":\"other\",\"digest\":\"\",\"size\":1}", "kind"},
        {SHP_MSG_FILE_PUT, "{\"kind\":\"prompt\",\"digest\":\"\",\"size\":1,\"probe\":1}", "probe"},
        {SHP_MSG_AGENTS_CALL, "{\"operation\":\"\",\"has_message\":false,\"call\":[]}", "call"},
        {SHP_MSG_AGENTS_CALL, "{\"operation\":\"\",\"has_message\":false,\"call\":{\"x\":[{}]}}",
         NULL},
        {SHP_MSG_LEDGER_MARK, "{\"reports\":{},\"state\":\"absent\"}", "reports"},
        {SHP_MSG_LEDGER_MARK, "{\"reports\":[],\"state\":\"absent\"}", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int err = params(cases[i].message, cases[i].json, field);
        if (err != (cases[i].field ? SHP_ERR_INVALID : 0) ||
            strcmp(field, cases[i].field ? cases[i].field : "(none)") != 0)
            fail_msg("%s: %d, %s", cases[i].json, err, field);
    }
    assert_int_equal(params(1, "{}", field), SHP_ERR_NOT_FOUND);

    /* Bounds count bytes of UTF-8, and items. */
    size_t len = (size_t)sprintf(json, "{\"session\":\"");
    for (int i = 0; i < 32; i++)
        len += (size_t)sprintf(json + len, "\xc3\xa4");
    strcpy(json + len, "\"}");
    assert_int_equal(params(SHP_MSG_HERDR_CALL, json, field), 0);
    strcpy(json + len, "x\"}");
    assert_int_equal(params(SHP_MSG_HERDR_CALL, json, field), SHP_ERR_INVALID);
    len = (size_t)sprintf(json, "{\"state\":\"absent\",\"reports\":[0");
    for (int i = 1; i < 64; i++)
        len += (size_t)sprintf(json + len, ",0");
    strcpy(json + len, "]}");
    assert_int_equal(params(SHP_MSG_LEDGER_MARK, json, field), 0);
    strcpy(json + len, ",0]}");
    assert_int_equal(params(SHP_MSG_LEDGER_MARK, json, field), SHP_ERR_INVALID);
}

static void results_may_have_unknown_fields(void **state)
{
    (void)state;
    cJSON *object = cJSON_Parse("{\"path\":\"/x\",\"new\":1}");
    char field[64];
    assert_int_equal(shp_codec_check_result(SHP_MSG_DIRECTORY_RESOLVE, object, field, 64), 0);
    assert_int_equal(shp_codec_check_result(SHP_MSG_RECEIVERS_LIST, object, field, 64),
                     SHP_ERR_INVALID);
    assert_string_equal(field, "receivers");
    assert_int_equal(shp_codec_check_result(SHP_MSG_RECEIVERS_LIST, NULL, NULL, 0),
                     SHP_ERR_INVALID);
    cJSON_Delete(object);
}

static void services_have_tables_of_their_own(void **state)
{
    (void)state;
    cJSON *object = cJSON_Parse("{\"id\":\"00\"}");
    int service = shp_service_from_name("delivery_status");
    assert_int_equal(service, SHP_SERVICE_DELIVERY_STATUS);
    assert_int_equal(shp_service_from_name("no_such"), -1);
    assert_int_equal(shp_codec_check_payload(service, object, NULL, 0), 0);
    assert_int_equal(shp_codec_check_answer(service, object, NULL, 0), SHP_ERR_INVALID);
    assert_int_equal(shp_codec_check_payload(-1, object, NULL, 0), SHP_ERR_NOT_FOUND);
    assert_int_equal(shp_codec_check_answer(SHP_SERVICE_COUNT, object, NULL, 0), SHP_ERR_NOT_FOUND);
    cJSON_Delete(object);
}

static void fields_have_fallbacks(void **state)
{
    (void)state;
    cJSON *object = cJSON_Parse("{\"s\":\"x\",\"i\":9007199254740991,\"b\":true,\"h\":1e300}");
    assert_string_equal(shp_codec_string(object, "s", "y"), "x");
    assert_string_equal(shp_codec_string(object, "i", "y"), "y");
    assert_true(shp_codec_int(object, "i", 0) == INT64_C(9007199254740991));
    assert_int_equal(shp_codec_int(object, "h", -7), -7);
    assert_int_equal(shp_codec_int(object, "none", -7), -7);
    assert_true(shp_codec_bool(object, "b", false));
    assert_true(shp_codec_bool(object, "none", true));
    cJSON_Delete(object);
}

static void tree_above_the_head_limit_is_not_printed(void **state)
{
    (void)state;
    static char long_text[SHP_LIMIT_HEAD_JSON_BYTES_MAX + 1];
    char *text = NULL;
    size_t len = 0;
    cJSON *object = cJSON_CreateObject();
    memset(long_text, 'x', sizeof(long_text) - 1);
    cJSON_AddStringToObject(object, "a", long_text + 8);
    assert_int_equal(shp_codec_print(&text, &len, object), 0);
    assert_int_equal(len, SHP_LIMIT_HEAD_JSON_BYTES_MAX);
    cJSON_free(text);
    cJSON_AddNumberToObject(object, "b", 1);
    assert_int_equal(shp_codec_print(&text, &len, object), SHP_ERR_LIMIT);
    cJSON_Delete(object);
}

static void error_survives_the_wire(void **state)
{
    (void)state;
    struct shp_error error;
    struct shp_error back;
    char json[SHP_CODEC_ERROR_JSON_MAX];
    shp_error_set(&error, SHP_CODE_HERDR_ERROR, "box \"a\"", "herdr call", "tab\there\\ \xc3\xa4");
    error.outcome = SHP_OUTCOME_REJECTED;
    size_t len = shp_codec_error_print(json, &error);
    assert_int_equal(len, strlen(json));
    assert_int_equal(shp_json_check_object(json, len, 2), 0);
    shp_codec_error_parse(&back, error.code, json, len);
    assert_int_equal(back.code, error.code);
    assert_int_equal(back.outcome, SHP_OUTCOME_REJECTED);
    assert_string_equal(back.machine, error.machine);
    assert_string_equal(back.step, error.step);
    assert_string_equal(back.cause, error.cause);
    /* The longest one. */
    memset(&error, 0, sizeof(error));
    error.code = SHP_CODE_OPERATION_INTERRUPTED;
    error.outcome = SHP_OUTCOME_UNKNOWN;
    memset(error.cause, '\t', sizeof(error.cause) - 1);
    memset(error.step, '\t', sizeof(error.step) - 1);
    memset(error.machine, '\t', sizeof(error.machine) - 1);
    len = shp_codec_error_print(json, &error);
    assert_true(len < sizeof(json));
    assert_int_equal(shp_json_check_object(json, len, 2), 0);
    shp_codec_error_parse(&back, error.code, json, len);
    assert_string_equal(back.cause, error.cause);
}

static void error_without_a_usable_text_is_still_one(void **state)
{
    (void)state;
    struct shp_error error;
    shp_codec_error_parse(&error, 4711, "{\"cause\":7,\"outcome\":\"maybe\"}", 29);
    assert_int_equal(error.code, 4711);
    assert_int_equal(error.outcome, SHP_OUTCOME_UNKNOWN);
    assert_string_equal(error.cause, "");
    shp_codec_error_parse(&error, 1, "[]", 2);
    assert_int_equal(error.code, 1);
    assert_int_equal(error.outcome, SHP_OUTCOME_UNKNOWN);
    assert_string_equal(shp_code_name(4711), "unknown_error");
}

static void tables_find_what_they_hold(void **state)
{
    (void)state;
    int found = 0;
    for (unsigned id = 0; id <= UINT16_MAX; id++) {
        const struct shp_message_info *info = shp_message_find((uint16_t)id);
        if (!info)
            continue;
        found++;
        assert_int_equal(info->id, id);
        assert_string_equal(shp_message_name((uint16_t)id), info->name);
        assert_true(info->links != 0);
    }
    assert_true(found > 15);
    assert_string_equal(shp_message_name(1), "unknown");
    int codes = 0;
    for (int code = 1; code <= UINT16_MAX; code++) {
        const char *name = shp_code_name(code);
        if (strcmp(name, "unknown_error") == 0)
            continue;
        codes++;
        assert_int_equal(shp_code_from_name(name), code);
        assert_true(strlen(shp_code_doc(code)) > 3);
        assert_true(strlen(shp_code_next(code)) > 3);
    }
    assert_true(codes > 60);
    assert_int_equal(shp_code_from_name("no_such_code"), 0);
    assert_int_equal(shp_code_scope(SHP_CODE_SILENCE), SHP_SCOPE_SESSION);
    assert_int_equal(shp_code_scope(SHP_CODE_TIMEOUT), SHP_SCOPE_REQUEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strict_check_takes_json_objects),
        cmocka_unit_test(escaped_nul_is_found_and_refused_by_the_parser),
        cmocka_unit_test(params_are_checked_against_their_table),
        cmocka_unit_test(results_may_have_unknown_fields),
        cmocka_unit_test(services_have_tables_of_their_own),
        cmocka_unit_test(fields_have_fallbacks),
        cmocka_unit_test(tree_above_the_head_limit_is_not_printed),
        cmocka_unit_test(error_survives_the_wire),
        cmocka_unit_test(error_without_a_usable_text_is_still_one),
        cmocka_unit_test(tables_find_what_they_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
