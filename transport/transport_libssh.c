/*
 * The loop side: name lookup, the thread's start, bytes and news over one uv_async, a watch over a
 * thread that is stuck, and the end.
 *
 *   NAME --addresses--> THREAD --ended, or stuck past its deadline--> CLOSING
 *     +------ no address, 10 s, close ------------------------------------^
 */
#include "transport/transport_libssh_worker.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NS_OF_MS 1000000u
#define THREAD_STACK_BYTES (1024 * 1024)

/* Beyond its own deadline a thread sits in a call that we cannot end. */
#define STUCK_MS 2000

/* What one on_read gets at most, so that a stop in it holds the rest back. */
#define READ_BYTES (64 * 1024)

#define HOST_BYTES 256

struct libssh;

/* Outlives the transport when the lookup cannot be cancelled. */
struct lookup {
    uv_getaddrinfo_t request;
    struct libssh *owner; /* NULL: nobody waits any more */
};

struct libssh {
    struct shp_transport base;
    struct shp_libssh_worker *worker;
    uv_async_t async;
    uv_timer_t timer; /* deadline of the lookup, then the watch over the thread */
    struct lookup *lookup;
    uv_thread_t thread;
    bool running; /* the thread was started and not joined */
    bool by_us;
    bool blocked; /* a write was not taken whole */
    bool finishing;
    struct shp_ssh_facts facts;
    struct shp_error error;
    struct shp_libssh_queue in; /* taken from from_ssh; the first done bytes are reported */
    size_t done;
    bool ended; /* the thread's last word is here; on_closed comes when in is empty */
    unsigned handles;
    bool unopened;
};

/* ---- library ------------------------------------------------------------------------------ */

bool shp_libssh_available(void)
{
    return ssh_version(SSH_VERSION_INT(0, 10, 6)) != NULL;
}

const char *shp_libssh_version(void)
{
    const char *version = ssh_version(0);

    return version != NULL ? version : "";
}

bool shp_libssh_knows_kex(const char *name)
{
    ssh_session session = ssh_new();
    bool known = session != NULL && ssh_options_set(session, SSH_OPTIONS_KEY_EXCHANGE, name) == 0;

    ssh_free(session);
    return known;
}

/* ---- end ---------------------------------------------------------------------------------- */

static void release(struct libssh *ssh)
{
    if (ssh->worker != NULL)
        shp_libssh_worker_unref(ssh->worker);
    shp_free(ssh->in.data);
    shp_free(ssh);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct libssh *ssh = handle->data;
    struct shp_libssh_worker *worker = ssh->worker;
    struct shp_transport_end end = {.error = ssh->error, .diagnostic = "", .ssh = &ssh->facts};

    if (--ssh->handles > 0)
        return;
    if (ssh->unopened) {
        release(ssh);
        return;
    }
    /* Behind an abandoned thread nothing of the worker may be read any more. */
    if (ssh->ended) {
        end.exited = worker->exited;
        end.exit_status = worker->exit_status;
        end.term_signal = worker->term_signal;
        end.diagnostic = worker->diagnostic;
    }
    shp_transport_report_closed(&ssh->base, &end);
}

static void close_handles(struct libssh *ssh)
{
    uv_mutex_lock(&ssh->worker->lock);
    ssh->worker->async = NULL;
    uv_mutex_unlock(&ssh->worker->lock);
    ssh->handles = 2;
    uv_close((uv_handle_t *)&ssh->async, on_handle_closed);
    uv_close((uv_handle_t *)&ssh->timer, on_handle_closed);
}

static void finish(struct libssh *ssh)
{
    if (ssh->finishing)
        return;
    ssh->finishing = true;
    shp_transport_begin_close(&ssh->base);
    if (ssh->lookup != NULL) {
        ssh->lookup->owner = NULL;
        uv_cancel((uv_req_t *)&ssh->lookup->request);
        ssh->lookup = NULL;
    }
    close_handles(ssh);
}

/* ---- the thread's news -------------------------------------------------------------------- */

static void want_end(struct libssh *ssh)
{
    uv_mutex_lock(&ssh->worker->lock);
    ssh->worker->close_wanted = true;
    uv_mutex_unlock(&ssh->worker->lock);
    shp_libssh_worker_wake(ssh->worker);
}

static void abandon(struct libssh *ssh)
{
    static const struct {
        enum shp_ssh_phase phase;
        int code;
        const char *step;
    } steps[] = {
        {SHP_SSH_PHASE_TCP, SHP_CODE_CONNECT_TIMEOUT, "connect"},
        {SHP_SSH_PHASE_KEX, SHP_CODE_CONNECT_TIMEOUT, "key exchange"},
        {SHP_SSH_PHASE_HOST_KEY, SHP_CODE_CONNECT_TIMEOUT, "host key"},
        {SHP_SSH_PHASE_AUTH, SHP_CODE_LOGIN_SLOW, "login"},
        {SHP_SSH_PHASE_CHANNEL, SHP_CODE_CHANNEL_REFUSED, "channel"},
    };

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && !ssh->by_us; i++) {
        if (steps[i].phase == ssh->facts.phase)
            shp_error_set(&ssh->error, steps[i].code, NULL, steps[i].step,
                          "libssh is stuck, in a file or a program that does not answer");
    }
    /* Should its call return after all, it runs nothing any more. */
    want_end(ssh);
    pthread_detach(ssh->thread);
    ssh->running = false;
    finish(ssh);
}

static void on_stuck(uv_timer_t *timer)
{
    abandon(timer->data);
}

/* Until the thread's deadline and some more; 0: no watch. */
static void watch(struct libssh *ssh, uint64_t deadline_ns)
{
    uint64_t now = uv_hrtime();

    if (deadline_ns == 0) {
        uv_timer_stop(&ssh->timer);
        return;
    }
    uv_timer_start(&ssh->timer, on_stuck,
                   (deadline_ns > now ? (deadline_ns - now) / NS_OF_MS : 0) + STUCK_MS, 0);
}

/* Whether there is more to report. */
static bool fetch(struct libssh *ssh)
{
    struct shp_libssh_worker *worker = ssh->worker;
    struct shp_libssh_queue empty = ssh->in;
    bool wake;

    if (ssh->done < ssh->in.len)
        return true;
    empty.len = 0;
    ssh->done = 0;
    uv_mutex_lock(&worker->lock);
    ssh->in = worker->from_ssh;
    worker->from_ssh = empty;
    wake = worker->loop_is_full;
    worker->loop_is_full = false;
    uv_mutex_unlock(&worker->lock);
    if (wake)
        shp_libssh_worker_wake(worker);
    return ssh->in.len > 0;
}

static void end_if_done(struct libssh *ssh)
{
    if (!ssh->ended)
        return;
    /* A user who has stopped reading gets the rest before the end. */
    if (ssh->base.state == SHP_TRANSPORT_OPEN && fetch(ssh))
        return;
    if (!ssh->by_us)
        ssh->error = ssh->worker->error;
    finish(ssh);
}

static void deliver(struct libssh *ssh)
{
    while (ssh->base.state == SHP_TRANSPORT_OPEN && ssh->base.reading && fetch(ssh)) {
        size_t left = ssh->in.len - ssh->done;
        const uint8_t *data = ssh->in.data + ssh->done;

        if (left > READ_BYTES)
            left = READ_BYTES;
        ssh->done += left;
        shp_transport_report_read(&ssh->base, data, left);
    }
    if (ssh->base.state == SHP_TRANSPORT_CLOSING)
        ssh->done = ssh->in.len;
}

static void on_async(uv_async_t *async)
{
    struct libssh *ssh = async->data;
    struct shp_libssh_worker *worker = ssh->worker;
    bool opened;
    bool ended;
    bool room_made;
    uint64_t deadline_ns;

    if (ssh->finishing)
        return;
    uv_mutex_lock(&worker->lock);
    ssh->facts = worker->facts;
    opened = worker->opened;
    ended = worker->ended;
    room_made = worker->room_made;
    worker->room_made = false;
    deadline_ns = worker->deadline_ns;
    uv_mutex_unlock(&worker->lock);

    if (!ssh->by_us)
        watch(ssh, deadline_ns);
    if (opened)
        shp_transport_report_open(&ssh->base);
    if (room_made && ssh->blocked) {
        ssh->blocked = false;
        shp_transport_report_writable(&ssh->base);
    }
    deliver(ssh);
    if (!ended || ssh->finishing)
        return;
    if (ssh->ended) {
        end_if_done(ssh);
        return;
    }
    uv_thread_join(&ssh->thread);
    ssh->running = false;
    ssh->ended = true;
    if (!ssh->by_us)
        uv_timer_stop(&ssh->timer);
    deliver(ssh);
    end_if_done(ssh);
}

/* ---- start -------------------------------------------------------------------------------- */

static void fail(struct libssh *ssh, int code, const char *step, const char *cause)
{
    if (!ssh->by_us)
        shp_error_set(&ssh->error, code, NULL, step, "%s", cause);
    finish(ssh);
}

static void start_thread(struct libssh *ssh)
{
    uv_thread_options_t options = {.flags = UV_THREAD_HAS_STACK_SIZE,
                                   .stack_size = THREAD_STACK_BYTES};
    struct shp_libssh_worker *worker = ssh->worker;

    uv_timer_stop(&ssh->timer);
    ssh->facts.phase = SHP_SSH_PHASE_TCP;
    worker->facts = ssh->facts;
    worker->async = &ssh->async;
    worker->refs = 2;
    if (uv_thread_create_ex(&ssh->thread, &options, shp_libssh_worker_main, worker) != 0) {
        worker->refs = 1;
        fail(ssh, SHP_CODE_OUT_OF_MEMORY, "connect", "no thread can be started");
        return;
    }
    ssh->running = true;
}

static void keep_addresses(struct shp_libssh_worker *worker, const struct addrinfo *list)
{
    for (; list != NULL && worker->addresses_len < SHP_LIBSSH_ADDRESSES_MAX; list = list->ai_next) {
        struct sockaddr_storage *address = &worker->addresses[worker->addresses_len];

        if ((list->ai_family != AF_INET && list->ai_family != AF_INET6) ||
            list->ai_addrlen > sizeof(*address))
            continue;
        memcpy(address, list->ai_addr, list->ai_addrlen);
        worker->addresses_len++;
    }
}

static void on_addresses(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct lookup *lookup = (struct lookup *)request;
    struct libssh *ssh = lookup->owner;
    char cause[HOST_BYTES + 96];

    if (ssh != NULL) {
        ssh->lookup = NULL;
        keep_addresses(ssh->worker, list);
        if (status == 0 && ssh->worker->addresses_len > 0) {
            start_thread(ssh);
        } else {
            snprintf(cause, sizeof(cause), "%.256s: %s", ssh->worker->config.hostname,
                     status != 0 ? uv_strerror(status) : "no usable address");
            fail(ssh, SHP_CODE_NAME_UNRESOLVED, "name", cause);
        }
    }
    uv_freeaddrinfo(list);
    shp_free(lookup);
}

static void on_lookup_slow(uv_timer_t *timer)
{
    struct libssh *ssh = timer->data;
    char cause[HOST_BYTES + 96];

    snprintf(cause, sizeof(cause), "the address of %.256s did not come in %d s",
             ssh->worker->config.hostname, SHP_LIBSSH_NAME_MS / 1000);
    fail(ssh, SHP_CODE_NAME_UNRESOLVED, "name", cause);
}

static int start_lookup(struct libssh *ssh)
{
    const struct shp_ssh_config *config = &ssh->worker->config;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct lookup *lookup = shp_calloc(1, sizeof(*lookup));
    char port[8];
    int err;

    if (lookup == NULL)
        return SHP_ERR_NOMEM;
    if (config->address_family != NULL && strcmp(config->address_family, "inet") == 0)
        hints.ai_family = AF_INET;
    else if (config->address_family != NULL && strcmp(config->address_family, "inet6") == 0)
        hints.ai_family = AF_INET6;
    snprintf(port, sizeof(port), "%u", (unsigned)config->port);
    lookup->owner = ssh;
    err = uv_getaddrinfo(ssh->base.loop, &lookup->request, on_addresses, config->hostname, port,
                         &hints);
    if (err != 0) {
        shp_free(lookup);
        return err == UV_ENOMEM ? SHP_ERR_NOMEM : SHP_ERR_INVALID;
    }
    ssh->lookup = lookup;
    return SHP_OK;
}

/* ---- operations --------------------------------------------------------------------------- */

static int libssh_open(struct shp_transport *transport)
{
    struct libssh *ssh = (struct libssh *)transport;
    int err = start_lookup(ssh);

    if (err != 0)
        return err;
    ssh->facts.phase = SHP_SSH_PHASE_NAME;
    uv_timer_start(&ssh->timer, on_lookup_slow, SHP_LIBSSH_NAME_MS, 0);
    return SHP_OK;
}

static size_t libssh_write(struct shp_transport *transport, const uint8_t *data, size_t len)
{
    struct libssh *ssh = (struct libssh *)transport;
    struct shp_libssh_worker *worker = ssh->worker;
    size_t room;
    size_t taken = 0;
    bool wake;

    uv_mutex_lock(&worker->lock);
    room = worker->to_ssh.len < SHP_TRANSPORT_HIGH_BYTES
               ? SHP_TRANSPORT_HIGH_BYTES - worker->to_ssh.len
               : 0;
    wake = worker->to_ssh.len == 0;
    if (len < room)
        room = len;
    if (room > 0 && shp_libssh_queue_put(&worker->to_ssh, data, room))
        taken = room;
    if (taken < len)
        worker->ssh_is_full = true;
    uv_mutex_unlock(&worker->lock);
    if (taken < len)
        ssh->blocked = true;
    if (wake && taken > 0)
        shp_libssh_worker_wake(worker);
    return taken;
}

static void libssh_read_start(struct shp_transport *transport)
{
    /* Never from inside on_read: deliver looks at the flag itself. */
    uv_async_send(&((struct libssh *)transport)->async);
}

static void libssh_read_stop(struct shp_transport *transport)
{
    (void)transport;
}

static void libssh_close(struct shp_transport *transport)
{
    struct libssh *ssh = (struct libssh *)transport;

    ssh->by_us = true;
    if (!ssh->running) {
        /* From a later turn: nothing is called back inside this call. */
        finish(ssh);
        return;
    }
    want_end(ssh);
    uv_timer_start(&ssh->timer, on_stuck, SHP_TRANSPORT_FLUSH_MS + SHP_TRANSPORT_EXIT_MS + STUCK_MS,
                   0);
}

static void libssh_free(struct shp_transport *transport)
{
    struct libssh *ssh = (struct libssh *)transport;

    if (transport->state == SHP_TRANSPORT_NEW) {
        ssh->unopened = true;
        close_handles(ssh);
    } else {
        release(ssh);
    }
}

static const struct shp_transport_ops ops = {
    .name = "libssh",
    .open = libssh_open,
    .write = libssh_write,
    .read_start = libssh_read_start,
    .read_stop = libssh_read_stop,
    .close = libssh_close,
    .free = libssh_free,
};

/* ---- making ------------------------------------------------------------------------------- */

static int make_wake(int wake[2])
{
    return pipe2(wake, O_CLOEXEC | O_NONBLOCK) == 0 ? SHP_OK : SHP_ERR_IO;
}

static struct shp_libssh_worker *new_worker(const struct shp_libssh_options *options)
{
    struct shp_libssh_worker *worker = shp_calloc(1, sizeof(*worker));
    bool good = true;

    if (worker == NULL)
        return NULL;
    worker->wake[0] = worker->wake[1] = -1;
    if (uv_mutex_init(&worker->lock) != 0) {
        shp_free(worker);
        return NULL;
    }
    worker->refs = 1;
    worker->command = shp_strdup(options->command);
    for (size_t i = 0; i < SHP_LIBSSH_AGENTS_MAX && options->agents[i] != NULL; i++) {
        worker->agents[i] = shp_strdup(options->agents[i]);
        good = good && worker->agents[i] != NULL;
    }
    worker->post_quantum = options->post_quantum;
    if (worker->command != NULL && good && make_wake(worker->wake) == SHP_OK)
        return worker;
    shp_libssh_worker_unref(worker);
    return NULL;
}

int shp_transport_libssh_new(struct shp_transport **out, uv_loop_t *loop,
                             const struct shp_libssh_options *options)
{
    struct libssh *ssh;

    if (!shp_libssh_available())
        return SHP_ERR_INVALID;
    ssh = shp_calloc(1, sizeof(*ssh));
    if (ssh == NULL)
        return SHP_ERR_NOMEM;
    ssh->worker = new_worker(options);
    if (ssh->worker == NULL || uv_async_init(loop, &ssh->async, on_async) != 0) {
        release(ssh);
        return SHP_ERR_NOMEM;
    }
    uv_timer_init(loop, &ssh->timer);
    ssh->async.data = ssh;
    ssh->timer.data = ssh;
    shp_transport_init(&ssh->base, &ops, loop);
    ssh->facts = *options->facts;
    snprintf(ssh->facts.transport, sizeof(ssh->facts.transport), "%s", ops.name);
    ssh->worker->config = *options->config;
    ssh->worker->files = *options->files;
    memset(options->config, 0, sizeof(*options->config));
    memset(options->files, 0, sizeof(*options->files));
    *out = &ssh->base;
    return SHP_OK;
}

bool shp_transport_libssh_greeted(const struct shp_transport *transport)
{
    const struct libssh *ssh = (const struct libssh *)transport;

    return transport->ops == &ops && ssh->ended && ssh->worker->greeted;
}

const struct shp_ssh_facts *shp_transport_libssh_facts(const struct shp_transport *transport)
{
    return transport->ops == &ops ? &((const struct libssh *)transport)->facts : NULL;
}
