/* What doctor asks: facts of the machine, and bytes back to measure the link. */
#include <stdlib.h>

#include "base/buf.h"
#include "protocol/codec.h"
#include "protocol/messages.h"
#include "remote-helper/facts.h"
#include "remote-helper/handlers.h"
#include "shp_build_id.h"

#define FACTS_BYTES_MAX SHP_LIMIT_HEAD_JSON_BYTES_MAX
#define ECHO_BYTES_MAX ((size_t)1024 * 1024)

/* ---- facts --------------------------------------------------------------------------------- */

static void on_probe_closed(uv_handle_t *handle)
{
    free(handle);
}

static void on_probe_event(uv_fs_event_t *handle, const char *filename, int events, int status)
{
    (void)handle;
    (void)filename;
    (void)events;
    (void)status;
}

/* Whether a directory can be watched, found by watching one for a moment. */
static bool events_work(struct helper *helper)
{
    uv_fs_event_t *probe = malloc(sizeof *probe);
    if (probe == NULL || uv_fs_event_init(helper->loop, probe) != 0) {
        free(probe);
        return false;
    }
    bool works = uv_fs_event_start(probe, on_probe_event, helper->identity.home, 0) == 0;
    uv_close((uv_handle_t *)probe, on_probe_closed);
    return works;
}

void handle_machine_facts(struct helper *helper, const struct shp_link_request *request,
                          const cJSON *params, bool fin)
{
    const char *agent_dir = shp_codec_string(params, "agent_dir", NULL);
    struct json_out out;
    (void)fin;
    if (agent_dir != NULL && agent_dir[0] != '/') {
        helper_refuse_code(helper, request->stream, SHP_CODE_INVALID_PARAMS, "look at the machine",
                           "agent_dir is not absolute");
        return;
    }
    json_out_init(&out, FACTS_BYTES_MAX);
    json_out_raw(&out, "{");
    facts_write(&helper->identity, agent_dir, helper->program, &out);
    json_out_member_string(&out, "build", helper->build);
    json_out_member_string(&out, "version", SHP_VERSION);
    json_out_member_string(&out, "watch", events_work(helper) ? "events" : "polling");
    /* Herdr is asked only on the controller's behalf. */
    json_out_member_u64(&out, "calls_per_minute", 0);
    json_out_raw(&out, "}");
    helper_answer(helper, request->stream, json_out_status(&out) == 0 ? out.data : NULL, NULL, 0);
    json_out_fini(&out);
}

/* ---- echo ---------------------------------------------------------------------------------- */

struct echo {
    struct job job;
    struct shp_buf bytes;
};

static void echo_end(struct job *job)
{
    struct echo *echo = (struct echo *)job;
    shp_buf_fini(&echo->bytes);
    free(echo);
}

static void echo_bulk(struct job *job, const uint8_t *data, size_t len, bool fin)
{
    struct echo *echo = (struct echo *)job;
    int status = shp_buf_append(&echo->bytes, data, len);
    if (status != 0)
        job_fail(job, status == SHP_ERR_LIMIT ? SHP_CODE_MESSAGE_TOO_LARGE : SHP_CODE_OUT_OF_MEMORY,
                 "echo", shp_strerror(status));
    else if (fin)
        job_respond(job, "{}", shp_buf_peek(&echo->bytes), shp_buf_len(&echo->bytes));
}

static const struct job_ops echo_ops = {.bulk = echo_bulk, .end = echo_end};

void handle_link_echo(struct helper *helper, const struct shp_link_request *request,
                      const cJSON *params, bool fin)
{
    (void)params;
    struct echo *echo = calloc(1, sizeof *echo);
    if (echo == NULL) {
        helper_refuse_code(helper, request->stream, SHP_CODE_OUT_OF_MEMORY, "echo", "no memory");
        return;
    }
    shp_buf_init(&echo->bytes, ECHO_BYTES_MAX);
    job_start(&echo->job, helper, &echo_ops, request);
    if (fin)
        job_respond(&echo->job, "{}", NULL, 0);
}
