#include "controller/fleet/machine.h"

#include <stdlib.h>
#include <string.h>
#include <sodium.h>

#include "controller/clock.h"
#include "controller/fleet/connect.h"
#include "controller/fleet/fleet.h"
#include "controller/json.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

/* A request from its making to its one answer. */
struct machine_request {
    struct machine *machine;
    uint16_t message;
    bool has_id;
    uint8_t id[SHP_REQUEST_ID_BYTES];
    uint32_t timeout_ms;
    char *params;
    char *bulk;
    size_t bulk_len;
    machine_answer_cb cb;
    void *user;
    struct shp_error error; /* on the failed list */
    struct machine_request *next;
};

const char *machine_state_name(enum machine_state state)
{
    switch (state) {
    case MACHINE_IDLE:
        return "idle";
    case MACHINE_CONNECTING:
        return "connecting";
    case MACHINE_CONNECTED:
        return "connected";
    case MACHINE_WAITING:
        return "unavailable";
    case MACHINE_CLOSED:
        return "closed";
    }
    return "closed";
}

/* Reasons that only a person can take away; the machine is tried again all the same. */
static bool needs_person(int code)
{
    switch (code) {
    case SHP_CODE_HOST_KEY_UNKNOWN:
    case SHP_CODE_HOST_KEY_CHANGED:
    case SHP_CODE_LOGIN_DENIED:
    case SHP_CODE_KEY_LOCKED:
    case SHP_CODE_INTERACTION_REQUIRED:
        return true;
    default:
        return false;
    }
}

const char *machine_status(const struct machine *machine)
{
    if (!machine->enabled)
        return "disabled";
    if (machine->state == MACHINE_WAITING && needs_person(machine->reason.code))
        return "action_required";
    return machine_state_name(machine->state);
}

static void set_state(struct machine *machine, enum machine_state state)
{
    if (machine->state == state)
        return;
    machine->state = state;
    bool attempt = state == MACHINE_CONNECTING;
    if (attempt ? machine->rest == MACHINE_IDLE : machine->rest != state)
        machine->state_since_unix_ms = clock_unix_ms();
    if (!attempt)
        machine->rest = state;
    struct machine_events *events = &machine->fleet->events;
    if (events->on_state)
        events->on_state(machine, events->user);
}

void machine_unavailable(const struct machine *machine, struct shp_error *error)
{
    const struct shp_error *reason = &machine->reason;
    if (reason->code)
        shp_error_set(error, SHP_CODE_MACHINE_UNAVAILABLE, machine->id,
                      *reason->step ? reason->step : "connect", "%s: %s. %s",
                      shp_code_name(reason->code), reason->cause, shp_code_next(reason->code));
    else
        shp_error_set(error, SHP_CODE_MACHINE_UNAVAILABLE, machine->id, "connect",
                      "there is no link yet");
}

/* Why there is no link, from now on. */
static void set_down(struct machine *machine, const struct shp_error *reason)
{
    machine->reason = *reason;
    shp_error_add_machine(&machine->reason, machine->id);
    machine->last_error = machine->reason;
    machine->last_error_unix_ms = clock_unix_ms();
    set_state(machine, MACHINE_WAITING);
}

/* ---- requests ------------------------------------------------------------------------------ */

static void request_free(struct machine_request *request)
{
    free(request->params);
    free(request->bulk);
    free(request);
}

static void request_end(struct machine_request *request, const struct shp_error *error)
{
    struct machine_answer answer = {.error = error};
    request->cb(request->machine, &answer, request->user);
    request_free(request);
}

static void on_answer(struct shp_link *link, const struct shp_link_answer *from_link, void *user)
{
    (void)link;
    struct machine_request *request = user;
    struct machine *machine = request->machine;
    struct shp_error error = {0};
    struct machine_answer answer = {0};
    cJSON *result = NULL;
    if (from_link->error) {
        error = *from_link->error;
        shp_error_add_machine(&error, machine->id);
        answer.error = &error;
    } else {
        machine->last_seen_unix_ms = clock_unix_ms();
        result = json_parse_object(from_link->json, strlen(from_link->json));
        answer.result = result;
        answer.bulk = from_link->bulk ? (const char *)from_link->bulk : "";
        answer.bulk_len = from_link->bulk_len;
    }
    request->cb(machine, &answer, request->user);
    cJSON_Delete(result);
    request_free(request);
}

static void list_append(struct machine_request **list, struct machine_request *request)
{
    request->next = NULL;
    while (*list)
        list = &(*list)->next;
    *list = request;
}

static void on_soon(uv_timer_t *timer)
{
    struct machine *machine = timer->data;
    struct machine_request *request = machine->failed;
    machine->failed = NULL;
    while (request) {
        struct machine_request *next = request->next;
        struct shp_error error = request->error;
        request_end(request, &error);
        request = next;
    }
}

/* A completion never runs inside the call that asked: it waits for the loop's next turn. */
static void request_fail_soon(struct machine_request *request, const struct shp_error *error)
{
    struct machine *machine = request->machine;
    if (uv_is_closing((uv_handle_t *)&machine->soon)) {
        request_end(request, error); /* the fleet ends: there is no later turn */
        return;
    }
    request->error = *error;
    list_append(&machine->failed, request);
    uv_timer_start(&machine->soon, on_soon, 0, 0);
}

static void request_wait(struct machine_request *request)
{
    list_append(&request->machine->waiting, request);
    request->machine->waiting_len++;
}

static void request_send(struct machine_request *request)
{
    struct machine *machine = request->machine;
    int rc = shp_link_request(machine->link, request->message, request->has_id ? request->id : NULL,
                              request->timeout_ms, request->params, (const uint8_t *)request->bulk,
                              request->bulk_len, on_answer, request, NULL);
    if (rc == SHP_OK)
        return;
    /* The link's output is full: on_writable sends it. Or the link is ending, and its end has not
     * been told yet: the next one carries it. */
    if (rc == SHP_ERR_AGAIN || (rc == SHP_ERR_STATE && machine->enabled)) {
        request_wait(request);
        return;
    }
    struct shp_error error = {0};
    if (rc == SHP_ERR_LIMIT)
        shp_error_set(&error, SHP_CODE_TOO_MANY_STREAMS, machine->id, "send request",
                      "too many calls are under way, or the call is too large");
    else
        machine_unavailable(machine, &error);
    request_fail_soon(request, &error);
}

/* error NULL: connected, send them. */
static void waiting_flush(struct machine *machine, const struct shp_error *error)
{
    struct machine_request *request = machine->waiting;
    machine->waiting = NULL;
    machine->waiting_len = 0;
    while (request) {
        struct machine_request *next = request->next;
        if (error)
            request_fail_soon(request, error);
        else
            request_send(request);
        request = next;
    }
}

void machine_request(struct machine *machine, uint16_t message, const uint8_t *id,
                     uint32_t timeout_ms, cJSON *params, const char *bulk, size_t bulk_len,
                     machine_answer_cb cb, void *user)
{
    struct machine_request *request = xcalloc(1, sizeof(*request));
    request->machine = machine;
    request->message = message;
    request->has_id = id != NULL;
    if (id)
        memcpy(request->id, id, sizeof(request->id));
    request->timeout_ms = timeout_ms;
    request->params = params ? json_print(params) : xstrdup("{}");
    cJSON_Delete(params);
    request->bulk = bulk ? xstrndup(bulk, bulk_len) : NULL;
    request->bulk_len = bulk_len;
    request->cb = cb;
    request->user = user;
    if (machine->state == MACHINE_CONNECTED && !machine->waiting) {
        request_send(request);
        return;
    }
    if (machine->state == MACHINE_CLOSED || !machine->enabled ||
        machine->waiting_len >= MACHINE_WAITING_MAX) {
        struct shp_error error = {0};
        if (machine->state != MACHINE_CLOSED && machine->enabled)
            shp_error_set(&error, SHP_CODE_TOO_MANY_STREAMS, machine->id, "wait for a link",
                          "%d calls wait for this machine already", MACHINE_WAITING_MAX);
        else
            machine_unavailable(machine, &error);
        request_fail_soon(request, &error);
        return;
    }
    request_wait(request);
    machine_connect(machine);
}

/* ---- connecting ---------------------------------------------------------------------------- */

static void attempt(struct machine *machine);

static uint64_t boot_ms(void)
{
    struct clock_times now;
    clock_read(&now);
    return now.boot_ms;
}

/* Time until the bound on logins allows the next one. Nobody is logged in to on our own side. */
static uint64_t slot_in_ms(const struct machine *machine)
{
    uint64_t now_ms = boot_ms();
    return machine->local ? 0 : pace_free_at_ms(&machine->pace, now_ms, machine->asked) - now_ms;
}

static void on_retry(uv_timer_t *timer)
{
    attempt(timer->data);
}

static void retry_in(struct machine *machine, uint64_t delay_ms)
{
    uint64_t slot_ms = slot_in_ms(machine);
    uv_timer_start(&machine->retry, on_retry, delay_ms > slot_ms ? delay_ms : slot_ms, 0);
}

static void schedule_retry(struct machine *machine)
{
    if (!machine->wanted || machine->state != MACHINE_WAITING ||
        machine->reason.code == SHP_CODE_HOST_KEY_CHANGED)
        return;
    bool slow = needs_person(machine->reason.code);
    retry_in(machine, slow ? pace_person_ms() : pace_backoff(&machine->pace));
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct machine *machine = handle->data;
    if (--machine->handles_open == 0)
        fleet_unref(machine->fleet);
}

void machine_free(struct machine *machine)
{
    free(machine->label);
    free(machine->target);
    free(machine->session);
    free(machine->home);
    free(machine->host);
    free(machine->hostname);
    free(machine->system);
    free(machine);
}

static void end_if_done(struct machine *machine)
{
    if (!machine->ending || machine->link || uv_is_closing((uv_handle_t *)&machine->retry))
        return;
    on_soon(&machine->soon);
    uv_close((uv_handle_t *)&machine->retry, on_handle_closed);
    uv_close((uv_handle_t *)&machine->soon, on_handle_closed);
}

static void on_established(struct shp_link *link, const char *peer_hello, void *user)
{
    struct machine *machine = user;
    cJSON *hello = json_parse_object(peer_hello, strlen(peer_hello));
    if (!connect_hello_accept(machine, hello, &machine->link_error)) {
        shp_link_close(link, machine->link_error.code, machine->link_error.cause);
        cJSON_Delete(hello);
        return;
    }
    xreplace(&machine->home, json_string(hello, "home"));
    xreplace(&machine->host, json_string(hello, "host"));
    xreplace(&machine->hostname, json_string(hello, "hostname"));
    xreplace(&machine->system, json_string(hello, "system"));
    cJSON_Delete(hello);
    const struct shp_ssh_facts *ssh = shp_link_ssh_facts(link);
    if (ssh)
        machine->ssh = *ssh;
    machine->generation++;
    machine->crowded = 0;
    machine->asked = false;
    machine->woke = false;
    machine->reason = (struct shp_error){0};
    machine->connected_at_ms = uv_now(machine->fleet->loop);
    machine->last_seen_unix_ms = clock_unix_ms();
    set_state(machine, MACHINE_CONNECTED);
    waiting_flush(machine, NULL);
}

static void on_request(struct shp_link *link, const struct shp_link_request *request,
                       const char *json, bool fin, void *user)
{
    (void)json;
    (void)fin;
    struct machine *machine = user;
    struct shp_error error = {0};
    if (request->message == SHP_MSG_SESSION_REQUEST) {
        machine->inbound_refused++;
        shp_error_set(&error, SHP_CODE_NOT_RELATED, NULL, "inbound request",
                      "the controlling session takes no requests from this session");
    } else {
        shp_error_set(&error, SHP_CODE_UNKNOWN_MESSAGE, NULL, "inbound request",
                      "a controller does not serve this message");
    }
    shp_link_respond_error(link, request->stream, &error);
}

static void on_notification(struct shp_link *link, uint32_t stream, uint16_t message,
                            const char *json, bool fin, void *user)
{
    (void)link;
    (void)stream;
    (void)fin;
    struct machine *machine = user;
    struct machine_events *events = &machine->fleet->events;
    if (message != SHP_MSG_SESSION_EVENT || !events->on_session_event)
        return;
    cJSON *params = json_parse_object(json, strlen(json));
    if (params)
        events->on_session_event(machine, params, events->user);
    cJSON_Delete(params);
}

/* Bulk of inbound requests: they are refused, so it is used up unread. */
static void on_bulk(struct shp_link *link, uint32_t stream, const uint8_t *data, size_t len,
                    bool fin, void *user)
{
    (void)data;
    (void)fin;
    (void)user;
    shp_link_consume(link, stream, len);
}

static void on_writable(struct shp_link *link, void *user)
{
    (void)link;
    struct machine *machine = user;
    if (machine->state == MACHINE_CONNECTED)
        waiting_flush(machine, NULL);
}

/* Many machines behind one server are refused by their own number: calls wait for a later start. */
static bool repeat_crowded(struct machine *machine)
{
    if (!machine->waiting || !machine->enabled || machine->crowded >= MACHINE_CROWDED_MAX ||
        !connect_was_crowded(machine, &machine->reason)) {
        machine->crowded = 0;
        return false;
    }
    machine->crowded++;
    pace_give_back(&machine->pace);
    uint32_t span = (uint32_t)machine->crowded * MACHINE_CROWDED_MS;
    retry_in(machine, span / 2 + randombytes_uniform(span));
    return true;
}

/* What waited for a link hears why there is none. */
static void fail_waiting(struct machine *machine)
{
    struct shp_error unavailable = {0};
    machine_unavailable(machine, &unavailable);
    waiting_flush(machine, &unavailable);
}

/* A loss soon after a wake was one of the sleep. */
static bool lost_by_sleep(struct machine *machine)
{
    bool woke = machine->woke;
    machine->woke = false;
    return woke && machine->wanted &&
           uv_now(machine->fleet->loop) - machine->woke_at_ms < SHP_LIMIT_SILENCE_MAX_MS;
}

static void on_closed(struct shp_link *link, const struct shp_error *error,
                      const struct shp_transport_end *end, void *user)
{
    (void)link;
    struct machine *machine = user;
    machine->link = NULL;
    if (end && end->ssh)
        machine->ssh = *end->ssh;
    bool was_connected = machine->state == MACHINE_CONNECTED;
    if (was_connected &&
        uv_now(machine->fleet->loop) - machine->connected_at_ms >= MACHINE_STABLE_MS)
        machine->pace.backoff_ms = 0;
    if (machine->state == MACHINE_CLOSED) {
        machine->link_error = (struct shp_error){0};
        end_if_done(machine);
        return;
    }
    struct shp_error reason = machine->link_error.code ? machine->link_error : *error;
    machine->link_error = (struct shp_error){0};
    if (!reason.code)
        shp_error_set(&reason, SHP_CODE_LINK_LOST, machine->id, "link", "the helper ended%s%s",
                      end && *end->diagnostic ? ": " : "", end ? end->diagnostic : "");
    connect_explain(&reason, end ? end->diagnostic : "");
    set_down(machine, &reason);
    /* What was asked for since an established link broke has had no attempt of its own yet. */
    if (was_connected && machine->enabled &&
        (machine->waiting || machine->asked || lost_by_sleep(machine))) {
        machine_connect(machine);
        return;
    }
    machine->asked = false;
    if (repeat_crowded(machine))
        return;
    fail_waiting(machine);
    schedule_retry(machine);
}

static bool may_connect(const struct machine *machine)
{
    return machine->state != MACHINE_CLOSED && !machine->link && !machine->fleet->closing &&
           machine->enabled;
}

static void attempt(struct machine *machine)
{
    if (!may_connect(machine))
        return;
    uv_timer_stop(&machine->retry);
    static const struct shp_link_callbacks callbacks = {
        .on_established = on_established,
        .on_request = on_request,
        .on_notification = on_notification,
        .on_bulk = on_bulk,
        .on_writable = on_writable,
        .on_closed = on_closed,
    };
    struct shp_error error = {0};
    pace_took(&machine->pace, boot_ms());
    if (connect_open(machine, &callbacks, &machine->link, &error) == SHP_OK) {
        set_state(machine, MACHINE_CONNECTING);
        return;
    }
    set_down(machine, &error);
    machine->asked = false;
    if (repeat_crowded(machine))
        return;
    fail_waiting(machine);
    schedule_retry(machine);
}

/* The bound on logins is reached: who waits is told when the next one may be. */
static void fail_by_pace(struct machine *machine, uint64_t slot_ms)
{
    const struct shp_error *reason = &machine->reason;
    struct shp_error error = {0};
    shp_error_set(&error, SHP_CODE_MACHINE_UNAVAILABLE, machine->id, "connect",
                  "%s%s%s%s%d logins within a minute are enough; the next may begin in %d s",
                  reason->code ? shp_code_name(reason->code) : "", reason->code ? ": " : "",
                  reason->code ? reason->cause : "", reason->code ? "; " : "", PACE_LOGINS_MAX,
                  (int)(slot_ms / 1000) + 1);
    machine->asked = false;
    waiting_flush(machine, &error);
    if (machine->wanted && !uv_is_active((uv_handle_t *)&machine->retry))
        retry_in(machine, 0);
}

void machine_connect(struct machine *machine)
{
    if (!may_connect(machine))
        return;
    uint64_t slot_ms = slot_in_ms(machine);
    if (slot_ms == 0)
        attempt(machine);
    else if (slot_ms <= MACHINE_SLOT_WAIT_MS)
        retry_in(machine, 0);
    else
        fail_by_pace(machine, slot_ms);
}

static void drop_link(struct machine *machine, const char *why)
{
    shp_error_set(&machine->link_error, SHP_CODE_LINK_LOST, machine->id, "link", "%s", why);
    if (machine->link)
        shp_link_close(machine->link, 0, why);
}

void machine_reconnect(struct machine *machine)
{
    if (machine->state == MACHINE_CLOSED || machine->state == MACHINE_CONNECTING)
        return;
    machine->asked = true;
    machine->pace.backoff_ms = 0;
    if (machine->link)
        drop_link(machine, "made anew as asked");
    else
        machine_connect(machine);
}

void machine_want(struct machine *machine, bool wanted)
{
    machine->wanted = wanted && machine->enabled;
    if (!machine->wanted && !machine->waiting)
        uv_timer_stop(&machine->retry);
    if (!machine->wanted)
        return;
    if (machine->state == MACHINE_IDLE)
        machine_connect(machine);
    else if (machine->state == MACHINE_WAITING && !uv_is_active((uv_handle_t *)&machine->retry))
        schedule_retry(machine);
}

void machine_refreshed(struct machine *machine)
{
    if (machine->wanted && machine->state == MACHINE_WAITING &&
        needs_person(machine->reason.code) && may_connect(machine))
        retry_in(machine, 0);
}

void machine_wake(struct machine *machine)
{
    if (machine->state == MACHINE_CONNECTED) {
        machine->woke = true;
        machine->woke_at_ms = uv_now(machine->fleet->loop);
        shp_link_probe(machine->link);
        return;
    }
    /* An attempt under way has deadlines of its own; what follows it comes soon. */
    machine->pace.backoff_ms = 0;
    if (machine->wanted && machine->state == MACHINE_WAITING &&
        machine->reason.code != SHP_CODE_HOST_KEY_CHANGED)
        retry_in(machine, 0);
}

/* ---- life ---------------------------------------------------------------------------------- */

struct machine *machine_new(struct fleet *fleet, const struct catalog_entry *entry)
{
    struct machine *machine = xcalloc(1, sizeof(*machine));
    machine->fleet = fleet;
    machine->local = entry == NULL;
    machine->enabled = entry ? entry->enabled : true;
    if (entry) {
        memcpy(machine->id, entry->id, sizeof(machine->id));
        machine->label = xstrdup(entry->label);
        machine->target = xstrdup(entry->target);
        machine->session = xstrdup(entry->session);
    } else {
        memcpy(machine->id, MACHINE_LOCAL, sizeof(MACHINE_LOCAL));
        machine->label = xstrdup(MACHINE_LOCAL);
        machine->session = xstrdup(fleet->context->herdr_session);
    }
    machine->state_since_unix_ms = clock_unix_ms();
    uv_timer_init(fleet->loop, &machine->retry);
    uv_timer_init(fleet->loop, &machine->soon);
    machine->retry.data = machine;
    machine->soon.data = machine;
    machine->handles_open = 2;
    fleet->alive++;
    return machine;
}

void machine_update(struct machine *machine, const struct catalog_entry *entry)
{
    xreplace(&machine->label, entry->label);
    bool moved = strcmp(machine->target, entry->target) != 0 ||
                 strcmp(machine->session, entry->session) != 0;
    xreplace(&machine->target, entry->target);
    xreplace(&machine->session, entry->session);
    if (machine->state == MACHINE_CLOSED)
        set_state(machine, MACHINE_IDLE);
    bool was_enabled = machine->enabled;
    machine->enabled = entry->enabled;
    if (was_enabled && !entry->enabled) {
        machine_want(machine, false);
        if (!machine->link) {
            uv_timer_stop(&machine->retry);
            fail_waiting(machine);
        }
    }
    if (machine->link && (moved || !entry->enabled))
        drop_link(machine, moved ? "the catalog changed its target" : "disabled in the catalog");
}

void machine_close(struct machine *machine)
{
    uv_timer_stop(&machine->retry);
    machine->wanted = false;
    shp_error_set(&machine->reason, SHP_CODE_SHUTTING_DOWN, machine->id, "link",
                  "the machine was removed from the fleet");
    if (machine->link)
        drop_link(machine, machine->reason.cause);
    set_state(machine, MACHINE_CLOSED);
    struct shp_error error = {0};
    machine_unavailable(machine, &error);
    waiting_flush(machine, &error);
}

void machine_end(struct machine *machine)
{
    machine_close(machine);
    machine->ending = true;
    end_if_done(machine);
}
