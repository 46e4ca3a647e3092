#include "tests/support/processes.h"

#include <ctype.h>
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct process {
    pid_t pid;
    pid_t parent;
};

/* Bytes of a file of /proc, NUL after them; 0 when the process is gone. */
static size_t slurp(pid_t pid, const char *name, char *out, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "r");
    size_t len = 0;
    if (file) {
        len = fread(out, 1, size - 1, file);
        fclose(file);
    }
    out[len] = '\0';
    return len;
}

static bool read_stat(pid_t pid, struct process *out)
{
    char text[1024], state;
    int parent;
    if (slurp(pid, "stat", text, sizeof text) == 0)
        return false;
    const char *end = strrchr(text, ')'); /* the name before it may hold anything */
    if (!end || sscanf(end + 1, " %c %d", &state, &parent) != 2 || state == 'Z')
        return false;
    *out = (struct process){pid, parent};
    return true;
}

static size_t read_all(struct process out[PROCESSES_MAX])
{
    DIR *dir = opendir("/proc");
    size_t len = 0;
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        assert_true(len < PROCESSES_MAX);
        len += read_stat((pid_t)atoi(entry->d_name), &out[len]);
    }
    closedir(dir);
    return len;
}

size_t processes_below(pid_t root, pid_t out[PROCESSES_MAX])
{
    static struct process all[PROCESSES_MAX];
    size_t all_len = read_all(all), len = 0;
    for (size_t at = 0; at <= len; at++) {
        pid_t parent = at == 0 ? root : out[at - 1];
        for (size_t i = 0; i < all_len; i++)
            if (all[i].parent == parent)
                out[len++] = all[i].pid;
    }
    return len;
}

size_t processes_naming(const char *text, pid_t out[PROCESSES_MAX])
{
    static struct process all[PROCESSES_MAX];
    char line[4096];
    size_t all_len = read_all(all), len = 0;
    for (size_t i = 0; i < all_len; i++) {
        size_t line_len = slurp(all[i].pid, "cmdline", line, sizeof line);
        if (memmem(line, line_len, text, strlen(text)))
            out[len++] = all[i].pid;
    }
    return len;
}

bool process_is(pid_t pid, const char *name, const char *argument)
{
    char text[4096];
    size_t len = slurp(pid, "comm", text, sizeof text);
    if (len == 0 || strcspn(text, "\n") != strlen(name) || strncmp(text, name, strlen(name)) != 0)
        return false;
    if (!argument)
        return true;
    len = slurp(pid, "cmdline", text, sizeof text);
    for (size_t at = 0; at < len; at += strlen(text + at) + 1)
        if (strcmp(text + at, argument) == 0)
            return true;
    return false;
}

void processes_signal(const pid_t *pids, size_t len, int number)
{
    for (size_t i = 0; i < len; i++)
        kill(pids[i], number); /* it may be gone by itself */
}
