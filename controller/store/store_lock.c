/*
 * The writer's lock: flock on a file beside the database. It stays behind: removing it would let
 * two processes hold "the" lock on two different files, so whoever locked checks that the path
 * still names the locked file (the sweep removes lock files of databases that it removes).
 */
#include "controller/store/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_ATTEMPTS_MAX 8
/* A holder writes its pid right after locking: a reader in between looks again this often. */
#define HOLDER_READS_MAX 20
#define HOLDER_READ_PAUSE_NS 5000000L

static void time_text(uint64_t unix_ms, char out[SHP_STORE_SINCE_MAX])
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm parts;
    if (gmtime_r(&seconds, &parts) == NULL ||
        strftime(out, SHP_STORE_SINCE_MAX, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        out[0] = '\0';
}

static void read_holder(int fd, long *pid, char since[SHP_STORE_SINCE_MAX])
{
    *pid = 0;
    snprintf(since, SHP_STORE_SINCE_MAX, "an unknown time");
    for (int i = 0; i < HOLDER_READS_MAX; i++) {
        char text[64];
        ssize_t len = pread(fd, text, sizeof text - 1, 0);
        if (len > 0) {
            text[len] = '\0';
            char *newline = strchr(text, '\n');
            char *space = strchr(text, ' ');
            if (newline != NULL && space != NULL && space < newline) {
                *newline = '\0';
                *pid = strtol(text, NULL, 10);
                snprintf(since, SHP_STORE_SINCE_MAX, "%.24s", space + 1);
                return;
            }
        }
        nanosleep(&(struct timespec){.tv_nsec = HOLDER_READ_PAUSE_NS}, NULL);
    }
}

int shp_store_lock(const char *path, uint64_t now_unix_ms, long *holder_pid,
                   char since[SHP_STORE_SINCE_MAX])
{
    for (int attempt = 0; attempt < LOCK_ATTEMPTS_MAX; attempt++) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return SHP_ERR_IO;
        int locked;
        do {
            locked = flock(fd, LOCK_EX | LOCK_NB);
        } while (locked != 0 && errno == EINTR);
        if (locked != 0) {
            int saved = errno;
            if (saved == EWOULDBLOCK)
                read_holder(fd, holder_pid, since);
            close(fd);
            errno = saved;
            return saved == EWOULDBLOCK ? SHP_ERR_EXISTS : SHP_ERR_IO;
        }
        struct stat mine, named;
        if (fstat(fd, &mine) != 0 || lstat(path, &named) != 0 || mine.st_ino != named.st_ino ||
            mine.st_dev != named.st_dev) {
            close(fd);
            continue;
        }
        char when[SHP_STORE_SINCE_MAX], text[64];
        time_text(now_unix_ms, when);
        int len = snprintf(text, sizeof text, "%ld %s\n", (long)getpid(), when);
        if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)len, 0) != len) {
            int saved = errno;
            close(fd);
            errno = saved;
            return SHP_ERR_IO;
        }
        return fd;
    }
    errno = EBUSY;
    return SHP_ERR_IO;
}
