/*
 * Three sources of truth, weakest first: the foreground process (there is a Pi, so it is idle as
 * far as a screen can tell), a custom source's report, Pi's own integration. The last one counts
 * only while Pi owns the foreground.
 */
#include "agent.h"

#include "present.h"
#include "proc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *agent_state_name(enum agent_state state)
{
    static const char *const names[] = {"unknown", "idle", "working", "blocked"};
    return names[state];
}

const char *agent_status(const struct agent *a)
{
    return a->state == STATE_IDLE && a->unseen ? "done" : agent_state_name(a->state);
}

bool agent_present(const struct agent *a)
{
    return a->kind[0] || a->launch_pending;
}

bool agent_in_foreground(const struct pane *pane)
{
    const struct agent *a = &pane->agent;
    if (!a->kind[0])
        return false;
    return a->pgrp == 0 || (pane->pty && pty_foreground(pane->pty) == a->pgrp);
}

bool agent_name_valid(const char *name)
{
    size_t n = strlen(name);
    if (n < 1 || n > 32 || name[0] < 'a' || name[0] > 'z')
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == n;
}

struct pane *agent_by_name(const struct sim *sim, const char *name)
{
    FOR_EACH_PANE(&sim->model, w, t, p)
    {
        if (p->agent.name[0] && !strcmp(p->agent.name, name))
            return p;
    }
    return NULL;
}

struct pane *agent_target(const struct sim *sim, const char *target)
{
    struct pane *p = model_pane(&sim->model, target);
    if (!p)
        p = agent_by_name(sim, target);
    return p && agent_present(&p->agent) ? p : NULL;
}

static void set_state(struct sim *sim, struct pane *pane, enum agent_state state)
{
    struct agent *a = &pane->agent;
    if (a->state == state)
        return;
    bool finished = state == STATE_IDLE && (a->state == STATE_WORKING || a->state == STATE_BLOCKED);
    a->unseen = finished && !(sim->opt.viewer && tab_in_view(&sim->model, pane->tab));
    a->state = state;
    a->state_change_seq = ++sim->model.state_seq;
    events_emit(sim, EVENT_PANE_AGENT_STATUS_CHANGED, pane, present_status(pane));
}

static void detected(struct sim *sim, struct pane *pane, const char *kind)
{
    struct agent *a = &pane->agent;
    if (!strcmp(a->kind, kind))
        return;
    snprintf(a->kind, sizeof a->kind, "%s", kind);
    cJSON *data = present_pane_ref(pane);
    cJSON_AddStringToObject(data, "agent", kind);
    events_emit(sim, EVENT_PANE_AGENT_DETECTED, pane, data);
}

static void forget_session(struct agent *a)
{
    free(a->session_value);
    a->session_value = NULL;
}

void agent_release(struct sim *sim, struct pane *pane)
{
    struct agent *a = &pane->agent;
    bool had = a->kind[0];
    const char *final_status = agent_status(a);
    a->kind[0] = a->name[0] = a->authority_source[0] = '\0';
    a->state = STATE_UNKNOWN;
    a->unseen = a->authority = a->launch_pending = a->interactive_ready = false;
    a->pgrp = 0;
    forget_session(a);
    if (!had)
        return;
    cJSON *data = present_pane_ref(pane);
    cJSON_AddBoolToObject(data, "released", true);
    cJSON_AddStringToObject(data, "final_status", final_status);
    events_emit(sim, EVENT_PANE_AGENT_DETECTED, pane, data);
}

void agent_fini(struct agent *a)
{
    forget_session(a);
}

void agent_mark_seen(struct pane *pane)
{
    pane->agent.unseen = false;
}

void agent_refresh(struct sim *sim, struct pane *pane)
{
    struct agent *a = &pane->agent;
    if (!pane->pty)
        return;
    pid_t fg = pty_foreground(pane->pty);
    bool pi = proc_group_is_pi(fg);
    if (a->pgrp) {
        bool lost = sim->opt.foreground_rule ? fg != a->pgrp || !pi : kill(-a->pgrp, 0) < 0;
        if (lost)
            agent_release(sim, pane);
    }
    if (!pi || a->pgrp)
        return;
    a->pgrp = fg;
    if (a->authority)
        return;
    detected(sim, pane, "pi");
    set_state(sim, pane, STATE_IDLE);
}

void agent_advance_launch(struct sim *sim, struct pane *pane)
{
    struct agent *a = &pane->agent;
    if (!a->launch_pending)
        return;
    uint64_t elapsed = now_ms() - a->launch_ms;
    if (elapsed > a->launch_timeout_ms) {
        a->launch_pending = false;
        a->name[0] = '\0';
    } else if (!sim->opt.launch_stuck && elapsed >= (uint64_t)sim->opt.settle_ms && a->kind[0] &&
               a->state == STATE_IDLE) {
        a->launch_pending = false;
        a->interactive_ready = true;
    }
}

bool agent_seq_accept(struct agent *a, const char *source, bool has_seq, uint64_t seq)
{
    for (int i = 0; i < a->nsources; i++) {
        if (strcmp(a->sources[i].source, source) != 0)
            continue;
        if (!has_seq || seq <= a->sources[i].seq)
            return false;
        a->sources[i].seq = seq;
        return true;
    }
    if (!has_seq)
        return true;
    if (a->nsources == AGENT_SOURCES_MAX) {
        memmove(&a->sources[0], &a->sources[1], sizeof a->sources[0] * (AGENT_SOURCES_MAX - 1));
        a->nsources--;
    }
    snprintf(a->sources[a->nsources].source, AGENT_SOURCE_BYTES, "%s", source);
    a->sources[a->nsources++].seq = seq;
    return true;
}

static void store_session(struct agent *a, const struct agent_report *r)
{
    if (r->session_path && r->session_path[0] == '/' &&
        strlen(r->session_path) <= SESSION_PATH_BYTES_MAX && !text_has_control(r->session_path)) {
        forget_session(a);
        a->session_value = sim_strdup(r->session_path);
        a->session_is_path = true;
    } else if (r->session_id && r->session_id[0] && strlen(r->session_id) <= SESSION_ID_BYTES_MAX &&
               !text_has_control(r->session_id)) {
        forget_session(a);
        a->session_value = sim_strdup(r->session_id);
        a->session_is_path = false;
    }
}

static void take_authority(struct agent *a, const char *source)
{
    a->authority = true;
    snprintf(a->authority_source, sizeof a->authority_source, "%s", source);
}

static void apply_pi_report(struct sim *sim, struct pane *pane, const struct agent_report *r)
{
    struct agent *a = &pane->agent;
    agent_refresh(sim, pane);
    if (sim->opt.foreground_rule && !a->pgrp)
        return;
    if (!a->kind[0]) {
        pid_t fg = pane->pty ? pty_foreground(pane->pty) : 0;
        a->pgrp = fg && fg != pty_pid(pane->pty) ? fg : 0;
        detected(sim, pane, "pi");
    }
    store_session(a, r);
    if (!r->has_state)
        return;
    take_authority(a, r->source);
    set_state(sim, pane, r->state);
}

void agent_apply_report(struct sim *sim, struct pane *pane, const struct agent_report *r)
{
    if (!strcmp(r->source, "herdr:pi") && !strcmp(r->agent, "pi")) {
        apply_pi_report(sim, pane, r);
        return;
    }
    /* Other official sources belong to programs that are never recognised here. */
    if (!strncmp(r->source, "herdr:", 6) && sim->opt.foreground_rule)
        return;
    if (!r->has_state)
        return;
    detected(sim, pane, r->agent);
    take_authority(&pane->agent, r->source);
    set_state(sim, pane, r->state);
}

void agent_clear_authority(struct sim *sim, struct pane *pane, const char *source)
{
    struct agent *a = &pane->agent;
    if (!a->authority || (source && strcmp(source, a->authority_source) != 0))
        return;
    a->authority = false;
    a->authority_source[0] = '\0';
    if (a->pgrp)
        set_state(sim, pane, STATE_IDLE);
    else
        agent_release(sim, pane);
}
