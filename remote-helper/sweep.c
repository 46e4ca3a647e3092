#include "remote-helper/sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
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

/* Keeps others sorted, newest first; what falls out at the end is removed. */
static void keep_newest(int dir, struct other *others, size_t *len, const char *name,
                        const struct timespec *modified)
{
    size_t at = *len;
    while (at > 0 && is_older(&others[at - 1].modified, modified))
        at--;
    if (at >= SWEEP_KEEP - 1) {
        unlinkat(dir, name, 0);
        return;
    }
    if (*len == SWEEP_KEEP - 1)
        unlinkat(dir, others[--*len].name, 0);
    memmove(&others[at + 1], &others[at], (*len - at) * sizeof *others);
    strncpy(others[at].name, name, NAME_MAX);
    others[at].name[NAME_MAX] = '\0';
    others[at].modified = *modified;
    ++*len;
}

static void sweep(DIR *listing, const char *own)
{
    static struct other others[SWEEP_KEEP];
    size_t len = 0;
    int dir = dirfd(listing);
    time_t now = time(NULL);
    struct dirent *entry;
    for (size_t seen = 0; seen < OTHERS_MAX && (entry = readdir(listing)) != NULL;) {
        bool temporary = strncmp(entry->d_name, temporary_prefix, sizeof temporary_prefix - 1) == 0;
        struct stat info;
        if (strcmp(entry->d_name, own) == 0 || (!temporary && !sweep_is_helper(entry->d_name)))
            continue;
        seen++;
        if (fstatat(dir, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(info.st_mode) || info.st_uid != geteuid())
            continue;
        if (!temporary)
            keep_newest(dir, others, &len, entry->d_name, &info.st_mtim);
        else if (now - info.st_mtime > SWEEP_TEMPORARY_S)
            unlinkat(dir, entry->d_name, 0);
    }
}

void sweep_programs(const char *program)
{
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    if (len <= 0) {
        len = (ssize_t)strlen(program);
        if (program[0] != '/' || (size_t)len >= sizeof path)
            return;
        memcpy(path, program, (size_t)len);
    }
    path[len] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path || !sweep_is_helper(slash + 1))
        return;
    *slash = '\0';
    DIR *listing = opendir(path);
    if (listing == NULL)
        return;
    sweep(listing, slash + 1);
    closedir(listing);
}
