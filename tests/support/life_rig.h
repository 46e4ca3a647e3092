/*
 * Machines of a controller that live through bad days: each is reached with a real ssh through a
 * relay of its own, all behind one throw-away sshd. Time that only passes is passed by the test
 * (clock_shift.h), so that nothing here depends on how fast anything is.
 */
#ifndef SHP_TESTS_SUPPORT_LIFE_RIG_H
#define SHP_TESTS_SUPPORT_LIFE_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "controller/fleet/machine.h"
#include "tests/support/controller_rig.h"
#include "tests/support/relay.h"
#include "tests/support/sshd_fixture.h"

#define LIFE_MACHINES_MAX 8
#define LIFE_STEP_MS 5000

struct life_machine {
    struct machine *machine;
    struct relay relay; /* its way to the server */
    char id[33];
    char name[24];           /* Host of the client's configuration */
    const char *known_hosts; /* file beside the server's keys; NULL: the right one */
    const char *identity;    /* NULL: the right one */
    struct relay *way;       /* NULL: relay */
};

struct life {
    struct controller_rig rig;
    struct sshd_fixture *sshd; /* borrowed */
    struct life_machine machines[LIFE_MACHINES_MAX];
    size_t len;
    void (*wait)(uint64_t ms);
    char *path_before;
    long long guard_s; /* real time at which the test hangs */
};

struct life_answer {
    unsigned count;
    int code; /* 0: success */
    int outcome;
    char cause[SHP_ERROR_CAUSE_MAX];
    size_t bulk_len;
};

/* The catalog is read, nothing is connected yet. bin_dir: where the helper
 * was built. transport: as in the settings. */
void life_open(struct life *life, const char *bin_dir, struct sshd_fixture *sshd,
               const char *transport, size_t len, void (*wait)(uint64_t ms));
/* The controller ends; no process of the machines is left. */
void life_close(struct life *life);

/* The client's configuration again, after a change of a machine's fields. */
void life_configure(struct life *life);

/* A short real while of the loop. */
void life_turn(struct life *life);
/* As well, and when nothing is under way, the time until the next retry passes. */
void life_pass(struct life *life);
/* That time passes, in steps that no wake is seen in. */
void life_steps(struct life *life, uint64_t ms);

#define LIFE_UNTIL(life, condition)                                                                \
    do {                                                                                           \
        while (!(condition))                                                                       \
            life_turn(life);                                                                       \
    } while (0)
#define LIFE_PASS_UNTIL(life, condition)                                                           \
    do {                                                                                           \
        while (!(condition))                                                                       \
            life_pass(life);                                                                       \
    } while (0)

/* Wanted and connected, all of them. */
void life_connect(struct life *life);
bool life_connected(const struct life *life);

/* The machine's link breaks and its end is told; it is not connected then. */
void life_cut(struct life *life, size_t i);

/* Counts into *answer, which stays until then. bulk_len: link_echo of that size; else identity. */
void life_ask(struct life *life, size_t i, struct life_answer *answer, size_t bulk_len);

/* Processes of ours named ssh that hold a connection to the machine (all: NULL). */
size_t life_clients(const struct life_machine *machine);

/* Sessions of the server and what runs in them. */
size_t life_sessions(const struct life *life, pid_t *pids);

/* One test over each transport; its state is the transport's name as in the settings. */
extern char life_openssh[];
extern char life_libssh[];
#define LIFE_EACH(test)                                                                            \
    {#test "_openssh", test, NULL, NULL, life_openssh},                                            \
    {                                                                                              \
#test "_libssh", test, NULL, NULL, life_libssh                                             \
    }

/*
 * Runs an array of tests with the server started (also what main returns: 77 when it cannot be);
 * argv[1] is a filter of names. What this program was built without is skipped.
 */
#define LIFE_RUN(tests, sshd, argc, argv)                                                          \
    (life_prepare(sshd, argc, argv) ? life_finish(sshd, cmocka_run_group_tests(tests, NULL, NULL)) \
                                    : LIFE_SKIPPED)
#define LIFE_SKIPPED 77
bool life_prepare(struct sshd_fixture *sshd, int argc, char **argv);
int life_finish(struct sshd_fixture *sshd, int failed);

#endif
