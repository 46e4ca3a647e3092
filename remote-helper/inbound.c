#include "remote-helper/inbound.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "protocol/codec.h"
#include "protocol/messages.h"
#include "remote-helper/session_params.h"

struct inbound {
    struct inbound *next;
    struct inbound **list; /* its connection's, while link is not NULL */
    struct helper *helper;
    struct shp_link *link; /* the receiver's; NULL: given up or gone */
    uint32_t stream;       /* on link */
    uint32_t asked;        /* stream of our request to the controller; 0: not asked yet */
    uint64_t deadline_ms;
    uint8_t id[SHP_REQUEST_ID_BYTES];
    char *json;
    struct shp_buf bulk;
};

static void leave(struct inbound *inbound)
{
    struct inbound **at = inbound->list;
    while (*at != inbound)
        at = &(*at)->next;
    *at = inbound->next;
}

static void release(struct inbound *inbound)
{
    leave(inbound);
    cJSON_free(inbound->json);
    shp_buf_fini(&inbound->bulk);
    free(inbound);
}

static struct inbound *find(struct inbound **list, uint32_t stream)
{
    struct inbound *inbound = *list;
    while (inbound != NULL && inbound->stream != stream)
        inbound = inbound->next;
    return inbound;
}

static void refuse(struct shp_link *link, uint32_t stream, int code, const char *cause)
{
    struct shp_error error;
    shp_error_set(&error, code, NULL, "ask the controller", "%s", cause);
    shp_link_respond_error(link, stream, &error);
}

static void on_answer(struct shp_link *controller, const struct shp_link_answer *answer, void *user)
{
    struct inbound *inbound = user;
    (void)controller;
    if (inbound->link == NULL) {
        shp_buf_fini(&inbound->bulk);
        cJSON_free(inbound->json);
        free(inbound);
        return;
    }
    if (answer->error != NULL)
        shp_link_respond_error(inbound->link, inbound->stream, answer->error);
    else if (shp_link_respond(inbound->link, inbound->stream, answer->json, answer->bulk,
                              answer->bulk_len) == SHP_ERR_NOMEM)
        refuse(inbound->link, inbound->stream, SHP_CODE_OUT_OF_MEMORY, "no memory for the answer");
    release(inbound);
}

static void ask(struct inbound *inbound)
{
    struct helper *helper = inbound->helper;
    uint64_t now = uv_now(helper->loop);
    uint32_t left = inbound->deadline_ms > now ? (uint32_t)(inbound->deadline_ms - now) : 1;
    int status = SHP_ERR_STATE;
    if (helper->link != NULL)
        status = shp_link_request(helper->link, SHP_MSG_SESSION_REQUEST, inbound->id, left,
                                  inbound->json, shp_buf_peek(&inbound->bulk),
                                  shp_buf_len(&inbound->bulk), on_answer, inbound, &inbound->asked);
    if (status == 0)
        return;
    refuse(inbound->link, inbound->stream,
           status == SHP_ERR_NOMEM ? SHP_CODE_OUT_OF_MEMORY : SHP_CODE_LINK_LOST,
           "the controller cannot be asked now");
    release(inbound);
}

void inbound_begin(struct inbound **list, struct helper *helper, struct shp_link *link,
                   const char *pi_session_id, const struct shp_link_request *request,
                   const char *json, bool fin)
{
    char *params = NULL;
    char field[64] = "";
    int status = session_params_inbound(&params, json, pi_session_id, helper->identity.host, field,
                                        sizeof field);
    struct inbound *inbound = status == 0 ? calloc(1, sizeof *inbound) : NULL;
    if (inbound == NULL) {
        cJSON_free(params);
        refuse(link, request->stream,
               status == SHP_ERR_INVALID ? SHP_CODE_INVALID_PARAMS : SHP_CODE_OUT_OF_MEMORY,
               status == SHP_ERR_INVALID ? field : "no memory");
        return;
    }
    inbound->helper = helper;
    inbound->link = link;
    inbound->stream = request->stream;
    inbound->deadline_ms = uv_now(helper->loop) + request->timeout_ms;
    inbound->json = params;
    memcpy(inbound->id, request->id, sizeof inbound->id);
    shp_buf_init(&inbound->bulk, SHP_LIMIT_MESSAGE_BYTES_MAX);
    inbound->list = list;
    inbound->next = *list;
    *list = inbound;
    if (fin)
        ask(inbound);
}

void inbound_bulk(struct inbound **list, uint32_t stream, const uint8_t *data, size_t len, bool fin)
{
    struct inbound *inbound = find(list, stream);
    if (inbound == NULL || inbound->asked != 0)
        return;
    if (shp_buf_append(&inbound->bulk, data, len) != 0) {
        refuse(inbound->link, stream, SHP_CODE_OUT_OF_MEMORY, "no memory for the text");
        release(inbound);
    } else if (fin) {
        ask(inbound);
    }
}

/* Asked: the answer callback frees it later. */
static void give_up(struct inbound *inbound)
{
    uint32_t asked = inbound->asked;
    struct helper *helper = inbound->helper;
    if (asked == 0) {
        release(inbound);
        return;
    }
    leave(inbound);
    inbound->link = NULL;
    if (helper->link != NULL)
        shp_link_cancel(helper->link, asked, SHP_CODE_CANCELED);
}

void inbound_cancel(struct inbound **list, uint32_t stream)
{
    struct inbound *inbound = find(list, stream);
    if (inbound != NULL)
        give_up(inbound);
}

void inbound_conn_closed(struct inbound **list)
{
    while (*list != NULL)
        give_up(*list);
}
