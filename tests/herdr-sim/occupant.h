/* The agent a wait was made for: any change of it ends the wait with agent_not_running. */
#ifndef HERDR_SIM_OCCUPANT_H
#define HERDR_SIM_OCCUPANT_H

#include "sim.h"

#define STATUS_SETTLED "idle|done|blocked"

struct occupant {
    char pane_id[ID_BYTES];
    char terminal_id[ID_BYTES];
    char kind[AGENT_LABEL_BYTES];
    char name[AGENT_NAME_BYTES]; /* "" when it was addressed by pane id */
    uint64_t cursor;             /* events looked at so far */
};

void occupant_pin(struct occupant *o, const struct sim *sim, const struct pane *pane,
                  const char *target);
/* The pinned pane, or NULL when the occupant is gone. */
struct pane *occupant_pane(const struct occupant *o, const struct sim *sim);
/*
 * Next status event of the occupant not looked at yet; NULL when there is none. *gone is set when
 * a release came first.
 */
const char *occupant_next_status(struct occupant *o, const struct sim *sim, bool *gone);

#endif
