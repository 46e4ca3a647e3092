/* Errors, text, ids, log, memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/id.h"
#include "base/log.h"
#include "base/utf8.h"
#include "tests/support/fail_alloc.h"

static void every_error_has_a_text_of_its_own(void **state)
{
    (void)state;
    static const int all[] = {
#define XX(name, value, text) SHP_ERR_##name,
        SHP_ERR_MAP(XX)
#undef XX
    };
    size_t count = sizeof(all) / sizeof(all[0]);
    for (size_t i = 0; i < count; i++) {
        assert_true(all[i] < 0);
        assert_string_not_equal(shp_strerror(all[i]), "unknown error");
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(shp_strerror(all[i]), shp_strerror(all[j]));
    }
    assert_string_equal(shp_strerror(0), "success");
    assert_string_equal(shp_strerror(-1000), "unknown error");
}

static void foreign_text_is_made_safe_to_show(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        const char *out;
    } cases[] = {
        {"plain", "plain"},
        {"a\tb", "a\tb"},
        {"two\nlines", "two lines"},
        {"\033[31mred\033[0m", "?[31mred?[0m"},
        {"del\177", "del?"},
        {"c1 \xc2\x9b"
         "31m",
         "c1 ?31m"},
        {"no-break\xc2\xa0space", "no-break\xc2\xa0space"},
        {"\xe2\x82\xac \xf0\x9f\x90\x91", "\xe2\x82\xac \xf0\x9f\x90\x91"},
        {"broken \xff\xfe \xe2\x82", "broken ?? ??"},
        {"overlong \xc0\xaf", "overlong ??"},
        {"surrogate \xed\xa0\x80", "surrogate ???"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char out[64];
        size_t len = shp_text_clean(out, sizeof(out), cases[i].in, strlen(cases[i].in));
        assert_string_equal(out, cases[i].out);
        assert_int_equal(len, strlen(out));
    }
    char out[8];
    assert_int_equal(shp_text_clean(out, sizeof(out), "a\0b", 3), 3);
    assert_string_equal(out, "a?b");
}

static void text_is_cut_between_characters(void **state)
{
    (void)state;
    char out[6];
    assert_int_equal(shp_text_clean(out, sizeof(out), "abc\xe2\x82\xac", 6), 3);
    assert_string_equal(out, "abc");
    assert_int_equal(shp_text_clean(out, sizeof(out), "ab\xe2\x82\xac", 5), 5);
    assert_string_equal(out, "ab\xe2\x82\xac");
    assert_int_equal(shp_text_clean(out, 1, "abc", 3), 0);
    assert_string_equal(out, "");
    out[0] = 'x';
    assert_int_equal(shp_text_clean(out, 0, "abc", 3), 0);
    assert_int_equal(out[0], 'x');
}

static void error_takes_bounded_and_clean_texts(void **state)
{
    (void)state;
    struct shp_error error;
    static char longer[3 * SHP_ERROR_CAUSE_MAX];
    memset(longer, 'x', sizeof(longer) - 1);
    shp_error_set(&error, 5, NULL, "a step", "said: %s", "no\n\033");
    assert_int_equal(error.code, 5);
    assert_int_equal(error.outcome, SHP_OUTCOME_REJECTED);
    assert_string_equal(error.machine, "");
    assert_string_equal(error.step, "a step");
    assert_string_equal(error.cause, "said: no ?");
    shp_error_add_machine(&error, "box");
    shp_error_add_machine(&error, "other");
    assert_string_equal(error.machine, "box");
    /* A cause may be made of the error that it replaces. */
    shp_error_set(&error, 6, error.machine, NULL, "wrapped: %s", error.cause);
    assert_string_equal(error.cause, "wrapped: said: no ?");
    assert_string_equal(error.machine, "box");
    shp_error_set(&error, 1, longer, longer, "%s", longer);
    assert_int_equal(strlen(error.cause), SHP_ERROR_CAUSE_MAX - 1);
    assert_int_equal(strlen(error.step), SHP_ERROR_STEP_MAX - 1);
    assert_int_equal(strlen(error.machine), SHP_ERROR_MACHINE_MAX - 1);
    shp_error_set(&error, 1, NULL, NULL, NULL);
    assert_string_equal(error.cause, "");
}

static void hex_is_the_one_text_form_of_bytes(void **state)
{
    (void)state;
    uint8_t bytes[3] = {0x00, 0xaf, 0x10};
    uint8_t back[3] = {9, 9, 9};
    char text[7];
    shp_hex_encode(text, bytes, sizeof(bytes));
    assert_string_equal(text, "00af10");
    assert_int_equal(shp_hex_decode(back, 3, "00AF10", 6), SHP_ERR_INVALID);
    assert_int_equal(shp_hex_decode(back, 3, "00af1", 5), SHP_ERR_INVALID);
    assert_int_equal(shp_hex_decode(back, 3, "00af1g", 6), SHP_ERR_INVALID);
    assert_int_equal(shp_hex_decode(back, 3, "00af1011", 8), SHP_ERR_INVALID);
    assert_int_equal(back[0], 9);
    assert_int_equal(shp_hex_decode(back, 3, text, 6), 0);
    assert_memory_equal(back, bytes, 3);
    assert_true(shp_hex_valid("", 0));
    assert_false(shp_hex_valid("0 ", 2));
}

static void equality_of_secrets_sees_every_byte(void **state)
{
    (void)state;
    uint8_t a[32] = {0};
    uint8_t b[32] = {0};
    assert_true(shp_bytes_equal(a, b, sizeof(a)));
    for (size_t i = 0; i < sizeof(a); i++) {
        b[i] = 1;
        assert_false(shp_bytes_equal(a, b, sizeof(a)));
        b[i] = 0;
    }
    b[5] = 7;
    shp_bytes_wipe(b, sizeof(b));
    assert_memory_equal(a, b, sizeof(a));
}

static void utf8_takes_what_rfc_3629_allows(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
    } cases[] = {
        {"a", 1},
        {"\xc2\x80", 2},
        {"\xdf\xbf", 2},
        {"\xe0\xa0\x80", 3},
        {"\xed\x9f\xbf", 3},
        {"\xef\xbf\xbf", 3},
        {"\xf0\x90\x80\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        {"\x80", 0},
        {"\xc1\xbf", 0},
        {"\xe0\x9f\xbf", 0},
        {"\xed\xa0\x80", 0},
        {"\xf0\x8f\xbf\xbf", 0},
        {"\xf4\x90\x80\x80", 0},
        {"\xf5\x80\x80\x80", 0},
        {"\xe2\x82", 0},
        {"\xe2\x28\xa1", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const uint8_t *text = (const uint8_t *)cases[i].text;
        assert_int_equal(shp_utf8_char(text, strlen(cases[i].text)), cases[i].size);
        assert_int_equal(shp_utf8_valid(text, strlen(cases[i].text)), cases[i].size > 0);
    }
    assert_true(shp_utf8_valid((const uint8_t *)"", 0));
}

static struct {
    int lines;
    char last[2 * SHP_LOG_LINE_MAX];
    size_t len;
} seen;

static void keep_line(enum shp_log_level level, const char *line, size_t len, void *user)
{
    (void)level;
    assert_ptr_equal(user, &seen);
    seen.lines++;
    seen.len = len;
    memcpy(seen.last, line, len + 1);
}

static void log_line_has_level_module_machine_and_words(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof(seen));
    shp_log_set_sink(keep_line, &seen);
    shp_log(SHP_LOG_INFO, "link", NULL, "not seen");
    assert_int_equal(seen.lines, 0);
    shp_log(SHP_LOG_WARN, "link", "box", "went %s", "away\nnow");
    assert_int_equal(seen.lines, 1);
    assert_int_equal(seen.len, strlen(seen.last));
    assert_non_null(strstr(seen.last, "Z warn  link machine=box went away now\n"));
    shp_log_set_level(SHP_LOG_TRACE);
    assert_true(shp_log_enabled(SHP_LOG_DEBUG));
    shp_log(SHP_LOG_TRACE, "link", NULL, "%0*d", 3000, 0);
    assert_true(seen.len <= SHP_LOG_LINE_MAX);
    assert_int_equal(seen.last[seen.len - 1], '\n');
    shp_log_set_level(SHP_LOG_WARN);
    shp_log_set_sink(NULL, NULL);
    assert_int_equal(shp_log_level_from_name("debug"), SHP_LOG_DEBUG);
    assert_int_equal(shp_log_level_from_name("loud"), -1);
}

static void log_limit_counts_what_it_drops(void **state)
{
    (void)state;
    struct shp_log_limit limit = {.burst = 2, .period_ms = 1000};
    uint32_t dropped = 99;
    assert_true(shp_log_allow(&limit, 5000, &dropped));
    assert_int_equal(dropped, 0);
    assert_true(shp_log_allow(&limit, 5100, NULL));
    assert_false(shp_log_allow(&limit, 5200, &dropped));
    assert_false(shp_log_allow(&limit, 5999, &dropped));
    assert_true(shp_log_allow(&limit, 6000, &dropped));
    assert_int_equal(dropped, 2);
}

static void memory_goes_through_the_table(void **state)
{
    (void)state;
    fail_alloc_begin(2);
    char *text = shp_strdup("abc");
    assert_string_equal(text, "abc");
    text = shp_realloc(text, 1000);
    assert_non_null(text);
    assert_int_equal(fail_alloc_held(), 1);
    assert_null(shp_malloc(1));
    assert_null(shp_calloc(SIZE_MAX / 2, 3));
    uint8_t *zeros = shp_calloc(10, 10);
    for (int i = 0; i < 100; i++)
        assert_int_equal(zeros[i], 0);
    shp_free(NULL);
    shp_free(zeros);
    shp_free(text);
    assert_int_equal(fail_alloc_held(), 0);
    assert_int_equal(fail_alloc_peak_bytes(), 1100);
    assert_int_equal(fail_alloc_end(), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_has_a_text_of_its_own),
        cmocka_unit_test(foreign_text_is_made_safe_to_show),
        cmocka_unit_test(text_is_cut_between_characters),
        cmocka_unit_test(error_takes_bounded_and_clean_texts),
        cmocka_unit_test(hex_is_the_one_text_form_of_bytes),
        cmocka_unit_test(equality_of_secrets_sees_every_byte),
        cmocka_unit_test(utf8_takes_what_rfc_3629_allows),
        cmocka_unit_test(log_line_has_level_module_machine_and_words),
        cmocka_unit_test(log_limit_counts_what_it_drops),
        cmocka_unit_test(memory_goes_through_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
