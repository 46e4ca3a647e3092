/* The thread: the steps of a connection, one after the other, each with its deadline. */
#include "transport/transport_libssh_worker.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NS_OF_MS 1000000u
#define DEFAULT_PORT 22
#define CAUSE_BYTES 700

/* ---- shared ------------------------------------------------------------------------------- */

bool shp_libssh_queue_put(struct shp_libssh_queue *queue, const uint8_t *data, size_t len)
{
    if (queue->len + len > queue->size) {
        size_t size = queue->size > 0 ? queue->size : 16384;
        uint8_t *grown;

        while (size < queue->len + len)
            size *= 2;
        grown = shp_realloc(queue->data, size);
        if (grown == NULL)
            return false;
        queue->data = grown;
        queue->size = size;
    }
    memcpy(queue->data + queue->len, data, len);
    queue->len += len;
    return true;
}

void shp_libssh_worker_wake(struct shp_libssh_worker *worker)
{
    /* A full pipe is one that wakes already. */
    ssize_t ignored = write(worker->wake[1], "", 1);

    (void)ignored;
}

void shp_libssh_worker_unref(struct shp_libssh_worker *worker)
{
    bool last;

    uv_mutex_lock(&worker->lock);
    last = --worker->refs == 0;
    uv_mutex_unlock(&worker->lock);
    if (!last)
        return;
    uv_mutex_destroy(&worker->lock);
    for (int i = 0; i < 2; i++) {
        if (worker->wake[i] >= 0)
            close(worker->wake[i]);
    }
    for (size_t i = 0; i < SHP_LIBSSH_AGENTS_MAX; i++)
        shp_free(worker->agents[i]);
    shp_ssh_config_fini(&worker->config);
    shp_ssh_files_fini(&worker->files);
    shp_free(worker->command);
    shp_free(worker->to_ssh.data);
    shp_free(worker->from_ssh.data);
    shp_free(worker);
}

void shp_libssh_publish(struct shp_libssh_run *run)
{
    struct shp_libssh_worker *worker = run->worker;

    uv_mutex_lock(&worker->lock);
    worker->facts = run->facts;
    worker->deadline_ns = run->deadline_ns;
    if (worker->async != NULL)
        uv_async_send(worker->async);
    uv_mutex_unlock(&worker->lock);
}

void shp_libssh_phase(struct shp_libssh_run *run, enum shp_ssh_phase phase, uint32_t ms)
{
    run->facts.phase = phase;
    run->deadline_ns = ms > 0 ? uv_hrtime() + (uint64_t)ms * NS_OF_MS : 0;
    shp_libssh_publish(run);
}

/* ---- waiting ------------------------------------------------------------------------------ */

void shp_libssh_drain_wake(struct shp_libssh_worker *worker)
{
    char bytes[64];

    while (read(worker->wake[0], bytes, sizeof(bytes)) == sizeof(bytes))
        continue;
}

static bool close_is_wanted(struct shp_libssh_worker *worker)
{
    bool wanted;

    uv_mutex_lock(&worker->lock);
    wanted = worker->close_wanted;
    uv_mutex_unlock(&worker->lock);
    return wanted;
}

enum shp_libssh_wait shp_libssh_wait(struct shp_libssh_run *run)
{
    int flags = ssh_get_poll_flags(run->session);
    struct pollfd polls[2] = {
        {.fd = run->fd, .events = POLLIN},
        {.fd = run->worker->wake[0], .events = POLLIN},
    };
    uint64_t now = uv_hrtime();
    int ms = -1;

    if (ssh_get_status(run->session) & (SSH_CLOSED | SSH_CLOSED_ERROR))
        return SHP_LIBSSH_GONE;
    if (flags & SSH_WRITE_PENDING)
        polls[0].events |= POLLOUT;
    if (run->deadline_ns != 0) {
        if (now >= run->deadline_ns)
            return SHP_LIBSSH_TIMEOUT;
        ms = (int)((run->deadline_ns - now) / NS_OF_MS) + 1;
    }
    if (poll(polls, 2, ms) < 0 && errno != EINTR)
        return SHP_LIBSSH_GONE;
    run->socket_ready = polls[0].revents != 0;
    if (polls[1].revents != 0) {
        shp_libssh_drain_wake(run->worker);
        if (run->facts.phase < SHP_SSH_PHASE_RUNNING && close_is_wanted(run->worker)) {
            run->cancelled = true;
            return SHP_LIBSSH_CANCELLED;
        }
    }
    return SHP_LIBSSH_READY;
}

bool shp_libssh_fail(struct shp_libssh_run *run, int code, const char *step, const char *what)
{
    const char *said = run->session != NULL ? ssh_get_error(run->session) : "";

    shp_error_set(&run->error, code, NULL, step, "%s%s%.*s", what, said[0] != '\0' ? ": " : "",
                  CAUSE_BYTES, said);
    if (run->heard)
        run->error.outcome = SHP_OUTCOME_UNKNOWN;
    return false;
}

/* ---- session ------------------------------------------------------------------------------ */

static bool set(struct shp_libssh_run *run, enum ssh_options_e option, const void *value)
{
    return ssh_options_set(run->session, option, value) == 0;
}

/* A list as configured: libssh drops what it does not know, and refuses when nothing is left. */
static bool set_list(struct shp_libssh_run *run, enum ssh_options_e option, const char *list)
{
    return list == NULL || set(run, option, list);
}

static bool set_algorithms(struct shp_libssh_run *run)
{
    const struct shp_ssh_config *config = &run->worker->config;
    char post_quantum[512];
    const char *kex = config->kex;

    if (run->worker->post_quantum) {
        shp_ssh_config_post_quantum(post_quantum, sizeof(post_quantum), kex);
        kex = post_quantum;
    }
    return set_list(run, SSH_OPTIONS_KEY_EXCHANGE, kex) &&
           set_list(run, SSH_OPTIONS_HOSTKEYS, config->host_key_algorithms) &&
           set_list(run, SSH_OPTIONS_CIPHERS_C_S, config->ciphers) &&
           set_list(run, SSH_OPTIONS_CIPHERS_S_C, config->ciphers) &&
           set_list(run, SSH_OPTIONS_HMAC_C_S, config->macs) &&
           set_list(run, SSH_OPTIONS_HMAC_S_C, config->macs) &&
           set_list(run, SSH_OPTIONS_PUBLICKEY_ACCEPTED_TYPES, config->pubkey_algorithms);
}

static void set_rekey(struct shp_libssh_run *run)
{
    const char *limit = run->worker->config.rekey_limit;
    unsigned long long bytes = 0;
    unsigned seconds = 0;

    if (limit == NULL || sscanf(limit, "%llu %u", &bytes, &seconds) < 1)
        return;
    if (bytes > 0) {
        uint64_t value = bytes;

        set(run, SSH_OPTIONS_REKEY_DATA, &value);
    }
    if (seconds > 0) {
        uint32_t value = seconds;

        set(run, SSH_OPTIONS_REKEY_TIME, &value);
    }
}

static bool set_options(struct shp_libssh_run *run)
{
    const struct shp_ssh_config *config = &run->worker->config;
    bool no_files = false;
    int no_delay = 1;
    /* OpenSSH looks an alias up without the port. */
    unsigned port = config->host_key_alias != NULL ? DEFAULT_PORT : config->port;
    bool good = set(run, SSH_OPTIONS_PROCESS_CONFIG, &no_files) &&
                set(run, SSH_OPTIONS_HOST,
                    config->host_key_alias != NULL ? config->host_key_alias : config->hostname) &&
                set(run, SSH_OPTIONS_PORT, &port) &&
                (config->user == NULL || set(run, SSH_OPTIONS_USER, config->user)) &&
                set(run, SSH_OPTIONS_NODELAY, &no_delay) && set(run, SSH_OPTIONS_FD, &run->fd);

    if (!good)
        return shp_libssh_fail(run, SHP_CODE_CONNECT_FAILED, "configuration",
                               "libssh refuses the configuration");
    if (!set_algorithms(run))
        return shp_libssh_fail(run, SHP_CODE_KEX_UNSUPPORTED, "configuration",
                               "libssh has none of the configured algorithms");
    if (config->compression != NULL && shp_ssh_config_yes(config->compression))
        set(run, SSH_OPTIONS_COMPRESSION, "yes");
    set_rekey(run);
    ssh_set_blocking(run->session, 0);
    return true;
}

/* ---- known hosts -------------------------------------------------------------------------- */

/* libssh reads two files; more become one, in memory. */
static int merge_known_hosts(const struct shp_ssh_files *files)
{
    int merged = memfd_create("known_hosts", MFD_CLOEXEC);
    char bytes[16384];

    for (size_t i = 0; merged >= 0 && i < files->known_hosts_len; i++) {
        int fd = open(files->known_hosts[i], O_RDONLY | O_CLOEXEC);
        bool whole = true;
        ssize_t len;

        while (fd >= 0 && whole && (len = read(fd, bytes, sizeof(bytes))) > 0)
            whole = write(merged, bytes, (size_t)len) == len;
        if (fd >= 0)
            close(fd);
        if (!whole || write(merged, "\n", 1) != 1) {
            close(merged);
            merged = -1;
        }
    }
    return merged;
}

/* *merged: to be closed when the host key has been checked. */
static bool set_known_hosts(struct shp_libssh_run *run, int *merged)
{
    const struct shp_ssh_files *files = &run->worker->files;
    const char *first = files->known_hosts_len > 0 ? files->known_hosts[0] : "/dev/null";
    const char *second = files->known_hosts_len == 2 ? files->known_hosts[1] : "/dev/null";
    char path[64];

    if (files->known_hosts_len > 2) {
        *merged = merge_known_hosts(files);
        if (*merged < 0)
            return shp_libssh_fail(run, SHP_CODE_CONNECT_FAILED, "host key",
                                   "the known hosts could not be read");
        snprintf(path, sizeof(path), "/proc/self/fd/%d", *merged);
        first = path;
    }
    if (set(run, SSH_OPTIONS_KNOWNHOSTS, first) && set(run, SSH_OPTIONS_GLOBAL_KNOWNHOSTS, second))
        return true;
    return shp_libssh_fail(run, SHP_CODE_CONNECT_FAILED, "host key",
                           "libssh refuses the known hosts");
}

/* ---- steps -------------------------------------------------------------------------------- */

static int kex_code(struct shp_libssh_run *run)
{
    const char *said = ssh_get_error(run->session);

    return strstr(said, "no match for method") != NULL ? SHP_CODE_KEX_UNSUPPORTED
                                                       : SHP_CODE_CONNECT_FAILED;
}

static bool exchange_keys(struct shp_libssh_run *run)
{
    int rc;

    while ((rc = ssh_connect(run->session)) == SSH_AGAIN) {
        switch (shp_libssh_wait(run)) {
        case SHP_LIBSSH_READY:
            break;
        case SHP_LIBSSH_CANCELLED:
            return false;
        case SHP_LIBSSH_TIMEOUT:
            shp_error_set(&run->error, SHP_CODE_CONNECT_TIMEOUT, NULL, "key exchange",
                          "the server took the connection and did not finish the key exchange in "
                          "%d s",
                          SHP_LIBSSH_KEX_MS / 1000);
            return false;
        case SHP_LIBSSH_GONE:
            return shp_libssh_fail(run, kex_code(run), "key exchange",
                                   "the server ended the connection");
        }
    }
    if (rc != SSH_OK)
        return shp_libssh_fail(run, kex_code(run), "key exchange", "the key exchange failed");
    snprintf(run->facts.kex, sizeof(run->facts.kex), "%s", ssh_get_kex_algo(run->session));
    return true;
}

static bool channel_step(struct shp_libssh_run *run, int rc, bool *again)
{
    *again = false;
    if (rc == SSH_OK)
        return true;
    if (rc != SSH_AGAIN)
        return shp_libssh_fail(run, SHP_CODE_CHANNEL_REFUSED, "channel",
                               "the server runs no command for us");
    switch (shp_libssh_wait(run)) {
    case SHP_LIBSSH_READY:
        *again = true;
        return true;
    case SHP_LIBSSH_CANCELLED:
        return false;
    case SHP_LIBSSH_TIMEOUT:
        shp_error_set(&run->error, SHP_CODE_CHANNEL_REFUSED, NULL, "channel",
                      "the server opened no channel for the command in %d s",
                      SHP_LIBSSH_CHANNEL_MS / 1000);
        return false;
    case SHP_LIBSSH_GONE:
        break;
    }
    return shp_libssh_fail(run, SHP_CODE_LINK_LOST, "channel", "the server ended the connection");
}

static bool open_channel(struct shp_libssh_run *run)
{
    bool again = true;

    run->channel = ssh_channel_new(run->session);
    if (run->channel == NULL)
        return shp_libssh_fail(run, SHP_CODE_OUT_OF_MEMORY, "channel", "no memory");
    shp_libssh_channel_watch(run);
    while (again) {
        if (!channel_step(run, ssh_channel_open_session(run->channel), &again))
            return false;
    }
    again = true;
    while (again) {
        int rc = ssh_channel_request_exec(run->channel, run->worker->command);

        if (!channel_step(run, rc, &again))
            return false;
    }
    return true;
}

static bool check_host(struct shp_libssh_run *run)
{
    bool good;

    shp_libssh_phase(run, SHP_SSH_PHASE_HOST_KEY, SHP_LIBSSH_KEX_MS);
    good = shp_libssh_check_host(run);
    shp_libssh_publish(run);
    return good;
}

/* The known hosts are also read while the key exchange chooses a host key algorithm. */
static bool meet_host(struct shp_libssh_run *run)
{
    int merged = -1;
    bool good = set_known_hosts(run, &merged) && exchange_keys(run) && check_host(run);

    if (merged >= 0)
        close(merged);
    return good;
}

static void connect_and_run(struct shp_libssh_run *run)
{
    shp_libssh_phase(run, SHP_SSH_PHASE_TCP, SHP_LIBSSH_TCP_MS);
    run->fd = shp_libssh_connect(run);
    if (run->fd < 0)
        return;
    if (fstat(run->fd, &run->socket) != 0)
        memset(&run->socket, 0, sizeof(run->socket));
    shp_libssh_phase(run, SHP_SSH_PHASE_KEX, SHP_LIBSSH_KEX_MS);
    run->session = ssh_new();
    if (run->session == NULL) {
        shp_libssh_fail(run, SHP_CODE_OUT_OF_MEMORY, "key exchange", "no memory");
        return;
    }
    if (!set_options(run) || !meet_host(run))
        return;
    shp_libssh_phase(run, SHP_SSH_PHASE_AUTH, SHP_LIBSSH_AUTH_MS);
    if (!shp_libssh_login(run))
        return;
    shp_libssh_phase(run, SHP_SSH_PHASE_CHANNEL, SHP_LIBSSH_CHANNEL_MS);
    if (!open_channel(run))
        return;
    shp_libssh_pump(run);
}

/* ---- end ---------------------------------------------------------------------------------- */

static void keep_banner(struct shp_libssh_run *run)
{
    char *banner = run->session != NULL ? ssh_get_issue_banner(run->session) : NULL;
    struct shp_tail *tail = &run->tail;
    char text[SHP_TAIL_BYTES];
    size_t len = shp_tail_copy(tail, text);

    if (banner == NULL)
        return;
    /* It came first, and stays where there is room. */
    memset(tail, 0, sizeof(*tail));
    shp_tail_add(tail, banner, strlen(banner));
    shp_tail_add(tail, text, len);
    ssh_string_free_char(banner);
}

/*
 * Whether libssh closes a socket that it was given depends on its version and on how the session
 * failed. The number may be somebody else's by now; the inode tells.
 */
static void close_socket(const struct shp_libssh_run *run)
{
    struct stat now;

    if (run->fd >= 0 && fstat(run->fd, &now) == 0 && now.st_dev == run->socket.st_dev &&
        now.st_ino == run->socket.st_ino)
        close(run->fd);
}

static void disconnect(struct shp_libssh_run *run)
{
    if (run->channel != NULL)
        ssh_channel_free(run->channel);
    if (run->session != NULL) {
        run->greeted = ssh_get_serverbanner(run->session) != NULL;
        ssh_disconnect(run->session);
        ssh_free(run->session);
    }
    close_socket(run);
}

static void report_end(struct shp_libssh_run *run)
{
    struct shp_libssh_worker *worker = run->worker;

    uv_mutex_lock(&worker->lock);
    shp_tail_clean(&run->tail, worker->diagnostic, sizeof(worker->diagnostic));
    worker->facts = run->facts;
    worker->error = run->error;
    worker->greeted = run->greeted;
    worker->exited = run->exited;
    worker->exit_status = run->exit_status;
    worker->term_signal = run->term_signal;
    worker->deadline_ns = 0;
    worker->ended = true;
    if (worker->async != NULL)
        uv_async_send(worker->async);
    uv_mutex_unlock(&worker->lock);
}

void shp_libssh_worker_main(void *arg)
{
    struct shp_libssh_worker *worker = arg;
    struct shp_libssh_run *run = shp_calloc(1, sizeof(*run));

    if (run == NULL) {
        struct shp_libssh_run none = {.worker = worker, .facts = worker->facts, .fd = -1};

        shp_libssh_fail(&none, SHP_CODE_OUT_OF_MEMORY, "connect", "no memory");
        report_end(&none);
        shp_libssh_worker_unref(worker);
        return;
    }
    run->worker = worker;
    run->fd = -1;
    run->facts = worker->facts;
    connect_and_run(run);
    keep_banner(run);
    disconnect(run);
    report_end(run);
    shp_free(run);
    shp_libssh_worker_unref(worker);
}
