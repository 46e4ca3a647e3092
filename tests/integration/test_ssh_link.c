/*
 * The whole way to a machine: ssh to a throw-away sshd, bootstrap, the built helper, the encrypted
 * link. What reaches the channel besides, and what is left when it breaks.
 */
#include "installer/bootstrap.h"
#include "protocol/messages.h"
#include "shp_build_id.h"
#include "tests/support/sshd_fixture.h"
#include "transport/ssh.h"
#include "transport/link.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SKIPPED 77
#define GUARD_MS 60000
#define TOGETHER 8

static struct sshd_fixture sshd;
static struct shp_artifacts *artifacts;

static const char hello[] = "{\"versions\":[1,1],\"role\":\"controller\",\"build\":\"" SHP_BUILD_ID
                            "\",\"installation\":\"00112233445566778899aabbccddeeff\","
                            "\"pi_session_id\":\"test\"}";

struct connection {
    struct shp_link *link;
    struct shp_bootstrap_seen seen;
    bool established;
    bool closed;
    struct shp_error error;
    int answers;
    int answer_code;
    int answer_outcome;
    long helper_pid;
};

struct world {
    uv_loop_t loop;
    uv_timer_t guard;
    uv_timer_t tick;
};

static void on_guard(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("the link hangs");
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

static void begin(struct world *world)
{
    assert_int_equal(uv_loop_init(&world->loop), 0);
    uv_timer_init(&world->loop, &world->guard);
    uv_timer_init(&world->loop, &world->tick);
    uv_timer_start(&world->guard, on_guard, GUARD_MS, 0);
    uv_timer_start(&world->tick, on_tick, 1, 10);
}

#define RUN_UNTIL(world, condition)                                                                \
    do {                                                                                           \
        while (!(condition))                                                                       \
            uv_run(&(world)->loop, UV_RUN_ONCE);                                                   \
    } while (0)

static void end(struct world *world)
{
    uv_close((uv_handle_t *)&world->guard, NULL);
    uv_close((uv_handle_t *)&world->tick, NULL);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&world->loop), 0);
}

static void on_established(struct shp_link *link, const char *peer_hello, void *user)
{
    struct connection *connection = user;
    const char *pid = strstr(peer_hello, "\"pid\":");

    (void)link;
    connection->established = true;
    assert_non_null(pid);
    connection->helper_pid = strtol(pid + 6, NULL, 10);
    assert_true(connection->helper_pid > 1);
}

static void on_closed(struct shp_link *link, const struct shp_error *error,
                      const struct shp_transport_end *finish, void *user)
{
    struct connection *connection = user;

    (void)link;
    (void)finish;
    connection->closed = true;
    connection->error = *error;
}

static void on_answer(struct shp_link *link, const struct shp_link_answer *answer, void *user)
{
    struct connection *connection = user;

    (void)link;
    connection->answers++;
    connection->answer_code = answer->error != NULL ? answer->error->code : 0;
    connection->answer_outcome = answer->error != NULL ? (int)answer->error->outcome : -1;
}

static void ask(struct connection *connection, uint16_t message, const char *json)
{
    assert_int_equal(shp_link_request(connection->link, message, NULL, 30000, json, NULL, 0,
                                      on_answer, connection, NULL),
                     0);
}

/* before: shell words in front of the command line, as a start-up file would run them. */
static void open_connection(struct world *world, struct connection *connection, const char *before)
{
    struct shp_prelude prelude;
    struct shp_link_options options = {
        .session = {.role = SHP_ROLE_INITIATOR,
                    .suite = SHP_SUITE_NOISE,
                    .hello_json = hello,
                    .hello_len = sizeof(hello) - 1},
        .prelude = &prelude,
        .callbacks = {.on_established = on_established, .on_closed = on_closed},
        .user = connection,
    };
    struct shp_bootstrap_options bootstrap = {
        .artifacts = artifacts,
        .marker = options.session.marker,
        .build_id = SHP_BUILD_ID,
        .seen = &connection->seen,
    };
    struct shp_ssh_options ssh = {.target = "good", .ssh_path = sshd.ssh};
    char *command = NULL;
    char *line;

    memset(connection, 0, sizeof(*connection));
    shp_link_random_marker(options.session.marker);
    assert_int_equal(shp_bootstrap_new(&prelude, &command, &bootstrap), 0);
    line = malloc(strlen(before) + strlen(command) + 1);
    assert_non_null(line);
    sprintf(line, "%s%s", before, command);
    ssh.command = line;
    assert_int_equal(shp_transport_openssh_new(&options.transport, &world->loop, &ssh), 0);
    assert_int_equal(shp_link_open(&connection->link, &world->loop, &options), 0);
    free(line);
    free(command);
}

static void expect_established(struct world *world, struct connection *connection)
{
    RUN_UNTIL(world, connection->established || connection->closed);
    if (!connection->established)
        fail_msg("%s: %s", shp_code_name(connection->error.code), connection->error.cause);
}

/* The helper notices by itself; nobody ends it. */
static void expect_helper_gone(struct world *world, const struct connection *connection)
{
    RUN_UNTIL(world, kill((pid_t)connection->helper_pid, 0) != 0 && errno == ESRCH);
}

static void remove_home(void)
{
    char command[256];

    snprintf(command, sizeof(command), "rm -rf '%s/.pi'", sshd.home);
    assert_int_equal(system(command), 0);
}

static void the_first_connection_installs_the_second_does_not(void **state)
{
    struct connection connection;
    struct world world;

    (void)state;
    remove_home();
    begin(&world);
    for (int i = 0; i < 2; i++) {
        open_connection(&world, &connection, "");
        expect_established(&world, &connection);
        assert_int_equal(connection.seen.uploaded, i == 0);
        ask(&connection, SHP_MSG_IDENTITY_GET, "{}");
        RUN_UNTIL(&world, connection.answers == 1);
        assert_int_equal(connection.answer_code, 0);
        shp_link_close(connection.link, 0, "done");
        RUN_UNTIL(&world, connection.closed);
        assert_int_equal(connection.error.code, 0);
        expect_helper_gone(&world, &connection);
    }
    end(&world);
}

static void noise_of_a_start_up_file_is_skipped(void **state)
{
    struct connection connection;
    struct world world;

    (void)state;
    begin(&world);
    open_connection(&world, &connection, "echo Welcome; head -c 100000 /dev/urandom; ");
    expect_established(&world, &connection);
    ask(&connection, SHP_MSG_IDENTITY_GET, "{}");
    RUN_UNTIL(&world, connection.answers == 1);
    assert_int_equal(connection.answer_code, 0);
    shp_link_close(connection.link, 0, "done");
    RUN_UNTIL(&world, connection.closed);
    end(&world);
}

static void a_program_that_prints_later_ends_the_link(void **state)
{
    struct connection connection;
    struct world world;

    (void)state;
    begin(&world);
    open_connection(&world, &connection,
                    "(while [ ! -e $HOME/print ]; do sleep 0.05; done; echo you have mail) & ");
    expect_established(&world, &connection);
    {
        char path[200];
        FILE *file;

        snprintf(path, sizeof(path), "%s/print", sshd.home);
        file = fopen(path, "w");
        assert_non_null(file);
        fclose(file);
        RUN_UNTIL(&world, connection.closed);
        unlink(path);
    }
    assert_true(connection.error.code == SHP_CODE_PROTOCOL_ERROR ||
                connection.error.code == SHP_CODE_AUTH_FAILED);
    expect_helper_gone(&world, &connection);
    end(&world);
}

/* ssh of ours that runs for this fixture; 0: none. */
static pid_t find_ssh(void)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    pid_t found = 0;

    assert_non_null(dir);
    while (found == 0 && (entry = readdir(dir)) != NULL) {
        char path[300];
        char line[400] = {0};
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%s/cmdline", entry->d_name);
        file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fread(line, 1, sizeof(line) - 1, file) > 8 && strcmp(line, "ssh") == 0 &&
            strcmp(line + 4, "-F") == 0 &&
            strncmp(line + 7, sshd.directory, strlen(sshd.directory)) == 0)
            found = (pid_t)strtol(entry->d_name, NULL, 10);
        fclose(file);
    }
    closedir(dir);
    return found;
}

static void a_killed_ssh_fails_what_was_asked_and_leaves_nothing(void **state)
{
    struct connection connection;
    struct world world;

    (void)state;
    begin(&world);
    open_connection(&world, &connection, "");
    expect_established(&world, &connection);
    ask(&connection, SHP_MSG_RECEIVER_WAIT, "{\"terminal_id\":\"none\"}");
    for (int i = 0; i < 5; i++)
        uv_run(&world.loop, UV_RUN_ONCE);
    {
        pid_t ssh = find_ssh();

        assert_true(ssh > 1);
        assert_int_equal(kill(ssh, SIGKILL), 0);
    }
    RUN_UNTIL(&world, connection.closed);
    assert_int_equal(connection.answers, 1);
    assert_int_equal(connection.answer_code, SHP_CODE_LINK_LOST);
    assert_int_equal(connection.answer_outcome, SHP_OUTCOME_UNKNOWN);
    assert_int_equal(connection.error.code, SHP_CODE_LINK_LOST);
    expect_helper_gone(&world, &connection);
    assert_int_equal(find_ssh(), 0);
    end(&world);
}

static void a_killed_helper_ends_the_link(void **state)
{
    struct connection connection;
    struct world world;

    (void)state;
    begin(&world);
    open_connection(&world, &connection, "");
    expect_established(&world, &connection);
    assert_int_equal(kill((pid_t)connection.helper_pid, SIGKILL), 0);
    RUN_UNTIL(&world, connection.closed);
    assert_int_equal(connection.error.code, SHP_CODE_LINK_LOST);
    assert_int_equal(find_ssh(), 0);
    end(&world);
}

static void several_controllers_install_at_once(void **state)
{
    struct connection connections[TOGETHER];
    struct world world;
    char path[256];
    DIR *dir;
    int files = 0;

    (void)state;
    remove_home();
    begin(&world);
    for (int i = 0; i < TOGETHER; i++)
        open_connection(&world, &connections[i], "");
    for (int i = 0; i < TOGETHER; i++)
        expect_established(&world, &connections[i]);
    for (int i = 0; i < TOGETHER; i++)
        shp_link_close(connections[i].link, 0, "done");
    for (int i = 0; i < TOGETHER; i++)
        RUN_UNTIL(&world, connections[i].closed);
    end(&world);
    snprintf(path, sizeof(path), "%s/.pi/agent/shepherdr/bin", sshd.home);
    dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        files += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    assert_int_equal(files, 1);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(the_first_connection_installs_the_second_does_not),
        cmocka_unit_test(noise_of_a_start_up_file_is_skipped),
        cmocka_unit_test(a_program_that_prints_later_ends_the_link),
        cmocka_unit_test(a_killed_ssh_fails_what_was_asked_and_leaves_nothing),
        cmocka_unit_test(a_killed_helper_ends_the_link),
        cmocka_unit_test(several_controllers_install_at_once),
    };
    int failed;

    artifacts = shp_artifacts_load(SHP_TEST_BIN_DIR);
    if (artifacts == NULL || artifacts->len == 0) {
        fprintf(stderr, "skipped: no helper in %s\n", SHP_TEST_BIN_DIR);
        shp_artifacts_free(artifacts);
        return SKIPPED;
    }
    if (sshd_fixture_start(&sshd) != 0) {
        shp_artifacts_free(artifacts);
        return SKIPPED;
    }
    failed = cmocka_run_group_tests(cases, NULL, NULL);
    sshd_fixture_stop(&sshd);
    shp_artifacts_free(artifacts);
    return failed;
}
