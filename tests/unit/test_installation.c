/* Small parts of the controller with files: installation id, extension file; and its JSON forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <sodium.h>

#include "controller/extension_file.h"
#include "controller/installation.h"
#include "controller/json.h"
#include "protocol/messages.h"
#include "tests/support/temp_root.h"

static char *id_path(const char *root)
{
    return temp_path(root, ".pi/agent/shepherdr/installation");
}

static void the_id_is_made_once(void **state)
{
    char first[33], second[33];
    struct shp_error error = {0};
    struct stat st;
    assert_int_equal(installation_id(first, *state, &error), 0);
    assert_int_equal(strlen(first), 32);
    assert_int_equal(installation_id(second, *state, &error), 0);
    assert_string_equal(first, second);
    char *path = id_path(*state);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    char *directory = temp_path(*state, ".pi/agent/shepherdr");
    assert_int_equal(temp_entries(directory), 1); /* no temporary is left */
    free(directory);
    free(path);
}

static void many_at_once_get_the_same(void **state)
{
    enum { COUNT = 8 };
    int fds[2];
    char ids[COUNT][33];
    assert_int_equal(pipe(fds), 0);
    for (int i = 0; i < COUNT; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            char id[33];
            struct shp_error error = {0};
            bool good = installation_id(id, *state, &error) == 0 && write(fds[1], id, 33) == 33;
            _exit(good ? 0 : 1);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        int status = 1;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
        assert_int_equal(read(fds[0], ids[i], 33), 33);
        assert_string_equal(ids[i], ids[0]);
    }
    close(fds[0]);
    close(fds[1]);
}

static void expect_failure(const char *root, const char *cause)
{
    char id[33];
    struct shp_error error = {0};
    assert_true(installation_id(id, root, &error) != 0);
    assert_int_equal(error.code, SHP_CODE_STORE_FAILED);
    if (!strstr(error.cause, cause))
        fail_msg("%s", error.cause);
    assert_non_null(strstr(error.cause, "/installation"));
}

static void what_is_not_ours_is_named_and_stays(void **state)
{
    char id[33];
    struct shp_error error = {0};
    char *path = id_path(*state);
    assert_int_equal(installation_id(id, *state, &error), 0);
    temp_write(path, "hello\n", 6);
    expect_failure(*state, "not 32 hex digits");
    size_t len = 0;
    char *kept = temp_read(path, &len);
    assert_string_equal(kept, "hello\n");
    free(kept);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_failure(*state, "not 32 hex digits"); /* and it did not wait for a writer */
    unlink(path);
    assert_int_equal(symlink("elsewhere", path), 0);
    expect_failure(*state, "symbolic links");
    free(path);
}

static void a_home_that_cannot_be_written_is_named(void **state)
{
    char *home = temp_path(*state, "file");
    temp_write(home, "", 0);
    expect_failure(home, "Not a directory");
    free(home);
}

static void the_extension_is_found_beside_the_program(void **state)
{
    static const char *const places[] = {"pi-ext", "libexec/shepherdr", "bin"};
    struct extension_file file;
    char *program_dir = temp_path(*state, "bin");
    mkdir(program_dir, 0700);
    extension_file_load(&file, program_dir);
    assert_null(file.content);
    assert_non_null(strstr(file.path, "../libexec/shepherdr")); /* where it was looked for */
    extension_file_fini(&file);
    for (int i = 2; i >= 0; i--) { /* the later ones of the search first: each is preferred */
        char *directory = temp_path(*state, places[i]);
        char *parent = temp_path(*state, "libexec");
        mkdir(parent, 0700);
        mkdir(directory, 0700);
        char *path = temp_path(directory, "pi-ext.mjs");
        temp_write(path, places[i], strlen(places[i]));
        extension_file_load(&file, program_dir);
        assert_int_equal(file.len, strlen(places[i]));
        assert_memory_equal(file.content, places[i], file.len);
        uint8_t digest[32];
        char hex[65];
        crypto_hash_sha256(digest, (const unsigned char *)places[i], file.len);
        sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
        assert_string_equal(file.digest, hex);
        extension_file_fini(&file);
        free(parent);
        free(directory);
        free(path);
    }
    /* Empty, or above the limit: as if it were not there. */
    char *path = temp_path(*state, "pi-ext/pi-ext.mjs");
    temp_write(path, "", 0);
    extension_file_load(&file, program_dir);
    assert_memory_equal(file.content, "libexec/shepherdr", file.len);
    extension_file_fini(&file);
    char *large = calloc(1, EXTENSION_FILE_BYTES_MAX + 1);
    temp_write(path, large, EXTENSION_FILE_BYTES_MAX + 1);
    extension_file_load(&file, program_dir);
    assert_memory_equal(file.content, "libexec/shepherdr", file.len);
    extension_file_fini(&file);
    free(large);
    free(path);
    free(program_dir);
}

static void json_is_read_leniently(void **state)
{
    (void)state;
    static const char text[] = "{\"s\":\"x\",\"n\":5,\"t\":true,\"a\":[1,{\"id\":\"a\"},"
                               "{\"id\":\"b\",\"v\":\"w\"},{\"id\":7}]}";
    cJSON *object = json_parse_object(text, strlen(text));
    assert_string_equal(json_string(object, "s"), "x");
    assert_null(json_string(object, "n"));
    assert_null(json_string(object, "none"));
    assert_null(json_string(NULL, "s"));
    assert_true(json_bool(object, "t"));
    assert_false(json_bool(object, "n"));
    assert_true(json_number(object, "n", 0) == 5);
    assert_true(json_number(object, "s", -1) == -1);
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(object, "a");
    assert_string_equal(json_string(json_find(array, "id", "b"), "v"), "w");
    assert_null(json_find(array, "id", "c"));
    assert_null(json_find(array, "id", NULL));
    assert_null(json_find(NULL, "id", "b"));
    cJSON *other = cJSON_CreateObject();
    json_add(other, "none", NULL);
    json_add(other, "one", "1");
    char *printed = json_print(other);
    assert_string_equal(printed, "{\"one\":\"1\"}");
    free(printed);
    printed = json_print(NULL);
    assert_string_equal(printed, "{}");
    free(printed);
    cJSON_Delete(other);
    cJSON_Delete(object);
    assert_null(json_parse_object("[1]", 3));
    assert_null(json_parse_object("{\"a\":", 5));
    assert_null(json_parse_object("", 0));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, temp_root_setup, temp_root_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_id_is_made_once),
        TEST(many_at_once_get_the_same),
        TEST(what_is_not_ours_is_named_and_stays),
        TEST(a_home_that_cannot_be_written_is_named),
        TEST(the_extension_is_found_beside_the_program),
        cmocka_unit_test(json_is_read_leniently),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
