#include "controller/installation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <sodium.h>

#include "base/id.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

static int make_directories(const char *home)
{
    static const char *const parts[] = {"/.pi", "/.pi/agent", "/.pi/agent/shepherdr"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        char *path = xasprintf("%s%s", home, parts[i]);
        int rc = mkdir(path, 0700);
        int saved = errno;
        free(path);
        if (rc != 0 && saved != EEXIST) {
            errno = saved;
            return -1;
        }
    }
    return 0;
}

/* errno 0: it is there and holds something else. NONBLOCK: a FIFO must not hold us up. */
static bool read_id(const char *path, char out[33])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    char text[SHP_ID_HEX + 1];
    ssize_t got = read(fd, text, sizeof(text));
    int saved = errno;
    close(fd);
    errno = got < 0 ? saved : 0;
    if (got < SHP_ID_HEX || !shp_hex_valid(text, SHP_ID_HEX))
        return false;
    memcpy(out, text, SHP_ID_HEX);
    out[SHP_ID_HEX] = 0;
    return true;
}

/* Under its own name and linked into place: whoever is first wins, nobody sees half a file. */
static int write_id(const char *path)
{
    uint8_t bytes[SHP_ID_BYTES];
    char hex[SHP_ID_HEX + 2];
    randombytes_buf(bytes, sizeof(bytes));
    shp_hex_encode(hex, bytes, sizeof(bytes));
    char *temporary = xasprintf("%s.%s", path, hex);
    hex[SHP_ID_HEX] = '\n';
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int saved = errno;
    bool written = fd >= 0 && write(fd, hex, SHP_ID_HEX + 1) == SHP_ID_HEX + 1 && fsync(fd) == 0;
    if (fd >= 0) {
        saved = errno;
        close(fd);
    }
    int rc = 0;
    if (!written || (link(temporary, path) != 0 && errno != EEXIST)) {
        if (written)
            saved = errno;
        rc = -1;
    }
    unlink(temporary);
    free(temporary);
    errno = saved;
    return rc;
}

int installation_id(char out[33], const char *home, struct shp_error *error)
{
    char *path = xasprintf("%s/.pi/agent/shepherdr/installation", home);
    bool ok = read_id(path, out);
    if (!ok && errno == ENOENT && make_directories(home) == 0 && write_id(path) == 0)
        ok = read_id(path, out);
    if (!ok)
        shp_error_set(error, SHP_CODE_STORE_FAILED, NULL, "read installation id", "%s: %s", path,
                      errno ? strerror(errno) : "not 32 hex digits");
    free(path);
    return ok ? SHP_OK : SHP_ERR_IO;
}

void installation_look(char out[33], const char *home)
{
    char *path = xasprintf("%s/.pi/agent/shepherdr/installation", home);
    if (!read_id(path, out)) {
        uint8_t bytes[SHP_ID_BYTES];
        randombytes_buf(bytes, sizeof(bytes));
        shp_hex_encode(out, bytes, sizeof(bytes));
    }
    free(path);
}
