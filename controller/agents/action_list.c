/*
 * list: every enabled machine is asked at once; each answers, fails, or is told as connecting when
 * its connect takes longer than LIST_WAIT_MS. One failing machine never fails the call.
 */
#include "controller/agents/action.h"

#include <stdlib.h>
#include <string.h>

#include "controller/json.h"
#include "controller/routing/herdr.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

#define LIST_ENTRIES_MAX 30
#define LIST_WAIT_MS 15000

struct list_machine {
    struct list *list;
    struct machine *machine;
    cJSON *roster;
    cJSON *receivers;
    int pending;
    struct shp_error error; /* of the snapshot */
};

/* Shared by the operation and the answers under way: freed by the last of them. */
struct list {
    struct operation *op; /* NULL: answered already */
    uv_timer_t timer;
    struct list_machine *items;
    size_t len;
    size_t pending;
    bool timer_closed;
};

static void list_release(struct list *list)
{
    if (list->op || list->pending > 0 || !list->timer_closed)
        return;
    for (size_t i = 0; i < list->len; i++) {
        cJSON_Delete(list->items[i].roster);
        cJSON_Delete(list->items[i].receivers);
    }
    free(list->items);
    free(list);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct list *list = handle->data;
    list->timer_closed = true;
    list_release(list);
}

static void add_receiver(cJSON *entry, const cJSON *receivers, const char *terminal_id)
{
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, receivers)
    {
        const char *own = json_string(item, "terminal_id");
        if (!own || !terminal_id || strcmp(own, terminal_id) != 0)
            continue;
        if (json_number(item, "protocol_max", 0) < SHP_PROTOCOL_VERSION_MIN)
            json_add(entry, "receiver", "old");
        else
            cJSON_AddTrueToObject(entry, "receiver");
        return;
    }
    cJSON_AddFalseToObject(entry, "receiver");
}

static bool is_watched(struct app *app, const char *machine, const char *terminal_id)
{
    struct shp_agent_record agent;
    if (!terminal_id || shp_store_agent_find(app->store, machine, terminal_id, &agent) != SHP_OK)
        return false;
    bool watched = agent.watched && !agent.closed;
    shp_agent_record_fini(&agent);
    return watched;
}

/* The label of a workspace or tab, or its id when it has none. */
static void add_place(cJSON *entry, const char *name, const cJSON *places, const char *id_name,
                      const cJSON *agent)
{
    const char *id = json_string(agent, id_name);
    const char *label = json_string(json_find(places, id_name, id), "label");
    json_add(entry, name, label ? label : id);
}

static cJSON *agent_entry(struct app *app, const struct list_machine *from, const cJSON *agent)
{
    const cJSON *workspaces = cJSON_GetObjectItemCaseSensitive(from->roster, "workspaces");
    const cJSON *tabs = cJSON_GetObjectItemCaseSensitive(from->roster, "tabs");
    const char *terminal = json_string(agent, "terminal_id");
    const char *cwd = json_string(agent, "cwd");
    cJSON *entry = cJSON_CreateObject();
    json_add(entry, "machine", from->machine->id);
    json_add(entry, "target", json_string(agent, "pane_id"));
    json_add(entry, "name", json_string(agent, "name"));
    json_add(entry, "label", json_string(agent, "label"));
    json_add(entry, "status", json_string(agent, "agent_status"));
    if (cwd)
        json_add(entry, "cwd", cwd);
    else
        cJSON_AddNullToObject(entry, "cwd");
    add_place(entry, "workspace", workspaces, "workspace_id", agent);
    add_place(entry, "tab", tabs, "tab_id", agent);
    cJSON_AddBoolToObject(entry, "monitored", is_watched(app, from->machine->id, terminal));
    add_receiver(entry, from->receivers, terminal);
    return entry;
}

static cJSON *machine_entry(const struct list_machine *from)
{
    const struct machine *machine = from->machine;
    cJSON *entry = cJSON_CreateObject();
    json_add(entry, "id", machine->id);
    cJSON_AddBoolToObject(entry, "local", machine->local);
    if (!machine->local) {
        json_add(entry, "label", machine->label);
        json_add(entry, "target", machine->target);
        json_add(entry, "session", machine->session);
    }
    json_add(entry, "status", machine_status(machine));
    if (machine->reason.code && machine->state != MACHINE_CONNECTED) {
        char *reason =
            xasprintf("%s: %s", shp_code_name(machine->reason.code), machine->reason.cause);
        json_add(entry, "reason", reason);
        free(reason);
    } else if (from->error.code) {
        char *text = xasprintf("%s: %s", shp_code_name(from->error.code), from->error.cause);
        json_add(entry, "snapshotError", text);
        free(text);
    }
    return entry;
}

static bool own_pane(const struct app *app, const struct machine *machine, const cJSON *agent)
{
    const char *pane = json_string(agent, "pane_id");
    return machine->local && pane && app->context.herdr_pane &&
           strcmp(pane, app->context.herdr_pane) == 0;
}

static void answer(struct list *list)
{
    struct operation *op = list->op;
    struct app *app = op->app;
    bool capped = app->context.kind == CONTEXT_PI;
    size_t more_agents = 0, more_workspaces = 0;
    cJSON *value = cJSON_CreateObject();
    cJSON_AddItemToObject(value, "profiles", shp_profiles_json(&op->profiles));
    cJSON *machines = cJSON_AddArrayToObject(value, "machines");
    cJSON *agents = cJSON_AddArrayToObject(value, "agents");
    cJSON *workspaces = cJSON_AddArrayToObject(value, "workspaces");
    for (size_t i = 0; i < list->len; i++) {
        struct list_machine *from = &list->items[i];
        cJSON_AddItemToArray(machines, machine_entry(from));
        const cJSON *item = NULL;
        cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(from->roster, "agents"))
        {
            const char *kind = json_string(item, "agent");
            if (!kind || strcmp(kind, "pi") != 0 || own_pane(app, from->machine, item))
                continue;
            if (capped && cJSON_GetArraySize(agents) >= LIST_ENTRIES_MAX)
                more_agents++;
            else
                cJSON_AddItemToArray(agents, agent_entry(app, from, item));
        }
        cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(from->roster, "workspaces"))
        {
            if (capped && cJSON_GetArraySize(workspaces) >= LIST_ENTRIES_MAX) {
                more_workspaces++;
                continue;
            }
            cJSON *entry = cJSON_CreateObject();
            json_add(entry, "machine", from->machine->id);
            json_add(entry, "id", json_string(item, "workspace_id"));
            json_add(entry, "label", json_string(item, "label"));
            cJSON_AddItemToArray(workspaces, entry);
        }
    }
    if (more_agents > 0)
        cJSON_AddNumberToObject(value, "moreAgents", (double)more_agents);
    if (more_workspaces > 0)
        cJSON_AddNumberToObject(value, "moreWorkspaces", (double)more_workspaces);
    list->op = NULL;
    if (app->fleet->catalog_error.code) {
        const struct shp_error *error = &app->fleet->catalog_error;
        char *warning = xasprintf("%s: %s. %s", shp_code_name(error->code), error->cause,
                                  shp_code_next(error->code));
        operation_finish(op, value, NULL, NULL, warning);
        free(warning);
    } else {
        operation_finish(op, value, NULL, NULL, NULL);
    }
    uv_close((uv_handle_t *)&list->timer, on_timer_closed);
}

static void part_done(struct list_machine *item)
{
    struct list *list = item->list;
    item->pending--;
    list->pending--;
    if (list->op && list->pending == 0)
        answer(list);
    else
        list_release(list);
}

static void on_roster(struct machine *machine, const struct herdr_answer *from, void *user)
{
    (void)machine;
    struct list_machine *item = user;
    if (from->error)
        item->error = *from->error;
    else if (item->list->op)
        item->roster = cJSON_Duplicate(from->result, true);
    part_done(item);
}

static void on_receivers(struct machine *machine, const struct machine_answer *from, void *user)
{
    (void)machine;
    struct list_machine *item = user;
    if (!from->error && item->list->op)
        item->receivers = cJSON_ParseWithLength(from->bulk, from->bulk_len);
    part_done(item);
}

static void on_timeout(uv_timer_t *timer)
{
    struct list *list = timer->data;
    if (list->op)
        answer(list);
}

static void on_ready(struct fleet *fleet, const struct shp_error *error, void *user)
{
    (void)error; /* told as a warning: the local machine works without a catalog */
    struct operation *op = user;
    const char *wanted = op->call.machine;
    struct shp_error unknown = {0};
    struct machine *only = wanted ? fleet_find(fleet, wanted, &unknown) : NULL;
    if (wanted && !only) {
        operation_fail(op, &unknown);
        return;
    }
    struct list *list = xcalloc(1, sizeof(*list));
    list->op = op;
    list->items = xcalloc(fleet->len, sizeof(*list->items));
    uv_timer_init(fleet->loop, &list->timer);
    list->timer.data = list;
    uv_timer_start(&list->timer, on_timeout, LIST_WAIT_MS, 0);
    for (size_t i = 0; i < fleet->len; i++) {
        struct machine *machine = fleet->items[i];
        if (machine->state == MACHINE_CLOSED || (only && only != machine))
            continue;
        struct list_machine *item = &list->items[list->len++];
        item->list = list;
        item->machine = machine;
        if (machine->enabled) {
            item->pending = 2;
            list->pending += 2;
        }
    }
    for (size_t i = 0; i < list->len; i++) {
        struct list_machine *item = &list->items[i];
        if (item->pending == 0)
            continue;
        herdr_roster(item->machine, on_roster, item);
        machine_request(item->machine, SHP_MSG_RECEIVERS_LIST, NULL,
                        SHP_LIMIT_HERDR_CALL_TIMEOUT_MS, NULL, NULL, 0, on_receivers, item);
    }
    if (list->pending == 0)
        answer(list);
}

void action_list_start(struct operation *op)
{
    struct shp_error error = {0};
    if (shp_profiles_load(&op->profiles, op->app->context.agent_dir, &error) != SHP_OK) {
        operation_fail(op, &error);
        return;
    }
    if (op->app->fleet->len == 0)
        on_ready(op->app->fleet, NULL, op);
    else
        fleet_refresh(op->app->fleet, on_ready, op);
}
