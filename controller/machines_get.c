#include "controller/machines_get.h"

#include <stdlib.h>

#include "controller/fleet/machine_row.h"
#include "controller/json.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

#define RECONNECT_ASK_TIMEOUT_MS 10000

struct query {
    struct fleet *fleet;
    char *reconnect; /* id, or NULL */
    machines_get_cb cb;
    void *user;
};

static void query_end(struct query *query, const struct shp_error *error)
{
    cJSON *rows = error ? NULL : machine_rows(query->fleet);
    query->cb(error, rows, query->user);
    cJSON_Delete(rows);
    free(query->reconnect);
    free(query);
}

/* Connected again or not: the row tells. */
static void on_reconnected(struct machine *machine, const struct machine_answer *answer, void *user)
{
    (void)machine;
    (void)answer;
    query_end(user, NULL);
}

static void reconnect(struct query *query)
{
    struct shp_error error = {0};
    struct machine *machine = fleet_find(query->fleet, query->reconnect, &error);
    if (!machine) {
        query_end(query, &error);
        return;
    }
    /* A request behind the close waits for the next link, and asks for one at once. */
    machine_reconnect(machine);
    machine_request(machine, SHP_MSG_IDENTITY_GET, NULL, RECONNECT_ASK_TIMEOUT_MS, NULL, NULL, 0,
                    on_reconnected, query);
}

static void on_refreshed(struct fleet *fleet, const struct shp_error *error, void *user)
{
    (void)fleet;
    struct query *query = user;
    if (error)
        query_end(query, error);
    else if (query->reconnect)
        reconnect(query);
    else
        query_end(query, NULL);
}

void machines_get(struct app *app, const cJSON *params, machines_get_cb cb, void *user)
{
    struct query *query = xcalloc(1, sizeof(*query));
    query->fleet = app->fleet;
    query->reconnect = xstrdup(json_string(params, "reconnect"));
    query->cb = cb;
    query->user = user;
    if (app->fleet->len == 0)
        query_end(query, NULL); /* not in Herdr: no machines */
    else if (json_bool(params, "refresh"))
        fleet_refresh(app->fleet, on_refreshed, query);
    else
        on_refreshed(app->fleet, NULL, query);
}
