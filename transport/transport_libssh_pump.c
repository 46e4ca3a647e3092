/*
 * The channel while the command runs: bytes between libssh and the two queues.
 *
 * Any call of libssh may read from the socket and keep what it read, without the socket becoming
 * readable again; so every turn goes round until nothing moves.
 */
#include "transport/transport_libssh_worker.h"

#include "base/alloc.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NS_OF_MS 1000000u
#define READ_BYTES (64 * 1024)

/* What is given to libssh at once: it keeps all that the window allows, before any later byte. */
#define WRITE_BYTES (64 * 1024)

/* After the channel's end of output, time for its exit status. */
#define STATUS_MS 1000

/* Of standard error in the error's cause; the diagnostic has more. */
#define CAUSE_BYTES 700

struct pump {
    struct shp_libssh_run *run;
    struct shp_libssh_queue out; /* taken from to_ssh; the first done bytes are written */
    size_t done;
    bool closing; /* the loop side wants the end */
    bool eof_sent;
    bool ended; /* no more output of the command */
    uint8_t buffer[READ_BYTES];
};

/* ---- callbacks ---------------------------------------------------------------------------- */

static void on_exit_status(ssh_session session, ssh_channel channel, int status, void *user)
{
    struct shp_libssh_run *run = user;

    (void)session;
    (void)channel;
    run->exited = true;
    run->exit_status = status;
}

static int signal_number(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"ABRT", SIGABRT}, {"ALRM", SIGALRM}, {"FPE", SIGFPE},   {"HUP", SIGHUP},
                   {"ILL", SIGILL},   {"INT", SIGINT},   {"KILL", SIGKILL}, {"PIPE", SIGPIPE},
                   {"QUIT", SIGQUIT}, {"SEGV", SIGSEGV}, {"TERM", SIGTERM}, {"USR1", SIGUSR1},
                   {"USR2", SIGUSR2}};

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        if (strcmp(signals[i].name, name) == 0)
            return signals[i].number;
    }
    return SIGKILL;
}

static void on_exit_signal(ssh_session session, ssh_channel channel, const char *name, int core,
                           const char *message, const char *language, void *user)
{
    struct shp_libssh_run *run = user;

    (void)session;
    (void)channel;
    (void)core;
    (void)message;
    (void)language;
    run->exited = true;
    run->term_signal = signal_number(name);
}

static void on_close(ssh_session session, ssh_channel channel, void *user)
{
    struct shp_libssh_run *run = user;

    (void)session;
    (void)channel;
    run->closed = true;
}

void shp_libssh_channel_watch(struct shp_libssh_run *run)
{
    struct ssh_channel_callbacks_struct *callbacks = &run->callbacks;

    memset(callbacks, 0, sizeof(*callbacks));
    callbacks->userdata = run;
    callbacks->channel_exit_status_function = on_exit_status;
    callbacks->channel_exit_signal_function = on_exit_signal;
    callbacks->channel_close_function = on_close;
    ssh_callbacks_init(callbacks);
    ssh_set_channel_callbacks(run->channel, callbacks);
}

/* ---- the command's output ----------------------------------------------------------------- */

/* Room in from_ssh; without room the loop side wakes us when there is some. */
static size_t room(struct pump *pump)
{
    struct shp_libssh_worker *worker = pump->run->worker;
    size_t free_bytes;

    if (pump->closing)
        return READ_BYTES; /* dropped */
    uv_mutex_lock(&worker->lock);
    free_bytes = worker->from_ssh.len < SHP_TRANSPORT_HIGH_BYTES
                     ? SHP_TRANSPORT_HIGH_BYTES - worker->from_ssh.len
                     : 0;
    worker->loop_is_full = free_bytes == 0;
    uv_mutex_unlock(&worker->lock);
    return free_bytes < READ_BYTES ? free_bytes : READ_BYTES;
}

static bool hand_over(struct pump *pump, size_t len)
{
    struct shp_libssh_worker *worker = pump->run->worker;
    bool good;

    pump->run->heard = true;
    if (pump->closing)
        return true;
    uv_mutex_lock(&worker->lock);
    good = shp_libssh_queue_put(&worker->from_ssh, pump->buffer, len);
    if (good && worker->from_ssh.len == len && worker->async != NULL)
        uv_async_send(worker->async);
    uv_mutex_unlock(&worker->lock);
    if (!good)
        shp_libssh_fail(pump->run, SHP_CODE_OUT_OF_MEMORY, "connection", "no memory");
    return good;
}

/* Standard error is always read: what waits there would keep libssh from looking further. */
static bool read_errors(struct pump *pump)
{
    struct shp_libssh_run *run = pump->run;
    bool moved = false;
    int len;

    while ((len = ssh_channel_read_nonblocking(run->channel, pump->buffer, READ_BYTES, 1)) > 0) {
        shp_tail_add(&run->tail, (const char *)pump->buffer, (size_t)len);
        moved = true;
    }
    return moved;
}

static bool read_output(struct pump *pump)
{
    struct shp_libssh_run *run = pump->run;
    bool moved = false;

    while (!pump->ended) {
        size_t space = room(pump);
        int len;

        if (space == 0)
            break;
        len = ssh_channel_read_nonblocking(run->channel, pump->buffer, (uint32_t)space, 0);
        if (len == 0)
            break;
        if (len < 0) {
            /* EOF, or an error that the next look at the session finds. */
            pump->ended = len == SSH_EOF || ssh_channel_is_eof(run->channel);
            break;
        }
        moved = true;
        if (!hand_over(pump, (size_t)len))
            return false;
    }
    return moved;
}

/* ---- its input ---------------------------------------------------------------------------- */

static bool take(struct pump *pump)
{
    struct shp_libssh_worker *worker = pump->run->worker;
    struct shp_libssh_queue empty = pump->out;

    if (pump->done < pump->out.len)
        return true;
    empty.len = 0;
    pump->done = 0;
    uv_mutex_lock(&worker->lock);
    pump->out = worker->to_ssh;
    worker->to_ssh = empty;
    pump->closing = worker->close_wanted;
    if (worker->ssh_is_full && worker->async != NULL) {
        worker->ssh_is_full = false;
        worker->room_made = true;
        uv_async_send(worker->async);
    }
    uv_mutex_unlock(&worker->lock);
    return pump->out.len > 0;
}

static bool write_input(struct pump *pump)
{
    struct shp_libssh_run *run = pump->run;
    bool moved = false;

    while (take(pump) && (ssh_get_poll_flags(run->session) & SSH_WRITE_PENDING) == 0) {
        size_t left = pump->out.len - pump->done;
        int len = ssh_channel_write(run->channel, pump->out.data + pump->done,
                                    (uint32_t)(left < WRITE_BYTES ? left : WRITE_BYTES));

        if (len <= 0)
            break;
        pump->done += (size_t)len;
        moved = true;
    }
    return moved;
}

/* ---- life --------------------------------------------------------------------------------- */

static bool look_at_close(struct pump *pump)
{
    struct shp_libssh_worker *worker = pump->run->worker;
    bool before = pump->closing;

    uv_mutex_lock(&worker->lock);
    pump->closing = worker->close_wanted;
    uv_mutex_unlock(&worker->lock);
    if (pump->closing && !before)
        pump->run->deadline_ns = uv_hrtime() + (uint64_t)SHP_TRANSPORT_FLUSH_MS * NS_OF_MS;
    return pump->closing;
}

/* All was written, or its time is over: the command sees the end of its input. */
static void end_input(struct pump *pump)
{
    if (pump->eof_sent)
        return;
    pump->eof_sent = true;
    ssh_channel_send_eof(pump->run->channel);
    pump->run->deadline_ns = uv_hrtime() + (uint64_t)SHP_TRANSPORT_EXIT_MS * NS_OF_MS;
}

static void await_status(struct pump *pump)
{
    struct shp_libssh_run *run = pump->run;

    if (run->deadline_ns == 0)
        run->deadline_ns = uv_hrtime() + (uint64_t)STATUS_MS * NS_OF_MS;
    /* After the end of output reading looks at nothing; this does. */
    ssh_channel_get_exit_status(run->channel);
}

/* The session is gone, and the loop side has not taken what came before. */
static bool wait_for_loop(struct pump *pump)
{
    struct shp_libssh_worker *worker = pump->run->worker;
    struct pollfd wake = {.fd = worker->wake[0], .events = POLLIN};
    char bytes[64];

    if (pump->ended || room(pump) > 0)
        return false;
    poll(&wake, 1, -1);
    while (read(worker->wake[0], bytes, sizeof(bytes)) > 0)
        continue;
    return true;
}

/* False: it is over. */
static bool turn(struct pump *pump)
{
    struct shp_libssh_run *run = pump->run;
    bool moved = true;

    while (moved && run->error.code == 0) {
        moved = read_errors(pump);
        moved = read_output(pump) || moved;
        moved = write_input(pump) || moved;
    }
    if (run->error.code != 0)
        return false;
    if (look_at_close(pump) && pump->done >= pump->out.len && !take(pump))
        end_input(pump);
    if (pump->ended && !run->exited)
        await_status(pump);
    if (pump->ended && (run->closed || run->exited))
        return false;
    switch (shp_libssh_wait(run)) {
    case SHP_LIBSSH_READY:
        return true;
    case SHP_LIBSSH_TIMEOUT:
        if (!pump->closing || pump->eof_sent)
            return false;
        end_input(pump);
        return true;
    case SHP_LIBSSH_CANCELLED:
        break;
    case SHP_LIBSSH_GONE:
        /* What libssh has decoded already comes first. */
        return read_errors(pump) || read_output(pump) || wait_for_loop(pump);
    }
    return false;
}

static void judge(struct pump *pump)
{
    struct shp_libssh_run *run = pump->run;
    char what[96];
    char text[CAUSE_BYTES];

    if (pump->closing || run->error.code != 0 ||
        (run->exited && run->exit_status == 0 && run->term_signal == 0))
        return;
    if (run->term_signal != 0)
        snprintf(what, sizeof(what), "the remote command was killed by signal %d",
                 run->term_signal);
    else if (run->exited)
        snprintf(what, sizeof(what), "the remote command ended with exit status %lld",
                 (long long)run->exit_status);
    else if (pump->ended && run->closed)
        return;
    else {
        shp_libssh_fail(run, SHP_CODE_LINK_LOST, "connection", "the connection broke");
        run->error.outcome = SHP_OUTCOME_UNKNOWN;
        return;
    }
    shp_tail_clean(&run->tail, text, sizeof(text));
    shp_error_set(&run->error, SHP_CODE_LINK_LOST, NULL, "connection", "%s%s%s", what,
                  text[0] != '\0' ? ": " : "", text);
    if (run->heard)
        run->error.outcome = SHP_OUTCOME_UNKNOWN;
}

void shp_libssh_pump(struct shp_libssh_run *run)
{
    struct shp_libssh_worker *worker = run->worker;
    struct pump *pump = shp_calloc(1, sizeof(*pump));

    if (pump == NULL) {
        shp_libssh_fail(run, SHP_CODE_OUT_OF_MEMORY, "channel", "no memory");
        return;
    }
    pump->run = run;
    uv_mutex_lock(&worker->lock);
    worker->opened = true;
    uv_mutex_unlock(&worker->lock);
    shp_libssh_phase(run, SHP_SSH_PHASE_RUNNING, 0);
    while (turn(pump))
        continue;
    judge(pump);
    shp_free(pump->out.data);
    shp_free(pump);
}
