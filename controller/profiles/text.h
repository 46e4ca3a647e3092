/*
 * What a short text may be that ends up in a title, an argument of a program, or a line that a
 * model reads.
 */
#ifndef SHP_CONTROLLER_PROFILES_TEXT_H
#define SHP_CONTROLLER_PROFILES_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

/* Valid UTF-8 without control characters (C0 with tab and newline, DEL, C1). */
bool shp_text_is_line(const char *text, size_t len);
/* Nothing but ASCII white space; the empty text too. */
bool shp_text_is_blank(const char *text);
/* The first name that occurs twice in the object, or NULL. Borrowed. For objects of a few members:
 * the time grows with the square of their number. */
const char *shp_json_duplicate(const cJSON *object);

#endif
