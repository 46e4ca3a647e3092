#include "remote-helper/job.h"

#include "protocol/messages.h"
#include "remote-helper/helper.h"

#include <string.h>

void job_start(struct job *job, struct helper *helper, const struct job_ops *ops,
               const struct shp_link_request *request)
{
    job->helper = helper;
    job->ops = ops;
    job->stream = request->stream;
    job->deadline_ms = uv_now(helper->loop) + request->timeout_ms;
    memcpy(job->id, request->id, sizeof job->id);
    job->next = helper->jobs;
    helper->jobs = job;
    helper_touched(helper);
}

uint32_t job_left_ms(const struct job *job)
{
    uint64_t now = uv_now(job->helper->loop);
    if (job->deadline_ms <= now)
        return 1;
    uint64_t left = job->deadline_ms - now;
    return left < SHP_LIMIT_REQUEST_TIMEOUT_MS_MAX ? (uint32_t)left
                                                   : SHP_LIMIT_REQUEST_TIMEOUT_MS_MAX;
}

void job_end(struct job *job)
{
    struct helper *helper = job->helper;
    struct job **at = &helper->jobs;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    job->ops->end(job);
    helper_touched(helper);
}

void job_respond(struct job *job, const char *json, const uint8_t *bulk, size_t len)
{
    int status = SHP_ERR_NOT_FOUND;
    if (job->helper->link != NULL)
        status = shp_link_respond(job->helper->link, job->stream, json, bulk, len);
    if (status == 0 || status == SHP_ERR_NOT_FOUND) {
        job_end(job);
        return;
    }
    job_fail(job, status == SHP_ERR_LIMIT ? SHP_CODE_MESSAGE_TOO_LARGE : SHP_CODE_OUT_OF_MEMORY,
             "answer", shp_strerror(status));
}

void job_fail_error(struct job *job, const struct shp_error *error)
{
    struct shp_link *link = job->helper->link;
    if (link != NULL && job->answering)
        shp_link_cancel(link, job->stream, error->code);
    else if (link != NULL)
        shp_link_respond_error(link, job->stream, error);
    job_end(job);
}

void job_fail(struct job *job, int code, const char *step, const char *cause)
{
    struct shp_error error;
    shp_error_set(&error, code, NULL, step, "%s", cause);
    error.outcome = job->acted ? SHP_OUTCOME_UNKNOWN : SHP_OUTCOME_REJECTED;
    job_fail_error(job, &error);
}
