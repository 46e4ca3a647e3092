/* The suite over libssh and over the chooser, to a throw-away sshd, and the ends of both. */
#include "transport/ssh.h"
#include "tests/support/ssh_attempt.h"
#include "tests/support/sshd_fixture.h"
#include "tests/support/temp_root.h"
#include "transport/transport_libssh.h"
#include "transport_suite.h"

#include "protocol/messages.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define SKIPPED 77

static struct sshd_fixture sshd;

struct context {
    enum shp_ssh_kind kind;
    const char *target;
};

static struct shp_transport *make(void *user, uv_loop_t *loop, enum suite_peer peer)
{
    const struct context *context = user;
    struct shp_transport *transport = NULL;
    struct shp_ssh_options options = {
        .target = context->target,
        .command = suite_peer_script(peer),
        .ssh_path = sshd.ssh,
        .kind = context->kind,
    };

    return shp_transport_ssh_new(&transport, loop, &options) == 0 ? transport : NULL;
}

/* ---- attempts ----------------------------------------------------------------------------- */

static void run_with(struct ssh_attempt *attempt, const struct shp_ssh_options *options)
{
    ssh_attempt_run(attempt, shp_transport_ssh_new, options);
}

static void run_as(struct ssh_attempt *attempt, enum shp_ssh_kind kind, const char *target,
                   const char *command)
{
    struct shp_ssh_options options = {
        .target = target, .command = command, .ssh_path = sshd.ssh, .kind = kind};

    run_with(attempt, &options);
}

static void expect(const char *target, int code, const char *transport)
{
    static const enum shp_ssh_kind kinds[] = {SHP_SSH_LIBSSH, SHP_SSH_AUTO};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct ssh_attempt attempt;

        run_as(&attempt, kinds[i], target, "echo hello");
        ssh_attempt_failed(&attempt, target, code);
        if (kinds[i] == SHP_SSH_AUTO)
            assert_string_equal(attempt.facts.transport, transport);
    }
}

static void a_command_runs_and_the_facts_are_known(void **state)
{
    struct ssh_attempt attempt;

    (void)state;
    run_as(&attempt, SHP_SSH_AUTO, "good", "echo hello");
    assert_string_equal(attempt.error.cause, "");
    assert_int_equal(attempt.error.code, 0);
    assert_true(attempt.opened);
    assert_string_equal(attempt.heard, "hello\n");
    assert_string_equal(attempt.facts.transport, "libssh");
    assert_string_equal(attempt.facts.reason, "libssh honours all of the configuration");
    assert_string_equal(attempt.facts.hostname, "127.0.0.1");
    assert_string_equal(attempt.facts.address, "127.0.0.1");
    assert_int_equal(attempt.facts.port, sshd.port);
    assert_string_equal(attempt.facts.auth_used, "publickey");
    assert_non_null(strstr(attempt.facts.host_key, "ssh-ed25519 SHA256:"));
    assert_true(attempt.facts.kex[0] != '\0');
}

static void an_unknown_host_key_is_final(void **state)
{
    (void)state;
    expect("unknown", SHP_CODE_HOST_KEY_UNKNOWN, "libssh");
}

static void a_changed_host_key_is_final(void **state)
{
    (void)state;
    expect("changed", SHP_CODE_HOST_KEY_CHANGED, "libssh");
}

static void a_refused_key_is_tried_by_openssh_as_well(void **state)
{
    (void)state;
    expect("denied", SHP_CODE_LOGIN_DENIED, "openssh");
}

static void a_refused_connection_is_final(void **state)
{
    (void)state;
    expect("refused", SHP_CODE_CONNECT_REFUSED, "libssh");
}

static void a_name_without_address_is_final(void **state)
{
    (void)state;
    expect("unresolved", SHP_CODE_NAME_UNRESOLVED, "libssh");
}

static void a_failing_command_is_a_lost_link_with_its_text(void **state)
{
    struct ssh_attempt attempt;

    (void)state;
    run_as(&attempt, SHP_SSH_LIBSSH, "good", "echo why >&2; exit 3");
    assert_int_equal(attempt.error.code, SHP_CODE_LINK_LOST);
    assert_non_null(strstr(attempt.error.cause, "exit status 3"));
    assert_non_null(strstr(attempt.error.cause, "why"));
    assert_string_equal(attempt.diagnostic, "why");
}

static void a_hostile_configuration_does_not_disturb(void **state)
{
    struct ssh_attempt attempt;

    (void)state;
    run_as(&attempt, SHP_SSH_AUTO, "hostile", "echo hello; test -t 0 && echo terminal");
    assert_string_equal(attempt.heard, "hello\n");
    assert_string_equal(attempt.facts.transport, "libssh");
}

static void openssh_is_used_when_the_settings_say_so(void **state)
{
    struct ssh_attempt attempt;

    (void)state;
    run_as(&attempt, SHP_SSH_OPENSSH, "good", "echo hello");
    assert_int_equal(attempt.error.code, 0);
    assert_string_equal(attempt.heard, "hello\n");
    assert_string_equal(attempt.facts.transport, "openssh");
    assert_string_equal(attempt.facts.reason, "the settings say openssh");
}

static void post_quantum_is_required_of_whoever_has_it(void **state)
{
    struct ssh_attempt attempt;
    struct shp_ssh_options options = {
        .target = "good", .command = "echo hello", .ssh_path = sshd.ssh, .post_quantum = true};

    (void)state;
    run_with(&attempt, &options);
    assert_int_equal(attempt.error.code, 0);
    assert_string_equal(attempt.heard, "hello\n");
    if (!shp_libssh_knows_kex("sntrup761x25519-sha512@openssh.com") &&
        !shp_libssh_knows_kex("mlkem768x25519-sha256"))
        assert_string_equal(attempt.facts.transport, "openssh");
    assert_true(attempt.facts.reason[0] != '\0');
}

/* ---- clients ------------------------------------------------------------------------------ */

static void make_client(char *path, size_t size, const char *name, const char *body)
{
    FILE *script;

    snprintf(path, size, "%s/%s", sshd.directory, name);
    script = fopen(path, "w");
    assert_non_null(script);
    fputs(body, script);
    fclose(script);
    assert_int_equal(chmod(path, 0700), 0);
}

static void what_libssh_lacks_is_left_to_openssh(void **state)
{
    static const char *const options[] = {
        "-oProxyCommand='nc 127.0.0.1 %p'",
        "-oCertificateFile=/nonexistent",
        "-oKexAlgorithms=sntrup761x25519-sha512@openssh.com",
        "-oCanonicalizeHostname=yes",
        "-oStrictHostKeyChecking=no",
        "-oSetEnv=MODE=1",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        struct ssh_attempt attempt;
        struct shp_ssh_options with = {.target = "good", .command = "echo hello"};
        char path[200];
        char body[600];

        snprintf(body, sizeof(body), "#!/bin/sh\nexec %s %s \"$@\"\n", sshd.ssh, options[i]);
        make_client(path, sizeof(path), "with-option", body);
        with.ssh_path = path;
        run_with(&attempt, &with);
        if (strcmp(attempt.facts.transport, "openssh") != 0)
            fail_msg("%s: %s", options[i], attempt.facts.reason);
        assert_non_null(strstr(attempt.facts.reason, "the configuration"));
    }
}

static void libssh_alone_refuses_what_would_lead_elsewhere(void **state)
{
    struct ssh_attempt attempt;
    struct shp_ssh_options with = {
        .target = "good", .command = "echo hello", .kind = SHP_SSH_LIBSSH};
    char path[200];
    char body[600];

    (void)state;
    snprintf(body, sizeof(body), "#!/bin/sh\nexec %s -oProxyJump=elsewhere \"$@\"\n", sshd.ssh);
    make_client(path, sizeof(path), "with-jump", body);
    with.ssh_path = path;
    run_with(&attempt, &with);
    assert_int_equal(attempt.error.code, SHP_CODE_SSH_CONFIG_FAILED);
    assert_non_null(strstr(attempt.error.cause, "ProxyJump"));
}

static void a_broken_configuration_is_named(void **state)
{
    struct ssh_attempt attempt;
    struct shp_ssh_options with = {.target = "good", .command = "echo hello"};
    char path[200];

    (void)state;
    make_client(path, sizeof(path), "bad-ssh", "#!/bin/sh\nexec ssh -oNoSuchThing=1 \"$@\"\n");
    with.ssh_path = path;
    run_with(&attempt, &with);
    assert_int_equal(attempt.error.code, SHP_CODE_SSH_CONFIG_FAILED);
    assert_non_null(strstr(attempt.error.cause, "nosuchthing"));
}

/* libssh closes its socket by itself then; under a leak checker nothing of the session stays. */
static void t11_a_failed_key_exchange_leaves_nothing(void **state)
{
    struct ssh_attempt attempt;
    struct shp_ssh_options with = {
        .target = "good", .command = "echo hello", .kind = SHP_SSH_LIBSSH};
    char path[200];
    char body[600];
    size_t before;

    (void)state;
    /* The server's key is another. */
    snprintf(body, sizeof(body), "#!/bin/sh\nexec %s -oHostKeyAlgorithms=ssh-rsa \"$@\"\n",
             sshd.ssh);
    make_client(path, sizeof(path), "with-algorithm", body);
    with.ssh_path = path;
    before = temp_entries("/proc/self/fd");
    for (int i = 0; i < 3; i++) {
        run_with(&attempt, &with);
        assert_int_equal(attempt.error.code, SHP_CODE_KEX_UNSUPPORTED);
    }
    assert_int_equal(temp_entries("/proc/self/fd"), before);
}

/* ---- known hosts -------------------------------------------------------------------------- */

static void run_shell(const char *format, const char *a, const char *b)
{
    char command[1024];

    snprintf(command, sizeof(command), format, a, b);
    assert_int_equal(system(command), 0);
}

/* A client that knows hosts by these files of the fixture's directory. */
static void run_knowing(struct ssh_attempt *attempt, const char *files, const char *more)
{
    struct shp_ssh_options with = {
        .target = "good", .command = "echo hello", .kind = SHP_SSH_LIBSSH};
    char path[200];
    char body[900];

    snprintf(body, sizeof(body),
             "#!/bin/sh\ncd '%s' && exec ssh -F none -oHostName=127.0.0.1 -oPort=%d "
             "-oIdentitiesOnly=yes -oIdentityFile=%s/user -oGlobalKnownHostsFile=none "
             "-oUserKnownHostsFile=\"%s\" %s \"$@\"\n",
             sshd.directory, sshd.port, sshd.directory, files, more);
    make_client(path, sizeof(path), "knowing-ssh", body);
    with.ssh_path = path;
    run_with(attempt, &with);
}

static void hosts_are_known_by_any_of_several_files(void **state)
{
    struct ssh_attempt attempt;
    char files[600];

    (void)state;
    snprintf(files, sizeof(files), "%s/known_empty %s/none %s/known_changed %s/known_good",
             sshd.directory, sshd.directory, sshd.directory, sshd.directory);
    run_knowing(&attempt, files, "");
    assert_string_equal(attempt.error.cause, "");
    assert_string_equal(attempt.heard, "hello\n");
    snprintf(files, sizeof(files), "%s/known_empty %s/known_empty %s/known_changed", sshd.directory,
             sshd.directory, sshd.directory);
    run_knowing(&attempt, files, "");
    assert_int_equal(attempt.error.code, SHP_CODE_HOST_KEY_CHANGED);
}

static void a_key_without_port_counts_for_every_port(void **state)
{
    struct ssh_attempt attempt;
    char files[200];

    (void)state;
    run_shell("cd '%s' && sed 's/^[^ ]*/127.0.0.1/' known_good > known_plain%s", sshd.directory,
              "");
    snprintf(files, sizeof(files), "%s/known_plain", sshd.directory);
    run_knowing(&attempt, files, "");
    assert_string_equal(attempt.error.cause, "");
    assert_string_equal(attempt.heard, "hello\n");
}

static void an_alias_is_looked_up_without_port(void **state)
{
    struct ssh_attempt attempt;
    char files[200];

    (void)state;
    run_shell("cd '%s' && sed 's/^[^ ]*/the-alias/' known_good > known_alias%s", sshd.directory,
              "");
    snprintf(files, sizeof(files), "%s/known_alias", sshd.directory);
    run_knowing(&attempt, files, "-oHostKeyAlias=the-alias");
    assert_string_equal(attempt.error.cause, "");
    run_knowing(&attempt, files, "-oHostKeyAlias=another");
    assert_int_equal(attempt.error.code, SHP_CODE_HOST_KEY_UNKNOWN);
}

/* ---- agents ------------------------------------------------------------------------------- */

static void a_silent_agent_is_passed_over(void **state)
{
    struct ssh_attempt attempt;
    struct shp_ssh_options with = {
        .target = "good", .command = "echo hello", .ssh_path = sshd.ssh, .kind = SHP_SSH_LIBSSH};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    snprintf(address.sun_path, sizeof(address.sun_path), "%.80s/silent", sshd.directory);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 4), 0);
    with.ssh_auth_sock = address.sun_path;
    run_with(&attempt, &with);
    close(fd);
    assert_int_equal(attempt.error.code, 0);
    assert_string_equal(attempt.heard, "hello\n");
    assert_non_null(strstr(attempt.facts.agent, "does not answer"));
}

/* Seven keys that the server does not take, and then, alone named by the configuration, the good. */
static void only_the_named_key_of_an_agent_is_offered(void **state)
{
    struct ssh_attempt attempt;
    struct shp_ssh_options with = {
        .target = "good", .command = "echo hello", .kind = SHP_SSH_LIBSSH};
    char sock[200];
    char path[200];
    char body[600];

    (void)state;
    snprintf(sock, sizeof(sock), "%s/agent", sshd.directory);
    run_shell(
        "cd '%s' && eval $(ssh-agent -a '%s') >/dev/null && echo $SSH_AGENT_PID > agent.pid && "
        "for i in 1 2 3 4 5 6 7; do ssh-keygen -q -t ed25519 -N '' -f wrong$i && "
        "ssh-add -q wrong$i; done && cp user named && ssh-add -q named && rm named && "
        "cp user.pub named.pub",
        sshd.directory, sock);
    snprintf(body, sizeof(body),
             "#!/bin/sh\nexec ssh -F none -oHostName=127.0.0.1 -oPort=%d -oIdentitiesOnly=yes "
             "-oIdentityFile=%s/named -oUserKnownHostsFile=%s/known_good \"$@\"\n",
             sshd.port, sshd.directory, sshd.directory);
    make_client(path, sizeof(path), "named-ssh", body);
    with.ssh_path = path;
    with.ssh_auth_sock = sock;
    run_with(&attempt, &with);
    run_shell("kill $(cat '%s/agent.pid')%s", sshd.directory, "");
    assert_string_equal(attempt.error.cause, "");
    assert_string_equal(attempt.heard, "hello\n");
    assert_string_equal(attempt.facts.agent, "8 keys");
}

static void an_encrypted_key_without_agent_is_named(void **state)
{
    struct ssh_attempt attempt;
    struct shp_ssh_options with = {.target = "good", .command = "echo hello"};
    char path[200];
    char body[600];

    (void)state;
    run_shell("cd '%s' && cp user locked && cp user.pub locked.pub && "
              "ssh-keygen -q -p -P '' -N secret -f locked >/dev/null%s",
              sshd.directory, "");
    snprintf(body, sizeof(body),
             "#!/bin/sh\nexec ssh -F none -oHostName=127.0.0.1 -oPort=%d -oIdentitiesOnly=yes "
             "-oIdentityAgent=none -oIdentityFile=%s/locked -oUserKnownHostsFile=%s/known_good "
             "\"$@\"\n",
             sshd.port, sshd.directory, sshd.directory);
    make_client(path, sizeof(path), "locked-ssh", body);
    with.ssh_path = path;
    run_with(&attempt, &with);
    assert_int_equal(attempt.error.code, SHP_CODE_KEY_LOCKED);
    assert_non_null(strstr(attempt.error.cause, "/locked"));
    assert_string_equal(attempt.facts.transport, "libssh");
}

/* ---- a user who stops reading ------------------------------------------------------------- */

struct sleeper {
    struct shp_transport *transport;
    uv_timer_t timer;
    size_t heard;
    bool closed;
    struct shp_error error;
};

static void on_woken(uv_timer_t *timer)
{
    shp_transport_read_start(((struct sleeper *)timer->data)->transport);
}

/* Nothing is read until the command has long ended. */
static void on_sleeper_open(struct shp_transport *transport, void *user)
{
    struct sleeper *sleeper = user;

    shp_transport_read_stop(transport);
    uv_timer_start(&sleeper->timer, on_woken, 1500, 0);
}

static void on_sleeper_read(struct shp_transport *transport, const uint8_t *data, size_t len,
                            void *user)
{
    (void)transport;
    (void)data;
    ((struct sleeper *)user)->heard += len;
}

static void on_sleeper_closed(struct shp_transport *transport, const struct shp_transport_end *end,
                              void *user)
{
    struct sleeper *sleeper = user;

    sleeper->closed = true;
    sleeper->error = end->error;
    uv_close((uv_handle_t *)&sleeper->timer, NULL);
    shp_transport_free(transport);
}

static void what_was_said_before_the_end_waits_for_its_reader(void **state)
{
    static const struct shp_transport_callbacks callbacks = {
        .on_open = on_sleeper_open, .on_read = on_sleeper_read, .on_closed = on_sleeper_closed};
    struct shp_ssh_options with = {.target = "good",
                                   .command = "head -c 100000 /dev/zero",
                                   .ssh_path = sshd.ssh,
                                   .kind = SHP_SSH_LIBSSH};
    struct sleeper sleeper = {0};
    uv_loop_t loop;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    uv_timer_init(&loop, &sleeper.timer);
    sleeper.timer.data = &sleeper;
    assert_int_equal(shp_transport_ssh_new(&sleeper.transport, &loop, &with), 0);
    assert_int_equal(shp_transport_open(sleeper.transport, &callbacks, &sleeper), 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(sleeper.closed);
    assert_int_equal(sleeper.heard, 100000);
    assert_int_equal(sleeper.error.code, 0);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* ---- stuck -------------------------------------------------------------------------------- */

static void on_stuck_open(struct shp_transport *transport, void *user)
{
    (void)transport;
    (void)user;
    fail_msg("a login that hangs has succeeded");
}

static void close_it(uv_timer_t *timer)
{
    shp_transport_close(timer->data);
    uv_close((uv_handle_t *)timer, NULL);
}

/* A file that nobody writes, in place of a public key: libssh waits in it for ever. */
static void a_stuck_thread_is_left_behind(void **state)
{
    static const struct shp_transport_callbacks callbacks = {.on_open = on_stuck_open,
                                                             .on_closed = ssh_attempt_on_closed};
    struct ssh_attempt attempt = {0};
    struct shp_transport *transport = NULL;
    struct shp_ssh_options with = {
        .target = "good", .command = "echo hello", .kind = SHP_SSH_LIBSSH};
    uv_timer_t timer;
    char path[200];
    char body[600];
    char fifo[200];
    int fd;

    (void)state;
    run_shell("cd '%s' && cp user stuck && mkfifo stuck.pub%s", sshd.directory, "");
    snprintf(body, sizeof(body),
             "#!/bin/sh\nexec ssh -F none -oHostName=127.0.0.1 -oPort=%d -oIdentitiesOnly=yes "
             "-oIdentityFile=%s/stuck -oUserKnownHostsFile=%s/known_good \"$@\"\n",
             sshd.port, sshd.directory, sshd.directory);
    make_client(path, sizeof(path), "stuck-ssh", body);
    with.ssh_path = path;
    assert_int_equal(uv_loop_init(&attempt.loop), 0);
    assert_int_equal(shp_transport_ssh_new(&transport, &attempt.loop, &with), 0);
    assert_int_equal(shp_transport_open(transport, &callbacks, &attempt), 0);
    uv_timer_init(&attempt.loop, &timer);
    timer.data = transport;
    uv_timer_start(&timer, close_it, 1500, 0);
    uv_run(&attempt.loop, UV_RUN_DEFAULT);
    assert_true(attempt.closed);
    assert_int_equal(attempt.error.code, 0);
    assert_int_equal(uv_loop_close(&attempt.loop), 0);
    /* Now the thread goes on, without anybody to tell, and ends. */
    snprintf(fifo, sizeof(fifo), "%s/stuck.pub", sshd.directory);
    for (fd = -1; fd < 0; usleep(1000))
        fd = open(fifo, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    close(fd);
}

/* ---- no ssh ------------------------------------------------------------------------------- */

static void without_ssh_the_target_speaks_for_itself(void **state)
{
    struct ssh_attempt attempt;
    char target[200];
    struct shp_ssh_options with = {
        .target = target, .command = "echo hello", .ssh_path = "/nonexistent/ssh"};
    char *home = getenv("HOME");

    (void)state;
    home = home != NULL ? strdup(home) : NULL;
    run_shell("cd '%s' && mkdir -p near/.ssh && cp user near/.ssh/id_ed25519 && "
              "cp known_good near/.ssh/known_hosts%s",
              sshd.directory, "");
    snprintf(target, sizeof(target), "%s/near", sshd.directory);
    setenv("HOME", target, 1);
    snprintf(target, sizeof(target), "ssh://127.0.0.1:%d", sshd.port);
    run_with(&attempt, &with);
    if (home != NULL)
        setenv("HOME", home, 1);
    free(home);
    assert_string_equal(attempt.error.cause, "");
    assert_string_equal(attempt.heard, "hello\n");
    assert_non_null(strstr(attempt.facts.reason, "there is no ssh program"));
}

static void bad_targets_are_refused(void **state)
{
    (void)state;
    ssh_attempt_bad_targets(shp_transport_ssh_new);
}

int main(void)
{
    const struct CMUnitTest ends[] = {
        cmocka_unit_test(a_command_runs_and_the_facts_are_known),
        cmocka_unit_test(an_unknown_host_key_is_final),
        cmocka_unit_test(a_changed_host_key_is_final),
        cmocka_unit_test(a_refused_key_is_tried_by_openssh_as_well),
        cmocka_unit_test(a_refused_connection_is_final),
        cmocka_unit_test(a_name_without_address_is_final),
        cmocka_unit_test(a_failing_command_is_a_lost_link_with_its_text),
        cmocka_unit_test(a_hostile_configuration_does_not_disturb),
        cmocka_unit_test(openssh_is_used_when_the_settings_say_so),
        cmocka_unit_test(post_quantum_is_required_of_whoever_has_it),
        cmocka_unit_test(what_libssh_lacks_is_left_to_openssh),
        cmocka_unit_test(libssh_alone_refuses_what_would_lead_elsewhere),
        cmocka_unit_test(a_broken_configuration_is_named),
        cmocka_unit_test(t11_a_failed_key_exchange_leaves_nothing),
        cmocka_unit_test(hosts_are_known_by_any_of_several_files),
        cmocka_unit_test(a_key_without_port_counts_for_every_port),
        cmocka_unit_test(an_alias_is_looked_up_without_port),
        cmocka_unit_test(what_was_said_before_the_end_waits_for_its_reader),
        cmocka_unit_test(a_stuck_thread_is_left_behind),
        cmocka_unit_test(a_silent_agent_is_passed_over),
        cmocka_unit_test(only_the_named_key_of_an_agent_is_offered),
        cmocka_unit_test(an_encrypted_key_without_agent_is_named),
        cmocka_unit_test(without_ssh_the_target_speaks_for_itself),
        cmocka_unit_test(bad_targets_are_refused),
    };
    struct context libssh = {.kind = SHP_SSH_LIBSSH, .target = "good"};
    struct context openssh = {.kind = SHP_SSH_OPENSSH, .target = "good"};
    struct suite_kind kind = {
        .name = "libssh",
        .make = make,
        .context = &libssh,
        .vanish_code = SHP_CODE_LINK_LOST,
        .children_of_others = true,
    };
    int failed;

    if (!shp_libssh_available()) {
        fprintf(stderr, "skipped: built without libssh\n");
        return SKIPPED;
    }
    if (sshd_fixture_start(&sshd) != 0)
        return SKIPPED;
    failed = cmocka_run_group_tests(ends, NULL, NULL) + suite_run(&kind);
    kind.name = "chosen openssh";
    kind.context = &openssh;
    failed += suite_run(&kind);
    sshd_fixture_stop(&sshd);
    return failed;
}
