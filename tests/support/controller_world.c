/* The world of the controller rig: Herdr and the worker's receiver. */
#include "tests/support/controller_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "base/alloc.h"
#include "base/id.h"
#include "protocol/messages.h"
#include "remote-helper/identity.h"
#include "tests/support/controller_world.h"
#include "tests/support/temp_root.h"
#include "transport/transport.h"

#define PI_SESSION "worker-session"
#define TOKEN "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const char *const step_names[] = {
#define XX(name, text) text,
    WORLD_STEPS(XX)
#undef XX
};

static enum world_step step_of(const char *name)
{
    for (int i = 0; i < WORLD_OTHER; i++)
        if (strcmp(step_names[i], name) == 0)
            return (enum world_step)i;
    return WORLD_OTHER;
}

static void step_done(struct world *world, enum world_step step)
{
    world->count[step]++;
    if (world->on_step)
        world->on_step(step, world->on_step_user);
}

static const char *string_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(item) ? item->valuestring : "";
}

/* ---- the receiver -------------------------------------------------------------------------- */

static void answer(struct shp_link *link, uint32_t stream, cJSON *fields, const char *text)
{
    cJSON *result = cJSON_CreateObject();
    cJSON_AddItemToObject(result, "answer", fields);
    char *json = cJSON_PrintUnformatted(result);
    assert_non_null(json);
    shp_link_respond(link, stream, json, (const uint8_t *)text, text ? strlen(text) : 0);
    cJSON_Delete(result);
    free(json);
}

static int input_find(const struct world *world, const char *id)
{
    for (size_t i = 0; i < world->inputs_len; i++)
        if (strcmp(world->inputs[i], id) == 0)
            return (int)i;
    return -1;
}

struct inbound {
    struct world *world;
    struct shp_link *link;
    uint32_t stream;
    char id[33];
    cJSON *params;
    char *text;
    size_t len;
};

static void deliver(struct inbound *in, const cJSON *payload)
{
    struct world *world = in->world;
    unsigned char hash[32];
    char digest[65];
    char *printed = cJSON_PrintUnformatted(payload);
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof hash);
    crypto_generichash_update(&state, (const unsigned char *)printed, strlen(printed));
    crypto_generichash_update(&state, (const unsigned char *)in->text, in->len);
    crypto_generichash_final(&state, hash, sizeof hash);
    shp_hex_encode(digest, hash, sizeof hash);
    free(printed);
    int known = input_find(world, in->id);
    struct shp_error error = {0};
    if (known >= 0 && strcmp(world->digests[known], digest) != 0) {
        shp_error_set(&error, SHP_CODE_DUPLICATE_CONFLICT, NULL, "deliver", "other bytes");
        shp_link_respond_error(in->link, in->stream, &error);
        return;
    }
    if (known < 0 && world->deliver == WORLD_BUSY) {
        shp_error_set(&error, SHP_CODE_RECEIVER_BUSY, NULL, "deliver", "compacting");
        shp_link_respond_error(in->link, in->stream, &error);
        return;
    }
    if (known < 0 && world->deliver != WORLD_LOST) {
        assert_true(world->inputs_len < WORLD_INPUTS_MAX);
        memcpy(world->inputs[world->inputs_len], in->id, sizeof in->id);
        memcpy(world->digests[world->inputs_len++], digest, sizeof digest);
        world->delivered++;
        free(world->last_text);
        world->last_text = strdup(in->text);
    }
    if (world->deliver == WORLD_SEEN_LOST || world->deliver == WORLD_LOST) {
        world->deliver = WORLD_ACCEPT;
        shp_link_close(in->link, SHP_CODE_SHUTTING_DOWN, "breaks");
        return;
    }
    cJSON *fields = cJSON_CreateObject();
    cJSON_AddTrueToObject(fields, "accepted");
    cJSON_AddFalseToObject(fields, "provisional");
    cJSON_AddBoolToObject(fields, "duplicate", known >= 0);
    answer(in->link, in->stream, fields, NULL);
}

static void settlement(struct inbound *in, const cJSON *payload)
{
    struct world *world = in->world;
    cJSON *fields = cJSON_CreateObject();
    bool known = input_find(world, string_of(payload, "input")) >= 0;
    bool settled = known && world->settled;
    const char *state = world->settlement ? world->settlement
                        : !known          ? "unknown"
                        : settled         ? "settled"
                                          : "running";
    cJSON_AddStringToObject(fields, "state", state);
    if (settled) {
        cJSON_AddStringToObject(fields, "entry_id", "e1");
        cJSON_AddStringToObject(fields, "stop_reason", "stop");
    }
    answer(in->link, in->stream, fields, settled ? WORLD_REPLY : NULL);
}

static void serve(struct inbound *in)
{
    struct world *world = in->world;
    const char *service = string_of(in->params, "service");
    const cJSON *payload = cJSON_GetObjectItemCaseSensitive(in->params, "payload");
    enum world_step step = step_of(service);
    step_done(world, step);
    if (step == WORLD_BIND) {
        cJSON *fields = cJSON_CreateObject();
        cJSON_AddStringToObject(fields, "pi_session_id", PI_SESSION);
        cJSON_AddFalseToObject(fields, "rebound");
        answer(in->link, in->stream, fields, NULL);
    } else if (step == WORLD_DELIVER) {
        deliver(in, payload);
    } else if (step == WORLD_STATUS) {
        cJSON *fields = cJSON_CreateObject();
        bool known = input_find(world, string_of(payload, "id")) >= 0;
        cJSON_AddStringToObject(fields, "state", known ? "delivered" : "unknown");
        answer(in->link, in->stream, fields, NULL);
    } else if (step == WORLD_SETTLEMENT) {
        settlement(in, payload);
    } else {
        fail_msg("the worker was asked for %s", service);
    }
    cJSON_Delete(in->params);
    free(in->text);
    free(in);
}

/* One request at a time and link has bulk: the controller's calls follow each other. */
static struct inbound *pending_bulk;

static void on_request(struct shp_link *link, const struct shp_link_request *request,
                       const char *json, bool fin, void *user)
{
    struct inbound *in = calloc(1, sizeof *in);
    assert_non_null(in);
    assert_int_equal(request->message, SHP_MSG_SESSION_REQUEST);
    in->world = user;
    in->link = link;
    in->stream = request->stream;
    shp_hex_encode(in->id, request->id, SHP_REQUEST_ID_BYTES);
    in->params = cJSON_Parse(json);
    in->text = calloc(1, 1);
    if (fin) {
        serve(in);
    } else {
        assert_null(pending_bulk);
        pending_bulk = in;
    }
}

static void on_bulk(struct shp_link *link, uint32_t stream, const uint8_t *data, size_t len,
                    bool fin, void *user)
{
    (void)user;
    struct inbound *in = pending_bulk;
    shp_link_consume(link, stream, len);
    assert_true(in && in->stream == stream);
    in->text = realloc(in->text, in->len + len + 1);
    memcpy(in->text + in->len, data, len);
    in->len += len;
    in->text[in->len] = 0;
    if (fin) {
        pending_bulk = NULL;
        serve(in);
    }
}

static void on_hello(struct shp_link *link, const char *json, void *user)
{
    (void)json;
    (void)user;
    shp_link_set_hello(
        link, "{\"versions\":[1,1],\"role\":\"receiver\",\"pi_session_id\":\"" PI_SESSION "\"}");
}

static void on_established(struct shp_link *link, const char *hello, void *user)
{
    (void)link;
    (void)hello;
    (void)user;
}

static void on_link_closed(struct shp_link *link, const struct shp_error *error,
                           const struct shp_transport_end *end, void *user)
{
    (void)error;
    (void)end;
    struct world *world = user;
    if (pending_bulk && pending_bulk->link == link) {
        cJSON_Delete(pending_bulk->params);
        free(pending_bulk->text);
        free(pending_bulk);
        pending_bulk = NULL;
    }
    for (size_t i = 0; i < 4; i++)
        if (world->links[i] == link)
            world->links[i] = NULL;
}

static void on_helper(uv_stream_t *listener, int status)
{
    struct world *world = listener->data;
    struct shp_link_options options = {
        .session = {.role = SHP_ROLE_RESPONDER, .suite = SHP_SUITE_PLAIN},
        .callbacks = {.on_hello = on_hello,
                      .on_established = on_established,
                      .on_request = on_request,
                      .on_bulk = on_bulk,
                      .on_closed = on_link_closed},
        .user = world,
    };
    assert_int_equal(status, 0);
    uv_pipe_t *pipe = shp_malloc(sizeof *pipe);
    assert_non_null(pipe);
    uv_pipe_init(listener->loop, pipe, 0);
    assert_int_equal(uv_accept(listener, (uv_stream_t *)pipe), 0);
    assert_int_equal(shp_transport_socket_new(&options.transport, listener->loop, pipe), 0);
    size_t slot = 0;
    while (slot < 4 && world->links[slot])
        slot++;
    assert_true(slot < 4);
    assert_int_equal(shp_link_open(&world->links[slot], listener->loop, &options), 0);
}

static char *run_path(const struct world *world, const char *name)
{
    char *run = temp_path(world->home, ".pi/agent/shepherdr/run");
    mkdir(run, 0700);
    char *path = temp_path(run, name);
    free(run);
    return path;
}

static void receiver_up(struct world *world, const char *terminal)
{
    struct identity identity;
    char text[4096];
    assert_int_equal(identity_init(&identity), 0);
    char *socket = run_path(world, "w.sock");
    char *descriptor = run_path(world, "00000000000000000000000000000001.json");
    uv_pipe_init(world->loop, &world->receiver, 0);
    world->receiver.data = world;
    assert_int_equal(uv_pipe_bind(&world->receiver, socket), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&world->receiver, 8, on_helper), 0);
    snprintf(text, sizeof text,
             "{\"version\":1,\"socket\":\"%s\",\"host\":\"%s\",\"agent_dir\":\"%s/.pi/agent\","
             "\"pi_session_id\":\"" PI_SESSION "\",\"session_file\":\"%s/worker.jsonl\","
             "\"terminal_id\":\"%s\",\"pid\":%d,\"token\":\"" TOKEN "\",\"protocol\":[1,1]}\n",
             socket, identity.host, world->home, world->home, terminal, (int)getpid());
    temp_write(descriptor, text, strlen(text));
    assert_int_equal(chmod(descriptor, 0600), 0);
    free(socket);
    free(descriptor);
    world->receiver_up = true;
}

void world_break(struct world *world)
{
    for (size_t i = 0; i < 4; i++)
        if (world->links[i])
            shp_link_close(world->links[i], SHP_CODE_SHUTTING_DOWN, "breaks");
}

static void receiver_down(struct world *world)
{
    if (!world->receiver_up)
        return;
    world->receiver_up = false;
    world_break(world);
    uv_close((uv_handle_t *)&world->receiver, NULL);
    char *socket = run_path(world, "w.sock");
    char *descriptor = run_path(world, "00000000000000000000000000000001.json");
    unlink(socket);
    unlink(descriptor);
    free(socket);
    free(descriptor);
}

void world_settle(struct world *world)
{
    world->settled = true;
    for (size_t i = 0; i < 4 && !world->silent; i++)
        if (world->links[i])
            shp_link_notify(world->links[i], SHP_MSG_SESSION_EVENT,
                            "{\"pi_session_id\":\"" PI_SESSION "\",\"event\":\"settled\"}");
}

void world_exit(struct world *world)
{
    for (size_t i = 0; i < world->tabs_len; i++)
        world->tabs[i].agent[0] = 0;
    receiver_down(world);
}

/* ---- Herdr --------------------------------------------------------------------------------- */

static struct world_tab *tab_find(struct world *world, const char *id)
{
    for (size_t i = 0; i < world->tabs_len; i++) {
        struct world_tab *tab = &world->tabs[i];
        if (strcmp(tab->id, id) == 0 || strcmp(tab->pane, id) == 0 ||
            (*tab->agent && strcmp(tab->agent, id) == 0))
            return tab;
    }
    return NULL;
}

static cJSON *agent_json(const struct world *world, const struct world_tab *tab)
{
    char *file = temp_path(world->home, "worker.jsonl");
    cJSON *agent = cJSON_CreateObject();
    cJSON_AddStringToObject(agent, "pane_id", tab->pane);
    cJSON_AddStringToObject(agent, "terminal_id", tab->terminal);
    cJSON_AddStringToObject(agent, "workspace_id", "w1");
    cJSON_AddStringToObject(agent, "tab_id", tab->id);
    cJSON_AddStringToObject(agent, "name", tab->agent);
    cJSON_AddStringToObject(agent, "agent", "pi");
    cJSON_AddStringToObject(agent, "agent_status", "idle");
    cJSON_AddStringToObject(agent, "cwd", "/");
    cJSON *session = cJSON_AddObjectToObject(agent, "agent_session");
    cJSON_AddStringToObject(session, "kind", "path");
    cJSON_AddStringToObject(session, "value", file);
    free(file);
    return agent;
}

static cJSON *snapshot(const struct world *world)
{
    cJSON *result = cJSON_CreateObject();
    cJSON_AddStringToObject(result, "type", "session_snapshot");
    cJSON *snapshot = cJSON_AddObjectToObject(result, "snapshot");
    cJSON_AddStringToObject(snapshot, "version", "0.9.2");
    cJSON_AddNumberToObject(snapshot, "protocol", 22);
    cJSON *workspace = cJSON_CreateObject();
    cJSON_AddStringToObject(workspace, "workspace_id", "w1");
    cJSON_AddStringToObject(workspace, "label", "home");
    cJSON_AddItemToArray(cJSON_AddArrayToObject(snapshot, "workspaces"), workspace);
    cJSON *tabs = cJSON_AddArrayToObject(snapshot, "tabs");
    cJSON *panes = cJSON_AddArrayToObject(snapshot, "panes");
    cJSON *agents = cJSON_AddArrayToObject(snapshot, "agents");
    for (size_t i = 0; i < world->tabs_len; i++) {
        const struct world_tab *own = &world->tabs[i];
        cJSON *tab = cJSON_CreateObject();
        cJSON_AddStringToObject(tab, "tab_id", own->id);
        cJSON_AddStringToObject(tab, "workspace_id", "w1");
        cJSON_AddStringToObject(tab, "label", own->label);
        cJSON_AddItemToArray(tabs, tab);
        cJSON *pane = cJSON_CreateObject();
        cJSON_AddStringToObject(pane, "pane_id", own->pane);
        cJSON_AddItemToArray(panes, pane);
        if (*own->agent)
            cJSON_AddItemToArray(agents, agent_json(world, own));
    }
    return result;
}

static cJSON *create_tab(struct world *world, const cJSON *params)
{
    assert_true(world->tabs_len < WORLD_TABS_MAX);
    struct world_tab *tab = &world->tabs[world->tabs_len++];
    unsigned number = ++world->made;
    *tab = (struct world_tab){0};
    snprintf(tab->id, sizeof tab->id, "w1:t%u", number);
    snprintf(tab->pane, sizeof tab->pane, "w1:p%u", number);
    snprintf(tab->terminal, sizeof tab->terminal, "term_%u", number);
    snprintf(tab->label, sizeof tab->label, "%s", string_of(params, "label"));
    cJSON *result = cJSON_CreateObject();
    cJSON *json = cJSON_AddObjectToObject(result, "tab");
    cJSON_AddStringToObject(json, "tab_id", tab->id);
    cJSON_AddStringToObject(json, "workspace_id", "w1");
    cJSON_AddStringToObject(cJSON_AddObjectToObject(result, "root_pane"), "pane_id", tab->pane);
    return result;
}

static cJSON *start_agent(struct world *world, struct world_tab *tab, const cJSON *params)
{
    snprintf(tab->agent, sizeof tab->agent, "%s", string_of(params, "name"));
    if (!world->no_receiver)
        receiver_up(world, tab->terminal);
    cJSON *result = cJSON_CreateObject();
    cJSON_AddItemToObject(result, "agent", agent_json(world, tab));
    return result;
}

struct world_tab *world_worker(struct world *world)
{
    cJSON *params = cJSON_Parse("{\"label\":\"scouting\",\"name\":\"scout\"}");
    cJSON_Delete(create_tab(world, params));
    struct world_tab *tab = &world->tabs[world->tabs_len - 1];
    char *base = temp_path(world->home, ".pi/agent/shepherdr");
    for (size_t i = strlen(world->home) + 1; i <= strlen(base); i++) {
        char kept = base[i];
        if (kept && kept != '/')
            continue;
        base[i] = 0;
        mkdir(base, 0700);
        base[i] = kept;
    }
    free(base);
    cJSON_Delete(start_agent(world, tab, params));
    cJSON_Delete(params);
    return tab;
}

/* NULL: *code is Herdr's refusal. */
static cJSON *act(struct world *world, enum world_step step, const cJSON *params, const char **code)
{
    struct world_tab *tab = NULL;
    cJSON *result = cJSON_CreateObject();
    switch (step) {
    case WORLD_PANE_CURRENT: {
        cJSON *pane = cJSON_AddObjectToObject(result, "pane");
        cJSON_AddStringToObject(pane, "pane_id", "w1:p0");
        cJSON_AddStringToObject(pane, "workspace_id", "w1");
        return result;
    }
    case WORLD_PING:
        cJSON_AddStringToObject(result, "version", "0.9.2");
        cJSON_AddNumberToObject(result, "protocol", 22);
        return result;
    case WORLD_SNAPSHOT:
        cJSON_Delete(result);
        return snapshot(world);
    case WORLD_TAB_CREATE:
        cJSON_Delete(result);
        return create_tab(world, params);
    case WORLD_TAB_RENAME:
        tab = tab_find(world, string_of(params, "tab_id"));
        assert_non_null(tab);
        snprintf(tab->label, sizeof tab->label, "%s", string_of(params, "label"));
        return result;
    case WORLD_TAB_CLOSE:
        tab = tab_find(world, string_of(params, "tab_id"));
        *code = "tab_not_found";
        if (!tab)
            break;
        if (*tab->agent)
            receiver_down(world);
        *tab = world->tabs[--world->tabs_len];
        return result;
    case WORLD_AGENT_START:
        cJSON_Delete(result);
        tab = tab_find(world, string_of(params, "pane_id"));
        assert_non_null(tab);
        return start_agent(world, tab, params);
    case WORLD_AGENT_GET:
        tab = tab_find(world, string_of(params, "target"));
        *code = "agent_not_found";
        if (!tab || !*tab->agent)
            break;
        cJSON_AddItemToObject(result, "agent", agent_json(world, tab));
        return result;
    default: { /* agent.read, pane.read */
        cJSON *read = cJSON_AddObjectToObject(result, "read");
        cJSON_AddStringToObject(read, "text", "$ pi\nno such model");
        return result;
    }
    }
    cJSON_Delete(result);
    return NULL;
}

struct client {
    uv_pipe_t pipe;
    uv_write_t write;
    struct world *world;
    char *line;
    size_t len;
    char *answer;
    char buffer[65536];
};

static void on_client_closed(uv_handle_t *handle)
{
    struct client *client = handle->data;
    free(client->line);
    free(client->answer);
    free(client);
}

static void client_close(struct client *client)
{
    if (!uv_is_closing((uv_handle_t *)&client->pipe))
        uv_close((uv_handle_t *)&client->pipe, on_client_closed);
}

static void on_written(uv_write_t *request, int status)
{
    (void)status;
    client_close(request->data);
}

static void client_serve(struct client *client)
{
    struct world *world = client->world;
    cJSON *line = cJSON_Parse(client->line);
    assert_non_null(line);
    enum world_step step = step_of(string_of(line, "method"));
    const char *code = world->refuse[step];
    cJSON *result =
        code ? NULL : act(world, step, cJSON_GetObjectItemCaseSensitive(line, "params"), &code);
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "id", string_of(line, "id"));
    if (result) {
        cJSON_AddItemToObject(out, "result", result);
    } else {
        cJSON *error = cJSON_AddObjectToObject(out, "error");
        cJSON_AddStringToObject(error, "code", code);
        cJSON_AddStringToObject(error, "message", "refused");
    }
    char *text = cJSON_PrintUnformatted(out);
    cJSON_Delete(out);
    cJSON_Delete(line);
    bool drop = world->drop[step];
    world->drop[step] = false; /* once */
    step_done(world, step);
    if (drop) {
        free(text);
        client_close(client);
        return;
    }
    client->answer = realloc(text, strlen(text) + 2);
    strcat(client->answer, "\n");
    uv_buf_t buf = uv_buf_init(client->answer, (unsigned)strlen(client->answer));
    client->write.data = client;
    uv_write(&client->write, (uv_stream_t *)&client->pipe, &buf, 1, on_written);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct client *client = handle->data;
    *buf = uv_buf_init(client->buffer, sizeof client->buffer);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct client *client = stream->data;
    if (got < 0) {
        client_close(client);
        return;
    }
    client->line = realloc(client->line, client->len + (size_t)got + 1);
    memcpy(client->line + client->len, buf->base, (size_t)got);
    client->len += (size_t)got;
    client->line[client->len] = 0;
    if (client->len > 0 && client->line[client->len - 1] == '\n') {
        uv_read_stop(stream);
        client_serve(client);
    }
}

static void on_client(uv_stream_t *listener, int status)
{
    assert_int_equal(status, 0);
    struct client *client = calloc(1, sizeof *client);
    assert_non_null(client);
    client->world = listener->data;
    client->pipe.data = client;
    uv_pipe_init(listener->loop, &client->pipe, 0);
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&client->pipe), 0);
    uv_read_start((uv_stream_t *)&client->pipe, on_alloc, on_read);
}

void world_open(struct world *world, uv_loop_t *loop, const char *home)
{
    memset(world, 0, sizeof *world);
    world->loop = loop;
    world->home = strdup(home);
    world->socket = temp_path(home, "herdr.sock");
    uv_pipe_init(loop, &world->herdr, 0);
    world->herdr.data = world;
    assert_int_equal(uv_pipe_bind(&world->herdr, world->socket), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&world->herdr, 16, on_client), 0);
}

void world_close(struct world *world)
{
    receiver_down(world);
    uv_close((uv_handle_t *)&world->herdr, NULL);
    free(world->home);
    free(world->socket);
    free(world->last_text);
}
