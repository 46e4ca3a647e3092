#include "controller/routing/session_request.h"

#include <stdlib.h>
#include <string.h>
#include <sodium.h>

#include "base/id.h"
#include "controller/fleet/fleet.h"
#include "controller/json.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

#define DELIVER_TIMEOUT_MS 20000
#define STATUS_TIMEOUT_MS 10000
#define BIND_TIMEOUT_MS 15000

struct pending {
    session_answer_cb cb;
    void *user;
};

static void on_answer(struct machine *machine, const struct machine_answer *from_helper, void *user)
{
    (void)machine;
    struct pending *pending = user;
    struct session_answer answer = {.error = from_helper->error};
    if (!from_helper->error) {
        answer.answer = cJSON_GetObjectItemCaseSensitive(from_helper->result, "answer");
        answer.text = from_helper->bulk;
        answer.text_len = from_helper->bulk_len;
    }
    pending->cb(&answer, pending->user);
    free(pending);
}

static cJSON *asker(const struct machine *machine)
{
    const struct context *context = machine->fleet->context;
    cJSON *from = cJSON_CreateObject();
    json_add(from, "pi_session_id", context->pi_session_id);
    json_add(from, "installation", machine->fleet->installation);
    json_add(from, "host", "");
    json_add(from, "name", context->session_name);
    return from;
}

void session_request(const struct session_address *to, const char *service, const char *id,
                     cJSON *payload, const char *text, uint32_t timeout_ms, session_answer_cb cb,
                     void *user)
{
    struct pending *pending = xcalloc(1, sizeof(*pending));
    pending->cb = cb;
    pending->user = user;
    cJSON *params = cJSON_CreateObject();
    json_add(params, "to", to->pi_session_id);
    json_add(params, "terminal_id", to->terminal_id);
    json_add(params, "service", service);
    cJSON_AddItemToObject(params, "from", asker(to->machine));
    cJSON_AddItemToObject(params, "payload", payload ? payload : cJSON_CreateObject());
    uint8_t bytes[SHP_REQUEST_ID_BYTES];
    bool has_id = id && shp_hex_decode(bytes, sizeof(bytes), id, strlen(id)) == SHP_OK;
    machine_request(to->machine, SHP_MSG_SESSION_REQUEST, has_id ? bytes : NULL, timeout_ms, params,
                    text, text ? strlen(text) : 0, on_answer, pending);
}

/* ---- bind ---------------------------------------------------------------------------------- */

void session_bind(const struct session_address *to, const char *agent, const char *name,
                  session_answer_cb cb, void *user)
{
    uint8_t secret[32];
    char capability[2 * sizeof(secret) + 1];
    randombytes_buf(secret, sizeof(secret));
    shp_hex_encode(capability, secret, sizeof(secret));
    shp_bytes_wipe(secret, sizeof(secret));
    cJSON *payload = cJSON_CreateObject();
    json_add(payload, "agent", agent);
    json_add(payload, "capability", capability);
    json_add(payload, "name", name);
    session_request(to, "bind", NULL, payload, NULL, BIND_TIMEOUT_MS, cb, user);
}

/* ---- deliver ------------------------------------------------------------------------------- */

struct delivering {
    struct machine *machine;
    char *pi_session_id;
    char *terminal_id;
    char *id;
    delivery_cb cb;
    void *user;
    struct shp_error error;
};

static void delivering_end(struct delivering *call, const struct delivery *delivery)
{
    call->cb(delivery, call->user);
    free(call->pi_session_id);
    free(call->terminal_id);
    free(call->id);
    free(call);
}

static void on_status(const struct session_answer *answer, void *user)
{
    struct delivering *call = user;
    struct delivery delivery = {0};
    const char *state = answer->error ? NULL : json_string(answer->answer, "state");
    if (state && strcmp(state, "unknown") != 0) {
        delivery.accepted = true;
        delivery.provisional = strcmp(state, "delivered") != 0;
    } else if (state) {
        /* The receiver never saw it: the attempt is known to be rejected. */
        delivery.error = call->error;
        delivery.error.outcome = SHP_OUTCOME_REJECTED;
    } else {
        shp_error_set(&delivery.error, SHP_CODE_DELIVERY_UNKNOWN, call->machine->id, "deliver",
                      "message %s: %s: %s", call->id, shp_code_name(call->error.code),
                      call->error.cause);
        delivery.error.outcome = SHP_OUTCOME_UNKNOWN;
    }
    delivering_end(call, &delivery);
}

static void on_deliver(const struct session_answer *answer, void *user)
{
    struct delivering *call = user;
    struct delivery delivery = {0};
    if (!answer->error) {
        delivery.accepted = true;
        delivery.provisional = json_bool(answer->answer, "provisional");
        delivery.duplicate = json_bool(answer->answer, "duplicate");
        delivering_end(call, &delivery);
        return;
    }
    call->error = *answer->error;
    /* A conflict says that the receiver has the id: what became of it is asked, not guessed. */
    if (answer->error->outcome == SHP_OUTCOME_REJECTED &&
        answer->error->code != SHP_CODE_DUPLICATE_CONFLICT) {
        delivery.error = *answer->error;
        delivering_end(call, &delivery);
        return;
    }
    struct session_address to = {call->machine, call->pi_session_id, NULL};
    cJSON *payload = cJSON_CreateObject();
    json_add(payload, "id", call->id);
    session_request(&to, "delivery_status", NULL, payload, NULL, STATUS_TIMEOUT_MS, on_status,
                    call);
}

void deliver(const struct session_address *to, const char *id, const char *kind, const char *text,
             const cJSON *sender, delivery_cb cb, void *user)
{
    struct delivering *call = xcalloc(1, sizeof(*call));
    call->machine = to->machine;
    call->pi_session_id = xstrdup(to->pi_session_id);
    call->terminal_id = xstrdup(to->terminal_id);
    call->id = xstrdup(id);
    call->cb = cb;
    call->user = user;
    cJSON *payload = cJSON_CreateObject();
    json_add(payload, "kind", kind);
    cJSON_AddItemToObject(payload, "sender",
                          sender ? cJSON_Duplicate(sender, true) : cJSON_CreateObject());
    session_request(to, "deliver", id, payload, text, DELIVER_TIMEOUT_MS, on_deliver, call);
}
