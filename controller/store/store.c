#include "controller/store/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "protocol/messages.h"

#define PI_SESSION_NAME_MAX 64
/* An _each call holds at most this many keys (65 bytes each). */
#define KEYS_MAX 200000

static const char *const statement_texts[SHP_STORE_SQL_COUNT] = {
#define XX(name, text) [SHP_STORE_SQL_##name] = text,
    SHP_STORE_SQL_MAP(XX)
#undef XX
};

/* ---- statements --------------------------------------------------------------------------------
 */

int shp_store_failure(struct shp_store *store, const char *what)
{
    int code = sqlite3_extended_errcode(store->db);
    const char *text = sqlite3_errmsg(store->db);
    const char *where = store->path[0] != '\0' ? store->path : "memory";
    switch (code & 0xff) {
    case SQLITE_FULL:
        text = "no space left on the disk";
        break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        text = "the file is damaged";
        break;
    default:
        break;
    }
    snprintf(store->error, sizeof store->error, "%s: %s (%.512s, SQLite code %d)", what, text,
             where, code);
    switch (code) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
        return SHP_ERR_EXISTS;
    case SQLITE_CONSTRAINT_FOREIGNKEY:
        return SHP_ERR_NOT_FOUND;
    default:
        return (code & 0xff) == SQLITE_NOMEM ? SHP_ERR_NOMEM : SHP_ERR_IO;
    }
}

sqlite3_stmt *shp_store_statement(struct shp_store *store, enum shp_store_sql id)
{
    sqlite3_stmt **slot = &store->statements[id];
    if (*slot == NULL && sqlite3_prepare_v3(store->db, statement_texts[id], -1,
                                            SQLITE_PREPARE_PERSISTENT, slot, NULL) != SQLITE_OK)
        return NULL;
    return *slot;
}

void shp_store_reset(sqlite3_stmt *statement)
{
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
}

int shp_store_run(struct shp_store *store, sqlite3_stmt *statement, const char *what, int *changed)
{
    int err = 0;
    if (statement == NULL)
        return shp_store_failure(store, what);
    if (store->bind_code != 0) {
        snprintf(store->error, sizeof store->error, "%s: %s", what,
                 sqlite3_errstr(store->bind_code));
        err = store->bind_code == SQLITE_NOMEM ? SHP_ERR_NOMEM : SHP_ERR_IO;
        store->bind_code = 0;
    } else if (sqlite3_step(statement) != SQLITE_DONE) {
        err = shp_store_failure(store, what);
    } else {
        store->unsynced = true;
        if (changed != NULL)
            *changed = sqlite3_changes(store->db);
    }
    shp_store_reset(statement);
    return err;
}

int shp_store_begin(struct shp_store *store)
{
    return shp_store_run(store, shp_store_statement(store, SHP_STORE_SQL_BEGIN), "begin", NULL);
}

int shp_store_commit(struct shp_store *store)
{
    int err =
        shp_store_run(store, shp_store_statement(store, SHP_STORE_SQL_COMMIT), "commit", NULL);
    if (err != 0)
        shp_store_rollback(store);
    return err;
}

void shp_store_rollback(struct shp_store *store)
{
    /* SQLite may have rolled back by itself, as it does when the disk is full. */
    if (sqlite3_get_autocommit(store->db))
        return;
    char kept[SHP_STORE_ERROR_MAX];
    memcpy(kept, store->error, sizeof kept);
    shp_store_run(store, shp_store_statement(store, SHP_STORE_SQL_ROLLBACK), "rollback", NULL);
    memcpy(store->error, kept, sizeof kept);
}

void shp_store_bind_text(struct shp_store *store, sqlite3_stmt *statement, int index,
                         const char *text)
{
    /* Static: the caller's text outlives the step, and the binding is cleared after it. */
    int rc = text == NULL ? sqlite3_bind_null(statement, index)
                          : sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC);
    if (rc != SQLITE_OK)
        store->bind_code = rc;
}

void shp_store_bind_u64(sqlite3_stmt *statement, int index, uint64_t value)
{
    sqlite3_bind_int64(statement, index, (sqlite3_int64)value);
}

int shp_store_column_dup(sqlite3_stmt *statement, int column, char **out)
{
    if (sqlite3_column_type(statement, column) == SQLITE_NULL) {
        *out = NULL;
        return 0;
    }
    const char *text = (const char *)sqlite3_column_text(statement, column);
    char *copy = text != NULL ? strdup(text) : NULL;
    if (copy == NULL)
        return SHP_ERR_NOMEM;
    *out = copy;
    return 0;
}

void shp_store_column_copy(sqlite3_stmt *statement, int column, char *out, size_t size)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    snprintf(out, size, "%s", text != NULL ? text : "");
}

int shp_store_keys(struct shp_store *store, enum shp_store_sql id, struct shp_store_keys *out)
{
    sqlite3_stmt *statement = shp_store_statement(store, id);
    if (statement == NULL)
        return shp_store_failure(store, "read keys");
    char(*items)[SHP_STORE_KEY_MAX] = NULL;
    size_t len = 0, room = 0;
    int err = 0, rc;
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW && len < KEYS_MAX) {
        if (len == room) {
            size_t wanted = room == 0 ? 16 : room * 2;
            void *grown = realloc(items, wanted * sizeof *items);
            if (grown == NULL) {
                err = SHP_ERR_NOMEM;
                break;
            }
            items = grown;
            room = wanted;
        }
        shp_store_column_copy(statement, 0, items[len++], SHP_STORE_KEY_MAX);
    }
    if (err == 0 && rc != SQLITE_DONE && rc != SQLITE_ROW)
        err = shp_store_failure(store, "read keys");
    shp_store_reset(statement);
    if (err != 0) {
        free(items);
        return err;
    }
    out->items = items;
    out->len = len;
    return 0;
}

/* ---- open and close ----------------------------------------------------------------------------
 */

/* Make path a directory of ours: 0700, made if it is not there. */
static int private_directory(const char *path, bool tighten)
{
    struct stat st;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return -1;
    if (stat(path, &st) != 0)
        return -1;
    if (!S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return -1;
    }
    if (tighten && st.st_uid == geteuid() && (st.st_mode & 077) != 0)
        return chmod(path, 0700);
    return 0;
}

bool shp_store_network(const char *directory)
{
    static const unsigned long types[] = {
        NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC,
        CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC,
        FUSE_SUPER_MAGIC, AFS_SUPER_MAGIC,
        AFS_FS_MAGIC,     CODA_SUPER_MAGIC,
        NCP_SUPER_MAGIC,  V9FS_MAGIC,
        CEPH_SUPER_MAGIC, 0x786f4256UL /* VirtualBox shared folders, not in the kernel's list */,
    };
    struct statfs fs;
    if (statfs(directory, &fs) != 0)
        return true;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (((unsigned long)fs.f_type & 0xffffffffUL) == types[i])
            return true;
    return false;
}

static int sync_path(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int rc = fsync(fd);
    close(fd);
    return rc;
}

/* <sanitized pi session id>-<8 hex of the header's hash>.db */
static void database_name(char *out, size_t size, const struct shp_store_options *options)
{
    char id[PI_SESSION_NAME_MAX + 1];
    size_t len = 0;
    for (const char *p = options->pi_session_id; *p != '\0' && len < PI_SESSION_NAME_MAX; p++) {
        char c = *p;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '_' || (c == '.' && len > 0);
        id[len++] = plain ? c : '_';
    }
    id[len] = '\0';
    unsigned char hash[crypto_generichash_BYTES_MIN];
    const char *header = options->header != NULL ? options->header : "";
    crypto_generichash(hash, sizeof hash, (const unsigned char *)header, strlen(header), NULL, 0);
    snprintf(out, size, "%s-%02x%02x%02x%02x.db", id, hash[0], hash[1], hash[2], hash[3]);
}

static int fail(struct shp_error *error, int err, const char *what, const char *path)
{
    int saved = errno;
    shp_error_set(error, SHP_CODE_STORE_FAILED, NULL, "open store", "%s %s: %s", what, path,
                  strerror(saved));
    return err;
}

static int file_prepare(struct shp_store *store, const struct shp_store_options *options,
                        bool *network, struct shp_error *error)
{
    char path[SHP_STORE_PATH_MAX], name[PI_SESSION_NAME_MAX + 16];
    database_name(name, sizeof name, options);
    int len = snprintf(store->path, sizeof store->path, "%s/shepherdr/state/%s", options->agent_dir,
                       name);
    if (len < 0 || (size_t)len + sizeof ".lock" + 8 > sizeof store->path) {
        shp_error_set(error, SHP_CODE_STORE_FAILED, NULL, "open store",
                      "the path of the agent directory is too long");
        return SHP_ERR_LIMIT;
    }
    static const char *const folders[] = {"", "/shepherdr", "/shepherdr/state"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(path, sizeof path, "%s%s", options->agent_dir, folders[i]);
        if (private_directory(path, i == 2) != 0)
            return fail(error, SHP_ERR_IO, "cannot use the directory", path);
    }
    *network = shp_store_network(path);

    char lock_path[SHP_STORE_PATH_MAX + 8], since[SHP_STORE_SINCE_MAX];
    snprintf(lock_path, sizeof lock_path, "%s.lock", store->path);
    long holder = 0;
    int lock = shp_store_lock(lock_path, options->now_unix_ms, &holder, since);
    if (lock == SHP_ERR_EXISTS) {
        if (holder > 0)
            shp_error_set(error, SHP_CODE_SESSION_IN_USE, NULL, "open store",
                          "process %ld controls from this pi session since %s", holder, since);
        else
            shp_error_set(error, SHP_CODE_SESSION_IN_USE, NULL, "open store",
                          "another process controls from this pi session since %s", since);
        return SHP_ERR_EXISTS;
    }
    if (lock < 0)
        return fail(error, SHP_ERR_IO, "cannot lock", lock_path);
    store->lock_fd = lock;

    /* SQLite would make it with the umask's mode, and its WAL takes over the mode of the file. */
    int fd = open(store->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        close(fd);
        if (sync_path(path, O_RDONLY | O_DIRECTORY) != 0)
            return fail(error, SHP_ERR_IO, "cannot sync", path);
        return 0;
    }
    struct stat st;
    if (errno != EEXIST || lstat(store->path, &st) != 0)
        return fail(error, SHP_ERR_IO, "cannot create", store->path);
    if (!S_ISREG(st.st_mode)) {
        errno = EINVAL;
        return fail(error, SHP_ERR_IO, "no regular file stands at", store->path);
    }
    if ((st.st_mode & 077) != 0 && chmod(store->path, 0600) != 0)
        return fail(error, SHP_ERR_IO, "cannot protect", store->path);
    return 0;
}

static int session_begin(struct shp_store *store, const struct shp_store_options *options)
{
    int err = shp_store_begin(store);
    if (err != 0)
        return err;
    char now[24];
    snprintf(now, sizeof now, "%llu", (unsigned long long)options->now_unix_ms);
    const char *file = options->pi_session_file;
    if (file != NULL && file[0] != '\0')
        err = shp_store_meta_set(store->db, "pi_session_file", file);
    if (err == 0)
        err = shp_store_meta_set(store->db, "pi_session_id", options->pi_session_id);
    if (err == 0)
        err = shp_store_meta_set(store->db, "header", options->header ? options->header : "");
    if (err == 0)
        err = shp_store_meta_set(store->db, "opened_unix_ms", now);
    if (err == 0)
        err = shp_store_meta_set(store->db, "gone_unix_ms", NULL);
    /* Calls did not survive the process that held them, nor did what was on its way to Pi. */
    if (err == 0 && sqlite3_exec(store->db,
                                 "UPDATE tasks SET held = 0 WHERE held != 0;"
                                 "UPDATE reports SET state = 0 WHERE state = 1",
                                 NULL, NULL, NULL) != SQLITE_OK)
        err = SHP_ERR_IO;
    if (err != 0) {
        err = shp_store_failure(store, "begin session");
        shp_store_rollback(store);
        return err;
    }
    return shp_store_commit(store);
}

int shp_store_open(struct shp_store **out, const struct shp_store_options *options,
                   struct shp_error *error)
{
    bool memory = options->memory;
    if (!memory && (options->agent_dir == NULL || options->agent_dir[0] != '/' ||
                    options->pi_session_id == NULL || options->pi_session_id[0] == '\0')) {
        shp_error_set(error, SHP_CODE_STORE_FAILED, NULL, "open store",
                      "no absolute agent directory or no pi session id");
        return SHP_ERR_INVALID;
    }
    if (sodium_init() < 0) {
        shp_error_set(error, SHP_CODE_STORE_FAILED, NULL, "open store", "libsodium does not start");
        return SHP_ERR_IO;
    }
    struct shp_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        shp_error_set(error, SHP_CODE_OUT_OF_MEMORY, NULL, "open store", "no memory");
        return SHP_ERR_NOMEM;
    }
    store->lock_fd = store->wal_fd = -1;
    bool network = false;
    int err = memory ? 0 : file_prepare(store, options, &network, error);
    if (err != 0)
        goto out;
    char cause[SHP_STORE_ERROR_MAX];
    err = shp_store_database_open(&store->db, memory ? ":memory:" : store->path,
                                  !memory && !network, &store->wal, cause, sizeof cause);
    if (err != 0) {
        shp_error_set(error, SHP_CODE_STORE_FAILED, NULL, "open store", "%s: %s",
                      memory ? "memory" : store->path, cause);
        goto out;
    }
    if (!memory) {
        err = session_begin(store, options);
        if (err == 0)
            err = shp_store_sync(store);
        if (err != 0) {
            shp_error_set(error, SHP_CODE_STORE_FAILED, NULL, "open store", "%s", store->error);
            goto out;
        }
    }
    *out = store;
    return 0;
out:
    shp_store_close(store);
    return err;
}

void shp_store_close(struct shp_store *store)
{
    if (store == NULL)
        return;
    for (size_t i = 0; i < SHP_STORE_SQL_COUNT; i++)
        sqlite3_finalize(store->statements[i]);
    if (store->wal_fd >= 0)
        close(store->wal_fd);
    sqlite3_close(store->db);
    /* The lock last: whoever gets it finds a closed database. */
    if (store->lock_fd >= 0)
        close(store->lock_fd);
    free(store);
}

const char *shp_store_error(const struct shp_store *store)
{
    return store->error;
}

bool shp_store_durable(const struct shp_store *store)
{
    return store->path[0] != '\0';
}

int shp_store_sync(struct shp_store *store)
{
    if (!store->unsynced || !store->wal) {
        store->unsynced = false;
        return 0;
    }
    /* The WAL holds every commit and lives as long as our connection; syncing it is cheaper than a
     * checkpoint. SQLite takes no locks on it, so a descriptor of our own does no harm. */
    if (store->wal_fd < 0) {
        char path[SHP_STORE_PATH_MAX + 8], *slash;
        snprintf(path, sizeof path, "%s-wal", store->path);
        store->wal_fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        slash = strrchr(path, '/');
        if (store->wal_fd >= 0 && slash != NULL) {
            *slash = '\0';
            if (sync_path(path, O_RDONLY | O_DIRECTORY) != 0) {
                close(store->wal_fd);
                store->wal_fd = -1;
            }
        }
        if (store->wal_fd < 0) {
            snprintf(store->error, sizeof store->error, "open the log of %.512s: %s", store->path,
                     strerror(errno));
            return SHP_ERR_IO;
        }
    }
    if (fdatasync(store->wal_fd) != 0) {
        snprintf(store->error, sizeof store->error, "sync %.512s: %s", store->path,
                 strerror(errno));
        return SHP_ERR_IO;
    }
    store->unsynced = false;
    return 0;
}
