/*
 * Params of session_request on their way through: what each hop must add or take away
 * (spec/protocol.md 8). Everything else passes unchanged.
 */
#ifndef SHP_REMOTE_HELPER_SESSION_PARAMS_H
#define SHP_REMOTE_HELPER_SESSION_PARAMS_H

#include <stddef.h>

#include <cjson/cJSON.h>

/*
 * Controller to receiver: without "to", with host and installation in "from". params is changed.
 * *out is the caller's (cJSON_free). LIMIT, NOMEM.
 */
int session_params_outbound(char **out, cJSON *params, const char *host, const char *installation);

/*
 * Receiver to controller: who asks is the session of the connection on this host, whatever the text
 * says. field gets the name when INVALID. LIMIT, NOMEM.
 */
int session_params_inbound(char **out, const char *json, const char *pi_session_id,
                           const char *host, char *field, size_t field_size);

#endif
