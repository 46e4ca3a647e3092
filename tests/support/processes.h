/* Processes of this system, from /proc. Everything aborts the test on failure. */
#ifndef SHP_TESTS_SUPPORT_PROCESSES_H
#define SHP_TESTS_SUPPORT_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define PROCESSES_MAX 1024

/* Children of root, their children and so on, without root; those that only wait to be reaped are
 * left out. Returns how many. */
size_t processes_below(pid_t root, pid_t out[PROCESSES_MAX]);

/* Whose command line holds text anywhere. */
size_t processes_naming(const char *text, pid_t out[PROCESSES_MAX]);

/* Its program's name (as in ps) is name, and one of its arguments is argument (NULL: any). */
bool process_is(pid_t pid, const char *name, const char *argument);

void processes_signal(const pid_t *pids, size_t len, int number);

#endif
