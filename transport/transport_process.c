/*
 * A child with three pipes.
 *
 *   RUNNING --close--> FLUSHING --written or 2 s--> LEAVING --2 s--> KILLED
 *      |                                            ^   |              |
 *      +---- its output ended, or ours broke -------+   +--- exit -----+--> REAPING --> CLOSING
 *
 * LEAVING: its input is closed, what it still prints is dropped. REAPING: it has exited, the last
 * of its standard error is read for REAP_MS (a grandchild may hold that pipe open for ever).
 * CLOSING: the handles are being closed, on_closed follows.
 */
#include "transport/transport_duplex.h"

#include "base/alloc.h"
#include "protocol/messages.h"
#include "transport/transport_tail.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAP_MS 500

extern char **environ;

enum phase { RUNNING, FLUSHING, LEAVING, KILLED, REAPING, CLOSING };

enum side { CHILD_IN, CHILD_OUT, CHILD_ERR, SIDES };

struct process {
    struct shp_transport base;
    struct shp_duplex duplex;
    char **argv;
    char **env;
    char *cwd;
    uv_process_t child;
    uv_pipe_t pipes[SIDES];
    bool pipe_open[SIDES];
    enum phase phase;
    bool spawned;
    bool exited;
    bool by_us;     /* closed by shp_transport_close */
    bool out_ended; /* its standard output */
    bool err_ended;
    bool heard;    /* something was read since the exit */
    bool out_late; /* waited once more for what it had written and nobody had read */
    bool err_late;
    int64_t exit_status;
    int term_signal;
    int failure;      /* libuv error of spawn, read or write */
    const char *step; /* what failed */
    unsigned handles;
    bool unopened;
    void (*on_stderr)(const char *data, size_t len, void *user);
    void *stderr_user;
    struct shp_tail tail; /* of standard error, when nobody else takes it */
};

static void leave(struct shp_duplex *duplex);

static struct process *of(struct shp_duplex *duplex)
{
    return (struct process *)duplex->transport;
}

/* ---- options ------------------------------------------------------------------------------ */

static void free_strings(char **strings)
{
    if (strings == NULL)
        return;
    for (size_t i = 0; strings[i] != NULL; i++)
        shp_free(strings[i]);
    shp_free(strings);
}

/* Copies, with room for more entries at the end. */
static char **copy_strings(char *const *strings, size_t room)
{
    size_t count = 0;
    char **copy;

    while (strings[count] != NULL)
        count++;
    copy = shp_calloc(count + room + 1, sizeof(*copy));
    if (copy == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        copy[i] = shp_strdup(strings[i]);
        if (copy[i] == NULL) {
            free_strings(copy);
            return NULL;
        }
    }
    return copy;
}

/* HERDR_* and PI_* bind a process to a pane or a pi session, which is not the child's. */
static bool is_foreign(const char *variable)
{
    return strncmp(variable, "HERDR_", 6) == 0 || strncmp(variable, "PI_", 3) == 0;
}

static char **make_environment(const struct shp_process_options *options)
{
    char **env = copy_strings(options->env != NULL ? options->env : environ, 1);
    size_t name = options->set != NULL ? strcspn(options->set, "=") + 1 : 0;
    size_t kept = 0;

    if (env == NULL)
        return NULL;
    for (size_t i = 0; env[i] != NULL; i++) {
        char *variable = env[i];
        bool drop = (options->env == NULL && is_foreign(variable)) ||
                    (options->set != NULL && strncmp(variable, options->set, name) == 0);

        env[i] = NULL;
        if (drop)
            shp_free(variable);
        else
            env[kept++] = variable;
    }
    if (options->set == NULL)
        return env;
    env[kept] = shp_strdup(options->set);
    if (env[kept] != NULL)
        return env;
    free_strings(env);
    return NULL;
}

/* ---- the end ------------------------------------------------------------------------------ */

static void release(struct process *process)
{
    free_strings(process->argv);
    free_strings(process->env);
    shp_free(process->cwd);
    shp_duplex_fini(&process->duplex);
    shp_free(process);
}

static void set_end_error(const struct process *process, struct shp_error *error)
{
    if (process->failure != 0 && !process->spawned)
        shp_error_set(error, SHP_CODE_CONNECT_FAILED, NULL, process->step, "%s: %s",
                      process->argv[0], uv_strerror(process->failure));
    else if (process->by_us)
        return;
    else if (process->term_signal != 0 && process->phase != KILLED)
        shp_error_set(error, SHP_CODE_LINK_LOST, NULL, "process", "%s was killed by signal %d",
                      process->argv[0], process->term_signal);
    else if (process->exit_status != 0)
        shp_error_set(error, SHP_CODE_LINK_LOST, NULL, "process", "%s ended with exit status %lld",
                      process->argv[0], (long long)process->exit_status);
    else if (process->failure != 0)
        shp_error_set(error, SHP_CODE_LINK_LOST, NULL, process->step, "%s",
                      uv_strerror(process->failure));
    else
        return;
    error->outcome = process->spawned ? SHP_OUTCOME_UNKNOWN : SHP_OUTCOME_REJECTED;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct process *process = handle->data;
    char text[SHP_TAIL_BYTES + 1];
    struct shp_transport_end end = {0};

    /* Some handles are closed earlier, one by one. */
    if (--process->handles > 0 || process->phase != CLOSING)
        return;
    if (process->unopened) {
        release(process);
        return;
    }
    shp_tail_clean(&process->tail, text, sizeof(text));
    end.exited = process->exited;
    end.exit_status = process->exit_status;
    end.term_signal = process->term_signal;
    end.diagnostic = text;
    set_end_error(process, &end.error);
    shp_transport_report_closed(&process->base, &end);
}

static void close_handle(struct process *process, uv_handle_t *handle)
{
    handle->data = process;
    process->handles++;
    uv_close(handle, on_handle_closed);
}

static void close_pipe(struct process *process, enum side side)
{
    if (!process->pipe_open[side])
        return;
    process->pipe_open[side] = false;
    close_handle(process, (uv_handle_t *)&process->pipes[side]);
}

static void finish(struct shp_duplex *duplex)
{
    struct process *process = of(duplex);

    if (process->phase == CLOSING)
        return;
    process->phase = CLOSING;
    /* What is left of the group: a child's child that did not leave with it. */
    if (process->spawned) {
        kill(-process->child.pid, SIGKILL);
        close_handle(process, (uv_handle_t *)&process->child);
    }
    for (int side = 0; side < SIDES; side++)
        close_pipe(process, (enum side)side);
    close_handle(process, (uv_handle_t *)&process->duplex.timer);
}

static void kill_group(struct shp_duplex *duplex)
{
    struct process *process = of(duplex);

    process->phase = KILLED;
    kill(-process->child.pid, SIGKILL);
    /* A process that not even this ends (stuck in the kernel) is left behind. */
    shp_duplex_wait(duplex, SHP_TRANSPORT_EXIT_MS, finish);
}

/* Timers run before pipes are read: when the loop was held up, a wait may end with bytes unread. */
static bool is_unread(const struct process *process, enum side side)
{
    uv_os_fd_t fd;
    int bytes = 0;

    return process->pipe_open[side] &&
           uv_fileno((const uv_handle_t *)&process->pipes[side], &fd) == 0 &&
           ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

static void reap_over(struct shp_duplex *duplex)
{
    struct process *process = of(duplex);

    if (process->err_late || !is_unread(process, CHILD_ERR)) {
        finish(duplex);
        return;
    }
    process->err_late = true;
    shp_duplex_wait(duplex, REAP_MS, reap_over);
}

static void reap(struct process *process)
{
    process->phase = REAPING;
    if (process->err_ended)
        finish(&process->duplex);
    else
        shp_duplex_wait(&process->duplex, REAP_MS, reap_over);
}

static void leave(struct shp_duplex *duplex)
{
    struct process *process = of(duplex);

    if (process->phase != RUNNING && process->phase != FLUSHING)
        return;
    process->phase = LEAVING;
    close_pipe(process, CHILD_IN);
    if (!process->out_ended)
        shp_duplex_discard(duplex);
    if (process->exited)
        reap(process);
    else
        shp_duplex_wait(duplex, SHP_TRANSPORT_EXIT_MS, kill_group);
}

static void on_end(struct shp_duplex *duplex, int error)
{
    struct process *process = of(duplex);

    process->out_ended = process->duplex.broken == 0 || error == 0;
    if (process->phase != RUNNING || !shp_transport_begin_close(&process->base))
        return;
    process->failure = error;
    process->step = "connection";
    leave(duplex);
}

static void on_drained(struct shp_duplex *duplex)
{
    if (of(duplex)->phase == FLUSHING)
        leave(duplex);
}

/* It exited and its output does not end: somebody else holds the pipe. */
static void grace_over(struct shp_duplex *duplex)
{
    struct process *process = of(duplex);
    bool stopped = !process->base.reading;
    bool late = !stopped && !process->out_late && is_unread(process, CHILD_OUT);
    bool again = process->heard || stopped || late;

    process->heard = false;
    process->out_late = late;
    if (again)
        shp_duplex_wait(duplex, REAP_MS, grace_over);
    else
        on_end(duplex, 0);
}

static void on_child_exit(uv_process_t *child, int64_t status, int signal)
{
    struct process *process = child->data;

    process->exited = true;
    process->exit_status = status;
    process->term_signal = signal;
    switch (process->phase) {
    case RUNNING:
        if (process->base.state == SHP_TRANSPORT_OPEN)
            shp_duplex_wait(&process->duplex, REAP_MS, grace_over);
        break;
    case FLUSHING:
        leave(&process->duplex);
        break;
    case LEAVING:
    case KILLED:
        reap(process);
        break;
    case REAPING:
    case CLOSING:
        break;
    }
}

/* ---- standard error ----------------------------------------------------------------------- */

static void on_stderr(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
    struct process *process = stream->data;

    if (nread > 0) {
        process->heard = true;
        if (process->on_stderr != NULL)
            process->on_stderr(buf->base, (size_t)nread, process->stderr_user);
        else
            shp_tail_add(&process->tail, buf->base, (size_t)nread);
    } else if (nread < 0) {
        process->err_ended = true;
        uv_read_stop(stream);
        if (process->phase == REAPING)
            finish(&process->duplex);
    }
}

/* ---- start -------------------------------------------------------------------------------- */

/* The child shall get three descriptors and no other, whoever opened them and how. */
static void protect_descriptors(void)
{
#if defined(SYS_close_range)
    /* 4 is CLOSE_RANGE_CLOEXEC, which older headers lack. */
    if (syscall(SYS_close_range, 3u, ~0u, 4u) == 0)
        return;
#endif
    long max = sysconf(_SC_OPEN_MAX);

    if (max < 0 || max > 4096)
        max = 4096;
    for (int fd = 3; fd < max; fd++) {
        int flags = fcntl(fd, F_GETFD);

        if (flags >= 0 && !(flags & FD_CLOEXEC))
            fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
    }
}

/* Real pipes: some programs treat a socket as their standard input differently. */
static int make_pipe(struct process *process, enum side side, uv_file *child_fd)
{
    uv_file fds[2];
    int ours = side == CHILD_IN ? 1 : 0;
    int err = uv_pipe(fds, ours == 0 ? UV_NONBLOCK_PIPE : 0, ours == 1 ? UV_NONBLOCK_PIPE : 0);

    if (err != 0)
        return err;
    uv_pipe_init(process->base.loop, &process->pipes[side], 0);
    process->pipe_open[side] = true;
    err = uv_pipe_open(&process->pipes[side], fds[ours]);
    if (err != 0) {
        close(fds[0]);
        close(fds[1]);
        return err;
    }
    *child_fd = fds[1 - ours];
    return 0;
}

static int spawn(struct process *process, const uv_file fds[SIDES])
{
    uv_stdio_container_t stdio[SIDES];
    uv_process_options_t options = {
        .exit_cb = on_child_exit,
        .file = process->argv[0],
        .args = process->argv,
        .env = process->env,
        .cwd = process->cwd,
        .flags = UV_PROCESS_DETACHED, /* own session and group, and no terminal to ask on */
        .stdio_count = SIDES,
        .stdio = stdio,
    };
    int err;

    for (int side = 0; side < SIDES; side++) {
        stdio[side].flags = UV_INHERIT_FD;
        stdio[side].data.fd = fds[side];
    }
    protect_descriptors();
    process->child.data = process;
    err = uv_spawn(process->base.loop, &process->child, &options);
    if (err != 0) {
        /* uv_spawn has initialised the handle in any case. */
        close_handle(process, (uv_handle_t *)&process->child);
    }
    return err;
}

static void report_open(struct shp_duplex *duplex)
{
    struct process *process = of(duplex);

    /* A very short-lived child may have exited in the meantime: then its grace begins here. */
    if (process->exited)
        shp_duplex_wait(duplex, REAP_MS, grace_over);
    shp_transport_report_open(duplex->transport);
}

static void report_failure(struct shp_duplex *duplex)
{
    if (shp_transport_begin_close(duplex->transport))
        finish(duplex);
}

static int process_open(struct shp_transport *transport)
{
    struct process *process = (struct process *)transport;
    uv_file fds[SIDES] = {-1, -1, -1};
    int err = 0;

    for (int side = 0; side < SIDES && err == 0; side++)
        err = make_pipe(process, (enum side)side, &fds[side]);
    if (err == 0)
        err = spawn(process, fds);
    for (int side = 0; side < SIDES; side++) {
        if (fds[side] >= 0)
            close(fds[side]);
    }
    if (err != 0) {
        process->failure = err;
        process->step = "start";
        shp_duplex_wait(&process->duplex, 0, report_failure);
        return SHP_OK;
    }
    process->spawned = true;
    process->duplex.in = (uv_stream_t *)&process->pipes[CHILD_OUT];
    process->duplex.out = (uv_stream_t *)&process->pipes[CHILD_IN];
    process->pipes[CHILD_ERR].data = process;
    uv_read_start((uv_stream_t *)&process->pipes[CHILD_ERR], shp_duplex_alloc, on_stderr);
    shp_duplex_wait(&process->duplex, 0, report_open);
    return SHP_OK;
}

/* ---- operations --------------------------------------------------------------------------- */

static size_t process_write(struct shp_transport *transport, const uint8_t *data, size_t len)
{
    return shp_duplex_write(&((struct process *)transport)->duplex, data, len);
}

static void process_read_start(struct shp_transport *transport)
{
    shp_duplex_read_start(&((struct process *)transport)->duplex);
}

static void process_read_stop(struct shp_transport *transport)
{
    shp_duplex_read_stop(&((struct process *)transport)->duplex);
}

static void process_close(struct shp_transport *transport)
{
    struct process *process = (struct process *)transport;

    process->by_us = true;
    if (!process->spawned) {
        finish(&process->duplex);
        return;
    }
    if (!process->out_ended)
        shp_duplex_discard(&process->duplex);
    process->phase = FLUSHING;
    if (process->exited || shp_duplex_queued(&process->duplex) == 0)
        leave(&process->duplex);
    else
        shp_duplex_wait(&process->duplex, SHP_TRANSPORT_FLUSH_MS, leave);
}

static void process_free(struct shp_transport *transport)
{
    struct process *process = (struct process *)transport;

    if (transport->state == SHP_TRANSPORT_NEW) {
        process->unopened = true;
        finish(&process->duplex);
    } else {
        release(process);
    }
}

static const struct shp_transport_ops ops = {
    .name = "process",
    .open = process_open,
    .write = process_write,
    .read_start = process_read_start,
    .read_stop = process_read_stop,
    .close = process_close,
    .free = process_free,
};

static const struct shp_duplex_events events = {.on_end = on_end, .on_drained = on_drained};

int shp_transport_process_new(struct shp_transport **out, uv_loop_t *loop,
                              const struct shp_process_options *options)
{
    struct process *process;

    if (options->argv == NULL || options->argv[0] == NULL)
        return SHP_ERR_INVALID;
    process = shp_calloc(1, sizeof(*process));
    if (process == NULL)
        return SHP_ERR_NOMEM;
    process->argv = copy_strings(options->argv, 0);
    process->env = make_environment(options);
    process->cwd = options->cwd != NULL ? shp_strdup(options->cwd) : NULL;
    if (process->argv == NULL || process->env == NULL ||
        (options->cwd != NULL && process->cwd == NULL)) {
        free_strings(process->argv);
        free_strings(process->env);
        shp_free(process->cwd);
        shp_free(process);
        return SHP_ERR_NOMEM;
    }
    process->on_stderr = options->on_stderr;
    process->stderr_user = options->stderr_user;
    shp_transport_init(&process->base, &ops, loop);
    shp_duplex_init(&process->duplex, &process->base, &events);
    *out = &process->base;
    return SHP_OK;
}
