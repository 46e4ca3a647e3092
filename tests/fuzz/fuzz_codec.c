/* JSON of a peer: what the strict check takes, the parser takes too, and every table can be asked
 * about it.
 *
 * input: the text. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "protocol/codec.h"
#include "protocol/json_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tables(const cJSON *object)
{
    char field[32];
    for (unsigned id = 256; id < 320; id++) {
        int err = shp_codec_check_params((uint16_t)id, object, field, sizeof(field));
        assert(err == SHP_OK || err == SHP_ERR_INVALID || err == SHP_ERR_NOT_FOUND);
        (void)shp_codec_check_result((uint16_t)id, object, field, sizeof(field));
    }
    for (int service = 0; service < SHP_SERVICE_COUNT; service++) {
        (void)shp_codec_check_payload(service, object, field, sizeof(field));
        (void)shp_codec_check_answer(service, object, field, sizeof(field));
    }
    (void)shp_codec_int(object, "size", 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *json = (const char *)data;
    cJSON *object = NULL;
    struct shp_error error;
    char printed[SHP_CODEC_ERROR_JSON_MAX];
    bool valid = size <= SHP_LIMIT_HEAD_JSON_BYTES_MAX &&
                 shp_json_check_object(json, size, SHP_LIMIT_JSON_DEPTH_MAX) == SHP_OK;
    int err = shp_codec_parse(&object, json, size);
    assert((err == SHP_OK) == (valid && !shp_json_has_nul(json, size)));
    if (err == SHP_OK) {
        assert(cJSON_IsObject(object));
        check_tables(object);
        cJSON_Delete(object);
    }

    shp_codec_error_parse(&error, SHP_CODE_HERDR_ERROR, json, size);
    size_t len = shp_codec_error_print(printed, &error);
    assert(len < sizeof(printed) && shp_json_check_object(printed, len, 1) == SHP_OK);
    struct shp_error back;
    shp_codec_error_parse(&back, error.code, printed, len);
    assert(strcmp(back.cause, error.cause) == 0 && strcmp(back.step, error.step) == 0);
    return 0;
}
