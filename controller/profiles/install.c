/*
 * First-run installation. Each bundled profile is written completely into a hidden directory beside
 * the profiles directory and renamed into place, so that nobody ever reads a half-written one. A
 * profile that is there already is left alone. The marker, made last, ends it for good: what the
 * user deletes later stays deleted.
 *
 * Two first runs at once: a lock on the directory makes them take turns where the file system can
 * lock; where it cannot, the rename that does not replace decides, and the loser removes its copy.
 */
#include "controller/profiles/profile_internal.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "protocol/messages.h"

#define MARKER ".profiles-initialized"
#define STAGE_PREFIX ".profile-stage-"

static int fail(struct shp_error *error, const char *what, const char *path)
{
    int saved = errno;
    shp_error_set(error, SHP_CODE_PROFILE_INVALID, NULL, "install profiles", "%s: cannot %s: %s",
                  path, what, strerror(saved));
    return saved == ENOMEM ? SHP_ERR_NOMEM : SHP_ERR_IO;
}

/* The load has checked that the agent directory leaves room for every name below it. */
static void join(char *out, size_t size, const char *folder, const char *name)
{
    int len = snprintf(out, size, "%s/%s", folder, name);
    assert(len > 0 && (size_t)len < size);
    (void)len;
}

static int write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    size_t len = strlen(text), done = 0;
    while (done < len) {
        ssize_t n = write(fd, text + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        done += (size_t)n;
    }
    int result = done == len && fsync(fd) == 0 ? 0 : -1;
    int saved = errno;
    if (close(fd) != 0 && result == 0)
        return -1;
    errno = saved;
    return result;
}

/* A staged profile holds the two files that we write and nothing else. */
static void stage_remove(const char *stage)
{
    static const char *const files[] = {"profile.json", "prompt.md"};
    char path[SHP_PROFILE_PATH_MAX];
    int saved = errno;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        join(path, sizeof path, stage, files[i]);
        unlink(path);
    }
    rmdir(stage);
    errno = saved;
}

/* Copies that an interrupted installation left. Only under the lock: nobody uses them. */
static void stale_remove(const char *root)
{
    char path[SHP_PROFILE_PATH_MAX];
    DIR *dir = opendir(root);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, STAGE_PREFIX, sizeof STAGE_PREFIX - 1) != 0)
            continue;
        join(path, sizeof path, root, entry->d_name);
        stage_remove(path);
    }
    if (dir != NULL)
        closedir(dir);
}

/* 0, or -1 with errno EEXIST when something stands at to. */
static int rename_new(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    /* A plain rename replaces an empty directory, so look first; the gap is harmless: only another
     * first run could fill it, with the same content. */
    struct stat st;
    if (lstat(to, &st) == 0) {
        errno = EEXIST;
        return -1;
    }
    int rc = rename(from, to);
    if (rc != 0 && (errno == ENOTEMPTY || errno == ENOTDIR))
        errno = EEXIST;
    return rc;
}

static int install_one(const char *root, const struct shp_bundled_profile *bundled,
                       struct shp_error *error)
{
    char target[SHP_PROFILE_PATH_MAX], stage[SHP_PROFILE_PATH_MAX];
    char path[SHP_PROFILE_PATH_MAX + 32];
    struct stat st;
    join(path, sizeof path, root, "profiles");
    join(target, sizeof target, path, bundled->name);
    if (lstat(target, &st) == 0)
        return 0;
    join(stage, sizeof stage, root, STAGE_PREFIX "XXXXXX");
    if (mkdtemp(stage) == NULL)
        return fail(error, "make a directory", stage);
    join(path, sizeof path, stage, "profile.json");
    int rc = write_file(path, bundled->json);
    if (rc == 0) {
        join(path, sizeof path, stage, "prompt.md");
        rc = write_file(path, bundled->prompt);
    }
    if (rc == 0) {
        snprintf(path, sizeof path, "%s", target);
        rc = rename_new(stage, target);
        if (rc == 0)
            return 0;
        if (errno == EEXIST)
            rc = 0;
    }
    stage_remove(stage);
    return rc == 0 ? 0 : fail(error, "write", path);
}

int shp_profiles_install(const char *agent_dir, struct shp_error *error)
{
    char root[SHP_PROFILE_PATH_MAX], path[SHP_PROFILE_PATH_MAX];
    struct stat st;
    join(root, sizeof root, agent_dir, "shepherdr");
    join(path, sizeof path, root, MARKER);
    if (lstat(path, &st) == 0)
        return 0;
    if (mkdir(agent_dir, 0700) != 0 && errno != EEXIST)
        return fail(error, "make the directory", agent_dir);
    if (mkdir(root, 0700) != 0 && errno != EEXIST)
        return fail(error, "make the directory", root);
    int lock = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0)
        return fail(error, "open the directory", root);
    bool locked = flock(lock, LOCK_EX) == 0;
    int err = 0;
    if (locked && lstat(path, &st) == 0)
        goto out;
    if (locked)
        stale_remove(root);
    join(path, sizeof path, root, "profiles");
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        err = fail(error, "make the directory", path);
        goto out;
    }
    for (size_t i = 0; err == 0 && i < shp_bundled_profiles_len; i++)
        err = install_one(root, &shp_bundled_profiles[i], error);
    if (err != 0)
        goto out;
    join(path, sizeof path, root, MARKER);
    int marker = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (marker >= 0)
        close(marker);
    else if (errno != EEXIST)
        err = fail(error, "write", path);
out:
    close(lock);
    return err;
}
