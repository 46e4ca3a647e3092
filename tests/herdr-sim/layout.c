#include "layout.h"

#include "util.h"

#include <stdio.h>
#include <stdlib.h>

struct layout {
    struct pane *pane; /* leaf, or NULL for a split */
    struct layout *first, *second;
    bool down;
    double ratio;
    uint64_t id;
};

struct rect {
    int x, y, w, h;
};

struct layout *layout_leaf(struct pane *pane)
{
    struct layout *l = sim_alloc(sizeof *l);
    l->pane = pane;
    return l;
}

static struct layout **find(struct layout **at, const struct pane *pane)
{
    if (!*at || (*at)->pane)
        return *at && (*at)->pane == pane ? at : NULL;
    struct layout **hit = find(&(*at)->first, pane);
    return hit ? hit : find(&(*at)->second, pane);
}

void layout_split(struct tab *tab, struct pane *target, struct pane *fresh, bool down, double ratio)
{
    struct layout **at = find(&tab->layout, target);
    struct layout *split = sim_alloc(sizeof *split);
    split->first = *at;
    split->second = layout_leaf(fresh);
    split->down = down;
    split->ratio = ratio;
    split->id = ++tab->next_split;
    *at = split;
}

struct layout *layout_join(struct tab *tab, bool down, double ratio, struct layout *first,
                           struct layout *second)
{
    struct layout *l = sim_alloc(sizeof *l);
    l->first = first;
    l->second = second;
    l->down = down;
    l->ratio = ratio;
    l->id = ++tab->next_split;
    return l;
}

struct pane *layout_node(const struct layout *l, bool *down, double *ratio,
                         const struct layout **first, const struct layout **second)
{
    *down = l->down;
    *ratio = l->ratio;
    *first = l->first;
    *second = l->second;
    return l->pane;
}

static bool remove_from(struct layout **at, const struct pane *pane)
{
    struct layout *l = *at;
    if (!l || l->pane)
        return false;
    struct layout **gone = l->first->pane == pane    ? &l->first
                           : l->second->pane == pane ? &l->second
                                                     : NULL;
    if (!gone)
        return remove_from(&l->first, pane) || remove_from(&l->second, pane);
    *at = gone == &l->first ? l->second : l->first;
    free(*gone);
    free(l);
    return true;
}

void layout_remove(struct tab *tab, const struct pane *pane)
{
    if (tab->layout && tab->layout->pane == pane) {
        free(tab->layout);
        tab->layout = NULL;
        return;
    }
    remove_from(&tab->layout, pane);
}

void layout_free(struct layout *l)
{
    if (!l)
        return;
    layout_free(l->first);
    layout_free(l->second);
    free(l);
}

static cJSON *rect_json(struct rect r)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddNumberToObject(j, "x", r.x);
    cJSON_AddNumberToObject(j, "y", r.y);
    cJSON_AddNumberToObject(j, "width", r.w);
    cJSON_AddNumberToObject(j, "height", r.h);
    return j;
}

static void walk(const struct layout *l, const struct tab *tab, struct rect r, cJSON *panes,
                 cJSON *splits)
{
    if (!l)
        return;
    cJSON *j = cJSON_CreateObject();
    if (l->pane) {
        cJSON_AddStringToObject(j, "pane_id", l->pane->id);
        cJSON_AddBoolToObject(j, "focused", tab->focused == l->pane);
        cJSON_AddItemToObject(j, "rect", rect_json(r));
        cJSON_AddItemToArray(panes, j);
        return;
    }
    char id[48];
    snprintf(id, sizeof id, "split_%llu", (unsigned long long)l->id);
    cJSON_AddStringToObject(j, "id", id);
    cJSON_AddStringToObject(j, "direction", l->down ? "down" : "right");
    cJSON_AddNumberToObject(j, "ratio", l->ratio);
    cJSON_AddItemToObject(j, "rect", rect_json(r));
    cJSON_AddItemToArray(splits, j);
    struct rect a = r, b = r;
    if (l->down) {
        a.h = (int)((double)r.h * l->ratio);
        b.y = r.y + a.h;
        b.h = r.h - a.h;
    } else {
        a.w = (int)((double)r.w * l->ratio);
        b.x = r.x + a.w;
        b.w = r.w - a.w;
    }
    walk(l->first, tab, a, panes, splits);
    walk(l->second, tab, b, panes, splits);
}

cJSON *layout_json(const struct tab *tab)
{
    struct rect area = {0, 0, PANE_COLS, PANE_ROWS};
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "workspace_id", tab->ws->id);
    cJSON_AddStringToObject(j, "tab_id", tab->id);
    cJSON_AddBoolToObject(j, "zoomed", false);
    cJSON_AddItemToObject(j, "area", rect_json(area));
    cJSON_AddStringToObject(j, "focused_pane_id", tab->focused ? tab->focused->id : "");
    cJSON *panes = cJSON_AddArrayToObject(j, "panes");
    cJSON *splits = cJSON_AddArrayToObject(j, "splits");
    walk(tab->layout, tab, area, panes, splits);
    return j;
}
