#include "remote-helper/sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/id.h"

#define HASH_HEX 32
#define OTHERS_MAX 64 /* more are left for the next start */

static const char helper_prefix[] = "helper-";
static const char temporary_prefix[] = ".tmp-helper-";

struct other {
    char name[NAME_MAX + 1];
    struct timespec modified;
};

bool sweep_is_helper(const char *name)
{
    size_t len = strlen(name);
    return strncmp(name, helper_prefix, sizeof helper_prefix - 1) == 0 &&
           len > sizeof helper_prefix + HASH_HEX && name[len - HASH_HEX - 1] == '-' &&
           shp_hex_valid(name + len - HASH_HEX, HASH_HEX);
}

static bool is_older(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

struct sweep {
    int dir;
    bool dry; /* count only */
    size_t dropped;
    struct other others[SWEEP_KEEP];
    size_t len;
};

static void drop(struct sweep *sweep, const char *name)
{
    sweep->dropped++;
    if (!sweep->dry)
        unlinkat(sweep->dir, name, 0);
}

/* Keeps others sorted, newest first; what falls out at the end is removed. */
static void keep_newest(struct sweep *sweep, const char *name, const struct timespec *modified)
{
    struct other *others = sweep->others;
    size_t at = sweep->len;
    while (at > 0 && is_older(&others[at - 1].modified, modified))
        at--;
    if (at >= SWEEP_KEEP - 1) {
        drop(sweep, name);
        return;
    }
    if (sweep->len == SWEEP_KEEP - 1)
        drop(sweep, others[--sweep->len].name);
    memmove(&others[at + 1], &others[at], (sweep->len - at) * sizeof *others);
    snprintf(others[at].name, sizeof others[at].name, "%s", name);
    others[at].modified = *modified;
    sweep->len++;
}

static void sweep_entries(struct sweep *sweep, DIR *listing, const char *own)
{
    time_t now = time(NULL);
    struct dirent *entry;
    for (size_t seen = 0; seen < OTHERS_MAX && (entry = readdir(listing)) != NULL;) {
        bool temporary = strncmp(entry->d_name, temporary_prefix, sizeof temporary_prefix - 1) == 0;
        struct stat info;
        if (strcmp(entry->d_name, own) == 0 || (!temporary && !sweep_is_helper(entry->d_name)))
            continue;
        seen++;
        if (fstatat(sweep->dir, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(info.st_mode) || info.st_uid != geteuid())
            continue;
        if (!temporary)
            keep_newest(sweep, entry->d_name, &info.st_mtim);
        else if (now - info.st_mtime > SWEEP_TEMPORARY_S)
            drop(sweep, entry->d_name);
    }
}

bool sweep_own_path(char *out, size_t size, const char *program)
{
    ssize_t len = readlink("/proc/self/exe", out, size - 1);
    if (len <= 0) {
        len = (ssize_t)strlen(program);
        if (program[0] != '/' || (size_t)len >= size)
            return false;
        memcpy(out, program, (size_t)len);
    }
    out[len] = '\0';
    return true;
}

static size_t sweep(const char *program, bool dry)
{
    static struct sweep state;
    char path[PATH_MAX];
    if (!sweep_own_path(path, sizeof path, program))
        return 0;
    char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path || !sweep_is_helper(slash + 1))
        return 0;
    *slash = '\0';
    DIR *listing = opendir(path);
    if (listing == NULL)
        return 0;
    state = (struct sweep){.dir = dirfd(listing), .dry = dry};
    sweep_entries(&state, listing, slash + 1);
    closedir(listing);
    return state.dropped;
}

size_t sweep_stale(const char *program)
{
    return sweep(program, true);
}

void sweep_programs(const char *program)
{
    sweep(program, false);
}
