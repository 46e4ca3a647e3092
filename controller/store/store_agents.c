#include "controller/store/store_internal.h"

#include <stdlib.h>
#include <string.h>

void shp_agent_record_fini(struct shp_agent_record *agent)
{
    free(agent->machine);
    free(agent->terminal_id);
    free(agent->pi_session_id);
    free(agent->session_file);
    free(agent->pane);
    free(agent->name);
    free(agent->label);
    free(agent->profile);
    free(agent->cwd);
    free(agent->operation);
    memset(agent, 0, sizeof *agent);
}

/* Takes the statement's only row; the statement is reset. */
static int agent_row(struct shp_store *store, sqlite3_stmt *statement, struct shp_agent_record *out)
{
    struct shp_agent_record agent = {0};
    char **texts[] = {&agent.machine, &agent.terminal_id, &agent.pi_session_id, &agent.session_file,
                      &agent.pane,    &agent.name,        &agent.label,         &agent.profile,
                      &agent.cwd,     &agent.operation};
    int err = 0;
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW) {
        shp_store_column_copy(statement, 0, agent.id, sizeof agent.id);
        int column = 1;
        for (size_t i = 0; err == 0 && i < sizeof texts / sizeof texts[0]; i++)
            err = shp_store_column_dup(statement, column++, texts[i]);
        agent.origin = (enum shp_agent_origin)sqlite3_column_int(statement, 11);
        agent.watched = sqlite3_column_int(statement, 12) != 0;
        agent.closed = sqlite3_column_int(statement, 13) != 0;
    } else if (rc == SQLITE_DONE) {
        err = SHP_ERR_NOT_FOUND;
    } else {
        err = shp_store_failure(store, "read agent");
    }
    shp_store_reset(statement);
    if (err != 0)
        shp_agent_record_fini(&agent);
    else
        *out = agent;
    return err;
}

int shp_store_agent_put(struct shp_store *store, const struct shp_agent_record *agent)
{
    sqlite3_stmt *statement = shp_store_statement(store, SHP_STORE_SQL_AGENT_PUT);
    if (statement != NULL) {
        const char *texts[] = {
            agent->id,           agent->machine, agent->terminal_id, agent->pi_session_id,
            agent->session_file, agent->pane,    agent->name,        agent->label,
            agent->profile,      agent->cwd,     agent->operation};
        int index = 1;
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
            shp_store_bind_text(store, statement, index++, texts[i]);
        sqlite3_bind_int(statement, index++, (int)agent->origin);
        sqlite3_bind_int(statement, index++, agent->watched);
        sqlite3_bind_int(statement, index, agent->closed);
    }
    return shp_store_run(store, statement, "store agent", NULL);
}

int shp_store_agent_get(struct shp_store *store, const char *id, struct shp_agent_record *out)
{
    sqlite3_stmt *statement = shp_store_statement(store, SHP_STORE_SQL_AGENT_GET);
    if (statement == NULL)
        return shp_store_failure(store, "read agent");
    shp_store_bind_text(store, statement, 1, id);
    return agent_row(store, statement, out);
}

int shp_store_agent_find(struct shp_store *store, const char *machine, const char *terminal_id,
                         struct shp_agent_record *out)
{
    sqlite3_stmt *statement = shp_store_statement(store, SHP_STORE_SQL_AGENT_FIND);
    if (statement == NULL)
        return shp_store_failure(store, "find agent");
    shp_store_bind_text(store, statement, 1, machine);
    shp_store_bind_text(store, statement, 2, terminal_id);
    return agent_row(store, statement, out);
}

int shp_store_agent_each(struct shp_store *store,
                         void (*each)(const struct shp_agent_record *, void *), void *user)
{
    struct shp_store_keys keys;
    int err = shp_store_keys(store, SHP_STORE_SQL_AGENT_ALL, &keys);
    if (err != 0)
        return err;
    for (size_t i = 0; err == 0 && i < keys.len; i++) {
        struct shp_agent_record agent;
        err = shp_store_agent_get(store, keys.items[i], &agent);
        if (err != 0)
            break;
        each(&agent, user);
        shp_agent_record_fini(&agent);
    }
    free(keys.items);
    return err;
}
