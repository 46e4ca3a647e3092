#include "controller/routing/herdr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/fleet/fleet.h"
#include "controller/json.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

struct herdr_request {
    char method[64];
    herdr_cb cb;
    void *user;
};

cJSON *herdr_address(const struct machine *machine)
{
    cJSON *address = cJSON_CreateObject();
    const char *socket = machine->local ? machine->fleet->context->herdr_socket : NULL;
    if (socket)
        json_add(address, "socket", socket);
    else
        json_add(address, "session", machine->session);
    return address;
}

static void finish(struct herdr_request *request, struct machine *machine,
                   const struct herdr_answer *answer)
{
    request->cb(machine, answer, request->user);
    free(request);
}

static void fail(struct herdr_request *request, struct machine *machine,
                 const struct shp_error *error, const char *herdr_code)
{
    struct herdr_answer answer = {.error = error, .herdr_code = herdr_code};
    finish(request, machine, &answer);
}

static void on_call(struct machine *machine, const struct machine_answer *from_helper, void *user)
{
    struct herdr_request *request = user;
    if (from_helper->error) {
        fail(request, machine, from_helper->error, "");
        return;
    }
    cJSON *line = json_parse_object(from_helper->bulk, from_helper->bulk_len);
    const cJSON *refusal = cJSON_GetObjectItemCaseSensitive(line, "error");
    const cJSON *result = cJSON_GetObjectItemCaseSensitive(line, "result");
    struct shp_error error = {0};
    if (cJSON_IsObject(refusal)) {
        const char *code = json_string(refusal, "code");
        const char *message = json_string(refusal, "message");
        shp_error_set(&error, SHP_CODE_HERDR_ERROR, machine->id, request->method, "%s: %s",
                      code ? code : "?", message ? message : "");
        fail(request, machine, &error, code ? code : "");
    } else if (!cJSON_IsObject(result)) {
        shp_error_set(&error, SHP_CODE_HERDR_INVALID, machine->id, request->method,
                      "the answer is neither a result nor an error");
        error.outcome = SHP_OUTCOME_UNKNOWN;
        fail(request, machine, &error, "");
    } else {
        struct herdr_answer answer = {.herdr_code = "", .result = result};
        finish(request, machine, &answer);
    }
    cJSON_Delete(line);
}

void herdr_call(struct machine *machine, const char *method, cJSON *params, uint32_t timeout_ms,
                herdr_cb cb, void *user)
{
    struct herdr_request *request = xcalloc(1, sizeof(*request));
    snprintf(request->method, sizeof(request->method), "%s", method);
    request->cb = cb;
    request->user = user;
    cJSON *line = cJSON_CreateObject();
    json_add(line, "id", "shepherdr");
    json_add(line, "method", method);
    cJSON_AddItemToObject(line, "params", params ? params : cJSON_CreateObject());
    char *text = json_print(line);
    cJSON_Delete(line);
    machine_request(machine, SHP_MSG_HERDR_CALL, NULL, timeout_ms, herdr_address(machine), text,
                    strlen(text), on_call, request);
    free(text);
}

static void on_roster(struct machine *machine, const struct machine_answer *from_helper, void *user)
{
    struct herdr_request *request = user;
    if (from_helper->error) {
        fail(request, machine, from_helper->error, "");
        return;
    }
    cJSON *roster = json_parse_object(from_helper->bulk, from_helper->bulk_len);
    if (roster) {
        struct herdr_answer answer = {.herdr_code = "", .result = roster};
        finish(request, machine, &answer);
    } else {
        struct shp_error error = {0};
        shp_error_set(&error, SHP_CODE_PROTOCOL_ERROR, machine->id, "read roster",
                      "the helper's roster is not a JSON object");
        fail(request, machine, &error, "");
    }
    cJSON_Delete(roster);
}

void herdr_roster(struct machine *machine, herdr_cb cb, void *user)
{
    struct herdr_request *request = xcalloc(1, sizeof(*request));
    request->cb = cb;
    request->user = user;
    machine_request(machine, SHP_MSG_ROSTER_GET, NULL, SHP_LIMIT_HERDR_CALL_TIMEOUT_MS,
                    herdr_address(machine), NULL, 0, on_roster, request);
}
