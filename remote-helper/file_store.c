#include "remote-helper/file_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/id.h"
#include "protocol/messages.h"
#include "remote-helper/identity.h"

#define TEMPORARY_PREFIX ".tmp-"
#define TEMPORARY_PREFIX_LEN 5
#define TEMPORARY_LEN (TEMPORARY_PREFIX_LEN + SHP_ID_HEX)
#define HASH_HEX 32
#define NAME_MAX_BYTES 64

static const char step[] = "place file";

struct file_put {
    int dir;
    int fd; /* -1: no temporary file */
    uint64_t size, have;
    uint8_t digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state hash;
    char temporary[TEMPORARY_LEN + 1];
    char name[NAME_MAX_BYTES];
    char path[IDENTITY_PATH_MAX + 128];
};

static int failed_at(struct shp_error *error, int code, const char *path, const char *why)
{
    shp_error_set(error, code, NULL, step, "%s: %s", path, why);
    return SHP_ERR_IO;
}

static int failed_errno(struct shp_error *error, const char *path, int number)
{
    bool space = number == ENOSPC || number == EDQUOT;
    return failed_at(error, space ? SHP_CODE_INSTALL_NO_SPACE : SHP_CODE_INSTALL_FAILED, path,
                     strerror(number));
}

/* ---- directories -------------------------------------------------------------------------- */

/* A directory of the user's, which may be a link: made when it is missing, otherwise left alone. */
static int enter(int dir, const char *name)
{
    if (mkdirat(dir, name, 0700) != 0 && errno != EEXIST)
        return -1;
    return openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* A directory of ours: never a link, and nobody else's. */
static int enter_ours(int dir, const char *name)
{
    if (mkdirat(dir, name, 0700) != 0 && errno != EEXIST)
        return -1;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    struct stat info;
    int number = 0;
    if (fstat(fd, &info) != 0)
        number = errno;
    else if (info.st_uid != geteuid())
        number = EPERM;
    else if ((info.st_mode & 0777) != 0700 && fchmod(fd, 0700) != 0)
        number = errno;
    if (number == 0)
        return fd;
    close(fd);
    errno = number;
    return -1;
}

static int open_directory(const char *home, const char *folder)
{
    const char *const names[] = {".pi", "agent", "shepherdr", folder};
    int dir = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < 4 && dir >= 0; i++) {
        int next = i < 2 ? enter(dir, names[i]) : enter_ours(dir, names[i]);
        int number = errno;
        close(dir);
        errno = number;
        dir = next;
    }
    return dir;
}

static bool is_temporary(const char *name)
{
    return strlen(name) == TEMPORARY_LEN &&
           memcmp(name, TEMPORARY_PREFIX, TEMPORARY_PREFIX_LEN) == 0 &&
           shp_hex_valid(name + TEMPORARY_PREFIX_LEN, SHP_ID_HEX);
}

static void sweep(int dir)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = copy >= 0 ? fdopendir(copy) : NULL;
    if (listing == NULL) {
        if (copy >= 0)
            close(copy);
        return;
    }
    time_t now = time(NULL);
    const struct dirent *entry;
    while ((entry = readdir(listing)) != NULL) {
        struct stat info;
        if (is_temporary(entry->d_name) &&
            fstatat(dir, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
            info.st_uid == geteuid() && now - info.st_mtime > FILE_STORE_STALE_SECONDS)
            unlinkat(dir, entry->d_name, 0);
    }
    closedir(listing);
}

/* ---- what is there ------------------------------------------------------------------------ */

static int hash_file(int fd, uint8_t *digest)
{
    uint8_t block[16384];
    crypto_hash_sha256_state state;
    crypto_hash_sha256_init(&state);
    for (;;) {
        ssize_t got = read(fd, block, sizeof block);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return SHP_ERR_IO;
        if (got == 0)
            break;
        crypto_hash_sha256_update(&state, block, (size_t)got);
    }
    crypto_hash_sha256_final(&state, digest);
    return 0;
}

/* NOT_FOUND: nothing is there; EXISTS: what is there is not this file; 0: it is. */
static int look(struct file_put *put)
{
    struct stat info;
    if (fstatat(put->dir, put->name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? SHP_ERR_NOT_FOUND : SHP_ERR_EXISTS;
    if (!S_ISREG(info.st_mode) || info.st_uid != geteuid() || (uint64_t)info.st_size != put->size)
        return SHP_ERR_EXISTS;
    int fd = openat(put->dir, put->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return SHP_ERR_EXISTS;
    uint8_t digest[crypto_hash_sha256_BYTES];
    int status = hash_file(fd, digest);
    if (status == 0 && (info.st_mode & 0777) != 0600)
        status = fchmod(fd, 0600);
    close(fd);
    return status == 0 && memcmp(digest, put->digest, sizeof digest) == 0 ? 0 : SHP_ERR_EXISTS;
}

static int conflict(struct file_put *put, struct shp_error *error)
{
    return failed_at(error, SHP_CODE_FILE_CONFLICT, put->path,
                     "something else is at this path and was left alone");
}

/* ---- life --------------------------------------------------------------------------------- */

static void add(char *out, size_t size, const char *text)
{
    size_t at = strlen(out);
    size_t len = strlen(text);
    if (len > size - 1 - at)
        len = size - 1 - at;
    memcpy(out + at, text, len);
    out[at + len] = '\0';
}

static int open_temporary(struct file_put *put)
{
    uint8_t random[SHP_ID_BYTES];
    randombytes_buf(random, sizeof random);
    memcpy(put->temporary, TEMPORARY_PREFIX, TEMPORARY_PREFIX_LEN);
    shp_hex_encode(put->temporary + TEMPORARY_PREFIX_LEN, random, sizeof random);
    put->fd = openat(put->dir, put->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                     0600);
    return put->fd < 0 ? -1 : 0;
}

int file_put_begin(struct file_put **out, const char *home, enum file_kind kind, const char *digest,
                   uint64_t size, bool *present, struct shp_error *error)
{
    bool extension = kind == FILE_KIND_EXTENSION;
    const char *folder = extension ? "ext" : "prompts";
    struct file_put *put = calloc(1, sizeof *put);
    if (put == NULL)
        return failed_at(error, SHP_CODE_OUT_OF_MEMORY, folder, "no memory");
    put->fd = put->dir = -1;
    put->size = size;
    int status;
    if (shp_hex_decode(put->digest, sizeof put->digest, digest, strlen(digest)) != 0) {
        status = failed_at(error, SHP_CODE_INVALID_PARAMS, "digest", "is not 64 hex digits");
        goto out;
    }
    char hash[HASH_HEX + 1];
    memcpy(hash, digest, HASH_HEX);
    hash[HASH_HEX] = '\0';
    add(put->name, sizeof put->name, extension ? "pi-ext-" : "");
    add(put->name, sizeof put->name, hash);
    add(put->name, sizeof put->name, extension ? ".mjs" : ".md");
    add(put->path, sizeof put->path, strcmp(home, "/") == 0 ? "" : home);
    add(put->path, sizeof put->path, "/.pi/agent/shepherdr/");
    add(put->path, sizeof put->path, folder);
    add(put->path, sizeof put->path, "/");
    add(put->path, sizeof put->path, put->name);

    put->dir = open_directory(home, folder);
    if (put->dir < 0) {
        status = failed_errno(error, put->path, errno);
        goto out;
    }
    sweep(put->dir);
    crypto_hash_sha256_init(&put->hash);
    status = look(put);
    *present = status == 0;
    if (status == SHP_ERR_EXISTS) {
        status = conflict(put, error);
        goto out;
    }
    *out = put;
    return 0;
out:
    file_put_free(put);
    return status;
}

int file_put_write(struct file_put *put, const void *data, size_t len, struct shp_error *error)
{
    if (len > put->size - put->have)
        return failed_at(error, SHP_CODE_INSTALL_CORRUPT, put->path,
                         "more bytes came than promised");
    if (put->fd < 0 && open_temporary(put) != 0)
        return failed_errno(error, put->path, errno);
    crypto_hash_sha256_update(&put->hash, data, len);
    put->have += len;
    const char *bytes = data;
    while (len > 0) {
        ssize_t wrote = write(put->fd, bytes, len);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return failed_errno(error, put->path, errno);
        bytes += wrote;
        len -= (size_t)wrote;
    }
    return 0;
}

/* Never over what is there: rename would replace it. */
static int activate(struct file_put *put)
{
    if (linkat(put->dir, put->temporary, put->dir, put->name, 0) == 0)
        return unlinkat(put->dir, put->temporary, 0);
    if (errno == EEXIST)
        return -1;
    /* A file system without hard links. */
    struct stat info;
    if (fstatat(put->dir, put->name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST;
        return -1;
    }
    return renameat(put->dir, put->temporary, put->dir, put->name);
}

int file_put_finish(struct file_put *put, bool *written, struct shp_error *error)
{
    uint8_t digest[crypto_hash_sha256_BYTES];
    *written = false;
    crypto_hash_sha256_final(&put->hash, digest);
    if (put->have != put->size || memcmp(digest, put->digest, sizeof digest) != 0)
        return failed_at(error, SHP_CODE_INSTALL_CORRUPT, put->path,
                         "the bytes do not have the promised digest");
    if (put->fd < 0 && open_temporary(put) != 0)
        return failed_errno(error, put->path, errno);
    /* A network file system may report a full disk only here. */
    if (fsync(put->fd) != 0)
        return failed_errno(error, put->path, errno);
    int fd = put->fd;
    put->fd = -1;
    int status = close(fd) != 0 ? -1 : activate(put);
    int number = errno;
    if (status == 0) {
        fsync(put->dir);
        *written = true;
        return 0;
    }
    unlinkat(put->dir, put->temporary, 0);
    if (number != EEXIST)
        return failed_errno(error, put->path, number);
    return look(put) == 0 ? 0 : conflict(put, error);
}

const char *file_put_path(const struct file_put *put)
{
    return put->path;
}

void file_put_free(struct file_put *put)
{
    if (put == NULL)
        return;
    if (put->fd >= 0) {
        close(put->fd);
        unlinkat(put->dir, put->temporary, 0);
    }
    if (put->dir >= 0)
        close(put->dir);
    free(put);
}
