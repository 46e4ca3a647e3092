/*
 * Life: running -> (shell exits: the rest of the output is read, on_exit) -> closed by the owner
 * -> dying (SIGHUP to the session, then SIGKILL) -> freed once the shell is reaped, the session is
 * empty and both handles are closed.
 */
#include "pty.h"

#include "proc.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define DYING_POLL_MS 25
/* Bytes taken from one terminal before others get their turn. */
#define READ_TURN_BYTES (256 * 1024)

struct pty {
    struct pty_set *set;
    struct pty *next;
    int fd;
    pid_t pid;
    bool reaped;
    bool owned;   /* callbacks may be made */
    bool reading; /* the terminal has not reported its end */
    bool dying;
    int open_handles;
    uint64_t kill_at_ms;
    char name[64];
    struct str input;
    struct pty_callbacks cb;
    void *user;
    uv_poll_t poll;
    uv_timer_t timer;
};

static void start_poll(struct pty *p);

static void free_when_done(struct pty *p)
{
    if (p->open_handles > 0)
        return;
    for (struct pty **at = &p->set->first; *at; at = &(*at)->next) {
        if (*at == p) {
            *at = p->next;
            break;
        }
    }
    str_free(&p->input);
    free(p);
}

static void on_handle_closed(uv_handle_t *h)
{
    struct pty *p = h->data;
    p->open_handles--;
    free_when_done(p);
}

static void on_dying(uv_timer_t *t)
{
    struct pty *p = t->data;
    int left = proc_signal_session(p->pid, now_ms() >= p->kill_at_ms ? SIGKILL : 0);
    if (left > 0 || !p->reaped)
        return;
    uv_timer_stop(t);
    uv_close((uv_handle_t *)t, on_handle_closed);
}

static void close_terminal(struct pty *p)
{
    if (p->fd < 0)
        return;
    uv_poll_stop(&p->poll);
    uv_close((uv_handle_t *)&p->poll, on_handle_closed);
    close(p->fd);
    p->fd = -1;
}

void pty_close(struct pty *p)
{
    if (p->dying)
        return;
    p->owned = false;
    p->dying = true;
    p->kill_at_ms = now_ms() + PTY_KILL_GRACE_MS;
    proc_signal_session(p->pid, SIGHUP);
    /* A stopped process gets the hang-up only when it runs again. */
    proc_signal_session(p->pid, SIGCONT);
    close_terminal(p);
    uv_timer_start(&p->timer, on_dying, 0, DYING_POLL_MS);
}

static void read_some(struct pty *p)
{
    uint8_t chunk[8192];
    size_t total = 0;
    while (p->owned && p->reading && p->fd >= 0 && total < READ_TURN_BYTES) {
        ssize_t n = read(p->fd, chunk, sizeof chunk);
        if (n > 0) {
            total += (size_t)n;
            p->cb.on_output(chunk, (size_t)n, p->user);
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else if (n < 0 && errno == EAGAIN) {
            return;
        } else {
            /* EIO: nobody has the terminal open any more. */
            p->reading = false;
        }
    }
}

static void exit_if_over(struct pty *p)
{
    if (!p->owned || !p->reaped)
        return;
    while (p->owned && p->reading) {
        int available = 0;
        if (ioctl(p->fd, FIONREAD, &available) < 0 || available <= 0)
            break;
        read_some(p);
    }
    if (!p->owned)
        return;
    p->owned = false;
    p->cb.on_exit(p->user);
}

static void flush_input(struct pty *p)
{
    size_t done = 0;
    while (done < p->input.len) {
        ssize_t n = write(p->fd, p->input.data + done, p->input.len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            done = p->input.len;
            break;
        }
        done += (size_t)n;
    }
    if (done) {
        memmove(p->input.data, p->input.data + done, p->input.len - done);
        p->input.len -= done;
    }
}

static void on_poll(uv_poll_t *h, int status, int events)
{
    struct pty *p = h->data;
    if (status == 0 && (events & UV_WRITABLE))
        flush_input(p);
    if (status != 0 || (events & (UV_READABLE | UV_DISCONNECT)))
        read_some(p);
    if (p->fd >= 0)
        start_poll(p);
}

static void start_poll(struct pty *p)
{
    int events = (p->reading ? UV_READABLE : 0) | (p->input.len ? UV_WRITABLE : 0);
    /* After the end of the terminal there is nothing left to wait for but the shell's own exit. */
    if (!p->reading)
        uv_poll_stop(&p->poll);
    else
        uv_poll_start(&p->poll, events, on_poll);
}

static void on_sigchld(uv_signal_t *h, int sig)
{
    (void)sig;
    struct pty_set *set = h->data;
    /* on_exit may change the list, so each one found starts the walk again. */
    for (struct pty *p = set->first; p;) {
        int status;
        if (!p->reaped && waitpid(p->pid, &status, WNOHANG) == p->pid) {
            p->reaped = true;
            exit_if_over(p);
            p = set->first;
        } else {
            p = p->next;
        }
    }
}

void pty_set_init(struct pty_set *set, uv_loop_t *loop)
{
    memset(set, 0, sizeof *set);
    set->loop = loop;
    uv_signal_init(loop, &set->sigchld);
    set->sigchld.data = set;
    uv_signal_start(&set->sigchld, on_sigchld, SIGCHLD);
}

void pty_set_fini(struct pty_set *set)
{
    uv_close((uv_handle_t *)&set->sigchld, NULL);
}

bool pty_set_empty(const struct pty_set *set)
{
    return set->first == NULL;
}

static void child(const struct pty_spec *spec)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL);
    if (spec->cwd && chdir(spec->cwd) < 0 && chdir("/") < 0)
        _exit(126);
    char *argv[] = {(char *)(uintptr_t)spec->shell, NULL};
    execve(spec->shell, argv, spec->env);
    _exit(127);
}

int pty_open(struct pty_set *set, const struct pty_spec *spec, const struct pty_callbacks *cb,
             void *user, struct pty **out)
{
    struct winsize size = {.ws_row = spec->rows, .ws_col = spec->cols};
    struct pty *p = sim_alloc(sizeof *p);
    p->pid = forkpty(&p->fd, p->name, NULL, &size);
    if (p->pid < 0) {
        int err = -errno;
        free(p);
        return err;
    }
    if (p->pid == 0)
        child(spec);
    fcntl(p->fd, F_SETFD, FD_CLOEXEC);
    fcntl(p->fd, F_SETFL, O_NONBLOCK);
    p->set = set;
    p->cb = *cb;
    p->user = user;
    p->owned = p->reading = true;
    p->next = set->first;
    set->first = p;
    uv_timer_init(set->loop, &p->timer);
    uv_poll_init(set->loop, &p->poll, p->fd);
    p->timer.data = p->poll.data = p;
    p->open_handles = 2;
    start_poll(p);
    *out = p;
    return 0;
}

int pty_write(struct pty *p, const void *bytes, size_t len)
{
    if (p->fd < 0 || p->reaped || !p->reading || p->input.len + len > PTY_INPUT_BYTES_MAX)
        return -1;
    str_add(&p->input, bytes, len);
    flush_input(p);
    start_poll(p);
    return 0;
}

pid_t pty_pid(const struct pty *p)
{
    return p->pid;
}

pid_t pty_foreground(const struct pty *p)
{
    pid_t pgrp = p->fd >= 0 ? tcgetpgrp(p->fd) : -1;
    return pgrp > 0 ? pgrp : 0;
}

const char *pty_name(const struct pty *p)
{
    return p->name;
}
