/*
 * Time of this process that a test moves: clock_gettime of the whole program, libuv's loop and
 * libssh included, with an offset per clock. Other processes keep the real time.
 *
 * The code stands here, for the one source file of a program that includes it: in a library it
 * would take the place of the C library's in every test.
 */
#ifndef SHP_TESTS_SUPPORT_CLOCK_SHIFT_H
#define SHP_TESTS_SUPPORT_CLOCK_SHIFT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_ullong clock_shift_waited_ms, clock_shift_slept_ms;

/* The process waits, or stands still: all clocks go on. */
static inline void clock_shift_wait(uint64_t ms)
{
    atomic_fetch_add(&clock_shift_waited_ms, ms);
}

/* The system sleeps: all clocks but the monotonic one go on. */
static inline void clock_shift_sleep(uint64_t ms)
{
    atomic_fetch_add(&clock_shift_slept_ms, ms);
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    int rc = (int)syscall(SYS_clock_gettime, id, now);
    bool stops_in_sleep =
        id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE || id == CLOCK_MONOTONIC_RAW;
    bool is_time = stops_in_sleep || id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE ||
                   id == CLOCK_BOOTTIME;
    if (rc != 0 || !is_time)
        return rc;
    uint64_t ms = atomic_load(&clock_shift_waited_ms) +
                  (stops_in_sleep ? 0 : atomic_load(&clock_shift_slept_ms));
    long ns = now->tv_nsec + (long)(ms % 1000) * 1000000;
    now->tv_sec += (time_t)(ms / 1000) + ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
    return 0;
}

#endif
