#include "conn.h"

#include "dispatch.h"
#include "log.h"
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_line_deadline(uv_timer_t *t)
{
    conn_close(t->data);
}

static void on_handle_closed(uv_handle_t *h)
{
    struct conn *c = h->data;
    if (--c->open_handles > 0)
        return;
    for (struct conn **at = &c->sim->conns; *at; at = &(*at)->next) {
        if (*at == c) {
            *at = c->next;
            break;
        }
    }
    free(c->line);
    free(c->id);
    cJSON_Delete(c->request);
    free(c);
}

void conn_close(struct conn *c)
{
    if (c->state == CONN_CLOSED)
        return;
    c->state = CONN_CLOSED;
    if (c->ops)
        c->ops->free(c->held);
    c->ops = NULL;
    uv_close((uv_handle_t *)&c->pipe, on_handle_closed);
    uv_close((uv_handle_t *)&c->timer, on_handle_closed);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    static char shared[65536];
    (void)h;
    (void)suggested;
    *buf = uv_buf_init(shared, sizeof shared);
}

static void add_bytes(struct conn *c, const char *bytes, size_t len)
{
    if (c->len + len + 1 > c->cap) {
        c->cap = c->cap ? c->cap : 4096;
        while (c->cap < c->len + len + 1)
            c->cap *= 2;
        c->line = sim_realloc(c->line, c->cap);
    }
    memcpy(c->line + c->len, bytes, len);
    c->len += len;
    c->line[c->len] = '\0';
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct conn *c = stream->data;
    if (n == 0)
        return;
    /* End before the newline, or any sign of life on a held connection: closed without a word. */
    if (n < 0 || c->state != CONN_READING) {
        conn_close(c);
        return;
    }
    const char *newline = memchr(buf->base, '\n', (size_t)n);
    size_t part = newline ? (size_t)(newline - buf->base) : (size_t)n;
    if (c->len + part > REQUEST_LINE_BYTES_MAX) {
        conn_close(c);
        return;
    }
    add_bytes(c, buf->base, part);
    if (!newline)
        return;
    c->extra = part + 1 < (size_t)n;
    uv_read_stop(stream);
    uv_timer_stop(&c->timer);
    dispatch_line(c);
}

void conn_accept(struct sim *sim, uv_stream_t *server)
{
    struct conn *c = sim_alloc(sizeof *c);
    c->sim = sim;
    c->number = ++sim->next_conn;
    c->next = sim->conns;
    sim->conns = c;
    sim->accepted++;
    uv_pipe_init(&sim->loop, &c->pipe, 0);
    uv_timer_init(&sim->loop, &c->timer);
    c->pipe.data = c->timer.data = c;
    c->open_handles = 2;
    if (uv_accept(server, (uv_stream_t *)&c->pipe) != 0 ||
        uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read) != 0) {
        conn_close(c);
        return;
    }
    uv_timer_start(&c->timer, on_line_deadline, REQUEST_LINE_MS, 0);
}

struct write_req {
    uv_write_t req;
    char *bytes;
};

static void on_written(uv_write_t *req, int status)
{
    struct write_req *w = (struct write_req *)req;
    struct conn *c = req->handle->data;
    free(w->bytes);
    free(w);
    c->writes--;
    if (c->state == CONN_CLOSED)
        return;
    if (status < 0 || (c->close_when_written && c->writes == 0)) {
        conn_close(c);
        return;
    }
    if (c->writes == 0)
        uv_timer_stop(&c->timer);
}

static void write_bytes(struct conn *c, const char *bytes, size_t len, bool close_after)
{
    struct write_req *w = sim_alloc(sizeof *w);
    w->bytes = sim_alloc(len);
    memcpy(w->bytes, bytes, len);
    uv_buf_t buf = uv_buf_init(w->bytes, (unsigned)len);
    c->close_when_written |= close_after;
    c->writes++;
    if (uv_write(&w->req, (uv_stream_t *)&c->pipe, &buf, 1, on_written) != 0) {
        c->writes--;
        free(w->bytes);
        free(w);
        conn_close(c);
        return;
    }
    /* A peer that does not read for this long is dropped. */
    if (!uv_is_active((uv_handle_t *)&c->timer))
        uv_timer_start(&c->timer, on_line_deadline, WRITE_MS, 0);
}

static void write_answer(struct conn *c, cJSON *envelope, bool close_after)
{
    if (c->lose_answer) {
        cJSON_Delete(envelope);
        conn_close(c);
        return;
    }
    char *text = cJSON_PrintUnformatted(envelope);
    struct str line = {0};
    str_puts(&line, text);
    str_puts(&line, "\n");
    log_line("response", c->number, line.data, line.len);
    write_bytes(c, line.data, line.len, close_after);
    str_free(&line);
    free(text);
    cJSON_Delete(envelope);
}

static void release_held(struct conn *c)
{
    if (c->ops)
        c->ops->free(c->held);
    c->ops = NULL;
    c->held = NULL;
}

cJSON *result_new(const char *type)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "type", type);
    return j;
}

static cJSON *envelope_new(const struct conn *c, const char *id)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "id", id ? id : c->id ? c->id : "");
    return j;
}

void conn_answer(struct conn *c, cJSON *result)
{
    cJSON *j = envelope_new(c, NULL);
    cJSON_AddItemToObject(j, "result", result);
    release_held(c);
    c->state = CONN_ANSWERED;
    write_answer(c, j, true);
}

void conn_answer_keep(struct conn *c, cJSON *result)
{
    cJSON *j = envelope_new(c, NULL);
    cJSON_AddItemToObject(j, "result", result);
    write_answer(c, j, false);
}

void conn_error(struct conn *c, const char *code, const char *fmt, ...)
{
    char message[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    bool hide_id = !strcmp(code, "invalid_request") && !c->sim->opt.id_echo;
    cJSON *j = envelope_new(c, hide_id ? "" : NULL);
    cJSON *error = cJSON_AddObjectToObject(j, "error");
    cJSON_AddStringToObject(error, "code", code);
    cJSON_AddStringToObject(error, "message", message);
    release_held(c);
    c->state = CONN_ANSWERED;
    write_answer(c, j, true);
}

void conn_hold(struct conn *c, const struct held_ops *ops, void *state, bool watch)
{
    c->state = CONN_HELD;
    c->ops = ops;
    c->held = state;
    c->watching = watch;
    if (!watch)
        return;
    if (c->extra || uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read) != 0)
        conn_close(c);
}

void conn_send_lines(struct conn *c, const struct str *lines, bool close_after)
{
    for (const char *at = str_text(lines); *at;) {
        size_t n = strcspn(at, "\n") + 1;
        log_line("event", c->number, at, n);
        at += n;
    }
    if (close_after)
        c->state = CONN_ANSWERED;
    write_bytes(c, lines->data, lines->len, close_after);
}

void conn_garbage(struct conn *c)
{
    static const char line[] = "<<< this is not JSON >>>\n";
    c->state = CONN_ANSWERED;
    write_bytes(c, line, sizeof line - 1, true);
}

void conn_poll_all(struct sim *sim)
{
    /* Closed connections stay in the list until their handles are gone, so the walk is safe. */
    for (struct conn *c = sim->conns; c; c = c->next)
        if (c->state == CONN_HELD && c->writes == 0)
            c->ops->poll(sim, c, c->held);
}

void conn_close_all(struct sim *sim)
{
    for (struct conn *c = sim->conns; c; c = c->next)
        conn_close(c);
}
