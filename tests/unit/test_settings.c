/* The user's settings file, and that a connect follows it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "controller/settings.h"
#include "protocol/messages.h"
#include "tests/support/temp_root.h"

#define MACHINE "0123456789abcdef0123456789abcdef"

static void write_settings(const char *root, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, SETTINGS_FILE_NAME);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void assert_dir(const char *root, const char *wanted)
{
    struct shp_error error = {0};
    struct settings settings;
    assert_int_equal(settings_read(&settings, root, MACHINE, &error), SHP_OK);
    if (wanted)
        assert_string_equal(settings.helper_dir, wanted);
    else
        assert_null(settings.helper_dir);
    settings_fini(&settings);
}

static void assert_invalid(const char *root, const char *cause)
{
    struct shp_error error = {0};
    struct settings settings;
    assert_int_equal(settings_read(&settings, root, MACHINE, &error), SHP_ERR_INVALID);
    assert_int_equal(error.code, SHP_CODE_SETTINGS_INVALID);
    assert_string_equal(error.machine, MACHINE);
    assert_non_null(strstr(error.cause, SETTINGS_FILE_NAME));
    assert_non_null(strstr(error.cause, cause));
    assert_null(settings.helper_dir);
}

static void assert_ssh(const char *root, const char *text, enum shp_ssh_kind transport,
                       bool post_quantum)
{
    struct shp_error error = {0};
    struct settings settings;
    write_settings(root, text);
    assert_int_equal(settings_read(&settings, root, MACHINE, &error), SHP_OK);
    assert_int_equal(settings.transport, transport);
    assert_int_equal(settings.post_quantum, post_quantum);
    settings_fini(&settings);
}

static void a_transport_is_set_for_all_or_for_one_machine(void **state)
{
    assert_ssh(*state, "{}", SHP_SSH_AUTO, false);
    assert_ssh(*state, "{\"transport\":\"auto\"}", SHP_SSH_AUTO, false);
    assert_ssh(*state, "{\"transport\":\"openssh\",\"postQuantum\":\"prefer\"}", SHP_SSH_OPENSSH,
               false);
    assert_ssh(*state, "{\"transport\":\"libssh\",\"postQuantum\":\"require\"}", SHP_SSH_LIBSSH,
               true);
    assert_ssh(*state, "{\"transport\":{\"" MACHINE "\":\"libssh\",\"default\":\"openssh\"}}",
               SHP_SSH_LIBSSH, false);
    assert_ssh(*state, "{\"transport\":{\"other\":\"libssh\",\"default\":\"openssh\"}}",
               SHP_SSH_OPENSSH, false);
    assert_ssh(*state, "{\"transport\":{\"other\":\"libssh\"}}", SHP_SSH_AUTO, false);
}

static void a_directory_is_set_for_its_machine_only(void **state)
{
    assert_dir(*state, NULL); /* no file */
    write_settings(*state, "");
    assert_dir(*state, NULL);
    write_settings(*state, "{\"extensionCommands\":{\"a\":\"b\"}}");
    assert_dir(*state, NULL);
    write_settings(*state, "{\"helperDir\":{\"other\":\"/opt/x\"}}");
    assert_dir(*state, NULL);
    write_settings(*state, "{\"helperDir\":{\"" MACHINE "\":\"/opt/shepherdr-1.x_y\"},\"k\":1}");
    assert_dir(*state, "/opt/shepherdr-1.x_y");
}

static void malformed_settings_are_named(void **state)
{
    write_settings(*state, "[]");
    assert_invalid(*state, "not a JSON object");
    write_settings(*state, "{\"helperDir\":\"/opt/x\"}");
    assert_invalid(*state, "helperDir is not an object");
    write_settings(*state, "{\"transport\":\"telnet\"}");
    assert_invalid(*state, "transport is not");
    write_settings(*state, "{\"transport\":{\"" MACHINE "\":1}}");
    assert_invalid(*state, "transport is not");
    write_settings(*state, "{\"postQuantum\":true,\"helperDir\":{\"" MACHINE "\":\"/opt/x\"}}");
    assert_invalid(*state, "postQuantum is not");
    static const char *const bad[] = {
        "7", "\"\"", "\"opt/x\"", "\"/opt/x y\"", "\"/opt/$(id)\"", "\"/opt/'x\""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"helperDir\":{\"" MACHINE "\":%s}}", bad[i]);
        write_settings(*state, text);
        assert_invalid(*state, "not an absolute path");
    }
}

static void a_connect_follows_them(void **state)
{
    char command[2048];
    char output[8192];
    char *dir = temp_path(*state, "elsewhere");
    char *settings = NULL;
    assert_true(asprintf(&settings, "{\"helperDir\":{\"local\":\"%s\"}}", dir) > 0);
    write_settings(*state, settings);
    snprintf(command, sizeof command,
             "env -i PATH=/usr/bin:/bin HOME='%s' PI_CODING_AGENT_DIR='%s' "
             "'%s/shepherdr' doctor --json local 2>&1",
             (const char *)*state, (const char *)*state, SHP_TEST_BIN_DIR);
    FILE *stream = popen(command, "re");
    assert_non_null(stream);
    size_t len = fread(output, 1, sizeof output - 1, stream);
    output[len] = '\0';
    pclose(stream);
    char wanted[600];
    snprintf(wanted, sizeof wanted, "%s/helper-linux-", dir);
    assert_non_null(strstr(output, "helper_absent"));
    assert_non_null(strstr(output, wanted));
    free(settings);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_directory_is_set_for_its_machine_only, temp_root_setup,
                                        temp_root_teardown),
        cmocka_unit_test_setup_teardown(a_transport_is_set_for_all_or_for_one_machine,
                                        temp_root_setup, temp_root_teardown),
        cmocka_unit_test_setup_teardown(malformed_settings_are_named, temp_root_setup,
                                        temp_root_teardown),
        cmocka_unit_test_setup_teardown(a_connect_follows_them, temp_root_setup,
                                        temp_root_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
