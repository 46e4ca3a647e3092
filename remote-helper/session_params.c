#include "remote-helper/session_params.h"

#include <string.h>

#include "base/error.h"
#include "protocol/codec.h"
#include "protocol/messages.h"

/* All of that name go: readers differ in whether the first or the last of two counts. */
static int set_string(cJSON *object, const char *name, const char *value)
{
    while (cJSON_GetObjectItemCaseSensitive(object, name) != NULL)
        cJSON_DeleteItemFromObjectCaseSensitive(object, name);
    return cJSON_AddStringToObject(object, name, value) != NULL ? 0 : SHP_ERR_NOMEM;
}

int session_params_outbound(char **out, cJSON *params, const char *host, const char *installation)
{
    size_t len;
    cJSON *from = cJSON_GetObjectItemCaseSensitive(params, "from");
    cJSON_DeleteItemFromObjectCaseSensitive(params, "to");
    int status = set_string(from, "host", host);
    if (status == 0)
        status = set_string(from, "installation", installation);
    return status != 0 ? status : shp_codec_print(out, &len, params);
}

int session_params_inbound(char **out, const char *json, const char *pi_session_id,
                           const char *host, char *field, size_t field_size)
{
    size_t len;
    cJSON *params = NULL;
    int status = shp_codec_parse(&params, json, strlen(json));
    if (status == 0)
        status = shp_codec_check_params(SHP_MSG_SESSION_REQUEST, params, field, field_size);
    if (status == 0) {
        cJSON *from = cJSON_GetObjectItemCaseSensitive(params, "from");
        status = set_string(from, "host", host);
        if (status == 0)
            status = set_string(from, "pi_session_id", pi_session_id);
    }
    if (status == 0)
        status = shp_codec_print(out, &len, params);
    cJSON_Delete(params);
    return status;
}
