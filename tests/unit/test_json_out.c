/* JSON that is written piece by piece: commas, escapes, broken text, bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "protocol/json_check.h"
#include "remote-helper/json_out.h"

static void members_are_separated(void **state)
{
    struct json_out out;
    (void)state;
    json_out_init(&out, 1024);
    json_out_raw(&out, "{");
    json_out_member_string(&out, "a", "x");
    json_out_member_string(&out, "absent", NULL);
    json_out_member_u64(&out, "n", UINT64_MAX);
    json_out_member_u64(&out, "z", 0);
    json_out_member_bool(&out, "t", true);
    json_out_key(&out, "list");
    json_out_raw(&out, "[");
    for (int i = 0; i < 2; i++) {
        json_out_next(&out);
        json_out_raw(&out, "{");
        json_out_member_bool(&out, "f", false);
        json_out_raw(&out, "}");
    }
    json_out_raw(&out, "]}");
    assert_int_equal(json_out_status(&out), 0);
    assert_string_equal(out.data, "{\"a\":\"x\",\"n\":18446744073709551615,\"z\":0,\"t\":true,"
                                  "\"list\":[{\"f\":false},{\"f\":false}]}");
    assert_int_equal(out.len, strlen(out.data));
    json_out_fini(&out);
}

static void any_bytes_become_a_valid_string(void **state)
{
    struct json_out out;
    char all[512];
    (void)state;
    for (int i = 0; i < 512; i++)
        all[i] = (char)(i % 256 + i / 256);
    json_out_init(&out, 16384);
    json_out_raw(&out, "{\"a\":");
    json_out_string(&out, all, sizeof all);
    json_out_raw(&out, "}");
    assert_int_equal(json_out_status(&out), 0);
    assert_int_equal(shp_json_check_object(out.data, out.len, 1), 0);
    json_out_fini(&out);

    json_out_init(&out, 1024);
    json_out_string(&out, "\"\\\n\t\x01\x7f\xc3\xa9\xff\xe2\x82", 10);
    assert_string_equal(out.data,
                        "\"\\\"\\\\\\n\\t\\u0001\\u007f\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\"");
    json_out_fini(&out);
}

static void the_limit_holds_and_the_error_stays(void **state)
{
    struct json_out out;
    (void)state;
    json_out_init(&out, 8);
    json_out_raw(&out, "12345678");
    assert_int_equal(json_out_status(&out), 0);
    json_out_raw(&out, "9");
    assert_int_equal(json_out_status(&out), SHP_ERR_LIMIT);
    json_out_raw(&out, "");
    assert_int_equal(json_out_status(&out), SHP_ERR_LIMIT);
    assert_string_equal(out.data, "12345678");
    json_out_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_separated),
        cmocka_unit_test(any_bytes_become_a_valid_string),
        cmocka_unit_test(the_limit_holds_and_the_error_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
