#include "controller/clock.h"

#include <stddef.h>
#include <time.h>

static void (*replaced)(struct clock_times *out);

static uint64_t now_ms(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t clock_unix_ms(void)
{
    return now_ms(CLOCK_REALTIME);
}

void clock_read(struct clock_times *out)
{
    if (replaced) {
        replaced(out);
        return;
    }
    out->wall_ms = now_ms(CLOCK_REALTIME);
    out->boot_ms = now_ms(CLOCK_BOOTTIME);
    out->monotonic_ms = now_ms(CLOCK_MONOTONIC);
}

void clock_replace(void (*source)(struct clock_times *out))
{
    replaced = source;
}
