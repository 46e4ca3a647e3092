#include "occupant.h"

#include "params.h"

#include <stdio.h>
#include <string.h>

void occupant_pin(struct occupant *o, const struct sim *sim, const struct pane *pane,
                  const char *target)
{
    memset(o, 0, sizeof *o);
    snprintf(o->pane_id, sizeof o->pane_id, "%s", pane->id);
    snprintf(o->terminal_id, sizeof o->terminal_id, "%s", pane->terminal_id);
    snprintf(o->kind, sizeof o->kind, "%s", pane->agent.kind);
    if (strcmp(target, pane->id) != 0)
        snprintf(o->name, sizeof o->name, "%s", target);
    o->cursor = sim->ring.next;
}

struct pane *occupant_pane(const struct occupant *o, const struct sim *sim)
{
    struct pane *pane = model_pane(&sim->model, o->pane_id);
    if (!pane || strcmp(pane->terminal_id, o->terminal_id) != 0 || !agent_present(&pane->agent))
        return NULL;
    /* A launch that is only now recognised gets its kind during the wait. */
    if (o->kind[0] && strcmp(o->kind, pane->agent.kind) != 0)
        return NULL;
    if (o->name[0] && strcmp(o->name, pane->agent.name) != 0)
        return NULL;
    return pane;
}

const char *occupant_next_status(struct occupant *o, const struct sim *sim, bool *gone)
{
    if (o->cursor < ring_first(&sim->ring))
        o->cursor = ring_first(&sim->ring);
    while (o->cursor < sim->ring.next) {
        const struct event *e = ring_at(&sim->ring, o->cursor++);
        if (strcmp(e->terminal_id, o->terminal_id) != 0)
            continue;
        if (e->kind == EVENT_PANE_AGENT_DETECTED && param_item(e->data, "released")) {
            *gone = true;
            return NULL;
        }
        if (e->kind == EVENT_PANE_AGENT_STATUS_CHANGED)
            return param_text(e->data, "agent_status");
    }
    return NULL;
}
