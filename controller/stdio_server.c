#include "controller/stdio_server.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>
#include <cjson/cJSON.h>

#include "base/id.h"
#include "base/log.h"
#include "controller/agents/operation.h"
#include "controller/app.h"
#include "controller/json.h"
#include "controller/machines_get.h"
#include "controller/xalloc.h"
#include "protocol/codec.h"
#include "protocol/messages.h"
#include "shp_build_id.h"
#include "transport/link.h"

#define PUSH_TIMEOUT_MS 30000
#define PUSH_RETRY_MS 1000
/* Leaves room in a HEAD for a warning and escapes of the names around it. */
#define VALUE_INLINE_BYTES_MAX 49152

struct stdio_call;

struct stdio_server {
    uv_loop_t loop;
    const char *program_dir;
    struct shp_link *link; /* NULL once it has ended */
    struct app *app;       /* NULL before session_open */
    struct stdio_call *calls;
    uv_timer_t push_retry;
};

/* An agents_call of the peer, from its head to our answer. */
struct stdio_call {
    struct stdio_server *server;
    uint32_t stream;
    char operation[33];
    cJSON *object;
    bool has_message;
    char *message;
    size_t message_len;
    bool started;
    struct stdio_call *next;
};

/* ---- calls --------------------------------------------------------------------------------- */

static struct stdio_call *call_find(struct stdio_server *server, uint32_t stream)
{
    for (struct stdio_call *call = server->calls; call; call = call->next)
        if (call->stream == stream)
            return call;
    return NULL;
}

static void call_free(struct stdio_call *call)
{
    struct stdio_call **slot = &call->server->calls;
    while (*slot != call)
        slot = &(*slot)->next;
    *slot = call->next;
    cJSON_Delete(call->object);
    free(call->message);
    free(call);
}

static void respond(struct stdio_server *server, uint32_t stream, cJSON *result, const char *bulk)
{
    char *text = json_print(result);
    cJSON_Delete(result);
    int rc = server->link ? shp_link_respond(server->link, stream, text, (const uint8_t *)bulk,
                                             bulk ? strlen(bulk) : 0)
                          : SHP_OK;
    if (rc != SHP_OK && rc != SHP_ERR_NOT_FOUND) {
        struct shp_error error = {0};
        shp_error_set(&error, SHP_CODE_MESSAGE_TOO_LARGE, NULL, "answer", "%s", shp_strerror(rc));
        shp_link_respond_error(server->link, stream, &error);
    }
    free(text);
}

/* A value that is too long for a HEAD (many long paths in a list) travels as bulk. */
static void respond_value(struct stdio_call *call, const struct operation_result *result)
{
    cJSON *answer = cJSON_CreateObject();
    cJSON *value = cJSON_Duplicate(result->value, true);
    const char *bulk = result->bulk_field ? result->bulk : NULL;
    char *text = json_print(value);
    char *whole = NULL;
    json_add(answer, "warning", result->warning);
    if (strlen(text) > VALUE_INLINE_BYTES_MAX) {
        json_add(value, result->bulk_field, bulk);
        whole = json_print(value);
        bulk = whole;
        cJSON_AddItemToObject(answer, "value", cJSON_CreateObject());
        json_add(answer, "bulk_field", "*");
        cJSON_Delete(value);
    } else {
        cJSON_AddItemToObject(answer, "value", value);
        json_add(answer, "bulk_field", result->bulk_field);
    }
    respond(call->server, call->stream, answer, bulk);
    free(whole);
    free(text);
}

static void on_call_done(const struct operation_result *result, void *user)
{
    struct stdio_call *call = user;
    struct stdio_server *server = call->server;
    if (result->error) {
        if (server->link)
            shp_link_respond_error(server->link, call->stream, result->error);
    } else {
        respond_value(call, result);
    }
    call_free(call);
}

static void on_call_progress(const cJSON *value, void *user)
{
    struct stdio_call *call = user;
    cJSON *params = cJSON_CreateObject();
    json_add(params, "operation", call->operation);
    cJSON_AddItemToObject(params, "value", cJSON_Duplicate(value, true));
    char *text = json_print(params);
    cJSON_Delete(params);
    if (call->server->link)
        shp_link_notify(call->server->link, SHP_MSG_AGENTS_PROGRESS, text);
    free(text);
}

static void call_start(struct stdio_call *call)
{
    struct operation_caller caller = {on_call_done, on_call_progress, call};
    call->started = true;
    operation_start(call->server->app, call->operation, call->object,
                    call->has_message ? call->message : NULL, &caller);
}

static void take_call(struct stdio_server *server, uint32_t stream, const cJSON *params, bool fin)
{
    struct stdio_call *call = xcalloc(1, sizeof(*call));
    call->server = server;
    call->stream = stream;
    memcpy(call->operation, json_string(params, "operation"), 32);
    call->has_message = json_bool(params, "has_message");
    call->object = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(params, "call"), true);
    call->message = xstrdup("");
    call->next = server->calls;
    server->calls = call;
    if (fin)
        call_start(call);
}

static void on_bulk(struct shp_link *link, uint32_t stream, const uint8_t *data, size_t len,
                    bool fin, void *user)
{
    struct stdio_server *server = user;
    struct stdio_call *call = call_find(server, stream);
    shp_link_consume(link, stream, len);
    if (!call || call->started)
        return;
    if (call->message_len + len > SHP_LIMIT_MESSAGE_TEXT_BYTES_MAX || memchr(data, 0, len)) {
        struct shp_error error = {0};
        bool large = call->message_len + len > SHP_LIMIT_MESSAGE_TEXT_BYTES_MAX;
        shp_error_set(&error, large ? SHP_CODE_MESSAGE_TOO_LARGE : SHP_CODE_FIELD_INVALID, NULL,
                      "read call", large ? "message: more than %d bytes" : "message: has a NUL",
                      SHP_LIMIT_MESSAGE_TEXT_BYTES_MAX);
        shp_link_respond_error(link, stream, &error);
        call_free(call);
        return;
    }
    call->message = xrealloc(call->message, call->message_len + len + 1);
    memcpy(call->message + call->message_len, data, len);
    call->message_len += len;
    call->message[call->message_len] = 0;
    if (fin)
        call_start(call);
}

static void on_canceled(struct shp_link *link, uint32_t stream, void *user)
{
    (void)link;
    struct stdio_server *server = user;
    struct stdio_call *call = call_find(server, stream);
    if (!call)
        return;
    /* Detached first: an action that waits ends inside operation_detach. */
    if (call->started)
        operation_detach(server->app, call->operation, call);
    call_free(call);
}

/* ---- reports ------------------------------------------------------------------------------- */

/*
 * Every due report is handed over at once; pi-ext has one outstanding in Pi and merges what comes
 * meanwhile into one turn. DUE in the store: not handed over by this process, or to be again.
 */
struct push {
    struct stdio_server *server;
    char id[65];
};

static void push_due(struct stdio_server *server);

static void on_push_retry(uv_timer_t *timer)
{
    push_due(timer->data);
}

static void push_failed(struct stdio_server *server, const char *id)
{
    shp_store_report_mark(server->app->store, id, SHP_REPORT_DUE);
    uv_timer_start(&server->push_retry, on_push_retry, PUSH_RETRY_MS, 0);
}

static void on_pushed(struct shp_link *link, const struct shp_link_answer *answer, void *user)
{
    (void)link;
    struct push *push = user;
    struct stdio_server *server = push->server;
    if (server->app && !server->app->closing && server->link) {
        cJSON *result =
            answer->error ? NULL : json_parse_object(answer->json, strlen(answer->json));
        /* Accepted: ledger_mark tells the rest. */
        if (answer->error)
            push_failed(server, push->id);
        else if (!json_bool(result, "accepted"))
            shp_store_report_mark(server->app->store, push->id, SHP_REPORT_CONFIRMED);
        cJSON_Delete(result);
    }
    free(push);
}

static void push_one(const struct shp_report_record *report, void *user)
{
    struct stdio_server *server = user;
    if (report->state != SHP_REPORT_DUE ||
        shp_store_report_mark(server->app->store, report->id, SHP_REPORT_PUSHED) != SHP_OK)
        return;
    struct push *push = xcalloc(1, sizeof(*push));
    push->server = server;
    memcpy(push->id, report->id, sizeof(push->id));
    cJSON *params = cJSON_CreateObject();
    json_add(params, "report", report->id);
    cJSON *details = json_parse_object(report->details, strlen(report->details));
    cJSON_AddItemToObject(params, "details", details ? details : cJSON_CreateObject());
    char *text = json_print(params);
    cJSON_Delete(params);
    int rc = shp_link_request(server->link, SHP_MSG_REPORT_PUSH, NULL, PUSH_TIMEOUT_MS, text,
                              (const uint8_t *)report->text, strlen(report->text), on_pushed, push,
                              NULL);
    free(text);
    if (rc != SHP_OK) {
        push_failed(server, push->id);
        free(push);
    }
}

static void push_due(struct stdio_server *server)
{
    if (server->app && server->link && !server->app->closing)
        shp_store_report_each_due(server->app->store, push_one, server);
}

static void on_report_due(void *user)
{
    push_due(user);
}

static void take_mark(struct stdio_server *server, uint32_t stream, const cJSON *params)
{
    const char *name = json_string(params, "state");
    bool absent = strcmp(name, "absent") == 0;
    enum shp_report_state state = absent                           ? SHP_REPORT_DUE
                                  : strcmp(name, "confirmed") == 0 ? SHP_REPORT_CONFIRMED
                                                                   : SHP_REPORT_PROVISIONAL;
    const cJSON *item = NULL;
    bool stored = true;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(params, "reports"))
    {
        const char *id = cJSON_IsString(item) ? item->valuestring : "";
        int rc = shp_store_report_mark(server->app->store, id, state);
        stored = stored && (rc == SHP_OK || rc == SHP_ERR_NOT_FOUND);
    }
    /* Power-durable before it counts as delivered: a mark that is lost pushes twice. */
    if (stored && shp_store_sync(server->app->store) == SHP_OK) {
        respond(server, stream, cJSON_CreateObject(), NULL);
    } else {
        struct shp_error error = {0};
        shp_error_set(&error, SHP_CODE_STORE_FAILED, NULL, "mark report", "%s",
                      shp_store_error(server->app->store));
        shp_link_respond_error(server->link, stream, &error);
    }
    push_due(server);
}

/* ---- machines ------------------------------------------------------------------------------ */

struct asked {
    struct stdio_server *server;
    uint32_t stream;
};

static void on_machines(const struct shp_error *error, const cJSON *rows, void *user)
{
    struct asked *asked = user;
    struct stdio_server *server = asked->server;
    if (error && server->link) {
        shp_link_respond_error(server->link, asked->stream, error);
    } else if (!error) {
        cJSON *result = cJSON_CreateObject();
        char *text = json_print(rows);
        cJSON_AddNumberToObject(result, "machines", cJSON_GetArraySize(rows));
        respond(server, asked->stream, result, text);
        free(text);
    }
    free(asked);
}

static void take_machines(struct stdio_server *server, uint32_t stream, const cJSON *params)
{
    struct asked *asked = xcalloc(1, sizeof(*asked));
    asked->server = server;
    asked->stream = stream;
    machines_get(server->app, params, on_machines, asked);
}

/* ---- session ------------------------------------------------------------------------------- */

static void open_session(struct stdio_server *server, uint32_t stream, const cJSON *params)
{
    struct shp_error error = {0};
    if (server->app) {
        shp_error_set(&error, SHP_CODE_INVALID_PARAMS, NULL, "open session",
                      "this controller has its session already");
        shp_link_respond_error(server->link, stream, &error);
        return;
    }
    struct context context;
    context_from_json(&context, params);
    struct app_events events = {.on_report_due = on_report_due, .user = server};
    if (app_open(&server->app, &server->loop, &context, server->program_dir, &events, &error) !=
        SHP_OK) {
        shp_link_respond_error(server->link, stream, &error);
        return;
    }
    cJSON *result = cJSON_CreateObject();
    json_add(result, "installation", server->app->installation);
    json_add(result, "version", SHP_VERSION);
    cJSON_AddNumberToObject(result, "open_tasks", (double)app_open_tasks(server->app));
    cJSON_AddBoolToObject(result, "durable", shp_store_durable(server->app->store));
    respond(server, stream, result, NULL);
}

static bool operation_valid(const char *id)
{
    return strlen(id) == SHP_ID_HEX && shp_hex_valid(id, SHP_ID_HEX);
}

static bool params_valid(struct stdio_server *server, const struct shp_link_request *request,
                         const cJSON *params)
{
    char field[128] = "";
    struct shp_error error = {0};
    if (!shp_message_find(request->message))
        shp_error_set(&error, SHP_CODE_UNKNOWN_MESSAGE, NULL, "request", "message %u",
                      request->message);
    else if (!params ||
             shp_codec_check_params(request->message, params, field, sizeof(field)) != SHP_OK)
        shp_error_set(&error, SHP_CODE_INVALID_PARAMS, NULL, "request", "%s",
                      *field ? field : "not an object");
    else if (request->message != SHP_MSG_SESSION_OPEN && !server->app)
        shp_error_set(&error, SHP_CODE_INVALID_PARAMS, NULL, "request",
                      "session_open must come first");
    else if (request->message == SHP_MSG_AGENTS_CALL &&
             !operation_valid(json_string(params, "operation")))
        shp_error_set(&error, SHP_CODE_INVALID_PARAMS, NULL, "request",
                      "operation: not 32 hex digits");
    else
        return true;
    shp_link_respond_error(server->link, request->stream, &error);
    return false;
}

static void on_request(struct shp_link *link, const struct shp_link_request *request,
                       const char *json, bool fin, void *user)
{
    (void)link;
    struct stdio_server *server = user;
    cJSON *params = json_parse_object(json, strlen(json));
    if (params_valid(server, request, params)) {
        struct shp_error error = {0};
        switch (request->message) {
        case SHP_MSG_SESSION_OPEN:
            open_session(server, request->stream, params);
            break;
        case SHP_MSG_AGENTS_CALL:
            take_call(server, request->stream, params, fin);
            break;
        case SHP_MSG_MACHINES_GET:
            take_machines(server, request->stream, params);
            break;
        case SHP_MSG_LEDGER_MARK:
            take_mark(server, request->stream, params);
            break;
        default:
            shp_error_set(&error, SHP_CODE_UNKNOWN_MESSAGE, NULL, "request",
                          "not served on this link");
            shp_link_respond_error(server->link, request->stream, &error);
        }
    }
    cJSON_Delete(params);
}

static void on_hello(struct shp_link *link, const char *json, void *user)
{
    (void)json;
    (void)user;
    char hello[256];
    snprintf(hello, sizeof(hello),
             "{\"versions\":[%d,%d],\"role\":\"controller\",\"build\":\"%s\"}",
             SHP_PROTOCOL_VERSION_MIN, SHP_PROTOCOL_VERSION_MAX, SHP_BUILD_ID);
    shp_link_set_hello(link, hello);
}

static void on_established(struct shp_link *link, const char *peer_hello, void *user)
{
    (void)link;
    (void)peer_hello;
    (void)user;
}

static void on_notification(struct shp_link *link, uint32_t stream, uint16_t message,
                            const char *json, bool fin, void *user)
{
    (void)link;
    (void)stream;
    (void)message;
    (void)json;
    (void)fin;
    (void)user; /* pi-ext tells nothing that way in this version */
}

static void on_app_closed(struct app *app, void *user)
{
    (void)app;
    struct stdio_server *server = user;
    server->app = NULL;
}

static void on_closed(struct shp_link *link, const struct shp_error *error,
                      const struct shp_transport_end *end, void *user)
{
    (void)link;
    (void)end;
    struct stdio_server *server = user;
    if (error && error->code && error->code != SHP_CODE_LINK_LOST)
        shp_log(SHP_LOG_WARN, "stdio", NULL, "%s: %s", shp_code_name(error->code), error->cause);
    server->link = NULL;
    while (server->calls) {
        struct stdio_call *call = server->calls;
        if (call->started && server->app)
            operation_detach_quietly(server->app, call->operation, call);
        call_free(call);
    }
    uv_close((uv_handle_t *)&server->push_retry, NULL);
    if (server->app)
        app_close(server->app, on_app_closed, server);
}

int stdio_server_run(const char *program_dir)
{
    struct stdio_server server = {.program_dir = program_dir};
    uv_loop_init(&server.loop);
    uv_timer_init(&server.loop, &server.push_retry);
    server.push_retry.data = &server;
    struct shp_link_options options = {
        .session = {.role = SHP_ROLE_RESPONDER, .suite = SHP_SUITE_PLAIN},
        .callbacks = {.on_hello = on_hello,
                      .on_established = on_established,
                      .on_request = on_request,
                      .on_notification = on_notification,
                      .on_bulk = on_bulk,
                      .on_canceled = on_canceled,
                      .on_closed = on_closed},
        .user = &server,
    };
    if (shp_transport_stdio_new(&options.transport, &server.loop, STDIN_FILENO, STDOUT_FILENO) !=
            SHP_OK ||
        shp_link_open(&server.link, &server.loop, &options) != SHP_OK) {
        shp_log(SHP_LOG_ERROR, "stdio", NULL, "standard input and output cannot be used");
        return 1;
    }
    uv_run(&server.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&server.loop) == 0 ? 0 : 1;
}
