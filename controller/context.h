/*
 * What the controller knows of the pi session that it works for. It comes with session_open (or,
 * for commands, from the command's own environment), never from the controller's environment.
 */
#ifndef SHP_CONTROLLER_CONTEXT_H
#define SHP_CONTROLLER_CONTEXT_H

#include <stdbool.h>
#include <cjson/cJSON.h>

enum context_kind {
    CONTEXT_PI,  /* a pi session over stdio */
    CONTEXT_CLI, /* a command; state in memory */
};

struct context {
    enum context_kind kind;
    char *pi_session_id;
    char *pi_session_file; /* NULL: not saved */
    char *header;
    char *agent_dir;
    char *home;
    char *cwd;
    char *session_name;
    char *herdr_socket; /* NULL: not in Herdr */
    char *herdr_bin;
    char *herdr_pane;
    char *herdr_workspace;
    char *herdr_session;
    char *ssh_auth_sock;
    bool eager;
};

/* From checked params of session_open. Copies. */
void context_from_json(struct context *context, const cJSON *params);

/* For commands: socket, pane and workspace only inside a Herdr pane (HERDR_ENV=1); elsewhere
 * HERDR_SESSION chooses and HERDR_BIN_PATH runs Herdr, as for Herdr's own commands.
 * PI_CODING_AGENT_DIR, HOME. */
void context_from_environment(struct context *context);
void context_fini(struct context *context);

#endif
