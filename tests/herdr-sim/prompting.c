/*
 * agent.prompt: text now, Enter 300 ms later, then (0.9) the answer. With wait: first an activity
 * within 5 s unless the agent was working already, then a settled status.
 */
#include "prompting.h"

#include "dispatch.h"
#include "occupant.h"
#include "present.h"

#include <stdlib.h>
#include <string.h>

#define ENTER_DELAY_MS 300
#define ACTIVITY_MS 5000

static bool until_has(const cJSON *until, const char *status)
{
    if (!until || !until->child)
        return choice_in(STATUS_SETTLED, status);
    for (const cJSON *item = until->child; item; item = item->next)
        if (!strcmp(item->valuestring, status))
            return true;
    return false;
}

static void answer_agent(struct sim *sim, struct conn *c, const char *type, const struct pane *pane)
{
    cJSON *r = result_new(type);
    cJSON_AddItemToObject(r, "agent", present_agent(sim, pane));
    conn_answer(c, r);
}

struct agent_wait {
    struct occupant who;
    cJSON *until;
    uint64_t deadline_ms;
};

static void wait_turn(struct sim *sim, struct conn *c, void *state)
{
    struct agent_wait *w = state;
    bool gone = false, hit = false;
    const char *status;
    while (!hit && (status = occupant_next_status(&w->who, sim, &gone)))
        hit = until_has(w->until, status);
    struct pane *pane = occupant_pane(&w->who, sim);
    if (gone || !pane) {
        conn_error(c, "agent_not_running", "the agent is gone");
        return;
    }
    if (hit)
        answer_agent(sim, c, "agent_info", pane);
    else if (w->deadline_ms && now_ms() >= w->deadline_ms)
        conn_error(c, "timeout", "the agent did not reach the status");
}

static void wait_free(void *state)
{
    struct agent_wait *w = state;
    cJSON_Delete(w->until);
    free(w);
}

static const struct held_ops wait_ops = {wait_turn, wait_free};

void agent_wait_method(struct sim *sim, struct conn *c, const cJSON *params)
{
    uint64_t timeout;
    const char *target = param_text(params, "target");
    struct pane *pane = agent_target(sim, target);
    const cJSON *until = param_item(params, "until");
    if (!pane) {
        conn_error(c, "agent_not_found", "no such agent");
        return;
    }
    if (until_has(until, agent_status(&pane->agent))) {
        answer_agent(sim, c, "agent_info", pane);
        return;
    }
    struct agent_wait *w = sim_alloc(sizeof *w);
    occupant_pin(&w->who, sim, pane, target);
    w->until = cJSON_Duplicate(until, 1);
    if (param_uint(params, "timeout_ms", &timeout))
        w->deadline_ms = now_ms() + timeout;
    conn_hold(c, &wait_ops, w, true);
}

struct prompt {
    struct occupant who;
    bool enter_sent;
    bool wait;
    bool active; /* an activity was seen, or the agent was working from the start */
    cJSON *until;
    uint64_t start_ms;
    uint64_t deadline_ms;
};

static void prompt_follow(struct sim *sim, struct conn *c, struct prompt *p)
{
    bool gone = false, hit = false;
    const char *status;
    while (!hit && (status = occupant_next_status(&p->who, sim, &gone))) {
        p->active = p->active || choice_in("working|blocked", status);
        hit = p->active && until_has(p->until, status);
    }
    struct pane *pane = occupant_pane(&p->who, sim);
    uint64_t now = now_ms();
    if (gone || !pane)
        conn_error(c, "agent_not_running", "the agent is gone");
    else if (hit)
        answer_agent(sim, c, "agent_prompted", pane);
    else if (p->deadline_ms && now >= p->deadline_ms)
        conn_error(c, "timeout", "the agent did not settle");
    else if (!p->active && now - p->start_ms >= ACTIVITY_MS)
        conn_error(c, "agent_prompt_stalled", "no activity after the prompt");
}

static void prompt_turn(struct sim *sim, struct conn *c, void *state)
{
    struct prompt *p = state;
    if (p->enter_sent) {
        prompt_follow(sim, c, p);
        return;
    }
    if (now_ms() - p->start_ms < ENTER_DELAY_MS)
        return;
    struct pane *pane = occupant_pane(&p->who, sim);
    if (!pane || !pane->pty || pty_write(pane->pty, "\r", 1) < 0) {
        conn_error(c, "agent_prompt_failed", "the terminal is gone");
        return;
    }
    p->enter_sent = true;
    if (!p->wait)
        answer_agent(sim, c, "agent_prompted", pane);
}

static void prompt_free(void *state)
{
    struct prompt *p = state;
    cJSON_Delete(p->until);
    free(p);
}

static const struct held_ops prompt_ops = {prompt_turn, prompt_free};

static bool write_prompt(const struct pane *pane, const char *text, bool enter)
{
    struct str bytes = {0};
    bool paste = screen_bracketed_paste(pane->screen);
    if (paste)
        str_puts(&bytes, "\033[200~");
    str_puts(&bytes, text);
    if (paste)
        str_puts(&bytes, "\033[201~");
    if (enter)
        str_puts(&bytes, "\r");
    bool ok = pane->pty && pty_write(pane->pty, bytes.data, bytes.len) == 0;
    str_free(&bytes);
    return ok;
}

void agent_prompt_method(struct sim *sim, struct conn *c, const cJSON *params)
{
    char why[160];
    uint64_t timeout;
    const char *target = param_text(params, "target");
    const char *text = param_text(params, "text");
    const cJSON *wait = param_item(params, "wait");
    struct pane *pane = agent_target(sim, target);
    if (wait && !params_check(params_prompt_wait, wait, sim->opt.strict_params, why, sizeof why)) {
        conn_error(c, "invalid_request", "%s", why);
        return;
    }
    if (!*text) {
        conn_error(c, "empty_agent_prompt", "text is empty");
        return;
    }
    if (!pane) {
        conn_error(c, "agent_not_found", "no such agent");
        return;
    }
    agent_refresh(sim, pane);
    if (pane->agent.state == STATE_BLOCKED) {
        conn_error(c, "agent_blocked", "the agent waits for a person");
        return;
    }
    if (pane->agent.launch_pending || !agent_in_foreground(pane)) {
        conn_error(c, "agent_not_ready", "the agent is not ready for a prompt");
        return;
    }
    bool queued = sim->opt.prompt_queued && !wait;
    struct prompt *p = sim_alloc(sizeof *p);
    occupant_pin(&p->who, sim, pane, target);
    if (!write_prompt(pane, text, queued)) {
        free(p);
        conn_error(c, "agent_prompt_failed", "the terminal takes no input");
        return;
    }
    if (queued) {
        free(p);
        answer_agent(sim, c, "agent_prompted", pane);
        return;
    }
    p->start_ms = now_ms();
    p->wait = wait != NULL;
    p->active = pane->agent.state == STATE_WORKING;
    p->until = wait ? cJSON_Duplicate(param_item(wait, "until"), 1) : NULL;
    if (wait && param_uint(wait, "timeout_ms", &timeout))
        p->deadline_ms = p->start_ms + timeout;
    conn_hold(c, &prompt_ops, p, p->wait);
}
