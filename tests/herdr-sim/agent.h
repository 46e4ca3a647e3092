/*
 * What a pane's agent is and which status it has: recognition of the foreground process, reports
 * of integrations with their seq rule, done against idle by "seen", the two-step start.
 */
#ifndef HERDR_SIM_AGENT_H
#define HERDR_SIM_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define AGENT_NAME_BYTES 33
#define AGENT_LABEL_BYTES 64
#define AGENT_SOURCE_BYTES 81
/* Sources whose seq is remembered per pane; the least recently added one is forgotten. */
#define AGENT_SOURCES_MAX 16
#define SESSION_PATH_BYTES_MAX 4096
#define SESSION_ID_BYTES_MAX 512

struct sim;
struct pane;

enum agent_state { STATE_UNKNOWN, STATE_IDLE, STATE_WORKING, STATE_BLOCKED };

struct agent {
    char kind[AGENT_LABEL_BYTES]; /* "" when no agent is recognised */
    enum agent_state state;
    bool unseen; /* idle, reached from working or blocked, not looked at since */
    uint64_t state_change_seq;
    bool authority; /* an integration's reports decide, not the screen */
    char authority_source[AGENT_SOURCE_BYTES];
    pid_t pgrp; /* foreground group that makes it an agent; 0 for reported-only agents */

    char name[AGENT_NAME_BYTES]; /* "" when it has none */
    bool launch_pending;
    bool interactive_ready;
    uint64_t launch_ms;
    uint64_t launch_timeout_ms;

    char *session_value; /* NULL without a session reference */
    bool session_is_path;

    struct {
        char source[AGENT_SOURCE_BYTES];
        uint64_t seq;
    } sources[AGENT_SOURCES_MAX];
    int nsources;
};

const char *agent_state_name(enum agent_state state);
/* As shown on the wire: adds "done". */
const char *agent_status(const struct agent *a);
/* Does the pane count as hosting an agent (recognised, reported or being launched)? */
bool agent_present(const struct agent *a);
/* Is the agent the pane's foreground process now? Reported-only agents always are. */
bool agent_in_foreground(const struct pane *pane);
/* Pane of a target: the current pane id of a pane with an agent, or a live name. NULL if none. */
struct pane *agent_target(const struct sim *sim, const char *target);
struct pane *agent_by_name(const struct sim *sim, const char *name);
bool agent_name_valid(const char *name);

/* Looks at the pane's foreground once: recognises, or releases, a Pi. */
void agent_refresh(struct sim *sim, struct pane *pane);
/* The agent ended: emits pane_agent_detected {released} when there was one. */
void agent_release(struct sim *sim, struct pane *pane);
void agent_fini(struct agent *a);
void agent_mark_seen(struct pane *pane);
/* What agent.get does besides answering: readiness or time-out of a launch. */
void agent_advance_launch(struct sim *sim, struct pane *pane);

/* Whether a report with this seq counts; remembers it. has_seq false: only for seq-less sources. */
bool agent_seq_accept(struct agent *a, const char *source, bool has_seq, uint64_t seq);

struct agent_report {
    const char *source;
    const char *agent;
    bool has_state; /* false: session report */
    enum agent_state state;
    const char *session_path; /* may be NULL */
    const char *session_id;   /* may be NULL */
};
/* Applies a report whose seq was accepted; silently without effect when the rules say so. */
void agent_apply_report(struct sim *sim, struct pane *pane, const struct agent_report *r);
void agent_clear_authority(struct sim *sim, struct pane *pane, const char *source);

#endif
