#include "controller/context.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <limits.h>

#include "controller/json.h"
#include "controller/xalloc.h"

void context_from_json(struct context *context, const cJSON *params)
{
    *context = (struct context){
        .kind = CONTEXT_PI,
        .pi_session_id = xstrdup(json_string(params, "pi_session_id")),
        .pi_session_file = xstrdup(json_string(params, "pi_session_file")),
        .header = xstrdup(json_string(params, "header")),
        .agent_dir = xstrdup(json_string(params, "agent_dir")),
        .home = xstrdup(json_string(params, "home")),
        .cwd = xstrdup(json_string(params, "cwd")),
        .session_name = xstrdup(json_string(params, "session_name")),
        .herdr_socket = xstrdup(json_string(params, "herdr_socket")),
        .herdr_bin = xstrdup(json_string(params, "herdr_bin")),
        .herdr_pane = xstrdup(json_string(params, "herdr_pane")),
        .herdr_workspace = xstrdup(json_string(params, "herdr_workspace")),
        .herdr_session = xstrdup(json_string(params, "herdr_session")),
        .ssh_auth_sock = xstrdup(json_string(params, "ssh_auth_sock")),
        .eager = json_bool(params, "eager"),
    };
}

static char *env_dup(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? xstrdup(value) : NULL;
}

void context_from_environment(struct context *context)
{
    const char *in_herdr = getenv("HERDR_ENV");
    bool herdr = in_herdr && strcmp(in_herdr, "1") == 0;
    char cwd[PATH_MAX];
    *context = (struct context){
        .kind = CONTEXT_CLI,
        .pi_session_id = xstrdup("cli"),
        .agent_dir = env_dup("PI_CODING_AGENT_DIR"),
        .home = env_dup("HOME"),
        .cwd = xstrdup(getcwd(cwd, sizeof(cwd)) ? cwd : "/"),
        .herdr_socket = herdr ? env_dup("HERDR_SOCKET_PATH") : NULL,
        .herdr_bin = env_dup("HERDR_BIN_PATH"),
        .herdr_pane = herdr ? env_dup("HERDR_PANE_ID") : NULL,
        .herdr_workspace = herdr ? env_dup("HERDR_WORKSPACE_ID") : NULL,
        .herdr_session = env_dup("HERDR_SESSION"),
        .ssh_auth_sock = env_dup("SSH_AUTH_SOCK"),
    };
    if (!context->home)
        context->home = xstrdup("/");
    if (!context->agent_dir)
        context->agent_dir = xasprintf("%s/.pi/agent", context->home);
}

void context_fini(struct context *context)
{
    char **strings[] = {
        &context->pi_session_id,
        &context->pi_session_file,
        &context->header,
        &context->agent_dir,
        &context->home,
        &context->cwd,
        &context->session_name,
        &context->herdr_socket,
        &context->herdr_bin,
        &context->herdr_pane,
        &context->herdr_workspace,
        &context->herdr_session,
        &context->ssh_auth_sock,
    };
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        free(*strings[i]);
        *strings[i] = NULL;
    }
}
