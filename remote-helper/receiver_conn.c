#include "remote-helper/receiver_conn.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/codec.h"
#include "protocol/messages.h"
#include "remote-helper/inbound.h"
#include "remote-helper/receivers.h"

static const char step[] = "connect to the receiver";

struct receiver_conn {
    struct helper *helper;
    struct receiver_conn *next;
    struct shp_link *link;
    uv_timer_t idle;
    struct receiver_waiter *waiters;
    struct inbound *inbounds;
    bool permanent;
    bool established;
    bool closing;
    bool told_wrong; /* another session answers at this socket */
    char pi_session_id[HELPER_PI_SESSION_MAX + 1];
    char terminal_id[HELPER_PI_SESSION_MAX + 1]; /* "": unknown */
};

/* ---- time --------------------------------------------------------------------------------- */

static void on_idle(uv_timer_t *timer)
{
    struct receiver_conn *conn = timer->data;
    if (conn->permanent || shp_link_pending(conn->link) > 0 || conn->inbounds != NULL) {
        uv_timer_again(timer);
        return;
    }
    uv_timer_stop(timer);
    conn->closing = true;
    shp_link_close(conn->link, 0, "idle");
}

static void used(struct receiver_conn *conn)
{
    uint64_t idle_ms = conn->helper->receiver_idle_ms;
    uv_timer_start(&conn->idle, on_idle, idle_ms, idle_ms);
}

/* ---- waiters ------------------------------------------------------------------------------ */

static void wait_on(struct receiver_conn *conn, struct receiver_waiter *waiter)
{
    waiter->conn = conn;
    waiter->next = conn->waiters;
    conn->waiters = waiter;
}

void receiver_conn_forget(struct receiver_waiter *waiter)
{
    if (waiter->conn == NULL)
        return;
    struct receiver_waiter **at = &waiter->conn->waiters;
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
    waiter->conn = NULL;
}

static void call_waiters(struct receiver_conn *conn, const struct shp_error *error)
{
    while (conn->waiters != NULL) {
        struct receiver_waiter *waiter = conn->waiters;
        receiver_conn_forget(waiter);
        waiter->cb(waiter, error == NULL ? conn->link : NULL, error);
    }
}

/* ---- events of the receiver --------------------------------------------------------------- */

static void tell_event(struct helper *helper, cJSON *event)
{
    char *text = NULL;
    size_t len;
    if (helper->link != NULL && shp_codec_print(&text, &len, event) == 0)
        shp_link_notify(helper->link, SHP_MSG_SESSION_EVENT, text);
    cJSON_free(text);
}

static void tell_lost(struct receiver_conn *conn, const char *reason)
{
    cJSON *event = cJSON_CreateObject();
    if (cJSON_AddStringToObject(event, "pi_session_id", conn->pi_session_id) != NULL &&
        cJSON_AddStringToObject(event, "event", "lost") != NULL) {
        char cut[512];
        shp_text_clean(cut, sizeof cut, reason, strlen(reason));
        cJSON_AddStringToObject(event, "reason", cut);
        tell_event(conn->helper, event);
    }
    cJSON_Delete(event);
}

static void on_notification(struct shp_link *link, uint32_t stream, uint16_t message,
                            const char *json, bool fin, void *user)
{
    struct receiver_conn *conn = user;
    cJSON *event = NULL;
    (void)link;
    (void)stream;
    (void)fin;
    if (message != SHP_MSG_SESSION_EVENT || shp_codec_parse(&event, json, strlen(json)) != 0)
        return;
    /* A session speaks for itself only. */
    cJSON *id = cJSON_CreateString(conn->pi_session_id);
    if (id != NULL) {
        cJSON_DeleteItemFromObjectCaseSensitive(event, "pi_session_id");
        cJSON_AddItemToObject(event, "pi_session_id", id);
        if (shp_codec_check_params(message, event, NULL, 0) == 0)
            tell_event(conn->helper, event);
    }
    cJSON_Delete(event);
}

static void on_request(struct shp_link *link, const struct shp_link_request *request,
                       const char *json, bool fin, void *user)
{
    struct receiver_conn *conn = user;
    if (request->message == SHP_MSG_SESSION_REQUEST) {
        inbound_begin(&conn->inbounds, conn->helper, link, conn->pi_session_id, request, json, fin);
        return;
    }
    struct shp_error error;
    shp_error_set(&error, SHP_CODE_UNKNOWN_MESSAGE, NULL, "request", "%s",
                  shp_message_name(request->message));
    shp_link_respond_error(link, request->stream, &error);
}

static void on_bulk(struct shp_link *link, uint32_t stream, const uint8_t *data, size_t len,
                    bool fin, void *user)
{
    struct receiver_conn *conn = user;
    shp_link_consume(link, stream, len);
    inbound_bulk(&conn->inbounds, stream, data, len, fin);
}

static void on_canceled(struct shp_link *link, uint32_t stream, void *user)
{
    struct receiver_conn *conn = user;
    (void)link;
    inbound_cancel(&conn->inbounds, stream);
}

/* ---- life --------------------------------------------------------------------------------- */

static void on_established(struct shp_link *link, const char *peer_hello, void *user)
{
    struct receiver_conn *conn = user;
    cJSON *hello = NULL;
    bool right = false;
    if (shp_codec_parse(&hello, peer_hello, strlen(peer_hello)) == 0) {
        const cJSON *id = cJSON_GetObjectItemCaseSensitive(hello, "pi_session_id");
        right = cJSON_IsString(id) && strcmp(id->valuestring, conn->pi_session_id) == 0;
    }
    cJSON_Delete(hello);
    if (!right) {
        conn->told_wrong = conn->closing = true;
        shp_link_close(link, 0, "another pi session listens here");
        return;
    }
    conn->established = true;
    call_waiters(conn, NULL);
}

static void on_idle_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void conn_error(const struct receiver_conn *conn, const struct shp_error *cause,
                       struct shp_error *error)
{
    int code = SHP_CODE_RECEIVER_MISSING;
    if (cause->code == SHP_CODE_VERSION_UNSUPPORTED)
        code = SHP_CODE_RECEIVER_OUTDATED;
    else if (cause->code == SHP_CODE_TOO_MANY_STREAMS)
        code = SHP_CODE_RECEIVER_REFUSED;
    else if (cause->code == SHP_CODE_AUTH_FAILED || cause->code == SHP_CODE_OUT_OF_MEMORY)
        code = cause->code;
    const char *text = conn->told_wrong          ? "another pi session listens at its socket"
                       : cause->cause[0] != '\0' ? cause->cause
                       : cause->code != 0        ? shp_code_name(cause->code)
                                                 : "the connection was closed";
    shp_error_set(error, code, NULL, step, "%s", text);
    error->outcome = SHP_OUTCOME_REJECTED;
}

static void on_closed(struct shp_link *link, const struct shp_error *cause,
                      const struct shp_transport_end *end, void *user)
{
    struct receiver_conn *conn = user;
    struct helper *helper = conn->helper;
    struct shp_error error;
    (void)link;
    (void)end;
    struct receiver_conn **at = &helper->receiver_conns;
    while (*at != conn)
        at = &(*at)->next;
    *at = conn->next;
    helper->receiver_conn_count--;
    conn->link = NULL;
    conn_error(conn, cause, &error);
    call_waiters(conn, &error);
    inbound_conn_closed(&conn->inbounds);
    if (conn->permanent && conn->established)
        tell_lost(conn, error.cause);
    uv_close((uv_handle_t *)&conn->idle, on_idle_closed);
}

static const struct shp_link_callbacks link_callbacks = {
    .on_established = on_established,
    .on_request = on_request,
    .on_notification = on_notification,
    .on_bulk = on_bulk,
    .on_canceled = on_canceled,
    .on_closed = on_closed,
};

static void write_hello(const struct helper *helper, const struct receiver *receiver,
                        struct json_out *out)
{
    helper_hello_begin(out);
    json_out_member_string(out, "installation", helper->installation);
    json_out_member_string(out, "pi_session_id", helper->pi_session_id);
    json_out_member_string(out, "host", helper->identity.host);
    json_out_member_string(out, "token", receiver->token);
    json_out_raw(out, "}");
}

static int open_link(struct receiver_conn *conn, const struct receiver *receiver)
{
    struct shp_transport *transport = NULL;
    struct json_out hello;
    json_out_init(&hello, SHP_LIMIT_HELLO_BYTES_MAX);
    write_hello(conn->helper, receiver, &hello);
    int status = json_out_status(&hello);
    if (status == 0)
        status = shp_transport_unix_new(&transport, conn->helper->loop, receiver->socket);
    if (status == 0) {
        struct shp_link_options options = {
            .transport = transport,
            .session = {.role = SHP_ROLE_INITIATOR,
                        .suite = SHP_SUITE_PLAIN,
                        .hello_json = hello.data,
                        .hello_len = hello.len},
            .callbacks = link_callbacks,
            .user = conn,
        };
        status = shp_link_open(&conn->link, conn->helper->loop, &options);
        if (status != 0)
            shp_transport_free(transport);
    }
    json_out_fini(&hello);
    return status;
}

static int missing(struct shp_error *error, int code, const char *why)
{
    shp_error_set(error, code, NULL, step, "%s", why);
    return SHP_ERR_NOT_FOUND;
}

static int conn_new(struct receiver_conn **out, struct helper *helper,
                    const struct receiver *receiver, struct shp_error *error)
{
    if (receiver->protocol_max < SHP_PROTOCOL_VERSION_MIN ||
        receiver->protocol_min > SHP_PROTOCOL_VERSION_MAX)
        return missing(error, SHP_CODE_RECEIVER_OUTDATED, "it speaks another protocol version");
    if (!receiver_socket_good(receiver))
        return missing(error, SHP_CODE_RECEIVER_MISSING, "its socket is gone or not safe");
    if (helper->receiver_conn_count >= RECEIVER_CONNS_MAX)
        return missing(error, SHP_CODE_TOO_MANY_STREAMS, "too many connections to receivers");
    struct receiver_conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL)
        return missing(error, SHP_CODE_OUT_OF_MEMORY, "no memory");
    conn->helper = helper;
    memcpy(conn->pi_session_id, receiver->pi_session_id, strlen(receiver->pi_session_id) + 1);
    if (receiver->terminal_id != NULL)
        memcpy(conn->terminal_id, receiver->terminal_id, strlen(receiver->terminal_id) + 1);
    if (open_link(conn, receiver) != 0) {
        free(conn);
        return missing(error, SHP_CODE_OUT_OF_MEMORY, "no memory");
    }
    uv_timer_init(helper->loop, &conn->idle);
    conn->idle.data = conn;
    conn->next = helper->receiver_conns;
    helper->receiver_conns = conn;
    helper->receiver_conn_count++;
    *out = conn;
    return 0;
}

/* Its link ends, only the last callback has not come. */
static bool ending(const struct receiver_conn *conn)
{
    return conn->closing || (conn->established && !shp_link_established(conn->link));
}

static struct receiver_conn *conn_find(struct helper *helper, const char *pi_session_id)
{
    struct receiver_conn *conn = helper->receiver_conns;
    while (conn != NULL && (ending(conn) || strcmp(conn->pi_session_id, pi_session_id) != 0))
        conn = conn->next;
    return conn;
}

int receiver_conn_get(struct helper *helper, const char *pi_session_id, const char *terminal_id,
                      bool permanent, struct receiver_waiter *waiter, struct shp_error *error)
{
    struct receiver_conn *conn = conn_find(helper, pi_session_id);
    if (conn == NULL) {
        struct receiver receiver;
        if (receivers_find(&receiver, &helper->identity, pi_session_id, NULL) != 0)
            return missing(error, SHP_CODE_RECEIVER_MISSING, "no live receiver of this pi session");
        int status = conn_new(&conn, helper, &receiver, error);
        receiver_fini(&receiver);
        if (status != 0)
            return status;
    }
    if (terminal_id != NULL && terminal_id[0] != '\0' &&
        strcmp(terminal_id, conn->terminal_id) != 0)
        return missing(error, SHP_CODE_RECEIVER_MISSING,
                       "the pi session is in another terminal now");
    conn->permanent = conn->permanent || permanent;
    used(conn);
    wait_on(conn, waiter);
    if (conn->established) {
        receiver_conn_forget(waiter);
        waiter->cb(waiter, conn->link, NULL);
    }
    return 0;
}

void receiver_conn_release(struct helper *helper, const char *pi_session_id)
{
    struct receiver_conn *conn = conn_find(helper, pi_session_id);
    if (conn == NULL)
        return;
    conn->permanent = false;
    used(conn);
}

void receiver_conns_close(struct helper *helper)
{
    for (struct receiver_conn *conn = helper->receiver_conns; conn != NULL; conn = conn->next) {
        conn->closing = true;
        conn->permanent = false;
        uv_timer_stop(&conn->idle);
        shp_link_close(conn->link, SHP_CODE_SHUTTING_DOWN, "the helper ends");
    }
}
