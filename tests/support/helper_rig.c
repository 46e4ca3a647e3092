#include "tests/support/helper_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "protocol/messages.h"
#include "tests/support/temp_root.h"

/* Far above what anything here takes; reached only when something hangs. */
#define DEADLINE_MS 60000

static const char marker[] = "00112233445566778899aabbccddeeff";
static const char controller_hello[] =
    "{\"versions\":[1,1],\"role\":\"controller\",\"build\":\"test\","
    "\"installation\":\"0123456789abcdef0123456789abcdef\",\"pi_session_id\":\"controlling\"}";

/* ---- loop --------------------------------------------------------------------------------- */

static void on_timeout(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

void rig_until(struct rig *rig, const bool *flag)
{
    uv_timer_t timer;
    bool late = false;
    uv_timer_init(&rig->loop, &timer);
    timer.data = &late;
    uv_update_time(&rig->loop);
    uv_timer_start(&timer, on_timeout, DEADLINE_MS, 0);
    while (!*flag && !late)
        uv_run(&rig->loop, UV_RUN_ONCE);
    assert_false(late);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&rig->loop, UV_RUN_NOWAIT);
}

void rig_linger(struct rig *rig, uint64_t ms)
{
    uv_timer_t timer;
    bool over = false;
    uv_timer_init(&rig->loop, &timer);
    timer.data = &over;
    uv_update_time(&rig->loop);
    uv_timer_start(&timer, on_timeout, ms, 0);
    while (!over)
        uv_run(&rig->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&rig->loop, UV_RUN_NOWAIT);
}

/* ---- controller --------------------------------------------------------------------------- */

static char *text_copy(const void *bytes, size_t len)
{
    char *copy = malloc(len + 1);
    assert_non_null(copy);
    if (len > 0)
        memcpy(copy, bytes, len);
    copy[len] = '\0';
    return copy;
}

static void append(char **text, size_t *len, const void *bytes, size_t count)
{
    *text = realloc(*text, *len + count + 1);
    assert_non_null(*text);
    if (count > 0)
        memcpy(*text + *len, bytes, count);
    *len += count;
    (*text)[*len] = '\0';
}

static void on_established(struct shp_link *link, const char *peer_hello, void *user)
{
    struct rig *rig = user;
    (void)link;
    rig->hello = text_copy(peer_hello, strlen(peer_hello));
    rig->established = true;
}

static void inbound_answer(struct rig *rig, struct shp_link *link, uint32_t stream)
{
    struct shp_error error;
    if (rig->inbound_result != NULL) {
        assert_int_equal(shp_link_respond(link, stream, rig->inbound_result,
                                          (const uint8_t *)rig->inbound_bulk,
                                          rig->inbound_bulk_len),
                         0);
        return;
    }
    shp_error_set(&error, SHP_CODE_NOT_RELATED, "here", "check", "no relation");
    shp_link_respond_error(link, stream, &error);
}

static void on_request(struct shp_link *link, const struct shp_link_request *request,
                       const char *json, bool fin, void *user)
{
    struct rig *rig = user;
    assert_int_equal(request->message, SHP_MSG_SESSION_REQUEST);
    free(rig->inbound_json);
    rig->inbound_json = text_copy(json, strlen(json));
    memcpy(rig->inbound_id, request->id, sizeof rig->inbound_id);
    if (fin)
        inbound_answer(rig, link, request->stream);
}

static void on_bulk(struct shp_link *link, uint32_t stream, const uint8_t *data, size_t len,
                    bool fin, void *user)
{
    struct rig *rig = user;
    append(&rig->inbound_bulk, &rig->inbound_bulk_len, data, len);
    shp_link_consume(link, stream, len);
    if (fin)
        inbound_answer(rig, link, stream);
}

static void on_notification(struct shp_link *link, uint32_t stream, uint16_t message,
                            const char *json, bool fin, void *user)
{
    struct rig *rig = user;
    (void)link;
    (void)stream;
    (void)fin;
    assert_int_equal(message, SHP_MSG_SESSION_EVENT);
    assert_true(rig->note_count < RIG_NOTES_MAX);
    rig->notes[rig->note_count++] = text_copy(json, strlen(json));
}

static void on_closed(struct shp_link *link, const struct shp_error *error,
                      const struct shp_transport_end *end, void *user)
{
    struct rig *rig = user;
    (void)link;
    (void)end;
    rig->controller = NULL;
    rig->end = *error;
}

void rig_open(struct rig *rig)
{
    struct shp_transport *ours, *helpers;
    struct shp_link_options options = {
        .session = {.role = SHP_ROLE_INITIATOR,
                    .suite = SHP_SUITE_NOISE,
                    .hello_json = controller_hello,
                    .hello_len = strlen(controller_hello)},
        .callbacks = {.on_established = on_established,
                      .on_request = on_request,
                      .on_bulk = on_bulk,
                      .on_notification = on_notification,
                      .on_closed = on_closed},
        .user = rig,
    };
    memset(rig, 0, sizeof *rig);
    rig->home = temp_root_make();
    assert_int_equal(setenv("HOME", rig->home, 1), 0);
    unsetenv("XDG_CONFIG_HOME");
    assert_int_equal(uv_loop_init(&rig->loop), 0);
    static const struct shp_pipe_options pipe = {.cut_after = -1};
    assert_int_equal(shp_transport_pipe_new(&ours, &helpers, &rig->loop, &pipe), 0);
    memcpy(options.session.marker, marker, sizeof marker);
    options.transport = ours;
    assert_int_equal(shp_link_open(&rig->controller, &rig->loop, &options), 0);
    assert_int_equal(helper_open(&rig->helper, &rig->loop, helpers, marker, "test-build"), 0);
    rig_until(rig, &rig->established);
}

void rig_close(struct rig *rig)
{
    if (rig->controller != NULL)
        shp_link_close(rig->controller, 0, "done");
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    assert_null(rig->controller);
    assert_null(rig->helper.link);
    assert_null(rig->helper.jobs);
    assert_null(rig->helper.receiver_conns);
    assert_int_equal(uv_loop_close(&rig->loop), 0);
    for (size_t i = 0; i < rig->note_count; i++)
        free(rig->notes[i]);
    free(rig->hello);
    free(rig->inbound_json);
    free(rig->inbound_bulk);
    temp_root_remove(rig->home);
}

/* ---- asking ------------------------------------------------------------------------------- */

static void on_answer(struct shp_link *link, const struct shp_link_answer *answer, void *user)
{
    struct rig_answer *out = user;
    (void)link;
    if (answer->error != NULL) {
        out->error = *answer->error;
        out->code = answer->error->code;
        out->outcome = answer->error->outcome;
    }
    out->json = text_copy(answer->json, strlen(answer->json));
    out->bulk = text_copy(answer->bulk, answer->bulk_len);
    out->bulk_len = answer->bulk_len;
    out->done = true;
}

void rig_ask_id(struct rig *rig, uint16_t message, const uint8_t *id, const char *json,
                const void *bulk, size_t len, uint32_t timeout_ms, struct rig_answer *answer)
{
    memset(answer, 0, sizeof *answer);
    assert_int_equal(shp_link_request(rig->controller, message, id, timeout_ms, json, bulk, len,
                                      on_answer, answer, &answer->stream),
                     0);
}

void rig_ask(struct rig *rig, uint16_t message, const char *json, const void *bulk, size_t len,
             uint32_t timeout_ms, struct rig_answer *answer)
{
    rig_ask_id(rig, message, NULL, json, bulk, len, timeout_ms, answer);
}

void rig_call(struct rig *rig, uint16_t message, const char *json, const void *bulk, size_t len,
              struct rig_answer *answer)
{
    rig_ask(rig, message, json, bulk, len, DEADLINE_MS, answer);
    rig_until(rig, &answer->done);
}

void rig_answer_fini(struct rig_answer *answer)
{
    free(answer->json);
    free(answer->bulk);
    memset(answer, 0, sizeof *answer);
}

/* ---- a Herdr ------------------------------------------------------------------------------ */

struct herdr_client {
    uv_pipe_t pipe;
    uv_write_t write;
    struct fake_herdr *herdr;
    size_t line_len;
    char buffer[65536];
};

static void on_client_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void client_close(struct herdr_client *client)
{
    if (uv_is_closing((uv_handle_t *)&client->pipe))
        return;
    client->herdr->ended++;
    uv_close((uv_handle_t *)&client->pipe, on_client_closed);
}

static void on_client_written(uv_write_t *request, int status)
{
    (void)status;
    client_close(request->data);
}

static void client_answer(struct herdr_client *client)
{
    struct fake_herdr *herdr = client->herdr;
    uv_buf_t bufs[2] = {uv_buf_init((char *)(uintptr_t)herdr->answer, (unsigned)herdr->answer_len),
                        uv_buf_init((char *)(uintptr_t) "\n", 1)};
    if (herdr->mode == FAKE_HERDR_HOLD)
        return;
    if (herdr->mode == FAKE_HERDR_SILENT) {
        client_close(client);
        return;
    }
    client->write.data = client;
    uv_write(&client->write, (uv_stream_t *)&client->pipe, bufs,
             herdr->mode == FAKE_HERDR_PARTIAL ? 1 : 2, on_client_written);
}

static void on_client_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct herdr_client *client = handle->data;
    (void)suggested;
    *buf = uv_buf_init(client->buffer, sizeof client->buffer);
}

static void on_client_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct herdr_client *client = stream->data;
    struct fake_herdr *herdr = client->herdr;
    if (got < 0) {
        client_close(client);
        return;
    }
    size_t len = (size_t)got;
    if (client->line_len == 0)
        herdr->first_read = len;
    for (size_t i = 0; i < len && client->line_len + i < sizeof herdr->line - 1; i++) {
        herdr->line[client->line_len + i] = buf->base[i];
        herdr->line[client->line_len + i + 1] = '\0';
    }
    client->line_len += len;
    herdr->line_len = client->line_len;
    if (len > 0 && buf->base[len - 1] == '\n')
        client_answer(client);
}

static void on_client(uv_stream_t *listener, int status)
{
    struct herdr_client *client = calloc(1, sizeof *client);
    assert_int_equal(status, 0);
    assert_non_null(client);
    client->herdr = listener->data;
    client->herdr->connections++;
    client->pipe.data = client;
    uv_pipe_init(listener->loop, &client->pipe, 0);
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&client->pipe), 0);
    uv_read_start((uv_stream_t *)&client->pipe, on_client_alloc, on_client_read);
}

void fake_herdr_open(struct fake_herdr *herdr, uv_loop_t *loop, const char *path)
{
    memset(herdr, 0, sizeof *herdr);
    uv_pipe_init(loop, &herdr->listener, 0);
    herdr->listener.data = herdr;
    assert_int_equal(uv_pipe_bind(&herdr->listener, path), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&herdr->listener, 16, on_client), 0);
}

static void on_herdr_closed(uv_handle_t *handle)
{
    struct fake_herdr *herdr = handle->data;
    herdr->closed = true;
}

void fake_herdr_close(struct rig *rig, struct fake_herdr *herdr)
{
    uv_close((uv_handle_t *)&herdr->listener, on_herdr_closed);
    rig_until(rig, &herdr->closed);
}

/* ---- a receiver --------------------------------------------------------------------------- */

char *rig_run_directory(struct rig *rig)
{
    static const char *const names[] = {".pi", ".pi/agent", ".pi/agent/shepherdr",
                                        ".pi/agent/shepherdr/run"};
    char *path = NULL;
    for (size_t i = 0; i < 4; i++) {
        free(path);
        path = temp_path(rig->home, names[i]);
        mkdir(path, 0700);
    }
    return path;
}

static void receiver_on_hello(struct shp_link *link, const char *json, void *user)
{
    struct fake_receiver *receiver = user;
    char hello[256];
    free(receiver->hello);
    receiver->hello = text_copy(json, strlen(json));
    if (receiver->refuse_token) {
        shp_link_close(link, SHP_CODE_AUTH_FAILED, "another token");
        return;
    }
    snprintf(hello, sizeof hello,
             "{\"versions\":%s,\"role\":\"receiver\",\"pi_session_id\":\"%s\"}",
             receiver->versions != NULL ? receiver->versions : "[1,1]", receiver->pi_session_id);
    /* A hello that shares no version is refused by our own session already. */
    shp_link_set_hello(link, hello);
}

static void receiver_on_established(struct shp_link *link, const char *peer_hello, void *user)
{
    struct fake_receiver *receiver = user;
    (void)link;
    (void)peer_hello;
    receiver->established = true;
}

static void receiver_answer(struct fake_receiver *receiver, struct shp_link *link, uint32_t stream)
{
    struct shp_error error;
    receiver->requests++;
    receiver->requested = true;
    switch (receiver->mode) {
    case FAKE_RECEIVER_ANSWER:
        assert_int_equal(shp_link_respond(link, stream, "{\"answer\":{\"accepted\":true}}",
                                          (const uint8_t *)receiver->bulk, receiver->bulk_len),
                         0);
        break;
    case FAKE_RECEIVER_ERROR:
        shp_error_set(&error, SHP_CODE_RECEIVER_BUSY, NULL, "deliver", "compacting");
        error.outcome = SHP_OUTCOME_REJECTED;
        assert_int_equal(shp_link_respond_error(link, stream, &error), 0);
        break;
    case FAKE_RECEIVER_HOLD:
        break;
    case FAKE_RECEIVER_DROP:
        shp_link_close(link, SHP_CODE_SHUTTING_DOWN, "dropped");
        break;
    }
}

static void receiver_on_request(struct shp_link *link, const struct shp_link_request *request,
                                const char *json, bool fin, void *user)
{
    struct fake_receiver *receiver = user;
    free(receiver->json);
    free(receiver->bulk);
    receiver->json = text_copy(json, strlen(json));
    receiver->bulk = NULL;
    receiver->bulk_len = 0;
    receiver->stream = request->stream;
    receiver->timeout_ms = request->timeout_ms;
    memcpy(receiver->id, request->id, sizeof receiver->id);
    if (fin)
        receiver_answer(receiver, link, request->stream);
}

static void receiver_on_bulk(struct shp_link *link, uint32_t stream, const uint8_t *data,
                             size_t len, bool fin, void *user)
{
    struct fake_receiver *receiver = user;
    append(&receiver->bulk, &receiver->bulk_len, data, len);
    shp_link_consume(link, stream, len);
    if (fin)
        receiver_answer(receiver, link, stream);
}

static void receiver_on_canceled(struct shp_link *link, uint32_t stream, void *user)
{
    struct fake_receiver *receiver = user;
    (void)link;
    (void)stream;
    receiver->canceled = true;
}

static void receiver_on_closed(struct shp_link *link, const struct shp_error *error,
                               const struct shp_transport_end *end, void *user)
{
    struct fake_receiver *receiver = user;
    (void)error;
    (void)end;
    if (receiver->link == link)
        receiver->link = NULL;
    receiver->gone = true;
}

static void on_helper(uv_stream_t *listener, int status)
{
    struct fake_receiver *receiver = listener->data;
    struct shp_link_options options = {
        .session = {.role = SHP_ROLE_RESPONDER, .suite = SHP_SUITE_PLAIN},
        .callbacks = {.on_hello = receiver_on_hello,
                      .on_established = receiver_on_established,
                      .on_request = receiver_on_request,
                      .on_bulk = receiver_on_bulk,
                      .on_canceled = receiver_on_canceled,
                      .on_closed = receiver_on_closed},
        .user = receiver,
    };
    assert_int_equal(status, 0);
    uv_pipe_t *pipe = shp_malloc(sizeof *pipe);
    assert_non_null(pipe);
    uv_pipe_init(listener->loop, pipe, 0);
    assert_int_equal(uv_accept(listener, (uv_stream_t *)pipe), 0);
    assert_int_equal(shp_transport_socket_new(&options.transport, listener->loop, pipe), 0);
    receiver->connections++;
    assert_int_equal(shp_link_open(&receiver->link, listener->loop, &options), 0);
}

void fake_receiver_open(struct fake_receiver *receiver, struct rig *rig, const char *pi_session_id,
                        const char *terminal_id)
{
    char name[128];
    char text[2048];
    memset(receiver, 0, sizeof *receiver);
    receiver->rig = rig;
    snprintf(receiver->pi_session_id, sizeof receiver->pi_session_id, "%s", pi_session_id);
    memset(receiver->token, 'a', sizeof receiver->token - 1);
    char *run = rig_run_directory(rig);
    snprintf(name, sizeof name, "%s.sock", pi_session_id);
    receiver->socket = temp_path(run, name);
    unsigned hash = 0;
    for (const char *c = pi_session_id; *c != '\0'; c++)
        hash = hash * 31 + (unsigned char)*c;
    snprintf(name, sizeof name, "%032x.json", hash);
    receiver->descriptor = temp_path(run, name);
    free(run);

    uv_pipe_init(&rig->loop, &receiver->listener, 0);
    receiver->listener.data = receiver;
    assert_int_equal(uv_pipe_bind(&receiver->listener, receiver->socket), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&receiver->listener, 16, on_helper), 0);
    snprintf(text, sizeof text,
             "{\"version\":1,\"socket\":\"%s\",\"host\":\"%s\",\"agent_dir\":\"%s/.pi/agent\","
             "\"pi_session_id\":\"%s\",\"session_file\":\"/made/up.jsonl\",\"terminal_id\":\"%s\","
             "\"pid\":%d,\"token\":\"%s\",\"protocol\":[1,1]}\n",
             receiver->socket, rig->helper.identity.boot_id_known ? rig->helper.identity.host : "",
             rig->home, pi_session_id, terminal_id, (int)getpid(), receiver->token);
    temp_write(receiver->descriptor, text, strlen(text));
    assert_int_equal(chmod(receiver->descriptor, 0600), 0);
}

static void on_receiver_closed(uv_handle_t *handle)
{
    struct fake_receiver *receiver = handle->data;
    receiver->closed = true;
}

void fake_receiver_close(struct fake_receiver *receiver)
{
    if (receiver->link != NULL)
        shp_link_close(receiver->link, SHP_CODE_SHUTTING_DOWN, "closing");
    while (receiver->link != NULL)
        uv_run(&receiver->rig->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&receiver->listener, on_receiver_closed);
    rig_until(receiver->rig, &receiver->closed);
    unlink(receiver->socket);
    unlink(receiver->descriptor);
    free(receiver->socket);
    free(receiver->descriptor);
    free(receiver->hello);
    free(receiver->json);
    free(receiver->bulk);
}
