#include "controller/profiles/profile_internal.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/utf8.h"
#include "controller/profiles/text.h"
#include "protocol/messages.h"

/* Members that an object may have at all; known keys are fewer. */
#define MEMBERS_MAX 64

struct parse {
    const char *path;
    struct shp_error *error;
};

static int invalid(const struct parse *parse, const char *key, const char *what)
{
    if (key != NULL)
        shp_error_set(parse->error, SHP_CODE_PROFILE_INVALID, NULL, "read profiles",
                      "%s: \"%s\" %s", parse->path, key, what);
    else
        shp_error_set(parse->error, SHP_CODE_PROFILE_INVALID, NULL, "read profiles", "%s: %s",
                      parse->path, what);
    return SHP_ERR_INVALID;
}

static int no_memory(const struct parse *parse)
{
    shp_error_set(parse->error, SHP_CODE_OUT_OF_MEMORY, NULL, "read profiles", "%s: no memory",
                  parse->path);
    return SHP_ERR_NOMEM;
}

/* cJSON ends a string at an escaped NUL, so what follows would vanish silently. */
static bool escaped_nul(const char *text, size_t len)
{
    for (size_t i = 0; i + 1 < len; i++) {
        if (text[i] != '\\')
            continue;
        if (len - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0)
            return true;
        i++;
    }
    return false;
}

static int line(const struct parse *parse, const cJSON *item, const char *key, size_t bytes_max,
                char **out)
{
    char what[96];
    if (!cJSON_IsString(item) || shp_text_is_blank(item->valuestring))
        return invalid(parse, key, "must be a non-empty string");
    size_t len = strlen(item->valuestring);
    if (len > bytes_max) {
        snprintf(what, sizeof what, "has more than %zu bytes", bytes_max);
        return invalid(parse, key, what);
    }
    if (!shp_text_is_line(item->valuestring, len))
        return invalid(parse, key, "has control characters");
    *out = strdup(item->valuestring);
    return *out != NULL ? 0 : no_memory(parse);
}

static int relative_path(const struct parse *parse, const cJSON *item, const char *key,
                         const char *directory, char **out)
{
    char *relative = NULL;
    int err = line(parse, item, key, SHP_PROFILE_PATH_MAX / 2, &relative);
    if (err != 0)
        return err;
    size_t size = strlen(directory) + strlen(relative) + 2;
    if (relative[0] == '/')
        err = invalid(parse, key, "must be a path relative to the profile's directory");
    else if (size > SHP_PROFILE_PATH_MAX)
        err = invalid(parse, key, "makes a path that is too long");
    else if ((*out = malloc(size)) == NULL)
        err = no_memory(parse);
    else
        snprintf(*out, size, "%s/%s", directory, relative);
    free(relative);
    return err;
}

static int accepts(const struct parse *parse, const cJSON *item, struct shp_profile *profile)
{
    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) > SHP_PROFILE_ACCEPTS_MAX)
        return invalid(parse, "accepts", "must be a list of at most 16 non-empty strings");
    const cJSON *entry;
    cJSON_ArrayForEach(entry, item)
    {
        char *text = NULL;
        int err = line(parse, entry, "accepts", SHP_PROFILE_VALUE_BYTES_MAX, &text);
        if (err != 0)
            return err;
        /* Other capabilities belong to other versions. */
        if (strcmp(text, "base") == 0)
            profile->accepts_base = true;
        free(text);
    }
    return 0;
}

static int pi_args(const struct parse *parse, const cJSON *item, struct shp_profile *profile)
{
    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) > SHP_PROFILE_ARGS_MAX)
        return invalid(parse, "pi_args", "must be a list of at most 64 non-empty strings");
    int count = cJSON_GetArraySize(item);
    if (count == 0)
        return 0;
    profile->args = calloc((size_t)count, sizeof *profile->args);
    if (profile->args == NULL)
        return no_memory(parse);
    const cJSON *entry;
    cJSON_ArrayForEach(entry, item)
    {
        int err = line(parse, entry, "pi_args", SHP_PROFILE_ARG_BYTES_MAX,
                       &profile->args[profile->args_len]);
        if (err != 0)
            return err;
        profile->args_len++;
    }
    return 0;
}

static int policy(const struct parse *parse, const cJSON *item, const char *key,
                  enum shp_tristate *out)
{
    if (!cJSON_IsBool(item))
        return invalid(parse, key, "must be true or false");
    *out = cJSON_IsTrue(item) ? SHP_TRUE : SHP_FALSE;
    return 0;
}

static int member(const struct parse *parse, const cJSON *item, const char *directory,
                  struct shp_profile *profile)
{
    const char *key = item->string;
    if (strcmp(key, "description") == 0)
        return line(parse, item, key, SHP_PROFILE_DESCRIPTION_BYTES_MAX, &profile->description);
    if (strcmp(key, "model") == 0)
        return line(parse, item, key, SHP_PROFILE_VALUE_BYTES_MAX, &profile->model);
    if (strcmp(key, "thinking") == 0)
        return line(parse, item, key, SHP_PROFILE_VALUE_BYTES_MAX, &profile->thinking);
    if (strcmp(key, "prompt") == 0)
        return relative_path(parse, item, key, directory, &profile->prompt_path);
    if (strcmp(key, "prepare") == 0)
        return relative_path(parse, item, key, directory, &profile->prepare_path);
    if (strcmp(key, "accepts") == 0)
        return accepts(parse, item, profile);
    if (strcmp(key, "pi_args") == 0)
        return pi_args(parse, item, profile);
    if (strcmp(key, "blocking") == 0)
        return policy(parse, item, key, &profile->blocking);
    if (strcmp(key, "share_context") == 0)
        return policy(parse, item, key, &profile->share_context);
    return invalid(parse, key, "is no key of a profile");
}

int shp_profile_parse(struct shp_profile *out, const char *name, const char *directory,
                      const char *path, const char *text, size_t len, struct shp_error *error)
{
    const struct parse parse = {path, error};
    if (!shp_profile_name_valid(name))
        return invalid(&parse, NULL, "the profile's name is not valid");
    if (memchr(text, '\0', len) != NULL || !shp_utf8_valid((const uint8_t *)text, len))
        return invalid(&parse, NULL, "it is not UTF-8 text");
    if (escaped_nul(text, len))
        return invalid(&parse, NULL, "it holds a NUL character");
    /* cJSON sees that nothing follows the value by the NUL behind it. */
    char *copy = malloc(len + 1);
    if (copy == NULL)
        return no_memory(&parse);
    memcpy(copy, text, len);
    copy[len] = '\0';
    cJSON *root = cJSON_ParseWithLengthOpts(copy, len + 1, NULL, 1);
    free(copy);
    struct shp_profile profile = {.blocking = SHP_UNSET, .share_context = SHP_UNSET};
    snprintf(profile.name, sizeof profile.name, "%s", name);
    int err = 0;
    if (root == NULL)
        err = invalid(&parse, NULL, "it is not JSON");
    else if (!cJSON_IsObject(root))
        err = invalid(&parse, NULL, "it is not a JSON object");
    else if (cJSON_GetArraySize(root) > MEMBERS_MAX)
        err = invalid(&parse, NULL, "it has too many keys");
    const char *twice = err == 0 ? shp_json_duplicate(root) : NULL;
    if (twice != NULL)
        err = invalid(&parse, twice, "is given twice");
    for (const cJSON *item = err == 0 ? root->child : NULL; err == 0 && item != NULL;
         item = item->next)
        err = member(&parse, item, directory, &profile);
    if (err == 0 && profile.description == NULL)
        err = invalid(&parse, "description", "is missing");
    if (err == 0 && profile.model == NULL)
        err = invalid(&parse, "model", "is missing");
    if (err == 0 && profile.thinking == NULL)
        err = invalid(&parse, "thinking", "is missing");
    cJSON_Delete(root);
    if (err != 0)
        shp_profile_fini(&profile);
    else
        *out = profile;
    return err;
}

void shp_profile_fini(struct shp_profile *profile)
{
    free(profile->description);
    free(profile->model);
    free(profile->thinking);
    free(profile->prompt_path);
    free(profile->prepare_path);
    for (size_t i = 0; i < profile->args_len; i++)
        free(profile->args[i]);
    free(profile->args);
    memset(profile, 0, sizeof *profile);
}
