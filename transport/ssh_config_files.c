/* The key and known-hosts files that a configuration names: which exist, and who can use them. */
#include "transport/ssh_config.h"

#include "base/alloc.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 1024
#define KEY_BYTES 1024
#define KNOWN_HOSTS_BYTES_MAX (8 * 1024 * 1024)

/* A regular file, not waited for; or -1. */
static int open_file(const char *path, off_t *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;

    if (fd < 0)
        return -1;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return -1;
    }
    *bytes = info.st_size;
    return fd;
}

static size_t read_start(const char *path, char *out, size_t size)
{
    off_t bytes;
    int fd = open_file(path, &bytes);
    ssize_t len = fd >= 0 ? read(fd, out, size - 1) : -1;

    if (fd >= 0)
        close(fd);
    out[len > 0 ? len : 0] = '\0';
    return len > 0 ? (size_t)len : 0;
}

static bool is_file(const char *path)
{
    off_t bytes;
    int fd = open_file(path, &bytes);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static int base64_value(char c)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c != '\0' ? strchr(alphabet, c) : NULL;

    return at != NULL ? (int)(at - alphabet) : -1;
}

size_t shp_ssh_base64(uint8_t *out, size_t size, const char *text)
{
    size_t len = 0;
    uint32_t bits = 0;
    unsigned count = 0;

    for (; *text != '\0' && *text != '-' && *text != '=' && len < size; text++) {
        int value = base64_value(*text);

        if (value < 0)
            continue;
        bits = bits << 6 | (uint32_t)value;
        count += 6;
        if (count >= 8) {
            count -= 8;
            out[len++] = (uint8_t)(bits >> count & 0xff);
        }
    }
    return len;
}

/* The beginning of a private key in OpenSSH's own format; 0: another. */
static size_t decode_start(uint8_t bytes[KEY_BYTES], const char *private_key)
{
    static const char begin[] = "-----BEGIN OPENSSH PRIVATE KEY-----";
    const char *text = strstr(private_key, begin);

    return text != NULL ? shp_ssh_base64(bytes, KEY_BYTES, text + sizeof(begin) - 1) : 0;
}

bool shp_ssh_key_is_locked(const char *path)
{
    static const char magic[] = "openssh-key-v1";
    static const char no_cipher[] = "\0\0\0\4none";
    char text[KEY_BYTES];
    uint8_t bytes[KEY_BYTES];
    size_t len;

    if (read_start(path, text, sizeof(text)) == 0)
        return false;
    len = decode_start(bytes, text);
    if (len >= sizeof(magic) + sizeof(no_cipher) && memcmp(bytes, magic, sizeof(magic)) == 0)
        return memcmp(bytes + sizeof(magic), no_cipher, sizeof(no_cipher) - 1) != 0;
    return strstr(text, "ENCRYPTED") != NULL;
}

/* The public half stands in the clear near the beginning, and begins with the key's type. */
static bool names_a_token(const char *private_key)
{
    static const char *const types[] = {"sk-ssh-ed25519@", "sk-ecdsa-sha2-"};
    uint8_t bytes[KEY_BYTES];
    size_t len = decode_start(bytes, private_key);

    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        size_t type_len = strlen(types[t]);

        for (size_t i = 0; i + type_len <= len; i++) {
            if (memcmp(bytes + i, types[t], type_len) == 0)
                return true;
        }
    }
    return false;
}

/* What a key needs that only OpenSSH has; NULL: nothing. */
static const char *special_key(const char *path)
{
    char beside[PATH_BYTES + 16];
    char text[KEY_BYTES];

    snprintf(beside, sizeof(beside), "%s-cert.pub", path);
    if (access(beside, F_OK) == 0)
        return "has a certificate beside it";
    snprintf(beside, sizeof(beside), "%s.pub", path);
    if (read_start(beside, text, sizeof(text)) > 0 && strncmp(text, "sk-", 3) == 0)
        return "is on a security key";
    if (read_start(path, text, sizeof(text)) > 0 &&
        (names_a_token(text) || strncmp(text, "sk-", 3) == 0))
        return "is on a security key";
    return NULL;
}

/* "@cert-authority" and "@revoked" lines are OpenSSH's alone. */
static bool has_marker(const char *path, bool *too_large)
{
    char text[16384];
    off_t bytes;
    int fd = open_file(path, &bytes);
    bool line_start = true;
    bool found = false;
    ssize_t len;

    if (fd < 0)
        return false;
    *too_large = bytes > KNOWN_HOSTS_BYTES_MAX;
    while (!found && !*too_large && (len = read(fd, text, sizeof(text))) > 0) {
        for (ssize_t i = 0; i < len && !found; i++) {
            found = line_start && text[i] == '@';
            line_start = text[i] == '\n' || (line_start && (text[i] == ' ' || text[i] == '\t'));
        }
    }
    close(fd);
    return found;
}

struct finding {
    struct shp_ssh_files *files;
    const struct shp_ssh_config *config;
    const struct shp_ssh_tokens *tokens;
    enum shp_ssh_fit fit;
    char *reason;
    size_t reason_size;
};

static void lower(struct finding *finding, enum shp_ssh_fit fit, const char *path, const char *why)
{
    if (fit <= finding->fit)
        return;
    finding->fit = fit;
    snprintf(finding->reason, finding->reason_size, "%.100s %s", path, why);
}

static bool keep(char **slot, const char *path)
{
    *slot = shp_strdup(path);
    return *slot != NULL;
}

static void find_identities(struct finding *finding)
{
    const struct shp_ssh_list *list = &finding->config->identity_files;
    struct shp_ssh_files *files = finding->files;

    for (size_t i = 0; i < list->len; i++) {
        char path[PATH_BYTES];
        const char *special;

        if (!shp_ssh_config_expand(path, sizeof(path), list->items[i], finding->config,
                                   finding->tokens)) {
            lower(finding, SHP_SSH_FIT_PARTLY, list->items[i], "has words that only ssh replaces");
            continue;
        }
        special = special_key(path);
        if (special != NULL)
            lower(finding, SHP_SSH_FIT_PARTLY, path, special);
        if (keep(&files->identity[files->identities], path))
            files->identities++;
    }
}

static void find_known_hosts(struct finding *finding, const char *words)
{
    struct shp_ssh_files *files = finding->files;

    while (words != NULL && *words != '\0') {
        size_t len = strcspn(words, " ");
        char word[PATH_BYTES];
        char path[PATH_BYTES];
        bool too_large = false;

        snprintf(word, sizeof(word), "%.*s", (int)len, words);
        words += len + (words[len] == ' ');
        if (len == 0 || strcasecmp(word, "none") == 0)
            continue;
        if (len >= sizeof(word) ||
            !shp_ssh_config_expand(path, sizeof(path), word, finding->config, finding->tokens)) {
            lower(finding, SHP_SSH_FIT_NOT, word, "has words that only ssh replaces");
            continue;
        }
        if (!is_file(path))
            continue;
        if (has_marker(path, &too_large))
            lower(finding, SHP_SSH_FIT_NOT, path, "has certificate authorities or revoked keys");
        else if (too_large)
            lower(finding, SHP_SSH_FIT_NOT, path, "is larger than is read of it");
        if (files->known_hosts_len == SHP_SSH_KNOWN_HOSTS_MAX)
            lower(finding, SHP_SSH_FIT_NOT, path, "is one file of known hosts too many");
        else if (keep(&files->known_hosts[files->known_hosts_len], path))
            files->known_hosts_len++;
    }
}

enum shp_ssh_fit shp_ssh_files_find(struct shp_ssh_files *files,
                                    const struct shp_ssh_config *config,
                                    const struct shp_ssh_tokens *tokens, char *reason, size_t size)
{
    struct finding finding = {
        .files = files,
        .config = config,
        .tokens = tokens,
        .reason = reason,
        .reason_size = size,
    };

    memset(files, 0, sizeof(*files));
    find_identities(&finding);
    find_known_hosts(&finding, config->user_known_hosts);
    find_known_hosts(&finding, config->global_known_hosts);
    return finding.fit;
}

void shp_ssh_files_fini(struct shp_ssh_files *files)
{
    for (size_t i = 0; i < files->identities; i++)
        shp_free(files->identity[i]);
    for (size_t i = 0; i < files->known_hosts_len; i++)
        shp_free(files->known_hosts[i]);
    memset(files, 0, sizeof(*files));
}
