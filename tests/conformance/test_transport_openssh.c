/* The suite over ssh to a throw-away sshd, and the ends that only ssh has. */
#include "transport/ssh.h"
#include "tests/support/ssh_attempt.h"
#include "tests/support/sshd_fixture.h"
#include "transport_suite.h"

#include "protocol/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SKIPPED 77

static struct sshd_fixture sshd;

static struct shp_transport *make(void *context, uv_loop_t *loop, enum suite_peer peer)
{
    struct shp_transport *transport = NULL;
    struct shp_ssh_options options = {
        .target = context,
        .command = suite_peer_script(peer),
        .ssh_path = sshd.ssh,
    };

    return shp_transport_openssh_new(&transport, loop, &options) == 0 ? transport : NULL;
}

/* ---- ends --------------------------------------------------------------------------------- */

static void run(struct ssh_attempt *attempt, const char *target, const char *command,
                const char *ssh)
{
    struct shp_ssh_options options = {.target = target, .command = command, .ssh_path = ssh};

    ssh_attempt_run(attempt, shp_transport_openssh_new, &options);
}

static void expect(const char *target, int code)
{
    struct ssh_attempt attempt;

    run(&attempt, target, "echo hello", sshd.ssh);
    ssh_attempt_failed(&attempt, target, code);
}

static void an_orderly_command_has_no_error(void **state)
{
    struct ssh_attempt attempt;

    (void)state;
    run(&attempt, "good", "echo hello", sshd.ssh);
    assert_int_equal(attempt.error.code, 0);
    assert_string_equal(attempt.heard, "hello\n");
    assert_string_equal(attempt.facts.hostname, "127.0.0.1");
    assert_int_equal(attempt.facts.port, sshd.port);
    assert_int_equal(attempt.facts.proxy[0], 0);
    assert_int_equal(attempt.facts.phase, SHP_SSH_PHASE_RUNNING);
    assert_string_equal(attempt.facts.address, "127.0.0.1");
    assert_string_equal(attempt.facts.auth_offered, "publickey");
    assert_string_equal(attempt.facts.auth_used, "publickey");
    assert_int_equal(attempt.facts.keys_tried, 1);
    assert_true(attempt.facts.kex[0] != 0);
    assert_non_null(strstr(attempt.facts.host_key, "ssh-ed25519 SHA256:"));
    assert_string_equal(attempt.diagnostic, "");
}

static void an_unknown_host_key_is_named(void **state)
{
    (void)state;
    expect("unknown", SHP_CODE_HOST_KEY_UNKNOWN);
}

static void a_changed_host_key_is_named(void **state)
{
    (void)state;
    expect("changed", SHP_CODE_HOST_KEY_CHANGED);
}

static void a_refused_key_is_named(void **state)
{
    (void)state;
    expect("denied", SHP_CODE_LOGIN_DENIED);
}

static void a_refused_connection_is_named(void **state)
{
    (void)state;
    expect("refused", SHP_CODE_CONNECT_REFUSED);
}

static void a_name_without_address_is_named(void **state)
{
    (void)state;
    expect("unresolved", SHP_CODE_NAME_UNRESOLVED);
}

static void a_missing_client_is_named(void **state)
{
    struct ssh_attempt attempt;

    (void)state;
    run(&attempt, "good", "echo hello", "/nonexistent/ssh");
    assert_int_equal(attempt.error.code, SHP_CODE_SSH_MISSING);
}

static void a_hostile_configuration_does_not_disturb(void **state)
{
    struct ssh_attempt attempt;
    char control[200];

    (void)state;
    run(&attempt, "hostile", "echo hello; test -t 0 && echo terminal", sshd.ssh);
    assert_string_equal(attempt.heard, "hello\n");
    snprintf(control, sizeof(control), "%s/control", sshd.directory);
    assert_int_not_equal(access(control, F_OK), 0);
}

static void a_failing_command_is_a_lost_link_with_its_text(void **state)
{
    struct ssh_attempt attempt;

    (void)state;
    run(&attempt, "good", "echo why >&2; exit 3", sshd.ssh);
    assert_int_equal(attempt.error.code, SHP_CODE_LINK_LOST);
    assert_non_null(strstr(attempt.error.cause, "exit status 3"));
    assert_non_null(strstr(attempt.error.cause, "why"));
    assert_string_equal(attempt.diagnostic, "why");
}

/* A client that refuses options as OpenSSH before 8.7 and 7.6 did. */
static void an_old_client_is_asked_for_less(void **state)
{
    struct ssh_attempt attempt;
    char path[200];
    FILE *script;

    (void)state;
    snprintf(path, sizeof(path), "%s/old-ssh", sshd.directory);
    script = fopen(path, "w");
    assert_non_null(script);
    fprintf(script,
            "#!/bin/sh\nfor word in \"$@\"; do case $word in *StdinNull*|*ForkAfter*)\n"
            "word=${word#-o}; echo \"command-line: line 0: Bad configuration option: "
            "$(echo ${word%%%%=*} | tr A-Z a-z)\" >&2; exit 255;; esac; done\nexec %s \"$@\"\n",
            sshd.ssh);
    fclose(script);
    chmod(path, 0700);
    run(&attempt, "good", "echo hello", path);
    assert_int_equal(attempt.error.code, 0);
    assert_string_equal(attempt.heard, "hello\n");
}

static void a_broken_configuration_is_named(void **state)
{
    struct ssh_attempt attempt;
    char path[200];
    FILE *script;

    (void)state;
    snprintf(path, sizeof(path), "%s/bad-ssh", sshd.directory);
    script = fopen(path, "w");
    assert_non_null(script);
    fprintf(script, "#!/bin/sh\nexec ssh -oNoSuchThing=1 \"$@\"\n");
    fclose(script);
    chmod(path, 0700);
    run(&attempt, "good", "echo hello", path);
    assert_int_equal(attempt.error.code, SHP_CODE_SSH_CONFIG_FAILED);
    assert_non_null(strstr(attempt.error.cause, "nosuchthing"));
}

static void bad_targets_are_refused(void **state)
{
    (void)state;
    ssh_attempt_bad_targets(shp_transport_openssh_new);
}

int main(void)
{
    const struct CMUnitTest ends[] = {
        cmocka_unit_test(an_orderly_command_has_no_error),
        cmocka_unit_test(an_unknown_host_key_is_named),
        cmocka_unit_test(a_changed_host_key_is_named),
        cmocka_unit_test(a_refused_key_is_named),
        cmocka_unit_test(a_refused_connection_is_named),
        cmocka_unit_test(a_name_without_address_is_named),
        cmocka_unit_test(a_missing_client_is_named),
        cmocka_unit_test(a_hostile_configuration_does_not_disturb),
        cmocka_unit_test(a_failing_command_is_a_lost_link_with_its_text),
        cmocka_unit_test(an_old_client_is_asked_for_less),
        cmocka_unit_test(a_broken_configuration_is_named),
        cmocka_unit_test(bad_targets_are_refused),
    };
    char target[] = "good";
    struct suite_kind kind = {
        .name = "openssh",
        .make = make,
        .context = target,
        .vanish_code = SHP_CODE_LINK_LOST,
        .children_of_others = true,
    };
    int failed;

    if (sshd_fixture_start(&sshd) != 0)
        return SKIPPED;
    failed = cmocka_run_group_tests(ends, NULL, NULL) + suite_run(&kind);
    sshd_fixture_stop(&sshd);
    return failed;
}
