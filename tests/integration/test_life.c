/*
 * R: what happens to a link in its life, with a real ssh and sshd and each transport: the network
 * swallows, the system sleeps, the peer freezes, dies, restarts or moves, an old reply comes late,
 * a person is needed. Each case ends with a link that works, or with the reason why not.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "controller/clock.h"
#include "controller/fleet/fleet.h"
#include "controller/fleet/wake.h"
#include "protocol/messages.h"
#include "tests/support/clock_shift.h"
#include "tests/support/life_rig.h"
#include "tests/support/processes.h"
#include "tests/support/temp_root.h"

#define SILENCE_MS (SHP_LIMIT_SILENCE_MAX_MS + LIFE_STEP_MS)
#define PROBE_MS (SHP_LIMIT_SILENCE_MAX_MS / 3 + LIFE_STEP_MS)
#define HOUR_MS 3600000

static struct sshd_fixture sshd;
static struct life life;

static void life_begin(const char *transport, size_t len)
{
    life_open(&life, SHP_TEST_BIN_DIR, &sshd, transport, len, clock_shift_wait);
}

static struct machine *machine(size_t i)
{
    return life.machines[i].machine;
}

static struct relay *relay(size_t i)
{
    return &life.machines[i].relay;
}

/* A question gets its answer over the link of now. */
static void expect_works(size_t i)
{
    struct life_answer answer;
    life_ask(&life, i, &answer, 0);
    LIFE_UNTIL(&life, answer.count > 0);
    if (answer.code != 0)
        fail_msg("%s: %s", shp_code_name(answer.code), answer.cause);
    assert_int_equal(answer.count, 1);
}

static void expect_lost_once(const struct life_answer *answer)
{
    assert_int_equal(answer->count, 1);
    assert_true(answer->code == SHP_CODE_LINK_LOST || answer->code == SHP_CODE_SILENCE);
    assert_int_equal(answer->outcome, SHP_OUTCOME_UNKNOWN);
}

/* ---- R1: nothing comes through ------------------------------------------------------------- */

static void r1_a_black_hole_of_10_s_is_survived(void **state)
{
    struct life_answer answer;
    life_begin(*state, 1);
    life_connect(&life);
    relay(0)->hole = true;
    relay_resume(relay(0));
    life_ask(&life, 0, &answer, 0);
    life_steps(&life, 10000);
    assert_int_equal(answer.count, 0);
    assert_int_equal(machine(0)->state, MACHINE_CONNECTED);
    relay(0)->hole = false;
    relay_resume(relay(0));
    LIFE_UNTIL(&life, answer.count > 0);
    assert_int_equal(answer.code, 0);
    assert_int_equal(machine(0)->generation, 1);
    life_close(&life);
}

static void r1_a_black_hole_of_60_s_ends_the_link_and_it_comes_back(void **state)
{
    struct life_answer answer;
    life_begin(*state, 1);
    life_connect(&life);
    relay(0)->hole = true;
    relay_resume(relay(0));
    life_ask(&life, 0, &answer, 0);
    life_steps(&life, SILENCE_MS);
    LIFE_UNTIL(&life, machine(0)->state != MACHINE_CONNECTED && answer.count > 0);
    expect_lost_once(&answer);
    assert_int_equal(machine(0)->last_error.code, SHP_CODE_SILENCE);
    assert_true(machine(0)->last_error_unix_ms > 0);
    life_steps(&life, 60000 - SILENCE_MS);
    relay(0)->hole = false;
    relay_resume(relay(0));
    LIFE_PASS_UNTIL(&life, life_connected(&life));
    assert_int_equal(machine(0)->generation, 2);
    assert_int_equal(answer.count, 1);
    expect_works(0);
    life_close(&life);
}

/* ---- R2: sleep ----------------------------------------------------------------------------- */

static uint64_t slept_ms;

/* A system that slept: its monotonic clock did not go on. */
static void after_sleep(struct clock_times *out)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    out->monotonic_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    out->boot_ms = out->monotonic_ms + slept_ms;
    out->wall_ms = out->boot_ms + 1;
}

static void r2_after_sleep_links_are_proved_and_the_rest_connects_at_once(void **state)
{
    life_begin(*state, 3);
    slept_ms = 0;
    clock_replace(after_sleep);
    wake_look(life.rig.app->fleet->wake);
    life_connect(&life);
    /* 0 is well, 1 waits for long, 2 does not know yet that its peer is gone. */
    for (size_t i = 1; i < 3; i++)
        machine(i)->pace.backoff_ms = PACE_BACKOFF_MAX_MS;
    life_cut(&life, 1);
    uv_update_time(&life.rig.loop);
    assert_true(uv_timer_get_due_in(&machine(1)->retry) > PACE_BACKOFF_MAX_MS / 4);
    relay_abandon(relay(2));
    uint64_t carried = relay(0)->back_bytes;
    unsigned connects = relay(1)->accepted;

    slept_ms = HOUR_MS;
    wake_look(life.rig.app->fleet->wake);
    assert_int_equal(uv_timer_get_due_in(&machine(1)->retry), 0);
    LIFE_UNTIL(&life, machine(1)->state == MACHINE_CONNECTED);
    assert_int_equal(relay(1)->accepted, connects + 1);
    LIFE_UNTIL(&life, relay(0)->back_bytes > carried); /* the answer to the probe: nobody asked */
    assert_int_equal(machine(0)->generation, 1);

    /* No answer to the probe: well before the silence of a link that is not suspected. */
    uint32_t before = machine(2)->generation;
    life_steps(&life, PROBE_MS);
    LIFE_UNTIL(&life, machine(2)->generation == before + 1 && life_connected(&life));
    assert_int_equal(machine(2)->last_error.code, SHP_CODE_SILENCE);
    assert_string_equal(machine(2)->last_error.step, "probe");
    assert_int_equal(machine(0)->generation, 1);
    expect_works(0);
    expect_works(2);
    clock_replace(NULL);
    life_close(&life);
}

/* Everything of ours stands still and goes on: the signal alone tells, no clock jumped. */
static void r2_stopped_and_continued(void **state)
{
    static pid_t pids[PROCESSES_MAX], below[PROCESSES_MAX];
    life_begin(*state, 2);
    life_connect(&life);
    uint64_t carried[] = {relay(0)->back_bytes, relay(1)->back_bytes};
    size_t len = processes_below(getpid(), pids), more = processes_below(sshd.pid, below);
    memcpy(pids + len, below, more * sizeof *pids);
    len += more;
    pid_t self = getpid(), stopper = fork();
    assert_true(stopper >= 0);
    if (stopper == 0) {
        struct timespec pause = {.tv_nsec = 300000000};
        processes_signal(pids, len, SIGSTOP);
        kill(self, SIGSTOP);
        nanosleep(&pause, NULL);
        processes_signal(pids, len, SIGCONT);
        kill(self, SIGCONT);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(stopper, &status, 0), stopper);
    assert_int_equal(status, 0);
    LIFE_UNTIL(&life, relay(0)->back_bytes > carried[0] && relay(1)->back_bytes > carried[1]);
    assert_true(life_connected(&life));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(machine(i)->generation, 1);
        expect_works(i);
    }
    life_close(&life);
}

/* ---- R3 to R6: the peer freezes, dies, restarts, moves ------------------------------------- */

static void r3_a_frozen_peer_is_found_and_left(void **state)
{
    static pid_t pids[PROCESSES_MAX];
    struct life_answer answer;
    life_begin(*state, 1);
    life_connect(&life);
    size_t len = life_sessions(&life, pids);
    assert_true(len > 0);
    processes_signal(pids, len, SIGSTOP);
    life_ask(&life, 0, &answer, 0);
    life_steps(&life, SILENCE_MS);
    LIFE_UNTIL(&life, answer.count > 0);
    expect_lost_once(&answer);
    LIFE_PASS_UNTIL(&life, machine(0)->generation == 2);
    expect_works(0);
    processes_signal(pids, len, SIGCONT);
    expect_works(0);
    assert_int_equal(machine(0)->generation, 2);
    assert_int_equal(answer.count, 1);
    life_close(&life);
}

static void r4_a_session_killed_within_a_frame(void **state)
{
    static pid_t pids[PROCESSES_MAX];
    struct life_answer answer;
    life_begin(*state, 1);
    life_connect(&life);
    relay(0)->back_budget = 20000;
    life_ask(&life, 0, &answer, 256 * 1024);
    LIFE_UNTIL(&life, relay(0)->back_budget == 0);
    processes_signal(pids, life_sessions(&life, pids), SIGKILL);
    relay(0)->back_budget = UINT64_MAX;
    relay_resume(relay(0));
    LIFE_UNTIL(&life, answer.count > 0);
    expect_lost_once(&answer);
    LIFE_PASS_UNTIL(&life, life_connected(&life));
    assert_int_equal(machine(0)->generation, 2);
    life_ask(&life, 0, &answer, 256 * 1024);
    LIFE_UNTIL(&life, answer.count > 0);
    assert_int_equal(answer.code, 0);
    assert_int_equal(answer.bulk_len, 256 * 1024);
    life_close(&life);
}

static void r5_a_server_that_restarts(void **state)
{
    static pid_t pids[PROCESSES_MAX];
    life_begin(*state, 2);
    life_connect(&life);
    size_t len = life_sessions(&life, pids);
    sshd_fixture_pause(&sshd);
    processes_signal(pids, len, SIGKILL);
    for (size_t i = 0; i < 2; i++) {
        unsigned accepted = relay(i)->accepted;
        LIFE_PASS_UNTIL(&life, relay(i)->accepted >= accepted + 2); /* it tries, in vain */
        LIFE_UNTIL(&life, machine(i)->state == MACHINE_WAITING);
        assert_string_equal(machine_status(machine(i)), "unavailable");
        assert_int_not_equal(machine(i)->reason.code, 0);
    }
    assert_int_equal(sshd_fixture_resume(&sshd), 0);
    LIFE_PASS_UNTIL(&life, life_connected(&life));
    for (size_t i = 0; i < 2; i++) {
        expect_works(i);
        assert_int_equal(machine(i)->reason.code, 0);
        assert_int_not_equal(machine(i)->last_error.code, 0);
        assert_true(machine(i)->last_error_unix_ms <= machine(i)->state_since_unix_ms);
    }
    life_close(&life);
}

static void r6_an_address_that_changes(void **state)
{
    struct relay other;
    life_begin(*state, 1);
    relay_open(&other, &life.rig.loop, "127.0.0.2", sshd.port);
    life_connect(&life);
    unsigned accepted = relay(0)->accepted;
    life.machines[0].way = &other;
    life_configure(&life);
    relay_cut(relay(0));
    LIFE_PASS_UNTIL(&life, machine(0)->generation == 2);
    assert_int_equal(other.accepted, 1);
    assert_int_equal(relay(0)->accepted, accepted);
    expect_works(0);
    relay_close(&other);
    LIFE_UNTIL(&life, other.pairs == NULL);
    life_close(&life);
}

/* ---- R8: an old reply ---------------------------------------------------------------------- */

static void r8_a_reply_of_an_old_link_reaches_nobody(void **state)
{
    struct life_answer old, answer;
    life_begin(*state, 1);
    life_connect(&life);
    relay(0)->back_budget = 0; /* asked and answered, and the answer is on its way */
    relay_resume(relay(0));
    life_ask(&life, 0, &old, 3000);
    life_turn(&life);
    relay_abandon(relay(0));
    relay(0)->back_budget = UINT64_MAX;
    machine_reconnect(machine(0));
    life_ask(&life, 0, &answer, 5000);
    LIFE_PASS_UNTIL(&life, old.count > 0);
    expect_lost_once(&old);
    for (int i = 0; answer.count == 0; i++) {
        life_pass(&life);
        if (machine(0)->generation == 1 && i % 10 == 9)
            clock_shift_wait(1000); /* the old link waits for its peer's goodbye */
    }
    assert_int_equal(answer.code, 0);
    assert_int_equal(machine(0)->generation, 2);
    relay_recall(relay(0));
    expect_works(0);
    assert_int_equal(old.count, 1);
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.bulk_len, 5000);
    assert_int_equal(machine(0)->generation, 2);
    life_close(&life);
}

/* ---- a person is needed -------------------------------------------------------------------- */

static uint64_t retry_in_ms(size_t i)
{
    uv_update_time(&life.rig.loop);
    return uv_is_active((uv_handle_t *)&machine(i)->retry) ? uv_timer_get_due_in(&machine(i)->retry)
                                                           : UINT64_MAX;
}

static void expect_person(size_t i, int code)
{
    LIFE_UNTIL(&life, machine(i)->state == MACHINE_WAITING);
    assert_int_equal(machine(i)->reason.code, code);
    assert_string_equal(machine_status(machine(i)), "action_required");
}

static void a_machine_that_waits_for_a_person_is_tried_slowly(void **state)
{
    life_begin(*state, 2);
    life.machines[0].known_hosts = "known_none";
    life.machines[1].identity = "stranger";
    life_configure(&life);
    for (size_t i = 0; i < 2; i++)
        machine_want(machine(i), true);
    expect_person(0, SHP_CODE_HOST_KEY_UNKNOWN);
    expect_person(1, SHP_CODE_LOGIN_DENIED);
    for (size_t i = 0; i < 2; i++) {
        uint64_t in_ms = retry_in_ms(i);
        assert_true(in_ms > PACE_PERSON_MS * 3 / 4 - 5000 && in_ms <= PACE_PERSON_MS * 5 / 4);
    }
    life.machines[0].known_hosts = NULL;
    life.machines[1].identity = NULL;
    life_configure(&life);
    expect_works(1); /* a call does not wait for the slow retry */
    assert_int_equal(machine(0)->state, MACHINE_WAITING);
    LIFE_PASS_UNTIL(&life, life_connected(&life));
    assert_string_equal(machine_status(machine(0)), "connected");
    assert_int_equal(machine(0)->last_error.code, SHP_CODE_HOST_KEY_UNKNOWN);
    assert_int_equal(machine(0)->reason.code, 0);
    life_close(&life);
}

static void on_refreshed(struct fleet *fleet, const struct shp_error *error, void *user)
{
    (void)fleet;
    assert_null(error);
    *(bool *)user = true;
}

static void a_changed_host_key_is_never_tried_by_itself(void **state)
{
    bool refreshed = false;
    life_begin(*state, 2);
    for (size_t i = 0; i < 2; i++)
        life.machines[i].known_hosts = "known_other";
    life_configure(&life);
    for (size_t i = 0; i < 2; i++)
        machine_want(machine(i), true);
    expect_person(0, SHP_CODE_HOST_KEY_CHANGED);
    expect_person(1, SHP_CODE_HOST_KEY_CHANGED);
    unsigned connects = relay(0)->accepted;
    clock_shift_sleep(HOUR_MS);
    wake_look(life.rig.app->fleet->wake);
    machine_want(machine(0), true);
    assert_int_equal(retry_in_ms(0), UINT64_MAX);
    assert_int_equal(relay(0)->accepted, connects);
    for (size_t i = 0; i < 2; i++)
        life.machines[i].known_hosts = NULL;
    life_configure(&life);
    expect_works(0);
    assert_int_equal(machine(1)->state, MACHINE_WAITING);
    fleet_refresh(life.rig.app->fleet, on_refreshed, &refreshed);
    LIFE_UNTIL(&life, refreshed && machine(1)->state == MACHINE_CONNECTED);
    life_close(&life);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        LIFE_EACH(r1_a_black_hole_of_10_s_is_survived),
        LIFE_EACH(r1_a_black_hole_of_60_s_ends_the_link_and_it_comes_back),
        LIFE_EACH(r2_after_sleep_links_are_proved_and_the_rest_connects_at_once),
        LIFE_EACH(r2_stopped_and_continued),
        LIFE_EACH(r3_a_frozen_peer_is_found_and_left),
        LIFE_EACH(r4_a_session_killed_within_a_frame),
        LIFE_EACH(r5_a_server_that_restarts),
        LIFE_EACH(r6_an_address_that_changes),
        LIFE_EACH(r8_a_reply_of_an_old_link_reaches_nobody),
        LIFE_EACH(a_machine_that_waits_for_a_person_is_tried_slowly),
        LIFE_EACH(a_changed_host_key_is_never_tried_by_itself),
    };
    return LIFE_RUN(tests, &sshd, argc, argv);
}
