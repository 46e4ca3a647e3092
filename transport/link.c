/*
 * One turn of a link: dispatch events until there are none, hand queued bulk to the session, write
 * its output, set the one timer. A turn runs only from the loop (read, writable, timer); a call of
 * our interface writes output at once, because that calls nobody, and leaves events to a turn.
 */
#include "transport/link_internal.h"

#include "base/alloc.h"
#include "protocol/messages.h"
#include "transport/ssh.h"

#include <sodium.h>

#include <assert.h>
#include <string.h>

#define ROUNDS_MAX 8
#define FOREIGN_BYTES 120 /* that are shown of them */

static void turn(struct shp_link *link);

void shp_link_random_marker(char marker[SHP_MARKER_HEX + 1])
{
    uint8_t bytes[SHP_MARKER_HEX / 2];

    randombytes_buf(bytes, sizeof(bytes));
    sodium_bin2hex(marker, SHP_MARKER_HEX + 1, bytes, sizeof(bytes));
}

/* ---- end ---------------------------------------------------------------------------------- */

static void free_prelude(struct shp_link *link)
{
    if (link->prelude.feed != NULL && link->prelude.free != NULL)
        link->prelude.free(link->prelude.prelude);
    memset(&link->prelude, 0, sizeof(link->prelude));
}

static void release(struct shp_link *link)
{
    shp_link_free_streams(link);
    free_prelude(link);
    shp_session_free(link->session);
    sodium_memzero(&link->config, sizeof(link->config));
    shp_free(link->hello);
    shp_free(link->diagnostic);
    shp_free(link);
}

static void on_timer_closed(uv_handle_t *handle)
{
    release(handle->data);
}

static void set_error(struct shp_link *link, const struct shp_error *error)
{
    if (link->has_error)
        return;
    link->has_error = true;
    link->error = *error;
}

static void fail(struct shp_link *link, int code, const char *step, const char *cause)
{
    struct shp_error error;

    shp_error_set(&error, code, NULL, step, "%s", cause);
    set_error(link, &error);
}

static void close_transport(struct shp_link *link)
{
    if (link->state == SHP_LINK_CLOSING)
        return;
    link->state = SHP_LINK_CLOSING;
    link->step_deadline_ms = UINT64_MAX;
    shp_transport_close(link->transport);
}

/*
 * The transport knows best why there was never a connection (name, key, login); once there were
 * frames, the first reason counts.
 */
static void choose_error(struct shp_link *link)
{
    const struct shp_error *ours = &link->error;
    const struct shp_error *theirs = &link->end.error;
    bool theirs_is_special = theirs->code != 0 && theirs->code != SHP_CODE_LINK_LOST;
    bool ours_is_vague = ours->code == SHP_CODE_LINK_LOST || ours->code == SHP_CODE_SHELL_REFUSED ||
                         ours->code == SHP_CODE_SHELL_SLOW;

    if (!link->has_error)
        link->error = *theirs;
    else if (ours->code == SHP_CODE_LINK_LOST && theirs->code != 0)
        link->error = *theirs;
    else if (ours_is_vague && theirs_is_special && !link->established)
        link->error = *theirs;
}

/* Before there were frames, the reason often stands on standard error only. */
static void add_diagnostic(struct shp_link *link)
{
    struct shp_error *error = &link->error;

    if (link->established || error->code == 0 || link->end.diagnostic[0] == '\0' ||
        strstr(error->cause, link->end.diagnostic) != NULL || link->end.error.code == error->code)
        return;
    struct shp_error told = *error;

    shp_error_set(error, told.code, told.machine, told.step, "%s (standard error: %s)", told.cause,
                  link->end.diagnostic);
    error->outcome = told.outcome;
}

/* Everything has ended: tell, then go. */
static void finish(struct shp_link *link)
{
    choose_error(link);
    add_diagnostic(link);
    link->transport = NULL;
    if (link->callbacks.on_closed != NULL)
        link->callbacks.on_closed(link, &link->error, &link->end, link->user);
    uv_close((uv_handle_t *)&link->timer, on_timer_closed);
}

/* ---- events ------------------------------------------------------------------------------- */

static void on_request(struct shp_link *link, const struct shp_event *event)
{
    struct shp_link_request request = {
        .stream = event->stream,
        .message = event->message,
        .timeout_ms = event->timeout_ms,
    };
    struct shp_error error;

    if (link->callbacks.on_request != NULL) {
        memcpy(request.id, event->id, sizeof(request.id));
        link->callbacks.on_request(link, &request, event->json, event->fin, link->user);
        return;
    }
    shp_error_set(&error, SHP_CODE_UNKNOWN_MESSAGE, NULL, "request", "no requests are served here");
    shp_link_respond_error(link, event->stream, &error);
}

static void dispatch(struct shp_link *link, const struct shp_event *event)
{
    const struct shp_link_callbacks *callbacks = &link->callbacks;

    switch (event->type) {
    case SHP_EVENT_NONE:
        break;
    case SHP_EVENT_HELLO:
        if (callbacks->on_hello != NULL)
            callbacks->on_hello(link, event->json, link->user);
        break;
    case SHP_EVENT_ESTABLISHED:
        link->established = true;
        /* The round trip while the line is empty: for people, and for the bulk window. */
        shp_session_measure(link->session, uv_now(link->loop));
        if (callbacks->on_established != NULL)
            callbacks->on_established(link, event->json, link->user);
        break;
    case SHP_EVENT_REQUEST:
        on_request(link, event);
        break;
    case SHP_EVENT_NOTIFICATION:
        if (callbacks->on_notification != NULL)
            callbacks->on_notification(link, event->stream, event->message, event->json, event->fin,
                                       link->user);
        break;
    case SHP_EVENT_RESPONSE:
        shp_link_ask_response(link, event);
        break;
    case SHP_EVENT_FAILED:
        shp_link_ask_failed(link, event);
        break;
    case SHP_EVENT_BULK:
        if (event->user != NULL)
            shp_link_ask_bulk(link, event);
        else if (callbacks->on_bulk != NULL)
            callbacks->on_bulk(link, event->stream, event->data, event->data_len, event->fin,
                               link->user);
        else
            shp_session_consume(link->session, event->stream, event->data_len);
        break;
    case SHP_EVENT_CANCELED:
        shp_link_drop_out(link, event->stream);
        if (callbacks->on_canceled != NULL)
            callbacks->on_canceled(link, event->stream, link->user);
        break;
    case SHP_EVENT_WRITABLE:
        shp_link_flush_outs(link);
        if (callbacks->on_writable != NULL)
            callbacks->on_writable(link, link->user);
        break;
    case SHP_EVENT_CLOSED:
        set_error(link, &event->error);
        if (link->state == SHP_LINK_SESSION) {
            link->state = SHP_LINK_DRAINING;
            link->step_deadline_ms = uv_now(link->loop) + SHP_LINK_DRAIN_MS;
        }
        break;
    }
}

/* True: there was one. */
static bool dispatch_all(struct shp_link *link)
{
    struct shp_event event;
    bool any = false;

    if (link->session == NULL)
        return false;
    link->turn_due = false;
    link->dispatching = true;
    while (shp_session_next_event(link->session, &event)) {
        dispatch(link, &event);
        any = true;
    }
    link->dispatching = false;
    return any;
}

/* ---- output ------------------------------------------------------------------------------- */

/* Calls nobody. */
static void write_prelude(struct shp_link *link)
{
    const uint8_t *data;
    size_t len;

    while ((len = link->prelude.output(link->prelude.prelude, &data)) > 0) {
        size_t taken = shp_transport_write(link->transport, data, len);

        if (taken > 0) {
            link->prelude.consume(link->prelude.prelude, taken);
            link->step_deadline_ms = uv_now(link->loop) + link->prelude.timeout_ms;
        }
        if (taken < len)
            break;
    }
}

static void write_session(struct shp_link *link)
{
    const uint8_t *data;
    size_t len;

    /* The loop's time is that of its last wait; a round trip is measured from this moment. */
    uv_update_time(link->loop);
    while ((len = shp_session_output(link->session, &data, uv_now(link->loop))) > 0) {
        size_t taken = shp_transport_write(link->transport, data, len);

        if (taken > 0)
            shp_session_consume_output(link->session, taken);
        if (taken < len)
            break;
    }
}

static void write_output(struct shp_link *link)
{
    if (link->state == SHP_LINK_PRELUDE)
        write_prelude(link);
    else if (link->state == SHP_LINK_SESSION || link->state == SHP_LINK_DRAINING)
        write_session(link);
}

/* ---- time --------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    turn(timer->data);
}

static void arm(struct shp_link *link)
{
    uint64_t now = uv_now(link->loop);
    uint64_t deadline = link->step_deadline_ms;

    if (link->state == SHP_LINK_SESSION) {
        uint64_t session = shp_session_deadline_ms(link->session);

        deadline = session < deadline ? session : deadline;
    }
    if (link->turn_due)
        deadline = now;
    if (deadline == UINT64_MAX)
        uv_timer_stop(&link->timer);
    else
        uv_timer_start(&link->timer, on_timer, deadline > now ? deadline - now : 0, 0);
}

/* ---- prelude ------------------------------------------------------------------------------ */

static int start_session(struct shp_link *link)
{
    int err;

    link->config.now_ms = uv_now(link->loop);
    randombytes_buf(link->config.ephemeral, sizeof(link->config.ephemeral));
    if (link->config.role == SHP_ROLE_INITIATOR)
        randombytes_buf(link->config.psk, sizeof(link->config.psk));
    err = shp_session_new(&link->session, &link->config);
    sodium_memzero(link->config.psk, sizeof(link->config.psk));
    sodium_memzero(link->config.ephemeral, sizeof(link->config.ephemeral));
    if (err == 0)
        link->state = SHP_LINK_SESSION;
    return err;
}

static void begin_session(struct shp_link *link)
{
    if (start_session(link) != 0) {
        fail(link, SHP_CODE_OUT_OF_MEMORY, "handshake", "no memory for the session");
        close_transport(link);
    }
    link->step_deadline_ms = UINT64_MAX;
}

/* Returns the bytes that were taken; the rest belongs to the session. */
static size_t feed_prelude(struct shp_link *link, const uint8_t *data, size_t len, bool ended)
{
    struct shp_error error = {0};
    size_t taken = len;

    switch (link->prelude.feed(link->prelude.prelude, data, len, &taken, ended, &error)) {
    case SHP_PRELUDE_MORE:
        return len;
    case SHP_PRELUDE_READY:
        free_prelude(link);
        begin_session(link);
        return taken;
    case SHP_PRELUDE_FAILED:
        set_error(link, &error);
        close_transport(link);
        return len;
    }
    return len;
}

/* ---- turns -------------------------------------------------------------------------------- */

/* Text in the place of a frame tells more about who wrote it than that it is none. */
static void quote_foreign(struct shp_link *link, const uint8_t *data, size_t len)
{
    char text[FOREIGN_BYTES + 1];
    size_t shown = 0;

    while (shown < len && shown < FOREIGN_BYTES && (data[shown] >= ' ' || data[shown] == '\n') &&
           data[shown] < 0x7f)
        shown++;
    if (shown < 4 || !link->has_error)
        return;
    struct shp_error told = link->error;

    shp_text_clean(text, sizeof(text), (const char *)data, shown);
    shp_error_set(&link->error, told.code, told.machine, told.step, "%s; " SHP_LINK_FOREIGN "%s",
                  told.cause, text);
    link->error.outcome = told.outcome;
}

static void feed_session(struct shp_link *link, const uint8_t *data, size_t len)
{
    dispatch_all(link); /* a session takes bytes only when no event waits */
    while (len > 0 && link->state == SHP_LINK_SESSION) {
        size_t taken = 0;
        int err = shp_session_feed(link->session, data, len, &taken, uv_now(link->loop));

        dispatch_all(link);
        if (err == SHP_ERR_AUTH)
            quote_foreign(link, data, len);
        if (err != 0)
            break;
        assert(taken > 0);
        data += taken;
        len -= taken;
    }
}

/* Events, output, end of draining, timer: whatever called us. */
static void settle(struct shp_link *link)
{
    const uint8_t *data;

    /* Written output makes room, and room is an event; the bound keeps the loop fair to others. */
    dispatch_all(link);
    for (int round = 0; round < ROUNDS_MAX; round++) {
        if (link->state == SHP_LINK_SESSION)
            shp_link_flush_outs(link);
        write_output(link);
        if (!dispatch_all(link))
            break;
        link->turn_due = true;
    }
    if (link->state == SHP_LINK_DRAINING &&
        (shp_session_output(link->session, &data, uv_now(link->loop)) == 0 ||
         uv_now(link->loop) >= link->step_deadline_ms))
        close_transport(link);
    arm(link);
}

static void turn(struct shp_link *link)
{
    uint64_t now = uv_now(link->loop);

    if (link->state == SHP_LINK_PRELUDE && now >= link->step_deadline_ms)
        feed_prelude(link, NULL, 0, false);
    if (link->state == SHP_LINK_SESSION && now >= shp_session_deadline_ms(link->session))
        shp_session_tick(link->session, now);
    settle(link);
}

void shp_link_touched(struct shp_link *link)
{
    if (link->dispatching)
        return; /* the turn that runs does all of it */
    write_output(link);
    link->turn_due = true;
    arm(link);
}

static void on_open(struct shp_transport *transport, void *user)
{
    struct shp_link *link = user;

    (void)transport;
    if (link->prelude.feed != NULL) {
        link->state = SHP_LINK_PRELUDE;
        link->step_deadline_ms = uv_now(link->loop) + link->prelude.timeout_ms;
    } else {
        begin_session(link);
    }
    settle(link);
}

static void on_read(struct shp_transport *transport, const uint8_t *data, size_t len, void *user)
{
    struct shp_link *link = user;
    size_t taken = 0;

    (void)transport;
    if (link->state == SHP_LINK_PRELUDE)
        taken = feed_prelude(link, data, len, false);
    feed_session(link, data + taken, len - taken);
    settle(link);
}

static void on_writable(struct shp_transport *transport, void *user)
{
    (void)transport;
    settle(user);
}

static void keep_end(struct shp_link *link, const struct shp_transport_end *end)
{
    link->end = *end;
    link->diagnostic = shp_strdup(end->diagnostic);
    link->end.diagnostic = link->diagnostic != NULL ? link->diagnostic : "";
}

static void on_closed(struct shp_transport *transport, const struct shp_transport_end *end,
                      void *user)
{
    struct shp_link *link = user;

    keep_end(link, end);
    if (link->state == SHP_LINK_PRELUDE) {
        feed_prelude(link, NULL, 0, true);
    } else if (link->session != NULL) {
        shp_session_feed_end(link->session, uv_now(link->loop));
        dispatch_all(link);
    }
    link->state = SHP_LINK_CLOSING;
    finish(link);
    shp_transport_free(transport);
}

static const struct shp_transport_callbacks transport_callbacks = {
    .on_open = on_open,
    .on_read = on_read,
    .on_writable = on_writable,
    .on_closed = on_closed,
};

/* ---- interface ---------------------------------------------------------------------------- */

static int copy_config(struct shp_link *link, const struct shp_session_config *config)
{
    size_t len = config->hello_json != NULL ? config->hello_len : 0;

    link->config = *config;
    link->config.hello_json = NULL;
    link->config.hello_len = len;
    if (len == 0)
        return SHP_OK;
    if (len > SHP_LIMIT_HELLO_BYTES_MAX)
        return SHP_ERR_INVALID;
    link->hello = shp_strndup(config->hello_json, len);
    link->config.hello_json = link->hello;
    return link->hello != NULL ? SHP_OK : SHP_ERR_NOMEM;
}

int shp_link_open(struct shp_link **out, uv_loop_t *loop, const struct shp_link_options *options)
{
    struct shp_link *link;
    int err;

    if (sodium_init() < 0)
        return SHP_ERR_IO;
    link = shp_calloc(1, sizeof(*link));
    if (link == NULL)
        return SHP_ERR_NOMEM;
    link->loop = loop;
    link->transport = options->transport;
    link->callbacks = options->callbacks;
    link->user = options->user;
    link->step_deadline_ms = UINT64_MAX;
    err = copy_config(link, &options->session);
    if (err == 0)
        err = shp_transport_open(options->transport, &transport_callbacks, link);
    if (err != 0) {
        shp_free(link->hello);
        shp_free(link);
        return err;
    }
    if (options->prelude != NULL)
        link->prelude = *options->prelude;
    uv_timer_init(loop, &link->timer);
    link->timer.data = link;
    *out = link;
    return SHP_OK;
}

int shp_link_set_hello(struct shp_link *link, const char *json)
{
    int err;

    if (link->state != SHP_LINK_SESSION)
        return SHP_ERR_STATE;
    err = shp_session_set_hello(link->session, json, strlen(json));
    if (err == 0)
        shp_link_touched(link);
    return err;
}

void shp_link_close(struct shp_link *link, int code, const char *text)
{
    if (link->state == SHP_LINK_SESSION) {
        shp_session_close(link->session, code, text);
        shp_link_touched(link);
    } else if (link->state != SHP_LINK_DRAINING && link->state != SHP_LINK_CLOSING) {
        fail(link, code, "connect", text != NULL ? text : "");
        close_transport(link);
    }
}

bool shp_link_established(const struct shp_link *link)
{
    return link->state == SHP_LINK_SESSION && shp_session_established(link->session);
}

void shp_link_probe(struct shp_link *link)
{
    if (link->state != SHP_LINK_SESSION)
        return;
    shp_session_probe(link->session, uv_now(link->loop));
    shp_link_touched(link);
}

uint32_t shp_link_rtt_us(const struct shp_link *link)
{
    return link->session != NULL ? shp_session_rtt_us(link->session) : 0;
}

const char *shp_link_transport_name(const struct shp_link *link)
{
    return link->transport != NULL ? shp_transport_name(link->transport) : "";
}

const struct shp_ssh_facts *shp_link_ssh_facts(const struct shp_link *link)
{
    return link->transport != NULL ? shp_transport_ssh_facts(link->transport) : NULL;
}

size_t shp_link_pending(const struct shp_link *link)
{
    return link->session != NULL ? shp_session_pending(link->session) : 0;
}
