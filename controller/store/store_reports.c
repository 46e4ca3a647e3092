#include "controller/store/store_internal.h"

#include <stdlib.h>
#include <string.h>

void shp_report_record_fini(struct shp_report_record *report)
{
    free(report->details);
    free(report->text);
    memset(report, 0, sizeof *report);
}

static int report_get(struct shp_store *store, const char *id, struct shp_report_record *out)
{
    sqlite3_stmt *statement = shp_store_statement(store, SHP_STORE_SQL_REPORT_GET);
    if (statement == NULL)
        return shp_store_failure(store, "read report");
    shp_store_bind_text(store, statement, 1, id);
    struct shp_report_record report = {0};
    int err = 0;
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW) {
        shp_store_column_copy(statement, 0, report.id, sizeof report.id);
        shp_store_column_copy(statement, 1, report.task, sizeof report.task);
        report.state = (enum shp_report_state)sqlite3_column_int(statement, 2);
        err = shp_store_column_dup(statement, 3, &report.details);
        if (err == 0)
            err = shp_store_column_dup(statement, 4, &report.text);
        report.created_unix_ms = (uint64_t)sqlite3_column_int64(statement, 5);
    } else if (rc == SQLITE_DONE) {
        err = SHP_ERR_NOT_FOUND;
    } else {
        err = shp_store_failure(store, "read report");
    }
    shp_store_reset(statement);
    if (err != 0)
        shp_report_record_fini(&report);
    else
        *out = report;
    return err;
}

int shp_store_report_add(struct shp_store *store, const struct shp_report_record *report)
{
    sqlite3_stmt *statement = shp_store_statement(store, SHP_STORE_SQL_REPORT_ADD);
    if (statement != NULL) {
        shp_store_bind_text(store, statement, 1, report->id);
        shp_store_bind_text(store, statement, 2, report->task[0] != '\0' ? report->task : NULL);
        sqlite3_bind_int(statement, 3, (int)report->state);
        shp_store_bind_text(store, statement, 4, report->details != NULL ? report->details : "{}");
        shp_store_bind_text(store, statement, 5, report->text != NULL ? report->text : "");
        shp_store_bind_u64(statement, 6, report->created_unix_ms);
    }
    return shp_store_run(store, statement, "store report", NULL);
}

int shp_store_report_mark(struct shp_store *store, const char *id, enum shp_report_state state)
{
    sqlite3_stmt *statement = shp_store_statement(store, SHP_STORE_SQL_REPORT_MARK);
    if (statement != NULL) {
        shp_store_bind_text(store, statement, 1, id);
        sqlite3_bind_int(statement, 2, (int)state);
    }
    int changed = 0;
    int err = shp_store_run(store, statement, "mark report", &changed);
    return err != 0 ? err : (changed == 0 ? SHP_ERR_NOT_FOUND : 0);
}

int shp_store_report_hold(struct shp_store *store, const char *task)
{
    sqlite3_stmt *statement = shp_store_statement(store, SHP_STORE_SQL_REPORT_HOLD);
    if (statement != NULL)
        shp_store_bind_text(store, statement, 1, task);
    int changed = 0;
    int err = shp_store_run(store, statement, "hold report", &changed);
    return err != 0 ? err : (changed == 0 ? SHP_ERR_NOT_FOUND : 0);
}

int shp_store_report_release(struct shp_store *store)
{
    sqlite3_stmt *statement = shp_store_statement(store, SHP_STORE_SQL_REPORT_RELEASE);
    return shp_store_run(store, statement, "release reports", NULL);
}

int shp_store_report_each_due(struct shp_store *store,
                              void (*each)(const struct shp_report_record *, void *), void *user)
{
    struct shp_store_keys keys;
    int err = shp_store_keys(store, SHP_STORE_SQL_REPORT_DUE, &keys);
    if (err != 0)
        return err;
    for (size_t i = 0; err == 0 && i < keys.len; i++) {
        struct shp_report_record report;
        err = report_get(store, keys.items[i], &report);
        if (err != 0)
            break;
        if (report.state == SHP_REPORT_DUE || report.state == SHP_REPORT_PUSHED)
            each(&report, user);
        shp_report_record_fini(&report);
    }
    free(keys.items);
    return err;
}
