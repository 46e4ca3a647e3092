#include "remote-helper/receivers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/id.h"
#include "protocol/json_check.h"

#define DESCRIPTOR_DEPTH_MAX 4
#define DESCRIPTOR_HASH_HEX 32
#define STAT_BYTES 1024

/* ---- one descriptor ----------------------------------------------------------------------- */

static const char *string_of(const cJSON *tree, const char *name, size_t max)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(tree, name);
    if (!cJSON_IsString(item) || strlen(item->valuestring) > max)
        return NULL;
    return item->valuestring;
}

/* A whole number of that range; fallback when absent, -2 when it is something else. */
static int64_t number_of(const cJSON *item, int64_t max, int64_t fallback)
{
    if (item == NULL)
        return fallback;
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > (double)max ||
        item->valuedouble != (double)(int64_t)item->valuedouble)
        return -2;
    return (int64_t)item->valuedouble;
}

static int read_fields(struct receiver *out, const cJSON *tree)
{
    const cJSON *range = cJSON_GetObjectItemCaseSensitive(tree, "protocol");
    const cJSON *version = cJSON_GetObjectItemCaseSensitive(tree, "version");
    if (number_of(version, 1, -2) != 1 || cJSON_GetArraySize(range) != 2 || !cJSON_IsArray(range))
        return SHP_ERR_INVALID;
    out->socket = string_of(tree, "socket", 107);
    out->host = string_of(tree, "host", IDENTITY_HOST_MAX);
    out->agent_dir = string_of(tree, "agent_dir", 4096);
    out->pi_session_id = string_of(tree, "pi_session_id", 128);
    out->session_file = string_of(tree, "session_file", 4096);
    out->terminal_id = string_of(tree, "terminal_id", 128);
    out->token = string_of(tree, "token", 256);
    out->pid = number_of(cJSON_GetObjectItemCaseSensitive(tree, "pid"), INT32_MAX, -2);
    out->start = number_of(cJSON_GetObjectItemCaseSensitive(tree, "start"), 1LL << 53, -1);
    out->protocol_min = number_of(cJSON_GetArrayItem(range, 0), 65535, -2);
    out->protocol_max = number_of(cJSON_GetArrayItem(range, 1), 65535, -2);
    if (out->socket == NULL || out->socket[0] != '/' || out->host == NULL ||
        out->agent_dir == NULL || out->pi_session_id == NULL || out->pi_session_id[0] == '\0' ||
        out->token == NULL || out->token[0] == '\0')
        return SHP_ERR_INVALID;
    if (out->pid < 1 || out->start == -2 || out->protocol_min < 0 ||
        out->protocol_max < out->protocol_min)
        return SHP_ERR_INVALID;
    if (out->session_file != NULL && out->session_file[0] == '\0')
        out->session_file = NULL;
    if (out->terminal_id != NULL && out->terminal_id[0] == '\0')
        out->terminal_id = NULL;
    return 0;
}

int receiver_parse(struct receiver *out, const char *text, size_t len)
{
    struct receiver receiver = {0};
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == ' '))
        len--;
    if (len > RECEIVER_DESCRIPTOR_BYTES_MAX ||
        shp_json_check_object(text, len, DESCRIPTOR_DEPTH_MAX) != 0 || shp_json_has_nul(text, len))
        return SHP_ERR_INVALID;
    receiver.tree = cJSON_ParseWithLength(text, len);
    if (receiver.tree == NULL)
        return SHP_ERR_NOMEM;
    int status = read_fields(&receiver, receiver.tree);
    if (status == 0)
        *out = receiver;
    else
        cJSON_Delete(receiver.tree);
    return status;
}

void receiver_fini(struct receiver *receiver)
{
    cJSON_Delete(receiver->tree);
    *receiver = (struct receiver){0};
}

/* ---- alive -------------------------------------------------------------------------------- */

static void put_decimal(char *out, int64_t value)
{
    char digits[20];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    while (count > 0)
        *out++ = digits[--count];
    *out = '\0';
}

/* Field 22 of /proc/<pid>/stat; -1 where that cannot be read. */
static int64_t process_start(int64_t pid)
{
    char path[48] = "/proc/";
    put_decimal(path + 6, pid);
    memcpy(path + strlen(path), "/stat", 6);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    char text[STAT_BYTES];
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    if (len <= 0)
        return -1;
    text[len] = '\0';
    /* The name in parentheses may hold anything; field 3 follows its end. */
    const char *at = strrchr(text, ')');
    for (int field = 3; at != NULL && field <= 22; field++) {
        at = strchr(at + 1, ' ');
    }
    if (at == NULL)
        return -1;
    int64_t start = 0;
    for (at++; *at >= '0' && *at <= '9' && start < INT64_MAX / 10 - 9; at++)
        start = start * 10 + (*at - '0');
    return start;
}

bool receiver_lives(const struct receiver *receiver, const struct identity *identity)
{
    const char *own_host = identity->boot_id_known ? identity->host : "";
    if (strcmp(receiver->host, own_host) != 0)
        return false;
    if (kill((pid_t)receiver->pid, 0) != 0)
        return false;
    int64_t start = process_start(receiver->pid);
    return receiver->start < 0 || start < 0 || start == receiver->start;
}

bool receiver_socket_good(const struct receiver *receiver)
{
    struct stat info;
    char folder[108];
    size_t len = (size_t)(strrchr(receiver->socket, '/') - receiver->socket);
    memcpy(folder, receiver->socket, len);
    folder[len] = '\0';
    if (len == 0 || lstat(folder, &info) != 0 || !S_ISDIR(info.st_mode) ||
        info.st_uid != geteuid() || (info.st_mode & 0777) != 0700)
        return false;
    return lstat(receiver->socket, &info) == 0 && S_ISSOCK(info.st_mode) &&
           info.st_uid == geteuid();
}

/* ---- the directory ------------------------------------------------------------------------ */

void receivers_path(char *out, size_t size, const struct identity *identity)
{
    static const char rest[] = "/.pi/agent/shepherdr/run";
    size_t len = strcmp(identity->home, "/") == 0 ? 0 : strlen(identity->home);
    if (len + sizeof rest > size)
        len = 0;
    memcpy(out, identity->home, len);
    memcpy(out + len, rest, sizeof rest);
}

static bool name_valid(const char *name)
{
    return strlen(name) == DESCRIPTOR_HASH_HEX + 5 && shp_hex_valid(name, DESCRIPTOR_HASH_HEX) &&
           strcmp(name + DESCRIPTOR_HASH_HEX, ".json") == 0;
}

static ssize_t read_whole(int fd, char *out, size_t size)
{
    size_t have = 0;
    while (have < size) {
        ssize_t got = read(fd, out + have, size - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}

static int read_descriptor(struct receiver *out, int dir, const char *name, char *text)
{
    struct stat info;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return SHP_ERR_NOT_FOUND;
    ssize_t len = -1;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
        (info.st_mode & 077) == 0 && info.st_size <= RECEIVER_DESCRIPTOR_BYTES_MAX)
        len = read_whole(fd, text, RECEIVER_DESCRIPTOR_BYTES_MAX);
    close(fd);
    if (len < 0)
        return SHP_ERR_INVALID;
    int status = receiver_parse(out, text, (size_t)len);
    if (status == 0)
        out->modified_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    return status;
}

static DIR *open_directory(const struct identity *identity)
{
    char path[IDENTITY_PATH_MAX + 32];
    struct stat info;
    receivers_path(path, sizeof path, identity);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    DIR *listing = NULL;
    if (fstat(fd, &info) == 0 && info.st_uid == geteuid() && (info.st_mode & 0777) == 0700)
        listing = fdopendir(fd);
    if (listing == NULL)
        close(fd);
    return listing;
}

void receivers_each(const struct identity *identity, receiver_cb cb, void *user)
{
    DIR *listing = open_directory(identity);
    if (listing == NULL)
        return;
    char *text = malloc(RECEIVER_DESCRIPTOR_BYTES_MAX);
    const struct dirent *entry;
    bool more = text != NULL;
    for (unsigned i = 0; more && i < RECEIVER_ENTRIES_MAX; i++) {
        entry = readdir(listing);
        if (entry == NULL)
            break;
        struct receiver receiver;
        if (!name_valid(entry->d_name) ||
            read_descriptor(&receiver, dirfd(listing), entry->d_name, text) != 0)
            continue;
        if (receiver_lives(&receiver, identity))
            more = cb(&receiver, user);
        receiver_fini(&receiver);
    }
    free(text);
    closedir(listing);
}

struct search {
    const char *pi_session_id;
    const char *terminal_id;
    struct receiver best;
};

static bool on_candidate(struct receiver *receiver, void *user)
{
    struct search *search = user;
    bool match;
    if (search->pi_session_id != NULL)
        match = strcmp(receiver->pi_session_id, search->pi_session_id) == 0;
    else
        match = receiver->terminal_id != NULL &&
                strcmp(receiver->terminal_id, search->terminal_id) == 0;
    if (!match || (search->best.tree != NULL && search->best.modified_ns >= receiver->modified_ns))
        return true;
    receiver_fini(&search->best);
    search->best = *receiver;
    receiver->tree = NULL;
    return true;
}

int receivers_find(struct receiver *out, const struct identity *identity, const char *pi_session_id,
                   const char *terminal_id)
{
    struct search search = {.pi_session_id = pi_session_id, .terminal_id = terminal_id};
    receivers_each(identity, on_candidate, &search);
    if (search.best.tree == NULL)
        return SHP_ERR_NOT_FOUND;
    *out = search.best;
    return 0;
}
