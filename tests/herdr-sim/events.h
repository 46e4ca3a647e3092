/*
 * The event ring (512 entries shared by every kind) and what one subscription makes of it.
 * Every entry of a subscription has its own cursor; a pass every 100 ms visits them in order.
 */
#ifndef HERDR_SIM_EVENTS_H
#define HERDR_SIM_EVENTS_H

#include "util.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#define EVENT_RING_MAX 512
#define EVENT_POLL_MS 100

struct sim;
struct pane;

/* Lifecycle kinds; the texts are "workspace.created" (type) and "workspace_created" (name). */
#define EVENT_KINDS(X)                                                                             \
    X(WORKSPACE_CREATED, "workspace.created")                                                      \
    X(WORKSPACE_UPDATED, "workspace.updated")                                                      \
    X(WORKSPACE_METADATA_UPDATED, "workspace.metadata_updated")                                    \
    X(WORKSPACE_RENAMED, "workspace.renamed")                                                      \
    X(WORKSPACE_MOVED, "workspace.moved")                                                          \
    X(WORKSPACE_REORDERED, "workspace.reordered")                                                  \
    X(WORKSPACE_CLOSED, "workspace.closed")                                                        \
    X(WORKSPACE_FOCUSED, "workspace.focused")                                                      \
    X(WORKTREE_CREATED, "worktree.created")                                                        \
    X(WORKTREE_OPENED, "worktree.opened")                                                          \
    X(WORKTREE_REMOVED, "worktree.removed")                                                        \
    X(TAB_CREATED, "tab.created")                                                                  \
    X(TAB_CLOSED, "tab.closed")                                                                    \
    X(TAB_FOCUSED, "tab.focused")                                                                  \
    X(TAB_RENAMED, "tab.renamed")                                                                  \
    X(TAB_MOVED, "tab.moved")                                                                      \
    X(PANE_CREATED, "pane.created")                                                                \
    X(PANE_UPDATED, "pane.updated")                                                                \
    X(PANE_CLOSED, "pane.closed")                                                                  \
    X(PANE_FOCUSED, "pane.focused")                                                                \
    X(PANE_MOVED, "pane.moved")                                                                    \
    X(PANE_EXITED, "pane.exited")                                                                  \
    X(PANE_AGENT_DETECTED, "pane.agent_detected")                                                  \
    X(LAYOUT_UPDATED, "layout.updated")                                                            \
    X(PANE_AGENT_STATUS_CHANGED, "pane.agent_status_changed")

enum event_kind {
#define X(name, text) EVENT_##name,
    EVENT_KINDS(X)
#undef X
        EVENT_KIND_COUNT
};

struct event {
    enum event_kind kind;
    cJSON *data;          /* without "type" */
    char terminal_id[48]; /* of pane events; "" otherwise */
};

struct ring {
    struct event slot[EVENT_RING_MAX];
    uint64_t next; /* index the next event gets; the oldest kept one is ring_first() */
};

uint64_t ring_first(const struct ring *r);
const struct event *ring_at(const struct ring *r, uint64_t index);
/* Takes data. pane may be NULL. */
void events_emit(struct sim *sim, enum event_kind kind, const struct pane *pane, cJSON *data);
void ring_fini(struct ring *r);
/* Lifecycle envelope {"event","data":{"type",...}}; caller deletes. */
cJSON *event_envelope(const struct event *e);

struct subscription;
/*
 * Entries from an events.subscribe params array that already passed the parameter tables. NULL on
 * a bad entry, with *code and *message (borrowed constants) set.
 */
struct subscription *subscription_new(struct sim *sim, const cJSON *entries, const char **code,
                                      const char **message);
void subscription_free(struct subscription *s);
/*
 * One poll: appends the lines that are due, each with its newline. Returns false when the stream
 * is to end after these lines (events were lost and the switch says so).
 */
bool subscription_poll(struct sim *sim, struct subscription *s, const char *request_id,
                       struct str *out);

#endif
