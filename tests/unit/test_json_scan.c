/* The streaming scanner: what it accepts, what it makes of text, and that pieces do not matter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/utf8.h"
#include "remote-helper/json_scan.h"

#define TRACE_BYTES 4096

/* Everything that was seen, as one line: what two runs must agree on. */
struct trace {
    char text[TRACE_BYTES];
    size_t len;
    int stop_at; /* token number whose callback returns an error; -1: none */
    int count;
};

static void add(struct trace *trace, const char *text, size_t len)
{
    assert_true(trace->len + len < sizeof trace->text);
    memcpy(trace->text + trace->len, text, len);
    trace->len += len;
    trace->text[trace->len] = '\0';
}

static int on_token(struct json_scan *scan, enum json_token token, const char *text, size_t len,
                    void *user)
{
    static const char *const names[] = {"{", "}", "[", "]", "\"", "", "\" ", "#", "T ", "F ", "N "};
    struct trace *trace = user;
    char head[96];
    if (trace->count++ == trace->stop_at)
        return SHP_ERR_CANCELED;
    if (token != JSON_STRING_PART && token != JSON_STRING_END && token != JSON_OBJECT_END &&
        token != JSON_ARRAY_END) {
        snprintf(head, sizeof head, "%u%s%s:", scan->depth, scan->key[0] != '\0' ? "." : "",
                 scan->key);
        add(trace, head, strlen(head));
    }
    add(trace, names[token], strlen(names[token]));
    if (text != NULL) {
        assert_true(shp_utf8_valid((const uint8_t *)text, len));
        add(trace, text, len);
    }
    if (token == JSON_NUMBER)
        add(trace, " ", 1);
    return token == JSON_STRING && strcmp(scan->key, "skipped") == 0 ? JSON_SCAN_SKIP : 0;
}

static int scan_in_pieces(const char *json, size_t len, size_t piece, struct trace *trace)
{
    struct json_scan scan;
    int status = 0;
    memset(trace, 0, sizeof *trace);
    trace->stop_at = -1;
    json_scan_init(&scan, on_token, trace);
    for (size_t at = 0; at < len && status == 0; at += piece)
        status = json_scan_feed(&scan, json + at, len - at < piece ? len - at : piece);
    return status != 0 ? status : json_scan_finish(&scan);
}

static void expect_trace(const char *json, const char *wanted)
{
    struct trace trace;
    for (size_t piece = 1; piece <= strlen(json); piece++) {
        assert_int_equal(scan_in_pieces(json, strlen(json), piece, &trace), 0);
        assert_string_equal(trace.text, wanted);
    }
}

static void tokens_carry_depth_and_key(void **state)
{
    (void)state;
    expect_trace(" {\"a\":[1,-2.5e+3,true],\"b\":{\"c\":null},\"d\":\"x\",\"e\":false} ",
                 "0:{1.a:[2:#1 2:#-2.5e+3 2:T ]1.b:{2.c:N }1.d:\"x\" 1.e:F }");
    expect_trace("7", "0:#7 ");
    expect_trace("[]", "0:[]");
    expect_trace("[[],{}]", "0:[1:[]1:{}]");
}

static void escapes_and_surrogate_pairs_become_utf8(void **state)
{
    (void)state;
    expect_trace("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "0:\"\"\\/\b\f\n\r\t\" ");
    expect_trace("\"\\u00e9\\u20AC\\ud83d\\uDE00\"", "0:\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\" ");
}

static void broken_text_becomes_replacement_characters(void **state)
{
    (void)state;
#define FFFD "\xef\xbf\xbd"
    expect_trace("\"a\\ud83dz\"", "0:\"a" FFFD "z\" ");
    expect_trace("\"\\ude00\"", "0:\"" FFFD "\" ");
    expect_trace("\"\\ud83d\\ud83d\\ude00\"", "0:\"" FFFD "\xf0\x9f\x98\x80\" ");
    expect_trace("\"\\ud83d\"", "0:\"" FFFD "\" ");
    expect_trace("\"\xff\xc3\"", "0:\"" FFFD FFFD "\" ");
    expect_trace("\"\xe2\x82x\"", "0:\"" FFFD "x\" ");
    expect_trace("\"\xed\xa0\x80\"", "0:\"" FFFD FFFD FFFD "\" ");
    expect_trace("\"\xf0\x90\x80\xc3\xa9\"", "0:\"" FFFD "\xc3\xa9\" ");
    expect_trace("\"\\ud83d\xc3\xa9\"", "0:\"" FFFD "\xc3\xa9\" ");
}

static void skipped_strings_have_no_pieces(void **state)
{
    (void)state;
    expect_trace("{\"skipped\":\"a\\u0041\\\\\\\"b\",\"k\":\"v\"}",
                 "0:{1.skipped:\"\" 1.k:\"v\" }");
}

static void long_text_arrives_whole(void **state)
{
    (void)state;
    static char json[3 * JSON_SCAN_PIECE_MAX];
    static char wanted[3 * JSON_SCAN_PIECE_MAX + 16];
    memset(json, 'q', sizeof json);
    json[0] = json[sizeof json - 2] = '"';
    json[sizeof json - 1] = '\0';
    snprintf(wanted, sizeof wanted, "0:\"%.*s\" ", (int)sizeof json - 3, json + 1);
    struct trace trace;
    for (size_t piece = 1; piece < sizeof json; piece += 67) {
        assert_int_equal(scan_in_pieces(json, sizeof json - 1, piece, &trace), 0);
        assert_string_equal(trace.text, wanted);
    }
}

static void a_cut_key_equals_no_known_one(void **state)
{
    (void)state;
    char json[256];
    struct trace trace;
    snprintf(json, sizeof json, "{\"%0100d\":1,\"ty\\u0000pe\":2,\"\":3}", 0);
    assert_int_equal(scan_in_pieces(json, strlen(json), 3, &trace), 0);
    assert_null(strstr(trace.text, ".0"));
    assert_non_null(strstr(trace.text, "1.?????:#2"));
    assert_non_null(strstr(trace.text, "1:#3"));
}

static void malformed_input_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "[",
        "\"",
        "\"a",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "[1,]",
        "{\"a\":1,}",
        "[1 2]",
        "01",
        "1.",
        "-",
        ".5",
        "1e",
        "1e+",
        "+1",
        "tru",
        "nulL",
        "[}",
        "{]",
        "]",
        "1 2",
        "{} {}",
        "\"\n\"",
        "\"\x01\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\u12\"",
        "'a'",
        "NaN",
        "[1,,2]",
        "{\"a\" 1}",
        "{1:2}",
        "\xef\xbb\xbf{}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct trace trace;
        for (size_t piece = 1; piece <= 3; piece++)
            assert_int_equal(scan_in_pieces(bad[i], strlen(bad[i]), piece, &trace),
                             SHP_ERR_INVALID);
    }
}

static int ignore(struct json_scan *scan, enum json_token token, const char *text, size_t len,
                  void *user)
{
    (void)scan;
    (void)token;
    (void)text;
    (void)len;
    (void)user;
    return 0;
}

static void nesting_at_and_above_the_limit(void **state)
{
    (void)state;
    static char json[2 * JSON_SCAN_DEPTH_MAX];
    struct json_scan scan;
    memset(json, '[', JSON_SCAN_DEPTH_MAX);
    memset(json + JSON_SCAN_DEPTH_MAX, ']', JSON_SCAN_DEPTH_MAX);
    json_scan_init(&scan, ignore, NULL);
    assert_int_equal(json_scan_feed(&scan, json, sizeof json), 0);
    assert_int_equal(json_scan_finish(&scan), 0);

    json_scan_init(&scan, ignore, NULL);
    memset(json, '[', sizeof json);
    assert_int_equal(json_scan_feed(&scan, json, JSON_SCAN_DEPTH_MAX + 1), SHP_ERR_LIMIT);
}

static void a_callback_can_stop_the_scan(void **state)
{
    (void)state;
    struct trace trace = {.stop_at = 2};
    struct json_scan scan;
    json_scan_init(&scan, on_token, &trace);
    assert_int_equal(json_scan_feed(&scan, "[1,2,3]", 7), SHP_ERR_CANCELED);
    assert_int_equal(json_scan_feed(&scan, "]", 1), SHP_ERR_CANCELED);
    assert_int_equal(trace.count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_carry_depth_and_key),
        cmocka_unit_test(escapes_and_surrogate_pairs_become_utf8),
        cmocka_unit_test(broken_text_becomes_replacement_characters),
        cmocka_unit_test(skipped_strings_have_no_pieces),
        cmocka_unit_test(long_text_arrives_whole),
        cmocka_unit_test(a_cut_key_equals_no_known_one),
        cmocka_unit_test(malformed_input_is_refused),
        cmocka_unit_test(nesting_at_and_above_the_limit),
        cmocka_unit_test(a_callback_can_stop_the_scan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
