/*
 * Start: stale socket check, bind, optional first workspace. End: sockets removed (only our own
 * inodes), every pane's processes hung up and then killed, answers in flight written, all handles
 * closed; only then does the loop run out.
 */
#include "server.h"

#include "conn.h"
#include "control.h"
#include "dispatch.h"
#include "log.h"
#include "persist.h"
#include "proc.h"
#include "sim.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define TICK_MS 100
#define END_POLL_MS 20
/* Answers still unwritten when the server ends get this long. */
#define END_FLUSH_MS 1000

struct bound {
    int fd;
    const char *path;
    ino_t inode;
    dev_t device;
};

struct server {
    struct sim sim;
    struct control control;
    struct bound api, ui, ctl;
    uv_pipe_t listener;
    uv_timer_t tick, stall, end;
    uv_signal_t signals[3];
    pid_t parent;
    unsigned long long parent_start;
    bool ending;
    bool closed;
    uint64_t ending_ms;
};

static struct server *server_of(struct sim *sim)
{
    return (struct server *)sim; /* sim is the first member */
}

static int fill_address(struct sockaddr_un *a, const char *path)
{
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof a->sun_path)
        return -ENAMETOOLONG;
    strcpy(a->sun_path, path);
    return 0;
}

int socket_alive(const char *path)
{
    struct sockaddr_un a;
    if (fill_address(&a, path) < 0)
        return 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int alive = fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0;
    if (fd >= 0)
        close(fd);
    return alive;
}

/* 0 or -errno. A stale file is replaced; a live one is EADDRINUSE. */
static int bind_socket(struct bound *b, const char *path)
{
    struct sockaddr_un a;
    struct stat st;
    int rc = fill_address(&a, path);
    if (rc < 0)
        return rc;
    if (socket_alive(path))
        return -EADDRINUSE;
    unlink(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    mode_t old = umask(0177);
    rc = bind(fd, (struct sockaddr *)&a, sizeof a) < 0 ? -errno : 0;
    umask(old);
    if (!rc && (listen(fd, 128) < 0 || stat(path, &st) < 0))
        rc = -errno;
    if (rc < 0) {
        close(fd);
        return rc;
    }
    b->fd = fd;
    b->path = path;
    b->inode = st.st_ino;
    b->device = st.st_dev;
    return 0;
}

static void remove_socket(struct bound *b)
{
    struct stat st;
    if (b->path && stat(b->path, &st) == 0 && st.st_ino == b->inode && st.st_dev == b->device)
        unlink(b->path);
    b->path = NULL;
}

bool sim_stalled(const struct sim *sim)
{
    return now_ms() < sim->stall_until_ms;
}

static void on_stall_end(uv_timer_t *t)
{
    struct server *s = t->data;
    dispatch_queue(&s->sim);
}

static void stall(struct sim *sim, uint64_t ms)
{
    struct server *s = server_of(sim);
    sim->stall_until_ms = now_ms() + ms;
    uv_timer_start(&s->stall, on_stall_end, ms + 1, 0);
}

static void close_handles(struct server *s)
{
    if (s->closed)
        return;
    s->closed = true;
    conn_close_all(&s->sim);
    control_close(&s->control);
    remove_socket(&s->ctl);
    pty_set_fini(&s->sim.ptys);
    uv_close((uv_handle_t *)&s->tick, NULL);
    uv_close((uv_handle_t *)&s->stall, NULL);
    uv_close((uv_handle_t *)&s->end, NULL);
    for (size_t i = 0; i < sizeof s->signals / sizeof *s->signals; i++)
        uv_close((uv_handle_t *)&s->signals[i], NULL);
}

static bool answers_in_flight(const struct sim *sim)
{
    for (const struct conn *c = sim->conns; c; c = c->next)
        if (c->state == CONN_ANSWERED)
            return true;
    return false;
}

static void on_end(uv_timer_t *t)
{
    struct server *s = t->data;
    if (!s->ending) {
        s->ending = true;
        s->ending_ms = now_ms();
        persist_save(&s->sim);
        remove_socket(&s->api);
        remove_socket(&s->ui);
        uv_close((uv_handle_t *)&s->listener, NULL);
        close(s->ui.fd);
        model_close_all(&s->sim);
        uv_timer_start(t, on_end, 0, END_POLL_MS);
        return;
    }
    bool flushed = !answers_in_flight(&s->sim) || now_ms() - s->ending_ms >= END_FLUSH_MS;
    if (flushed && pty_set_empty(&s->sim.ptys))
        close_handles(s);
}

void sim_stop(struct sim *sim, uint64_t delay_ms)
{
    struct server *s = server_of(sim);
    if (s->ending || (sim->stopping && delay_ms > 0))
        return;
    sim->stopping = true;
    uv_timer_start(&s->end, on_end, delay_ms, 0);
}

static void on_signal(uv_signal_t *h, int sig)
{
    struct server *s = h->data;
    (void)sig;
    sim_stop(&s->sim, 0);
}

static void watch_parent(struct server *s)
{
    struct proc_stat st;
    if (s->parent &&
        (proc_stat_of(s->parent, &st) < 0 || st.state == 'Z' || st.start_time != s->parent_start))
        sim_stop(&s->sim, 0);
}

static void on_tick(uv_timer_t *t)
{
    struct server *s = t->data;
    watch_parent(s);
    if (!sim_stalled(&s->sim)) {
        FOR_EACH_PANE(&s->sim.model, w, tab, p)
        {
            agent_refresh(&s->sim, p);
        }
    }
    dispatch_queue(&s->sim);
    conn_poll_all(&s->sim);
    if (s->sim.layout_changed && !s->ending)
        persist_save(&s->sim);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct server *s = listener->data;
    if (status == 0)
        conn_accept(&s->sim, listener);
}

static void start_handles(struct server *s)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    uv_loop_t *loop = &s->sim.loop;
    uv_pipe_init(loop, &s->listener, 0);
    uv_pipe_open(&s->listener, s->api.fd);
    uv_listen((uv_stream_t *)&s->listener, 128, on_connection);
    uv_timer_init(loop, &s->tick);
    uv_timer_init(loop, &s->stall);
    uv_timer_init(loop, &s->end);
    s->listener.data = s->tick.data = s->stall.data = s->end.data = s;
    uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        uv_signal_init(loop, &s->signals[i]);
        s->signals[i].data = s;
        uv_signal_start(&s->signals[i], on_signal, signals[i]);
    }
}

static int bind_all(struct server *s)
{
    int rc = make_dirs(s->sim.paths.session_dir, 0700);
    if (!rc)
        rc = bind_socket(&s->api, s->sim.paths.socket);
    if (rc == -EADDRINUSE) {
        fprintf(stderr, "herdr: server already running at %s\n", s->sim.paths.socket);
        return -1;
    }
    if (rc < 0) {
        fprintf(stderr, "herdr: cannot listen on %s: %s\n", s->sim.paths.socket, strerror(-rc));
        return -1;
    }
    rc = bind_socket(&s->ui, s->sim.paths.client_socket);
    const char *control = getenv("HERDR_SIM_CONTROL");
    if (!rc && control && *control)
        rc = bind_socket(&s->ctl, control);
    if (rc < 0) {
        fprintf(stderr, "herdr: cannot listen: %s\n", strerror(-rc));
        remove_socket(&s->api);
        remove_socket(&s->ui);
        return -1;
    }
    return 0;
}

static void read_parent(struct server *s)
{
    struct proc_stat st;
    const char *text = getenv("HERDR_SIM_PARENT_PID");
    if (!text || !*text)
        return;
    s->parent = (pid_t)atol(text);
    if (proc_stat_of(s->parent, &st) == 0)
        s->parent_start = st.start_time;
}

static void seed(struct server *s)
{
    const char *cwd = getenv("HERDR_STARTUP_CWD");
    struct create_options o = {.cwd = cwd};
    if (persist_load(&s->sim) == 0 && cwd && *cwd)
        model_workspace_create(&s->sim, &o);
}

int server_run(const struct paths *paths)
{
    struct server *s = sim_alloc(sizeof *s);
    s->sim.paths = *paths;
    options_init(&s->sim.opt);
    ssize_t n = readlink("/proc/self/exe", s->sim.bin_path, sizeof s->sim.bin_path - 1);
    s->sim.bin_path[n > 0 ? n : 0] = '\0';
    signal(SIGPIPE, SIG_IGN);
    if (log_open(getenv("HERDR_SIM_LOG")) < 0)
        fprintf(stderr, "herdr: cannot open HERDR_SIM_LOG\n");
    if (bind_all(s) < 0) {
        log_close();
        free(s);
        return 1;
    }
    read_parent(s);
    uv_loop_init(&s->sim.loop);
    pty_set_init(&s->sim.ptys, &s->sim.loop);
    start_handles(s);
    if (s->ctl.path)
        control_open(&s->control, &s->sim, s->ctl.fd, stall);
    seed(s);
    fprintf(stderr, "herdr: server ready at %s\n", s->sim.paths.socket);
    uv_run(&s->sim.loop, UV_RUN_DEFAULT);
    uv_loop_close(&s->sim.loop);
    ring_fini(&s->sim.ring);
    faults_clear(&s->sim);
    log_close();
    free(s);
    return 0;
}
