/* What integrations report about the agent in their pane. All answer ok even when ignored. */
#include "dispatch.h"
#include "present.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS_PER_CALL_MAX 16
#define TOKEN_KEY_BYTES_MAX 32
#define TOKEN_VALUE_BYTES_MAX 80

static struct pane *pane_param(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = model_pane_any(&sim->model, param_text(params, "pane_id"));
    if (!pane)
        conn_error(c, "pane_not_found", "no such pane");
    return pane;
}

/* The pane, or NULL when the connection is answered already (also by an ignored report's ok). */
static struct pane *accepted_report(struct sim *sim, struct conn *c, const cJSON *params,
                                    bool needs_agent)
{
    struct pane *pane = pane_param(sim, c, params);
    if (!pane)
        return NULL;
    if (needs_agent && text_blank(param_text(params, "agent"))) {
        conn_error(c, "invalid_agent", "agent is empty");
        return NULL;
    }
    uint64_t seq = 0;
    bool has_seq = param_uint(params, "seq", &seq);
    const char *source = param_text(params, "source");
    if (source && !agent_seq_accept(&pane->agent, source, has_seq, seq)) {
        conn_answer(c, result_new("ok"));
        return NULL;
    }
    return pane;
}

static enum agent_state state_of(const char *name)
{
    for (enum agent_state s = STATE_UNKNOWN; s <= STATE_BLOCKED; s++)
        if (!strcmp(agent_state_name(s), name))
            return s;
    return STATE_UNKNOWN;
}

static void report(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = accepted_report(sim, c, params, true);
    if (!pane)
        return;
    const char *state = param_text(params, "state");
    struct agent_report r = {
        .source = param_text(params, "source"),
        .agent = param_text(params, "agent"),
        .has_state = state != NULL,
        .state = state ? state_of(state) : STATE_UNKNOWN,
        .session_path = param_text(params, "agent_session_path"),
        .session_id = param_text(params, "agent_session_id"),
    };
    agent_apply_report(sim, pane, &r);
    conn_answer(c, result_new("ok"));
}

static void release(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = accepted_report(sim, c, params, true);
    if (!pane)
        return;
    const struct agent *a = &pane->agent;
    if (!strcmp(a->authority_source, param_text(params, "source")) &&
        !strcmp(a->kind, param_text(params, "agent")))
        agent_release(sim, pane);
    conn_answer(c, result_new("ok"));
}

static void clear_authority(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = accepted_report(sim, c, params, false);
    if (!pane)
        return;
    agent_clear_authority(sim, pane, param_text(params, "source"));
    conn_answer(c, result_new("ok"));
}

static bool name_chars(const char *s, const char *chars, size_t max)
{
    size_t n = strlen(s);
    return n >= 1 && n <= max && strspn(s, chars) == n;
}

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

/* NULL, or the error code. */
static const char *metadata_check(const struct pane *pane, const cJSON *params)
{
    uint64_t ttl;
    if (!name_chars(param_text(params, "source"), NAME_CHARS ":.", 80))
        return "invalid_metadata_source";
    if (param_uint(params, "ttl_ms", &ttl) && (ttl < 1 || ttl > 86400000))
        return "invalid_metadata_ttl";
    const cJSON *tokens = param_item(params, "tokens");
    if (tokens && cJSON_GetArraySize(tokens) > TOKENS_PER_CALL_MAX)
        return "metadata_token_limit";
    int fresh = 0;
    for (const cJSON *t = tokens ? tokens->child : NULL; t; t = t->next) {
        if (!name_chars(t->string, NAME_CHARS, TOKEN_KEY_BYTES_MAX))
            return "invalid_metadata_token";
        fresh += !cJSON_GetObjectItemCaseSensitive(pane->tokens, t->string);
    }
    if (cJSON_GetArraySize(pane->tokens) + fresh > TOKENS_PER_PANE_MAX)
        return "metadata_token_limit";
    return NULL;
}

static void set_token(struct pane *pane, const cJSON *token)
{
    if (!pane->tokens)
        pane->tokens = cJSON_CreateObject();
    cJSON_DeleteItemFromObjectCaseSensitive(pane->tokens, token->string);
    if (!cJSON_IsString(token) || text_blank(token->valuestring))
        return;
    char *value = sim_format("%.*s", TOKEN_VALUE_BYTES_MAX, token->valuestring);
    while (!utf8_valid(value, strlen(value)))
        value[strlen(value) - 1] = '\0';
    cJSON_AddStringToObject(pane->tokens, token->string, value);
    free(value);
}

static void set_text(char **field, const cJSON *params, const char *name, const char *clear)
{
    const char *text = param_text(params, name);
    if (!text && !param_bool(params, clear, false))
        return;
    free(*field);
    *field = text_blank(text) ? NULL : sim_strdup(text);
}

static void metadata(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = pane_param(sim, c, params);
    if (!pane)
        return;
    const char *code = metadata_check(pane, params);
    if (code) {
        conn_error(c, code, "bad metadata");
        return;
    }
    uint64_t seq = 0;
    bool has_seq = param_uint(params, "seq", &seq);
    /* Metadata has its own sequence per source, apart from the state reports'. */
    char source[AGENT_SOURCE_BYTES];
    snprintf(source, sizeof source, "~%.79s", param_text(params, "source"));
    if (!agent_seq_accept(&pane->agent, source, has_seq, seq)) {
        conn_answer(c, result_new("ok"));
        return;
    }
    set_text(&pane->title, params, "title", "clear_title");
    set_text(&pane->display_agent, params, "display_agent", "clear_display_agent");
    const cJSON *labels = param_item(params, "state_labels");
    if (labels || param_bool(params, "clear_state_labels", false)) {
        cJSON_Delete(pane->state_labels);
        pane->state_labels = labels ? cJSON_Duplicate(labels, 1) : NULL;
    }
    const cJSON *tokens = param_item(params, "tokens");
    for (const cJSON *t = tokens ? tokens->child : NULL; t; t = t->next)
        set_token(pane, t);
    cJSON *data = cJSON_CreateObject();
    cJSON_AddItemToObject(data, "pane", present_pane(sim, pane));
    events_emit(sim, EVENT_PANE_UPDATED, pane, data);
    conn_answer(c, result_new("ok"));
}

static const struct param report_params[] = {
    {"pane_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"source", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"agent", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"state", PARAM_TEXT, PARAM_REQUIRED, "idle|working|blocked|unknown"},
    {"message", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"seq", PARAM_UINT, PARAM_NULLABLE, NULL},
    {"agent_session_path", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"agent_session_id", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param session_params[] = {
    {"pane_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"source", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"agent", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"seq", PARAM_UINT, PARAM_NULLABLE, NULL},
    {"session_start_source", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"agent_session_path", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"agent_session_id", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param release_params[] = {
    {"pane_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"source", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"agent", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"seq", PARAM_UINT, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param clear_params[] = {
    {"pane_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"source", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"seq", PARAM_UINT, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param metadata_params[] = {
    {"pane_id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"source", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"agent", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"applies_to_source", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"title", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"display_agent", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"state_labels", PARAM_MAP, 0, NULL},
    {"tokens", PARAM_MAP_NULL, 0, NULL},
    {"clear_title", PARAM_BOOL, 0, NULL},
    {"clear_display_agent", PARAM_BOOL, 0, NULL},
    {"clear_state_labels", PARAM_BOOL, 0, NULL},
    {"seq", PARAM_UINT, PARAM_NULLABLE, NULL},
    {"ttl_ms", PARAM_UINT, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};

const struct method methods_report[] = {
    {"pane.report_agent", report, report_params, false, false},
    {"pane.report_agent_session", report, session_params, false, false},
    {"pane.release_agent", release, release_params, false, false},
    {"pane.clear_agent_authority", clear_authority, clear_params, false, false},
    {"pane.report_metadata", metadata, metadata_params, false, false},
    {NULL, NULL, NULL, false, false},
};
