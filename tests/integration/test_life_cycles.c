/*
 * R7 and R12: links that come and go many times, with a real ssh and sshd and each transport. The
 * short form is part of the check; SHP_SOAK=1 runs the numbers of the requirements. SHP_SEED
 * repeats a run of R7.
 */
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "controller/clock.h"
#include "controller/fleet/fleet.h"
#include "protocol/messages.h"
#include "tests/support/clock_shift.h"
#include "tests/support/life_rig.h"
#include "tests/support/processes.h"
#include "tests/support/temp_root.h"

#define LOGINS_MAX 4096
/* What an allocator keeps for later is no leak; one lost link would be far more. */
#define GROWTH_BYTES_MAX (256 * 1024)
#define KILLS_MAX 3

static struct sshd_fixture sshd;
static struct life life;
static bool soak;

static void life_begin(const char *transport, size_t len)
{
    life_open(&life, SHP_TEST_BIN_DIR, &sshd, transport, len, clock_shift_wait);
}

static struct machine *machine(size_t i)
{
    return life.machines[i].machine;
}

/* ---- R7: up and down ----------------------------------------------------------------------- */

struct logins {
    uint64_t at_ms[LOGINS_MAX];
    size_t len;
};
static struct logins logins[LIFE_MACHINES_MAX];

static uint64_t boot_ms(void)
{
    struct clock_times now;
    clock_read(&now);
    return now.boot_ms;
}

static void on_accept(void *user)
{
    struct logins *all = user;
    assert_true(all->len < LOGINS_MAX);
    all->at_ms[all->len++] = boot_ms();
}

/* A connection is taken a moment after it was begun: by that much two may seem closer. */
static void expect_logins_bounded(void)
{
    for (size_t i = 0; i < life.len; i++)
        for (size_t at = PACE_LOGINS_MAX; at < logins[i].len; at++)
            assert_true(logins[i].at_ms[at] - logins[i].at_ms[at - PACE_LOGINS_MAX] >
                        PACE_SPAN_MS - 5000);
}

static uint32_t random_next(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

/* Whatever it is: a client of ours, a session of the server, a helper. */
static void kill_some(uint32_t *seed)
{
    static pid_t pids[PROCESSES_MAX], below[PROCESSES_MAX];
    size_t len = life_sessions(&life, pids), ours = processes_below(getpid(), below);
    for (size_t i = 0; i < ours; i++)
        if (process_is(below[i], "ssh", NULL))
            pids[len++] = below[i];
    for (uint32_t n = 1 + random_next(seed) % KILLS_MAX; n > 0 && len > 0; n--)
        kill(pids[random_next(seed) % len], SIGKILL);
}

static void expect_one_client_each(const char *transport)
{
    size_t most = strcmp(transport, life_openssh) == 0 ? 1 : 0;
    for (size_t i = 0; i < life.len; i++)
        assert_true(life_clients(&life.machines[i]) <= most);
}

static void r7_up_and_down_with_random_kills(void **state)
{
    int cycles = soak ? 200 : 10;
    const char *given = getenv("SHP_SEED");
    uint32_t seed = given ? (uint32_t)strtoul(given, NULL, 0) : (uint32_t)getpid() | 1;
    print_message("           seed %u\n", seed);
    life_begin(*state, soak ? 5 : 3);
    for (size_t i = 0; i < life.len; i++) {
        logins[i].len = 0;
        life.machines[i].relay.on_accept = on_accept;
        life.machines[i].relay.user = &logins[i];
    }
    for (int cycle = 0; cycle < cycles; cycle++) {
        life_connect(&life);
        expect_one_client_each(*state);
        size_t i = random_next(&seed) % life.len;
        kill_some(&seed);
        life_cut(&life, i);
        expect_one_client_each(*state);
    }
    life_connect(&life);
    expect_logins_bounded();
    for (size_t i = 0; i < life.len; i++) {
        struct life_answer answer;
        do { /* the last kills may be told only now */
            life_connect(&life);
            life_ask(&life, i, &answer, 0);
            LIFE_UNTIL(&life, answer.count > 0);
        } while (answer.code == SHP_CODE_LINK_LOST);
        assert_int_equal(answer.code, 0);
    }
    life_close(&life); /* no process is left */
}

static void r7_a_short_success_does_not_reset_the_backoff(void **state)
{
    life_begin(*state, 1);
    life_connect(&life);
    uint32_t expected = PACE_BACKOFF_MIN_MS;
    for (int i = 0; i < 4; i++) {
        life_cut(&life, 0);
        assert_int_equal(machine(0)->pace.backoff_ms, expected);
        expected *= 2;
        LIFE_PASS_UNTIL(&life, life_connected(&life));
    }
    life_steps(&life, MACHINE_STABLE_MS + LIFE_STEP_MS);
    assert_true(life_connected(&life));
    life_cut(&life, 0);
    assert_int_equal(machine(0)->pace.backoff_ms, PACE_BACKOFF_MIN_MS);
    life_close(&life);
}

static void r7_logins_for_calls_are_bounded_too(void **state)
{
    struct life_answer answer;
    life_begin(*state, 1);
    for (int i = 0; i < PACE_LOGINS_MAX; i++) {
        life_ask(&life, 0, &answer, 0);
        LIFE_UNTIL(&life, answer.count > 0);
        assert_int_equal(answer.code, 0);
        life_cut(&life, 0);
    }
    const struct relay *relay = &life.machines[0].relay;
    assert_int_equal(relay->accepted, PACE_LOGINS_MAX);
    life_ask(&life, 0, &answer, 0);
    LIFE_UNTIL(&life, answer.count > 0);
    assert_int_equal(answer.code, SHP_CODE_MACHINE_UNAVAILABLE);
    assert_non_null(strstr(answer.cause, "link_lost: "));
    assert_non_null(
        strstr(answer.cause, "; 6 logins within a minute are enough; the next may begin in "));
    /* A person may, some times more. */
    for (int i = PACE_LOGINS_MAX; i < PACE_LOGINS_ASKED_MAX; i++) {
        machine_reconnect(machine(0));
        LIFE_UNTIL(&life, machine(0)->state == MACHINE_CONNECTED);
        life_cut(&life, 0);
    }
    machine_reconnect(machine(0));
    life_turn(&life);
    assert_null(machine(0)->link);
    assert_int_equal(relay->accepted, PACE_LOGINS_ASKED_MAX);
    /* A slot that is near is waited for. */
    uint64_t now_ms = boot_ms();
    clock_shift_wait(pace_free_at_ms(&machine(0)->pace, now_ms, false) - now_ms - 2000);
    life_ask(&life, 0, &answer, 0);
    life_turn(&life);
    assert_int_equal(answer.count, 0);
    LIFE_PASS_UNTIL(&life, machine(0)->link);
    LIFE_UNTIL(&life, answer.count > 0);
    assert_int_equal(answer.code, 0);
    life_close(&life);
}

/* ---- R12: nothing is kept ------------------------------------------------------------------ */

static size_t allocated(void)
{
#ifdef __SANITIZE_ADDRESS__
    return 0; /* its own allocator; it finds leaks itself */
#else
    return mallinfo2().uordblks;
#endif
}

static void reconnect(struct machine *at)
{
    uint32_t before = at->generation;
    machine_reconnect(at);
    LIFE_UNTIL(&life, at->generation == before + 1 && at->state == MACHINE_CONNECTED);
}

static void expect_flat(struct machine *at, int cycles, uint64_t pause_ms)
{
    size_t descriptors = 0, bytes = 0;
    for (int i = 0; i < cycles + 3; i++) {
        if (i == 3) { /* what is made once is there */
            descriptors = temp_entries("/proc/self/fd");
            bytes = allocated();
        }
        life.wait(pause_ms);
        life_turn(&life);
        reconnect(at);
        life_connect(&life); /* the deadline of the whole begins anew */
    }
    LIFE_UNTIL(&life, temp_entries("/proc/self/fd") <= descriptors);
    if (allocated() > bytes + GROWTH_BYTES_MAX)
        fail_msg("%zu bytes before, %zu after %d cycles", bytes, allocated(), cycles);
}

static void r12_connections_leave_descriptors_and_memory_flat(void **state)
{
    life_begin(*state, 1);
    life_connect(&life);
    expect_flat(machine(0), soak ? 300 : 6, PACE_SPAN_MS / PACE_LOGINS_MAX);
    if (*state == life_openssh)
        expect_flat(fleet_local(life.rig.app->fleet), soak ? 1000 : 50, 0);
    life_close(&life);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        LIFE_EACH(r7_up_and_down_with_random_kills),
        LIFE_EACH(r7_a_short_success_does_not_reset_the_backoff),
        LIFE_EACH(r7_logins_for_calls_are_bounded_too),
        LIFE_EACH(r12_connections_leave_descriptors_and_memory_flat),
    };
    const char *form = getenv("SHP_SOAK");
    soak = form && strcmp(form, "1") == 0;
    return LIFE_RUN(tests, &sshd, argc, argv);
}
