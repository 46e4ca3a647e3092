/*
 * The two tables of a link: our requests whose answers are gathered until they are whole, and what
 * is queued to be sent under credit.
 */
#include "transport/link_internal.h"

#include "base/alloc.h"
#include "protocol/messages.h"

#include <sodium.h>

#include <string.h>

#define BULK_BYTES_MIN (16 * 1024)

/* ---- to be sent --------------------------------------------------------------------------- */

static void free_out(struct shp_link_out *out)
{
    shp_free(out->head);
    shp_free(out->error);
    shp_free(out->data);
    shp_free(out);
}

/* False: the stream is gone, or all is sent. */
static bool send_out(struct shp_link *link, struct shp_link_out *out)
{
    size_t taken = 0;
    int err = 0;

    if (out->error != NULL)
        return shp_session_send_error(link->session, out->stream, out->error) == SHP_ERR_AGAIN;
    if (out->head != NULL) {
        err = shp_session_send_response(link->session, out->stream, out->head, strlen(out->head),
                                        out->len == 0);
        if (err == SHP_ERR_AGAIN)
            return true;
        shp_free(out->head);
        out->head = NULL;
        if (err != 0 || out->len == 0)
            return false;
    }
    err = shp_session_send_bulk(link->session, out->stream, out->data + out->offset,
                                out->len - out->offset, true, &taken);
    if (err != 0 && err != SHP_ERR_AGAIN)
        return false;
    out->offset += taken;
    return out->offset < out->len;
}

void shp_link_flush_outs(struct shp_link *link)
{
    struct shp_link_out **at = &link->outs;

    while (*at != NULL) {
        struct shp_link_out *out = *at;

        if (send_out(link, out)) {
            at = &out->next;
        } else {
            *at = out->next;
            free_out(out);
        }
    }
}

void shp_link_drop_out(struct shp_link *link, uint32_t stream)
{
    for (struct shp_link_out **at = &link->outs; *at != NULL; at = &(*at)->next) {
        if ((*at)->stream == stream) {
            struct shp_link_out *out = *at;

            *at = out->next;
            free_out(out);
            return;
        }
    }
}

/* bulk NULL: none. *out is not in the list yet. */
static int new_out(struct shp_link_out **result, uint32_t stream, const uint8_t *bulk, size_t len)
{
    struct shp_link_out *out;

    if (len > SHP_LIMIT_MESSAGE_BYTES_MAX)
        return SHP_ERR_LIMIT;
    out = shp_calloc(1, sizeof(*out));
    if (out == NULL)
        return SHP_ERR_NOMEM;
    out->stream = stream;
    out->len = len;
    if (len > 0) {
        out->data = shp_malloc(len);
        if (out->data == NULL) {
            shp_free(out);
            return SHP_ERR_NOMEM;
        }
        memcpy(out->data, bulk, len);
    }
    *result = out;
    return SHP_OK;
}

/* Takes the entry. */
static void queue_out(struct shp_link *link, struct shp_link_out *out)
{
    struct shp_link_out **at = &link->outs;

    if (!send_out(link, out)) {
        free_out(out);
        return;
    }
    while (*at != NULL)
        at = &(*at)->next;
    *at = out;
}

/* ---- our requests ------------------------------------------------------------------------- */

static void free_ask(struct shp_link *link, struct shp_link_ask *ask)
{
    link->held_bytes -= ask->bulk_len;
    shp_free(ask->json);
    shp_free(ask->bulk);
    shp_free(ask);
}

void shp_link_free_streams(struct shp_link *link)
{
    while (link->outs != NULL) {
        struct shp_link_out *out = link->outs;

        link->outs = out->next;
        free_out(out);
    }
    while (link->asks != NULL) {
        struct shp_link_ask *ask = link->asks;

        link->asks = ask->next;
        free_ask(link, ask);
    }
}

/* Gives back the credit that is owed, as far as SHP_LINK_HELD_BYTES_MAX allows. */
static void give_credit(struct shp_link *link)
{
    bool oldest = true;

    for (struct shp_link_ask *ask = link->asks; ask != NULL; ask = ask->next) {
        if (ask->json == NULL)
            continue; /* its answer has not begun */
        if (ask->owed > 0 && (oldest || link->held_bytes < SHP_LINK_HELD_BYTES_MAX)) {
            shp_session_consume(link->session, ask->stream, ask->owed);
            ask->owed = 0;
        }
        oldest = false;
    }
}

/* Out of the table first: the callback may ask again or close. */
static void complete(struct shp_link *link, struct shp_link_ask *ask,
                     const struct shp_link_answer *answer)
{
    struct shp_link_ask **at = &link->asks;

    while (*at != ask)
        at = &(*at)->next;
    *at = ask->next;
    shp_link_drop_out(link, ask->stream);
    ask->cb(link, answer, ask->user);
    free_ask(link, ask);
    give_credit(link);
}

static void fail_ask(struct shp_link *link, struct shp_link_ask *ask)
{
    struct shp_error error;
    struct shp_link_answer answer = {.error = &error, .json = ""};

    shp_error_set(&error, ask->failed, NULL, "answer", "no memory for the answer");
    error.outcome = SHP_OUTCOME_UNKNOWN;
    complete(link, ask, &answer);
}

/* A canceled request still gets its FAILED event; one whose answer has come whole gets none. */
static void give_up(struct shp_link *link, struct shp_link_ask *ask)
{
    ask->failed = SHP_CODE_OUT_OF_MEMORY;
    if (shp_session_cancel(link->session, ask->stream, ask->failed) != 0)
        fail_ask(link, ask);
}

void shp_link_ask_response(struct shp_link *link, const struct shp_event *event)
{
    struct shp_link_ask *ask = event->user;

    if (event->fin) {
        struct shp_link_answer answer = {.json = event->json};

        complete(link, ask, &answer);
        return;
    }
    ask->json = shp_strndup(event->json, event->json_len);
    if (ask->json == NULL)
        give_up(link, ask);
}

static bool keep_bulk(struct shp_link *link, struct shp_link_ask *ask, const uint8_t *data,
                      size_t len)
{
    size_t need = ask->bulk_len + len;

    if (need > SHP_LIMIT_MESSAGE_BYTES_MAX)
        return false;
    if (need >= ask->bulk_size) {
        size_t size = ask->bulk_size < BULK_BYTES_MIN ? BULK_BYTES_MIN : ask->bulk_size;
        uint8_t *grown;

        while (size <= need)
            size *= 2;
        grown = shp_realloc(ask->bulk, size);
        if (grown == NULL)
            return false;
        ask->bulk = grown;
        ask->bulk_size = size;
    }
    if (len > 0)
        memcpy(ask->bulk + ask->bulk_len, data, len);
    ask->bulk[need] = 0;
    ask->bulk_len = need;
    link->held_bytes += len;
    return true;
}

void shp_link_ask_bulk(struct shp_link *link, const struct shp_event *event)
{
    struct shp_link_ask *ask = event->user;

    if (ask->failed != 0)
        return;
    if (!keep_bulk(link, ask, event->data, event->data_len)) {
        give_up(link, ask);
        return;
    }
    if (event->fin) {
        struct shp_link_answer answer = {
            .json = ask->json, .bulk = ask->bulk, .bulk_len = ask->bulk_len};

        complete(link, ask, &answer);
        return;
    }
    ask->owed += event->data_len;
    give_credit(link);
}

void shp_link_ask_failed(struct shp_link *link, const struct shp_event *event)
{
    struct shp_link_ask *ask = event->user;
    struct shp_error error = event->error;
    struct shp_link_answer answer = {.error = &error, .json = event->json};

    if (ask->failed != 0)
        fail_ask(link, ask);
    else
        complete(link, ask, &answer);
}

int shp_link_request(struct shp_link *link, uint16_t message, const uint8_t *id,
                     uint32_t timeout_ms, const char *json, const uint8_t *bulk, size_t bulk_len,
                     shp_link_answer_cb cb, void *user, uint32_t *stream)
{
    uint8_t fresh[SHP_REQUEST_ID_BYTES];
    struct shp_link_ask *ask;
    struct shp_link_ask **at = &link->asks;
    struct shp_link_out *out = NULL;
    int err;

    if (!shp_link_established(link))
        return SHP_ERR_STATE;
    ask = shp_calloc(1, sizeof(*ask));
    if (ask == NULL)
        return SHP_ERR_NOMEM;
    ask->cb = cb;
    ask->user = user;
    if (bulk_len > 0) {
        err = new_out(&out, 0, bulk, bulk_len);
        if (err != 0)
            goto fail;
    }
    if (id == NULL) {
        randombytes_buf(fresh, sizeof(fresh));
        id = fresh;
    }
    err = shp_session_send_request(link->session, message, id, timeout_ms, json, strlen(json),
                                   out == NULL, ask, uv_now(link->loop), &ask->stream);
    if (err != 0)
        goto fail;
    while (*at != NULL)
        at = &(*at)->next;
    *at = ask;
    if (stream != NULL)
        *stream = ask->stream;
    if (out != NULL) {
        out->stream = ask->stream;
        queue_out(link, out);
    }
    shp_link_touched(link);
    return SHP_OK;

fail:
    if (out != NULL)
        free_out(out);
    shp_free(ask);
    return err;
}

void shp_link_cancel(struct shp_link *link, uint32_t stream, int code)
{
    if (link->state != SHP_LINK_SESSION)
        return;
    shp_link_drop_out(link, stream);
    if (shp_session_cancel(link->session, stream, code) == 0)
        shp_link_touched(link);
}

/* ---- answers ------------------------------------------------------------------------------ */

int shp_link_respond(struct shp_link *link, uint32_t stream, const char *json, const uint8_t *bulk,
                     size_t bulk_len)
{
    struct shp_link_out *out;
    int err;

    if (link->state != SHP_LINK_SESSION)
        return SHP_ERR_NOT_FOUND;
    /* The copy first: a head without its bulk would leave the asker waiting. */
    err = new_out(&out, stream, bulk, bulk_len);
    if (err != 0)
        return err;
    err = shp_session_send_response(link->session, stream, json, strlen(json), bulk_len == 0);
    if (err == SHP_ERR_AGAIN) {
        out->head = shp_strdup(json);
        err = out->head != NULL ? SHP_OK : SHP_ERR_NOMEM;
    } else if (err == 0 && bulk_len == 0) {
        free_out(out);
        shp_link_touched(link);
        return SHP_OK;
    }
    if (err != 0) {
        free_out(out);
        return err;
    }
    queue_out(link, out);
    shp_link_touched(link);
    return SHP_OK;
}

int shp_link_respond_error(struct shp_link *link, uint32_t stream, const struct shp_error *error)
{
    struct shp_link_out *out;
    int err;

    if (link->state != SHP_LINK_SESSION)
        return SHP_ERR_NOT_FOUND;
    shp_link_drop_out(link, stream);
    err = shp_session_send_error(link->session, stream, error);
    if (err == SHP_ERR_AGAIN) {
        err = new_out(&out, stream, NULL, 0);
        if (err != 0)
            return err;
        out->error = shp_malloc(sizeof(*out->error));
        if (out->error == NULL) {
            free_out(out);
            return SHP_ERR_NOMEM;
        }
        *out->error = *error;
        queue_out(link, out);
    }
    if (err == 0)
        shp_link_touched(link);
    return err;
}

int shp_link_respond_begin(struct shp_link *link, uint32_t stream, const char *json)
{
    int err;

    if (link->state != SHP_LINK_SESSION)
        return SHP_ERR_NOT_FOUND;
    err = shp_session_send_response(link->session, stream, json, strlen(json), false);
    if (err == 0)
        shp_link_touched(link);
    return err;
}

int shp_link_send_bulk(struct shp_link *link, uint32_t stream, const uint8_t *data, size_t len,
                       bool fin, size_t *taken)
{
    int err;

    if (link->state != SHP_LINK_SESSION)
        return SHP_ERR_NOT_FOUND;
    err = shp_session_send_bulk(link->session, stream, data, len, fin, taken);
    if (err == 0)
        shp_link_touched(link);
    return err;
}

int shp_link_notify(struct shp_link *link, uint16_t message, const char *json)
{
    int err;

    if (!shp_link_established(link))
        return SHP_ERR_STATE;
    err = shp_session_send_notification(link->session, message, json, strlen(json), true, NULL);
    if (err == 0)
        shp_link_touched(link);
    return err;
}

void shp_link_consume(struct shp_link *link, uint32_t stream, size_t len)
{
    if (link->state != SHP_LINK_SESSION)
        return;
    shp_session_consume(link->session, stream, len);
    shp_link_touched(link);
}
