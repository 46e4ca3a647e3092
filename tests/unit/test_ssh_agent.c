/* T8, T9: which of several agents answers. All questions run at once on one loop. */
#include "transport/transport_ssh_agent.h"

#include "tests/support/temp_root.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CONNECTIONS_MAX 16

enum kind { ANSWERS, SILENT, HANGS_UP, SLOW };

/* Later than the order counts, and long before the end. */
#define SLOW_MS (SHP_SSH_AGENT_MS + 200)

struct fake;

struct connection {
    struct fake *fake;
    uv_pipe_t pipe;
    uv_timer_t timer;
    uv_write_t write;
    char buffer[64];
};

struct fake {
    enum kind kind;
    uv_pipe_t server;
    char path[128];
    struct connection connections[CONNECTIONS_MAX];
    size_t count;
};

struct world {
    char *root;
    uv_loop_t loop;
    struct fake fakes[4];
    char nothing[128]; /* a path where nobody listens */
};

struct seen {
    int calls;
    int chosen;
    bool silent;
};

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    struct connection *connection = handle->data;

    (void)size;
    *buf = uv_buf_init(connection->buffer, sizeof(connection->buffer));
}

static void on_written(uv_write_t *request, int status)
{
    (void)request;
    (void)status;
}

static void answer(struct connection *connection)
{
    static char none[] = {0, 0, 0, 5, 12, 0, 0, 0, 0};
    uv_buf_t buf = uv_buf_init(none, sizeof(none));

    if (!uv_is_closing((uv_handle_t *)&connection->pipe))
        uv_write(&connection->write, (uv_stream_t *)&connection->pipe, &buf, 1, on_written);
}

static void on_slow(uv_timer_t *timer)
{
    answer(timer->data);
}

static void hang_up(struct connection *connection)
{
    if (!uv_is_closing((uv_handle_t *)&connection->pipe))
        uv_close((uv_handle_t *)&connection->pipe, NULL);
}

static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct connection *connection = stream->data;

    (void)buf;
    if (len < 0 || connection->fake->kind == HANGS_UP)
        hang_up(connection);
    else if (connection->fake->kind == ANSWERS)
        answer(connection);
    else if (connection->fake->kind == SLOW)
        uv_timer_start(&connection->timer, on_slow, SLOW_MS, 0);
}

static void on_connection(uv_stream_t *server, int status)
{
    struct fake *fake = server->data;
    struct connection *connection = &fake->connections[fake->count++];

    assert_int_equal(status, 0);
    assert_true(fake->count <= CONNECTIONS_MAX);
    connection->fake = fake;
    uv_pipe_init(server->loop, &connection->pipe, 0);
    uv_timer_init(server->loop, &connection->timer);
    connection->pipe.data = connection->timer.data = connection;
    assert_int_equal(uv_accept(server, (uv_stream_t *)&connection->pipe), 0);
    uv_read_start((uv_stream_t *)&connection->pipe, on_alloc, on_read);
}

static void begin(struct world *world)
{
    memset(world, 0, sizeof(*world));
    world->root = temp_root_make();
    uv_loop_init(&world->loop);
    for (size_t i = 0; i < sizeof(world->fakes) / sizeof(world->fakes[0]); i++) {
        struct fake *fake = &world->fakes[i];

        fake->kind = (enum kind)i;
        snprintf(fake->path, sizeof(fake->path), "%s/agent%zu", world->root, i);
        uv_pipe_init(&world->loop, &fake->server, 0);
        fake->server.data = fake;
        assert_int_equal(uv_pipe_bind(&fake->server, fake->path), 0);
        assert_int_equal(uv_listen((uv_stream_t *)&fake->server, 16, on_connection), 0);
    }
    snprintf(world->nothing, sizeof(world->nothing), "%s/nothing", world->root);
}

static void close_handle(uv_handle_t *handle, void *user)
{
    (void)user;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void finish(struct world *world)
{
    uv_walk(&world->loop, close_handle, NULL);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&world->loop), 0);
    temp_root_remove(world->root);
}

static void on_done(int chosen, bool silent, void *user)
{
    struct seen *seen = user;

    seen->calls++;
    seen->chosen = chosen;
    seen->silent = silent;
}

static struct shp_ssh_agents *ask(struct world *world, struct seen *seen, const char *first,
                                  const char *second)
{
    const char *paths[] = {first, second};
    struct shp_ssh_agents *agents = NULL;

    memset(seen, 0, sizeof(*seen));
    assert_int_equal(
        shp_ssh_agents_ask(&agents, &world->loop, paths, second != NULL ? 2 : 1, on_done, seen), 0);
    return agents;
}

static void t9_the_first_that_answers_is_taken(void **state)
{
    struct world world;
    struct seen both, stale, hung_up, after_silent, after_slow, only_slow, only_silent, none,
        long_path;
    char too_long[300];
    const char *answers, *silent, *hangs_up, *slow;

    (void)state;
    begin(&world);
    answers = world.fakes[ANSWERS].path;
    silent = world.fakes[SILENT].path;
    hangs_up = world.fakes[HANGS_UP].path;
    slow = world.fakes[SLOW].path;
    memset(too_long, 'x', sizeof(too_long) - 1);
    too_long[0] = '/';
    too_long[sizeof(too_long) - 1] = '\0';

    ask(&world, &both, answers, answers);
    ask(&world, &stale, world.nothing, answers);
    ask(&world, &hung_up, hangs_up, answers);
    ask(&world, &after_silent, silent, answers);
    ask(&world, &after_slow, slow, answers);
    ask(&world, &only_slow, slow, world.nothing);
    ask(&world, &only_silent, silent, NULL);
    ask(&world, &none, world.nothing, hangs_up);
    ask(&world, &long_path, too_long, answers);
    while (both.calls + stale.calls + hung_up.calls + after_silent.calls + after_slow.calls +
               only_slow.calls + only_silent.calls + none.calls + long_path.calls <
           9)
        uv_run(&world.loop, UV_RUN_ONCE);

    assert_int_equal(both.chosen, 0);
    assert_int_equal(stale.chosen, 1);
    assert_int_equal(hung_up.chosen, 1);
    assert_int_equal(after_silent.chosen, 1);
    assert_int_equal(after_slow.chosen, 1);
    assert_int_equal(only_slow.chosen, 0);
    assert_int_equal(long_path.chosen, 1);
    assert_true(only_silent.chosen < 0);
    assert_true(only_silent.silent);
    assert_true(none.chosen < 0);
    assert_false(none.silent);
    finish(&world);
}

static void t8_a_question_that_is_given_up_ends(void **state)
{
    struct world world;
    struct seen seen, at_once;
    struct shp_ssh_agents *agents;

    (void)state;
    begin(&world);
    shp_ssh_agents_cancel(ask(&world, &at_once, world.fakes[ANSWERS].path, NULL));
    agents = ask(&world, &seen, world.fakes[SILENT].path, NULL);
    while (world.fakes[SILENT].count == 0)
        uv_run(&world.loop, UV_RUN_ONCE);
    shp_ssh_agents_cancel(agents);
    while (seen.calls + at_once.calls < 2)
        uv_run(&world.loop, UV_RUN_ONCE);
    assert_true(seen.chosen < 0);
    assert_true(at_once.chosen < 0);
    finish(&world);
    assert_int_equal(seen.calls, 1);
    assert_int_equal(at_once.calls, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t9_the_first_that_answers_is_taken),
        cmocka_unit_test(t8_a_question_that_is_given_up_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
