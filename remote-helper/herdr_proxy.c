#include "remote-helper/herdr_proxy.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "protocol/codec.h"
#include "protocol/messages.h"
#include "remote-helper/handlers.h"
#include "remote-helper/herdr_conn.h"
#include "remote-helper/roster.h"

/* What the socket may deliver beyond HERDR_PENDING_BYTES before reading has stopped. */
#define PENDING_SLACK_BYTES 65536

/* The head of roster_get's answer. */
#define RESULT_BYTES 64

struct call {
    struct job job;
    struct herdr_conn *conn; /* NULL: not connected yet */
    struct shp_buf question;
    struct shp_buf pending; /* of the answer, not taken by the link yet */
    struct roster *roster;  /* NULL: herdr_call */
    uint64_t answer_bytes;
    bool line_ended;
    char path[HERDR_SOCKET_PATH_SIZE];
};

static const char step_call[] = "call herdr";

static struct call *call_of(struct job *job)
{
    return (struct call *)job;
}

static void call_end(struct job *job)
{
    struct call *call = call_of(job);
    if (call->conn != NULL)
        herdr_conn_close(call->conn);
    shp_buf_fini(&call->question);
    shp_buf_fini(&call->pending);
    roster_free(call->roster);
    free(call);
}

/* ---- answer ------------------------------------------------------------------------------- */

/* False: the job has ended. */
static bool answer_begin(struct call *call)
{
    int status = shp_link_respond_begin(call->job.helper->link, call->job.stream, "{}");
    if (status == 0)
        call->job.answering = true;
    if (status == 0 || status == SHP_ERR_AGAIN)
        return true;
    job_end(&call->job);
    return false;
}

static void pump(struct call *call)
{
    struct shp_link *link = call->job.helper->link;
    if (!call->job.answering) {
        if (call->line_ended) {
            job_respond(&call->job, "{}", shp_buf_peek(&call->pending),
                        shp_buf_len(&call->pending));
            return;
        }
        if (shp_buf_len(&call->pending) < HERDR_PENDING_BYTES)
            return;
        if (!answer_begin(call))
            return;
    }
    size_t len = shp_buf_len(&call->pending);
    size_t taken = 0;
    if (call->job.answering && (len > 0 || call->line_ended)) {
        int status = shp_link_send_bulk(link, call->job.stream, shp_buf_peek(&call->pending), len,
                                        call->line_ended, &taken);
        if (status == SHP_ERR_AGAIN) {
            taken = 0;
            status = 0;
        } else if (status == 0 && call->line_ended && taken == len) {
            job_end(&call->job);
            return;
        }
        if (status != 0) {
            job_end(&call->job);
            return;
        }
        shp_buf_consume(&call->pending, taken);
    }
    if (shp_buf_len(&call->pending) >= HERDR_PENDING_BYTES)
        herdr_conn_read_stop(call->conn);
    else if (!call->line_ended)
        herdr_conn_read_start(call->conn);
}

static void call_writable(struct job *job)
{
    struct call *call = call_of(job);
    if (call->conn != NULL && call->roster == NULL)
        pump(call);
}

static void roster_answer(struct call *call)
{
    struct shp_error error;
    if (roster_finish(call->roster, &error) != 0) {
        error.outcome = SHP_OUTCOME_REJECTED;
        job_fail_error(&call->job, &error);
        return;
    }
    struct json_out out, result;
    json_out_init(&out, SHP_LIMIT_MESSAGE_BYTES_MAX);
    json_out_init(&result, RESULT_BYTES);
    roster_write(call->roster, &out);
    json_out_raw(&result, "{");
    json_out_member_u64(&result, "agents", roster_agents(call->roster));
    json_out_raw(&result, "}");
    if (json_out_status(&out) == 0 && json_out_status(&result) == 0)
        job_respond(&call->job, result.data, (const uint8_t *)out.data, out.len);
    else
        job_fail(&call->job,
                 json_out_status(&out) == SHP_ERR_LIMIT ? SHP_CODE_MESSAGE_TOO_LARGE
                                                        : SHP_CODE_OUT_OF_MEMORY,
                 step_call, "the roster is too large");
    json_out_fini(&result);
    json_out_fini(&out);
}

static void on_data(struct herdr_conn *conn, const char *data, size_t len, void *user)
{
    struct call *call = user;
    (void)conn;
    call->answer_bytes += len;
    if (call->roster != NULL) {
        if (roster_feed(call->roster, data, len) != 0)
            roster_answer(call);
        return;
    }
    if (call->answer_bytes > SHP_LIMIT_MESSAGE_BYTES_MAX) {
        job_fail(&call->job, SHP_CODE_MESSAGE_TOO_LARGE, step_call,
                 "the answer is longer than a message may be");
        return;
    }
    if (shp_buf_append(&call->pending, data, len) != 0) {
        job_fail(&call->job, SHP_CODE_OUT_OF_MEMORY, step_call, "no memory for the answer");
        return;
    }
    pump(call);
}

static void on_end(struct herdr_conn *conn, enum herdr_end end, const char *cause, void *user)
{
    struct call *call = user;
    (void)conn;
    if (end == HERDR_END_LINE) {
        call->line_ended = true;
        if (call->roster != NULL)
            roster_answer(call);
        else
            pump(call);
        return;
    }
    struct shp_error error;
    bool refused = end == HERDR_END_NOT_RUNNING;
    shp_error_set(&error, refused ? SHP_CODE_HERDR_NOT_RUNNING : SHP_CODE_HERDR_NO_ANSWER, NULL,
                  step_call, "%s: %s", call->path, cause);
    error.outcome = refused ? SHP_OUTCOME_REJECTED : SHP_OUTCOME_UNKNOWN;
    job_fail_error(&call->job, &error);
}

/* ---- question ----------------------------------------------------------------------------- */

static void send_line(struct call *call, const char *line, size_t len)
{
    static const struct herdr_conn_callbacks callbacks = {.on_data = on_data, .on_end = on_end};
    if (herdr_conn_open(&call->conn, call->job.helper->loop, call->path, line, len, &callbacks,
                        call) != 0) {
        job_fail(&call->job, SHP_CODE_OUT_OF_MEMORY, step_call, "no memory");
        return;
    }
    /* A snapshot changes nothing, whenever it breaks off. */
    call->job.acted = call->roster == NULL;
}

static void question_whole(struct call *call)
{
    const char *line = (const char *)shp_buf_peek(&call->question);
    size_t len = shp_buf_len(&call->question);
    if (len == 0) {
        job_fail(&call->job, SHP_CODE_INVALID_PARAMS, step_call, "bulk: the request line is empty");
        return;
    }
    if (memchr(line, '\n', len) != NULL || memchr(line, '\0', len) != NULL) {
        job_fail(&call->job, SHP_CODE_INVALID_PARAMS, step_call,
                 "bulk: the request line holds a newline or a NUL");
        return;
    }
    send_line(call, line, len);
    /* job_fail frees the call; the connection has copied the line. */
}

static void call_bulk(struct job *job, const uint8_t *data, size_t len, bool fin)
{
    struct call *call = call_of(job);
    if (call->roster != NULL || call->conn != NULL)
        return;
    int status = shp_buf_append(&call->question, data, len);
    if (status != 0) {
        job_fail(job, status == SHP_ERR_LIMIT ? SHP_CODE_MESSAGE_TOO_LARGE : SHP_CODE_OUT_OF_MEMORY,
                 step_call, "Herdr takes request lines of at most 1 MiB");
        return;
    }
    if (fin)
        question_whole(call);
}

static const struct job_ops call_ops = {
    .bulk = call_bulk,
    .writable = call_writable,
    .end = call_end,
};

/* NULL: the request was answered with an error. */
static struct call *call_new(struct helper *helper, const struct shp_link_request *request,
                             const cJSON *params)
{
    struct shp_error error;
    struct call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        helper_refuse_code(helper, request->stream, SHP_CODE_OUT_OF_MEMORY, step_call, "no memory");
        return NULL;
    }
    if (herdr_socket_path(call->path, shp_codec_string(params, "socket", NULL),
                          shp_codec_string(params, "session", NULL), helper->identity.home,
                          &error) != 0) {
        helper_refuse(helper, request->stream, &error);
        free(call);
        return NULL;
    }
    shp_buf_init(&call->question, HERDR_REQUEST_BYTES_MAX);
    shp_buf_init(&call->pending, HERDR_PENDING_BYTES + PENDING_SLACK_BYTES);
    return call;
}

void handle_herdr_call(struct helper *helper, const struct shp_link_request *request,
                       const cJSON *params, bool fin)
{
    struct call *call = call_new(helper, request, params);
    if (call == NULL)
        return;
    job_start(&call->job, helper, &call_ops, request);
    if (fin)
        question_whole(call);
}

void handle_roster_get(struct helper *helper, const struct shp_link_request *request,
                       const cJSON *params, bool fin)
{
    struct call *call = call_new(helper, request, params);
    (void)fin;
    if (call == NULL)
        return;
    if (roster_new(&call->roster) != 0) {
        free(call);
        helper_refuse_code(helper, request->stream, SHP_CODE_OUT_OF_MEMORY, step_call, "no memory");
        return;
    }
    job_start(&call->job, helper, &call_ops, request);
    send_line(call, roster_request, strlen(roster_request));
}
