#include "reading.h"

#include <string.h>

static enum screen_source source_of(const char *name)
{
    if (!strcmp(name, "visible"))
        return SCREEN_VISIBLE;
    if (!strcmp(name, "recent"))
        return SCREEN_RECENT;
    if (!strcmp(name, "recent_unwrapped"))
        return SCREEN_RECENT_UNWRAPPED;
    return SCREEN_DETECTION;
}

cJSON *read_pane(const struct pane *pane, const char *source, const uint64_t *lines,
                 const char *format)
{
    enum screen_source src = source_of(source);
    bool recent = src == SCREEN_RECENT || src == SCREEN_RECENT_UNWRAPPED;
    size_t n = recent ? READ_LINES_STANDARD : 0;
    if (lines)
        n = *lines > READ_LINES_MAX ? READ_LINES_MAX : *lines < 1 ? 1 : (size_t)*lines;
    struct str text = {0};
    bool truncated = screen_text(pane->screen, src, n, &text);
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "pane_id", pane->id);
    cJSON_AddStringToObject(j, "workspace_id", pane->tab->ws->id);
    cJSON_AddStringToObject(j, "tab_id", pane->tab->id);
    cJSON_AddStringToObject(j, "source", source);
    cJSON_AddStringToObject(j, "format", format ? format : "text");
    cJSON_AddStringToObject(j, "text", str_text(&text));
    cJSON_AddNumberToObject(j, "revision", 0);
    cJSON_AddBoolToObject(j, "truncated", truncated);
    str_free(&text);
    return j;
}
