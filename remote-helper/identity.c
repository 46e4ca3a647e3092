#include "remote-helper/identity.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/error.h"
#include "base/id.h"

#define BOOT_ID_LEN 36

static void copy(char *out, size_t size, const char *text)
{
    size_t len = strlen(text);
    if (len > size - 1)
        len = size - 1;
    memcpy(out, text, len);
    out[len] = '\0';
}

static ssize_t read_small(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t len = read(fd, out, size);
    close(fd);
    return len;
}

/*
 * Equal for every process of one running system, different elsewhere as far as that can be known.
 * The kernel's boot id is both; the digest stays the same over a reboot and serves where there is
 * no /proc.
 */
static void find_host(struct identity *identity, const struct utsname *names)
{
    char text[128];
    ssize_t len = read_small("/proc/sys/kernel/random/boot_id", text, sizeof text);
    if (len >= BOOT_ID_LEN) {
        memcpy(identity->host, text, BOOT_ID_LEN);
        identity->host[BOOT_ID_LEN] = '\0';
        identity->boot_id_known = true;
        return;
    }
    uint8_t digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;
    crypto_hash_sha256_init(&state);
    const char *const facts[] = {names->nodename, names->sysname, names->machine};
    for (size_t i = 0; i < 3; i++)
        crypto_hash_sha256_update(&state, (const uint8_t *)facts[i], strlen(facts[i]) + 1);
    len = read_small("/etc/machine-id", text, sizeof text);
    if (len > 0)
        crypto_hash_sha256_update(&state, (const uint8_t *)text, (size_t)len);
    crypto_hash_sha256_final(&state, digest);
    shp_hex_encode(identity->host, digest, 16);
}

int identity_init(struct identity *identity)
{
    memset(identity, 0, sizeof *identity);
    const char *home = getenv("HOME");
    if (home == NULL || home[0] != '/' || strlen(home) >= sizeof identity->home)
        return SHP_ERR_INVALID;
    copy(identity->home, sizeof identity->home, home);
    size_t len = strlen(identity->home);
    while (len > 1 && identity->home[len - 1] == '/')
        identity->home[--len] = '\0';

    struct utsname names;
    memset(&names, 0, sizeof names);
    uname(&names);
    copy(identity->hostname, sizeof identity->hostname, names.nodename);
    copy(identity->system, sizeof identity->system - 66, names.sysname);
    len = strlen(identity->system);
    identity->system[len++] = ' ';
    copy(identity->system + len, sizeof identity->system - len, names.machine);
    identity->uid = geteuid();
    identity->pid = getpid();
    find_host(identity, &names);
    return 0;
}

void identity_write(const struct identity *identity, struct json_out *out)
{
    json_out_member_string(out, "hostname", identity->hostname);
    json_out_member_string(out, "host", identity->host);
    json_out_member_u64(out, "uid", identity->uid);
    json_out_member_string(out, "home", identity->home);
    json_out_member_u64(out, "pid", (uint64_t)identity->pid);
    json_out_member_string(out, "system", identity->system);
}
