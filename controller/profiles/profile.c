#include "controller/profiles/profile_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"
#include "protocol/messages.h"

#define STEP "read profiles"

bool shp_profile_name_valid(const char *name)
{
    if (name[0] < 'a' || name[0] > 'z')
        return false;
    size_t len = 1;
    for (; name[len] != '\0'; len++) {
        char c = name[len];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'))
            return false;
    }
    return len <= SHP_PROFILE_NAME_MAX;
}

int shp_profile_read_file(const char *path, size_t max, char **text, size_t *len)
{
    /* O_NONBLOCK: a pipe at the place of a profile must not hold the load up. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? SHP_ERR_NOT_FOUND : SHP_ERR_IO;
    char *bytes = NULL;
    int err = 0;
    struct stat st;
    if (fstat(fd, &st) != 0) {
        err = SHP_ERR_IO;
    } else if (!S_ISREG(st.st_mode)) {
        err = SHP_ERR_INVALID;
    } else if (st.st_size > (off_t)max) {
        err = SHP_ERR_LIMIT;
    } else if ((bytes = malloc(max + 2)) == NULL) {
        err = SHP_ERR_NOMEM;
    }
    size_t have = 0;
    while (err == 0) {
        /* One byte above the limit tells a file that has grown since. */
        ssize_t n = read(fd, bytes + have, max + 1 - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            err = SHP_ERR_IO;
        if (n <= 0)
            break;
        have += (size_t)n;
        if (have > max)
            err = SHP_ERR_LIMIT;
    }
    int saved = errno;
    close(fd);
    if (err != 0) {
        free(bytes);
        errno = saved;
        return err;
    }
    bytes[have] = '\0';
    char *fitting = realloc(bytes, have + 1);
    *text = fitting != NULL ? fitting : bytes;
    *len = have;
    return 0;
}

static int file_error(struct shp_error *error, int err, const char *path, size_t max)
{
    const char *why = strerror(errno);
    char limit[64];
    if (err == SHP_ERR_NOT_FOUND)
        why = "there is no such file";
    else if (err == SHP_ERR_INVALID)
        why = "it is no regular file";
    else if (err == SHP_ERR_NOMEM)
        why = "no memory";
    else if (err == SHP_ERR_LIMIT) {
        snprintf(limit, sizeof limit, "it has more than %zu bytes", max);
        why = limit;
    }
    shp_error_set(error, SHP_CODE_PROFILE_INVALID, NULL, STEP, "%s: %s", path, why);
    return err;
}

static bool regular_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static int load_one(struct shp_profile *out, const char *root, const char *name,
                    struct shp_error *error)
{
    char directory[SHP_PROFILE_PATH_MAX], path[SHP_PROFILE_PATH_MAX + 16];
    int n = snprintf(directory, sizeof directory, "%s/%s", root, name);
    if (n < 0 || (size_t)n >= sizeof directory) {
        shp_error_set(error, SHP_CODE_PROFILE_INVALID, NULL, STEP, "%s: the path is too long",
                      root);
        return SHP_ERR_LIMIT;
    }
    if (!shp_profile_name_valid(name)) {
        shp_error_set(error, SHP_CODE_PROFILE_INVALID, NULL, STEP,
                      "%s: a profile's name begins with a small letter and has small letters, "
                      "digits, _ and -, at most %d",
                      directory, SHP_PROFILE_NAME_MAX);
        return SHP_ERR_INVALID;
    }
    snprintf(path, sizeof path, "%s/profile.json", directory);
    char *text = NULL;
    size_t len = 0;
    int err = shp_profile_read_file(path, SHP_PROFILE_FILE_BYTES_MAX, &text, &len);
    if (err != 0)
        return file_error(error, err, path, SHP_PROFILE_FILE_BYTES_MAX);
    struct shp_profile profile;
    err = shp_profile_parse(&profile, name, directory, path, text, len, error);
    free(text);
    if (err != 0)
        return err;
    const char *missing = NULL;
    if (profile.prompt_path != NULL && !regular_file(profile.prompt_path))
        missing = "prompt";
    else if (profile.prepare_path != NULL && !regular_file(profile.prepare_path))
        missing = "prepare";
    if (missing != NULL) {
        shp_error_set(error, SHP_CODE_PROFILE_INVALID, NULL, STEP,
                      "%s: \"%s\" names no regular file in the profile's directory", path, missing);
        shp_profile_fini(&profile);
        return SHP_ERR_INVALID;
    }
    *out = profile;
    return 0;
}

static bool is_directory(int dir_fd, const char *name)
{
    struct stat st;
    return fstatat(dir_fd, name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct shp_profile *)a)->name, ((const struct shp_profile *)b)->name);
}

int shp_profiles_load(struct shp_profiles *out, const char *agent_dir, struct shp_error *error)
{
    char root[SHP_PROFILE_PATH_MAX];
    /* Room for the names that the installation puts below it. */
    if (agent_dir == NULL || agent_dir[0] != '/' ||
        strlen(agent_dir) + 512 > SHP_PROFILE_PATH_MAX) {
        shp_error_set(error, SHP_CODE_PROFILE_INVALID, NULL, STEP,
                      "the agent directory has no usable absolute path");
        return SHP_ERR_INVALID;
    }
    int err = shp_profiles_install(agent_dir, error);
    if (err != 0)
        return err;
    snprintf(root, sizeof root, "%s/shepherdr/profiles", agent_dir);
    struct shp_profiles profiles = {0};
    DIR *dir = opendir(root);
    if (dir == NULL) {
        if (errno == ENOENT) {
            *out = profiles;
            return 0;
        }
        return file_error(error, SHP_ERR_IO, root, 0);
    }
    struct dirent *entry;
    size_t room = 0;
    while (err == 0 && (errno = 0, entry = readdir(dir)) != NULL) {
        /* Hidden ones are version control's or an editor's. */
        if (entry->d_name[0] == '.' || !is_directory(dirfd(dir), entry->d_name))
            continue;
        if (profiles.len == SHP_PROFILES_MAX) {
            shp_error_set(error, SHP_CODE_PROFILE_INVALID, NULL, STEP, "%s: more than %d profiles",
                          root, SHP_PROFILES_MAX);
            err = SHP_ERR_LIMIT;
            break;
        }
        if (profiles.len == room) {
            size_t wanted = room == 0 ? 8 : room * 2;
            void *grown = realloc(profiles.items, wanted * sizeof *profiles.items);
            if (grown == NULL) {
                err = file_error(error, SHP_ERR_NOMEM, root, 0);
                break;
            }
            profiles.items = grown;
            room = wanted;
        }
        err = load_one(&profiles.items[profiles.len], root, entry->d_name, error);
        if (err == 0)
            profiles.len++;
    }
    if (err == 0 && errno != 0)
        err = file_error(error, SHP_ERR_IO, root, 0);
    closedir(dir);
    if (err != 0) {
        shp_profiles_fini(&profiles);
        return err;
    }
    if (profiles.len > 1)
        qsort(profiles.items, profiles.len, sizeof *profiles.items, by_name);
    *out = profiles;
    return 0;
}

void shp_profiles_fini(struct shp_profiles *profiles)
{
    for (size_t i = 0; i < profiles->len; i++)
        shp_profile_fini(&profiles->items[i]);
    free(profiles->items);
    memset(profiles, 0, sizeof *profiles);
}

const struct shp_profile *shp_profiles_find(const struct shp_profiles *profiles, const char *name)
{
    for (size_t i = 0; i < profiles->len; i++)
        if (strcmp(profiles->items[i].name, name) == 0)
            return &profiles->items[i];
    return NULL;
}

int shp_profile_read_prompt(const struct shp_profile *profile, char **text, size_t *len,
                            struct shp_error *error)
{
    char *bytes = NULL;
    size_t size = 0;
    if (profile->prompt_path == NULL) {
        shp_error_set(error, SHP_CODE_PROFILE_INVALID, NULL, "read prompt", "%s has no prompt",
                      profile->name);
        return SHP_ERR_NOT_FOUND;
    }
    int err =
        shp_profile_read_file(profile->prompt_path, SHP_PROFILE_PROMPT_BYTES_MAX, &bytes, &size);
    if (err != 0)
        return file_error(error, err, profile->prompt_path, SHP_PROFILE_PROMPT_BYTES_MAX);
    if (memchr(bytes, '\0', size) != NULL || !shp_utf8_valid((const uint8_t *)bytes, size)) {
        shp_error_set(error, SHP_CODE_PROFILE_INVALID, NULL, "read prompt",
                      "%s: it is not UTF-8 text", profile->prompt_path);
        free(bytes);
        return SHP_ERR_INVALID;
    }
    *text = bytes;
    *len = size;
    return 0;
}
