#include "remote-helper/directory.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"
#include "protocol/messages.h"

static int failed(struct shp_error *error, int code, const char *path, const char *why)
{
    shp_error_set(error, code, NULL, "resolve directory", "%s: %s", path, why);
    return SHP_ERR_INVALID;
}

/* start + "/" + rest */
static int join(char *out, size_t size, const char *start, const char *rest)
{
    size_t start_len = strlen(start);
    size_t rest_len = strlen(rest);
    if (start_len + 1 + rest_len + 1 > size)
        return SHP_ERR_LIMIT;
    memcpy(out, start, start_len);
    out[start_len] = '/';
    memcpy(out + start_len + 1, rest, rest_len + 1);
    return 0;
}

int directory_resolve(const char *path, const char *base, const char *home, char *out, size_t size,
                      struct shp_error *error)
{
    char joined[PATH_MAX];
    char real[PATH_MAX];
    int status;
    if (path[0] == '\0')
        return failed(error, SHP_CODE_INVALID_PARAMS, "path", "is empty");
    if (base != NULL && base[0] != '/')
        return failed(error, SHP_CODE_INVALID_PARAMS, "base", "is not an absolute path");
    if (path[0] == '~' && path[1] != '\0' && path[1] != '/')
        return failed(error, SHP_CODE_INVALID_PARAMS, path,
                      "only the own home directory can be named with ~");
    if (path[0] == '/')
        status = join(joined, sizeof joined, "", path + 1);
    else if (path[0] == '~')
        status = join(joined, sizeof joined, home, path + 1);
    else
        status = join(joined, sizeof joined, base != NULL ? base : home, path);
    if (status != 0)
        return failed(error, SHP_CODE_DIRECTORY_MISSING, path, strerror(ENAMETOOLONG));

    struct stat info;
    if (realpath(joined, real) == NULL || stat(real, &info) != 0)
        return failed(error, SHP_CODE_DIRECTORY_MISSING, path, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return failed(error, SHP_CODE_DIRECTORY_MISSING, path, strerror(ENOTDIR));
    if (access(real, X_OK) != 0)
        return failed(error, SHP_CODE_DIRECTORY_MISSING, path, strerror(errno));
    size_t len = strlen(real);
    /* The answer travels as JSON, which could not carry such a name back to us. */
    if (!shp_utf8_valid((const uint8_t *)real, len))
        return failed(error, SHP_CODE_DIRECTORY_MISSING, path, "its real path is not UTF-8");
    if (len >= size)
        return failed(error, SHP_CODE_DIRECTORY_MISSING, path, strerror(ENAMETOOLONG));
    memcpy(out, real, len + 1);
    return 0;
}
