/*
 * ssh(1) as two processes, one after the other: the query `ssh -G`, repeated without an option that
 * the client refuses, then the connection. Each is a transport_process; this one passes its flow
 * through and gives the end a meaning.
 *
 *   QUERY --refused option--> QUERY
 *     |---- answered ----> RUNNING --> ended
 *     +---- failed, 10 s ----------> ended
 */
#include "transport/transport_internal.h"

#include "base/alloc.h"
#include "protocol/messages.h"
#include "transport/transport_openssh_text.h"

#include <stdio.h>
#include <string.h>

#define QUERY_MS 10000
#define QUERY_OUTPUT_BYTES_MAX (256 * 1024)

/* Of a long standard error the end tells most. */
#define CAUSE_BYTES 700

struct openssh {
    struct shp_transport base;
    char *target;
    char *command;
    char *ssh;
    char *auth_sock; /* "SSH_AUTH_SOCK=...", or NULL */
    struct shp_transport *child;
    uv_timer_t timer; /* of the query */
    bool running;     /* the connection, no longer the query */
    bool heard;
    bool by_us;
    bool timed_out;
    unsigned optional;
    struct shp_ssh_facts facts;
    char *output; /* of the query */
    size_t output_len;
    struct shp_transport_end end;
    char *diagnostic;
};

static void start_child(struct openssh *ssh);

/* ---- end ---------------------------------------------------------------------------------- */

static void release(struct openssh *ssh)
{
    shp_free(ssh->target);
    shp_free(ssh->command);
    shp_free(ssh->ssh);
    shp_free(ssh->auth_sock);
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

/* The last bytes of a text, from the beginning of a character. */
static const char *last_part(const char *text)
{
    size_t len = strlen(text);

    if (len <= CAUSE_BYTES)
        return text;
    text += len - CAUSE_BYTES;
    while (((unsigned char)*text & 0xc0) == 0x80)
        text++;
    return text;
}

static void set_error(struct openssh *ssh, int code, const char *step, const char *what,
                      const char *detail)
{
    shp_error_set(&ssh->end.error, code, NULL, step, "%s%s%s", what, detail[0] != '\0' ? ": " : "",
                  last_part(detail));
    if (ssh->heard)
        ssh->end.error.outcome = SHP_OUTCOME_UNKNOWN;
}

static void keep_end(struct openssh *ssh, const struct shp_transport_end *end)
{
    ssh->end = *end;
    memset(&ssh->end.error, 0, sizeof(ssh->end.error));
    shp_free(ssh->diagnostic);
    ssh->diagnostic = shp_strdup(end->diagnostic);
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
    unsigned refused = shp_openssh_refused_option(end->diagnostic) & ssh->optional;

    if (!end->exited) {
        set_error(ssh, SHP_CODE_SSH_MISSING, "start ssh", end->error.cause, "");
        return false;
    }
    if (ssh->timed_out) {
        set_error(ssh, SHP_CODE_CONNECT_FAILED, "ssh -G", "it did not answer in 10 s",
                  end->diagnostic);
        return false;
    }
    if (refused != 0) {
        ssh->optional &= ~refused;
        return true;
    }
    set_error(ssh, SHP_CODE_CONNECT_FAILED, "ssh -G", "ssh refuses its configuration or the target",
              end->diagnostic);
    return false;
}

static void on_query_closed(struct openssh *ssh, const struct shp_transport_end *end)
{
    bool answered = end->exited && end->exit_status == 0 && end->term_signal == 0;

    if (!answered && !ssh->timed_out && shp_openssh_lacks_query(end->diagnostic)) {
        ssh->optional = 0; /* a client that old knows none of them */
        ssh->running = true;
    } else if (answered && !ssh->timed_out) {
        shp_openssh_parse_query(&ssh->facts, ssh->output, ssh->output_len);
        ssh->facts.phase = SHP_SSH_PHASE_TCP;
        ssh->running = true;
    } else if (!is_query_worth_repeating(ssh, end)) {
        finish(ssh);
        return;
    }
    shp_free(ssh->output);
    ssh->output = NULL;
    ssh->output_len = 0;
    if (ssh->running)
        uv_timer_stop(&ssh->timer);
    start_child(ssh);
}

/* ---- connection --------------------------------------------------------------------------- */

static void classify(struct openssh *ssh, const struct shp_transport_end *end)
{
    char what[96];
    int code;

    if (!end->exited) {
        set_error(ssh, SHP_CODE_SSH_MISSING, "start ssh", end->error.cause, "");
        return;
    }
    code = shp_openssh_classify(end->exit_status, end->term_signal, ssh->heard, end->diagnostic);
    if (code == 0 && end->error.code == 0)
        return;
    if (code == 0)
        code = SHP_CODE_LINK_LOST;
    if (end->term_signal != 0)
        snprintf(what, sizeof(what), "ssh was killed by signal %d", end->term_signal);
    else
        snprintf(what, sizeof(what), "ssh ended with exit status %lld",
                 (long long)end->exit_status);
    set_error(ssh, code, code == SHP_CODE_LINK_LOST ? "connection" : "ssh", what, end->diagnostic);
}

static void on_child_open(struct shp_transport *child, void *user)
{
    struct openssh *ssh = user;

    if (!ssh->running)
        return;
    shp_transport_report_open(&ssh->base);
    /* What was asked of us while there was no connection holds for it now. */
    if (!ssh->base.reading)
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
    ssh->facts.phase = SHP_SSH_PHASE_RUNNING;
    shp_transport_report_read(&ssh->base, data, len);
}

static void on_child_writable(struct shp_transport *child, void *user)
{
    struct openssh *ssh = user;

    (void)child;
    shp_transport_report_writable(&ssh->base);
}

static void on_child_closed(struct shp_transport *child, const struct shp_transport_end *end,
                            void *user)
{
    struct openssh *ssh = user;

    ssh->child = NULL;
    keep_end(ssh, end);
    if (ssh->by_us) {
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
    struct shp_process_options options = {.set = ssh->auth_sock};
    int err;

    shp_openssh_argv(argv, ssh->ssh, ssh->target, ssh->running ? ssh->command : NULL,
                     ssh->optional);
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
        set_error(ssh, SHP_CODE_OUT_OF_MEMORY, "start ssh", shp_strerror(err), "");
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

const struct shp_ssh_facts *shp_transport_ssh_facts(const struct shp_transport *transport)
{
    return transport->ops == &ops ? &((const struct openssh *)transport)->facts : NULL;
}

int shp_transport_ssh_new(struct shp_transport **out, uv_loop_t *loop,
                          const struct shp_ssh_options *options)
{
    return shp_transport_openssh_new(out, loop, options);
}
