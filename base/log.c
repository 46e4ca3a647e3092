#include "base/log.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};

static void stderr_sink(enum shp_log_level level, const char *line, size_t len, void *user)
{
    (void)level;
    (void)user;
    /* One write per line keeps lines of several threads apart; a log that cannot be written is
     * no reason to fail. */
    ssize_t written = write(STDERR_FILENO, line, len);
    (void)written;
}

static struct {
    shp_log_sink_fn sink;
    void *user;
    enum shp_log_level level;
} state = {stderr_sink, NULL, SHP_LOG_WARN};

void shp_log_set_sink(shp_log_sink_fn sink, void *user)
{
    state.sink = sink ? sink : stderr_sink;
    state.user = user;
}

void shp_log_set_level(enum shp_log_level level)
{
    state.level = level;
}

bool shp_log_enabled(enum shp_log_level level)
{
    return level <= state.level;
}

int shp_log_level_from_name(const char *name)
{
    for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++)
        if (strcmp(level_names[i], name) == 0)
            return (int)i;
    return -1;
}

static size_t print_time(char *out, size_t size)
{
    struct timespec now;
    struct tm parts;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0 || !gmtime_r(&now.tv_sec, &parts))
        return 0;
    size_t len = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &parts);
    int more = snprintf(out + len, size - len, ".%03dZ ", (int)(now.tv_nsec / 1000000));
    return more > 0 && (size_t)more < size - len ? len + (size_t)more : len;
}

void shp_log(enum shp_log_level level, const char *module, const char *machine, const char *format,
             ...)
{
    char raw[SHP_LOG_LINE_MAX];
    char line[SHP_LOG_LINE_MAX + 1];
    if (!shp_log_enabled(level))
        return;

    size_t used = print_time(raw, 64);
    int len = snprintf(raw + used, sizeof(raw) - used, "%-5s %s %s%s%s", level_names[level], module,
                       machine ? "machine=" : "", machine ? machine : "", machine ? " " : "");
    used += len > 0 ? (size_t)len : 0;
    if (used < sizeof(raw)) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(raw + used, sizeof(raw) - used, format, args);
        va_end(args);
    }
    raw[sizeof(raw) - 1] = '\0';
    size_t clean = shp_text_clean(line, sizeof(line) - 1, raw, strlen(raw));
    line[clean] = '\n';
    line[clean + 1] = '\0';
    state.sink(level, line, clean + 1, state.user);
}

bool shp_log_allow(struct shp_log_limit *limit, uint64_t now_ms, uint32_t *dropped)
{
    if (now_ms - limit->since_ms >= limit->period_ms) {
        limit->since_ms = now_ms;
        limit->count = 0;
    }
    if (limit->count >= limit->burst) {
        limit->dropped++;
        return false;
    }
    limit->count++;
    if (dropped)
        *dropped = limit->dropped;
    limit->dropped = 0;
    return true;
}
