#include "controller/agents/target.h"

#include <stdlib.h>
#include <string.h>

#include "controller/json.h"
#include "controller/routing/herdr.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

struct resolving {
    struct app *app;
    char *wanted;
    struct target target;
    target_cb cb;
    void *user;
};

void target_fini(struct target *target)
{
    free(target->pane);
    free(target->terminal_id);
    free(target->workspace_id);
    free(target->tab_id);
    free(target->name);
    free(target->status);
    free(target->session_file);
    free(target->pi_session_id);
    *target = (struct target){0};
}

void target_move(struct target *to, struct target *from)
{
    *to = *from;
    *from = (struct target){0};
}

static void resolving_end(struct resolving *call, const struct shp_error *error)
{
    call->cb(&call->target, error, call->user);
    target_fini(&call->target);
    free(call->wanted);
    free(call);
}

static void take_receiver(struct target *target, const char *text, size_t len)
{
    cJSON *receivers = cJSON_ParseWithLength(text, len);
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, receivers)
    {
        const char *terminal = json_string(item, "terminal_id");
        if (!terminal || strcmp(terminal, target->terminal_id) != 0)
            continue;
        xreplace(&target->pi_session_id, json_string(item, "pi_session_id"));
        if (json_string(item, "session_file"))
            xreplace(&target->session_file, json_string(item, "session_file"));
        target->receiver_outdated =
            json_number(item, "protocol_max", 0) < SHP_PROTOCOL_VERSION_MIN ||
            json_number(item, "protocol_min", 0) > SHP_PROTOCOL_VERSION_MAX;
    }
    cJSON_Delete(receivers);
}

static void on_receivers(struct machine *machine, const struct machine_answer *answer, void *user)
{
    (void)machine;
    struct resolving *call = user;
    if (!answer->error)
        take_receiver(&call->target, answer->bulk, answer->bulk_len);
    resolving_end(call, answer->error);
}

static bool is_own_pane(const struct app *app, const struct target *target)
{
    return target->machine->local && app->context.herdr_pane &&
           strcmp(app->context.herdr_pane, target->pane) == 0;
}

static void on_agent(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    struct resolving *call = user;
    struct target *target = &call->target;
    struct shp_error error = {0};
    if (answer->error) {
        error = *answer->error;
        if (strcmp(answer->herdr_code, "agent_not_found") == 0 ||
            strcmp(answer->herdr_code, "pane_not_found") == 0 ||
            strcmp(answer->herdr_code, "agent_target_ambiguous") == 0)
            shp_error_set(&error, SHP_CODE_AGENT_NOT_FOUND, machine->id, "resolve target", "%s: %s",
                          call->wanted, answer->error->cause);
        resolving_end(call, &error);
        return;
    }
    const cJSON *agent = cJSON_GetObjectItemCaseSensitive(answer->result, "agent");
    const cJSON *session = cJSON_GetObjectItemCaseSensitive(agent, "agent_session");
    const char *kind = json_string(agent, "agent");
    target->pane = xstrdup(json_string(agent, "pane_id"));
    target->terminal_id = xstrdup(json_string(agent, "terminal_id"));
    target->workspace_id = xstrdup(json_string(agent, "workspace_id"));
    target->tab_id = xstrdup(json_string(agent, "tab_id"));
    target->name = xstrdup(json_string(agent, "name"));
    target->status = xstrdup(json_string(agent, "agent_status"));
    const char *session_kind = json_string(session, "kind");
    if (session_kind && strcmp(session_kind, "path") == 0)
        target->session_file = xstrdup(json_string(session, "value"));
    if (!target->pane || !target->terminal_id || !target->status)
        shp_error_set(&error, SHP_CODE_HERDR_INVALID, machine->id, "resolve target",
                      "agent.get answered without pane, terminal or status");
    else if (!kind || strcmp(kind, "pi") != 0)
        shp_error_set(&error, SHP_CODE_AGENT_NOT_PI, machine->id, "resolve target", "%s runs %s",
                      call->wanted, kind ? kind : "no agent");
    else if (is_own_pane(call->app, target))
        shp_error_set(&error, SHP_CODE_AGENT_IS_SELF, machine->id, "resolve target", "%s",
                      call->wanted);
    if (error.code) {
        resolving_end(call, &error);
        return;
    }
    machine_request(machine, SHP_MSG_RECEIVERS_LIST, NULL, SHP_LIMIT_HERDR_CALL_TIMEOUT_MS, NULL,
                    NULL, 0, on_receivers, call);
}

void target_resolve(struct app *app, struct machine *machine, const char *name, target_cb cb,
                    void *user)
{
    struct resolving *call = xcalloc(1, sizeof(*call));
    call->app = app;
    call->wanted = xstrdup(name);
    call->target.machine = machine;
    call->cb = cb;
    call->user = user;
    cJSON *params = cJSON_CreateObject();
    json_add(params, "target", name);
    herdr_call(machine, "agent.get", params, SHP_LIMIT_HERDR_CALL_TIMEOUT_MS, on_agent, call);
}

bool target_reachable(const struct target *target, struct shp_error *error)
{
    const char *machine = target->machine->id;
    if (strcmp(target->status, "blocked") == 0)
        shp_error_set(error, SHP_CODE_AGENT_BLOCKED, machine, "check target",
                      "%s waits for a person", target->pane);
    else if (!target->pi_session_id)
        shp_error_set(error, SHP_CODE_RECEIVER_MISSING, machine, "check target",
                      "no live receiver for %s (terminal %s)", target->pane, target->terminal_id);
    else if (target->receiver_outdated)
        shp_error_set(error, SHP_CODE_RECEIVER_OUTDATED, machine, "check target",
                      "the receiver of %s speaks another protocol", target->pane);
    else
        return true;
    return false;
}
