/* The split tree of one tab: rectangles of panes and splits inside the 120x40 screen. */
#ifndef HERDR_SIM_LAYOUT_H
#define HERDR_SIM_LAYOUT_H

#include "model.h"

struct layout *layout_leaf(struct pane *pane);
/* Puts fresh beside (right) or below (down) target; ratio is target's share. */
void layout_split(struct tab *tab, struct pane *target, struct pane *fresh, bool down,
                  double ratio);
void layout_remove(struct tab *tab, const struct pane *pane);
/* A split of two finished subtrees; takes both. */
struct layout *layout_join(struct tab *tab, bool down, double ratio, struct layout *first,
                           struct layout *second);
void layout_free(struct layout *l);
/* The parts of a node: its pane, or NULL and the split's fields. */
struct pane *layout_node(const struct layout *l, bool *down, double *ratio,
                         const struct layout **first, const struct layout **second);
/* PaneLayoutSnapshot; caller deletes. */
cJSON *layout_json(const struct tab *tab);

#endif
