/* What /proc says about processes: groups, sessions, command lines, the recognition of Pi. */
#ifndef HERDR_SIM_PROC_H
#define HERDR_SIM_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct proc_stat {
    pid_t pid;
    pid_t ppid;
    pid_t pgrp;
    pid_t session;
    char state;
    char comm[64];
    unsigned long long start_time; /* clock ticks since boot: tells a reused pid */
};

/* 0, or -1 when there is no such process. */
int proc_stat_of(pid_t pid, struct proc_stat *st);
typedef void (*proc_cb)(const struct proc_stat *st, void *user);
void proc_for_each(proc_cb cb, void *user);
/* Arguments, NULL terminated; NULL when unreadable or empty. Free with proc_argv_free. */
char **proc_argv(pid_t pid);
void proc_argv_free(char **argv);
/* Working directory or NULL; caller frees. */
char *proc_cwd(pid_t pid);
/* Is one of the group's processes (leader first, then its children) a Pi? */
bool proc_group_is_pi(pid_t pgrp);
/* Sends a signal to every process of the session; returns how many there were (zombies aside). */
int proc_signal_session(pid_t session, int sig);

#endif
