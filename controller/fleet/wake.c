#include "controller/fleet/wake.h"

#include <signal.h>
#include <stdlib.h>

#include "controller/xalloc.h"

struct wake {
    wake_cb cb;
    wake_cb closed;
    void *user;
    struct clock_times seen;
    bool told; /* at told_ms (monotonic) */
    uint64_t told_ms;
    uv_timer_t timer;
    uv_signal_t signal;
    int handles_open;
};

bool wake_lost_time(const struct clock_times *before, const struct clock_times *after)
{
    /* A clock that was set back tells nothing. */
    int64_t monotonic = (int64_t)(after->monotonic_ms - before->monotonic_ms);
    int64_t boot = (int64_t)(after->boot_ms - before->boot_ms);
    int64_t wall = (int64_t)(after->wall_ms - before->wall_ms);
    return boot - monotonic > WAKE_JUMP_MS || wall - monotonic > WAKE_JUMP_MS ||
           monotonic > WAKE_LOOK_MS + WAKE_JUMP_MS;
}

static void tell(struct wake *wake)
{
    uint64_t now_ms = wake->seen.monotonic_ms;
    if (wake->told && now_ms - wake->told_ms < WAKE_QUIET_MS)
        return;
    wake->told = true;
    wake->told_ms = now_ms;
    wake->cb(wake->user);
}

void wake_look(struct wake *wake)
{
    struct clock_times now;
    clock_read(&now);
    bool lost = wake_lost_time(&wake->seen, &now);
    wake->seen = now;
    if (lost)
        tell(wake);
}

static void on_timer(uv_timer_t *timer)
{
    wake_look(timer->data);
}

static void on_continued(uv_signal_t *signal, int number)
{
    (void)number;
    struct wake *wake = signal->data;
    clock_read(&wake->seen);
    tell(wake);
}

struct wake *wake_new(uv_loop_t *loop, wake_cb cb, void *user)
{
    struct wake *wake = xcalloc(1, sizeof(*wake));
    wake->cb = cb;
    wake->user = user;
    clock_read(&wake->seen);
    uv_timer_init(loop, &wake->timer);
    wake->timer.data = wake;
    wake->handles_open = 1;
    uv_timer_start(&wake->timer, on_timer, WAKE_LOOK_MS, WAKE_LOOK_MS);
    uv_unref((uv_handle_t *)&wake->timer);
    /* Without it (no descriptors left) the clocks still tell. */
    if (uv_signal_init(loop, &wake->signal) == 0) {
        wake->signal.data = wake;
        wake->handles_open = 2;
        uv_signal_start(&wake->signal, on_continued, SIGCONT);
        uv_unref((uv_handle_t *)&wake->signal);
    }
    return wake;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct wake *wake = handle->data;
    if (--wake->handles_open > 0)
        return;
    wake->closed(wake->user);
    free(wake);
}

void wake_close(struct wake *wake, wake_cb closed)
{
    wake->closed = closed;
    if (wake->handles_open == 2)
        uv_close((uv_handle_t *)&wake->signal, on_handle_closed);
    uv_close((uv_handle_t *)&wake->timer, on_handle_closed);
}
