/* Model objects as Herdr's JSON objects. Every function returns a fresh object; caller deletes. */
#ifndef HERDR_SIM_PRESENT_H
#define HERDR_SIM_PRESENT_H

#include "sim.h"

cJSON *present_workspace(const struct sim *sim, const struct workspace *ws);
cJSON *present_tab(const struct sim *sim, const struct tab *tab);
cJSON *present_pane(const struct sim *sim, const struct pane *pane);
cJSON *present_agent(const struct sim *sim, const struct pane *pane);
cJSON *present_workspaces(const struct sim *sim);
/* ws NULL: of every workspace. */
cJSON *present_tabs(const struct sim *sim, const struct workspace *ws);
cJSON *present_panes(const struct sim *sim, const struct workspace *ws);
cJSON *present_agents(const struct sim *sim);
cJSON *present_snapshot(const struct sim *sim);
/* {"pane_id","workspace_id"}: the base of most pane events. */
cJSON *present_pane_ref(const struct pane *pane);
/* The title without the spinner or symbol that programs put in front of it; points into title. */
const char *title_stripped(const char *title);
/* Data of a status event; `done` included. */
cJSON *present_status(const struct pane *pane);

#endif
