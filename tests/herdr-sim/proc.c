#include "proc.h"

#include "util.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CMDLINE_BYTES_MAX (256 * 1024)
#define ARGV_MAX 1024
/* A wrapper script with one child is the deepest arrangement seen in practice. */
#define CHILD_DEPTH_MAX 3

int proc_stat_of(pid_t pid, struct proc_stat *st)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    char *text = read_file(path, 8192, NULL);
    if (!text)
        return -1;
    /* The command name may hold anything, so the fields start after the last ')'. */
    char *open = strchr(text, '(');
    char *close = strrchr(text, ')');
    int rc = -1;
    if (open && close && close > open) {
        memset(st, 0, sizeof *st);
        st->pid = pid;
        snprintf(st->comm, sizeof st->comm, "%.*s", (int)(close - open - 1), open + 1);
        int ppid, pgrp, session;
        if (sscanf(close + 1,
                   " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                   &st->state, &ppid, &pgrp, &session, &st->start_time) == 5) {
            st->ppid = ppid;
            st->pgrp = pgrp;
            st->session = session;
            rc = 0;
        }
    }
    free(text);
    return rc;
}

void proc_for_each(proc_cb cb, void *user)
{
    DIR *d = opendir("/proc");
    if (!d)
        return;
    struct dirent *e;
    while ((e = readdir(d))) {
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        struct proc_stat st;
        if (proc_stat_of((pid_t)atol(e->d_name), &st) == 0)
            cb(&st, user);
    }
    closedir(d);
}

char **proc_argv(pid_t pid)
{
    char path[64];
    size_t len = 0;
    snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)pid);
    char *text = read_file(path, CMDLINE_BYTES_MAX, &len);
    if (!text || len == 0) {
        free(text);
        return NULL;
    }
    char **argv = sim_alloc(sizeof *argv * (ARGV_MAX + 1));
    size_t n = 0;
    for (size_t at = 0; at < len && n < ARGV_MAX; at += strlen(text + at) + 1)
        argv[n++] = sim_strdup(text + at);
    free(text);
    return argv;
}

void proc_argv_free(char **argv)
{
    for (char **p = argv; p && *p; p++)
        free(*p);
    free(argv);
}

char *proc_cwd(pid_t pid)
{
    char path[64];
    char target[4096];
    snprintf(path, sizeof path, "/proc/%ld/cwd", (long)pid);
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0)
        return NULL;
    target[n] = '\0';
    return sim_strdup(target);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), t = strlen(tail);
    return n >= t && !strcmp(s + n - t, tail);
}

static bool interpreter(const char *argv0)
{
    static const char *const names[] = {"node", "bun", "sh", "bash", "dash", "python3", "python"};
    const char *name = base_name(argv0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

static bool argv_is_pi(char **argv)
{
    /* Pi may replace its title, which leaves "pi" or "pi - something" as the first argument. */
    const char *name = base_name(argv[0]);
    if (!strcmp(name, "pi") || !strncmp(argv[0], "pi ", 3))
        return true;
    if (!interpreter(argv[0]))
        return false;
    for (char **p = argv + 1; *p; p++) {
        if (**p == '-')
            continue;
        if (!strcmp(base_name(*p), "pi"))
            return true;
        return strstr(*p, "pi-coding-agent") && ends_with(*p, "cli.js");
    }
    return false;
}

static bool process_is_pi(pid_t pid, pid_t pgrp, int depth)
{
    char **argv = proc_argv(pid);
    bool yes = argv && argv_is_pi(argv);
    proc_argv_free(argv);
    if (yes || depth >= CHILD_DEPTH_MAX)
        return yes;
    char path[96];
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)pid, (long)pid);
    char *text = read_file(path, 65536, NULL);
    if (!text)
        return false;
    char *save = NULL;
    for (char *w = strtok_r(text, " \n", &save); w && !yes; w = strtok_r(NULL, " \n", &save)) {
        struct proc_stat st;
        if (proc_stat_of((pid_t)atol(w), &st) == 0 && st.pgrp == pgrp)
            yes = process_is_pi(st.pid, pgrp, depth + 1);
    }
    free(text);
    return yes;
}

bool proc_group_is_pi(pid_t pgrp)
{
    struct proc_stat st;
    if (pgrp <= 0 || proc_stat_of(pgrp, &st) < 0 || st.state == 'Z')
        return false;
    return process_is_pi(pgrp, pgrp, 0);
}

struct session_signal {
    pid_t session;
    int sig;
    int count;
};

static void signal_member(const struct proc_stat *st, void *user)
{
    struct session_signal *s = user;
    if (st->session != s->session || st->state == 'Z')
        return;
    s->count++;
    if (s->sig)
        kill(st->pid, s->sig);
}

int proc_signal_session(pid_t session, int sig)
{
    struct session_signal s = {.session = session, .sig = sig};
    if (session > 1)
        proc_for_each(signal_member, &s);
    return s.count;
}
