#include "controller/store/store_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A reader holds its lock for milliseconds only; a longer wait would stop the loop. */
#define BUSY_TIMEOUT_MS 2000
/* Largest value: a bulk section (8 MiB) with room. */
#define VALUE_BYTES_MAX (16 * 1024 * 1024)
/* quick_check reads the whole file: only where that costs milliseconds. */
#define QUICK_CHECK_PAGES_MAX 4096

static const char schema_v1[] =
    "CREATE TABLE meta(key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE operations("
    " seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, state INTEGER NOT NULL,"
    " call TEXT NOT NULL, message TEXT, step TEXT, progress TEXT NOT NULL DEFAULT '{}',"
    " result TEXT, bulk_field TEXT, bulk TEXT, created_unix_ms INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL);"
    "CREATE INDEX operations_state ON operations(state);"
    "CREATE TABLE agents("
    " seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, machine TEXT NOT NULL,"
    " terminal_id TEXT NOT NULL, pi_session_id TEXT, session_file TEXT, pane TEXT, name TEXT,"
    " label TEXT, profile TEXT, cwd TEXT, operation TEXT, origin INTEGER NOT NULL,"
    " watched INTEGER NOT NULL, closed INTEGER NOT NULL);"
    "CREATE INDEX agents_terminal ON agents(machine, terminal_id);"
    "CREATE TABLE tasks("
    " seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
    " agent TEXT NOT NULL REFERENCES agents(id), input TEXT NOT NULL UNIQUE,"
    " state INTEGER NOT NULL, delivery INTEGER NOT NULL, text TEXT NOT NULL, sender TEXT,"
    " operation TEXT, held INTEGER NOT NULL, created_unix_ms INTEGER NOT NULL);"
    "CREATE INDEX tasks_state ON tasks(state);"
    "CREATE TABLE reports("
    " seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, task TEXT REFERENCES tasks(id),"
    " state INTEGER NOT NULL, details TEXT NOT NULL, text TEXT NOT NULL,"
    " created_unix_ms INTEGER NOT NULL);"
    "CREATE INDEX reports_state ON reports(state);";

static int read_int(sqlite3 *db, const char *sql, int *value)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        *value = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return rc == SQLITE_ROW ? SQLITE_OK : (rc == SQLITE_DONE ? SQLITE_ERROR : rc);
}

/* *is: the first column of the first row equals expected. */
static int read_is(sqlite3 *db, const char *sql, const char *expected, bool *is)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        *is = text != NULL && strcmp(text, expected) == 0;
    }
    sqlite3_finalize(statement);
    return rc == SQLITE_ROW ? SQLITE_OK : (rc == SQLITE_DONE ? SQLITE_ERROR : rc);
}

static int migrate(sqlite3 *db, char *cause, size_t cause_size)
{
    int version = 0, application = 0, objects = 0;
    int rc = read_int(db, "PRAGMA user_version", &version);
    if (rc == SQLITE_OK)
        rc = read_int(db, "PRAGMA application_id", &application);
    if (rc == SQLITE_OK)
        rc = read_int(db, "SELECT count(*) FROM sqlite_master", &objects);
    if (rc != SQLITE_OK)
        return rc;
    bool empty = version == 0 && application == 0 && objects == 0;
    if (!empty && (application != SHP_STORE_APPLICATION_ID || version < 1)) {
        snprintf(cause, cause_size, "the file is a database of another program");
        return SQLITE_NOTADB;
    }
    if (version > SHP_STORE_SCHEMA) {
        snprintf(cause, cause_size,
                 "it was written by a newer shepherdr (schema %d, this one knows up to %d)",
                 version, SHP_STORE_SCHEMA);
        return SQLITE_SCHEMA;
    }
    if (!empty)
        return SQLITE_OK;
    char stamp[96];
    snprintf(stamp, sizeof stamp, "PRAGMA application_id=%d; PRAGMA user_version=%d; COMMIT",
             SHP_STORE_APPLICATION_ID, SHP_STORE_SCHEMA);
    rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, schema_v1, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, stamp, NULL, NULL, NULL);
    return rc;
}

static int configure(sqlite3 *db, bool wal_wanted, bool *wal, char *cause, size_t cause_size)
{
    sqlite3_extended_result_codes(db, 1);
    sqlite3_busy_timeout(db, BUSY_TIMEOUT_MS);
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX);
    sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
    /* Version and shape are looked at before anything may be written. */
    int rc = migrate(db, cause, cause_size);
    if (rc != SQLITE_OK)
        return rc;
    *wal = false;
    if (wal_wanted)
        rc = read_is(db, "PRAGMA journal_mode=WAL", "wal", wal);
    if (rc == SQLITE_OK && !*wal) {
        bool truncate;
        rc = read_is(db, "PRAGMA journal_mode=TRUNCATE", "truncate", &truncate);
    }
    if (rc == SQLITE_OK)
        /* WAL: shp_store_sync makes a group power-durable; without it every commit is. */
        rc = sqlite3_exec(db, *wal ? "PRAGMA synchronous=NORMAL" : "PRAGMA synchronous=FULL", NULL,
                          NULL, NULL);
    if (rc == SQLITE_OK)
        rc =
            sqlite3_exec(db, "PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF", NULL, NULL, NULL);
    int pages = 0;
    if (rc == SQLITE_OK)
        rc = read_int(db, "PRAGMA page_count", &pages);
    if (rc == SQLITE_OK && pages <= QUICK_CHECK_PAGES_MAX) {
        bool intact = true;
        rc = read_is(db, "PRAGMA quick_check(1)", "ok", &intact);
        if (rc == SQLITE_OK && !intact)
            rc = SQLITE_CORRUPT;
    }
    return rc;
}

int shp_store_database_open(sqlite3 **db, const char *path, bool wal_wanted, bool *wal, char *cause,
                            size_t cause_size)
{
    cause[0] = '\0';
    sqlite3 *handle = NULL;
    int rc = sqlite3_open_v2(
        path, &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_OK)
        rc = configure(handle, wal_wanted, wal, cause, cause_size);
    if (rc == SQLITE_OK) {
        *db = handle;
        return 0;
    }
    int err = SHP_ERR_IO;
    switch (rc & 0xff) {
    case SQLITE_SCHEMA:
        err = SHP_ERR_VERSION;
        break;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        err = SHP_ERR_INVALID;
        if (cause[0] == '\0')
            snprintf(cause, cause_size, "the file is damaged or no database; it was kept as it is");
        break;
    case SQLITE_NOMEM:
        err = SHP_ERR_NOMEM;
        break;
    case SQLITE_FULL:
        snprintf(cause, cause_size, "no space left on the disk");
        break;
    default:
        break;
    }
    if (cause[0] == '\0')
        snprintf(cause, cause_size, "%s",
                 handle != NULL ? sqlite3_errmsg(handle) : sqlite3_errstr(rc));
    sqlite3_close(handle);
    return err;
}

int shp_store_meta_get(sqlite3 *db, const char *key, char **value)
{
    sqlite3_stmt *statement = NULL;
    int err = SHP_ERR_IO;
    if (sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE key = ?1", -1, &statement, NULL) !=
        SQLITE_OK)
        return SHP_ERR_IO;
    sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        err = shp_store_column_dup(statement, 0, value);
    else if (rc == SQLITE_DONE)
        err = SHP_ERR_NOT_FOUND;
    sqlite3_finalize(statement);
    return err;
}

int shp_store_meta_set(sqlite3 *db, const char *key, const char *value)
{
    sqlite3_stmt *statement = NULL;
    const char *sql = value != NULL ? "INSERT INTO meta(key, value) VALUES(?1, ?2) "
                                      "ON CONFLICT(key) DO UPDATE SET value = ?2"
                                    : "DELETE FROM meta WHERE key = ?1";
    int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
        rc = value != NULL ? sqlite3_bind_text(statement, 2, value, -1, SQLITE_STATIC) : SQLITE_OK;
        if (rc == SQLITE_OK)
            rc = sqlite3_step(statement);
    }
    sqlite3_finalize(statement);
    if (rc == SQLITE_DONE)
        return 0;
    return (rc & 0xff) == SQLITE_NOMEM ? SHP_ERR_NOMEM : SHP_ERR_IO;
}
