#include "controller/agents/sender.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/json.h"
#include "controller/routing/herdr.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

struct describing {
    struct app *app;
    cJSON *sender;
    sender_cb cb;
    void *user;
};

static void end(struct describing *call)
{
    call->cb(call->sender, call->user);
    free(call);
}

static void on_roster(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    struct describing *call = user;
    if (!answer->error) {
        const cJSON *workspaces = cJSON_GetObjectItemCaseSensitive(answer->result, "workspaces");
        const cJSON *tabs = cJSON_GetObjectItemCaseSensitive(answer->result, "tabs");
        json_add(call->sender, "workspace_name",
                 json_string(
                     json_find(workspaces, "workspace_id", json_string(call->sender, "workspace")),
                     "label"));
        json_add(call->sender, "tab_name",
                 json_string(json_find(tabs, "tab_id", json_string(call->sender, "tab")), "label"));
    }
    end(call);
}

static void on_pane(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    struct describing *call = user;
    if (answer->error) {
        end(call);
        return;
    }
    const cJSON *pane = cJSON_GetObjectItemCaseSensitive(answer->result, "pane");
    json_add(call->sender, "pane", json_string(pane, "pane_id"));
    json_add(call->sender, "workspace", json_string(pane, "workspace_id"));
    json_add(call->sender, "tab", json_string(pane, "tab_id"));
    const char *name = json_string(pane, "label");
    json_add(call->sender, "pane_name", name ? name : json_string(pane, "title"));
    herdr_roster(machine, on_roster, call);
}

void sender_describe(struct app *app, sender_cb cb, void *user)
{
    const struct context *context = &app->context;
    struct describing *call = xcalloc(1, sizeof(*call));
    call->app = app;
    call->cb = cb;
    call->user = user;
    call->sender = cJSON_CreateObject();
    struct machine *local = fleet_local(app->fleet);
    char hostname[256] = "";
    gethostname(hostname, sizeof(hostname) - 1);
    json_add(call->sender, "host", hostname);
    json_add(call->sender, "session", context->herdr_session ? context->herdr_session : "default");
    json_add(call->sender, "name", context->session_name);
    if (!local || !context->herdr_pane) {
        end(call);
        return;
    }
    cJSON *params = cJSON_CreateObject();
    json_add(params, "caller_pane_id", context->herdr_pane);
    herdr_call(local, "pane.current", params, SHP_LIMIT_HERDR_CALL_TIMEOUT_MS, on_pane, call);
}
