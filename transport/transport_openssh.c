/*
 * ssh(1) as two processes, one after the other: the query `ssh -G`, repeated without an option that
 * the client refuses, then the connection. Each is a transport_process; this one passes its flow
 * through, reads ssh's log from standard error, and gives the end a meaning.
 *
 *   QUERY --refused option--> QUERY
 *     |---- answered ----> LOGIN --channel--> RUNNING --> ended
 *     |                      +---- 30 s, or a person is needed --> ended
 *     +---- failed, 10 s ---------------------------------------> ended
 *
 * It is open when the command has its channel: ssh's log says so, or the first byte does.
 */
#include "transport/transport_internal.h"

#include "base/alloc.h"
#include "protocol/messages.h"
#include "transport/ssh_config.h"
#include "transport/transport_openssh_cause.h"
#include "transport/transport_openssh_log.h"
#include "transport/transport_openssh_text.h"
#include "transport/transport_ssh_internal.h"

#include <stdio.h>
#include <string.h>

#define QUERY_MS 10000
#define QUERY_OUTPUT_BYTES_MAX (256 * 1024)

/* From the start of ssh to the channel of our command; a person may touch a key meanwhile. */
#define LOGIN_MS 30000

/* Silence behind a URL after which it is one that a person has to open. */
#define URL_MS 8000

struct openssh {
    struct shp_transport base;
    char *target;
    char *command;
    char *ssh;
    char *auth_sock; /* "SSH_AUTH_SOCK=...", or NULL */
    char *kex;       /* "-oKexAlgorithms=...", or NULL */
    struct shp_transport *child;
    uv_timer_t timer; /* of the query, then of the login */
    uint64_t login_until;
    bool no_agent;
    bool no_control;
    bool running; /* the connection, no longer the query */
    bool heard;
    bool by_us;
    bool timed_out;
    unsigned optional;
    struct shp_ssh_facts facts;
    struct shp_openssh_log log; /* of the process at hand */
    char *output;               /* of the query */
    size_t output_len;
    struct shp_transport_end end;
    char *diagnostic;
};

static void start_child(struct openssh *ssh);
static void begin_login(struct openssh *ssh);

/* ---- end ---------------------------------------------------------------------------------- */

static void release(struct openssh *ssh)
{
    shp_free(ssh->target);
    shp_free(ssh->command);
    shp_free(ssh->ssh);
    shp_free(ssh->auth_sock);
    shp_free(ssh->kex);
    shp_free(ssh->output);
    shp_free(ssh->diagnostic);
    shp_free(ssh);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct openssh *ssh = handle->data;

    ssh->end.diagnostic = ssh->diagnostic != NULL ? ssh->diagnostic : "";
    ssh->end.ssh = &ssh->facts;
    shp_transport_report_closed(&ssh->base, &ssh->end);
}

static void finish(struct openssh *ssh)
{
    shp_transport_begin_close(&ssh->base);
    uv_close((uv_handle_t *)&ssh->timer, on_timer_closed);
}

static struct shp_openssh_end end_of(const struct openssh *ssh)
{
    return (struct shp_openssh_end){
        .log = &ssh->log,
        .target = ssh->target,
        .exit_status = ssh->end.exit_status,
        .term_signal = ssh->end.term_signal,
        .heard = ssh->heard,
    };
}

/* The process is gone: its exit, and what people may read of its standard error. */
static void keep_end(struct openssh *ssh, const struct shp_transport_end *end)
{
    ssh->end = *end;
    memset(&ssh->end.error, 0, sizeof(ssh->end.error));
    shp_openssh_log_flush(&ssh->log);
    shp_free(ssh->diagnostic);
    ssh->diagnostic = shp_malloc(SHP_TAIL_BYTES + 1);
    if (ssh->diagnostic != NULL)
        shp_tail_clean(&ssh->log.tail, ssh->diagnostic, SHP_TAIL_BYTES + 1);
}

static void set_missing(struct openssh *ssh, const struct shp_transport_end *end)
{
    shp_error_set(&ssh->end.error, SHP_CODE_SSH_MISSING, NULL, "start ssh", "%s", end->error.cause);
}

/* ---- query -------------------------------------------------------------------------------- */

static void on_query_timeout(uv_timer_t *timer)
{
    struct openssh *ssh = timer->data;

    ssh->timed_out = true;
    shp_transport_close(ssh->child);
}

static void on_query_read(struct openssh *ssh, const uint8_t *data, size_t len)
{
    char *grown;

    if (ssh->output_len + len > QUERY_OUTPUT_BYTES_MAX)
        return; /* what we look for comes first */
    grown = shp_realloc(ssh->output, ssh->output_len + len);
    if (grown == NULL)
        return;
    memcpy(grown + ssh->output_len, data, len);
    ssh->output = grown;
    ssh->output_len += len;
}

/* False: the failure was final, and set. */
static bool is_query_worth_repeating(struct openssh *ssh, const struct shp_transport_end *end)
{
    unsigned refused = shp_openssh_refused_option(ssh->diagnostic) & ssh->optional;
    struct shp_openssh_end what = end_of(ssh);

    if (!end->exited) {
        set_missing(ssh, end);
        return false;
    }
    if (!ssh->timed_out && refused != 0) {
        ssh->optional &= ~refused;
        return true;
    }
    shp_openssh_explain_query(&ssh->end.error, &what, ssh->timed_out, QUERY_MS / 1000);
    return false;
}

/* ---- connection --------------------------------------------------------------------------- */

static void on_login_timer(uv_timer_t *timer)
{
    struct openssh *ssh = timer->data;

    ssh->timed_out = true;
    if (ssh->child != NULL)
        shp_transport_close(ssh->child);
}

/* A URL that waits for a person shortens the login's deadline, until the server goes on. */
static void set_login_timer(struct openssh *ssh)
{
    uint64_t now = uv_now(ssh->base.loop);
    uint64_t until = ssh->login_until;

    if (ssh->timed_out || ssh->by_us)
        return;
    if (ssh->log.url_waits && now + URL_MS < until)
        until = now + URL_MS;
    uv_timer_start(&ssh->timer, on_login_timer, until > now ? until - now : 0, 0);
}

static void begin_login(struct openssh *ssh)
{
    bool by_name = ssh->facts.proxy[0] == '\0';

    ssh->facts.phase = by_name ? SHP_SSH_PHASE_NAME : SHP_SSH_PHASE_TCP;
    ssh->login_until = uv_now(ssh->base.loop) + LOGIN_MS;
    set_login_timer(ssh);
}

/* The command has its channel. */
static void opened(struct openssh *ssh)
{
    if (ssh->base.state != SHP_TRANSPORT_OPENING || ssh->timed_out || ssh->by_us)
        return;
    uv_timer_stop(&ssh->timer);
    ssh->facts.phase = SHP_SSH_PHASE_RUNNING;
    shp_transport_report_open(&ssh->base);
}

/* The first of the keys that ssh went through silently and that needs a passphrase, or NULL. */
static const char *find_locked(struct openssh *ssh)
{
    char *path = ssh->log.tried;

    for (char *end; (end = strchr(path, '\n')) != NULL; path = end + 1) {
        *end = '\0';
        if (shp_ssh_key_is_locked(path))
            return path;
    }
    return NULL;
}

static void classify(struct openssh *ssh, const struct shp_transport_end *end)
{
    struct shp_openssh_end what = end_of(ssh);

    if (ssh->timed_out) {
        shp_openssh_explain_wait(&ssh->end.error, &what, LOGIN_MS / 1000);
        return;
    }
    if (!end->exited) {
        set_missing(ssh, end);
        return;
    }
    what.locked = find_locked(ssh);
    shp_openssh_explain_end(&ssh->end.error, &what);
    /* Its output broke before it ended in order. */
    if (ssh->end.error.code == 0 && end->error.code != 0)
        ssh->end.error = end->error;
}

/* Whoever gave up waiting for the first byte shall learn what it was that did not come. */
static void explain_close(struct openssh *ssh)
{
    struct shp_openssh_end what = end_of(ssh);

    if (ssh->log.opened && !ssh->heard && ssh->log.url_waits)
        shp_openssh_explain_wait(&ssh->end.error, &what, LOGIN_MS / 1000);
}

static void on_child_stderr(const char *data, size_t len, void *user)
{
    struct openssh *ssh = user;
    bool waited = ssh->log.url_waits;

    shp_openssh_log_feed(&ssh->log, data, len);
    if (!ssh->running || ssh->base.state != SHP_TRANSPORT_OPENING)
        return;
    if (ssh->log.opened)
        opened(ssh);
    else if (ssh->log.url_waits != waited)
        set_login_timer(ssh);
}

static void on_child_open(struct shp_transport *child, void *user)
{
    struct openssh *ssh = user;

    /* What was asked of us while there was no connection holds for it now. */
    if (ssh->running && !ssh->base.reading)
        shp_transport_read_stop(child);
}

static void on_child_read(struct shp_transport *child, const uint8_t *data, size_t len, void *user)
{
    struct openssh *ssh = user;

    (void)child;
    if (!ssh->running) {
        on_query_read(ssh, data, len);
        return;
    }
    ssh->heard = true;
    opened(ssh);
    shp_transport_report_read(&ssh->base, data, len);
}

static void on_child_writable(struct shp_transport *child, void *user)
{
    struct openssh *ssh = user;

    (void)child;
    shp_transport_report_writable(&ssh->base);
}

static void on_query_closed(struct openssh *ssh, const struct shp_transport_end *end)
{
    bool answered = end->exited && end->exit_status == 0 && end->term_signal == 0;

    if (ssh->diagnostic == NULL) {
        shp_error_set(&ssh->end.error, SHP_CODE_OUT_OF_MEMORY, NULL, "ssh -G", "no memory");
        finish(ssh);
        return;
    }
    if (!answered && !ssh->timed_out && shp_openssh_lacks_query(ssh->diagnostic)) {
        ssh->optional = 0; /* a client that old knows none of them */
        ssh->running = true;
    } else if (answered && !ssh->timed_out) {
        shp_openssh_parse_query(&ssh->facts, ssh->output, ssh->output_len);
        ssh->running = true;
    } else if (!is_query_worth_repeating(ssh, end)) {
        finish(ssh);
        return;
    }
    shp_free(ssh->output);
    ssh->output = NULL;
    ssh->output_len = 0;
    if (ssh->running)
        begin_login(ssh);
    start_child(ssh);
}

static void on_child_closed(struct shp_transport *child, const struct shp_transport_end *end,
                            void *user)
{
    struct openssh *ssh = user;

    ssh->child = NULL;
    keep_end(ssh, end);
    if (ssh->by_us) {
        explain_close(ssh);
        finish(ssh);
    } else if (!ssh->running) {
        on_query_closed(ssh, end);
    } else {
        classify(ssh, end);
        finish(ssh);
    }
    shp_transport_free(child);
}

static int new_child(struct openssh *ssh)
{
    static const struct shp_transport_callbacks callbacks = {
        .on_open = on_child_open,
        .on_read = on_child_read,
        .on_writable = on_child_writable,
        .on_closed = on_child_closed,
    };
    const char *argv[SHP_OPENSSH_ARGV_MAX];
    struct shp_process_options options = {
        .set = ssh->auth_sock, .on_stderr = on_child_stderr, .stderr_user = ssh};
    int err;

    memset(&ssh->log, 0, sizeof(ssh->log));
    ssh->log.facts = &ssh->facts;
    shp_openssh_argv(argv, ssh->ssh, ssh->target, ssh->running ? ssh->command : NULL,
                     ssh->optional);
    if (ssh->kex != NULL)
        shp_openssh_insert(argv, ssh->kex);
    if (ssh->no_agent)
        shp_openssh_insert(argv, "-oIdentityAgent=none");
    if (ssh->no_control)
        shp_openssh_insert(argv, "-oControlPath=none");
    options.argv = (char *const *)(uintptr_t)argv; /* copied, not written to */
    err = shp_transport_process_new(&ssh->child, ssh->base.loop, &options);
    if (err != 0)
        return err;
    err = shp_transport_open(ssh->child, &callbacks, ssh);
    if (err != 0) {
        shp_transport_free(ssh->child);
        ssh->child = NULL;
    }
    return err;
}

/* From the loop. */
static void start_child(struct openssh *ssh)
{
    int err = new_child(ssh);

    if (err != 0) {
        shp_error_set(&ssh->end.error, SHP_CODE_OUT_OF_MEMORY, NULL, "start ssh", "%s",
                      shp_strerror(err));
        finish(ssh);
    }
}

/* ---- operations --------------------------------------------------------------------------- */

static int openssh_open(struct shp_transport *transport)
{
    struct openssh *ssh = (struct openssh *)transport;
    int err = new_child(ssh);

    if (err != 0)
        return err;
    uv_timer_init(transport->loop, &ssh->timer);
    ssh->timer.data = ssh;
    if (ssh->running)
        begin_login(ssh);
    else
        uv_timer_start(&ssh->timer, on_query_timeout, QUERY_MS, 0);
    return SHP_OK;
}

static size_t openssh_write(struct shp_transport *transport, const uint8_t *data, size_t len)
{
    struct openssh *ssh = (struct openssh *)transport;

    return ssh->child != NULL ? shp_transport_write(ssh->child, data, len) : 0;
}

static void openssh_read_start(struct shp_transport *transport)
{
    struct openssh *ssh = (struct openssh *)transport;

    if (ssh->child != NULL)
        shp_transport_read_start(ssh->child);
}

static void openssh_read_stop(struct shp_transport *transport)
{
    struct openssh *ssh = (struct openssh *)transport;

    if (ssh->child != NULL)
        shp_transport_read_stop(ssh->child);
}

static void openssh_close(struct shp_transport *transport)
{
    struct openssh *ssh = (struct openssh *)transport;

    ssh->by_us = true;
    uv_timer_stop(&ssh->timer);
    /* Without a child the end is under way already. */
    if (ssh->child != NULL)
        shp_transport_close(ssh->child);
}

static void openssh_free(struct shp_transport *transport)
{
    release((struct openssh *)transport);
}

static const struct shp_transport_ops ops = {
    .name = "openssh",
    .open = openssh_open,
    .write = openssh_write,
    .read_start = openssh_read_start,
    .read_stop = openssh_read_stop,
    .close = openssh_close,
    .free = openssh_free,
};

int shp_transport_openssh_new(struct shp_transport **out, uv_loop_t *loop,
                              const struct shp_ssh_options *options)
{
    static const char name[] = "SSH_AUTH_SOCK=";
    const char *sock = options->ssh_auth_sock;
    struct openssh *ssh;

    if (!shp_openssh_target_ok(options->target) || options->command == NULL)
        return SHP_ERR_INVALID;
    ssh = shp_calloc(1, sizeof(*ssh));
    if (ssh == NULL)
        return SHP_ERR_NOMEM;
    shp_transport_init(&ssh->base, &ops, loop);
    ssh->optional = SHP_OPENSSH_OPTIONAL_ALL;
    snprintf(ssh->facts.transport, sizeof(ssh->facts.transport), "%s", ops.name);
    ssh->target = shp_strdup(options->target);
    ssh->command = shp_strdup(options->command);
    ssh->ssh = shp_strdup(options->ssh_path != NULL ? options->ssh_path : "ssh");
    if (sock != NULL) {
        ssh->auth_sock = shp_malloc(sizeof(name) + strlen(sock));
        if (ssh->auth_sock != NULL)
            sprintf(ssh->auth_sock, "%s%s", name, sock);
    }
    if (ssh->target == NULL || ssh->command == NULL || ssh->ssh == NULL ||
        (sock != NULL && ssh->auth_sock == NULL)) {
        release(ssh);
        return SHP_ERR_NOMEM;
    }
    *out = &ssh->base;
    return SHP_OK;
}

const struct shp_ssh_facts *shp_transport_openssh_facts(const struct shp_transport *transport)
{
    return transport->ops == &ops ? &((const struct openssh *)transport)->facts : NULL;
}

int shp_transport_openssh_prepare(struct shp_transport *transport,
                                  const struct shp_openssh_prepared *prepared)
{
    static const char option[] = "-oKexAlgorithms=";
    struct openssh *ssh = (struct openssh *)transport;

    if (prepared->kex != NULL) {
        ssh->kex = shp_malloc(sizeof(option) + strlen(prepared->kex));
        if (ssh->kex == NULL)
            return SHP_ERR_NOMEM;
        sprintf(ssh->kex, "%s%s", option, prepared->kex);
    }
    ssh->facts = *prepared->facts;
    snprintf(ssh->facts.transport, sizeof(ssh->facts.transport), "%s", ops.name);
    ssh->optional = prepared->optional;
    ssh->no_agent = prepared->no_agent;
    ssh->no_control = prepared->no_control;
    ssh->running = true;
    return SHP_OK;
}
