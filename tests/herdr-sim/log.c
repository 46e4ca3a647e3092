#include "log.h"

#include "util.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int log_fd = -1;
static uint64_t log_start_ms;

int log_open(const char *path)
{
    log_start_ms = now_ms();
    if (!path || !*path)
        return 0;
    log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return log_fd < 0 ? -errno : 0;
}

void log_line(const char *dir, uint64_t conn, const char *line, size_t len)
{
    if (log_fd < 0)
        return;
    while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
        len--;
    char *copy = sim_format("%.*s", (int)len, line);
    cJSON *parsed = cJSON_ParseWithOpts(copy, NULL, 1);
    char *shown;
    if (parsed) {
        shown = cJSON_PrintUnformatted(parsed);
    } else {
        cJSON *text = cJSON_CreateString(copy);
        shown = cJSON_PrintUnformatted(text);
        cJSON_Delete(text);
    }
    char *head =
        sim_format("{\"t\":%llu,\"dir\":\"%s\",\"conn\":%llu,\"line\":",
                   (unsigned long long)(now_ms() - log_start_ms), dir, (unsigned long long)conn);
    struct str out = {0};
    str_puts(&out, head);
    str_puts(&out, shown);
    str_puts(&out, "}\n");
    /* One write keeps lines whole when several stand-ins share a file. */
    ssize_t n = write(log_fd, out.data, out.len);
    (void)n;
    str_free(&out);
    free(head);
    free(shown);
    free(copy);
    cJSON_Delete(parsed);
}

void log_close(void)
{
    if (log_fd >= 0)
        close(log_fd);
    log_fd = -1;
}
