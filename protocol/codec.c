#include "protocol/codec.h"

#include "protocol/json_check.h"

#include <string.h>

int shp_codec_parse(cJSON **out, const char *json, size_t len)
{
    if (len > SHP_LIMIT_HEAD_JSON_BYTES_MAX ||
        shp_json_check_object(json, len, SHP_LIMIT_JSON_DEPTH_MAX) != SHP_OK ||
        shp_json_has_nul(json, len))
        return SHP_ERR_INVALID;
    /* The text is well-formed, so only memory can be missing. */
    cJSON *object = cJSON_ParseWithLength(json, len);
    if (!object)
        return SHP_ERR_NOMEM;
    *out = object;
    return SHP_OK;
}

int shp_codec_print(char **out, size_t *len, const cJSON *object)
{
    char *text = cJSON_PrintUnformatted(object);
    if (!text)
        return SHP_ERR_NOMEM;
    size_t text_len = strlen(text);
    if (text_len > SHP_LIMIT_HEAD_JSON_BYTES_MAX) {
        cJSON_free(text);
        return SHP_ERR_LIMIT;
    }
    *out = text;
    *len = text_len;
    return SHP_OK;
}

static bool is_one_of(const char *const *values, const char *text)
{
    for (; *values; values++)
        if (strcmp(*values, text) == 0)
            return true;
    return false;
}

static bool fits(const struct shp_field *field, const cJSON *item)
{
    switch (field->type) {
    case SHP_FIELD_STRING:
        return cJSON_IsString(item) && strlen(item->valuestring) <= (size_t)field->max;
    case SHP_FIELD_INT:
        return cJSON_IsNumber(item) && item->valuedouble >= (double)field->min &&
               item->valuedouble <= (double)field->max &&
               (double)(int64_t)item->valuedouble == item->valuedouble;
    case SHP_FIELD_BOOL:
        return cJSON_IsBool(item);
    case SHP_FIELD_ENUM:
        return cJSON_IsString(item) && is_one_of(field->values, item->valuestring);
    case SHP_FIELD_OBJECT:
        return cJSON_IsObject(item);
    case SHP_FIELD_ARRAY:
        return cJSON_IsArray(item) && cJSON_GetArraySize(item) <= (int)field->max;
    }
    return false;
}

static const struct shp_field *find_field(const struct shp_fields *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->fields[i].name, name) == 0)
            return &table->fields[i];
    return NULL;
}

static const cJSON *first_of_name(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static int refuse(char *field, size_t field_size, const char *name)
{
    if (field)
        shp_text_clean(field, field_size, name, strlen(name));
    return SHP_ERR_INVALID;
}

int shp_codec_check_fields(const struct shp_fields *table, const cJSON *object, bool strict,
                           char *field, size_t field_size)
{
    const cJSON *item;
    if (!cJSON_IsObject(object))
        return refuse(field, field_size, "");
    cJSON_ArrayForEach(item, object)
    {
        const struct shp_field *known = find_field(table, item->string);
        if (!known && !strict)
            continue;
        if (!known || first_of_name(object, item->string) != item || !fits(known, item))
            return refuse(field, field_size, item->string);
    }
    for (size_t i = 0; i < table->count; i++)
        if (!table->fields[i].optional && !first_of_name(object, table->fields[i].name))
            return refuse(field, field_size, table->fields[i].name);
    return SHP_OK;
}

int shp_codec_check_params(uint16_t message, const cJSON *object, char *field, size_t field_size)
{
    const struct shp_message_info *info = shp_message_find(message);
    if (!info)
        return SHP_ERR_NOT_FOUND;
    return shp_codec_check_fields(&info->params, object, true, field, field_size);
}

int shp_codec_check_result(uint16_t message, const cJSON *object, char *field, size_t field_size)
{
    const struct shp_message_info *info = shp_message_find(message);
    if (!info)
        return SHP_ERR_NOT_FOUND;
    return shp_codec_check_fields(&info->result, object, false, field, field_size);
}

int shp_codec_check_payload(int service, const cJSON *object, char *field, size_t field_size)
{
    const struct shp_service_info *info = shp_service_get(service);
    if (!info)
        return SHP_ERR_NOT_FOUND;
    return shp_codec_check_fields(&info->payload, object, true, field, field_size);
}

int shp_codec_check_answer(int service, const cJSON *object, char *field, size_t field_size)
{
    const struct shp_service_info *info = shp_service_get(service);
    if (!info)
        return SHP_ERR_NOT_FOUND;
    return shp_codec_check_fields(&info->answer, object, false, field, field_size);
}

const char *shp_codec_string(const cJSON *object, const char *name, const char *fallback)
{
    const cJSON *item = first_of_name(object, name);
    return cJSON_IsString(item) ? item->valuestring : fallback;
}

int64_t shp_codec_int(const cJSON *object, const char *name, int64_t fallback)
{
    /* Every bound in the tables is a safe integer, so the conversion is exact. */
    const double safe_max = 9007199254740991.0;
    const cJSON *item = first_of_name(object, name);
    if (!cJSON_IsNumber(item) || !(item->valuedouble <= safe_max && item->valuedouble >= -safe_max))
        return fallback;
    return (int64_t)item->valuedouble;
}

bool shp_codec_bool(const cJSON *object, const char *name, bool fallback)
{
    const cJSON *item = first_of_name(object, name);
    return cJSON_IsBool(item) ? cJSON_IsTrue(item) : fallback;
}

static void put_member(char *out, size_t *used, const char *name, const char *value)
{
    if (value[0] == '\0')
        return;
    shp_json_put_raw(out, SHP_CODEC_ERROR_JSON_MAX, used, *used > 1 ? "," : "");
    shp_json_put_string(out, SHP_CODEC_ERROR_JSON_MAX, used, name);
    shp_json_put_raw(out, SHP_CODEC_ERROR_JSON_MAX, used, ":");
    shp_json_put_string(out, SHP_CODEC_ERROR_JSON_MAX, used, value);
}

size_t shp_codec_error_print(char out[SHP_CODEC_ERROR_JSON_MAX], const struct shp_error *error)
{
    size_t used = 0;
    /* Worst case: every byte of the three texts is a tab and becomes six. */
    _Static_assert(6 * (SHP_ERROR_CAUSE_MAX + SHP_ERROR_STEP_MAX + SHP_ERROR_MACHINE_MAX) + 800 <
                       SHP_CODEC_ERROR_JSON_MAX,
                   "an error always fits");
    shp_json_put_raw(out, SHP_CODEC_ERROR_JSON_MAX, &used, "{");
    put_member(out, &used, "code", shp_code_name(error->code));
    put_member(out, &used, "message", shp_code_doc(error->code));
    put_member(out, &used, "step", error->step);
    put_member(out, &used, "cause", error->cause);
    put_member(out, &used, "machine", error->machine);
    put_member(out, &used, "next", shp_code_next(error->code));
    put_member(out, &used, "outcome",
               error->outcome == SHP_OUTCOME_REJECTED ? "rejected" : "unknown");
    shp_json_put_raw(out, SHP_CODEC_ERROR_JSON_MAX, &used, "}");
    out[used] = '\0';
    return used;
}

void shp_codec_error_parse(struct shp_error *error, int code, const char *json, size_t len)
{
    cJSON *object = NULL;
    if (shp_codec_parse(&object, json, len) != SHP_OK) {
        shp_error_set(error, code, NULL, NULL, NULL);
        error->outcome = SHP_OUTCOME_UNKNOWN;
        return;
    }
    shp_error_set(error, code, shp_codec_string(object, "machine", NULL),
                  shp_codec_string(object, "step", NULL), "%s",
                  shp_codec_string(object, "cause", ""));
    if (strcmp(shp_codec_string(object, "outcome", ""), "rejected") != 0)
        error->outcome = SHP_OUTCOME_UNKNOWN;
    cJSON_Delete(object);
}
