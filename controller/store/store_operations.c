#include "controller/store/store_internal.h"

#include <stdlib.h>
#include <string.h>

/* A prune reads every finished operation, so it is done once in a while only. */
#define PRUNE_EVERY 32

void shp_operation_fini(struct shp_operation *operation)
{
    free(operation->call);
    free(operation->message);
    free(operation->result);
    free(operation->bulk_field);
    free(operation->bulk);
    free(operation->progress);
    memset(operation, 0, sizeof *operation);
}

static int operation_get(struct shp_store *store, const char *id, struct shp_operation *out)
{
    sqlite3_stmt *statement = shp_store_statement(store, SHP_STORE_SQL_OPERATION_GET);
    if (statement == NULL)
        return shp_store_failure(store, "read operation");
    shp_store_bind_text(store, statement, 1, id);
    struct shp_operation operation = {0};
    int err = 0;
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW) {
        shp_store_column_copy(statement, 0, operation.id, sizeof operation.id);
        operation.state = (enum shp_operation_state)sqlite3_column_int(statement, 1);
        err = shp_store_column_dup(statement, 2, &operation.call);
        if (err == 0)
            err = shp_store_column_dup(statement, 3, &operation.message);
        if (err == 0)
            err = shp_store_column_dup(statement, 4, &operation.result);
        if (err == 0)
            err = shp_store_column_dup(statement, 5, &operation.bulk_field);
        if (err == 0)
            err = shp_store_column_dup(statement, 6, &operation.bulk);
        if (err == 0)
            err = shp_store_column_dup(statement, 7, &operation.progress);
    } else if (rc == SQLITE_DONE) {
        err = SHP_ERR_NOT_FOUND;
    } else {
        err = shp_store_failure(store, "read operation");
    }
    shp_store_reset(statement);
    if (err != 0)
        shp_operation_fini(&operation);
    else
        *out = operation;
    return err;
}

static bool text_equal(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

int shp_store_operation_begin(struct shp_store *store, const char *id, const char *call,
                              const char *message, uint64_t now_unix_ms, struct shp_operation *out,
                              bool *same)
{
    sqlite3_stmt *statement = shp_store_statement(store, SHP_STORE_SQL_OPERATION_ADD);
    if (statement != NULL) {
        shp_store_bind_text(store, statement, 1, id);
        shp_store_bind_text(store, statement, 2, call);
        shp_store_bind_text(store, statement, 3, message);
        shp_store_bind_u64(statement, 4, now_unix_ms);
    }
    int added = shp_store_run(store, statement, "begin operation", NULL);
    if (added != 0 && added != SHP_ERR_EXISTS)
        return added;
    struct shp_operation operation;
    int err = operation_get(store, id, &operation);
    if (err != 0)
        return err;
    if (same != NULL)
        *same = text_equal(operation.call, call) && text_equal(operation.message, message);
    if (out != NULL)
        *out = operation;
    else
        shp_operation_fini(&operation);
    return added;
}

int shp_store_operation_acting(struct shp_store *store, const char *id, const char *step,
                               const char *progress)
{
    sqlite3_stmt *statement = shp_store_statement(store, SHP_STORE_SQL_OPERATION_ACTING);
    if (statement != NULL) {
        shp_store_bind_text(store, statement, 1, id);
        shp_store_bind_text(store, statement, 2, step);
        shp_store_bind_text(store, statement, 3, progress != NULL ? progress : "{}");
    }
    int changed = 0;
    int err = shp_store_run(store, statement, "store step of operation", &changed);
    return err != 0 ? err : (changed == 0 ? SHP_ERR_NOT_FOUND : 0);
}

static int operation_end(struct shp_store *store, const char *id, enum shp_operation_state state,
                         const char *result, const char *bulk_field, const char *bulk)
{
    sqlite3_stmt *statement = shp_store_statement(store, SHP_STORE_SQL_OPERATION_END);
    if (statement != NULL) {
        shp_store_bind_text(store, statement, 1, id);
        sqlite3_bind_int(statement, 2, (int)state);
        shp_store_bind_text(store, statement, 3, result);
        shp_store_bind_text(store, statement, 4, bulk_field);
        shp_store_bind_text(store, statement, 5, bulk);
        shp_store_bind_u64(statement, 6,
                           (result != NULL ? strlen(result) : 0) +
                               (bulk != NULL ? strlen(bulk) : 0));
    }
    int changed = 0;
    int err = shp_store_run(store, statement, "store result of operation", &changed);
    if (err != 0)
        return err;
    if (changed == 0)
        return SHP_ERR_NOT_FOUND;
    if (++store->operations_ended % PRUNE_EVERY == 0) {
        statement = shp_store_statement(store, SHP_STORE_SQL_OPERATION_PRUNE);
        if (statement != NULL) {
            sqlite3_bind_int(statement, 1, SHP_STORE_OPERATIONS_KEPT);
            sqlite3_bind_int64(statement, 2, SHP_STORE_OPERATION_BYTES_KEPT);
        }
        /* The result is stored; a prune that failed is done again later. */
        (void)shp_store_run(store, statement, "remove old operations", NULL);
    }
    return 0;
}

int shp_store_operation_done(struct shp_store *store, const char *id, const char *result,
                             const char *bulk_field, const char *bulk)
{
    return operation_end(store, id, SHP_OPERATION_DONE, result, bulk_field, bulk);
}

int shp_store_operation_failed(struct shp_store *store, const char *id, const char *error)
{
    return operation_end(store, id, SHP_OPERATION_FAILED, error, NULL, NULL);
}

int shp_store_operation_each_open(struct shp_store *store,
                                  void (*each)(const struct shp_operation *, void *), void *user)
{
    struct shp_store_keys keys;
    int err = shp_store_keys(store, SHP_STORE_SQL_OPERATION_OPEN, &keys);
    if (err != 0)
        return err;
    for (size_t i = 0; err == 0 && i < keys.len; i++) {
        struct shp_operation operation;
        err = operation_get(store, keys.items[i], &operation);
        if (err == SHP_ERR_NOT_FOUND) {
            err = 0;
            continue;
        }
        if (err != 0)
            break;
        if (operation.state == SHP_OPERATION_PLANNED || operation.state == SHP_OPERATION_ACTING)
            each(&operation, user);
        shp_operation_fini(&operation);
    }
    free(keys.items);
    return err;
}
