#include "controller/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cjson/cJSON.h>

#include "controller/json.h"
#include "controller/xalloc.h"
#include "installer/artifact.h"
#include "installer/bootstrap.h"
#include "protocol/messages.h"

static int invalid(struct shp_error *error, const char *machine, const char *path, const char *why)
{
    shp_error_set(error, SHP_CODE_SETTINGS_INVALID, machine, "read settings", "%s: %s", path, why);
    return SHP_ERR_INVALID;
}

static int read_dir(char **dir, const char *text, size_t len, const char *machine, const char *path,
                    struct shp_error *error)
{
    cJSON *settings = json_parse_object(text, len);
    const cJSON *dirs = cJSON_GetObjectItemCaseSensitive(settings, "helperDir");
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(dirs, machine);
    int rc = SHP_OK;
    if (!settings)
        rc = invalid(error, machine, path, "not a JSON object");
    else if (dirs && !cJSON_IsObject(dirs))
        rc = invalid(error, machine, path, "helperDir is not an object of machine id to directory");
    else if (item && (!cJSON_IsString(item) || !shp_bootstrap_directory_valid(item->valuestring)))
        rc = invalid(
            error, machine, path,
            "helperDir of this machine is not an absolute path of letters, digits and /._-");
    else if (item)
        *dir = xstrdup(item->valuestring);
    cJSON_Delete(settings);
    return rc;
}

int settings_helper_dir(char **dir, const char *agent_dir, const char *machine,
                        struct shp_error *error)
{
    char *path = xasprintf("%s/" SETTINGS_FILE_NAME, agent_dir);
    struct stat info;
    size_t len = 0;
    char *text = NULL;
    int rc = SHP_OK;
    *dir = NULL;
    if (stat(path, &info) != 0)
        rc = errno == ENOENT ? SHP_OK : invalid(error, machine, path, strerror(errno));
    else if (info.st_size > 0 &&
             !(text = (char *)shp_artifact_read(path, SETTINGS_BYTES_MAX, &len)))
        rc = invalid(error, machine, path, "larger than 64 KiB, or not readable");
    if (text)
        rc = read_dir(dir, text, len, machine, path, error);
    free(text);
    free(path);
    return rc;
}
