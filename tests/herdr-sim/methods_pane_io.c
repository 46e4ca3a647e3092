/* Text into and out of panes. */
#include "dispatch.h"
#include "keys.h"
#include "match.h"
#include "reading.h"

#include <stdlib.h>
#include <string.h>

static struct pane *pane_param(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = model_pane_any(&sim->model, param_text(params, "pane_id"));
    if (!pane)
        conn_error(c, "pane_not_found", "no such pane");
    return pane;
}

static void pane_read(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = pane_param(sim, c, params);
    if (!pane)
        return;
    uint64_t lines;
    bool has_lines = param_uint(params, "lines", &lines);
    cJSON *r = result_new("pane_read");
    cJSON_AddItemToObject(r, "read",
                          read_pane(pane, param_text(params, "source"), has_lines ? &lines : NULL,
                                    param_text(params, "format")));
    conn_answer(c, r);
}

/* Bytes of all keys; false when the connection got invalid_key. */
static bool keys_param(struct conn *c, const cJSON *params, struct str *out)
{
    const cJSON *keys = param_item(params, "keys");
    for (const cJSON *k = keys ? keys->child : NULL; k; k = k->next) {
        if (key_bytes(k->valuestring, out) < 0) {
            conn_error(c, "invalid_key", "not a key");
            return false;
        }
    }
    return true;
}

static void write_and_answer(struct conn *c, const struct pane *pane, const struct str *bytes)
{
    if (bytes->len && (!pane->pty || pty_write(pane->pty, bytes->data, bytes->len) < 0))
        conn_error(c, "pane_send_failed", "the terminal takes no input");
    else
        conn_answer(c, result_new("ok"));
}

static void pane_send_text(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct str bytes = {0};
    struct pane *pane = pane_param(sim, c, params);
    if (!pane)
        return;
    str_puts(&bytes, param_text(params, "text"));
    write_and_answer(c, pane, &bytes);
    str_free(&bytes);
}

static void pane_send_keys(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct str bytes = {0};
    struct pane *pane = pane_param(sim, c, params);
    if (pane && keys_param(c, params, &bytes))
        write_and_answer(c, pane, &bytes);
    str_free(&bytes);
}

static void pane_send_input(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct str bytes = {0};
    struct pane *pane = pane_param(sim, c, params);
    if (!pane)
        return;
    const char *text = param_text(params, "text");
    bool paste = text && *text && screen_bracketed_paste(pane->screen);
    if (paste)
        str_puts(&bytes, "\033[200~");
    str_puts(&bytes, text ? text : "");
    if (paste)
        str_puts(&bytes, "\033[201~");
    if (keys_param(c, params, &bytes))
        write_and_answer(c, pane, &bytes);
    str_free(&bytes);
}

struct output_wait {
    char pane_id[ID_BYTES];
    char terminal_id[ID_BYTES];
    char source[24];
    uint64_t lines;
    bool has_lines;
    struct match match;
    uint64_t deadline_ms; /* 0: none */
};

static void output_wait_turn(struct sim *sim, struct conn *c, void *state)
{
    struct output_wait *w = state;
    struct pane *pane = model_pane_any(&sim->model, w->pane_id);
    if (!pane || strcmp(pane->terminal_id, w->terminal_id) != 0) {
        conn_error(c, "pane_not_found", "the pane is gone");
        return;
    }
    cJSON *read = read_pane(pane, w->source, w->has_lines ? &w->lines : NULL, NULL);
    char *line = match_line(&w->match, param_text(read, "text"));
    if (line) {
        cJSON *r = result_new("output_matched");
        cJSON_AddStringToObject(r, "pane_id", pane->id);
        cJSON_AddNumberToObject(r, "revision", 0);
        cJSON_AddStringToObject(r, "matched_line", line);
        cJSON_AddItemToObject(r, "read", read);
        free(line);
        conn_answer(c, r);
        return;
    }
    cJSON_Delete(read);
    if (w->deadline_ms && now_ms() >= w->deadline_ms)
        conn_error(c, "timeout", "no line matched");
}

static void output_wait_free(void *state)
{
    struct output_wait *w = state;
    match_free(&w->match);
    free(w);
}

static const struct held_ops output_wait_ops = {output_wait_turn, output_wait_free};

static void pane_wait_for_output(struct sim *sim, struct conn *c, const cJSON *params)
{
    char why[160];
    uint64_t timeout;
    struct pane *pane = pane_param(sim, c, params);
    if (!pane)
        return;
    const cJSON *match = param_item(params, "match");
    if (!params_check(params_output_match, match, sim->opt.strict_params, why, sizeof why)) {
        conn_error(c, "invalid_request", "%s", why);
        return;
    }
    struct output_wait *w = sim_alloc(sizeof *w);
    if (match_init(&w->match, !strcmp(param_text(match, "type"), "regex"),
                   param_text(match, "value")) < 0) {
        free(w);
        conn_error(c, "invalid_regex", "the expression does not compile");
        return;
    }
    strcpy(w->pane_id, pane->id);
    strcpy(w->terminal_id, pane->terminal_id);
    strncpy(w->source, param_text(params, "source"), sizeof w->source - 1);
    w->has_lines = param_uint(params, "lines", &w->lines);
    if (param_uint(params, "timeout_ms", &timeout))
        w->deadline_ms = now_ms() + timeout;
    conn_hold(c, &output_wait_ops, w, true);
}

static const struct param read_params[] = {
    {"pane_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"source", PARAM_TEXT, PARAM_REQUIRED, SOURCE_CHOICES},
    {"lines", PARAM_UINT, PARAM_NULLABLE, NULL},
    {"format", PARAM_TEXT, 0, "text|ansi"},
    {"strip_ansi", PARAM_BOOL, 0, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param text_params[] = {
    {"pane_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"text", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param keys_params[] = {
    {"pane_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"keys", PARAM_TEXTS, PARAM_REQUIRED, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param input_params[] = {
    {"pane_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"text", PARAM_TEXT, 0, NULL},
    {"keys", PARAM_TEXTS, 0, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param wait_params[] = {
    {"pane_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"source", PARAM_TEXT, PARAM_REQUIRED, SOURCE_CHOICES},
    {"match", PARAM_OBJECT, PARAM_REQUIRED, NULL},
    {"lines", PARAM_UINT, PARAM_NULLABLE, NULL},
    {"timeout_ms", PARAM_UINT, PARAM_NULLABLE, NULL},
    {"strip_ansi", PARAM_BOOL, 0, NULL},
    {NULL, 0, 0, NULL},
};

const struct method methods_pane_io[] = {
    {"pane.read", pane_read, read_params, false, false},
    {"pane.send_text", pane_send_text, text_params, false, false},
    {"pane.send_keys", pane_send_keys, keys_params, false, false},
    {"pane.send_input", pane_send_input, input_params, false, false},
    {"pane.wait_for_output", pane_wait_for_output, wait_params, false, true},
    {NULL, NULL, NULL, false, false},
};
