/* Requests about files of the machine: transcripts, directories, files of ours. */
#include <stdlib.h>
#include <string.h>

#include "protocol/codec.h"
#include "protocol/messages.h"
#include "remote-helper/directory.h"
#include "remote-helper/file_store.h"
#include "remote-helper/handlers.h"
#include "remote-helper/transcript.h"

#define RESULT_BYTES_MAX 32768

/* Respond with what was written; a writer that failed is our own mistake or memory. */
static void respond_written(struct job *job, struct json_out *result)
{
    if (json_out_status(result) == 0)
        job_respond(job, result->data, NULL, 0);
    else
        job_fail(job, SHP_CODE_OUT_OF_MEMORY, "answer", "no memory for the answer");
    json_out_fini(result);
}

/* ---- transcript --------------------------------------------------------------------------- */

struct reading {
    struct job job;
    struct transcript *transcript;
    const char *piece; /* text that the link has not taken */
    size_t piece_len;
    bool piece_last;
    bool walked;
};

static void reading_end(struct job *job)
{
    struct reading *reading = (struct reading *)job;
    transcript_free(reading->transcript);
    free(reading);
}

static void write_result(const struct transcript_result *result, struct json_out *out)
{
    json_out_raw(out, "{");
    json_out_member_bool(out, "found", result->found);
    if (result->found) {
        json_out_member_string(out, "entry_id", result->entry_id);
        if (result->stop_reason[0] != '\0')
            json_out_member_string(out, "stop_reason", result->stop_reason);
        if (result->error_message[0] != '\0')
            json_out_member_string(out, "error_message", result->error_message);
        if (result->truncated)
            json_out_member_bool(out, "truncated", true);
    }
    json_out_member_u64(out, "bad_lines", result->bad_lines);
    json_out_member_bool(out, "torn", result->torn);
    json_out_member_u64(out, "size", result->size);
    json_out_raw(out, "}");
}

/* The head of an answer with text. AGAIN: not now. */
static int reading_begin(struct reading *reading)
{
    struct json_out out;
    json_out_init(&out, RESULT_BYTES_MAX);
    write_result(transcript_result(reading->transcript), &out);
    int status = json_out_status(&out);
    if (status == 0)
        status = shp_link_respond_begin(reading->job.helper->link, reading->job.stream, out.data);
    json_out_fini(&out);
    reading->job.answering = status == 0;
    return status;
}

/* Text into the link until it takes no more; runnable again when the reader wants a pause. */
static void reading_pump(struct reading *reading)
{
    struct job *job = &reading->job;
    int status = job->answering ? 0 : reading_begin(reading);
    job->runnable = false;
    while (status == 0) {
        if (reading->piece_len == 0 && !reading->piece_last) {
            status = transcript_text(reading->transcript, &reading->piece, &reading->piece_len);
            if (status == SHP_ERR_AGAIN) {
                job->runnable = true;
                break;
            }
            if (status != 0) {
                job_fail(job, SHP_CODE_TRANSCRIPT_INVALID, "read transcript",
                         "the file changed while it was read");
                return;
            }
            reading->piece_last = reading->piece_len == 0;
        }
        size_t taken = 0;
        status = shp_link_send_bulk(job->helper->link, job->stream, (const uint8_t *)reading->piece,
                                    reading->piece_len, reading->piece_last, &taken);
        if (status == 0 && reading->piece_last) {
            job_end(job);
            return;
        }
        if (status == 0 && taken < reading->piece_len)
            status = SHP_ERR_AGAIN;
        reading->piece += taken;
        reading->piece_len -= taken;
    }
    if (status != 0 && status != SHP_ERR_AGAIN)
        job_end(job);
    else
        helper_touched(job->helper);
}

static void reading_step(struct job *job)
{
    struct reading *reading = (struct reading *)job;
    struct shp_error error;
    if (reading->walked) {
        reading_pump(reading);
        return;
    }
    switch (transcript_step(reading->transcript, &error)) {
    case TRANSCRIPT_MORE:
        return;
    case TRANSCRIPT_FAILED:
        job_fail_error(job, &error);
        return;
    case TRANSCRIPT_DONE:
        break;
    }
    reading->walked = true;
    const struct transcript_result *result = transcript_result(reading->transcript);
    if (result->text_bytes > 0) {
        reading_pump(reading);
        return;
    }
    struct json_out out;
    json_out_init(&out, RESULT_BYTES_MAX);
    write_result(result, &out);
    respond_written(job, &out);
}

static void reading_writable(struct job *job)
{
    struct reading *reading = (struct reading *)job;
    if (reading->walked)
        reading_pump(reading);
}

static const struct job_ops reading_ops = {
    .writable = reading_writable,
    .step = reading_step,
    .end = reading_end,
};

void handle_transcript_latest(struct helper *helper, const struct shp_link_request *request,
                              const cJSON *params, bool fin)
{
    struct shp_error error;
    const char *path = shp_codec_string(params, "path", "");
    (void)fin;
    if (path[0] != '/') {
        helper_refuse_code(helper, request->stream, SHP_CODE_INVALID_PARAMS, "open transcript",
                           "path is not absolute");
        return;
    }
    struct reading *reading = calloc(1, sizeof *reading);
    if (reading == NULL) {
        helper_refuse_code(helper, request->stream, SHP_CODE_OUT_OF_MEMORY, "open transcript",
                           "no memory");
        return;
    }
    if (transcript_open(&reading->transcript, path, shp_codec_string(params, "leaf", NULL),
                        SHP_LIMIT_MESSAGE_BYTES_MAX, &error) != 0) {
        free(reading);
        helper_refuse(helper, request->stream, &error);
        return;
    }
    job_start(&reading->job, helper, &reading_ops, request);
    reading->job.runnable = true;
    /* Most answers stand in the last block: no turn of the loop for them. */
    reading_step(&reading->job);
    helper_touched(helper);
}

/* ---- directories -------------------------------------------------------------------------- */

void handle_directory_resolve(struct helper *helper, const struct shp_link_request *request,
                              const cJSON *params, bool fin)
{
    char path[IDENTITY_PATH_MAX + 1];
    struct shp_error error;
    (void)fin;
    if (directory_resolve(shp_codec_string(params, "path", ""),
                          shp_codec_string(params, "base", NULL), helper->identity.home, path,
                          sizeof path, &error) != 0) {
        helper_refuse(helper, request->stream, &error);
        return;
    }
    struct json_out out;
    json_out_init(&out, RESULT_BYTES_MAX);
    json_out_raw(&out, "{");
    json_out_member_string(&out, "path", path);
    json_out_raw(&out, "}");
    helper_answer(helper, request->stream, json_out_status(&out) == 0 ? out.data : NULL, NULL, 0);
    json_out_fini(&out);
}

/* ---- files of ours ------------------------------------------------------------------------ */

struct putting {
    struct job job;
    struct file_put *put;
};

static void putting_end(struct job *job)
{
    struct putting *putting = (struct putting *)job;
    file_put_free(putting->put);
    free(putting);
}

static void putting_respond(struct putting *putting, bool present, bool written)
{
    struct json_out out;
    json_out_init(&out, RESULT_BYTES_MAX);
    json_out_raw(&out, "{");
    json_out_member_string(&out, "path", file_put_path(putting->put));
    json_out_member_bool(&out, "present", present);
    json_out_member_bool(&out, "written", written);
    json_out_raw(&out, "}");
    respond_written(&putting->job, &out);
}

static void putting_finish(struct putting *putting)
{
    struct shp_error error;
    bool written;
    if (file_put_finish(putting->put, &written, &error) != 0)
        job_fail_error(&putting->job, &error);
    else
        putting_respond(putting, true, written);
}

static void putting_bulk(struct job *job, const uint8_t *data, size_t len, bool fin)
{
    struct putting *putting = (struct putting *)job;
    struct shp_error error;
    if (len > 0 && file_put_write(putting->put, data, len, &error) != 0)
        job_fail_error(job, &error);
    else if (fin)
        putting_finish(putting);
}

static const struct job_ops putting_ops = {.bulk = putting_bulk, .end = putting_end};

void handle_file_put(struct helper *helper, const struct shp_link_request *request,
                     const cJSON *params, bool fin)
{
    struct shp_error error;
    bool present = false;
    bool extension = strcmp(shp_codec_string(params, "kind", ""), "extension") == 0;
    struct putting *putting = calloc(1, sizeof *putting);
    if (putting == NULL) {
        helper_refuse_code(helper, request->stream, SHP_CODE_OUT_OF_MEMORY, "place file",
                           "no memory");
        return;
    }
    if (file_put_begin(&putting->put, helper->identity.home,
                       extension ? FILE_KIND_EXTENSION : FILE_KIND_PROMPT,
                       shp_codec_string(params, "digest", ""),
                       (uint64_t)shp_codec_int(params, "size", 0), &present, &error) != 0) {
        free(putting);
        helper_refuse(helper, request->stream, &error);
        return;
    }
    job_start(&putting->job, helper, &putting_ops, request);
    if (present || shp_codec_bool(params, "probe", false))
        putting_respond(putting, present, false);
    else if (fin)
        putting_finish(putting);
}
