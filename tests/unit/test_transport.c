/* What one kind of transport promises beyond the conformance suite, and the texts of ssh. */
#include "transport/transport.h"

#include "protocol/messages.h"
#include "transport/transport_openssh_text.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define GUARD_MS 60000

struct seen {
    char output[4096];
    size_t len;
    bool closed;
    struct shp_error error;
    bool exited;
    int64_t exit_status;
    int term_signal;
    char diagnostic[SHP_LIMIT_DIAGNOSTIC_BYTES_MAX + 1];
    bool close_on_read;
};

static void on_read(struct shp_transport *transport, const uint8_t *data, size_t len, void *user)
{
    struct seen *seen = user;

    if (len > sizeof(seen->output) - 1 - seen->len)
        len = sizeof(seen->output) - 1 - seen->len;
    memcpy(seen->output + seen->len, data, len);
    seen->len += len;
    if (seen->close_on_read)
        shp_transport_close(transport);
}

static void on_closed(struct shp_transport *transport, const struct shp_transport_end *end,
                      void *user)
{
    struct seen *seen = user;

    seen->closed = true;
    seen->error = end->error;
    seen->exited = end->exited;
    seen->exit_status = end->exit_status;
    seen->term_signal = end->term_signal;
    snprintf(seen->diagnostic, sizeof(seen->diagnostic), "%s", end->diagnostic);
    shp_transport_free(transport);
}

static void on_guard(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("the transport hangs");
}

static void run(struct shp_transport *transport, uv_loop_t *loop, struct seen *seen)
{
    static const struct shp_transport_callbacks callbacks = {.on_read = on_read,
                                                             .on_closed = on_closed};
    uv_timer_t guard;

    uv_timer_init(loop, &guard);
    uv_timer_start(&guard, on_guard, GUARD_MS, 0);
    uv_unref((uv_handle_t *)&guard);
    assert_int_equal(shp_transport_open(transport, &callbacks, seen), 0);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&guard, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
    assert_true(seen->closed);
}

static void run_script(struct seen *seen, const char *script)
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    struct shp_process_options options = {.argv = (char *const *)(uintptr_t)argv};
    struct shp_transport *transport = NULL;
    uv_loop_t loop;

    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(shp_transport_process_new(&transport, &loop, &options), 0);
    run(transport, &loop, seen);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void a_child_gets_three_descriptors_and_no_other(void **state)
{
    struct seen seen = {0};
    int leak = open("/dev/null", O_RDONLY); /* not close-on-exec */

    (void)state;
    assert_true(leak > 2);
    /* ls has the directory itself open besides. */
    run_script(&seen, "exec ls /proc/self/fd");
    assert_string_equal(seen.output, "0\n1\n2\n3\n");
    close(leak);
}

static void a_child_does_not_get_our_pane_or_session(void **state)
{
    struct seen seen = {0};

    (void)state;
    setenv("HERDR_PANE_ID", "p1", 1);
    setenv("PI_CODING_AGENT_DIR", "/x", 1);
    setenv("SHP_TEST_KEPT", "kept", 1);
    run_script(&seen, "echo \"$HERDR_PANE_ID$PI_CODING_AGENT_DIR$SHP_TEST_KEPT\"");
    assert_string_equal(seen.output, "kept\n");
    unsetenv("HERDR_PANE_ID");
    unsetenv("PI_CODING_AGENT_DIR");
    unsetenv("SHP_TEST_KEPT");
}

static void a_variable_of_the_childs_environment_can_be_replaced(void **state)
{
    const char *argv[] = {"/bin/sh", "-c", "echo $SHP_A $SHP_AB $SHP_NEW", NULL};
    const char *sets[] = {"SHP_A=new", "SHP_NEW=fresh"};
    const char *wanted[] = {"new other\n", "old other fresh\n"};

    (void)state;
    setenv("SHP_A", "old", 1);
    setenv("SHP_AB", "other", 1);
    for (int i = 0; i < 2; i++) {
        struct shp_process_options options = {.argv = (char *const *)(uintptr_t)argv,
                                              .set = sets[i]};
        struct shp_transport *transport = NULL;
        struct seen seen = {0};
        uv_loop_t loop;

        assert_int_equal(uv_loop_init(&loop), 0);
        assert_int_equal(shp_transport_process_new(&transport, &loop, &options), 0);
        run(transport, &loop, &seen);
        assert_int_equal(uv_loop_close(&loop), 0);
        assert_string_equal(seen.output, wanted[i]);
    }
    unsetenv("SHP_A");
    unsetenv("SHP_AB");
}

static void a_childs_end_is_told(void **state)
{
    struct seen seen = {0};

    (void)state;
    run_script(&seen, "exit 7");
    assert_true(seen.exited);
    assert_int_equal(seen.exit_status, 7);
    assert_int_equal(seen.error.code, SHP_CODE_LINK_LOST);
    assert_non_null(strstr(seen.error.cause, "7"));

    memset(&seen, 0, sizeof(seen));
    run_script(&seen, "kill -SEGV $$");
    assert_int_equal(seen.term_signal, SIGSEGV);
    assert_int_equal(seen.error.code, SHP_CODE_LINK_LOST);
}

static void standard_error_is_bounded_and_cleaned(void **state)
{
    struct seen seen = {0};

    (void)state;
    run_script(&seen,
               "head -c 100000 /dev/zero | tr \"\\0\" x >&2; printf \"\\033[31mlast\\n\" >&2");
    assert_int_equal(strlen(seen.diagnostic), SHP_LIMIT_DIAGNOSTIC_BYTES_MAX - 1);
    assert_string_equal(seen.diagnostic + strlen(seen.diagnostic) - 11, "xx?[31mlast");
}

static void a_program_that_does_not_exist_is_told_from_the_loop(void **state)
{
    const char *argv[] = {"/nonexistent/program", NULL};
    struct shp_process_options options = {.argv = (char *const *)(uintptr_t)argv};
    struct shp_transport *transport = NULL;
    struct seen seen = {0};
    uv_loop_t loop;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(shp_transport_process_new(&transport, &loop, &options), 0);
    run(transport, &loop, &seen);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(seen.error.code, SHP_CODE_CONNECT_FAILED);
    assert_false(seen.exited);
}

/* The child and its own child hold out against everything but SIGKILL. */
static void a_close_ends_the_whole_process_group(void **state)
{
    struct seen seen = {.close_on_read = true};
    long pids[2];
    char *rest;

    (void)state;
    run_script(&seen, "trap \"\" HUP TERM INT PIPE; sleep 1000 & printf \"%s %s \" $$ $!; "
                      "while :; do wait; done");
    assert_int_equal(seen.error.code, 0);
    assert_int_equal(seen.term_signal, SIGKILL);
    pids[0] = strtol(seen.output, &rest, 10);
    pids[1] = strtol(rest, NULL, 10);
    assert_true(pids[0] > 1 && pids[1] > 1);
    for (int i = 0; i < 2; i++) {
        char path[64];
        char line[256] = "";
        FILE *file;

        /* Gone, or a zombie that init has not taken yet. */
        snprintf(path, sizeof(path), "/proc/%ld/stat", pids[i]);
        for (int tries = 0; tries < 1000; tries++) {
            file = fopen(path, "r");
            if (file == NULL)
                break;
            line[0] = '\0';
            assert_true(fgets(line, sizeof(line), file) != NULL || line[0] == '\0');
            fclose(file);
            if (strstr(line, ") Z") != NULL)
                break;
            usleep(10000);
        }
        assert_true(access(path, F_OK) != 0 || strstr(line, ") Z") != NULL);
    }
}

/* A daemon that the child leaves behind, outside of its group, holds the pipes. */
static void a_grandchild_that_keeps_the_pipes_does_not_hold_the_end(void **state)
{
    struct seen seen = {0};
    long pid;

    (void)state;
    run_script(&seen, "setsid sleep 1000 & echo $!; exit 0");
    assert_true(seen.exited);
    pid = strtol(seen.output, NULL, 10);
    assert_true(pid > 1);
    kill((pid_t)pid, SIGKILL);
}

/* ---- stdio -------------------------------------------------------------------------------- */

/* ---- a loop that is held up ---------------------------------------------------------------- */

#define HELD_UP_US 700000 /* more than any wait for the rest of a child that exited */

static void stop_reading(struct shp_transport *transport, void *user)
{
    (void)user;
    shp_transport_read_stop(transport);
}

static void open_script(struct shp_transport **transport, uv_loop_t *loop, struct seen *seen,
                        const struct shp_transport_callbacks *callbacks, const char *script)
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    struct shp_process_options options = {.argv = (char *const *)(uintptr_t)argv};

    assert_int_equal(uv_loop_init(loop), 0);
    assert_int_equal(shp_transport_process_new(transport, loop, &options), 0);
    assert_int_equal(shp_transport_open(*transport, callbacks, seen), 0);
    /* Until the child's exit was noted, and some turns more for what came with it. */
    siginfo_t info;
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0)
        uv_run(loop, UV_RUN_NOWAIT);
    assert_int_equal(errno, ECHILD);
    for (int turn = 0; turn < 3; turn++)
        uv_run(loop, UV_RUN_NOWAIT);
}

static void output_is_read_after_a_held_up_loop(void **state)
{
    static const struct shp_transport_callbacks callbacks = {
        .on_open = stop_reading, .on_read = on_read, .on_closed = on_closed};
    struct shp_transport *transport = NULL;
    struct seen seen = {0};
    uv_loop_t loop;

    (void)state;
    open_script(&transport, &loop, &seen, &callbacks, "echo said");
    shp_transport_read_start(transport);
    usleep(HELD_UP_US);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(seen.closed);
    assert_string_equal(seen.output, "said\n");
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void standard_error_is_read_after_a_held_up_loop(void **state)
{
    static const struct shp_transport_callbacks callbacks = {.on_read = on_read,
                                                             .on_closed = on_closed};
    struct shp_transport *transport = NULL;
    struct seen seen = {0};
    char dir[] = "/tmp/shp-held-up-XXXXXX";
    char script[512], go[64], gone[64];
    uv_loop_t loop;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(go, sizeof(go), "%s/go", dir);
    snprintf(gone, sizeof(gone), "%s/gone", dir);
    /* Our end of its output goes with the child: its own child has left that before. */
    snprintf(script, sizeof(script),
             "d=%s; (: >$d/here; while [ ! -e $d/go ]; do sleep 0.05; done; echo why >&2; : "
             ">$d/gone) >/dev/null & while [ ! -e $d/here ]; do sleep 0.01; done; rm $d/here; "
             "exit 3",
             dir);
    open_script(&transport, &loop, &seen, &callbacks, script);
    while (seen.closed) { /* held up before its time: that loop tells nothing */
        uv_loop_close(&loop);
        seen = (struct seen){0};
        open_script(&transport, &loop, &seen, &callbacks, script);
    }
    close(open(go, O_WRONLY | O_CREAT, 0600));
    while (access(gone, F_OK) != 0)
        usleep(10000);
    usleep(HELD_UP_US);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(seen.closed);
    assert_int_equal(seen.exit_status, 3);
    assert_string_equal(seen.diagnostic, "why");
    assert_int_equal(uv_loop_close(&loop), 0);
    unlink(go);
    unlink(gone);
    rmdir(dir);
}

static void descriptors_that_cannot_be_polled_are_refused(void **state)
{
    struct shp_transport *transport = NULL;
    int null = open("/dev/null", O_RDWR);
    uv_loop_t loop;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(shp_transport_stdio_new(&transport, &loop, null, null), SHP_ERR_INVALID);
    assert_int_equal(shp_transport_stdio_new(&transport, &loop, -1, null), SHP_ERR_INVALID);
    close(null);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void the_mode_of_a_shared_descriptor_is_restored(void **state)
{
    struct shp_transport *transport = NULL;
    struct seen seen = {.close_on_read = true};
    int in[2];
    int out[2];
    int shared;
    uv_loop_t loop;

    (void)state;
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    shared = dup(in[0]);
    assert_int_equal(write(in[1], "x", 1), 1);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(shp_transport_stdio_new(&transport, &loop, in[0], out[1]), 0);
    run(transport, &loop, &seen);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_string_equal(seen.output, "x");
    assert_int_equal(fcntl(shared, F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(fcntl(in[0], F_GETFD), -1);
    assert_int_equal(errno, EBADF);
    close(shared);
    close(in[1]);
    close(out[0]);
}

/* As in the helper: a stray print after the wire was taken over does not reach the wire. */
static void descriptor_1_is_taken_away_from_the_rest_of_the_process(void **state)
{
    struct seen seen = {0};
    char script[600];

    (void)state;
    snprintf(script, sizeof(script), "exec %s --as-child", program_invocation_name);
    run_script(&seen, script);
    assert_string_equal(seen.output, "wire");
    assert_int_equal(seen.exit_status, 0);
}

static void child_open(struct shp_transport *transport, void *user)
{
    (void)user;
    printf("stray\n");
    fflush(stdout);
    shp_transport_write(transport, (const uint8_t *)"wire", 4);
    shp_transport_close(transport);
}

static int as_child(void)
{
    static const struct shp_transport_callbacks callbacks = {.on_open = child_open,
                                                             .on_closed = on_closed};
    struct shp_transport *transport = NULL;
    struct seen seen = {0};
    uv_loop_t loop;

    uv_loop_init(&loop);
    if (shp_transport_stdio_new(&transport, &loop, 0, 1) != 0)
        return 1;
    shp_transport_open(transport, &callbacks, &seen);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    return seen.closed ? 0 : 1;
}

static void a_socket_path_that_is_missing_or_too_long_is_told(void **state)
{
    struct shp_transport *transport = NULL;
    struct seen seen = {0};
    char path[200];
    uv_loop_t loop;

    (void)state;
    memset(path, 'a', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(shp_transport_unix_new(&transport, &loop, path), SHP_ERR_INVALID);
    assert_int_equal(shp_transport_unix_new(&transport, &loop, ""), SHP_ERR_INVALID);
    assert_int_equal(shp_transport_unix_new(&transport, &loop, "/nonexistent/socket"), 0);
    run(transport, &loop, &seen);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(seen.error.code, SHP_CODE_LINK_LOST);
    assert_string_equal(seen.error.step, "connect");
}

/* ---- texts of ssh ------------------------------------------------------------------------- */

static void the_query_is_parsed_and_bounded(void **state)
{
    static const char text[] = "host box\nuser me\nhostname box.example\nport 2222\n"
                               "proxycommand none\nproxyjump a,b\nidentityfile ~/.ssh/id\n";
    static const char torn[] = "port 99999\nproxycommand none\nhostname\n\n\nuser";
    struct shp_ssh_facts resolved;
    char huge[2000];

    (void)state;
    shp_openssh_parse_query(&resolved, text, sizeof(text) - 1);
    assert_string_equal(resolved.hostname, "box.example");
    assert_string_equal(resolved.user, "me");
    assert_int_equal(resolved.port, 2222);
    assert_true(resolved.proxy[0] != 0);

    memset(huge, 'h', sizeof(huge));
    memcpy(huge, "hostname ", 9);
    shp_openssh_parse_query(&resolved, huge, sizeof(huge));
    assert_int_equal(strlen(resolved.hostname), sizeof(resolved.hostname) - 1);
    shp_openssh_parse_query(&resolved, torn, sizeof(torn) - 1);
    assert_int_equal(resolved.port, 0);
    assert_int_equal(resolved.proxy[0], 0);
    assert_string_equal(resolved.hostname, "");
    shp_openssh_parse_query(&resolved, NULL, 0);
    assert_string_equal(resolved.user, "");
}

static void refused_options_are_recognised(void **state)
{
    (void)state;
    assert_int_equal(
        shp_openssh_refused_option("command-line: line 0: Bad configuration option: stdinnull"), 2);
    assert_int_equal(shp_openssh_refused_option(
                         "command-line: line 0: Bad configuration option: remotecommand "),
                     1);
    assert_int_equal(shp_openssh_refused_option(
                         "/home/u/.ssh/config: line 3: Bad configuration option: stdinnull"),
                     0);
    assert_int_equal(
        shp_openssh_refused_option("command-line: line 0: Bad configuration option: stdinnullx"),
        0);
    assert_true(shp_openssh_lacks_query("unknown option -- G usage: ssh [-1246Aa]"));
    assert_false(shp_openssh_lacks_query("Bad configuration option: g"));
}

static void the_target_stands_behind_the_options(void **state)
{
    const char *argv[SHP_OPENSSH_ARGV_MAX];
    size_t count = 0;

    (void)state;
    shp_openssh_argv(argv, "ssh", "box", "do it", SHP_OPENSSH_OPTIONAL_ALL);
    while (argv[count] != NULL)
        count++;
    assert_true(count < SHP_OPENSSH_ARGV_MAX);
    assert_string_equal(argv[count - 3], "--");
    assert_string_equal(argv[count - 2], "box");
    assert_string_equal(argv[count - 1], "do it");
    shp_openssh_argv(argv, "ssh", "box", NULL, 0);
    assert_string_equal(argv[1], "-G");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(a_child_gets_three_descriptors_and_no_other),
        cmocka_unit_test(a_child_does_not_get_our_pane_or_session),
        cmocka_unit_test(a_variable_of_the_childs_environment_can_be_replaced),
        cmocka_unit_test(a_childs_end_is_told),
        cmocka_unit_test(standard_error_is_bounded_and_cleaned),
        cmocka_unit_test(a_program_that_does_not_exist_is_told_from_the_loop),
        cmocka_unit_test(a_close_ends_the_whole_process_group),
        cmocka_unit_test(a_grandchild_that_keeps_the_pipes_does_not_hold_the_end),
        cmocka_unit_test(output_is_read_after_a_held_up_loop),
        cmocka_unit_test(standard_error_is_read_after_a_held_up_loop),
        cmocka_unit_test(descriptors_that_cannot_be_polled_are_refused),
        cmocka_unit_test(the_mode_of_a_shared_descriptor_is_restored),
        cmocka_unit_test(descriptor_1_is_taken_away_from_the_rest_of_the_process),
        cmocka_unit_test(a_socket_path_that_is_missing_or_too_long_is_told),
        cmocka_unit_test(the_query_is_parsed_and_bounded),
        cmocka_unit_test(refused_options_are_recognised),
        cmocka_unit_test(the_target_stands_behind_the_options),
    };

    if (argc > 1 && strcmp(argv[1], "--as-child") == 0)
        return as_child();
    return cmocka_run_group_tests(cases, NULL, NULL);
}
