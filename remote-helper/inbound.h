/*
 * Requests that come back: a pi session asks the controlling one. They pass to the controller under
 * the same id, with who asks written by us, and its answer goes back unchanged. Whether the
 * relation allows it is the controller's judgement.
 */
#ifndef SHP_REMOTE_HELPER_INBOUND_H
#define SHP_REMOTE_HELPER_INBOUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "remote-helper/helper.h"

struct inbound;

/* list: those of one connection. link: the receiver's. json: params as they came. */
void inbound_begin(struct inbound **list, struct helper *helper, struct shp_link *link,
                   const char *pi_session_id, const struct shp_link_request *request,
                   const char *json, bool fin);
void inbound_bulk(struct inbound **list, uint32_t stream, const uint8_t *data, size_t len,
                  bool fin);

/* The receiver gave it up. */
void inbound_cancel(struct inbound **list, uint32_t stream);

/* The connection is gone: nobody to answer. */
void inbound_conn_closed(struct inbound **list);

#endif
