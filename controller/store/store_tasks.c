#include "controller/store/store_internal.h"

#include <stdlib.h>
#include <string.h>

void shp_task_record_fini(struct shp_task_record *task)
{
    free(task->text);
    free(task->sender);
    free(task->operation);
    memset(task, 0, sizeof *task);
}

/* Takes the statement's only row; the statement is reset. */
static int task_row(struct shp_store *store, sqlite3_stmt *statement, struct shp_task_record *out)
{
    struct shp_task_record task = {0};
    int err = 0;
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW) {
        shp_store_column_copy(statement, 0, task.id, sizeof task.id);
        shp_store_column_copy(statement, 1, task.agent, sizeof task.agent);
        shp_store_column_copy(statement, 2, task.input, sizeof task.input);
        task.state = (enum shp_task_state)sqlite3_column_int(statement, 3);
        task.delivery = (enum shp_delivery_state)sqlite3_column_int(statement, 4);
        err = shp_store_column_dup(statement, 5, &task.text);
        if (err == 0)
            err = shp_store_column_dup(statement, 6, &task.sender);
        if (err == 0)
            err = shp_store_column_dup(statement, 7, &task.operation);
        task.held = sqlite3_column_int(statement, 8) != 0;
        task.created_unix_ms = (uint64_t)sqlite3_column_int64(statement, 9);
    } else if (rc == SQLITE_DONE) {
        err = SHP_ERR_NOT_FOUND;
    } else {
        err = shp_store_failure(store, "read task");
    }
    shp_store_reset(statement);
    if (err != 0)
        shp_task_record_fini(&task);
    else
        *out = task;
    return err;
}

int shp_store_task_put(struct shp_store *store, const struct shp_task_record *task)
{
    sqlite3_stmt *statement = shp_store_statement(store, SHP_STORE_SQL_TASK_PUT);
    if (statement != NULL) {
        shp_store_bind_text(store, statement, 1, task->id);
        shp_store_bind_text(store, statement, 2, task->agent);
        shp_store_bind_text(store, statement, 3, task->input);
        sqlite3_bind_int(statement, 4, (int)task->state);
        sqlite3_bind_int(statement, 5, (int)task->delivery);
        shp_store_bind_text(store, statement, 6, task->text != NULL ? task->text : "");
        shp_store_bind_text(store, statement, 7, task->sender);
        shp_store_bind_text(store, statement, 8, task->operation);
        sqlite3_bind_int(statement, 9, task->held);
        shp_store_bind_u64(statement, 10, task->created_unix_ms);
    }
    return shp_store_run(store, statement, "store task", NULL);
}

static int task_by(struct shp_store *store, enum shp_store_sql sql, const char *key,
                   struct shp_task_record *out)
{
    sqlite3_stmt *statement = shp_store_statement(store, sql);
    if (statement == NULL)
        return shp_store_failure(store, "read task");
    shp_store_bind_text(store, statement, 1, key);
    return task_row(store, statement, out);
}

int shp_store_task_get(struct shp_store *store, const char *id, struct shp_task_record *out)
{
    return task_by(store, SHP_STORE_SQL_TASK_GET, id, out);
}

int shp_store_task_by_input(struct shp_store *store, const char *input, struct shp_task_record *out)
{
    return task_by(store, SHP_STORE_SQL_TASK_BY_INPUT, input, out);
}

int shp_store_task_each_open(struct shp_store *store,
                             void (*each)(const struct shp_task_record *, void *), void *user)
{
    struct shp_store_keys keys;
    int err = shp_store_keys(store, SHP_STORE_SQL_TASK_OPEN, &keys);
    if (err != 0)
        return err;
    for (size_t i = 0; err == 0 && i < keys.len; i++) {
        struct shp_task_record task;
        err = shp_store_task_get(store, keys.items[i], &task);
        if (err != 0)
            break;
        if (task.state == SHP_TASK_CREATED || task.state == SHP_TASK_RUNNING)
            each(&task, user);
        shp_task_record_fini(&task);
    }
    free(keys.items);
    return err;
}

int shp_store_task_count_open(struct shp_store *store, size_t *count)
{
    sqlite3_stmt *statement = shp_store_statement(store, SHP_STORE_SQL_TASK_COUNT_OPEN);
    if (statement == NULL)
        return shp_store_failure(store, "count tasks");
    int err = 0;
    if (sqlite3_step(statement) == SQLITE_ROW)
        *count = (size_t)sqlite3_column_int64(statement, 0);
    else
        err = shp_store_failure(store, "count tasks");
    shp_store_reset(statement);
    return err;
}

static int task_state(struct shp_store *store, const char *id, int *state)
{
    sqlite3_stmt *statement = shp_store_statement(store, SHP_STORE_SQL_TASK_STATE);
    if (statement == NULL)
        return shp_store_failure(store, "read task");
    shp_store_bind_text(store, statement, 1, id);
    int err = 0;
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        *state = sqlite3_column_int(statement, 0);
    else
        err = rc == SQLITE_DONE ? SHP_ERR_NOT_FOUND : shp_store_failure(store, "read task");
    shp_store_reset(statement);
    return err;
}

int shp_store_task_settle(struct shp_store *store, const char *task, enum shp_task_state state,
                          const struct shp_report_record *report)
{
    int err = shp_store_begin(store);
    if (err != 0)
        return err;
    int before = 0;
    err = task_state(store, task, &before);
    if (err == 0 && before != SHP_TASK_CREATED && before != SHP_TASK_RUNNING) {
        /* Settled before. The same end again is a repeat; another one must not make a second
         * report. */
        err = before == (int)state ? 0 : SHP_ERR_EXISTS;
        shp_store_rollback(store);
        return err;
    }
    if (err == 0) {
        sqlite3_stmt *statement = shp_store_statement(store, SHP_STORE_SQL_TASK_SETTLE);
        if (statement != NULL) {
            shp_store_bind_text(store, statement, 1, task);
            sqlite3_bind_int(statement, 2, (int)state);
        }
        err = shp_store_run(store, statement, "settle task", NULL);
    }
    if (err == 0 && report != NULL) {
        err = shp_store_report_add(store, report);
        if (err == SHP_ERR_EXISTS)
            err = 0;
    }
    if (err != 0) {
        shp_store_rollback(store);
        return err;
    }
    return shp_store_commit(store);
}
