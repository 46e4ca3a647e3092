/*
 * HERDR_SIM_LOG: one JSON line per request, response and event,
 * {"t":ms since start,"dir":"request|response|event","conn":N,"line":<JSON or string>}.
 */
#ifndef HERDR_SIM_LOG_H
#define HERDR_SIM_LOG_H

#include <stddef.h>
#include <stdint.h>

int log_open(const char *path); /* 0 or -errno; NULL turns it off */
/* line: the exact bytes of one line, with or without its newline. Written whole, at once. */
void log_line(const char *dir, uint64_t conn, const char *line, size_t len);
void log_close(void);

#endif
