/*
 * Log lines: `time level module machine=... words`, one line each, to standard error unless a sink
 * is set. Payloads, prompts and secrets are named by size and id, never shown.
 *
 * The state is process-wide and set at start; lines may come from any thread, and each reaches the
 * sink whole.
 */
#ifndef SHP_BASE_LOG_H
#define SHP_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHP_LOG_LINE_MAX 1024 /* longer lines are cut */

enum shp_log_level {
    SHP_LOG_ERROR, /* somebody must act */
    SHP_LOG_WARN,  /* handled, yet surprising */
    SHP_LOG_INFO,  /* life-cycle */
    SHP_LOG_DEBUG, /* decisions */
    SHP_LOG_TRACE, /* frames, headers only */
};

/* line ends with a newline and is NUL-terminated; borrowed for the call. */
typedef void (*shp_log_sink_fn)(enum shp_log_level level, const char *line, size_t len, void *user);

/* NULL: standard error. */
void shp_log_set_sink(shp_log_sink_fn sink, void *user);

/* Lines above this level are dropped. The default is SHP_LOG_WARN. */
void shp_log_set_level(enum shp_log_level level);
bool shp_log_enabled(enum shp_log_level level);

/* "error", "warn", "info", "debug", "trace"; -1: no level has this name. */
int shp_log_level_from_name(const char *name);

/* machine may be NULL. Control characters in the line are replaced. */
void shp_log(enum shp_log_level level, const char *module, const char *machine, const char *format,
             ...) __attribute__((format(printf, 4, 5)));

/*
 * For lines that a peer can cause at will: allow burst lines per period. Zero-initialize, then set
 * burst and period_ms.
 */
struct shp_log_limit {
    uint32_t burst;
    uint32_t period_ms;
    uint64_t since_ms;
    uint32_t count;
    uint32_t dropped;
};

/*
 * May this line be written? *dropped (may be NULL) tells how many were not since the last one that
 * was.
 */
bool shp_log_allow(struct shp_log_limit *limit, uint64_t now_ms, uint32_t *dropped);

#endif
