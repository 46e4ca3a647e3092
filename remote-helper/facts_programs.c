/* Which program would run, and of which version, without running it. */
#include "remote-helper/facts.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "protocol/json_check.h"
#include "remote-helper/facts_files.h"

#define PARENTS_MAX 6
#define PACKAGE_BYTES_MAX 65536
#define PACKAGE_DEPTH_MAX 16
#define WRAPPER_BYTES_MAX 4096
#define NVM_ENTRIES_MAX 64

static const char package_name[] = "/pi-coding-agent";

static bool executable(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

static bool find_in_path(char *out, size_t size, const char *name)
{
    const char *at = getenv("PATH");
    while (at != NULL && *at != '\0') {
        size_t len = strcspn(at, ":");
        char dir[PATH_MAX];
        if (at[0] == '/' && len < sizeof dir) {
            memcpy(dir, at, len);
            dir[len] = '\0';
            if (facts_join(out, size, dir, name) && executable(out))
                return true;
        }
        at += len + (at[len] == ':');
    }
    return false;
}

/* A directory per version of Node: the first that has the program. */
static bool find_in_nvm(char *out, size_t size, const char *name, const char *home)
{
    char versions[PATH_MAX];
    char dir[PATH_MAX];
    char bin[PATH_MAX];
    bool found = false;
    if (!facts_join(versions, sizeof versions, home, ".nvm/versions/node"))
        return false;
    DIR *listing = opendir(versions);
    const struct dirent *entry;
    for (unsigned i = 0; listing != NULL && !found && i < NVM_ENTRIES_MAX; i++) {
        entry = readdir(listing);
        if (entry == NULL)
            break;
        found = entry->d_name[0] == 'v' && facts_join(dir, sizeof dir, versions, entry->d_name) &&
                facts_join(bin, sizeof bin, dir, "bin") && facts_join(out, size, bin, name) &&
                executable(out);
    }
    if (listing != NULL)
        closedir(listing);
    return found;
}

bool facts_find_program(char *out, size_t size, const char *name, const char *home)
{
    static const char *const below_home[] = {
        ".local/bin",
        "bin",
        ".npm-global/bin",
        ".bun/bin",
        ".volta/bin",
        ".cargo/bin",
        ".local/share/mise/shims",
        ".asdf/shims",
        ".local/share/pnpm",
        ".n/bin",
        ".local/share/fnm/aliases/default/bin",
    };
    static const char *const elsewhere[] = {"/usr/local/bin", "/opt/homebrew/bin",
                                            "/home/linuxbrew/.linuxbrew/bin", "/usr/bin"};
    char dir[PATH_MAX];
    if (find_in_path(out, size, name))
        return true;
    for (size_t i = 0; i < sizeof below_home / sizeof below_home[0]; i++)
        if (facts_join(dir, sizeof dir, home, below_home[i]) && facts_join(out, size, dir, name) &&
            executable(out))
            return true;
    if (find_in_nvm(out, size, name, home))
        return true;
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
        if (facts_join(out, size, elsewhere[i], name) && executable(out))
            return true;
    return false;
}

/* ---- version of Pi ------------------------------------------------------------------------- */

static bool version_of_package(char *out, size_t size, const char *dir)
{
    char path[PATH_MAX];
    size_t len = 0;
    if (!facts_join(path, sizeof path, dir, "package.json"))
        return false;
    char *text = facts_read(path, PACKAGE_BYTES_MAX, &len);
    cJSON *tree = NULL;
    if (text != NULL && shp_json_check_object(text, len, PACKAGE_DEPTH_MAX) == 0)
        tree = cJSON_ParseWithLength(text, len);
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(tree, "name");
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(tree, "version");
    bool good = cJSON_IsString(name) && cJSON_IsString(version) &&
                strstr(name->valuestring, package_name + 1) != NULL &&
                strlen(version->valuestring) < size;
    if (good)
        memcpy(out, version->valuestring, strlen(version->valuestring) + 1);
    cJSON_Delete(tree);
    free(text);
    return good;
}

static bool version_above(char *out, size_t size, const char *file)
{
    char dir[PATH_MAX];
    if (realpath(file, dir) == NULL)
        return false;
    for (int i = 0; i < PARENTS_MAX; i++) {
        char *slash = strrchr(dir, '/');
        if (slash == NULL || slash == dir)
            return false;
        *slash = '\0';
        if (version_of_package(out, size, dir))
            return true;
    }
    return false;
}

/* `exec node '/…/pi-coding-agent/dist/cli.js' "$@"` and the like. */
static bool version_of_wrapper(char *out, size_t size, const char *file)
{
    char path[PATH_MAX];
    size_t len = 0;
    char *text = facts_read(file, WRAPPER_BYTES_MAX, &len);
    bool good = false;
    if (text != NULL && len > 2 && text[0] == '#' && text[1] == '!') {
        char *at = strstr(text, package_name);
        char *begin = at;
        while (begin != NULL && begin > text && strchr(" \t\n'\"=", begin[-1]) == NULL)
            begin--;
        size_t path_len = at == NULL ? 0 : (size_t)(at - begin) + strcspn(at, " \t\n'\"");
        if (path_len > 0 && begin[0] == '/' && path_len < sizeof path) {
            memcpy(path, begin, path_len);
            path[path_len] = '\0';
            good = version_above(out, size, path);
        }
    }
    free(text);
    return good;
}

bool facts_pi_version(char *out, size_t size, const char *path)
{
    return version_above(out, size, path) || version_of_wrapper(out, size, path);
}
