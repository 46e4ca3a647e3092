/* herdr machine: the catalog file <state base>/client/endpoints.json. */
#include "cli.h"
#include "params.h"
#include "util.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CATALOG_BYTES_MAX 65536
#define CATALOG_ENTRIES_MAX 64

static const struct param catalog_params[] = {
    {"version", PARAM_UINT, PARAM_REQUIRED, NULL},
    {"selected_profile", PARAM_TEXT, PARAM_NULLABLE, NULL},
    {"ssh", PARAM_ARRAY, PARAM_REQUIRED, NULL},
    {NULL, 0, 0, NULL},
};
static const struct param machine_params[] = {
    {"id", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"label", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"target", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"session", PARAM_TEXT, PARAM_REQUIRED, NULL},
    {"enabled", PARAM_BOOL, PARAM_REQUIRED, NULL},
    {"windows_desktop", PARAM_BOOL, 0, NULL},
    {NULL, 0, 0, NULL},
};

static bool id_valid(const char *id)
{
    return strlen(id) == 32 && strspn(id, "0123456789abcdef") == 32;
}

static bool label_valid(const char *label)
{
    return !text_blank(label) && strlen(label) <= 128 && !text_has_control(label);
}

/* user:password@host is refused; a password has no place in a catalog. */
static bool target_valid(const char *target)
{
    const char *host = !strncmp(target, "ssh://", 6) ? target + 6 : target;
    const char *at = strchr(host, '@');
    const char *colon = strchr(host, ':');
    return *target && *target != '-' && strlen(target) <= 1024 && !text_has_control(target) &&
           !(at && colon && colon < at);
}

static const char *catalog_check(const cJSON *catalog)
{
    static char why[160];
    if (!cJSON_IsObject(catalog))
        return "not a JSON object";
    if (!params_check(catalog_params, catalog, true, why, sizeof why))
        return why;
    if (cJSON_GetObjectItemCaseSensitive(catalog, "version")->valuedouble > 1)
        return "a newer version";
    const cJSON *ssh = cJSON_GetObjectItemCaseSensitive(catalog, "ssh");
    if (cJSON_GetArraySize(ssh) > CATALOG_ENTRIES_MAX)
        return "too many machines";
    for (const cJSON *m = ssh->child; m; m = m->next) {
        if (!cJSON_IsObject(m))
            return "a machine is not an object";
        if (!params_check(machine_params, m, true, why, sizeof why))
            return why;
        if (!id_valid(param_text(m, "id")) || !label_valid(param_text(m, "label")) ||
            !target_valid(param_text(m, "target")) || !session_name_valid(param_text(m, "session")))
            return "a machine has an invalid field";
    }
    return NULL;
}

static char *catalog_path(const struct paths *paths)
{
    return sim_format("%s/client/endpoints.json", paths->state_base);
}

/* NULL after a message; an empty catalog when the file is missing. */
static cJSON *catalog_load(const struct paths *paths)
{
    char *path = catalog_path(paths);
    char *text = read_file(path, CATALOG_BYTES_MAX, NULL);
    cJSON *catalog = NULL;
    if (!text && errno == ENOENT) {
        catalog = cJSON_Parse("{\"version\":1,\"ssh\":[]}");
    } else if (!text) {
        fprintf(stderr, "error: cannot read %s: %s\n", path, strerror(errno));
    } else {
        catalog = cJSON_Parse(text);
        const char *why = catalog_check(catalog);
        if (why) {
            fprintf(stderr, "error: machine catalog %s: %s\n", path, why);
            cJSON_Delete(catalog);
            catalog = NULL;
        }
    }
    free(text);
    free(path);
    return catalog;
}

static int catalog_store(const struct paths *paths, const cJSON *catalog)
{
    char *path = catalog_path(paths);
    char *text = cJSON_Print(catalog);
    int rc = write_file_atomic(path, text, strlen(text));
    if (rc < 0)
        fprintf(stderr, "error: cannot write %s: %s\n", path, strerror(-rc));
    free(text);
    free(path);
    return rc < 0 ? 1 : 0;
}

static int list(const struct paths *paths, bool json)
{
    cJSON *catalog = catalog_load(paths);
    if (!catalog)
        return 1;
    const char *selected = param_text(catalog, "selected_profile");
    cJSON *out = cJSON_CreateArray();
    const cJSON *ssh = cJSON_GetObjectItemCaseSensitive(catalog, "ssh");
    for (const cJSON *m = ssh->child; m; m = m->next) {
        static const char *const texts[] = {"id", "label", "target", "session"};
        cJSON *j = cJSON_CreateObject();
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            cJSON_AddStringToObject(j, texts[i], param_text(m, texts[i]));
        cJSON_AddBoolToObject(j, "enabled", param_bool(m, "enabled", false));
        cJSON_AddBoolToObject(j, "selected", selected && !strcmp(selected, param_text(m, "id")));
        cJSON_AddItemToArray(out, j);
        if (!json)
            printf("%s\t%s\t%s\t%s\t%s\n", param_text(m, "id"), param_text(m, "label"),
                   param_text(m, "target"), param_text(m, "session"),
                   param_bool(m, "enabled", false) ? "enabled" : "disabled");
    }
    if (json) {
        char *text = cJSON_Print(out);
        puts(text);
        free(text);
    }
    cJSON_Delete(out);
    cJSON_Delete(catalog);
    return 0;
}

static cJSON *find(const cJSON *catalog, const char *id)
{
    const cJSON *ssh = cJSON_GetObjectItemCaseSensitive(catalog, "ssh");
    for (cJSON *m = ssh->child; m; m = m->next)
        if (!strcmp(param_text(m, "id"), id))
            return m;
    return NULL;
}

static int change(const struct paths *paths, const char *verb, const char *id, const char *label)
{
    if (!id_valid(id))
        return cli_usage("a machine id is 32 hex digits");
    if (label && !label_valid(label))
        return cli_usage("invalid label");
    cJSON *catalog = catalog_load(paths);
    if (!catalog)
        return 1;
    int rc = 1;
    cJSON *m = find(catalog, id);
    if (!m) {
        fprintf(stderr, "error: no machine with id %s\n", id);
    } else {
        cJSON *ssh = cJSON_GetObjectItemCaseSensitive(catalog, "ssh");
        if (label)
            cJSON_ReplaceItemInObjectCaseSensitive(m, "label", cJSON_CreateString(label));
        else if (!strcmp(verb, "remove"))
            cJSON_Delete(cJSON_DetachItemViaPointer(ssh, m));
        else
            cJSON_ReplaceItemInObjectCaseSensitive(m, "enabled",
                                                   cJSON_CreateBool(!strcmp(verb, "enable")));
        rc = catalog_store(paths, catalog);
    }
    cJSON_Delete(catalog);
    return rc;
}

int cli_machine(const struct paths *paths, int argc, char **argv)
{
    const char *verb = argc > 0 ? argv[0] : "";
    if (!strcmp(verb, "list") && argc == 1)
        return list(paths, false);
    if (!strcmp(verb, "list") && argc == 2 && !strcmp(argv[1], "--json"))
        return list(paths, true);
    if (!strcmp(verb, "rename") && argc == 4 && !strcmp(argv[2], "--label"))
        return change(paths, verb, argv[1], argv[3]);
    if (argc == 2 && choice_in("remove|enable|disable", verb))
        return change(paths, verb, argv[1], NULL);
    return cli_usage("unknown machine command");
}
