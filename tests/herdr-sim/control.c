#include "control.h"

#include "conn.h"
#include "dispatch.h"
#include "present.h"

#include <stdlib.h>
#include <string.h>

struct control_conn {
    struct control_conn *next;
    struct control *ctl;
    uv_pipe_t pipe;
    struct str line;
    bool closing;
};

static void on_closed(uv_handle_t *h)
{
    struct control_conn *cc = h->data;
    for (struct control_conn **at = &cc->ctl->conns; *at; at = &(*at)->next) {
        if (*at == cc) {
            *at = cc->next;
            break;
        }
    }
    str_free(&cc->line);
    free(cc);
}

static void control_conn_close(struct control_conn *cc)
{
    if (cc->closing)
        return;
    cc->closing = true;
    uv_close((uv_handle_t *)&cc->pipe, on_closed);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    static char shared[16384];
    (void)h;
    (void)suggested;
    *buf = uv_buf_init(shared, sizeof shared);
}

static void on_written(uv_write_t *req, int status)
{
    (void)status;
    free(req->data);
    free(req);
}

static void reply(struct control_conn *cc, cJSON *j)
{
    char *text = cJSON_PrintUnformatted(j);
    char *line = sim_format("%s\n", text);
    uv_write_t *req = sim_alloc(sizeof *req);
    uv_buf_t buf = uv_buf_init(line, (unsigned)strlen(line));
    req->data = line;
    if (uv_write(req, (uv_stream_t *)&cc->pipe, &buf, 1, on_written) != 0) {
        free(line);
        free(req);
    }
    free(text);
    cJSON_Delete(j);
}

static cJSON *failure(const char *why)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddBoolToObject(j, "ok", false);
    cJSON_AddStringToObject(j, "error", why);
    return j;
}

static cJSON *success(void)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddBoolToObject(j, "ok", true);
    return j;
}

static cJSON *get(const struct sim *sim)
{
    int open = 0, held = 0;
    for (const struct conn *c = sim->conns; c; c = c->next) {
        open += c->state != CONN_CLOSED;
        held += c->state == CONN_HELD;
    }
    cJSON *j = success();
    cJSON_AddItemToObject(j, "options", options_json(&sim->opt));
    cJSON *conns = cJSON_AddObjectToObject(j, "connections");
    cJSON_AddNumberToObject(conns, "accepted", (double)sim->accepted);
    cJSON_AddNumberToObject(conns, "open", open);
    cJSON_AddNumberToObject(conns, "held", held);
    cJSON_AddNumberToObject(j, "events", (double)sim->ring.next);
    return j;
}

static cJSON *set(struct sim *sim, const cJSON *command)
{
    for (const cJSON *item = command->child; item; item = item->next) {
        if (!strcmp(item->string, "cmd"))
            continue;
        int rc = options_set(&sim->opt, item->string, item);
        if (rc < 0)
            return failure(rc == -1 ? "unknown option" : "wrong type");
    }
    return success();
}

static cJSON *fault(struct sim *sim, const cJSON *command)
{
    static const char *const kinds[] = {"close", "lose_answer", "error", "garbage"};
    const char *method = param_text(command, "method");
    const char *kind = param_text(command, "kind");
    uint64_t times = 1;
    param_uint(command, "times", &times);
    for (size_t i = 0; method && kind && i < sizeof kinds / sizeof *kinds; i++) {
        if (!strcmp(kinds[i], kind)) {
            fault_add(sim, method, (enum fault_kind)i, param_text(command, "code"), times);
            return success();
        }
    }
    return failure("fault needs method and kind");
}

static cJSON *burst(struct sim *sim, const cJSON *command)
{
    uint64_t count = 0;
    const struct workspace *ws = sim->model.workspaces;
    if (!param_uint(command, "count", &count) || !ws)
        return failure("burst needs a count and a workspace");
    for (uint64_t i = 0; i < count; i++) {
        cJSON *data = cJSON_CreateObject();
        cJSON_AddItemToObject(data, "workspace", present_workspace(sim, ws));
        events_emit(sim, EVENT_WORKSPACE_UPDATED, NULL, data);
    }
    return success();
}

static cJSON *run(struct control *ctl, const cJSON *command)
{
    struct sim *sim = ctl->sim;
    const char *cmd = param_text(command, "cmd");
    uint64_t ms = 0;
    if (!cmd)
        return failure("not a command");
    if (!strcmp(cmd, "get"))
        return get(sim);
    if (!strcmp(cmd, "set"))
        return set(sim, command);
    if (!strcmp(cmd, "fault"))
        return fault(sim, command);
    if (!strcmp(cmd, "burst"))
        return burst(sim, command);
    if (!strcmp(cmd, "stall") && param_uint(command, "ms", &ms))
        ctl->stall(sim, ms);
    else if (!strcmp(cmd, "faults_clear"))
        faults_clear(sim);
    else if (!strcmp(cmd, "drop_connections"))
        conn_close_all(sim);
    else if (!strcmp(cmd, "stop"))
        sim_stop(sim, 0);
    else
        return failure("unknown command");
    return success();
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct control_conn *cc = stream->data;
    if (n < 0 || (n > 0 && cc->line.len + (size_t)n > CONTROL_LINE_BYTES_MAX)) {
        control_conn_close(cc);
        return;
    }
    str_add(&cc->line, buf->base, (size_t)n);
    char *newline;
    while (!cc->closing && (newline = memchr(cc->line.data, '\n', cc->line.len))) {
        *newline = '\0';
        cJSON *command = cJSON_Parse(cc->line.data);
        size_t used = (size_t)(newline - cc->line.data) + 1;
        memmove(cc->line.data, cc->line.data + used, cc->line.len - used);
        cc->line.len -= used;
        reply(cc, command ? run(cc->ctl, command) : failure("not JSON"));
        cJSON_Delete(command);
    }
}

static void on_connection(uv_stream_t *server, int status)
{
    struct control *ctl = server->data;
    if (status < 0)
        return;
    struct control_conn *cc = sim_alloc(sizeof *cc);
    cc->ctl = ctl;
    cc->next = ctl->conns;
    ctl->conns = cc;
    uv_pipe_init(&ctl->sim->loop, &cc->pipe, 0);
    cc->pipe.data = cc;
    if (uv_accept(server, (uv_stream_t *)&cc->pipe) != 0 ||
        uv_read_start((uv_stream_t *)&cc->pipe, on_alloc, on_read) != 0)
        control_conn_close(cc);
}

void control_open(struct control *ctl, struct sim *sim, int fd,
                  void (*stall)(struct sim *sim, uint64_t ms))
{
    memset(ctl, 0, sizeof *ctl);
    ctl->sim = sim;
    ctl->stall = stall;
    ctl->open = true;
    uv_pipe_init(&sim->loop, &ctl->listener, 0);
    ctl->listener.data = ctl;
    uv_pipe_open(&ctl->listener, fd);
    uv_listen((uv_stream_t *)&ctl->listener, 16, on_connection);
}

void control_close(struct control *ctl)
{
    if (!ctl->open)
        return;
    ctl->open = false;
    uv_close((uv_handle_t *)&ctl->listener, NULL);
    for (struct control_conn *cc = ctl->conns; cc; cc = cc->next)
        control_conn_close(cc);
}
