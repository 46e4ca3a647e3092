/* controller/agents: routing names from labels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "controller/agents/call.h"

static void derives(const char *label, unsigned attempt, const char *expected)
{
    char name[33];
    memset(name, '#', sizeof name);
    shp_name_derive(name, label, attempt);
    assert_string_equal(name, expected);
    assert_true(shp_name_valid(name));
}

static void label_becomes_small_letters_digits_and_dashes(void **state)
{
    (void)state;
    derives("Fix Parser", 1, "fix-parser");
    derives("  review:  PR #42 (urgent!) ", 1, "review-pr-42-urgent");
    derives("a_b/c", 1, "a-b-c");
    derives("x", 1, "x");
}

static void accents_are_dropped_and_other_scripts_become_dashes(void **state)
{
    (void)state;
    derives("Über Größe Crème brûlée", 1, "uber-gro-e-creme-brulee");
    derives("e\xcc\x81tude", 1, "etude");                         /* combining mark */
    derives("Ti\xe1\xba\xbfng Vi\xe1\xbb\x87t", 1, "tieng-viet"); /* U+1EBF, U+1EC7 */
    derives("Łódź", 1, "odz");
    derives("修复 tests", 1, "tests");
    derives("bad\xff\xfe utf8", 1, "bad-utf8");
}

static void name_begins_with_a_letter_or_gets_a_prefix(void **state)
{
    (void)state;
    derives("42 bugs", 1, "agent-42-bugs");
    derives("修复", 1, "agent");
    derives("---", 1, "agent");
    derives("", 1, "agent");
    derives("agent", 1, "agent");
}

static void name_is_cut_at_32_without_a_dash_at_its_end(void **state)
{
    (void)state;
    derives("abcdefghijklmnopqrstuvwxyz0123456789", 1, "abcdefghijklmnopqrstuvwxyz012345");
    derives("abcdefghijklmnopqrstuvwxyz01234 56789", 1, "abcdefghijklmnopqrstuvwxyz01234");
    derives("0123456789012345678901234567890123", 1, "agent-01234567890123456789012345");
}

static void later_attempts_get_a_number_within_32(void **state)
{
    (void)state;
    derives("Fix Parser", 0, "fix-parser");
    derives("Fix Parser", 2, "fix-parser-2");
    derives("abcdefghijklmnopqrstuvwxyz0123456789", 10, "abcdefghijklmnopqrstuvwxyz012-10");
    derives("abcdefghijklmnopqrstuvwxyz01 23456789", 100, "abcdefghijklmnopqrstuvwxyz01-100");
    derives("x", 4294967295u, "x-4294967295");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(label_becomes_small_letters_digits_and_dashes),
        cmocka_unit_test(accents_are_dropped_and_other_scripts_become_dashes),
        cmocka_unit_test(name_begins_with_a_letter_or_gets_a_prefix),
        cmocka_unit_test(name_is_cut_at_32_without_a_dash_at_its_end),
        cmocka_unit_test(later_attempts_get_a_number_within_32),
    };
    return cmocka_run_group_tests_name("name", tests, NULL, NULL);
}
