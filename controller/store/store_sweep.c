/*
 * The sweep of databases whose pi session is gone. When a session file vanished is not recorded
 * anywhere, so the first sweep that misses it writes the time into the database, and a sweep 30
 * days later removes it. Databases in use are locked by their owner and left alone; so are those
 * that cannot be read, which a person may want to look at.
 */
#include "controller/store/store_internal.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SWEEP_FILES_MAX 64
#define SWEEP_NAMES_MAX 4096
#define DAY_MS (24ULL * 60 * 60 * 1000)
#define KEEP_MS (30 * DAY_MS)

static bool is_database(const char *name)
{
    size_t len = strlen(name);
    return len > 3 && name[0] != '.' && strcmp(name + len - 3, ".db") == 0;
}

/* Whether the database is to be removed; marks when the session file was first missed. */
static bool expired(const char *path, bool wal_wanted, uint64_t now_unix_ms)
{
    sqlite3 *db = NULL;
    char cause[SHP_STORE_ERROR_MAX], *file = NULL, *gone = NULL, now[24];
    bool wal, result = false;
    if (shp_store_database_open(&db, path, wal_wanted, &wal, cause, sizeof cause) != 0)
        return false;
    int have_file = shp_store_meta_get(db, "pi_session_file", &file);
    int have_gone = shp_store_meta_get(db, "gone_unix_ms", &gone);
    if ((have_file != 0 && have_file != SHP_ERR_NOT_FOUND) ||
        (have_gone != 0 && have_gone != SHP_ERR_NOT_FOUND))
        goto out;
    bool there = have_file == 0 && file != NULL && access(file, F_OK) == 0;
    if (there) {
        if (have_gone == 0)
            (void)shp_store_meta_set(db, "gone_unix_ms", NULL);
    } else if (have_gone != 0) {
        snprintf(now, sizeof now, "%llu", (unsigned long long)now_unix_ms);
        (void)shp_store_meta_set(db, "gone_unix_ms", now);
    } else {
        uint64_t since = strtoull(gone, NULL, 10);
        result = now_unix_ms > since && now_unix_ms - since >= KEEP_MS;
    }
out:
    free(file);
    free(gone);
    sqlite3_close(db);
    return result;
}

static void sweep_one(const char *path, bool wal_wanted, uint64_t now_unix_ms)
{
    char lock_path[SHP_STORE_PATH_MAX + 16], side[SHP_STORE_PATH_MAX + 16];
    char since[SHP_STORE_SINCE_MAX];
    long holder;
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    int lock = shp_store_lock(lock_path, now_unix_ms, &holder, since);
    if (lock < 0)
        return;
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && expired(path, wal_wanted, now_unix_ms)) {
        static const char *const endings[] = {"", "-wal", "-shm", "-journal", ".lock"};
        for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
            snprintf(side, sizeof side, "%s%s", path, endings[i]);
            unlink(side);
        }
    }
    close(lock);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void shp_store_sweep(const char *agent_dir, uint64_t now_unix_ms)
{
    char folder[SHP_STORE_PATH_MAX], path[SHP_STORE_PATH_MAX];
    int len = snprintf(folder, sizeof folder, "%s/shepherdr/state", agent_dir);
    if (len < 0 || (size_t)len >= sizeof folder)
        return;
    bool wal_wanted = !shp_store_network(folder);
    DIR *dir = opendir(folder);
    char **names = calloc(SWEEP_NAMES_MAX, sizeof *names);
    size_t count = 0;
    struct dirent *entry;
    while (dir != NULL && names != NULL && count < SWEEP_NAMES_MAX &&
           (entry = readdir(dir)) != NULL) {
        if (is_database(entry->d_name) && (names[count] = strdup(entry->d_name)) != NULL)
            count++;
    }
    if (count > 0) {
        qsort(names, count, sizeof *names, by_name);
        /* Where there are more than one call may look at, another day looks at others. */
        size_t start =
            count > SWEEP_FILES_MAX ? (size_t)(now_unix_ms / DAY_MS * SWEEP_FILES_MAX % count) : 0;
        for (size_t i = 0; i < count && i < SWEEP_FILES_MAX; i++) {
            len = snprintf(path, sizeof path, "%s/%s", folder, names[(start + i) % count]);
            if (len > 0 && (size_t)len < sizeof path)
                sweep_one(path, wal_wanted, now_unix_ms);
        }
    }
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
    if (dir != NULL)
        closedir(dir);
}
