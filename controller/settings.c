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

/* Reads one key; NULL: fine, else what is wrong. */
typedef const char *read_key(struct settings *out, const cJSON *value, const char *machine);

static const char *read_helper_dir(struct settings *out, const cJSON *value, const char *machine)
{
    if (!cJSON_IsObject(value))
        return "helperDir is not an object of machine id to directory";
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(value, machine);
    if (!item)
        return NULL;
    if (!cJSON_IsString(item) || !shp_bootstrap_directory_valid(item->valuestring))
        return "helperDir of this machine is not an absolute path of letters, digits and /._-";
    out->helper_dir = xstrdup(item->valuestring);
    return NULL;
}

static const char *read_transport(struct settings *out, const cJSON *value, const char *machine)
{
    static const char *const names[] = {
        [SHP_SSH_AUTO] = "auto", [SHP_SSH_LIBSSH] = "libssh", [SHP_SSH_OPENSSH] = "openssh"};
    if (cJSON_IsObject(value)) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(value, machine);
        value = item ? item : cJSON_GetObjectItemCaseSensitive(value, "default");
        if (!value)
            return NULL;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (cJSON_IsString(value) && strcmp(value->valuestring, names[i]) == 0) {
            out->transport = (enum shp_ssh_kind)i;
            return NULL;
        }
    }
    return "transport is not \"auto\", \"libssh\" or \"openssh\", nor an object of machine id to "
           "that";
}

static const char *read_post_quantum(struct settings *out, const cJSON *value, const char *machine)
{
    (void)machine;
    out->post_quantum = cJSON_IsString(value) && strcmp(value->valuestring, "require") == 0;
    if (out->post_quantum || (cJSON_IsString(value) && strcmp(value->valuestring, "prefer") == 0))
        return NULL;
    return "postQuantum is not \"prefer\" or \"require\"";
}

static const struct {
    const char *name;
    read_key *read;
} keys[] = {
    {"helperDir", read_helper_dir},
    {"transport", read_transport},
    {"postQuantum", read_post_quantum},
};

static const char *read_text(struct settings *out, const char *text, size_t len,
                             const char *machine)
{
    cJSON *json = json_parse_object(text, len);
    const char *wrong = json ? NULL : "not a JSON object";
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && !wrong; i++) {
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, keys[i].name);
        if (value)
            wrong = keys[i].read(out, value, machine);
    }
    cJSON_Delete(json);
    return wrong;
}

int settings_read(struct settings *out, const char *agent_dir, const char *machine,
                  struct shp_error *error)
{
    char *path = xasprintf("%s/" SETTINGS_FILE_NAME, agent_dir);
    struct stat info;
    size_t len = 0;
    char *text = NULL;
    const char *wrong = NULL;
    *out = (struct settings){0};
    if (stat(path, &info) != 0)
        wrong = errno == ENOENT ? NULL : strerror(errno);
    else if (info.st_size > 0 &&
             !(text = (char *)shp_artifact_read(path, SETTINGS_BYTES_MAX, &len)))
        wrong = "larger than 64 KiB, or not readable";
    if (text)
        wrong = read_text(out, text, len, machine);
    if (wrong) {
        shp_error_set(error, SHP_CODE_SETTINGS_INVALID, machine, "read settings", "%s: %s", path,
                      wrong);
        settings_fini(out);
    }
    free(text);
    free(path);
    return wrong ? SHP_ERR_INVALID : SHP_OK;
}

void settings_fini(struct settings *settings)
{
    free(settings->helper_dir);
    *settings = (struct settings){0};
}
