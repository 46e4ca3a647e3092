#include "controller/fleet/connect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/fleet/fleet.h"
#include "controller/json.h"
#include "controller/settings.h"
#include "installer/bootstrap.h"
#include "installer/shell.h"
#include "protocol/messages.h"
#include "shp_build_id.h"

static int open_transport(struct machine *machine, const struct settings *settings, char *command,
                          struct shp_transport **out)
{
    const struct fleet *fleet = machine->fleet;
    if (machine->local) {
        char *argv[] = {"/bin/sh", "-c", command, NULL};
        struct shp_process_options options = {.argv = argv};
        return shp_transport_process_new(out, fleet->loop, &options);
    }
    struct shp_ssh_options options = {
        .target = machine->target,
        .command = command,
        .ssh_auth_sock = fleet->context->ssh_auth_sock,
        .kind = settings->transport,
        .post_quantum = settings->post_quantum,
    };
    return shp_transport_ssh_new(out, fleet->loop, &options);
}

/* What the settings ask for and this program does not have is said as such. */
static bool settings_are_possible(const struct machine *machine, const struct settings *settings,
                                  struct shp_error *error)
{
    if (machine->local || settings->transport != SHP_SSH_LIBSSH || *shp_ssh_libssh_version())
        return true;
    shp_error_set(error, SHP_CODE_SETTINGS_INVALID, machine->id, "connect",
                  "transport is libssh, and this program was built without it");
    return false;
}

static char *own_hello(const struct machine *machine)
{
    cJSON *hello = cJSON_CreateObject();
    const double range[] = {SHP_PROTOCOL_VERSION_MIN, SHP_PROTOCOL_VERSION_MAX};
    cJSON_AddItemToObject(hello, "versions", cJSON_CreateDoubleArray(range, 2));
    json_add(hello, "role", "controller");
    json_add(hello, "build", SHP_BUILD_ID);
    json_add(hello, "installation", machine->fleet->installation);
    json_add(hello, "pi_session_id", machine->fleet->context->pi_session_id);
    char *text = json_print(hello);
    cJSON_Delete(hello);
    return text;
}

int connect_open(struct machine *machine, const struct shp_link_callbacks *callbacks,
                 struct shp_link **link, struct shp_error *error)
{
    const struct fleet *fleet = machine->fleet;
    struct shp_prelude prelude = {0};
    struct shp_transport *transport = NULL;
    char *command = NULL;
    struct settings settings;
    if (!fleet->artifacts || fleet->artifacts->len == 0) {
        shp_error_set(error, SHP_CODE_HELPER_MISSING, machine->id, "find helper",
                      "no helper program in %s",
                      fleet->artifacts ? fleet->artifacts->searched : "memory");
        return SHP_ERR_NOT_FOUND;
    }
    int rc = settings_read(&settings, fleet->context->agent_dir, machine->id, error);
    if (rc != SHP_OK)
        return rc;
    if (!settings_are_possible(machine, &settings, error)) {
        settings_fini(&settings);
        return SHP_ERR_INVALID;
    }
    struct shp_link_options options = {
        .session = {.role = SHP_ROLE_INITIATOR, .suite = SHP_SUITE_NOISE},
        .prelude = &prelude,
        .callbacks = *callbacks,
        .user = machine,
    };
    shp_link_random_marker(options.session.marker);
    struct shp_bootstrap_options bootstrap = {
        .artifacts = fleet->artifacts,
        .marker = options.session.marker,
        .build_id = SHP_BUILD_ID,
        .helper_dir = settings.helper_dir,
        .probe_only = fleet->probe_only && !machine->may_install,
        .seen = &machine->seen,
    };
    rc = shp_bootstrap_new(&prelude, &command, &bootstrap);
    if (rc == SHP_OK)
        rc = open_transport(machine, &settings, command, &transport);
    if (rc == SHP_ERR_INVALID && prelude.free)
        shp_error_set(error, SHP_CODE_TARGET_INVALID, machine->id, "connect",
                      "the SSH target is empty, has control characters or begins with a dash");
    char *hello = own_hello(machine);
    options.transport = transport;
    options.session.hello_json = hello;
    options.session.hello_len = strlen(hello);
    if (rc == SHP_OK)
        rc = shp_link_open(link, fleet->loop, &options);
    if (rc != SHP_OK) {
        if (!error->code)
            shp_error_set(error, SHP_CODE_CONNECT_FAILED, machine->id, "connect", "%s",
                          shp_strerror(rc));
        if (transport)
            shp_transport_free(transport);
        if (prelude.free)
            prelude.free(prelude.prelude);
    }
    free(hello);
    free(command);
    settings_fini(&settings);
    return rc;
}

bool connect_hello_accept(const struct machine *machine, const cJSON *hello,
                          struct shp_error *error)
{
    const char *role = json_string(hello, "role");
    const char *build = json_string(hello, "build");
    if (!role || strcmp(role, "helper") != 0)
        shp_error_set(error, SHP_CODE_PROTOCOL_ERROR, machine->id, "handshake",
                      "the peer does not say that it is a helper");
    else if (!build || strcmp(build, SHP_BUILD_ID) != 0)
        shp_error_set(error, SHP_CODE_BUILD_MISMATCH, machine->id, "handshake",
                      "the helper is build %.64s, ours is %s", build ? build : "unknown",
                      SHP_BUILD_ID);
    else
        return true;
    return false;
}

/*
 * What the shell said stands in the cause, where it went to standard output, and in the diagnostic;
 * the cause quotes that as far as there is room.
 */
static void explain_shell(struct shp_error *error, const char *diagnostic)
{
    static const char quotes[] = " (standard error: ";
    char said[SHP_LIMIT_DIAGNOSTIC_BYTES_MAX + 1];
    char printed[SHP_ERROR_CAUSE_MAX + sizeof(said)];
    const char *noise = strstr(error->cause, "it printed: ");
    char *quote = strstr(error->cause, quotes);
    snprintf(said, sizeof(said), "%s", diagnostic);
    shp_shell_hide_command(said);
    snprintf(printed, sizeof(printed), "%s %s", noise ? noise : "", said);
    if (shp_bootstrap_names_limit(printed)) {
        error->code = SHP_CODE_SHELL_LIMITS;
    } else if (!shp_shell_explain(error, printed) && quote) {
        struct shp_error told = *error;
        shp_error_set(error, told.code, told.machine, told.step, "%.*s%s%s)",
                      (int)(quote - error->cause), told.cause, quotes, said);
    }
}

static void explain_foreign(struct shp_error *error)
{
    const struct shp_error told = *error;
    const char *text = strstr(told.cause, SHP_LINK_FOREIGN);
    shp_error_set(error, told.code, told.machine, "link",
                  "bytes that are not the helper's came over the channel: a start-up file of the "
                  "login shell left something running that prints%s%s",
                  text ? "; " : "", text ? text : "");
    error->outcome = told.outcome;
}

void connect_explain(struct shp_error *error, const char *diagnostic)
{
    if (error->code == SHP_CODE_TIMEOUT && strcmp(error->step, "handshake") == 0)
        shp_error_set(error, SHP_CODE_HELPER_SILENT, NULL, "handshake",
                      "no handshake within %d s of its ready line",
                      SHP_LIMIT_HANDSHAKE_TIMEOUT_MS / 1000);
    else if (error->code == SHP_CODE_SHELL_REFUSED || error->code == SHP_CODE_SHELL_SLOW)
        explain_shell(error, diagnostic);
    else if (error->code == SHP_CODE_AUTH_FAILED)
        explain_foreign(error);
}

bool connect_was_crowded(const struct machine *machine, const struct shp_error *error)
{
    return !machine->local && error->code == SHP_CODE_CONNECT_FAILED &&
           machine->ssh.phase == SHP_SSH_PHASE_KEX;
}
