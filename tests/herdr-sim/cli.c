#include "cli.h"

#include "options.h"
#include "server.h"
#include "util.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_BYTES_MAX (32u * 1024 * 1024)
#define ANSWER_SECONDS 10

int cli_usage(const char *why)
{
    fprintf(stderr, "error: %s\n\nUsage: herdr [--session NAME] <command>\n", why);
    return 2;
}

/* The answer line, or NULL when there is no server or it closed without one. Caller frees. */
static char *call(const char *socket_path, const char *line)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = ANSWER_SECONDS};
    if (strlen(socket_path) >= sizeof a.sun_path)
        return NULL;
    strcpy(a.sun_path, socket_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return NULL;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    struct str answer = {0};
    char chunk[16384];
    ssize_t n = -1;
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
        send(fd, line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line)) {
        while (answer.len < ANSWER_BYTES_MAX && (n = recv(fd, chunk, sizeof chunk, 0)) > 0)
            str_add(&answer, chunk, (size_t)n);
    }
    close(fd);
    if (!answer.len)
        str_free(&answer);
    return answer.data;
}

static int request(const struct paths *paths, const char *method)
{
    char *line =
        sim_format("{\"id\":\"cli:%s\",\"method\":\"%s\",\"params\":{}}\n", method, method);
    char *answer = call(paths->socket, line);
    free(line);
    if (!answer) {
        fprintf(stderr,
                "{\"id\":\"cli:%s\",\"error\":{\"code\":\"server_not_running\","
                "\"message\":\"no Herdr server is running for this session\"}}\n",
                method);
        return 1;
    }
    cJSON *j = cJSON_Parse(answer);
    bool failed = !cJSON_GetObjectItemCaseSensitive(j, "result");
    fputs(answer, failed ? stderr : stdout);
    cJSON_Delete(j);
    free(answer);
    return failed ? 1 : 0;
}

static cJSON *client_status(const struct paths *paths)
{
    struct options o;
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = '\0';
    options_init(&o);
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "version", o.version);
    cJSON_AddStringToObject(j, "channel", "stable");
    cJSON_AddNumberToObject(j, "protocol", (double)o.protocol);
    cJSON_AddNumberToObject(j, "endpoint_protocol_generation", 1);
    cJSON *caps = cJSON_AddArrayToObject(j, "endpoint_capabilities");
    cJSON_AddItemToArray(caps, cJSON_CreateString("surface_interest"));
    cJSON_AddItemToArray(caps, cJSON_CreateString("health_check"));
    cJSON_AddStringToObject(j, "binary", exe);
    cJSON_AddStringToObject(j, "session", paths->session);
    return j;
}

static cJSON *server_status(const struct paths *paths)
{
    struct options o;
    options_init(&o);
    char *answer =
        call(paths->socket, "{\"id\":\"cli:status\",\"method\":\"ping\",\"params\":{}}\n");
    cJSON *pong = answer ? cJSON_Parse(answer) : NULL;
    cJSON *result = cJSON_GetObjectItemCaseSensitive(pong, "result");
    cJSON *version = cJSON_GetObjectItemCaseSensitive(result, "version");
    cJSON *protocol = cJSON_GetObjectItemCaseSensitive(result, "protocol");
    cJSON *caps = cJSON_GetObjectItemCaseSensitive(result, "capabilities");
    bool running = result != NULL;
    bool same = cJSON_IsNumber(protocol) && (int64_t)cJSON_GetNumberValue(protocol) == o.protocol;
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "status", running ? "running" : "not_running");
    cJSON_AddBoolToObject(j, "running", running);
    cJSON_AddItemToObject(j, "version", version ? cJSON_Duplicate(version, 1) : cJSON_CreateNull());
    cJSON_AddItemToObject(j, "protocol",
                          protocol ? cJSON_Duplicate(protocol, 1) : cJSON_CreateNull());
    cJSON_AddItemToObject(j, "capabilities", caps ? cJSON_Duplicate(caps, 1) : cJSON_CreateNull());
    cJSON_AddItemToObject(j, "compatible", running ? cJSON_CreateBool(same) : cJSON_CreateNull());
    cJSON_AddItemToObject(j, "endpoint_compatible",
                          running ? cJSON_CreateTrue() : cJSON_CreateNull());
    cJSON_AddStringToObject(j, "socket", paths->socket);
    cJSON_AddStringToObject(j, "session", paths->session);
    cJSON_AddBoolToObject(j, "restart_needed", running && !same);
    cJSON_AddBoolToObject(j, "server_binary_stale", false);
    cJSON_Delete(pong);
    free(answer);
    return j;
}

static void print_json(cJSON *j)
{
    char *text = cJSON_Print(j);
    puts(text);
    free(text);
}

static void print_prose(const char *title, const cJSON *j)
{
    printf("%s:\n", title);
    for (const cJSON *item = j->child; item; item = item->next) {
        if (cJSON_IsObject(item) || cJSON_IsArray(item))
            continue;
        char *text = cJSON_IsString(item) ? NULL : cJSON_PrintUnformatted(item);
        printf("  %s: %s\n", item->string, text ? text : item->valuestring);
        free(text);
    }
}

int cli_status(const struct paths *paths, int argc, char **argv)
{
    const char *what = NULL;
    bool json = false;
    for (int i = 0; i < argc; i++) {
        if (!strcmp(argv[i], "--json"))
            json = true;
        else if (!what && (!strcmp(argv[i], "server") || !strcmp(argv[i], "client")))
            what = argv[i];
        else
            return cli_usage("unexpected argument to status");
    }
    cJSON *all = cJSON_CreateObject();
    cJSON *client = client_status(paths), *server = server_status(paths);
    cJSON_AddItemToObject(all, "client", client);
    cJSON_AddItemToObject(all, "server", server);
    cJSON *update = cJSON_AddObjectToObject(all, "update");
    cJSON_AddBoolToObject(update, "restart_needed", false);
    cJSON_AddBoolToObject(update, "server_binary_stale", false);
    const cJSON *one = !what ? NULL : !strcmp(what, "server") ? server : client;
    if (json) {
        cJSON *shown = one ? cJSON_Duplicate(one, 1) : cJSON_Duplicate(all, 1);
        print_json(shown);
        cJSON_Delete(shown);
    } else if (one) {
        print_prose(what, one);
    } else {
        print_prose("client", client);
        print_prose("server", server);
    }
    cJSON_Delete(all);
    return 0;
}

static void add_session(cJSON *list, const struct paths *paths, const char *name)
{
    char *socket_path = paths_session_socket(paths, name);
    char *dir = sim_format("%.*s", (int)(strrchr(socket_path, '/') - socket_path), socket_path);
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "name", name);
    cJSON_AddBoolToObject(j, "default", !strcmp(name, "default"));
    cJSON_AddBoolToObject(j, "running", socket_alive(socket_path));
    cJSON_AddStringToObject(j, "socket_path", socket_path);
    cJSON_AddStringToObject(j, "session_dir", dir);
    cJSON_AddItemToArray(list, j);
    free(socket_path);
    free(dir);
}

int cli_session_list(const struct paths *paths)
{
    cJSON *j = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(j, "sessions");
    add_session(list, paths, "default");
    char *dir = sim_format("%s/sessions", paths->config_base);
    DIR *d = opendir(dir);
    struct dirent *e;
    while (d && (e = readdir(d)))
        if (session_name_valid(e->d_name) && strcmp(e->d_name, "default") != 0)
            add_session(list, paths, e->d_name);
    if (d)
        closedir(d);
    free(dir);
    print_json(j);
    cJSON_Delete(j);
    return 0;
}

static bool words(int argc, char **argv, const char *a, const char *b, const char *c)
{
    const char *want[] = {a, b, c};
    int n = c ? 3 : b ? 2 : 1;
    for (int i = 0; i < n; i++)
        if (i >= argc || strcmp(argv[i], want[i]) != 0)
            return false;
    return argc == n;
}

static int command(struct paths *paths, int argc, char **argv)
{
    if (words(argc, argv, "server", NULL, NULL)) {
        int rc = server_run(paths);
        return rc;
    }
    if (words(argc, argv, "server", "stop", NULL))
        return request(paths, "server.stop");
    if (words(argc, argv, "api", "snapshot", NULL))
        return request(paths, "session.snapshot");
    if (words(argc, argv, "session", "list", "--json"))
        return cli_session_list(paths);
    if (!strcmp(argv[0], "status"))
        return cli_status(paths, argc - 1, argv + 1);
    if (!strcmp(argv[0], "machine"))
        return cli_machine(paths, argc - 1, argv + 1);
    if (!strcmp(argv[0], "integration"))
        return cli_integration(argc - 1, argv + 1);
    return cli_usage("unknown command");
}

int cli_run(int argc, char **argv)
{
    const char *session = NULL;
    int i = 1;
    while (i < argc && argv[i][0] == '-') {
        if (!strcmp(argv[i], "--version") || !strcmp(argv[i], "-V")) {
            struct options o;
            options_init(&o);
            printf("herdr %s\n", o.version);
            return 0;
        }
        if (strcmp(argv[i], "--session") != 0 || i + 1 >= argc)
            return cli_usage("unknown option");
        session = argv[i + 1];
        if (!session_name_valid(session))
            return cli_usage("invalid session name");
        i += 2;
    }
    if (i >= argc)
        return cli_usage("a command is needed");
    struct paths paths;
    paths_resolve(&paths, session);
    int rc = command(&paths, argc - i, argv + i);
    paths_free(&paths);
    return rc;
}
