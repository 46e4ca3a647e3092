#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "controller/fleet/catalog.h"
#include "protocol/messages.h"

#define ID "0123456789abcdef0123456789abcdef"
#define ENTRY(id, label, target, session)                                                          \
    "{\"id\":\"" id "\",\"label\":\"" label "\",\"target\":\"" target "\",\"session\":\"" session  \
    "\",\"enabled\":true,\"selected\":false}"

static char root[] = "/tmp/shp-catalog-XXXXXX";

static void assert_invalid(const char *text, const char *cause)
{
    struct catalog catalog;
    struct shp_error error = {0};
    assert_int_equal(catalog_parse(&catalog, text, strlen(text), &error), SHP_ERR_INVALID);
    assert_int_equal(error.code, SHP_CODE_CATALOG_INVALID);
    assert_non_null(strstr(error.cause, cause));
    assert_string_equal(error.step, "read machine catalog");
}

static void a_good_catalog_is_taken_with_unknown_fields(void **state)
{
    (void)state;
    static const char text[] = "[" ENTRY(ID, "build box", "dev@build", "default") "]\n";
    struct catalog catalog;
    struct shp_error error = {0};
    assert_int_equal(catalog_parse(&catalog, text, strlen(text), &error), SHP_OK);
    assert_int_equal(catalog.len, 1);
    assert_string_equal(catalog.items[0].id, ID);
    assert_string_equal(catalog.items[0].label, "build box");
    assert_string_equal(catalog.items[0].target, "dev@build");
    assert_true(catalog.items[0].enabled);
    catalog_fini(&catalog);
}

static void an_empty_catalog_is_good(void **state)
{
    (void)state;
    struct catalog catalog;
    struct shp_error error = {0};
    assert_int_equal(catalog_parse(&catalog, "[]", 2, &error), SHP_OK);
    assert_int_equal(catalog.len, 0);
    catalog_fini(&catalog);
}

static void one_bad_entry_fails_the_whole_and_is_named(void **state)
{
    (void)state;
    assert_invalid("", "did not print a JSON array");
    assert_invalid("{}", "did not print a JSON array");
    assert_invalid("[7]", "entry 1: it is not an object");
    assert_invalid("[" ENTRY("abc", "x", "y", "default") "]", "entry 1 x: id is not 32");
    assert_invalid("[" ENTRY(ID, "", "y", "default") "]", "label is empty");
    assert_invalid("[" ENTRY(ID, "x", "-oProxyCommand=evil", "default") "]", "begins with a dash");
    assert_invalid("[" ENTRY(ID, "x", "a\\nb", "default") "]", "control characters");
    assert_invalid("[" ENTRY(ID, "x", "y", "..") "]", "session is not a Herdr session name");
    assert_invalid("[" ENTRY(ID, "x", "y", "a") "," ENTRY(ID, "z", "y", "a") "]",
                   "entry 2 z: its id is there twice");
    assert_invalid("[{\"id\":\"" ID "\",\"label\":\"x\",\"target\":\"y\",\"session\":\"a\"}]",
                   "enabled is missing");
}

/* ---- the program --------------------------------------------------------------------------- */

struct outcome {
    int calls;
    size_t len;
    struct shp_error error;
};

static void on_read(struct catalog *catalog, const struct shp_error *error, void *user)
{
    struct outcome *outcome = user;
    outcome->calls++;
    if (error) {
        outcome->error = *error;
    } else {
        outcome->len = catalog->len;
        catalog_fini(catalog);
    }
}

static void run(struct outcome *outcome, const char *program)
{
    uv_loop_t loop;
    struct catalog_reader *reader;
    *outcome = (struct outcome){0};
    assert_int_equal(uv_loop_init(&loop), 0);
    catalog_read(&loop, program, on_read, outcome, &reader);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(outcome->calls, 1);
}

static void write_program(char *path, size_t size, const char *name, const char *script)
{
    snprintf(path, size, "%s/%s", root, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", script);
    fclose(file);
    assert_int_equal(chmod(path, 0700), 0);
}

static void the_program_is_asked_for_json(void **state)
{
    (void)state;
    char path[256];
    struct outcome outcome;
    write_program(path, sizeof path, "herdr",
                  "[ \"$*\" = 'machine list --json' ] || exit 2\n"
                  "[ -z \"$HERDR_SOCKET_PATH$PI_CODING_AGENT_DIR\" ] || exit 3\n"
                  "echo '[" ENTRY(ID, "x", "y", "default") "]'");
    setenv("HERDR_SOCKET_PATH", "/nowhere", 1);
    setenv("PI_CODING_AGENT_DIR", "/nowhere", 1);
    run(&outcome, path);
    assert_int_equal(outcome.error.code, 0);
    assert_int_equal(outcome.len, 1);
    char deleted[300];
    snprintf(deleted, sizeof deleted, "%s (deleted)", path);
    run(&outcome, deleted);
    assert_int_equal(outcome.len, 1);
}

static void a_failing_program_is_told_with_its_words(void **state)
{
    (void)state;
    char path[256];
    struct outcome outcome;
    write_program(path, sizeof path, "failing", "echo 'no such thing' >&2; exit 1");
    run(&outcome, path);
    assert_int_equal(outcome.error.code, SHP_CODE_CATALOG_FAILED);
    assert_non_null(strstr(outcome.error.cause, "no such thing"));
}

static void a_missing_program_is_herdr_missing(void **state)
{
    (void)state;
    char path[256];
    struct outcome outcome;
    snprintf(path, sizeof path, "%s/absent", root);
    run(&outcome, path);
    assert_int_equal(outcome.error.code, SHP_CODE_HERDR_MISSING);
}

static void too_much_output_is_refused(void **state)
{
    (void)state;
    char path[256];
    struct outcome outcome;
    write_program(path, sizeof path, "endless", "exec yes '[[[[[[[[[[[[[[[['");
    run(&outcome, path);
    assert_int_equal(outcome.error.code, SHP_CODE_CATALOG_INVALID);
    assert_non_null(strstr(outcome.error.cause, "1 MiB"));
}

static void a_canceled_read_calls_nobody(void **state)
{
    (void)state;
    char path[256];
    uv_loop_t loop;
    struct catalog_reader *reader;
    struct outcome outcome = {0};
    write_program(path, sizeof path, "slow", "exec sleep 60");
    assert_int_equal(uv_loop_init(&loop), 0);
    catalog_read(&loop, path, on_read, &outcome, &reader);
    uv_run(&loop, UV_RUN_NOWAIT);
    catalog_reader_cancel(reader);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(outcome.calls, 0);
}

static int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_catalog_is_taken_with_unknown_fields),
        cmocka_unit_test(an_empty_catalog_is_good),
        cmocka_unit_test(one_bad_entry_fails_the_whole_and_is_named),
        cmocka_unit_test(the_program_is_asked_for_json),
        cmocka_unit_test(a_failing_program_is_told_with_its_words),
        cmocka_unit_test(a_missing_program_is_herdr_missing),
        cmocka_unit_test(too_much_output_is_refused),
        cmocka_unit_test(a_canceled_read_calls_nobody),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
