/*
 * Inside of the store: the handle, its cached statements, and the small helpers that bind, run and
 * read them. For controller/store alone (and its tests).
 *
 * Rule for iteration: an _each function first collects keys, then loads one row after the other. No
 * statement is open while a callback runs, so a callback may change the store.
 */
#ifndef SHP_CONTROLLER_STORE_STORE_INTERNAL_H
#define SHP_CONTROLLER_STORE_STORE_INTERNAL_H

#include <sqlite3.h>

#include "controller/store/store.h"

#define SHP_STORE_SCHEMA 1
#define SHP_STORE_APPLICATION_ID 0x53485031 /* "SHP1" */
#define SHP_STORE_PATH_MAX 4096
#define SHP_STORE_ERROR_MAX 768

/* Finished operations exist for repeats after a crash, which come within seconds. */
#define SHP_STORE_OPERATIONS_KEPT 256
#define SHP_STORE_OPERATION_BYTES_KEPT (64 * 1024 * 1024)

/* The statements, one list for ids and texts. */
#define SHP_STORE_SQL_MAP(XX)                                                                      \
    XX(BEGIN, "BEGIN IMMEDIATE")                                                                   \
    XX(COMMIT, "COMMIT")                                                                           \
    XX(ROLLBACK, "ROLLBACK")                                                                       \
    XX(OPERATION_ADD, "INSERT INTO operations(id, state, call, message, created_unix_ms, bytes) "  \
                      "VALUES(?1, 0, ?2, ?3, ?4, 0)")                                              \
    XX(OPERATION_GET, "SELECT id, state, call, message, result, bulk_field, bulk, progress "       \
                      "FROM operations WHERE id = ?1")                                             \
    XX(OPERATION_ACTING, "UPDATE operations SET state = 1, step = ?2, progress = ?3 "              \
                         "WHERE id = ?1 AND state IN (0, 1)")                                      \
    XX(OPERATION_END,                                                                              \
       "UPDATE operations SET state = ?2, result = ?3, bulk_field = ?4, bulk = ?5, bytes = ?6 "    \
       "WHERE id = ?1")                                                                            \
    XX(OPERATION_PRUNE,                                                                            \
       "DELETE FROM operations WHERE seq IN (SELECT seq FROM ("                                    \
       "SELECT seq, row_number() OVER newest AS place, sum(bytes) OVER newest AS total "           \
       "FROM operations WHERE state IN (2, 3) WINDOW newest AS (ORDER BY seq DESC)) "              \
       "WHERE place > ?1 OR (place > 1 AND total > ?2))")                                          \
    XX(OPERATION_OPEN, "SELECT id FROM operations WHERE state IN (0, 1) ORDER BY seq")             \
    XX(AGENT_PUT,                                                                                  \
       "INSERT INTO agents(id, machine, terminal_id, pi_session_id, session_file, pane, name, "    \
       "label, profile, cwd, operation, origin, watched, closed) "                                 \
       "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) "                      \
       "ON CONFLICT(id) DO UPDATE SET machine = ?2, terminal_id = ?3, pi_session_id = ?4, "        \
       "session_file = ?5, pane = ?6, name = ?7, label = ?8, profile = ?9, cwd = ?10, "            \
       "operation = ?11, origin = ?12, watched = ?13, closed = ?14")                               \
    XX(AGENT_GET, SHP_STORE_AGENT_COLUMNS "WHERE id = ?1")                                         \
    XX(AGENT_FIND, SHP_STORE_AGENT_COLUMNS                                                         \
       "WHERE machine = ?1 AND terminal_id = ?2 ORDER BY closed, seq DESC LIMIT 1")                \
    XX(AGENT_ALL, "SELECT id FROM agents ORDER BY seq")                                            \
    XX(TASK_PUT,                                                                                   \
       "INSERT INTO tasks(id, agent, input, state, delivery, text, sender, operation, held, "      \
       "created_unix_ms) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) "                         \
       "ON CONFLICT(id) DO UPDATE SET agent = ?2, input = ?3, state = ?4, delivery = ?5, "         \
       "text = ?6, sender = ?7, operation = ?8, held = ?9, created_unix_ms = ?10")                 \
    XX(TASK_GET, SHP_STORE_TASK_COLUMNS "WHERE id = ?1")                                           \
    XX(TASK_BY_INPUT, SHP_STORE_TASK_COLUMNS "WHERE input = ?1")                                   \
    XX(TASK_OPEN, "SELECT id FROM tasks WHERE state IN (0, 1) ORDER BY seq")                       \
    XX(TASK_COUNT_OPEN, "SELECT count(*) FROM tasks WHERE state IN (0, 1)")                        \
    XX(TASK_STATE, "SELECT state FROM tasks WHERE id = ?1")                                        \
    XX(TASK_SETTLE, "UPDATE tasks SET state = ?2, held = 0 WHERE id = ?1")                         \
    XX(REPORT_ADD, "INSERT INTO reports(id, task, state, details, text, created_unix_ms) "         \
                   "VALUES(?1, ?2, ?3, ?4, ?5, ?6)")                                               \
    XX(REPORT_GET,                                                                                 \
       "SELECT id, task, state, details, text, created_unix_ms FROM reports WHERE id = ?1")        \
    XX(REPORT_MARK, "UPDATE reports SET state = ?2 WHERE id = ?1")                                 \
    XX(REPORT_HOLD, "UPDATE reports SET state = 4 WHERE task = ?1 AND state IN (0, 4)")            \
    XX(REPORT_RELEASE, "UPDATE reports SET state = 0 WHERE state IN (2, 4)")                       \
    XX(REPORT_DUE, "SELECT id FROM reports WHERE state IN (0, 1) ORDER BY seq")

#define SHP_STORE_AGENT_COLUMNS                                                                    \
    "SELECT id, machine, terminal_id, pi_session_id, session_file, pane, name, label, profile, "   \
    "cwd, operation, origin, watched, closed FROM agents "
#define SHP_STORE_TASK_COLUMNS                                                                     \
    "SELECT id, agent, input, state, delivery, text, sender, operation, held, created_unix_ms "    \
    "FROM tasks "

enum shp_store_sql {
#define XX(name, text) SHP_STORE_SQL_##name,
    SHP_STORE_SQL_MAP(XX)
#undef XX
        SHP_STORE_SQL_COUNT
};

struct shp_store {
    sqlite3 *db;
    sqlite3_stmt *statements[SHP_STORE_SQL_COUNT]; /* prepared on first use */
    char path[SHP_STORE_PATH_MAX];                 /* empty: memory */
    int lock_fd;                                   /* -1: memory */
    int wal_fd; /* for shp_store_sync; -1 until first needed, or with a rollback journal */
    bool wal;
    bool unsynced;             /* something was committed since the last sync */
    int bind_code;             /* SQLite's, of a bind that failed since the last run */
    unsigned operations_ended; /* since open; counts towards the next prune */
    char error[SHP_STORE_ERROR_MAX];
};

/* ---- store_lock.c ------------------------------------------------------------------------------
 */

/*
 * Take the writer's lock at path (which is created, and stays). Returns the descriptor, or
 * SHP_ERR_EXISTS (another holder; *holder_pid, 0 if unknown, and since tell which),
 * SHP_ERR_IO with errno set.
 */
#define SHP_STORE_SINCE_MAX 32
int shp_store_lock(const char *path, uint64_t now_unix_ms, long *holder_pid,
                   char since[SHP_STORE_SINCE_MAX]);

/* ---- store_schema.c ----------------------------------------------------------------------------
 */

/*
 * Open the database file (or ":memory:") and bring its schema up to date; *db is closed again on
 * failure. cause gets a sentence for people. Returns SHP_ERR_VERSION (newer schema),
 * SHP_ERR_INVALID (not a database of ours, or damaged), SHP_ERR_NOMEM, SHP_ERR_IO.
 */
int shp_store_database_open(sqlite3 **db, const char *path, bool wal_wanted, bool *wal, char *cause,
                            size_t cause_size);
/* Value of a meta key: 0 with *value malloc'ed, SHP_ERR_NOT_FOUND, SHP_ERR_NOMEM, SHP_ERR_IO. */
int shp_store_meta_get(sqlite3 *db, const char *key, char **value);
/* NULL removes the key. */
int shp_store_meta_set(sqlite3 *db, const char *key, const char *value);

/* ---- store.c: where it lies ---------------------------------------------------------------------
 */

/* Whether the directory is on a file system where the shared memory and the byte-range locks of WAL
 * are not reliable: network and user-space ones, and those that cannot be asked. */
bool shp_store_network(const char *directory);

/* ---- store.c: helpers over the cached statements -----------------------------------------------
 */

/* The statement, reset and without bindings; NULL: shp_store_error tells, return store_failure. */
sqlite3_stmt *shp_store_statement(struct shp_store *store, enum shp_store_sql id);
/* Turn a SQLite result into an enum shp_err and remember its text. */
int shp_store_failure(struct shp_store *store, const char *what);
/* Reset and forget the bindings. */
void shp_store_reset(sqlite3_stmt *statement);
/* Step a statement that returns no row; it is reset. *changed (may be NULL): rows it changed. */
int shp_store_run(struct shp_store *store, sqlite3_stmt *statement, const char *what, int *changed);
int shp_store_begin(struct shp_store *store);
int shp_store_commit(struct shp_store *store);    /* rolls back when it fails */
void shp_store_rollback(struct shp_store *store); /* keeps shp_store_error */

/* text may be NULL. A failure (text above the value limit) is told by the shp_store_run that
 * follows: the parameter would else be NULL without a word. */
void shp_store_bind_text(struct shp_store *store, sqlite3_stmt *statement, int index,
                         const char *text);
void shp_store_bind_u64(sqlite3_stmt *statement, int index, uint64_t value);
/* Copy a column; NULL stays NULL. Returns 0 or SHP_ERR_NOMEM. */
int shp_store_column_dup(sqlite3_stmt *statement, int column, char **out);
void shp_store_column_copy(sqlite3_stmt *statement, int column, char *out, size_t size);

#define SHP_STORE_KEY_MAX 65 /* longest id, with its NUL */
struct shp_store_keys {
    char (*items)[SHP_STORE_KEY_MAX];
    size_t len;
};
/* First column of every row. Free items with free(). */
int shp_store_keys(struct shp_store *store, enum shp_store_sql id, struct shp_store_keys *out);

#endif
