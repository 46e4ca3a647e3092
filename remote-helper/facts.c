#include "remote-helper/facts.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "protocol/json_check.h"
#include "remote-helper/facts_files.h"
#include "remote-helper/sweep.h"

#define SETTINGS_BYTES_MAX ((size_t)256 * 1024)
#define SETTINGS_DEPTH_MAX 16
#define INTEGRATION_BYTES_MAX 4096
#define NUMBER_MAX ((uint64_t)1 << 53)

static const char our_name[] = "shepherdr";

bool facts_join(char *out, size_t size, const char *dir, const char *name)
{
    size_t dir_len = strlen(dir);
    size_t name_len = strlen(name);
    if (dir_len > 0 && dir[dir_len - 1] == '/')
        dir_len--;
    if (dir_len + 1 + name_len + 1 > size)
        return false;
    memcpy(out, dir, dir_len);
    out[dir_len] = '/';
    memcpy(out + dir_len + 1, name, name_len + 1);
    return true;
}

char *facts_read(const char *path, size_t bytes_max, size_t *len)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    size_t want = 0;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
        want = (uint64_t)info.st_size < bytes_max ? (size_t)info.st_size : bytes_max;
    char *text = malloc(want + 1);
    size_t have = 0;
    while (text != NULL && have < want) {
        ssize_t got = read(fd, text + have, want - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    close(fd);
    if (text != NULL)
        text[have] = '\0';
    *len = have;
    return text;
}

static uint64_t clamp(uint64_t value)
{
    return value < NUMBER_MAX ? value : NUMBER_MAX - 1;
}

static void add_number(struct json_out *out, const char *key, uint64_t value)
{
    json_out_member_u64(out, key, clamp(value));
}

/* ---- home and disk ------------------------------------------------------------------------- */

static void write_home(const struct identity *identity, struct json_out *out)
{
    struct stat info;
    bool exists = stat(identity->home, &info) == 0 && S_ISDIR(info.st_mode);
    json_out_member_string(out, "home", identity->home);
    json_out_member_bool(out, "home_exists", exists);
    json_out_member_bool(out, "home_owned", exists && info.st_uid == identity->uid);
    json_out_member_bool(out, "home_writable", exists && access(identity->home, W_OK | X_OK) == 0);
}

static void write_disk(const char *helper, const char *home, struct json_out *out)
{
    struct statvfs disk;
    memset(&disk, 0, sizeof disk);
    if (helper[0] == '\0' || statvfs(helper, &disk) != 0)
        if (statvfs(home, &disk) != 0)
            memset(&disk, 0, sizeof disk);
    uint64_t block = disk.f_frsize > 0 ? disk.f_frsize : disk.f_bsize;
    json_out_member_bool(out, "read_only", (disk.f_flag & ST_RDONLY) != 0);
    json_out_member_bool(out, "noexec", (disk.f_flag & ST_NOEXEC) != 0);
    uint64_t free_blocks = disk.f_bavail;
    add_number(out, "disk_free_bytes",
               block > 0 && free_blocks < NUMBER_MAX / block ? free_blocks * block : NUMBER_MAX);
    if (disk.f_files > 0)
        add_number(out, "disk_free_inodes", disk.f_favail);
}

static void write_helper(const char *helper, const char *program, struct json_out *out)
{
    struct stat info;
    if (helper[0] != '\0') {
        json_out_member_string(out, "helper", helper);
        if (stat(helper, &info) == 0)
            add_number(out, "helper_bytes", (uint64_t)info.st_size);
    }
    add_number(out, "stale", program != NULL ? sweep_stale(program) : 0);
}

/* ---- Pi and Herdr -------------------------------------------------------------------------- */

static void write_programs(const char *home, struct json_out *out)
{
    char path[PATH_MAX];
    char version[65];
    if (facts_find_program(path, sizeof path, "herdr", home))
        json_out_member_string(out, "herdr", path);
    if (!facts_find_program(path, sizeof path, "pi", home))
        return;
    json_out_member_string(out, "pi", path);
    if (facts_pi_version(version, sizeof version, path))
        json_out_member_string(out, "pi_version", version);
}

/* packages: strings, or objects with a source. */
static bool settings_name_us(const char *agent_dir)
{
    char path[PATH_MAX];
    size_t len = 0;
    bool named = false;
    char *text = facts_join(path, sizeof path, agent_dir, "settings.json")
                     ? facts_read(path, SETTINGS_BYTES_MAX, &len)
                     : NULL;
    cJSON *tree = NULL;
    if (text != NULL && shp_json_check_object(text, len, SETTINGS_DEPTH_MAX) == 0)
        tree = cJSON_ParseWithLength(text, len);
    static const char *const lists[] = {"packages", "extensions"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const cJSON *item = NULL;
        cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(tree, lists[i]))
        {
            const cJSON *source =
                cJSON_IsObject(item) ? cJSON_GetObjectItemCaseSensitive(item, "source") : item;
            const char *name = cJSON_IsString(source) ? source->valuestring : "";
            named = named || strstr(name, our_name) != NULL || strstr(name, "pi-ext") != NULL;
        }
    }
    cJSON_Delete(tree);
    free(text);
    return named;
}

/* Entries of dir whose name has part in it and ends with end. */
static uint64_t count_names(const char *dir, const char *part, const char *end, unsigned *budget)
{
    DIR *listing = opendir(dir);
    uint64_t count = 0;
    while (listing != NULL && *budget > 0) {
        const struct dirent *entry = readdir(listing);
        if (entry == NULL)
            break;
        size_t len = strlen(entry->d_name);
        --*budget;
        if (strstr(entry->d_name, part) != NULL && len >= strlen(end) &&
            strcmp(entry->d_name + len - strlen(end), end) == 0)
            count++;
    }
    if (listing != NULL)
        closedir(listing);
    return count;
}

static void write_extension(const char *home, const char *agent_dir, struct json_out *out)
{
    char path[PATH_MAX];
    unsigned budget = FACTS_ENTRIES_MAX;
    bool installed = settings_name_us(agent_dir);
    if (!installed && facts_join(path, sizeof path, agent_dir, "extensions"))
        installed = count_names(path, our_name, "", &budget) > 0;
    json_out_member_bool(out, "extension_installed", installed);
    uint64_t pushed = facts_join(path, sizeof path, home, ".pi/agent/shepherdr/ext")
                          ? count_names(path, "pi-ext-", ".mjs", &budget)
                          : 0;
    add_number(out, "extension_pushed", pushed);
}

static void write_integration(const char *agent_dir, struct json_out *out)
{
    static const char mark[] = "HERDR_INTEGRATION_VERSION=";
    char path[PATH_MAX];
    size_t len = 0;
    if (!facts_join(path, sizeof path, agent_dir, "extensions/herdr-agent-state.ts"))
        return;
    char *text = facts_read(path, INTEGRATION_BYTES_MAX, &len);
    const char *at = text != NULL ? strstr(text, mark) : NULL;
    /* A file from before versions were written counts as the oldest. */
    uint64_t version = 0;
    for (at = at != NULL ? at + sizeof mark - 1 : NULL;
         at != NULL && *at >= '0' && *at <= '9' && version < 100000; at++)
        version = version * 10 + (uint64_t)(*at - '0');
    if (text != NULL && len > 0)
        json_out_member_u64(out, "integration", version);
    free(text);
}

/* sessions/<one directory for each working directory>/<session>.jsonl */
static void write_sessions(const char *agent_dir, struct json_out *out)
{
    char root[PATH_MAX];
    char path[PATH_MAX];
    unsigned budget = FACTS_ENTRIES_MAX;
    uint64_t count = 0;
    if (!facts_join(root, sizeof root, agent_dir, "sessions"))
        root[0] = '\0';
    DIR *listing = opendir(root);
    bool readable = listing != NULL || errno == ENOENT;
    while (listing != NULL && budget > 0) {
        const struct dirent *entry = readdir(listing);
        if (entry == NULL)
            break;
        budget--;
        if (entry->d_name[0] != '.' && facts_join(path, sizeof path, root, entry->d_name))
            count += count_names(path, "", ".jsonl", &budget);
    }
    if (listing != NULL)
        closedir(listing);
    json_out_member_string(out, "sessions_dir", root);
    json_out_member_bool(out, "sessions_readable", readable);
    add_number(out, "sessions", count);
}

void facts_write(const struct identity *identity, const char *agent_dir, const char *program,
                 struct json_out *out)
{
    char own_agent_dir[PATH_MAX];
    char helper[PATH_MAX] = "";
    struct timespec now;
    if (agent_dir == NULL) {
        if (!facts_join(own_agent_dir, sizeof own_agent_dir, identity->home, ".pi/agent"))
            own_agent_dir[0] = '\0';
        agent_dir = own_agent_dir;
    }
    if (program != NULL && !sweep_own_path(helper, sizeof helper, program))
        helper[0] = '\0';
    clock_gettime(CLOCK_REALTIME, &now);
    add_number(out, "unix_ms", (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
    json_out_member_string(out, "system", identity->system);
    json_out_member_string(out, "host", identity->host);
    write_home(identity, out);
    write_disk(helper, identity->home, out);
    write_helper(helper, program, out);
    write_programs(identity->home, out);
    write_extension(identity->home, agent_dir, out);
    write_integration(agent_dir, out);
    write_sessions(agent_dir, out);
}
