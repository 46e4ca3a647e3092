/* Agents by target: get, list, start, rename, read, keys. */
#include "dispatch.h"
#include "keys.h"
#include "present.h"
#include "prompting.h"
#include "reading.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_TIMEOUT_MS 30000
#define START_TIMEOUT_MIN_MS 3000 /* exclusive */
#define START_TIMEOUT_MAX_MS 300000
#define AGENT_KINDS                                                                                \
    "pi|claude|codex|gemini|cursor|devin|agy|cline|omp|mastracode|opencode|copilot|kimi|kiro|"     \
    "droid|amp|grok|hermes|kilo|qodercli|qwen|maki|muse"

static struct pane *target_param(struct sim *sim, struct conn *c, const cJSON *params)
{
    const char *target = param_text(params, "target");
    struct pane *pane = model_pane(&sim->model, target);
    if (!pane)
        pane = agent_by_name(sim, target);
    if (pane)
        agent_refresh(sim, pane);
    pane = agent_target(sim, target);
    if (!pane)
        conn_error(c, "agent_not_found", "no such agent");
    return pane;
}

static void answer_agent(struct sim *sim, struct conn *c, const struct pane *pane)
{
    cJSON *r = result_new("agent_info");
    cJSON_AddItemToObject(r, "agent", present_agent(sim, pane));
    conn_answer(c, r);
}

static void agent_list(struct sim *sim, struct conn *c, const cJSON *params)
{
    (void)params;
    cJSON *r = result_new("agent_list");
    cJSON_AddItemToObject(r, "agents", present_agents(sim));
    conn_answer(c, r);
}

static void agent_get(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = target_param(sim, c, params);
    if (!pane)
        return;
    agent_advance_launch(sim, pane);
    if (agent_present(&pane->agent))
        answer_agent(sim, c, pane);
    else
        conn_error(c, "agent_not_found", "the launch timed out");
}

static void agent_focus(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = target_param(sim, c, params);
    if (!pane)
        return;
    model_focus_pane(sim, pane);
    answer_agent(sim, c, pane);
}

static void name_changed(struct sim *sim, const struct pane *pane)
{
    cJSON *data = cJSON_CreateObject();
    cJSON_AddItemToObject(data, "pane", present_pane(sim, pane));
    events_emit(sim, EVENT_PANE_UPDATED, pane, data);
}

/* False when the connection got its error. */
static bool name_free(struct sim *sim, struct conn *c, const char *name, const struct pane *self)
{
    if (!agent_name_valid(name)) {
        conn_error(c, "invalid_agent_name", "names are [a-z][a-z0-9_-]{0,31}");
        return false;
    }
    const struct pane *owner = agent_by_name(sim, name);
    if (owner && owner != self) {
        conn_error(c, "agent_name_taken", "another agent has that name");
        return false;
    }
    return true;
}

static void agent_rename(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = target_param(sim, c, params);
    const char *name = param_text(params, "name");
    if (!pane)
        return;
    if (pane->agent.launch_pending) {
        conn_error(c, "agent_launch_pending", "the agent is still starting");
        return;
    }
    if (name && !name_free(sim, c, name, pane))
        return;
    snprintf(pane->agent.name, sizeof pane->agent.name, "%s", name ? name : "");
    name_changed(sim, pane);
    answer_agent(sim, c, pane);
}

/* One argument as a POSIX shell reads it back. */
static void quote(struct str *out, const char *arg)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./:=@%+,";
    if (*arg && strspn(arg, plain) == strlen(arg)) {
        str_puts(out, arg);
        return;
    }
    str_puts(out, "'");
    for (const char *p = arg; *p; p++)
        str_puts(out, *p == '\'' ? "'\\''" : (char[]){*p, '\0'});
    str_puts(out, "'");
}

static bool shell_idle(const struct sim *sim, const struct pane *pane)
{
    return !agent_present(&pane->agent) && pty_foreground(pane->pty) == pty_pid(pane->pty) &&
           now_ms() - pane->started_ms >= (uint64_t)sim->opt.shell_busy_ms;
}

/* NULL when everything about the request itself is right, else the error code. */
static const char *start_check(const cJSON *params, uint64_t timeout)
{
    if (!choice_in(AGENT_KINDS, param_text(params, "kind")))
        return "unsupported_agent_kind";
    const cJSON *args = param_item(params, "args");
    for (const cJSON *a = args ? args->child : NULL; a; a = a->next)
        if (text_has_control(a->valuestring))
            return "invalid_agent_argument";
    if (timeout <= START_TIMEOUT_MIN_MS || timeout > START_TIMEOUT_MAX_MS)
        return "invalid_agent_timeout";
    return NULL;
}

static void agent_start(struct sim *sim, struct conn *c, const cJSON *params)
{
    const char *name = param_text(params, "name");
    const char *kind = param_text(params, "kind");
    uint64_t timeout = START_TIMEOUT_MS;
    param_uint(params, "timeout_ms", &timeout);
    if (!agent_name_valid(name)) {
        conn_error(c, "invalid_agent_name", "names are [a-z][a-z0-9_-]{0,31}");
        return;
    }
    const char *code = start_check(params, timeout);
    if (code) {
        conn_error(c, code, "bad agent.start request");
        return;
    }
    if (!name_free(sim, c, name, NULL))
        return;
    struct pane *pane = model_pane(&sim->model, param_text(params, "pane_id"));
    if (!pane) {
        conn_error(c, "agent_pane_not_found", "no such pane");
        return;
    }
    if (!pane->pty) {
        conn_error(c, "agent_pane_unavailable", "the pane has no live terminal");
        return;
    }
    agent_refresh(sim, pane);
    if (!shell_idle(sim, pane)) {
        conn_error(c, "agent_pane_busy", "the pane's shell is not idle");
        return;
    }
    struct str command = {0};
    cJSON *argv = cJSON_CreateArray();
    cJSON_AddItemToArray(argv, cJSON_CreateString(kind));
    str_puts(&command, kind);
    const cJSON *args = param_item(params, "args");
    for (const cJSON *a = args ? args->child : NULL; a; a = a->next) {
        cJSON_AddItemToArray(argv, cJSON_CreateString(a->valuestring));
        str_puts(&command, " ");
        quote(&command, a->valuestring);
    }
    str_puts(&command, "\r");
    int rc = pty_write(pane->pty, command.data, command.len);
    str_free(&command);
    if (rc < 0) {
        cJSON_Delete(argv);
        conn_error(c, "agent_start_input_failed", "the terminal takes no input");
        return;
    }
    struct agent *a = &pane->agent;
    snprintf(a->name, sizeof a->name, "%s", name);
    a->launch_pending = true;
    a->launch_ms = now_ms();
    a->launch_timeout_ms = timeout;
    name_changed(sim, pane);
    cJSON *r = result_new("agent_started");
    cJSON_AddItemToObject(r, "agent", present_agent(sim, pane));
    cJSON_AddItemToObject(r, "argv", argv);
    conn_answer(c, r);
}

static void agent_read(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = target_param(sim, c, params);
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

static void agent_send_keys(struct sim *sim, struct conn *c, const cJSON *params)
{
    struct pane *pane = target_param(sim, c, params);
    if (!pane)
        return;
    if (pane->agent.launch_pending || !agent_in_foreground(pane)) {
        conn_error(c, "agent_not_ready", "the agent is not in the foreground");
        return;
    }
    struct str bytes = {0};
    for (const cJSON *k = param_item(params, "keys")->child; k; k = k->next) {
        if (key_bytes(k->valuestring, &bytes) < 0) {
            str_free(&bytes);
            conn_error(c, "invalid_key", "not a key");
            return;
        }
    }
    if (bytes.len && (!pane->pty || pty_write(pane->pty, bytes.data, bytes.len) < 0))
        conn_error(c, "agent_send_keys_failed", "the terminal takes no input");
    else
        conn_answer(c, result_new("ok"));
    str_free(&bytes);
}

static const struct param target_params[] = {
    {"target", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param rename_params[] = {
    {"target", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"name", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param start_params[] = {
    {"name", PARAM_TEXT, PARAM_REQUIRED, NULL},       {"kind", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"pane_id", PARAM_TEXT, PARAM_REQUIRED, NULL},    {"args", PARAM_TEXTS, 0, NULL},
    {"timeout_ms", PARAM_UINT, PARAM_NULLABLE, NULL}, {NULL, 0, 0, NULL},
};
static const struct param prompt_params[] = {
    {"target", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"text", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"wait", PARAM_OBJECT, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param wait_params[] = {
    {"target", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"until", PARAM_TEXTS, 0, STATUS_CHOICES},
    {"timeout_ms", PARAM_UINT, PARAM_NULLABLE, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param read_params[] = {
    {"target", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"source", PARAM_TEXT, PARAM_REQUIRED, SOURCE_CHOICES},
    {"lines", PARAM_UINT, PARAM_NULLABLE, NULL},
    {"format", PARAM_TEXT, 0, "text|ansi"},
    {"strip_ansi", PARAM_BOOL, 0, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param keys_params[] = {
    {"target", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"keys", PARAM_TEXTS, PARAM_REQUIRED, NULL},
    {NULL, 0, 0, NULL},
};

const struct method methods_agent[] = {
    {"agent.list", agent_list, params_none, false, false},
    {"agent.get", agent_get, target_params, false, false},
    {"agent.focus", agent_focus, target_params, false, false},
    {"agent.rename", agent_rename, rename_params, false, false},
    {"agent.start", agent_start, start_params, false, false},
    {"agent.prompt", agent_prompt_method, prompt_params, false, false},
    {"agent.wait", agent_wait_method, wait_params, false, true},
    {"agent.read", agent_read, read_params, false, false},
    {"agent.send_keys", agent_send_keys, keys_params, false, false},
    {NULL, NULL, NULL, false, false},
};
