/* The terminal approximation: what a person would read on the screen is what a read returns. */
#include "screen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROWS 4
#define COLS 10

static struct screen *fed(const char *text)
{
    struct screen *s = screen_new(ROWS, COLS, NULL, NULL);
    screen_feed(s, (const uint8_t *)text, strlen(text));
    return s;
}

static void expect(const char *input, enum screen_source source, size_t lines, const char *text,
                   bool more)
{
    struct str out = {0};
    struct screen *s = fed(input);
    assert_int_equal(screen_text(s, source, lines, &out), more);
    assert_string_equal(str_text(&out), text);
    str_free(&out);
    screen_free(s);

    /* The same bytes one at a time. */
    s = screen_new(ROWS, COLS, NULL, NULL);
    for (size_t i = 0; i < strlen(input); i++)
        screen_feed(s, (const uint8_t *)input + i, 1);
    screen_text(s, source, lines, &out);
    assert_string_equal(str_text(&out), text);
    str_free(&out);
    screen_free(s);
}

static void controls_move_the_cursor(void **state)
{
    (void)state;
    expect("ab\r\ncd\bX\tY", SCREEN_VISIBLE, 0, "ab\ncX      Y", false);
    expect("aaaa\rbb\033[K", SCREEN_VISIBLE, 0, "bb", false);
    expect("abc\033[2DX\033[1;9HZ", SCREEN_VISIBLE, 0, "aXc     Z", false);
    expect("one\r\ntwo\033[1A\033[2K\rnew", SCREEN_VISIBLE, 0, "new\ntwo", false);
    expect("abcdef\033[3G\033[2P\033[1@_", SCREEN_VISIBLE, 0, "ab_ef", false);
    expect("x\033[2J\033[Hy", SCREEN_VISIBLE, 0, "y", false);
}

static void text_beyond_the_edge_wraps_and_unwraps(void **state)
{
    (void)state;
    expect("0123456789abc\r\nz", SCREEN_VISIBLE, 0, "0123456789\nabc\nz", false);
    expect("0123456789abc\r\nz", SCREEN_RECENT_UNWRAPPED, 0, "0123456789abc\nz", false);
    expect("0123456789\r\nz", SCREEN_RECENT_UNWRAPPED, 0, "0123456789\nz", false);
}

static void history_keeps_what_scrolled_away(void **state)
{
    (void)state;
    const char *six = "1\r\n2\r\n3\r\n4\r\n5\r\n6";
    expect(six, SCREEN_VISIBLE, 0, "3\n4\n5\n6", false);
    expect(six, SCREEN_RECENT, 0, "1\n2\n3\n4\n5\n6", false);
    expect(six, SCREEN_RECENT, 5, "2\n3\n4\n5\n6", true);
}

static void history_is_bounded(void **state)
{
    (void)state;
    struct screen *s = screen_new(ROWS, COLS, NULL, NULL);
    struct str out = {0};
    for (int i = 0; i < SCREEN_HISTORY_MAX + 100; i++)
        screen_feed(s, (const uint8_t *)"x\r\n", 3);
    assert_int_equal(screen_history_lines(s), SCREEN_HISTORY_MAX);
    screen_text(s, SCREEN_RECENT, 0, &out);
    assert_int_equal(out.len, (SCREEN_HISTORY_MAX + ROWS - 1) * 2 - 1);
    str_free(&out);
    screen_free(s);
}

static void alternate_screen_leaves_the_main_one_alone(void **state)
{
    (void)state;
    expect("main\033[?1049h\033[Hother", SCREEN_VISIBLE, 0, "other", false);
    expect("main\033[?1049h1\n2\n3\n4\n5\n6\033[?1049l!", SCREEN_RECENT, 0, "main!", false);
}

static void scroll_region_moves_only_its_lines(void **state)
{
    (void)state;
    expect("1\r\n2\r\n3\r\n4\033[2;3r\033[3;1H\nX", SCREEN_VISIBLE, 0, "1\n3\nX\n4", false);
    expect("1\r\n2\r\n3\033[2;1H\033[L", SCREEN_VISIBLE, 0, "1\n\n2\n3", false);
    expect("1\r\n2\r\n3\033[1;1H\033[M", SCREEN_RECENT, 0, "2\n3", false);
}

static void titles_and_modes_are_remembered(void **state)
{
    (void)state;
    struct screen *s = fed("\033]0;first\007\033]2;se\xC3\xA9\033\\\033[?2004h\033Pjunk\033\\k");
    struct str out = {0};
    assert_string_equal(screen_title(s), "se\xC3\xA9");
    assert_true(screen_bracketed_paste(s));
    screen_feed(s, (const uint8_t *)"\033[?2004l\033]0;\xFF\007", 14);
    assert_false(screen_bracketed_paste(s));
    assert_string_equal(screen_title(s), "se\xC3\xA9");
    screen_text(s, SCREEN_VISIBLE, 0, &out);
    assert_string_equal(str_text(&out), "k");
    str_free(&out);
    screen_free(s);
}

static void collect(const char *bytes, size_t len, void *user)
{
    str_add(user, bytes, len);
}

static void queries_are_answered(void **state)
{
    (void)state;
    struct str answers = {0};
    struct screen *s = screen_new(ROWS, COLS, collect, &answers);
    screen_feed(s, (const uint8_t *)"ab\033[6n\033[c\033[5n", 13);
    assert_string_equal(str_text(&answers), "\033[1;3R\033[?62;22c\033[0n");
    str_free(&answers);
    screen_free(s);
}

static void any_bytes_leave_valid_text(void **state)
{
    (void)state;
    static const char pieces[][8] = {"\033[", "\033]0;", "\033(",  "999;9",    "H",
                                     "m",     "\r\n",    "\xF0",   "\x9F\x98", "\xE2",
                                     "\007",  "\033",    "\033[L", "M"};
    struct screen *s = screen_new(ROWS, COLS, NULL, NULL);
    struct str out = {0};
    unsigned seed = 1;
    for (int i = 0; i < 200000; i++) {
        seed = seed * 1103515245u + 12345u;
        const char *piece = pieces[(seed >> 16) % (sizeof pieces / sizeof *pieces)];
        uint8_t any = (uint8_t)(seed >> 8);
        screen_feed(s, (const uint8_t *)piece, strlen(piece));
        screen_feed(s, &any, 1);
    }
    screen_text(s, SCREEN_RECENT_UNWRAPPED, 0, &out);
    assert_true(utf8_valid(str_text(&out), out.len));
    assert_true(utf8_valid(screen_title(s), strlen(screen_title(s))));
    str_free(&out);
    screen_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(controls_move_the_cursor),
        cmocka_unit_test(text_beyond_the_edge_wraps_and_unwraps),
        cmocka_unit_test(history_keeps_what_scrolled_away),
        cmocka_unit_test(history_is_bounded),
        cmocka_unit_test(alternate_screen_leaves_the_main_one_alone),
        cmocka_unit_test(scroll_region_moves_only_its_lines),
        cmocka_unit_test(titles_and_modes_are_remembered),
        cmocka_unit_test(queries_are_answered),
        cmocka_unit_test(any_bytes_leave_valid_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
