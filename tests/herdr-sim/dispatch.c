#include "dispatch.h"

#include "log.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct param params_none[] = {{NULL, 0, 0, NULL}};

struct fault {
    struct fault *next;
    char method[64];
    char code[64];
    enum fault_kind kind;
    uint64_t times;
};

void fault_add(struct sim *sim, const char *method, enum fault_kind kind, const char *code,
               uint64_t times)
{
    struct fault *f = sim_alloc(sizeof *f);
    snprintf(f->method, sizeof f->method, "%s", method);
    snprintf(f->code, sizeof f->code, "%s", code ? code : "internal_error");
    f->kind = kind;
    f->times = times;
    f->next = sim->faults;
    sim->faults = f;
}

void faults_clear(struct sim *sim)
{
    while (sim->faults) {
        struct fault *next = sim->faults->next;
        free(sim->faults);
        sim->faults = next;
    }
}

static struct fault *fault_take(struct sim *sim, const char *method)
{
    for (struct fault *f = sim->faults; f; f = f->next) {
        if (f->times > 0 && !strcmp(f->method, method)) {
            f->times--;
            return f;
        }
    }
    return NULL;
}

static const struct method *method_find(const char *name)
{
    static const struct method *const tables[] = {
        methods_server, methods_workspace, methods_pane,   methods_pane_io,
        methods_move,   methods_agent,     methods_report,
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct method *m = tables[i]; m->name; m++)
            if (!strcmp(m->name, name))
                return m;
    return NULL;
}

static void run(struct sim *sim, struct conn *c)
{
    struct fault *f = fault_take(sim, c->method->name);
    if (f && f->kind == FAULT_CLOSE) {
        conn_close(c);
        return;
    }
    if (f && f->kind == FAULT_ERROR) {
        conn_error(c, f->code, "asked for by the test");
        return;
    }
    if (f && f->kind == FAULT_GARBAGE) {
        conn_garbage(c);
        return;
    }
    c->lose_answer = f != NULL;
    if (sim->stopping && !c->method->immediate) {
        conn_error(c, "server_unavailable", "server is stopping");
        return;
    }
    c->method->run(sim, c, c->params);
}

/* Arrival order is the order of connection line completion, kept as a time and a number. */
static struct conn *oldest_queued(struct sim *sim)
{
    struct conn *best = NULL;
    for (struct conn *c = sim->conns; c; c = c->next)
        if (c->state == CONN_QUEUED && (!best || c->queue_order < best->queue_order))
            best = c;
    return best;
}

void dispatch_queue(struct sim *sim)
{
    struct conn *c;
    while (!sim_stalled(sim) && (c = oldest_queued(sim)))
        run(sim, c);
    uint64_t now = now_ms();
    for (c = sim->conns; c; c = c->next)
        if (c->state == CONN_QUEUED && c->method->probe && now - c->queued_ms >= PROBE_MS)
            conn_error(c, "server_unavailable", "the application did not answer");
}

static void parse(struct conn *c)
{
    char why[160];
    c->request = cJSON_ParseWithOpts(c->line, NULL, 1);
    if (!cJSON_IsObject(c->request)) {
        conn_error(c, "invalid_request", "not a JSON object");
        return;
    }
    const char *id = param_text(c->request, "id");
    const char *name = param_text(c->request, "method");
    if (!id) {
        conn_error(c, "invalid_request", "id must be a string");
        return;
    }
    c->id = sim_strdup(id);
    c->method = name ? method_find(name) : NULL;
    if (!c->method) {
        conn_error(c, "invalid_request", "unknown method");
        return;
    }
    c->params = cJSON_GetObjectItemCaseSensitive(c->request, "params");
    if (!cJSON_IsObject(c->params)) {
        conn_error(c, "invalid_request", "params must be an object");
        return;
    }
    if (!params_check(c->method->params, c->params, c->sim->opt.strict_params, why, sizeof why)) {
        conn_error(c, "invalid_request", "%s", why);
        return;
    }
    if (c->method->immediate) {
        run(c->sim, c);
        return;
    }
    c->state = CONN_QUEUED;
    c->queued_ms = now_ms();
    c->queue_order = ++c->sim->next_order;
    dispatch_queue(c->sim);
}

void dispatch_line(struct conn *c)
{
    char *line = c->line ? c->line : "";
    size_t start = 0, end = c->len;
    while (start < end && isspace((unsigned char)line[start]))
        start++;
    while (end > start && isspace((unsigned char)line[end - 1]))
        end--;
    if (start == end || !utf8_valid(line + start, end - start)) {
        conn_close(c);
        return;
    }
    memmove(line, line + start, end - start);
    line[end - start] = '\0';
    log_line("request", c->number, line, end - start);
    parse(c);
}
