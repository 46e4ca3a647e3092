/*
 * session_request of the controller: gathered, sent to the receiver of the named session under the
 * same id and what is left of its time, and the answer passed back.
 *
 * A relay outlives its job while the receiver still has to answer: then the job is gone and the
 * answer goes nowhere.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "protocol/codec.h"
#include "protocol/messages.h"
#include "remote-helper/handlers.h"
#include "remote-helper/receiver_conn.h"
#include "remote-helper/session_params.h"

static const char step[] = "session request";

struct relay {
    struct job job;
    struct receiver_waiter waiter;
    struct shp_link *link; /* the receiver's, while it has to answer; NULL otherwise */
    uint32_t asked;
    bool job_gone;
    bool deliver;
    bool waiting;
    char *json;
    char to[HELPER_PI_SESSION_MAX + 1];
    char terminal_id[HELPER_PI_SESSION_MAX + 1];
    struct shp_buf bulk;
};

static void relay_free(struct relay *relay)
{
    cJSON_free(relay->json);
    shp_buf_fini(&relay->bulk);
    free(relay);
}

static void relay_end(struct job *job)
{
    struct relay *relay = (struct relay *)job;
    receiver_conn_forget(&relay->waiter);
    relay->job_gone = true;
    if (relay->link != NULL)
        shp_link_cancel(relay->link, relay->asked, SHP_CODE_CANCELED);
    else
        relay_free(relay);
}

/*
 * An error object that the receiver sent is its judgement and passes as it is. Without one the
 * connection or the time ended: what is known of the outcome decides the code.
 */
static void relay_failed(struct relay *relay, const struct shp_link_answer *answer)
{
    struct shp_error error = *answer->error;
    bool spoken = answer->json != NULL && answer->json[0] != '\0';
    if (!spoken) {
        bool rejected = answer->error->outcome == SHP_OUTCOME_REJECTED;
        bool late = answer->error->code == SHP_CODE_TIMEOUT;
        int code = rejected         ? SHP_CODE_RECEIVER_MISSING
                   : late           ? SHP_CODE_TIMEOUT
                   : relay->deliver ? SHP_CODE_DELIVERY_UNKNOWN
                                    : SHP_CODE_LINK_LOST;
        shp_error_set(&error, code, NULL, step, "the receiver did not answer: %s",
                      answer->error->cause[0] != '\0' ? answer->error->cause
                                                      : shp_code_name(answer->error->code));
        error.outcome = answer->error->outcome;
    }
    job_fail_error(&relay->job, &error);
}

static void on_answer(struct shp_link *link, const struct shp_link_answer *answer, void *user)
{
    struct relay *relay = user;
    (void)link;
    relay->link = NULL;
    if (relay->job_gone)
        relay_free(relay);
    else if (answer->error != NULL)
        relay_failed(relay, answer);
    else
        job_respond(&relay->job, answer->json, answer->bulk, answer->bulk_len);
}

static void on_connected(struct receiver_waiter *waiter, struct shp_link *link,
                         const struct shp_error *error)
{
    struct relay *relay = (struct relay *)(void *)((char *)waiter - offsetof(struct relay, waiter));
    if (error != NULL) {
        struct shp_error shown = *error;
        if (shown.code == SHP_CODE_AUTH_FAILED)
            shown.code = SHP_CODE_RECEIVER_REFUSED;
        job_fail_error(&relay->job, &shown);
        return;
    }
    int status = shp_link_request(link, SHP_MSG_SESSION_REQUEST, relay->job.id,
                                  job_left_ms(&relay->job), relay->json, shp_buf_peek(&relay->bulk),
                                  shp_buf_len(&relay->bulk), on_answer, relay, &relay->asked);
    if (status == 0) {
        relay->link = link;
        relay->job.acted = true;
        return;
    }
    bool busy = status == SHP_ERR_LIMIT || status == SHP_ERR_AGAIN;
    job_fail(&relay->job, busy ? SHP_CODE_TOO_MANY_STREAMS : SHP_CODE_RECEIVER_MISSING, step,
             shp_strerror(status));
}

static void relay_send(struct relay *relay)
{
    struct shp_error error;
    relay->waiting = true;
    if (receiver_conn_get(relay->job.helper, relay->to, relay->terminal_id, false, &relay->waiter,
                          &error) != 0)
        job_fail_error(&relay->job, &error);
}

static void relay_bulk(struct job *job, const uint8_t *data, size_t len, bool fin)
{
    struct relay *relay = (struct relay *)job;
    if (relay->waiting)
        return;
    if (shp_buf_append(&relay->bulk, data, len) != 0)
        job_fail(job, SHP_CODE_OUT_OF_MEMORY, step, "no memory for the text");
    else if (fin)
        relay_send(relay);
}

static const struct job_ops relay_ops = {.bulk = relay_bulk, .end = relay_end};

void handle_session_request(struct helper *helper, const struct shp_link_request *request,
                            const cJSON *params, bool fin)
{
    const char *to = shp_codec_string(params, "to", "");
    const char *terminal_id = shp_codec_string(params, "terminal_id", "");
    if (to[0] == '\0') {
        helper_refuse_code(helper, request->stream, SHP_CODE_INVALID_PARAMS, step, "to is missing");
        return;
    }
    struct relay *relay = calloc(1, sizeof *relay);
    cJSON *copy = relay != NULL ? cJSON_Duplicate(params, true) : NULL;
    int status = SHP_ERR_NOMEM;
    if (copy != NULL) {
        memcpy(relay->to, to, strlen(to) + 1);
        memcpy(relay->terminal_id, terminal_id, strlen(terminal_id) + 1);
        relay->deliver = strcmp(shp_codec_string(params, "service", ""), "deliver") == 0;
        status = session_params_outbound(&relay->json, copy, helper->identity.host,
                                         helper->installation);
    }
    cJSON_Delete(copy);
    if (status != 0) {
        free(relay);
        helper_refuse_code(helper, request->stream,
                           status == SHP_ERR_LIMIT ? SHP_CODE_MESSAGE_TOO_LARGE
                                                   : SHP_CODE_OUT_OF_MEMORY,
                           step, shp_strerror(status));
        return;
    }
    relay->waiter.cb = on_connected;
    shp_buf_init(&relay->bulk, SHP_LIMIT_MESSAGE_BYTES_MAX);
    job_start(&relay->job, helper, &relay_ops, request);
    if (fin)
        relay_send(relay);
}
