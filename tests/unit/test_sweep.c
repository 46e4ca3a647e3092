/*
 * Which files a starting helper removes: a copy of the built helper is run from a directory like
 * the installed one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "remote-helper/sweep.h"

#define HASH "0123456789abcdef0123456789abcde"

static char directory[] = "/tmp/shp-sweep-XXXXXX";

static void path_of(char *out, size_t size, const char *name)
{
    snprintf(out, size, "%s/%s", directory, name);
}

static void make(const char *name, time_t age_s)
{
    char path[512];
    path_of(path, sizeof path, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0700);
    assert_true(fd >= 0);
    close(fd);
    struct timespec times[2] = {{time(NULL) - age_s, 0}, {time(NULL) - age_s, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static int exists(const char *name)
{
    char path[512];
    struct stat info;
    path_of(path, sizeof path, name);
    return lstat(path, &info) == 0;
}

/* arguments: behind the marker */
static void run_helper_with(const char *name, const char *arguments)
{
    char path[512];
    char command[2048];
    path_of(path, sizeof path, name);
    snprintf(command, sizeof command,
             "cp '%s/shepherdr-helper' '%s' && : | '%s' serve 0123456789abcdef0123456789abcdef %s "
             "2>&1 | cat >/dev/null",
             SHP_TEST_BIN_DIR, path, path, arguments);
    int status = system(command);
    assert_true(WIFEXITED(status));
}

static void run_helper(const char *name)
{
    run_helper_with(name, "");
}

static void names_of_helpers_are_recognised(void **state)
{
    (void)state;
    assert_true(sweep_is_helper("helper-linux-x86_64-" HASH "0"));
    assert_false(sweep_is_helper("helper-linux-x86_64-" HASH));
    assert_false(sweep_is_helper("helper-linux-x86_64-" HASH "G"));
    assert_false(sweep_is_helper("helper-" HASH "0"));
    assert_false(sweep_is_helper("another-linux-x86_64-" HASH "0"));
}

static void old_versions_and_stale_temporaries_go(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(directory));
    make("helper-linux-x86_64-" HASH "1", 100);
    make("helper-linux-x86_64-" HASH "2", 500);
    make("helper-linux-x86_64-" HASH "3", 200);
    make("helper-linux-x86_64-" HASH "4", 400);
    make("helper-linux-x86_64-" HASH "5", 300);
    make(".tmp-helper-linux-x86_64-old", SWEEP_TEMPORARY_S + 100);
    make(".tmp-helper-linux-x86_64-new", 10);
    make("notes.txt", 999999);
    run_helper_with("helper-linux-x86_64-" HASH "a", "keep"); /* only looked at */
    assert_true(exists(".tmp-helper-linux-x86_64-old"));
    run_helper("helper-linux-x86_64-" HASH "a");
    assert_true(exists("helper-linux-x86_64-" HASH "a"));
    assert_true(exists("helper-linux-x86_64-" HASH "1"));
    assert_true(exists("helper-linux-x86_64-" HASH "3"));
    assert_true(exists("helper-linux-x86_64-" HASH "5"));
    assert_false(exists("helper-linux-x86_64-" HASH "4"));
    assert_false(exists("helper-linux-x86_64-" HASH "2"));
    assert_false(exists(".tmp-helper-linux-x86_64-old"));
    assert_true(exists(".tmp-helper-linux-x86_64-new"));
    assert_true(exists("notes.txt"));
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    assert_int_equal(system(command), 0);
}

static void a_helper_outside_its_place_touches_nothing(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/shp-sweep-XXXXXX");
    assert_non_null(mkdtemp(directory));
    make(".tmp-helper-linux-x86_64-old", SWEEP_TEMPORARY_S + 100);
    run_helper("shepherdr-helper");
    assert_true(exists(".tmp-helper-linux-x86_64-old"));
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_helpers_are_recognised),
        cmocka_unit_test(old_versions_and_stale_temporaries_go),
        cmocka_unit_test(a_helper_outside_its_place_touches_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
