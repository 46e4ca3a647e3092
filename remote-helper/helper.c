/*
 * The helper's side of the noise link: hello, dispatch to handlers, one deadline timer for all
 * jobs, one idle handle for those that work in steps.
 */
#include "remote-helper/helper.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "protocol/codec.h"
#include "protocol/messages.h"
#include "remote-helper/handlers.h"
#include "remote-helper/receiver_conn.h"

static const struct {
    uint16_t message;
    handler_fn handle;
} handlers[] = {
    {SHP_MSG_HERDR_CALL, handle_herdr_call},
    {SHP_MSG_ROSTER_GET, handle_roster_get},
    {SHP_MSG_TRANSCRIPT_LATEST, handle_transcript_latest},
    {SHP_MSG_DIRECTORY_RESOLVE, handle_directory_resolve},
    {SHP_MSG_IDENTITY_GET, handle_identity_get},
    {SHP_MSG_RECEIVERS_LIST, handle_receivers_list},
    {SHP_MSG_RECEIVER_WAIT, handle_receiver_wait},
    {SHP_MSG_RECEIVER_OPEN, handle_receiver_open},
    {SHP_MSG_RECEIVER_CLOSE, handle_receiver_close},
    {SHP_MSG_FILE_PUT, handle_file_put},
    {SHP_MSG_SESSION_REQUEST, handle_session_request},
    {SHP_MSG_MACHINE_FACTS, handle_machine_facts},
    {SHP_MSG_LINK_ECHO, handle_link_echo},
};

/* ---- answers without a job ---------------------------------------------------------------- */

void helper_refuse(struct helper *helper, uint32_t stream, const struct shp_error *error)
{
    if (helper->link != NULL)
        shp_link_respond_error(helper->link, stream, error);
}

void helper_refuse_code(struct helper *helper, uint32_t stream, int code, const char *step,
                        const char *cause)
{
    struct shp_error error;
    shp_error_set(&error, code, NULL, step, "%s", cause);
    helper_refuse(helper, stream, &error);
}

void helper_answer(struct helper *helper, uint32_t stream, const char *json, const void *bulk,
                   size_t len)
{
    if (helper->link == NULL)
        return;
    int status =
        json == NULL ? SHP_ERR_NOMEM : shp_link_respond(helper->link, stream, json, bulk, len);
    if (status != 0 && status != SHP_ERR_NOT_FOUND)
        helper_refuse_code(helper, stream,
                           status == SHP_ERR_LIMIT ? SHP_CODE_MESSAGE_TOO_LARGE
                                                   : SHP_CODE_OUT_OF_MEMORY,
                           "answer", shp_strerror(status));
}

void handle_identity_get(struct helper *helper, const struct shp_link_request *request,
                         const cJSON *params, bool fin)
{
    struct json_out out;
    (void)params;
    (void)fin;
    json_out_init(&out, SHP_LIMIT_HEAD_JSON_BYTES_MAX);
    json_out_raw(&out, "{");
    identity_write(&helper->identity, &out);
    json_out_raw(&out, "}");
    helper_answer(helper, request->stream, json_out_status(&out) == 0 ? out.data : NULL, NULL, 0);
    json_out_fini(&out);
}

/* ---- jobs --------------------------------------------------------------------------------- */

static struct job *job_find(struct helper *helper, uint32_t stream)
{
    struct job *job = helper->jobs;
    while (job != NULL && job->stream != stream)
        job = job->next;
    return job;
}

static void on_deadline(uv_timer_t *timer)
{
    struct helper *helper = timer->data;
    uint64_t now = uv_now(helper->loop);
    for (struct job *job = helper->jobs, *next; job != NULL; job = next) {
        next = job->next;
        if (job->deadline_ms <= now)
            job_fail(job, SHP_CODE_TIMEOUT, "answer", "the deadline of the request passed");
    }
    helper_touched(helper);
}

static void on_work(uv_idle_t *idle)
{
    struct helper *helper = idle->data;
    for (struct job *job = helper->jobs, *next; job != NULL; job = next) {
        next = job->next;
        if (job->runnable)
            job->ops->step(job);
    }
    helper_touched(helper);
}

void helper_touched(struct helper *helper)
{
    uint64_t due = UINT64_MAX;
    bool runnable = false;
    for (const struct job *job = helper->jobs; job != NULL; job = job->next) {
        due = job->deadline_ms < due ? job->deadline_ms : due;
        runnable = runnable || job->runnable;
    }
    if (!helper->handles_open)
        return;
    if (runnable)
        uv_idle_start(&helper->work, on_work);
    else
        uv_idle_stop(&helper->work);
    uint64_t now = uv_now(helper->loop);
    if (due == UINT64_MAX)
        uv_timer_stop(&helper->deadline);
    else
        uv_timer_start(&helper->deadline, on_deadline, due > now ? due - now : 0, 0);
}

/* ---- link --------------------------------------------------------------------------------- */

void helper_hello_begin(struct json_out *out)
{
    json_out_raw(out, "{");
    json_out_key(out, "versions");
    json_out_raw(out, "[");
    json_out_u64(out, SHP_PROTOCOL_VERSION_MIN);
    json_out_next(out);
    json_out_u64(out, SHP_PROTOCOL_VERSION_MAX);
    json_out_raw(out, "]");
    json_out_member_string(out, "role", "helper");
}

static void write_hello(const struct helper *helper, struct json_out *out)
{
    helper_hello_begin(out);
    json_out_member_string(out, "build", helper->build);
    identity_write(&helper->identity, out);
    json_out_raw(out, "}");
}

static bool copy_string(char *out, size_t size, const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    const char *text = cJSON_IsString(item) ? item->valuestring : "";
    size_t len = strlen(text);
    if (len >= size)
        return false;
    memcpy(out, text, len + 1);
    return true;
}

static void on_hello(struct shp_link *link, const char *json, void *user)
{
    struct helper *helper = user;
    char role[16] = "";
    cJSON *hello = NULL;
    bool good =
        shp_codec_parse(&hello, json, strlen(json)) == 0 &&
        copy_string(role, sizeof role, hello, "role") && strcmp(role, "controller") == 0 &&
        copy_string(helper->installation, sizeof helper->installation, hello, "installation") &&
        copy_string(helper->pi_session_id, sizeof helper->pi_session_id, hello, "pi_session_id");
    cJSON_Delete(hello);
    if (!good) {
        shp_link_close(link, SHP_CODE_PROTOCOL_ERROR, "hello: not that of a controller");
        return;
    }
    struct json_out out;
    json_out_init(&out, SHP_LIMIT_HELLO_BYTES_MAX);
    write_hello(helper, &out);
    if (json_out_status(&out) != 0 || shp_link_set_hello(link, out.data) != 0)
        shp_link_close(link, SHP_CODE_OUT_OF_MEMORY, "hello: no memory");
    json_out_fini(&out);
}

static void on_request(struct shp_link *link, const struct shp_link_request *request,
                       const char *json, bool fin, void *user)
{
    struct helper *helper = user;
    handler_fn handle = NULL;
    (void)link;
    for (size_t i = 0; i < sizeof handlers / sizeof handlers[0]; i++)
        if (handlers[i].message == request->message)
            handle = handlers[i].handle;
    if (handle == NULL) {
        helper_refuse_code(helper, request->stream, SHP_CODE_UNKNOWN_MESSAGE, "request",
                           shp_message_name(request->message));
        return;
    }
    char field[64] = "";
    cJSON *params = NULL;
    int status = shp_codec_parse(&params, json, strlen(json));
    if (status == 0)
        status = shp_codec_check_params(request->message, params, field, sizeof field);
    if (status == 0)
        handle(helper, request, params, fin);
    else
        helper_refuse_code(helper, request->stream,
                           status == SHP_ERR_NOMEM ? SHP_CODE_OUT_OF_MEMORY
                                                   : SHP_CODE_INVALID_PARAMS,
                           shp_message_name(request->message), field);
    cJSON_Delete(params);
}

static void on_bulk(struct shp_link *link, uint32_t stream, const uint8_t *data, size_t len,
                    bool fin, void *user)
{
    struct job *job = job_find(user, stream);
    /* Every kind of job uses bytes up at once; those of an answered request go nowhere. */
    shp_link_consume(link, stream, len);
    if (job != NULL && job->ops->bulk != NULL)
        job->ops->bulk(job, data, len, fin);
}

static void on_canceled(struct shp_link *link, uint32_t stream, void *user)
{
    struct job *job = job_find(user, stream);
    (void)link;
    if (job != NULL)
        job_end(job);
}

static void on_writable(struct shp_link *link, void *user)
{
    struct helper *helper = user;
    (void)link;
    for (struct job *job = helper->jobs, *next; job != NULL; job = next) {
        next = job->next;
        if (job->ops->writable != NULL)
            job->ops->writable(job);
    }
}

static void close_handles(struct helper *helper)
{
    if (!helper->handles_open)
        return;
    helper->handles_open = false;
    uv_close((uv_handle_t *)&helper->deadline, NULL);
    uv_close((uv_handle_t *)&helper->work, NULL);
}

static void on_closed(struct shp_link *link, const struct shp_error *error,
                      const struct shp_transport_end *end, void *user)
{
    struct helper *helper = user;
    (void)link;
    (void)end;
    helper->link = NULL;
    helper->end = *error;
    while (helper->jobs != NULL)
        job_end(helper->jobs);
    receiver_conns_close(helper);
    close_handles(helper);
}

static const struct shp_link_callbacks link_callbacks = {
    .on_hello = on_hello,
    .on_request = on_request,
    .on_bulk = on_bulk,
    .on_canceled = on_canceled,
    .on_writable = on_writable,
    .on_closed = on_closed,
};

/*
 * musl gives the pages of a size class back with the last block of it, at two system calls a time.
 * Every call needs a few buffers of the first size and nothing else may hold one, so one is kept.
 */
static void keep_buffer_pages(void)
{
    static void *kept;
    if (kept == NULL)
        kept = malloc(SHP_BUF_CAPACITY_FIRST);
}

int helper_open(struct helper *helper, uv_loop_t *loop, struct shp_transport *transport,
                const char *marker, const char *build)
{
    struct shp_link_options options = {
        .transport = transport,
        .session = {.role = SHP_ROLE_RESPONDER, .suite = SHP_SUITE_NOISE},
        .callbacks = link_callbacks,
        .user = helper,
    };
    keep_buffer_pages();
    memset(helper, 0, sizeof *helper);
    if (strlen(marker) != SHP_MARKER_HEX)
        return SHP_ERR_INVALID;
    memcpy(options.session.marker, marker, SHP_MARKER_HEX + 1);
    helper->loop = loop;
    helper->build = build;
    helper->receiver_idle_ms = RECEIVER_IDLE_MS;
    int status = identity_init(&helper->identity);
    if (status == 0)
        status = shp_link_open(&helper->link, loop, &options);
    if (status != 0)
        return status;
    uv_timer_init(loop, &helper->deadline);
    uv_idle_init(loop, &helper->work);
    helper->deadline.data = helper->work.data = helper;
    helper->handles_open = true;
    return 0;
}

void helper_close(struct helper *helper, int code, const char *text)
{
    if (helper->link != NULL)
        shp_link_close(helper->link, code, text);
}
