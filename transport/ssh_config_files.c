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
#define LIBSSH_PORT 22

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

bool shp_ssh_key_is_exposed(const char *path)
{
    char text[KEY_BYTES];
    struct stat info;

    return stat(path, &info) == 0 && info.st_uid == getuid() && (info.st_mode & 077) != 0 &&
           read_start(path, text, sizeof(text)) > 0 && strstr(text, "PRIVATE KEY") != NULL;
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
    if (shp_ssh_key_is_exposed(path))
        return "can be read by others, and ssh ignores such a key";
    return NULL;
}

/* A line of known hosts, up to the end of its patterns. */
struct line_scan {
    enum { LINE_START, LINE_PATTERNS, LINE_REST } at;
    bool bracket; /* the pattern begins with one */
    bool in_port; /* behind its "]:" */
    bool odd_port;
    char before;
    unsigned port;
};

static void start_pattern(struct line_scan *scan)
{
    scan->bracket = scan->in_port = scan->odd_port = false;
    scan->before = '\0';
    scan->port = 0;
}

/* libssh compares "[...]" with "[host]:22" too, where OpenSSH has the host alone. */
static bool is_read_otherwise(const struct line_scan *scan)
{
    return scan->bracket &&
           (!scan->in_port || scan->odd_port || scan->port == 0 || scan->port == LIBSSH_PORT);
}

static void step_pattern(struct line_scan *scan, char c)
{
    if (scan->before == '\0')
        scan->bracket = c == '[';
    if (scan->before == ']' && c == ':') {
        scan->in_port = true;
        scan->odd_port = false;
        scan->port = 0;
    } else if (scan->in_port && (c < '0' || c > '9' || scan->port > 65535)) {
        scan->odd_port = true;
    } else if (scan->in_port) {
        scan->port = scan->port * 10 + (unsigned)(c - '0');
    }
    scan->before = c;
}

/* Why the line is OpenSSH's alone, as soon as a character shows it; NULL: not yet. */
static const char *step_line(struct line_scan *scan, char c)
{
    static const char patterns[] = "has patterns that libssh reads otherwise";
    bool blank = c == ' ' || c == '\t';
    bool line_end = c == '\n' || c == '\r';
    bool odd = false;

    if (scan->at == LINE_START && !blank && !line_end) {
        if (c == '@')
            return "has certificate authorities or revoked keys";
        scan->at = c == '#' ? LINE_REST : LINE_PATTERNS;
        start_pattern(scan);
    }
    if (scan->at == LINE_PATTERNS && (c == ',' || blank || line_end)) {
        odd = is_read_otherwise(scan);
        start_pattern(scan);
        if (c != ',')
            scan->at = LINE_REST;
    } else if (scan->at == LINE_PATTERNS) {
        /* libssh passes over a negated pattern, and takes the next one that matches. */
        odd = c == '!' && scan->before == '\0';
        step_pattern(scan, c);
    }
    if (c == '\n')
        scan->at = LINE_START;
    return odd ? patterns : NULL;
}

/* What in a file of known hosts libssh would trust and OpenSSH would not; NULL: nothing. */
static const char *special_known_hosts(const char *path)
{
    char text[16384];
    off_t bytes;
    int fd = open_file(path, &bytes);
    struct line_scan scan = {.at = LINE_START};
    const char *found = NULL;
    ssize_t len;

    if (fd < 0)
        return NULL;
    if (bytes > KNOWN_HOSTS_BYTES_MAX)
        found = "is larger than is read of it";
    while (found == NULL && (len = read(fd, text, sizeof(text))) > 0) {
        for (ssize_t i = 0; i < len && found == NULL; i++)
            found = step_line(&scan, text[i]);
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
        const char *special;

        snprintf(word, sizeof(word), "%.*s", (int)len, words);
        words += len + (words[len] == ' ');
        if (len == 0 || strcasecmp(word, "none") == 0)
            continue;
        if (len >= sizeof(word) ||
            !shp_ssh_config_expand(path, sizeof(path), word, finding->config, finding->tokens)) {
            lower(finding, SHP_SSH_FIT_NOT, word, "has words that only ssh replaces");
            continue;
        }
        /* ssh -G does not quote: this is what follows a space in a path. */
        if (path[0] != '/')
            lower(finding, SHP_SSH_FIT_NOT, path, "is a relative path, or the rest of one");
        if (path[0] != '/' || !is_file(path))
            continue;
        special = special_known_hosts(path);
        if (special != NULL)
            lower(finding, SHP_SSH_FIT_NOT, path, special);
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
