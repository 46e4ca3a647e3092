/*
 * The handlers of the helper's requests, one per message of the helper link. A handler answers at
 * once or starts a job; params have passed the table of their message and are borrowed.
 */
#ifndef SHP_REMOTE_HELPER_HANDLERS_H
#define SHP_REMOTE_HELPER_HANDLERS_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/error.h"
#include "remote-helper/helper.h"

/* fin: no bulk follows the question. */
typedef void (*handler_fn)(struct helper *helper, const struct shp_link_request *request,
                           const cJSON *params, bool fin);

/* herdr_proxy.c */
void handle_herdr_call(struct helper *helper, const struct shp_link_request *request,
                       const cJSON *params, bool fin);
void handle_roster_get(struct helper *helper, const struct shp_link_request *request,
                       const cJSON *params, bool fin);

/* file_handlers.c */
void handle_transcript_latest(struct helper *helper, const struct shp_link_request *request,
                              const cJSON *params, bool fin);
void handle_directory_resolve(struct helper *helper, const struct shp_link_request *request,
                              const cJSON *params, bool fin);
void handle_file_put(struct helper *helper, const struct shp_link_request *request,
                     const cJSON *params, bool fin);

/* helper.c */
void handle_identity_get(struct helper *helper, const struct shp_link_request *request,
                         const cJSON *params, bool fin);

/* facts_handlers.c */
void handle_machine_facts(struct helper *helper, const struct shp_link_request *request,
                          const cJSON *params, bool fin);
void handle_link_echo(struct helper *helper, const struct shp_link_request *request,
                      const cJSON *params, bool fin);

/* receiver_handlers.c */
void handle_receivers_list(struct helper *helper, const struct shp_link_request *request,
                           const cJSON *params, bool fin);
void handle_receiver_wait(struct helper *helper, const struct shp_link_request *request,
                          const cJSON *params, bool fin);
void handle_receiver_open(struct helper *helper, const struct shp_link_request *request,
                          const cJSON *params, bool fin);
void handle_receiver_close(struct helper *helper, const struct shp_link_request *request,
                           const cJSON *params, bool fin);

/* session_relay.c */
void handle_session_request(struct helper *helper, const struct shp_link_request *request,
                            const cJSON *params, bool fin);

/*
 * Answers without a job; dropped when the link has ended. helper_answer: bulk is copied (NULL:
 * none), json NULL stands for out of memory, and what cannot be sent becomes an error answer.
 */
void helper_refuse(struct helper *helper, uint32_t stream, const struct shp_error *error);
void helper_refuse_code(struct helper *helper, uint32_t stream, int code, const char *step,
                        const char *cause);
void helper_answer(struct helper *helper, uint32_t stream, const char *json, const void *bulk,
                   size_t len);

#endif
