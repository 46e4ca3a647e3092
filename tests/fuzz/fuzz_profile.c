/* Fuzz target: the bytes of a profile.json. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "controller/profiles/profile_internal.h"
#include "controller/profiles/text.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_line(const char *text, size_t max)
{
    require(!shp_text_is_blank(text) && strlen(text) <= max &&
            shp_text_is_line(text, strlen(text)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct shp_profile profile;
    struct shp_error error = {0};
    int err = shp_profile_parse(&profile, "mine", "/profiles/mine", "/profiles/mine/profile.json",
                                (const char *)data, size, &error);
    if (err != 0) {
        require(error.code != 0 && error.cause[0] != '\0');
        return 0;
    }
    check_line(profile.description, SHP_PROFILE_DESCRIPTION_BYTES_MAX);
    check_line(profile.model, SHP_PROFILE_VALUE_BYTES_MAX);
    check_line(profile.thinking, SHP_PROFILE_VALUE_BYTES_MAX);
    require(profile.args_len <= SHP_PROFILE_ARGS_MAX);
    for (size_t i = 0; i < profile.args_len; i++)
        check_line(profile.args[i], SHP_PROFILE_ARG_BYTES_MAX);
    if (profile.prompt_path != NULL)
        require(strncmp(profile.prompt_path, "/profiles/mine/", 15) == 0);
    if (profile.prepare_path != NULL)
        require(strncmp(profile.prepare_path, "/profiles/mine/", 15) == 0);
    shp_profile_fini(&profile);
    return 0;
}
