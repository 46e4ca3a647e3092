#include "transport_suite.h"

#include "protocol/messages.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

/* Longer than any bound of a transport together; reaching it means a hang. */
#define GUARD_MS 60000
#define LARGE_BYTES (6u * 1024 * 1024)

static const struct suite_kind *kind;

struct user {
    uv_loop_t loop;
    uv_timer_t guard;
    uv_timer_t timer;
    uv_timer_t tick;
    struct shp_transport *transport;
    int opened;
    int closed;
    int writables;
    bool freed_in_closed;
    struct shp_transport_end end;
    size_t received;
    uint8_t *content; /* of what was received, when wanted */
    size_t content_size;
    size_t to_send; /* bytes of the pattern to send in all */
    size_t sent;
    size_t close_at; /* close in on_read once that much came; 0: never */
    bool close_in_open;
    bool close_in_writable;
    bool pause_often;
    bool paused;
    uint64_t random;
};

const char *suite_peer_script(enum suite_peer peer)
{
    switch (peer) {
    case SUITE_ECHO:
        return "exec cat";
    case SUITE_TALKER:
        return "head -c 300000 /dev/zero | tr \"\\0\" w";
    case SUITE_DEAF:
        return "exec sleep 1000";
    case SUITE_VANISH:
        return "printf x; kill -9 $$";
    case SUITE_FLOOD:
        return "exec yes shepherd";
    case SUITE_PEERS:
        break;
    }
    return "exit 9";
}

int suite_count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    if (dir == NULL)
        return -1;
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

static uint8_t pattern(size_t at)
{
    uint64_t x = at * 0x9e3779b97f4a7c15u;

    return (uint8_t)(x >> 56);
}

static uint64_t next_random(struct user *user)
{
    user->random = user->random * 6364136223846793005u + 1442695040888963407u;
    return user->random >> 33;
}

static void send_more(struct user *user)
{
    uint8_t chunk[40000];

    while (user->sent < user->to_send) {
        size_t len = user->to_send - user->sent;
        size_t taken;

        if (len > sizeof(chunk))
            len = sizeof(chunk);
        for (size_t i = 0; i < len; i++)
            chunk[i] = pattern(user->sent + i);
        taken = shp_transport_write(user->transport, chunk, len);
        assert_true(taken <= len);
        user->sent += taken;
        if (taken < len)
            return;
    }
}

static void on_open(struct shp_transport *transport, void *context)
{
    struct user *user = context;

    user->opened++;
    assert_int_equal(user->closed, 0);
    if (user->close_in_open) {
        shp_transport_close(transport);
        assert_int_equal(shp_transport_write(transport, (const uint8_t *)"x", 1), 0);
        return;
    }
    send_more(user);
}

static void resume(uv_timer_t *timer)
{
    struct user *user = timer->data;

    user->paused = false;
    if (user->closed == 0)
        shp_transport_read_start(user->transport);
}

static void on_read(struct shp_transport *transport, const uint8_t *data, size_t len, void *context)
{
    struct user *user = context;

    assert_int_equal(user->opened, 1);
    assert_int_equal(user->closed, 0);
    assert_true(len > 0);
    assert_false(user->paused);
    if (user->content != NULL) {
        assert_true(user->received + len <= user->content_size);
        memcpy(user->content + user->received, data, len);
    }
    user->received += len;
    if (user->close_at > 0 && user->received >= user->close_at) {
        shp_transport_close(transport);
        shp_transport_close(transport);
    } else if (user->pause_often && next_random(user) % 8 == 0) {
        user->paused = true;
        shp_transport_read_stop(transport);
        uv_timer_start(&user->timer, resume, next_random(user) % 3, 0);
    }
}

static void on_writable(struct shp_transport *transport, void *context)
{
    struct user *user = context;

    user->writables++;
    assert_int_equal(user->closed, 0);
    if (user->close_in_writable)
        shp_transport_close(transport);
    else
        send_more(user);
}

static void on_closed(struct shp_transport *transport, const struct shp_transport_end *end,
                      void *context)
{
    struct user *user = context;

    user->closed++;
    user->end = *end;
    assert_non_null(end->diagnostic);
    user->end.diagnostic = NULL;
    user->freed_in_closed = true;
    shp_transport_free(transport);
    uv_stop(&user->loop);
}

static void on_guard(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("the transport hangs");
}

static const struct shp_transport_callbacks callbacks = {
    .on_open = on_open,
    .on_read = on_read,
    .on_writable = on_writable,
    .on_closed = on_closed,
};

static void begin(struct user *user, enum suite_peer peer)
{
    memset(user, 0, sizeof(*user));
    user->random = 7;
    assert_int_equal(uv_loop_init(&user->loop), 0);
    uv_timer_init(&user->loop, &user->guard);
    uv_timer_init(&user->loop, &user->timer);
    uv_timer_init(&user->loop, &user->tick);
    user->timer.data = user;
    uv_timer_start(&user->guard, on_guard, GUARD_MS, 0);
    uv_unref((uv_handle_t *)&user->guard);
    user->transport = kind->make(kind->context, &user->loop, peer);
    assert_non_null(user->transport);
}

static void start(struct user *user)
{
    assert_int_equal(shp_transport_open(user->transport, &callbacks, user), 0);
    assert_int_equal(user->opened, 0);
    assert_int_equal(shp_transport_open(user->transport, &callbacks, user), SHP_ERR_STATE);
}

/* One on_closed, no handle, no child. */
static void finish(struct user *user)
{
    if (kind->unmake != NULL)
        kind->unmake(kind->context);
    uv_close((uv_handle_t *)&user->guard, NULL);
    uv_close((uv_handle_t *)&user->timer, NULL);
    uv_close((uv_handle_t *)&user->tick, NULL);
    uv_run(&user->loop, UV_RUN_DEFAULT);
    assert_int_equal(user->closed, 1);
    assert_int_equal(uv_loop_close(&user->loop), 0);
    free(user->content);
}

static void run(struct user *user)
{
    start(user);
    uv_run(&user->loop, UV_RUN_DEFAULT);
    finish(user);
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

/*
 * Runs the loop until the condition holds; the guard fails the case when it never does. The tick
 * makes the loop return although nothing else happens.
 */
#define RUN_UNTIL(user, condition)                                                                 \
    do {                                                                                           \
        uv_timer_start(&(user)->tick, on_tick, 1, 5);                                              \
        while (!(condition))                                                                       \
            uv_run(&(user)->loop, UV_RUN_ONCE);                                                    \
        uv_timer_stop(&(user)->tick);                                                              \
    } while (0)

static void spin(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* Lets the loop turn for a while; nothing is measured by it. */
static void turn_for(struct user *user, uint64_t ms)
{
    bool over = false;
    uv_timer_t timer;

    uv_timer_init(&user->loop, &timer);
    timer.data = &over;
    uv_timer_start(&timer, spin, ms, 0);
    RUN_UNTIL(user, over);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&user->loop, UV_RUN_NOWAIT);
}

static void opens_and_echoes(void **state)
{
    struct user user;

    (void)state;
    begin(&user, SUITE_ECHO);
    user.content_size = 100;
    user.content = calloc(1, user.content_size);
    user.to_send = 100;
    user.close_at = 100;
    run(&user);
    assert_int_equal(user.opened, 1);
    assert_int_equal(user.end.error.code, 0);
    assert_int_equal(user.received, 100);
}

static void delivers_all_before_the_peers_end(void **state)
{
    struct user user;

    (void)state;
    begin(&user, SUITE_TALKER);
    user.content_size = SUITE_WORDS_BYTES;
    user.content = calloc(1, user.content_size);
    user.pause_often = true;
    start(&user);
    uv_run(&user.loop, UV_RUN_DEFAULT);
    assert_int_equal(user.received, SUITE_WORDS_BYTES);
    for (size_t i = 0; i < SUITE_WORDS_BYTES; i++)
        assert_int_equal(user.content[i], 'w');
    assert_int_equal(user.end.error.code, 0);
    finish(&user);
}

static void passes_a_large_transfer_under_pressure(void **state)
{
    struct user user;

    (void)state;
    begin(&user, SUITE_ECHO);
    user.content_size = LARGE_BYTES;
    user.content = malloc(user.content_size);
    user.to_send = LARGE_BYTES;
    user.close_at = LARGE_BYTES;
    user.pause_often = true;
    start(&user);
    uv_run(&user.loop, UV_RUN_DEFAULT);
    assert_int_equal(user.received, LARGE_BYTES);
    assert_true(user.writables > 0);
    for (size_t i = 0; i < LARGE_BYTES; i++) {
        if (user.content[i] != pattern(i))
            fail_msg("byte %zu differs", i);
    }
    finish(&user);
}

static void ends_when_the_peer_vanishes(void **state)
{
    struct user user;

    (void)state;
    begin(&user, SUITE_VANISH);
    user.to_send = LARGE_BYTES;
    run(&user);
    assert_int_equal(user.received, 1);
    if (user.end.error.code != 0) /* a broken write may be noticed first */
        assert_int_equal(user.end.error.code, SHP_CODE_LINK_LOST);
}

static void names_the_end_of_a_peer_that_vanishes(void **state)
{
    struct user user;

    (void)state;
    begin(&user, SUITE_VANISH);
    run(&user);
    assert_int_equal(user.received, 1);
    assert_int_equal(user.end.error.code, kind->vanish_code);
}

static void closes_within_on_open(void **state)
{
    struct user user;

    (void)state;
    begin(&user, SUITE_ECHO);
    user.close_in_open = true;
    run(&user);
    assert_int_equal(user.opened, 1);
    assert_int_equal(user.received, 0);
    assert_int_equal(user.end.error.code, 0);
}

static void closes_within_on_read(void **state)
{
    struct user user;

    (void)state;
    begin(&user, SUITE_FLOOD);
    user.close_at = 1;
    run(&user);
    assert_true(user.received > 0);
    assert_int_equal(user.end.error.code, 0);
}

static void closes_within_on_writable(void **state)
{
    struct user user;

    (void)state;
    begin(&user, SUITE_ECHO);
    user.to_send = LARGE_BYTES;
    user.close_in_writable = true;
    run(&user);
    assert_int_equal(user.writables, 1);
    assert_int_equal(user.end.error.code, 0);
}

static void closes_before_it_is_open(void **state)
{
    struct user user;

    (void)state;
    begin(&user, SUITE_ECHO);
    start(&user);
    shp_transport_close(user.transport);
    assert_int_equal(user.closed, 0);
    uv_run(&user.loop, UV_RUN_DEFAULT);
    finish(&user);
    assert_int_equal(user.opened, 0);
    assert_int_equal(user.end.error.code, 0);
}

static void closes_while_a_deaf_peer_does_not_read(void **state)
{
    struct user user;
    size_t before;

    (void)state;
    begin(&user, SUITE_DEAF);
    user.to_send = LARGE_BYTES;
    start(&user);
    RUN_UNTIL(&user, user.opened);
    /* What lies between takes its share first: pipes, and the window of a channel. */
    do {
        before = user.sent;
        turn_for(&user, 100);
    } while (user.sent != before);
    assert_true(before < LARGE_BYTES);
    shp_transport_close(user.transport);
    assert_int_equal(user.closed, 0);
    uv_run(&user.loop, UV_RUN_DEFAULT);
    finish(&user);
    assert_int_equal(user.sent, before);
    assert_int_equal(user.end.error.code, 0);
}

static void read_stop_holds_the_peer_back(void **state)
{
    struct user user;
    size_t stopped_at;

    (void)state;
    begin(&user, SUITE_FLOOD);
    start(&user);
    RUN_UNTIL(&user, user.received > 0);
    shp_transport_read_stop(user.transport);
    shp_transport_read_stop(user.transport);
    stopped_at = user.received;
    turn_for(&user, 100);
    assert_int_equal(user.received, stopped_at);
    shp_transport_read_start(user.transport);
    shp_transport_read_start(user.transport);
    RUN_UNTIL(&user, user.received > stopped_at + 500000);
    shp_transport_close(user.transport);
    stopped_at = user.received;
    uv_run(&user.loop, UV_RUN_DEFAULT);
    assert_int_equal(user.received, stopped_at);
    finish(&user);
}

static void flushes_what_was_taken_before_the_close(void **state)
{
    struct user user;

    (void)state;
    begin(&user, SUITE_ECHO);
    user.to_send = 200000;
    start(&user);
    RUN_UNTIL(&user, user.sent == user.to_send);
    shp_transport_close(user.transport);
    uv_run(&user.loop, UV_RUN_DEFAULT);
    finish(&user);
    assert_int_equal(user.end.error.code, 0);
}

static void is_freed_without_having_been_opened(void **state)
{
    struct user user;

    (void)state;
    begin(&user, SUITE_ECHO);
    shp_transport_free(user.transport);
    user.closed = 1;
    uv_run(&user.loop, UV_RUN_DEFAULT);
    finish(&user);
}

static int descriptors;

static int count_before(void **state)
{
    (void)state;
    descriptors = suite_count_descriptors();
    return 0;
}

static int nothing_is_left(void **state)
{
    (void)state;
    if (suite_count_descriptors() != descriptors) {
        print_error("descriptors: %d before, %d after\n", descriptors, suite_count_descriptors());
        return -1;
    }
    /* WNOWAIT: somebody else's child is not ours to take. */
    siginfo_t info = {0};
    int found = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);

    if (kind->children_of_others ? found == 0 && info.si_pid != 0 : found == 0) {
        print_error("a child is left\n");
        return -1;
    }
    return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, count_before, nothing_is_left)

int suite_run(const struct suite_kind *of)
{
    const struct CMUnitTest cases[] = {
        CASE(opens_and_echoes),
        CASE(delivers_all_before_the_peers_end),
        CASE(passes_a_large_transfer_under_pressure),
        CASE(ends_when_the_peer_vanishes),
        CASE(names_the_end_of_a_peer_that_vanishes),
        CASE(closes_within_on_open),
        CASE(closes_within_on_read),
        CASE(closes_within_on_writable),
        CASE(closes_before_it_is_open),
        CASE(closes_while_a_deaf_peer_does_not_read),
        CASE(read_stop_holds_the_peer_back),
        CASE(flushes_what_was_taken_before_the_close),
        CASE(is_freed_without_having_been_opened),
    };
    uv_loop_t loop;
    int failed;

    /* libuv keeps some descriptors of its own after the first loop. */
    if (uv_loop_init(&loop) == 0)
        uv_loop_close(&loop);
    kind = of;
    failed = cmocka_run_group_tests_name(of->name, cases, NULL, NULL);
    return failed;
}
