/* The preamble, cut at every place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "framing/preamble.h"
#include "tests/support/vectors.h"

#define MARKER "00112233445566778899aabbccddeeff"
#define READY "\n@@SHP1 " MARKER " READY b1\n"

static struct shp_preamble preamble;

/* Feed with one cut; compare lines; return what was left for the session. */
static size_t check(const uint8_t *in, size_t len, size_t cut, const cJSON *lines)
{
    size_t at = 0;
    int found = 0;
    size_t last_line_end = 0;
    int wanted = cJSON_GetArraySize(lines);
    assert_int_equal(shp_preamble_init(&preamble, MARKER, 1 << 20), 0);
    while (at < len && (wanted == 0 || found < wanted)) {
        const char *line;
        size_t taken;
        size_t end = at < cut ? cut : len;
        assert_int_equal(shp_preamble_feed(&preamble, in + at, end - at, &taken, &line), 0);
        at += taken;
        if (line) {
            assert_string_equal(line, cJSON_GetArrayItem(lines, found)->valuestring);
            found++;
            last_line_end = at;
        } else {
            assert_int_equal(at, end);
        }
    }
    assert_int_equal(found, wanted);
    shp_preamble_fini(&preamble);
    return wanted > 0 ? len - last_line_end : 0;
}

static void vectors_give_the_same_lines_at_every_cut(void **state)
{
    (void)state;
    cJSON *file = vectors_load(SHP_TEST_SOURCE_DIR, "preamble.json");
    const cJSON *vector;
    int count = 0;
    assert_string_equal(vectors_string(file, "marker"), MARKER);
    cJSON_ArrayForEach(vector, vectors_get(file, "cases"))
    {
        size_t len;
        uint8_t *in = vectors_bytes(vectors_get(vector, "in"), &len);
        const cJSON *lines = vectors_get(vector, "lines");
        size_t rest = strlen(vectors_string(vector, "rest")) / 2;
        for (size_t cut = 0; cut <= len; cut++)
            assert_int_equal(check(in, len, cut, lines), rest);
        free(in);
        count++;
    }
    assert_true(count >= 10);
    cJSON_Delete(file);
}

static void bytes_behind_the_line_are_left_for_the_session(void **state)
{
    (void)state;
    static const uint8_t in[] = "noise\0more" READY "\0\1\2";
    cJSON *lines = cJSON_Parse("[\"READY b1\"]");
    for (size_t cut = 0; cut < sizeof(in); cut++)
        assert_int_equal(check(in, sizeof(in) - 1, cut, lines), 3);
    cJSON_Delete(lines);
}

static void noise_above_its_bound_is_an_error(void **state)
{
    (void)state;
    static uint8_t noise[100000];
    const char *line;
    size_t taken;
    memset(noise, 'x', sizeof(noise));
    assert_int_equal(shp_preamble_init(&preamble, MARKER, sizeof(noise)), 0);
    assert_int_equal(shp_preamble_feed(&preamble, noise, sizeof(noise), &taken, &line), 0);
    assert_int_equal(shp_preamble_feed(&preamble, noise, 1, &taken, &line), SHP_ERR_LIMIT);
    shp_preamble_fini(&preamble);
}

static void line_without_end_is_bounded_too(void **state)
{
    (void)state;
    static uint8_t noise[5000];
    const char *line;
    size_t taken;
    memset(noise, 'x', sizeof(noise));
    assert_int_equal(shp_preamble_init(&preamble, MARKER, 4000), 0);
    assert_int_equal(
        shp_preamble_feed(&preamble, (const uint8_t *)READY, sizeof(READY) - 2, &taken, &line), 0);
    assert_null(line);
    assert_int_equal(shp_preamble_feed(&preamble, noise, 4000, &taken, &line), 0);
    assert_int_equal(shp_preamble_feed(&preamble, noise, sizeof(noise), &taken, &line),
                     SHP_ERR_LIMIT);
    shp_preamble_fini(&preamble);
}

static void long_line_is_cut_and_still_ends(void **state)
{
    (void)state;
    static uint8_t noise[5000];
    const char *line;
    size_t taken;
    memset(noise, 'x', sizeof(noise));
    noise[sizeof(noise) - 1] = '\n';
    assert_int_equal(shp_preamble_init(&preamble, MARKER, 1 << 20), 0);
    assert_int_equal(
        shp_preamble_feed(&preamble, (const uint8_t *)READY, sizeof(READY) - 2, &taken, &line), 0);
    assert_int_equal(shp_preamble_feed(&preamble, noise, sizeof(noise), &taken, &line), 0);
    assert_non_null(line);
    assert_int_equal(strlen(line), SHP_PREAMBLE_LINE_MAX);
    shp_preamble_fini(&preamble);
}

static void diagnostic_is_the_cleaned_end_of_the_noise(void **state)
{
    (void)state;
    static const char in[] = "first line\nzsh: \033[31mcommand\033[0m not found\r\n\n";
    const char *line;
    size_t taken;
    char text[64];
    assert_int_equal(shp_preamble_init(&preamble, MARKER, 1 << 20), 0);
    assert_int_equal(shp_preamble_diagnostic(&preamble, text, sizeof(text)), 0);
    shp_preamble_feed(&preamble, (const uint8_t *)in, sizeof(in) - 1, &taken, &line);
    shp_preamble_diagnostic(&preamble, text, sizeof(text));
    assert_string_equal(text, "first line zsh: ?[31mcommand?[0m not found");
    char small[8];
    assert_int_equal(shp_preamble_diagnostic(&preamble, small, sizeof(small)), 5);
    assert_string_equal(small, "found");

    /* Far more than the ring holds: the end counts. */
    static uint8_t noise[3 * SHP_PREAMBLE_TAIL_MAX];
    memset(noise, 'a', sizeof(noise));
    for (int i = 0; i < 3; i++)
        shp_preamble_feed(&preamble, noise, sizeof(noise) - 7, &taken, &line);
    shp_preamble_feed(&preamble, (const uint8_t *)"the end", 7, &taken, &line);
    static char all[SHP_PREAMBLE_TAIL_MAX + 100];
    assert_int_equal(shp_preamble_diagnostic(&preamble, all, sizeof(all)), SHP_PREAMBLE_TAIL_MAX);
    assert_string_equal(all + SHP_PREAMBLE_TAIL_MAX - 9, "aathe end");
    shp_preamble_fini(&preamble);
}

static void marker_must_be_an_id(void **state)
{
    (void)state;
    assert_int_equal(shp_preamble_init(&preamble, "", 1), SHP_ERR_INVALID);
    assert_int_equal(shp_preamble_init(&preamble, MARKER "0", 1), SHP_ERR_INVALID);
    assert_int_equal(shp_preamble_init(&preamble, "00112233445566778899AABBCCDDEEFF", 1),
                     SHP_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_give_the_same_lines_at_every_cut),
        cmocka_unit_test(bytes_behind_the_line_are_left_for_the_session),
        cmocka_unit_test(noise_above_its_bound_is_an_error),
        cmocka_unit_test(line_without_end_is_bounded_too),
        cmocka_unit_test(long_line_is_cut_and_still_ends),
        cmocka_unit_test(diagnostic_is_the_cleaned_end_of_the_noise),
        cmocka_unit_test(marker_must_be_an_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
