#include "transport/transport_ssh_run.h"

#include "base/alloc.h"

#include <string.h>

struct shp_ssh_run {
    struct shp_transport *child;
    uv_timer_t timer;
    char *output;
    size_t output_len;
    bool timed_out;
    void (*done)(const struct shp_ssh_run_end *end, void *user);
    void *user;
};

static void on_read(struct shp_transport *child, const uint8_t *data, size_t len, void *user)
{
    struct shp_ssh_run *run = user;

    (void)child;
    if (len > SHP_SSH_RUN_OUTPUT_BYTES_MAX - run->output_len)
        len = SHP_SSH_RUN_OUTPUT_BYTES_MAX - run->output_len;
    memcpy(run->output + run->output_len, data, len);
    run->output_len += len;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct shp_ssh_run *run = handle->data;

    shp_free(run->output);
    shp_free(run);
}

static void on_closed(struct shp_transport *child, const struct shp_transport_end *end, void *user)
{
    struct shp_ssh_run *run = user;
    struct shp_ssh_run_end what = {
        .started = end->exited,
        .timed_out = run->timed_out,
        .exit_status = end->exit_status,
        .term_signal = end->term_signal,
        .output = run->output,
        .output_len = run->output_len,
        .diagnostic = end->diagnostic,
        .cause = end->error.cause,
    };

    run->child = NULL;
    run->done(&what, run->user);
    shp_transport_free(child);
    uv_close((uv_handle_t *)&run->timer, on_timer_closed);
}

static void on_timeout(uv_timer_t *timer)
{
    struct shp_ssh_run *run = timer->data;

    run->timed_out = true;
    shp_ssh_run_cancel(run);
}

void shp_ssh_run_cancel(struct shp_ssh_run *run)
{
    if (run->child != NULL)
        shp_transport_close(run->child);
}

int shp_ssh_run_start(struct shp_ssh_run **out, uv_loop_t *loop, const char *const *argv,
                      const char *set, uint32_t timeout_ms,
                      void (*done)(const struct shp_ssh_run_end *end, void *user), void *user)
{
    static const struct shp_transport_callbacks callbacks = {.on_read = on_read,
                                                             .on_closed = on_closed};
    /* argv is copied, not written to. */
    struct shp_process_options options = {.argv = (char *const *)(uintptr_t)argv, .set = set};
    struct shp_ssh_run *run = shp_calloc(1, sizeof(*run));
    int err = SHP_ERR_NOMEM;

    if (run == NULL)
        return err;
    run->done = done;
    run->user = user;
    run->output = shp_malloc(SHP_SSH_RUN_OUTPUT_BYTES_MAX);
    if (run->output != NULL)
        err = shp_transport_process_new(&run->child, loop, &options);
    if (err == SHP_OK)
        err = shp_transport_open(run->child, &callbacks, run);
    if (err != SHP_OK) {
        shp_transport_free(run->child);
        shp_free(run->output);
        shp_free(run);
        return err;
    }
    uv_timer_init(loop, &run->timer);
    run->timer.data = run;
    uv_timer_start(&run->timer, on_timeout, timeout_ms, 0);
    *out = run;
    return SHP_OK;
}
