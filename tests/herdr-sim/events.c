#include "events.h"

#include "match.h"
#include "params.h"
#include "present.h"
#include "reading.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_types[] = {
#define X(name, text) text,
    EVENT_KINDS(X)
#undef X
};

uint64_t ring_first(const struct ring *r)
{
    return r->next > EVENT_RING_MAX ? r->next - EVENT_RING_MAX : 0;
}

const struct event *ring_at(const struct ring *r, uint64_t index)
{
    return &r->slot[index % EVENT_RING_MAX];
}

void events_emit(struct sim *sim, enum event_kind kind, const struct pane *pane, cJSON *data)
{
    sim->layout_changed |= kind <= EVENT_PANE_EXITED || kind == EVENT_LAYOUT_UPDATED;
    struct event *e = &sim->ring.slot[sim->ring.next++ % EVENT_RING_MAX];
    cJSON_Delete(e->data);
    e->kind = kind;
    e->data = data;
    snprintf(e->terminal_id, sizeof e->terminal_id, "%s", pane ? pane->terminal_id : "");
}

void ring_fini(struct ring *r)
{
    for (size_t i = 0; i < EVENT_RING_MAX; i++)
        cJSON_Delete(r->slot[i].data);
    memset(r, 0, sizeof *r);
}

cJSON *event_envelope(const struct event *e)
{
    char name[64];
    snprintf(name, sizeof name, "%s", kind_types[e->kind]);
    for (char *p = name; *p; p++)
        if (*p == '.')
            *p = '_';
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "event", name);
    cJSON *data = cJSON_AddObjectToObject(j, "data");
    cJSON_AddStringToObject(data, "type", name);
    for (const cJSON *item = e->data->child; item; item = item->next)
        cJSON_AddItemToObject(data, item->string, cJSON_Duplicate(item, 1));
    return j;
}

enum scoped { SCOPED_NONE, SCOPED_STATUS, SCOPED_OUTPUT, SCOPED_SCROLL };

struct entry {
    enum scoped scoped;
    enum event_kind kind;
    uint64_t cursor;
    char terminal_id[ID_BYTES];
    char status[16]; /* filter, "" for any */
    bool initial;    /* the filter matched at the start */
    struct match match;
    bool has_match;
    bool matched_before;
    char source[24];
    uint64_t lines;
    bool has_lines;
};

struct subscription {
    struct entry *entries;
    size_t n;
};

static const struct param params_plain[] = {
    {"type", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param params_status[] = {
    {"type", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"pane_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"agent_status", PARAM_TEXT, PARAM_NULLABLE, STATUS_CHOICES},
    {NULL, 0, 0, NULL},
};
static const struct param params_output[] = {
    {"type", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"pane_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"source", PARAM_TEXT, PARAM_REQUIRED, SOURCE_CHOICES},
    {"match", PARAM_OBJECT, PARAM_REQUIRED, NULL},
    {"lines", PARAM_UINT, PARAM_NULLABLE, NULL},
    {"strip_ansi", PARAM_BOOL, 0, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param params_scroll[] = {
    {"type", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"pane_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {NULL, 0, 0, NULL},
};

static const struct param *entry_table(struct entry *e, const char *type)
{
    if (!strcmp(type, "pane.agent_status_changed")) {
        e->scoped = SCOPED_STATUS;
        e->kind = EVENT_PANE_AGENT_STATUS_CHANGED;
        return params_status;
    }
    if (!strcmp(type, "pane.output_matched")) {
        e->scoped = SCOPED_OUTPUT;
        return params_output;
    }
    if (!strcmp(type, "pane.scroll_changed")) {
        e->scoped = SCOPED_SCROLL;
        return params_scroll;
    }
    for (size_t i = 0; i < EVENT_KIND_COUNT; i++) {
        if (!strcmp(kind_types[i], type)) {
            e->kind = (enum event_kind)i;
            return params_plain;
        }
    }
    return NULL;
}

/* NULL, or the error code. */
static const char *entry_init(struct sim *sim, struct entry *e, const cJSON *item,
                              const char **message)
{
    char why[128];
    const char *type = param_text(item, "type");
    const struct param *table = type ? entry_table(e, type) : NULL;
    *message = "bad subscription entry";
    if (!table || !params_check(table, item, sim->opt.strict_params, why, sizeof why))
        return "invalid_request";
    e->cursor = sim->opt.replay && !e->scoped ? ring_first(&sim->ring) : sim->ring.next;
    if (!e->scoped)
        return NULL;
    const struct pane *pane = model_pane_any(&sim->model, param_text(item, "pane_id"));
    *message = "pane not found";
    if (!pane)
        return "pane_not_found";
    snprintf(e->terminal_id, sizeof e->terminal_id, "%s", pane->terminal_id);
    const char *status = param_text(item, "agent_status");
    if (status) {
        snprintf(e->status, sizeof e->status, "%s", status);
        e->initial = !strcmp(status, agent_status(&pane->agent));
    }
    if (e->scoped != SCOPED_OUTPUT)
        return NULL;
    const cJSON *match = param_item(item, "match");
    if (!params_check(params_output_match, match, sim->opt.strict_params, why, sizeof why))
        return "invalid_request";
    *message = "invalid regex";
    if (match_init(&e->match, !strcmp(param_text(match, "type"), "regex"),
                   param_text(match, "value")) < 0)
        return "invalid_regex";
    e->has_match = true;
    snprintf(e->source, sizeof e->source, "%s", param_text(item, "source"));
    e->has_lines = param_uint(item, "lines", &e->lines);
    return NULL;
}

struct subscription *subscription_new(struct sim *sim, const cJSON *entries, const char **code,
                                      const char **message)
{
    struct subscription *s = sim_alloc(sizeof *s);
    s->entries = sim_alloc(sizeof *s->entries * (size_t)cJSON_GetArraySize(entries));
    for (const cJSON *item = entries->child; item; item = item->next) {
        *code = entry_init(sim, &s->entries[s->n++], item, message);
        if (*code) {
            subscription_free(s);
            return NULL;
        }
    }
    return s;
}

void subscription_free(struct subscription *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++)
        if (s->entries[i].has_match)
            match_free(&s->entries[i].match);
    free(s->entries);
    free(s);
}

static void add_line(struct str *out, cJSON *j)
{
    char *text = cJSON_PrintUnformatted(j);
    str_puts(out, text);
    str_puts(out, "\n");
    free(text);
    cJSON_Delete(j);
}

static cJSON *scoped_envelope(const char *name, cJSON *data)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "event", name);
    cJSON_AddItemToObject(j, "data", data);
    return j;
}

static bool entry_wants(const struct entry *e, const struct event *ev)
{
    if (ev->kind != e->kind)
        return false;
    if (e->scoped != SCOPED_STATUS)
        return true;
    if (strcmp(ev->terminal_id, e->terminal_id) != 0)
        return false;
    return !e->status[0] || !strcmp(e->status, param_text(ev->data, "agent_status"));
}

static void poll_output(const struct sim *sim, struct entry *e, struct str *out)
{
    const struct pane *pane = model_terminal(&sim->model, e->terminal_id);
    if (!pane)
        return;
    cJSON *read = read_pane(pane, e->source, e->has_lines ? &e->lines : NULL, NULL);
    char *line = match_line(&e->match, param_text(read, "text"));
    if (line && !e->matched_before) {
        cJSON *data = cJSON_CreateObject();
        cJSON_AddStringToObject(data, "pane_id", pane->id);
        cJSON_AddStringToObject(data, "matched_line", line);
        cJSON_AddItemToObject(data, "read", read);
        read = NULL;
        add_line(out, scoped_envelope("pane.output_matched", data));
    }
    e->matched_before = line != NULL;
    free(line);
    cJSON_Delete(read);
}

static void poll_initial(const struct sim *sim, struct entry *e, struct str *out)
{
    const struct pane *pane = model_terminal(&sim->model, e->terminal_id);
    e->initial = false;
    if (pane)
        add_line(out, scoped_envelope(kind_types[e->kind], present_status(pane)));
}

static void poll_ring(const struct sim *sim, struct entry *e, struct str *out)
{
    while (e->cursor < sim->ring.next) {
        const struct event *ev = ring_at(&sim->ring, e->cursor++);
        if (!entry_wants(e, ev))
            continue;
        if (e->scoped == SCOPED_STATUS)
            add_line(out, scoped_envelope(kind_types[e->kind], cJSON_Duplicate(ev->data, 1)));
        else
            add_line(out, event_envelope(ev));
        if (!sim->opt.drain)
            return;
    }
}

bool subscription_poll(struct sim *sim, struct subscription *s, const char *request_id,
                       struct str *out)
{
    for (size_t i = 0; i < s->n; i++) {
        struct entry *e = &s->entries[i];
        if (e->scoped == SCOPED_SCROLL)
            continue;
        if (e->scoped == SCOPED_OUTPUT) {
            poll_output(sim, e, out);
            continue;
        }
        if (e->initial) {
            poll_initial(sim, e, out);
            if (!sim->opt.drain)
                continue;
        }
        if (e->cursor < ring_first(&sim->ring)) {
            if (sim->opt.events_lost) {
                cJSON *lost = cJSON_CreateObject();
                cJSON_AddStringToObject(lost, "id", request_id);
                cJSON *error = cJSON_AddObjectToObject(lost, "error");
                cJSON_AddStringToObject(error, "code", "events_lost");
                cJSON_AddStringToObject(error, "message", "events were lost");
                add_line(out, lost);
                return false;
            }
            e->cursor = ring_first(&sim->ring);
        }
        poll_ring(sim, e, out);
    }
    return true;
}
