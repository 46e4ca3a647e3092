#include "controller/json.h"

#include <stdlib.h>
#include <string.h>

#include "controller/xalloc.h"

const char *json_string(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

bool json_bool(const cJSON *object, const char *name)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, name));
}

double json_number(const cJSON *object, const char *name, double otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}

const cJSON *json_find(const cJSON *array, const char *name, const char *value)
{
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, array)
    {
        const char *own = json_string(item, name);
        if (own && value && strcmp(own, value) == 0)
            return item;
    }
    return NULL;
}

void json_add(cJSON *object, const char *name, const char *text)
{
    if (text)
        cJSON_AddStringToObject(object, name, text);
}

char *json_print(const cJSON *object)
{
    if (!object)
        return xstrdup("{}");
    char *text = cJSON_PrintUnformatted(object);
    /* Only for want of memory; an empty object in its place would be told as a result. */
    if (!text)
        xalloc_failed();
    return text;
}

cJSON *json_parse(const char *text, size_t len)
{
    const char *end = NULL;
    cJSON *value = cJSON_ParseWithLengthOpts(text, len, &end, 0);
    if (!value)
        return NULL;
    while (end < text + len && *end && strchr(" \t\r\n", *end))
        end++;
    if (end == text + len)
        return value;
    cJSON_Delete(value);
    return NULL;
}

cJSON *json_parse_object(const char *text, size_t len)
{
    cJSON *value = json_parse(text, len);
    if (value && !cJSON_IsObject(value)) {
        cJSON_Delete(value);
        return NULL;
    }
    return value;
}
