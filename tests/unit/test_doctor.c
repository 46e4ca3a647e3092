/* Doctor's judgement without a machine: which layer, which verdict, and how people read it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "controller/diagnostics/layers.h"
#include "controller/json.h"
#include "protocol/messages.h"

#define CODES_END 4096

static struct machine remote(void)
{
    struct machine machine = {.id = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                              .label = "box",
                              .target = "box",
                              .session = "default",
                              .enabled = true};
    machine.ssh.phase = SHP_SSH_PHASE_RUNNING;
    machine.seen.free_kib = machine.seen.free_inodes = SHP_BOOTSTRAP_UNKNOWN;
    return machine;
}

static struct diagnosis diagnosis_of(const struct machine *machine)
{
    return (struct diagnosis){
        .id = machine->id, .label = machine->label, .target = machine->target};
}

static enum verdict verdict_of(const struct diagnosis *diagnosis, enum layer layer)
{
    return diagnosis->findings[layer].verdict;
}

static char *printed(const struct diagnosis *diagnosis, bool colour)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    diagnosis_print(diagnosis, out, colour);
    fclose(out);
    return text;
}

/* ---- which layer --------------------------------------------------------------------------- */

static void every_code_of_a_connection_has_a_layer_and_a_next_step(void **state)
{
    size_t seen = 0;
    (void)state;
    for (int code = 1; code < CODES_END; code++) {
        if (strcmp(shp_code_name(code), shp_code_name(CODES_END)) == 0 ||
            shp_code_scope(code) != SHP_SCOPE_SESSION)
            continue;
        struct machine machine = remote();
        struct diagnosis diagnosis = diagnosis_of(&machine);
        struct shp_error error = {0};
        shp_error_set(&error, code, machine.id, "connect", "as the test says");
        layers_unconnected(&diagnosis, &machine, &error);
        enum layer failed = layer_of_failure(code, SHP_SSH_PHASE_RUNNING);
        assert_in_range(failed, LAYER_CATALOG, LAYER_LINK);
        assert_int_equal(diagnosis.findings[failed].error.code, code);
        assert_true(shp_code_next(code)[0] != 0);
        for (int layer = LAYER_HERDR; layer <= LAYER_RECEIVERS; layer++)
            assert_int_equal(verdict_of(&diagnosis, (enum layer)layer), VERDICT_SKIPPED);
        assert_int_equal(diagnosis_status(&diagnosis), code == SHP_CODE_HELPER_ABSENT ? 1 : 2);
        seen++;
    }
    assert_true(seen > 30);
}

static void a_code_that_says_little_is_placed_by_the_phase(void **state)
{
    (void)state;
    assert_int_equal(layer_of_failure(SHP_CODE_LINK_LOST, SHP_SSH_PHASE_NAME), LAYER_DNS);
    assert_int_equal(layer_of_failure(SHP_CODE_LINK_LOST, SHP_SSH_PHASE_TCP), LAYER_TCP);
    assert_int_equal(layer_of_failure(SHP_CODE_LINK_LOST, SHP_SSH_PHASE_KEX), LAYER_HOST_KEY);
    assert_int_equal(layer_of_failure(SHP_CODE_LINK_LOST, SHP_SSH_PHASE_AUTH), LAYER_AUTH);
    assert_int_equal(layer_of_failure(SHP_CODE_LINK_LOST, SHP_SSH_PHASE_CHANNEL), LAYER_SHELL);
    assert_int_equal(layer_of_failure(SHP_CODE_LINK_LOST, SHP_SSH_PHASE_RUNNING), LAYER_LINK);
    assert_int_equal(layer_of_failure(SHP_CODE_LOGIN_DENIED, SHP_SSH_PHASE_CONFIG), LAYER_AUTH);
    assert_int_equal(layer_of_failure(SHP_CODE_AUTH_FAILED, SHP_SSH_PHASE_RUNNING), LAYER_SHELL);
}

static void an_absent_helper_tells_what_an_install_would_meet(void **state)
{
    static const struct {
        bool read_only, unwritable, noexec;
        uint64_t kib, inodes;
        enum layer failed;
        int code;
    } cases[] = {
        {true, true, false, 1000, 1000, LAYER_HOME, SHP_CODE_INSTALL_READ_ONLY},
        {false, true, false, 1000, 1000, LAYER_HOME, SHP_CODE_INSTALL_FAILED},
        {false, false, false, 100, 1000, LAYER_DISK, SHP_CODE_INSTALL_NO_SPACE},
        {false, false, false, 1000, 0, LAYER_DISK, SHP_CODE_INSTALL_NO_SPACE},
        {false, false, true, 1000, 1000, LAYER_NOEXEC, SHP_CODE_INSTALL_NOEXEC},
    };
    struct shp_error error = {0};
    (void)state;
    shp_error_set(&error, SHP_CODE_HELPER_ABSENT, NULL, "start helper", "not installed");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct machine machine = remote();
        struct diagnosis diagnosis = diagnosis_of(&machine);
        machine.seen = (struct shp_bootstrap_seen){.absent = true,
                                                   .absent_bytes = 260000,
                                                   .absent_path = "/h/.pi/agent/shepherdr/bin/x",
                                                   .read_only = cases[i].read_only,
                                                   .unwritable = cases[i].unwritable,
                                                   .noexec = cases[i].noexec,
                                                   .free_kib = cases[i].kib,
                                                   .free_inodes = cases[i].inodes};
        layers_unconnected(&diagnosis, &machine, &error);
        assert_int_equal(verdict_of(&diagnosis, cases[i].failed), VERDICT_FAILED);
        assert_int_equal(diagnosis.findings[cases[i].failed].error.code, cases[i].code);
        assert_int_equal(verdict_of(&diagnosis, LAYER_HELPER), VERDICT_WARNING);
        assert_int_equal(diagnosis_status(&diagnosis), 2);
    }
}

/* ---- facts --------------------------------------------------------------------------------- */

static const char well[] =
    "{\"home\":\"/h\",\"home_exists\":true,\"home_owned\":true,\"home_writable\":true,"
    "\"read_only\":false,\"noexec\":false,\"disk_free_bytes\":99999999999,"
    "\"disk_free_inodes\":1000,\"system\":\"Linux x86_64\",\"build\":\"0123456789abcdef\","
    "\"version\":\"0.1.0\",\"helper\":\"/h/.pi/agent/shepherdr/bin/helper-x\","
    "\"helper_bytes\":260000,\"stale\":0,\"unix_ms\":1,\"herdr\":\"/b/herdr\",\"pi\":\"/b/pi\","
    "\"pi_version\":\"1.6.0\",\"extension_installed\":true,\"extension_pushed\":0,"
    "\"integration\":9,\"sessions_dir\":\"/h/.pi/agent/sessions\",\"sessions_readable\":true,"
    "\"sessions\":4,\"watch\":\"events\",\"calls_per_minute\":0}";

/* facts as above with one member replaced (value NULL: removed). */
static struct diagnosis judged(const struct machine *machine, const char *name, const char *value)
{
    struct diagnosis diagnosis = diagnosis_of(machine);
    cJSON *facts = cJSON_Parse(well);
    assert_non_null(facts);
    if (name)
        cJSON_DeleteItemFromObject(facts, name);
    if (name && value)
        cJSON_AddItemToObject(facts, name, cJSON_Parse(value));
    layers_facts(&diagnosis, machine, facts, 0, 1);
    cJSON_Delete(facts);
    return diagnosis;
}

static void facts_are_judged_by_their_layer(void **state)
{
    static const struct {
        const char *name, *value;
        enum layer layer;
        enum verdict verdict;
        int code;
    } cases[] = {
        {"home_exists", "false", LAYER_HOME, VERDICT_FAILED, SHP_CODE_HOME_MISSING},
        {"home_writable", "false", LAYER_HOME, VERDICT_WARNING, SHP_CODE_INSTALL_FAILED},
        {"disk_free_bytes", "1000", LAYER_DISK, VERDICT_WARNING, SHP_CODE_INSTALL_NO_SPACE},
        {"disk_free_inodes", "0", LAYER_DISK, VERDICT_WARNING, SHP_CODE_INSTALL_NO_SPACE},
        {"noexec", "true", LAYER_NOEXEC, VERDICT_WARNING, SHP_CODE_INSTALL_NOEXEC},
        {"pi", NULL, LAYER_PI, VERDICT_WARNING, SHP_CODE_PI_MISSING},
        {"pi_version", "\"1.1.9\"", LAYER_PI, VERDICT_FAILED, SHP_CODE_PI_TOO_OLD},
        {"pi_version", NULL, LAYER_PI, VERDICT_OK, 0},
        {"integration", NULL, LAYER_PI, VERDICT_WARNING, SHP_CODE_INTEGRATION_MISSING},
        {"sessions_readable", "false", LAYER_SESSIONS, VERDICT_FAILED,
         SHP_CODE_SESSIONS_UNREADABLE},
        {"watch", "\"polling\"", LAYER_WATCHES, VERDICT_WARNING, SHP_CODE_WATCH_POLLING},
        {"disk_free_inodes", NULL, LAYER_DISK, VERDICT_OK, 0},
    };
    struct machine machine = remote();
    struct diagnosis diagnosis = judged(&machine, NULL, NULL);
    (void)state;
    assert_int_equal(diagnosis_status(&diagnosis), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        diagnosis = judged(&machine, cases[i].name, cases[i].value);
        const struct finding *finding = &diagnosis.findings[cases[i].layer];
        if (finding->verdict != cases[i].verdict || finding->error.code != cases[i].code)
            fail_msg("%s: verdict %d, %s", cases[i].name, finding->verdict,
                     shp_code_name(finding->error.code));
    }
}

static void a_clock_counts_only_beyond_what_the_way_may_hide(void **state)
{
    struct machine machine = remote();
    struct diagnosis diagnosis = diagnosis_of(&machine);
    cJSON *facts = cJSON_Parse(well);
    (void)state;
    layers_facts(&diagnosis, &machine, facts, -90000, 100);
    assert_int_equal(diagnosis.findings[LAYER_CLOCK].error.code, SHP_CODE_CLOCK_SKEW);
    assert_non_null(strstr(diagnosis.findings[LAYER_CLOCK].error.cause, "90 s behind"));
    layers_facts(&diagnosis, &machine, facts, 7000, 3000);
    assert_int_equal(verdict_of(&diagnosis, LAYER_CLOCK), VERDICT_OK);
    layers_facts(&diagnosis, &machine, facts, 40, 100);
    assert_string_equal(diagnosis.findings[LAYER_CLOCK].text, "equal within 100 ms");
    cJSON_Delete(facts);
}

static void herdr_is_judged_by_its_version(void **state)
{
    static const struct {
        const char *version;
        enum verdict verdict;
    } cases[] = {{"0.7.9", VERDICT_FAILED},
                 {"0.8.2", VERDICT_WARNING},
                 {"0.9.0", VERDICT_OK},
                 {"1.0.0", VERDICT_OK},
                 {"new", VERDICT_FAILED}};
    struct machine machine = remote();
    struct diagnosis diagnosis = diagnosis_of(&machine);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cJSON *result = cJSON_CreateObject();
        json_add(result, "version", cases[i].version);
        struct herdr_answer answer = {.herdr_code = "", .result = result};
        layers_herdr(&diagnosis, &machine, &answer, NULL);
        assert_int_equal(verdict_of(&diagnosis, LAYER_HERDR), cases[i].verdict);
        cJSON_Delete(result);
    }
    struct shp_error error = {0};
    shp_error_set(&error, SHP_CODE_HERDR_NOT_RUNNING, machine.id, "connect", "no socket");
    struct herdr_answer stopped = {.error = &error, .herdr_code = ""};
    layers_herdr(&diagnosis, &machine, &stopped, "/b/herdr");
    assert_int_equal(diagnosis.findings[LAYER_HERDR].error.code, SHP_CODE_HERDR_NOT_RUNNING);
    layers_herdr(&diagnosis, &machine, &stopped, NULL);
    assert_int_equal(diagnosis.findings[LAYER_HERDR].error.code, SHP_CODE_HERDR_MISSING);
}

static void a_slow_link_and_old_receivers_are_warnings(void **state)
{
    struct machine machine = remote();
    struct diagnosis diagnosis = diagnosis_of(&machine);
    struct shp_error late = {0};
    cJSON *receivers = cJSON_Parse("[{\"protocol_max\":1},{\"protocol_max\":0}]");
    (void)state;
    layers_link(&diagnosis, &machine, NULL, 400, 1000000, 10000);
    assert_string_equal(diagnosis.findings[LAYER_LINK].text, "round trip 0.4 ms, 100.0 MB/s");
    layers_link(&diagnosis, &machine, NULL, 400, 1000, 1000000);
    assert_int_equal(verdict_of(&diagnosis, LAYER_LINK), VERDICT_WARNING);
    shp_error_set(&late, SHP_CODE_TIMEOUT, machine.id, "echo", "late");
    layers_link(&diagnosis, &machine, &late, 400, 131072, 1000000);
    assert_int_equal(verdict_of(&diagnosis, LAYER_LINK), VERDICT_WARNING);
    assert_int_equal(diagnosis.findings[LAYER_LINK].error.code, SHP_CODE_LINK_SLOW);
    layers_receivers(&diagnosis, &machine, NULL, receivers);
    assert_int_equal(diagnosis.findings[LAYER_RECEIVERS].error.code, SHP_CODE_RECEIVER_OUTDATED);
    cJSON_Delete(receivers);
}

/* ---- forms --------------------------------------------------------------------------------- */

static void the_table_is_this(void **state)
{
    struct machine machine = remote();
    struct diagnosis diagnosis = diagnosis_of(&machine);
    struct shp_error error = {0};
    (void)state;
    strcpy(machine.ssh.user, "me");
    strcpy(machine.ssh.hostname, "10.0.0.7");
    strcpy(machine.ssh.transport, "libssh");
    strcpy(machine.ssh.kex, "curve25519-sha256");
    strcpy(machine.ssh.address, "10.0.0.7");
    strcpy(machine.ssh.host_key, "ssh-ed25519 SHA256:abc");
    strcpy(machine.ssh.auth_offered, "publickey");
    strcpy(machine.ssh.agent, "none");
    machine.ssh.keys_tried = 2;
    machine.ssh.port = 22;
    machine.ssh.phase = SHP_SSH_PHASE_AUTH;
    finding_ok(&diagnosis.findings[LAYER_CATALOG], "Herdr session default");
    shp_error_set(&error, SHP_CODE_LOGIN_DENIED, machine.id, "login", "2 keys were refused");
    layers_unconnected(&diagnosis, &machine, &error);
    char *text = printed(&diagnosis, false);
    assert_string_equal(
        text, "box (box, aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa)\n"
              "  ok       catalog       Herdr session default\n"
              "  ok       config        me@10.0.0.7:22, libssh, curve25519-sha256\n"
              "  ok       dns           10.0.0.7\n"
              "  ok       tcp           10.0.0.7 port 22\n"
              "  ok       host_key      ssh-ed25519 SHA256:abc\n"
              "  FAILED   auth          login_denied: 2 keys were refused\n"
              "                         seen: no method succeeded, offered: publickey; 2 keys "
              "tried; agent: none\n"
              "                         next: Load the key with ssh-add, or install it on the "
              "machine.\n"
              "  skipped  shell to receivers: needs auth\n");
    free(text);
    text = printed(&diagnosis, true);
    assert_non_null(strstr(text, "\033[1;31mFAILED \033[0m"));
    free(text);
}

static void json_has_every_layer_of_the_machine(void **state)
{
    struct machine machine = remote();
    struct diagnosis diagnosis = judged(&machine, "integration", NULL);
    (void)state;
    cJSON *json = diagnosis_json(&diagnosis);
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(json, "layers");
    const cJSON *pi = json_find(layers, "layer", "pi");
    assert_string_equal(json_string(json, "status"), "warning");
    assert_string_equal(json_string(pi, "status"), "warning");
    assert_string_equal(json_string(pi, "code"), "integration_missing");
    assert_non_null(json_string(pi, "next"));
    assert_null(json_find(layers, "layer", "dns")); /* not asked about */
    cJSON_Delete(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_of_a_connection_has_a_layer_and_a_next_step),
        cmocka_unit_test(a_code_that_says_little_is_placed_by_the_phase),
        cmocka_unit_test(an_absent_helper_tells_what_an_install_would_meet),
        cmocka_unit_test(facts_are_judged_by_their_layer),
        cmocka_unit_test(a_clock_counts_only_beyond_what_the_way_may_hide),
        cmocka_unit_test(herdr_is_judged_by_its_version),
        cmocka_unit_test(a_slow_link_and_old_receivers_are_warnings),
        cmocka_unit_test(the_table_is_this),
        cmocka_unit_test(json_has_every_layer_of_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
