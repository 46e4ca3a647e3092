/*
 * The channel while the command runs: bytes between libssh and the two queues.
 *
 * Any call of libssh may read from the socket; what came is handed to a callback, so that nothing
 * waits in libssh for a socket that does not become readable again. What the loop side has no room
 * for stays with libssh (held), whose window then closes.
 */
#include "transport/transport_libssh_worker.h"

#include "base/alloc.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NS_OF_MS 1000000u
#define READ_BYTES (16 * 1024)

/* What is given to libssh at once: it keeps all that the window allows, before any later byte. */
#define WRITE_BYTES (64 * 1024)

/* After the channel's end of output, time for its exit status. */
#define STATUS_MS 1000

/* Of standard error in the error's cause; the diagnostic has more. */
#define CAUSE_BYTES 700

struct shp_libssh_pump {
    struct shp_libssh_run *run;
    struct shp_libssh_queue out; /* taken from to_ssh; the first done bytes are written */
    size_t done;
    bool closing; /* the loop side wants the end */
    bool closing_seen;
    bool eof_sent;
    bool held; /* libssh has output that there was no room for */
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

static void on_eof(ssh_session session, ssh_channel channel, void *user)
{
    struct shp_libssh_run *run = user;

    (void)session;
    (void)channel;
    run->eof = true;
}

/* ---- the command's output ----------------------------------------------------------------- */

/* How many of these bytes there was room for; without room the loop side wakes us later. */
static size_t hand_over(struct shp_libssh_pump *pump, const uint8_t *data, size_t len)
{
    struct shp_libssh_worker *worker = pump->run->worker;
    size_t room;
    bool good;

    pump->run->heard = true;
    if (pump->closing)
        return len; /* dropped */
    uv_mutex_lock(&worker->lock);
    room = worker->from_ssh.len < SHP_TRANSPORT_HIGH_BYTES
               ? SHP_TRANSPORT_HIGH_BYTES - worker->from_ssh.len
               : 0;
    if (room < len)
        worker->loop_is_full = true;
    else
        room = len;
    good = shp_libssh_queue_put(&worker->from_ssh, data, room);
    if (good && room > 0 && worker->from_ssh.len == room && worker->async != NULL)
        uv_async_send(worker->async);
    uv_mutex_unlock(&worker->lock);
    if (!good)
        shp_libssh_fail(pump->run, SHP_CODE_OUT_OF_MEMORY, "connection", "no memory");
    return good ? room : len;
}

/* Returns what is used up of the bytes; libssh keeps the others and shows them again with more. */
static int on_data(ssh_session session, ssh_channel channel, void *data, uint32_t len,
                   int is_stderr, void *user)
{
    struct shp_libssh_run *run = user;
    size_t used = 0;

    (void)session;
    (void)channel;
    if (is_stderr) {
        shp_tail_add(&run->tail, data, len);
        return (int)len;
    }
    if (run->pump == NULL) { /* before the command's start was confirmed */
        run->early = true;
        return 0;
    }
    used = hand_over(run->pump, data, len);
    run->pump->held = used < len;
    return (int)used;
}

void shp_libssh_channel_watch(struct shp_libssh_run *run)
{
    struct ssh_channel_callbacks_struct *callbacks = &run->callbacks;

    memset(callbacks, 0, sizeof(*callbacks));
    callbacks->userdata = run;
    callbacks->channel_data_function = on_data;
    callbacks->channel_eof_function = on_eof;
    callbacks->channel_exit_status_function = on_exit_status;
    callbacks->channel_exit_signal_function = on_exit_signal;
    callbacks->channel_close_function = on_close;
    ssh_callbacks_init(callbacks);
    ssh_set_channel_callbacks(run->channel, callbacks);
}

static size_t room_for(struct shp_libssh_pump *pump)
{
    struct shp_libssh_worker *worker = pump->run->worker;
    size_t room;

    if (pump->closing)
        return READ_BYTES;
    uv_mutex_lock(&worker->lock);
    room = worker->from_ssh.len < SHP_TRANSPORT_HIGH_BYTES
               ? SHP_TRANSPORT_HIGH_BYTES - worker->from_ssh.len
               : 0;
    worker->loop_is_full = room == 0;
    uv_mutex_unlock(&worker->lock);
    return room < READ_BYTES ? room : READ_BYTES;
}

static void take_held(struct shp_libssh_pump *pump)
{
    struct shp_libssh_run *run = pump->run;
    uint8_t buffer[READ_BYTES];

    while (pump->held) {
        /* This may call back, which uses room up: so the room is counted after it. */
        int there = ssh_channel_poll(run->channel, 0);
        size_t room = there > 0 ? room_for(pump) : 0;
        int len;

        pump->held = there > 0;
        if (room == 0)
            return;
        if (room > (size_t)there)
            room = (size_t)there;
        len = ssh_channel_read_nonblocking(run->channel, buffer, (uint32_t)room, 0);
        pump->held = len > 0;
        if (len > 0)
            hand_over(pump, buffer, (size_t)len);
    }
}

/* Lets libssh look at its socket; the callbacks above get what comes. */
static void look_at_socket(struct shp_libssh_pump *pump)
{
    struct shp_libssh_run *run = pump->run;

    /* Nothing of standard error is ever kept, so this looks at the socket; after the end of output
     * only the other does. */
    if (run->eof)
        ssh_channel_get_exit_status(run->channel);
    else
        ssh_channel_poll(run->channel, 1);
}

/* ---- its input ---------------------------------------------------------------------------- */

/* Whether there is something to write; looks at what the loop side wants in any case. */
static bool take(struct shp_libssh_pump *pump)
{
    struct shp_libssh_worker *worker = pump->run->worker;
    struct shp_libssh_queue done = pump->out;

    uv_mutex_lock(&worker->lock);
    pump->closing = worker->close_wanted;
    if (pump->done >= pump->out.len) {
        done.len = 0;
        pump->done = 0;
        pump->out = worker->to_ssh;
        worker->to_ssh = done;
        if (worker->ssh_is_full && worker->async != NULL) {
            worker->ssh_is_full = false;
            worker->room_made = true;
            uv_async_send(worker->async);
        }
    }
    uv_mutex_unlock(&worker->lock);
    return pump->out.len > 0;
}

static void write_input(struct shp_libssh_pump *pump)
{
    struct shp_libssh_run *run = pump->run;

    while (take(pump) && (ssh_get_poll_flags(run->session) & SSH_WRITE_PENDING) == 0) {
        size_t left = pump->out.len - pump->done;
        int len = ssh_channel_write(run->channel, pump->out.data + pump->done,
                                    (uint32_t)(left < WRITE_BYTES ? left : WRITE_BYTES));

        if (len <= 0)
            return;
        pump->done += (size_t)len;
        /* libssh writes only once it has seen that it can. */
        look_at_socket(pump);
    }
}

/* ---- life --------------------------------------------------------------------------------- */

static void begin_close(struct shp_libssh_pump *pump)
{
    pump->closing_seen = true;
    pump->run->deadline_ns = uv_hrtime() + (uint64_t)SHP_TRANSPORT_FLUSH_MS * NS_OF_MS;
}

/* All was written, or its time is over: the command sees the end of its input. */
static void end_input(struct shp_libssh_pump *pump)
{
    if (pump->eof_sent)
        return;
    pump->eof_sent = true;
    ssh_channel_send_eof(pump->run->channel);
    pump->run->deadline_ns = uv_hrtime() + (uint64_t)SHP_TRANSPORT_EXIT_MS * NS_OF_MS;
}

/* The session is gone, and the loop side has not taken what came before. */
static bool wait_for_loop(struct shp_libssh_pump *pump)
{
    struct pollfd wake = {.fd = pump->run->worker->wake[0], .events = POLLIN};

    take_held(pump);
    if (!pump->held)
        return false;
    poll(&wake, 1, -1);
    shp_libssh_drain_wake(pump->run->worker);
    return true;
}

/* False: it is over. */
static bool wait_and_read(struct shp_libssh_pump *pump)
{
    struct shp_libssh_run *run = pump->run;

    switch (shp_libssh_wait(run)) {
    case SHP_LIBSSH_READY:
        if (run->socket_ready)
            look_at_socket(pump);
        return true;
    case SHP_LIBSSH_TIMEOUT:
        if (!pump->closing || pump->eof_sent)
            return false;
        end_input(pump);
        return true;
    case SHP_LIBSSH_CANCELLED:
        return false;
    case SHP_LIBSSH_GONE:
        return wait_for_loop(pump);
    }
    return false;
}

/* False: it is over. */
static bool turn(struct shp_libssh_pump *pump)
{
    struct shp_libssh_run *run = pump->run;
    bool ended;

    take_held(pump);
    write_input(pump);
    if (run->error.code != 0)
        return false;
    if (pump->closing && !pump->closing_seen)
        begin_close(pump);
    if (pump->closing && pump->done >= pump->out.len)
        end_input(pump);
    ended = run->eof && !pump->held;
    if (ended && (run->closed || run->exited))
        return false;
    if (ended && run->deadline_ns == 0)
        run->deadline_ns = uv_hrtime() + (uint64_t)STATUS_MS * NS_OF_MS;
    return wait_and_read(pump);
}

static void judge(struct shp_libssh_pump *pump)
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
    else if (run->eof && run->closed)
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
    struct shp_libssh_pump *pump = shp_calloc(1, sizeof(*pump));

    if (pump == NULL) {
        shp_libssh_fail(run, SHP_CODE_OUT_OF_MEMORY, "channel", "no memory");
        return;
    }
    pump->run = run;
    pump->held = run->early;
    run->pump = pump;
    uv_mutex_lock(&worker->lock);
    worker->opened = true;
    uv_mutex_unlock(&worker->lock);
    shp_libssh_phase(run, SHP_SSH_PHASE_RUNNING, 0);
    while (turn(pump))
        continue;
    judge(pump);
    run->pump = NULL;
    shp_free(pump->out.data);
    shp_free(pump);
}
