/* controller/store: files, locks, the death of a writer; failures say why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/messages.h"
#include "tests/support/store_fixture.h"
#include "tests/support/temp_root.h"

static char *database_path(const char *root)
{
    struct shp_store *store = open_store(root);
    char *path = strdup(store->path);
    shp_store_close(store);
    return path;
}

static void open_fails(const char *root, int err, int code, const char *cause)
{
    struct shp_store_options options = options_for(root);
    struct shp_store *store = NULL;
    struct shp_error error = {0};
    assert_int_equal(shp_store_open(&store, &options, &error), err);
    assert_null(store);
    assert_int_equal(error.code, code);
    assert_string_equal(error.step, "open store");
    if (strstr(error.cause, cause) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", cause, error.cause);
}

/* ---- one writer, and its death -----------------------------------------------------------------
 */

/* A child that opens the store, says so, and waits to be killed. */
static pid_t holder_start(const char *root)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct shp_store_options options = options_for(root);
        struct shp_store *store = NULL;
        struct shp_error error;
        if (shp_store_open(&store, &options, &error) != 0 || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    char byte;
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

static void reap(pid_t child)
{
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void second_opener_is_told_who_holds_it_and_since_when(void **state)
{
    char pid_text[64];
    pid_t child = holder_start(*state);
    snprintf(pid_text, sizeof pid_text, "process %ld ", (long)child);
    open_fails(*state, SHP_ERR_EXISTS, SHP_CODE_SESSION_IN_USE, pid_text);
    open_fails(*state, SHP_ERR_EXISTS, SHP_CODE_SESSION_IN_USE, "since 2026-09-21T14:13:20Z");
    reap(child);
    /* The lock died with its holder. */
    shp_store_close(open_store(*state));
}

static void other_sessions_and_forks_have_files_of_their_own(void **state)
{
    struct shp_store *store = open_store(*state), *forked = NULL;
    struct shp_store_options options = options_for(*state);
    struct shp_error error = {0};
    options.header = SESSION " 2026-09-22T08:00:00.000Z";
    assert_int_equal(shp_store_open(&forked, &options, &error), 0);
    assert_string_not_equal(store->path, forked->path);
    shp_store_close(forked);
    shp_store_close(store);
}

static void killed_writer_loses_nothing_that_it_committed(void **state)
{
    int told[2];
    assert_int_equal(pipe(told), 0);
    pid_t child = fork();
    if (child == 0) {
        struct shp_store *store = open_store(*state);
        put_agent(store, AGENT, "term-1", false);
        for (unsigned i = 1;; i++) {
            struct shp_report_record report;
            char id[SHP_STORE_KEY_MAX], task[33];
            snprintf(task, sizeof task, "%032u", i);
            snprintf(id, sizeof id, "entry-%u", i);
            report = report_of(id, task);
            if (put_task(store, i, SHP_TASK_RUNNING) != 0 ||
                shp_store_task_settle(store, task, SHP_TASK_COMPLETED, &report) != 0 ||
                write(told[1], &i, sizeof i) != (ssize_t)sizeof i)
                _exit(1);
        }
    }
    close(told[1]);
    unsigned committed = 0;
    while (committed < 300)
        assert_int_equal(read(told[0], &committed, sizeof committed), sizeof committed);
    kill(child, SIGKILL);
    unsigned last;
    while (read(told[0], &last, sizeof last) == (ssize_t)sizeof last)
        committed = last;
    close(told[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);

    struct shp_store *store = open_store(*state);
    struct shp_task_record task = {0};
    struct shp_report_record report;
    for (unsigned i = 1; i <= committed; i++) {
        char id[SHP_STORE_KEY_MAX];
        snprintf(id, sizeof id, "%032u", i);
        assert_int_equal(shp_store_task_get(store, id, &task), 0);
        assert_int_equal(task.state, SHP_TASK_COMPLETED);
        shp_task_record_fini(&task);
        snprintf(id, sizeof id, "entry-%u", i);
        report = report_of(id, "");
        assert_int_equal(shp_store_report_add(store, &report), SHP_ERR_EXISTS);
    }
    shp_store_close(store);
}

static void killed_writer_leaves_no_half_settlement(void **state)
{
    pid_t child = fork();
    if (child == 0) {
        struct shp_store *store = open_store(*state);
        put_agent(store, AGENT, "term-1", false);
        if (put_task(store, 1, SHP_TASK_RUNNING) != 0 || shp_store_begin(store) != 0)
            _exit(1);
        sqlite3_exec(store->db, "UPDATE tasks SET state = 2", NULL, NULL, NULL);
        kill(getpid(), SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    struct shp_store *store = open_store(*state);
    struct seen seen = {0};
    assert_int_equal(shp_store_task_each_open(store, see_task, &seen), 0);
    assert_int_equal(seen.len, 1);
    shp_store_close(store);
}

/* ---- bad files, bad folders --------------------------------------------------------------------
 */

static void file_that_is_no_database_is_refused_and_kept(void **state)
{
    static const char garbage[] = "this is no database, whatever its name says; 0123456789";
    char *path = database_path(*state);
    temp_write(path, garbage, sizeof garbage);
    open_fails(*state, SHP_ERR_INVALID, SHP_CODE_STORE_FAILED, "damaged or no database");
    open_fails(*state, SHP_ERR_INVALID, SHP_CODE_STORE_FAILED, path);
    size_t len;
    char *bytes = temp_read(path, &len);
    assert_int_equal(len, sizeof garbage);
    assert_memory_equal(bytes, garbage, len);
    free(bytes);
    free(path);
}

static void damaged_pages_are_noticed_at_open(void **state)
{
    struct shp_store *store = open_store(*state);
    char *path = strdup(store->path);
    put_agent(store, AGENT, "term-1", false);
    for (unsigned i = 1; i <= 200; i++)
        assert_int_equal(put_task(store, i, SHP_TASK_RUNNING), 0);
    shp_store_close(store);
    size_t len;
    char *bytes = temp_read(path, &len);
    assert_true(len > 8 * 4096);
    memset(bytes + 5 * 4096, 0xa5, len - 5 * 4096 - 4096);
    temp_write(path, bytes, len);
    free(bytes);
    open_fails(*state, SHP_ERR_INVALID, SHP_CODE_STORE_FAILED, "damaged");
    free(path);
}

static void sql_on_file(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void newer_schema_is_refused(void **state)
{
    char *path = database_path(*state);
    sql_on_file(path, "PRAGMA user_version = 99");
    open_fails(*state, SHP_ERR_VERSION, SHP_CODE_STORE_FAILED, "newer shepherdr (schema 99");
    free(path);
}

static void database_of_another_program_is_refused(void **state)
{
    char *path = database_path(*state);
    assert_int_equal(unlink(path), 0);
    sql_on_file(path, "CREATE TABLE bookmarks(url)");
    open_fails(*state, SHP_ERR_INVALID, SHP_CODE_STORE_FAILED, "another program");
    free(path);
}

static void link_at_the_place_of_the_file_is_refused(void **state)
{
    char *path = database_path(*state);
    char *elsewhere = temp_path(*state, "elsewhere.db");
    assert_int_equal(unlink(path), 0);
    temp_write(elsewhere, "", 0);
    assert_int_equal(symlink(elsewhere, path), 0);
    open_fails(*state, SHP_ERR_IO, SHP_CODE_STORE_FAILED, "no regular file");
    free(elsewhere);
    free(path);
}

static void folder_without_permission_is_named(void **state)
{
    /* Root may write anywhere, so a root test looks as somebody else. */
    pid_t child = fork();
    if (child == 0) {
        bool root = geteuid() == 0;
        if (root ? setgid(65534) != 0 || setuid(65534) != 0 : chmod(*state, 0555) != 0)
            _exit(2);
        struct shp_store_options options = options_for(*state);
        struct shp_store *store = NULL;
        struct shp_error error = {0};
        int err = shp_store_open(&store, &options, &error);
        bool good = err == SHP_ERR_IO && error.code == SHP_CODE_STORE_FAILED &&
                    strstr(error.cause, *state) != NULL &&
                    strstr(error.cause, "Permission denied") != NULL;
        if (!good)
            fprintf(stderr, "%d: %s\n", err, error.cause);
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(chmod(*state, 0755), 0);
    assert_int_equal(temp_entries(*state), 0);
}

static void file_in_the_way_of_a_folder_is_named(void **state)
{
    char *path = temp_path(*state, "shepherdr");
    temp_write(path, "x", 1);
    open_fails(*state, SHP_ERR_IO, SHP_CODE_STORE_FAILED, path);
    free(path);
}

static void agent_directory_must_be_absolute(void **state)
{
    (void)state;
    open_fails("relative", SHP_ERR_INVALID, SHP_CODE_STORE_FAILED, "absolute");
}

static void full_disk_says_so_and_changes_nothing(void **state)
{
    struct shp_store *store = open_store(*state);
    static const char task[] = "00000000000000000000000000000001";
    put_agent(store, AGENT, "term-1", false);
    assert_int_equal(put_task(store, 1, SHP_TASK_RUNNING), 0);
    sqlite3_exec(store->db, "PRAGMA max_page_count = 1", NULL, NULL, NULL);
    size_t len = 1024 * 1024;
    char *big = malloc(len + 1);
    memset(big, 'x', len);
    big[len] = '\0';
    struct shp_report_record report = report_of("entry-1", task);
    report.text = big;
    assert_int_equal(shp_store_task_settle(store, task, SHP_TASK_COMPLETED, &report), SHP_ERR_IO);
    assert_non_null(strstr(shp_store_error(store), "no space left on the disk"));
    assert_non_null(strstr(shp_store_error(store), store->path));
    struct seen seen = {0};
    assert_int_equal(shp_store_task_each_open(store, see_task, &seen), 0);
    assert_int_equal(seen.len, 1);

    /* Space again: the same store goes on. */
    sqlite3_exec(store->db, "PRAGMA max_page_count = 1000000", NULL, NULL, NULL);
    assert_int_equal(shp_store_task_settle(store, task, SHP_TASK_COMPLETED, &report), 0);
    free(big);
    shp_store_close(store);
}

static void text_above_the_value_limit_is_refused(void **state)
{
    struct shp_store *store = open_store(*state);
    size_t len = 17 * 1024 * 1024;
    char *big = malloc(len + 1);
    memset(big, 'x', len);
    big[len] = '\0';
    assert_int_equal(shp_store_operation_begin(store, "op1", "{}", big, NOW_MS, NULL, NULL),
                     SHP_ERR_IO);
    assert_int_equal(shp_store_operation_begin(store, "op1", "{}", "small", NOW_MS, NULL, NULL), 0);
    free(big);
    shp_store_close(store);
}

/* ---- places ------------------------------------------------------------------------------------
 */

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static void state_is_private_whatever_the_umask(void **state)
{
    mode_t old = umask(0);
    struct shp_store *store = open_store(*state);
    umask(old);
    char side[SHP_STORE_PATH_MAX + 8];
    put_agent(store, AGENT, "term-1", false);
    assert_int_equal(mode_of(store->path), 0600);
    snprintf(side, sizeof side, "%s-wal", store->path);
    assert_int_equal(mode_of(side), 0600);
    snprintf(side, sizeof side, "%s.lock", store->path);
    assert_int_equal(mode_of(side), 0600);
    char *folder = temp_path(*state, "shepherdr/state");
    assert_int_equal(mode_of(folder), 0700);
    shp_store_close(store);
    free(folder);
}

static void session_id_cannot_leave_the_folder(void **state)
{
    struct shp_store_options options = options_for(*state);
    struct shp_store *store = NULL;
    struct shp_error error = {0};
    options.pi_session_id = "../../../etc/x y";
    assert_int_equal(shp_store_open(&store, &options, &error), 0);
    const char *name = strrchr(store->path, '/') + 1;
    assert_memory_equal(name, "_._.._.._etc_x_y-", 17);
    assert_int_equal(strlen(name), 17 + 8 + 3);
    char *folder = temp_path(*state, "shepherdr/state/");
    assert_memory_equal(store->path, folder, strlen(folder));
    free(folder);
    shp_store_close(store);
}

static void sync_makes_the_log_durable_and_is_free_without_changes(void **state)
{
    struct shp_store *store = open_store(*state);
    assert_true(store->wal);
    assert_false(store->unsynced);
    put_agent(store, AGENT, "term-1", false);
    assert_true(store->unsynced);
    assert_int_equal(shp_store_sync(store), 0);
    assert_false(store->unsynced);
    assert_true(shp_store_durable(store));
    shp_store_close(store);
}

static void rollback_journal_serves_where_wal_cannot(void **state)
{
    char *path = temp_path(*state, "t.db"), cause[SHP_STORE_ERROR_MAX];
    sqlite3 *db = NULL;
    bool wal = true;
    assert_int_equal(shp_store_database_open(&db, path, true, &wal, cause, sizeof cause), 0);
    assert_true(wal);
    assert_int_equal(shp_store_meta_set(db, "k", "v"), 0);
    sqlite3_close(db);
    assert_int_equal(shp_store_database_open(&db, path, false, &wal, cause, sizeof cause), 0);
    assert_false(wal);
    char *value = NULL;
    assert_int_equal(shp_store_meta_get(db, "k", &value), 0);
    assert_string_equal(value, "v");
    free(value);
    sqlite3_close(db);
    free(path);
}

static void memory_store_leaves_nothing_on_disk(void **state)
{
    struct shp_store_options options = {.memory = true, .now_unix_ms = NOW_MS};
    struct shp_store *store = NULL;
    struct shp_error error = {0};
    assert_int_equal(shp_store_open(&store, &options, &error), 0);
    assert_false(shp_store_durable(store));
    put_agent(store, AGENT, "term-1", false);
    assert_int_equal(put_task(store, 1, SHP_TASK_RUNNING), 0);
    assert_int_equal(shp_store_sync(store), 0);
    shp_store_close(store);
    assert_int_equal(temp_entries(*state), 0);
}

/* ---- sweep -------------------------------------------------------------------------------------
 */

static void sweep_removes_only_what_was_gone_for_thirty_days(void **state)
{
    char *session_file = temp_path(*state, "session.jsonl");
    char *folder = temp_path(*state, "shepherdr/state");
    struct shp_store_options options = options_for(*state);
    struct shp_store *store = NULL;
    struct shp_error error = {0};
    temp_write(session_file, "x", 1);
    options.pi_session_file = session_file;
    assert_int_equal(shp_store_open(&store, &options, &error), 0);
    shp_store_close(store);

    /* The file is there: no time is long enough. */
    shp_store_sweep(*state, NOW_MS);
    shp_store_sweep(*state, NOW_MS + 100 * DAY_MS);
    assert_int_equal(temp_entries(folder), 2);

    /* Missed first at day 100, there again at day 110: counting starts over. */
    assert_int_equal(unlink(session_file), 0);
    shp_store_sweep(*state, NOW_MS + 100 * DAY_MS);
    temp_write(session_file, "x", 1);
    shp_store_sweep(*state, NOW_MS + 110 * DAY_MS);
    assert_int_equal(unlink(session_file), 0);
    shp_store_sweep(*state, NOW_MS + 131 * DAY_MS);
    assert_int_equal(temp_entries(folder), 2);
    shp_store_sweep(*state, NOW_MS + 160 * DAY_MS);
    assert_int_equal(temp_entries(folder), 2);
    shp_store_sweep(*state, NOW_MS + 161 * DAY_MS);
    assert_int_equal(temp_entries(folder), 0);
    free(folder);
    free(session_file);
}

static void sweep_leaves_used_and_unreadable_files_alone(void **state)
{
    char *folder = temp_path(*state, "shepherdr/state");
    struct shp_store_options options = options_for(*state);
    struct shp_store *store = NULL;
    struct shp_error error = {0};
    options.pi_session_file = "/nonexistent/session.jsonl";
    assert_int_equal(shp_store_open(&store, &options, &error), 0);
    char *broken = temp_path(folder, "broken.db");
    temp_write(broken, "no database, but perhaps somebody's", 35);
    shp_store_sweep(*state, NOW_MS);
    shp_store_sweep(*state, NOW_MS + 100 * DAY_MS);
    assert_int_equal(access(store->path, F_OK), 0);
    assert_int_equal(access(broken, F_OK), 0);
    shp_store_close(store);
    free(broken);
    free(folder);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, temp_root_setup, temp_root_teardown)
    const struct CMUnitTest tests[] = {
        CASE(second_opener_is_told_who_holds_it_and_since_when),
        CASE(other_sessions_and_forks_have_files_of_their_own),
        CASE(killed_writer_loses_nothing_that_it_committed),
        CASE(killed_writer_leaves_no_half_settlement),
        CASE(file_that_is_no_database_is_refused_and_kept),
        CASE(damaged_pages_are_noticed_at_open),
        CASE(newer_schema_is_refused),
        CASE(database_of_another_program_is_refused),
        CASE(link_at_the_place_of_the_file_is_refused),
        CASE(folder_without_permission_is_named),
        CASE(file_in_the_way_of_a_folder_is_named),
        CASE(agent_directory_must_be_absolute),
        CASE(full_disk_says_so_and_changes_nothing),
        CASE(text_above_the_value_limit_is_refused),
        CASE(state_is_private_whatever_the_umask),
        CASE(session_id_cannot_leave_the_folder),
        CASE(sync_makes_the_log_durable_and_is_free_without_changes),
        CASE(rollback_journal_serves_where_wal_cannot),
        CASE(memory_store_leaves_nothing_on_disk),
        CASE(sweep_removes_only_what_was_gone_for_thirty_days),
        CASE(sweep_leaves_used_and_unreadable_files_alone),
    };
    return cmocka_run_group_tests_name("store_files", tests, NULL, NULL);
}
