/* The commands as people type them: what stands on which output, and the exit status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "controller/json.h"
#include "tests/support/controller_rig.h"
#include "tests/support/temp_root.h"

#define BOX "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ARGS_MAX 6

static struct controller_rig rig;
static char *path_before;

/* The rig's program directory first in PATH: its herdr, its ssh, which fails. */
static int setup(void **state)
{
    (void)state;
    static const char ssh[] = "#!/bin/sh\necho 'ssh: no route' >&2\nexit 255\n";
    char path[4096];
    controller_rig_open(&rig, SHP_TEST_BIN_DIR);
    char *program = temp_path(rig.program_dir, "ssh");
    temp_write(program, ssh, strlen(ssh));
    chmod(program, 0700);
    free(program);
    size_t len = 0;
    char *bytes = temp_read(SHP_TEST_BIN_DIR "/shepherdr", &len);
    program = temp_path(rig.program_dir, "shepherdr");
    temp_write(program, bytes, len);
    chmod(program, 0700);
    free(bytes);
    free(program);
    path_before = strdup(getenv("PATH"));
    snprintf(path, sizeof path, "%s:%s:/usr/bin:/bin", rig.program_dir, rig.root);
    setenv("PATH", path, 1);
    setenv("HERDR_ENV", "1", 1);
    setenv("HERDR_SOCKET_PATH", rig.world.socket, 1);
    setenv("HERDR_PANE_ID", "w1:p0", 1);
    setenv("HERDR_WORKSPACE_ID", "w1", 1);
    unsetenv("HERDR_BIN_PATH");
    unsetenv("HERDR_SESSION");
    unsetenv("PI_CODING_AGENT_DIR");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    controller_rig_close(&rig);
    setenv("PATH", path_before, 1);
    free(path_before);
    return 0;
}

/* ---- running ------------------------------------------------------------------------------- */

struct ran {
    bool ended;
    int status;
    char *out;
    char *err;
};

static void on_exit_of_command(uv_process_t *process, int64_t status, int term_signal)
{
    struct ran *ran = process->data;
    ran->status = term_signal ? -term_signal : (int)status;
    ran->ended = true;
    uv_close((uv_handle_t *)process, NULL);
}

/* NULL ends args. The world's Herdr answers on the same loop meanwhile. */
static struct ran run(const char *first, ...)
{
    char *args[ARGS_MAX + 2] = {"shepherdr"};
    int count = 1;
    va_list list;
    va_start(list, first);
    for (const char *arg = first; arg; arg = va_arg(list, const char *)) {
        assert_true(count <= ARGS_MAX);
        args[count++] = (char *)(uintptr_t)arg;
    }
    va_end(list);
    char *program = temp_path(rig.program_dir, "shepherdr");
    char *out = temp_path(rig.root, "out"), *err = temp_path(rig.root, "err");
    FILE *out_file = fopen(out, "w+"), *err_file = fopen(err, "w+");
    uv_stdio_container_t stdio[3] = {{.flags = UV_IGNORE},
                                     {.flags = UV_INHERIT_FD, .data.fd = fileno(out_file)},
                                     {.flags = UV_INHERIT_FD, .data.fd = fileno(err_file)}};
    uv_process_options_t options = {.file = program,
                                    .args = args,
                                    .stdio = stdio,
                                    .stdio_count = 3,
                                    .exit_cb = on_exit_of_command};
    struct ran ran = {0};
    uv_process_t process;
    process.data = &ran;
    assert_int_equal(uv_spawn(&rig.loop, &process, &options), 0);
    fclose(out_file);
    fclose(err_file);
    controller_until(&rig, &ran.ended);
    size_t len = 0;
    ran.out = temp_read(out, &len);
    ran.err = temp_read(err, &len);
    free(program);
    free(out);
    free(err);
    return ran;
}

static void ran_fini(struct ran *ran)
{
    free(ran->out);
    free(ran->err);
}

static void expect(struct ran ran, int status, const char *out, const char *err)
{
    if (ran.status != status || !strstr(ran.out, out) || !strstr(ran.err, err))
        fail_msg("status %d\nout: %s\nerr: %s", ran.status, ran.out, ran.err);
    ran_fini(&ran);
}

/* ---- tests --------------------------------------------------------------------------------- */

static void wrong_usage_is_told_with_the_usage(void **state)
{
    (void)state;
    expect(run(NULL, NULL), 2, "", "a command is missing");
    expect(run("fly", NULL), 2, "", "unknown command: fly");
    expect(run("machines", "-x", NULL), 2, "", "machines: unknown argument: -x");
    expect(run("machines", "--session", NULL), 2, "", "an id is missing behind: --session");
    expect(run("machines", "--reconnect", BOX, NULL), 2, "", "need --session");
    expect(run("machines", "--refresh", NULL), 2, "", "need --session");
    expect(run("doctor", "--fast", NULL), 2, "", "doctor: unknown argument: --fast");
    expect(run("doctor", "--color=blue", NULL), 2, "", "unknown argument: --color=blue");
    expect(run("agents", NULL), 2, "", "exactly one JSON argument");
    expect(run("agents", "{}", "{}", NULL), 2, "", "exactly one JSON argument");
    expect(run("agents", "[]", NULL), 2, "", "invalid_call");
    expect(run("controller", NULL), 2, "", "--stdio is needed");
    expect(run("--version", "x", NULL), 2, "", "unknown argument: x");
    expect(run("--help", NULL), 0, "usage: shepherdr", "");
    expect(run("machines", "--help", NULL), 0, "usage: shepherdr", "");
    expect(run("--version", NULL), 0, "shepherdr ", "");
}

static void a_call_prints_its_result_or_its_error(void **state)
{
    (void)state;
    world_worker(&rig.world);
    expect(run("agents", "help", NULL), 0, "\"actions\":{", "");
    expect(run("agents", "{\"action\":\"list\"}", NULL), 0, "\"name\":\"scout\"", "");
    expect(run("agents", "{\"action\":\"send\",\"target\":\"scout\",\"message\":\"hi\"}", NULL), 0,
           "\"sent\":true", "");
    assert_string_equal(rig.world.last_text, "hi");
    expect(run("agents", "{\"action\":\"fly\"}", NULL), 2, "", "\"code\":\"unknown_action\"");
    expect(run("agents", "{\"action\":\"read\",\"target\":\"nobody\"}", NULL), 1, "",
           "\"code\":\"agent_not_found\"");
    expect(run("agents",
               "{\"action\":\"spawn\",\"agent_type\":\"explorer\",\"label\":\"a b\","
               "\"message\":\"x\",\"blocking\":false}",
               NULL),
           1, "", "\"code\":\"needs_pi_session\"");
}

static void settle_at_once(enum world_step step, void *user)
{
    (void)user;
    if (step == WORLD_SETTLEMENT && !rig.world.settled)
        world_settle(&rig.world);
}

static void a_command_may_spawn_and_wait(void **state)
{
    (void)state;
    rig.world.on_step = settle_at_once;
    expect(run("agents",
               "{\"action\":\"spawn\",\"agent_type\":\"explorer\",\"label\":\"a b\","
               "\"message\":\"Look.\"}",
               NULL),
           0, "\"reply\":\"" WORLD_REPLY "\"", "");
    assert_int_equal(rig.world.count[WORLD_BIND], 0);
}

static void machines_shows_each_with_its_state(void **state)
{
    (void)state;
    controller_rig_catalog(&rig, "[{\"id\":\"" BOX "\",\"label\":\"box\",\"target\":\"nobody@x\","
                                 "\"session\":\"default\",\"enabled\":true}]");
    struct ran ran = run("machines", "--json", NULL);
    assert_int_equal(ran.status, 0);
    cJSON *machines = cJSON_Parse(ran.out);
    assert_string_equal(json_string(json_find(machines, "id", "local"), "status"), "connected");
    const cJSON *box = json_find(machines, "id", BOX);
    assert_string_equal(json_string(box, "status"), "unavailable");
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(box, "error");
    assert_non_null(json_string(error, "code"));
    assert_non_null(json_string(error, "next"));
    assert_true(json_number(json_find(machines, "id", "local"), "roundTripMs", 0) > 0);
    cJSON_Delete(machines);
    ran_fini(&ran);
    expect(run("machines", NULL), 0, "connected", "");
}

static void a_catalog_that_cannot_be_read_is_a_failure(void **state)
{
    (void)state;
    controller_rig_catalog(&rig, "{}");
    expect(run("machines", NULL), 1, "local", "catalog_invalid (read machine catalog)");
    expect(run("doctor", NULL), 2, "FAILED   catalog", "");
    expect(run("doctor", BOX, NULL), 2, "", "catalog_invalid");
    char *path = temp_path(rig.root, "herdr");
    unlink(path);
    free(path);
    expect(run("machines", NULL), 1, "local", "herdr_missing");
}

/* Programs that doctor looks for, so that nothing of the host decides. */
static void put_pi(const char *version)
{
    char command[1024];
    snprintf(
        command, sizeof command,
        "cd '%s' && mkdir -p pi-coding-agent .pi/agent/extensions && "
        "echo '{\"name\":\"pi-coding-agent\",\"version\":\"%s\"}' >pi-coding-agent/package.json && "
        "touch pi-coding-agent/pi && chmod 700 pi-coding-agent/pi && "
        "ln -sf '%s/pi-coding-agent/pi' '%s/pi' && "
        "echo '// HERDR_INTEGRATION_VERSION=9' >.pi/agent/extensions/herdr-agent-state.ts",
        rig.root, version, rig.root, rig.program_dir);
    assert_int_equal(system(command), 0);
}

static void doctor_names_the_layer_that_fails(void **state)
{
    (void)state;
    put_pi("1.6.0");
    struct ran ran = run("doctor", NULL); /* nothing is installed, nor will be */
    assert_int_equal(ran.status, 1);
    assert_non_null(
        strstr(ran.out, "warning  helper        helper_absent: not installed (would write"));
    assert_non_null(strstr(ran.out, "skipped  link to receivers: needs the helper"));
    ran_fini(&ran);
    char *bin = temp_path(rig.root, ".pi/agent/shepherdr/bin");
    assert_int_not_equal(access(bin, F_OK), 0);
    expect(run("doctor", "--fix", NULL), 0, "ok       helper        installed now: ", "");
    assert_int_equal(access(bin, F_OK), 0);
    free(bin);
    expect(run("doctor", NULL), 0, "ok       receivers     0 live pi sessions", "");
    expect(run("doctor", "local", NULL), 0, "pi 1.6.0, extension comes with a spawn, integration 9",
           "");
    expect(run("doctor", BOX, NULL), 2, "", "machine_unknown");
    expect(run("doctor", "--color=always", NULL), 0, "\033[32mok", "");
    ran = run("doctor", "--color=auto", NULL);
    assert_null(strchr(ran.out, '\033')); /* no terminal */
    ran_fini(&ran);
    put_pi("1.1.9");
    expect(run("doctor", NULL), 2, "FAILED   pi            pi_too_old: ", "");
    put_pi("1.6.0");
    rig.world.drop[WORLD_PING] = true;
    expect(run("doctor", NULL), 2, "FAILED   herdr", "");
    controller_rig_catalog(&rig, "[{\"id\":\"" BOX "\",\"label\":\"box\",\"target\":\"nobody@x\","
                                 "\"session\":\"default\",\"enabled\":false}]");
    expect(run("doctor", BOX, NULL), 0, "disabled in Herdr's catalog", "");
}

static void doctor_prints_json_with_every_layer(void **state)
{
    (void)state;
    controller_rig_catalog(&rig, "[{\"id\":\"" BOX "\",\"label\":\"box\",\"target\":\"nobody@x\","
                                 "\"session\":\"default\",\"enabled\":true}]");
    struct ran ran = run("doctor", "--json", "--smoke", BOX, NULL);
    assert_int_equal(ran.status, 2);
    cJSON *json = cJSON_Parse(ran.out);
    const cJSON *machine = cJSON_GetArrayItem(json, 0);
    assert_string_equal(json_string(machine, "status"), "failed");
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(machine, "layers");
    assert_string_equal(json_string(json_find(layers, "layer", "catalog"), "status"), "ok");
    const cJSON *failed = json_find(layers, "status", "failed");
    assert_non_null(strstr(json_string(failed, "cause"), "no route"));
    assert_non_null(json_string(failed, "code"));
    assert_non_null(json_string(failed, "step"));
    assert_non_null(json_string(failed, "next"));
    assert_string_equal(json_string(json_find(layers, "layer", "herdr"), "status"), "skipped");
    assert_string_equal(json_string(json_find(layers, "layer", "smoke"), "status"), "skipped");
    cJSON_Delete(json);
    ran_fini(&ran);
}

static void without_herdr_every_command_ends_with_a_reason(void **state)
{
    (void)state;
    unsetenv("HERDR_ENV");
    char *path = temp_path(rig.root, "herdr");
    unlink(path);
    free(path);
    expect(run("machines", NULL), 1, "herdr_not_running", "herdr_missing");
    expect(run("agents", "{\"action\":\"list\"}", NULL), 0, "herdr_not_running", "herdr_missing");
    expect(run("agents", "{\"action\":\"read\",\"target\":\"x\"}", NULL), 1, "",
           "\"code\":\"herdr_not_running\"");
    expect(run("doctor", NULL), 2, "FAILED   herdr", "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(wrong_usage_is_told_with_the_usage),
        TEST(a_call_prints_its_result_or_its_error),
        TEST(a_command_may_spawn_and_wait),
        TEST(machines_shows_each_with_its_state),
        TEST(a_catalog_that_cannot_be_read_is_a_failure),
        TEST(doctor_names_the_layer_that_fails),
        TEST(doctor_prints_json_with_every_layer),
        TEST(without_herdr_every_command_ends_with_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
