/* Short forms over cJSON for objects that were checked or are read leniently. */
#ifndef SHP_CONTROLLER_JSON_H
#define SHP_CONTROLLER_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <cjson/cJSON.h>

/* String member, borrowed, or NULL when absent or of another type. */
const char *json_string(const cJSON *object, const char *name);
bool json_bool(const cJSON *object, const char *name);
double json_number(const cJSON *object, const char *name, double otherwise);

/* First object of array whose string member name is value; borrowed, or NULL. */
const cJSON *json_find(const cJSON *array, const char *name, const char *value);

/* Add a string member; a NULL text adds nothing. */
void json_add(cJSON *object, const char *name, const char *text);

/* Compact text, malloc'ed. Never NULL (running out of memory ends the program). */
char *json_print(const cJSON *object);

/* Parse one value that takes all of len bytes, white space apart; NULL when it is none. */
cJSON *json_parse(const char *text, size_t len);

/* Parse an object of len bytes; NULL when it is none. */
cJSON *json_parse_object(const char *text, size_t len);

#endif
