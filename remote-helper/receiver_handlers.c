/* Requests about receivers: which are there, wait for one, keep a connection to one. */
#include <stdlib.h>
#include <string.h>

#include "protocol/codec.h"
#include "protocol/messages.h"
#include "remote-helper/handlers.h"
#include "remote-helper/receiver_conn.h"
#include "remote-helper/receivers.h"

#define RESULT_BYTES_MAX 16384
#define LIST_BYTES_MAX ((size_t)4 * 1024 * 1024)

/* File events are hints; this finds what they miss (network file systems, no watches left). */
#define WAIT_POLL_MS 250

/* Our own "there is none" must reach the asker before its clock says timeout. */
#define WAIT_MARGIN_MS 200

/* ---- list --------------------------------------------------------------------------------- */

struct listing {
    struct json_out out;
    size_t count;
};

static void write_receiver(struct json_out *out, const struct receiver *receiver, bool whole)
{
    json_out_raw(out, "{");
    json_out_member_string(out, "pi_session_id", receiver->pi_session_id);
    json_out_member_string(out, "session_file", receiver->session_file);
    if (whole) {
        json_out_member_string(out, "terminal_id", receiver->terminal_id);
        json_out_member_u64(out, "pid", (uint64_t)receiver->pid);
        json_out_member_string(out, "agent_dir", receiver->agent_dir);
    }
    json_out_member_u64(out, "protocol_min", (uint64_t)receiver->protocol_min);
    json_out_member_u64(out, "protocol_max", (uint64_t)receiver->protocol_max);
    json_out_raw(out, "}");
}

static bool list_one(struct receiver *receiver, void *user)
{
    struct listing *listing = user;
    json_out_next(&listing->out);
    write_receiver(&listing->out, receiver, true);
    listing->count++;
    return json_out_status(&listing->out) == 0;
}

void handle_receivers_list(struct helper *helper, const struct shp_link_request *request,
                           const cJSON *params, bool fin)
{
    struct listing listing = {.count = 0};
    struct json_out result;
    (void)params;
    (void)fin;
    json_out_init(&listing.out, LIST_BYTES_MAX);
    json_out_init(&result, RESULT_BYTES_MAX);
    json_out_raw(&listing.out, "[");
    receivers_each(&helper->identity, list_one, &listing);
    json_out_raw(&listing.out, "]");
    json_out_raw(&result, "{");
    json_out_member_u64(&result, "receivers", listing.count);
    json_out_raw(&result, "}");
    bool good = json_out_status(&listing.out) == 0 && json_out_status(&result) == 0;
    helper_answer(helper, request->stream, good ? result.data : NULL, listing.out.data,
                  listing.out.len);
    json_out_fini(&result);
    json_out_fini(&listing.out);
}

/* ---- wait --------------------------------------------------------------------------------- */

struct waiting {
    struct job job;
    uv_timer_t poll;
    uv_fs_event_t events;
    unsigned handles;
    bool watching;
    uint64_t give_up_ms;
    char terminal_id[HELPER_PI_SESSION_MAX + 1];
};

static void on_waiting_closed(uv_handle_t *handle)
{
    struct waiting *waiting = handle->data;
    if (--waiting->handles == 0)
        free(waiting);
}

static void waiting_end(struct job *job)
{
    struct waiting *waiting = (struct waiting *)job;
    uv_close((uv_handle_t *)&waiting->poll, on_waiting_closed);
    uv_close((uv_handle_t *)&waiting->events, on_waiting_closed);
}

static const struct job_ops waiting_ops = {.end = waiting_end};

static void found(struct waiting *waiting, const struct receiver *receiver)
{
    struct json_out out;
    json_out_init(&out, RESULT_BYTES_MAX);
    write_receiver(&out, receiver, false);
    if (json_out_status(&out) == 0)
        job_respond(&waiting->job, out.data, NULL, 0);
    else
        job_fail(&waiting->job, SHP_CODE_OUT_OF_MEMORY, "wait for a receiver", "no memory");
    json_out_fini(&out);
}

static void on_poll(uv_timer_t *timer);

static void on_event(uv_fs_event_t *handle, const char *filename, int events, int status)
{
    struct waiting *waiting = handle->data;
    (void)filename;
    (void)events;
    (void)status;
    /* A descriptor comes as several events; one look soon after the first serves them all. */
    uv_timer_start(&waiting->poll, on_poll, 1, WAIT_POLL_MS);
}

static void watch(struct waiting *waiting)
{
    char path[IDENTITY_PATH_MAX + 32];
    receivers_path(path, sizeof path, &waiting->job.helper->identity);
    waiting->watching = uv_fs_event_start(&waiting->events, on_event, path, 0) == 0;
}

static void look(struct waiting *waiting)
{
    struct receiver receiver;
    if (!waiting->watching)
        watch(waiting);
    if (receivers_find(&receiver, &waiting->job.helper->identity, NULL, waiting->terminal_id) ==
        0) {
        found(waiting, &receiver);
        receiver_fini(&receiver);
    } else if (uv_now(waiting->job.helper->loop) >= waiting->give_up_ms) {
        job_fail(&waiting->job, SHP_CODE_RECEIVER_MISSING, "wait for a receiver",
                 "none came up for this terminal in time");
    }
}

static void on_poll(uv_timer_t *timer)
{
    look(timer->data);
}

void handle_receiver_wait(struct helper *helper, const struct shp_link_request *request,
                          const cJSON *params, bool fin)
{
    const char *terminal_id = shp_codec_string(params, "terminal_id", "");
    (void)fin;
    struct waiting *waiting = calloc(1, sizeof *waiting);
    if (waiting == NULL) {
        helper_refuse_code(helper, request->stream, SHP_CODE_OUT_OF_MEMORY, "wait for a receiver",
                           "no memory");
        return;
    }
    memcpy(waiting->terminal_id, terminal_id, strlen(terminal_id) + 1);
    uint32_t margin =
        request->timeout_ms > 2 * WAIT_MARGIN_MS ? WAIT_MARGIN_MS : request->timeout_ms / 2;
    waiting->give_up_ms = uv_now(helper->loop) + request->timeout_ms - margin;
    uv_timer_init(helper->loop, &waiting->poll);
    uv_fs_event_init(helper->loop, &waiting->events);
    waiting->poll.data = waiting->events.data = waiting;
    waiting->handles = 2;
    job_start(&waiting->job, helper, &waiting_ops, request);
    uint64_t first =
        request->timeout_ms - margin < WAIT_POLL_MS ? request->timeout_ms - margin : WAIT_POLL_MS;
    uv_timer_start(&waiting->poll, on_poll, first, WAIT_POLL_MS);
    look(waiting);
}

/* ---- open and close ----------------------------------------------------------------------- */

struct opening {
    struct job job;
    struct receiver_waiter waiter;
};

static void opening_end(struct job *job)
{
    struct opening *opening = (struct opening *)job;
    receiver_conn_forget(&opening->waiter);
    free(opening);
}

static const struct job_ops opening_ops = {.end = opening_end};

static void on_connected(struct receiver_waiter *waiter, struct shp_link *link,
                         const struct shp_error *error)
{
    struct opening *opening =
        (struct opening *)(void *)((char *)waiter - offsetof(struct opening, waiter));
    (void)link;
    if (error != NULL)
        job_fail_error(&opening->job, error);
    else
        job_respond(&opening->job, "{}", NULL, 0);
}

void handle_receiver_open(struct helper *helper, const struct shp_link_request *request,
                          const cJSON *params, bool fin)
{
    struct shp_error error;
    (void)fin;
    struct opening *opening = calloc(1, sizeof *opening);
    if (opening == NULL) {
        helper_refuse_code(helper, request->stream, SHP_CODE_OUT_OF_MEMORY, "open a receiver",
                           "no memory");
        return;
    }
    opening->waiter.cb = on_connected;
    job_start(&opening->job, helper, &opening_ops, request);
    if (receiver_conn_get(helper, shp_codec_string(params, "pi_session_id", ""), NULL, true,
                          &opening->waiter, &error) != 0)
        job_fail_error(&opening->job, &error);
}

void handle_receiver_close(struct helper *helper, const struct shp_link_request *request,
                           const cJSON *params, bool fin)
{
    (void)fin;
    receiver_conn_release(helper, shp_codec_string(params, "pi_session_id", ""));
    helper_answer(helper, request->stream, "{}", NULL, 0);
}
