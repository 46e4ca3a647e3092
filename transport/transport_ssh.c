/*
 * The chooser: asks `ssh -G`, decides who speaks SSH, and passes the flow of that transport through.
 *
 *   QUERY --refused option--> QUERY
 *     |---- answered, ControlPath ----> CONTROL (ssh -O check) --> CHILD
 *     |---- answered, or no ssh ------> CHILD --libssh failed before the login--> CHILD (openssh)
 *     +---- failed, 10 s -------------> ended
 *
 * Before a CHILD that is openssh its agents are asked whether they answer (transport_ssh_agent.h).
 */
#include "transport/transport_internal.h"

#include "base/alloc.h"
#include "protocol/messages.h"
#include "transport/ssh_config.h"
#include "transport/transport_libssh.h"
#include "transport/transport_openssh_cause.h"
#include "transport/transport_openssh_text.h"
#include "transport/transport_ssh_agent.h"
#include "transport/transport_ssh_internal.h"
#include "transport/transport_ssh_run.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define QUERY_MS 10000
#define CONTROL_MS 1000
#define PATH_BYTES 1024
#define KEX_BYTES 512

struct chooser {
    struct shp_transport base;
    char *target;
    char *command;
    char *ssh;
    char *agent;     /* socket, or NULL: as in our environment */
    char *auth_sock; /* "SSH_AUTH_SOCK=" with it, or NULL */
    enum shp_ssh_kind kind;
    bool post_quantum;
    struct shp_ssh_run *run;
    struct shp_ssh_agents *asking; /* agents, before openssh */
    char agent_path[PATH_BYTES];   /* IdentityAgent, with its words replaced */
    const char *agents[SHP_SSH_AGENTS_MAX];
    struct shp_transport *child;
    uint64_t query_until;
    unsigned optional;
    bool no_ssh; /* there is no ssh program */
    bool by_us;
    bool choose_libssh; /* unless the user's own connection can be shared */
    bool no_control;    /* that one does not answer */
    bool libssh_runs;
    struct shp_ssh_config config;
    struct shp_ssh_files files;
    char kex[KEX_BYTES]; /* post-quantum ones of the configuration */
    struct shp_ssh_facts facts;
    struct shp_error first; /* of libssh, when openssh came after it */
};

static void start_query(struct chooser *chooser);

/* ---- end ---------------------------------------------------------------------------------- */

static void release(struct chooser *chooser)
{
    shp_free(chooser->target);
    shp_free(chooser->command);
    shp_free(chooser->ssh);
    shp_free(chooser->agent);
    shp_free(chooser->auth_sock);
    shp_ssh_config_fini(&chooser->config);
    shp_ssh_files_fini(&chooser->files);
    shp_free(chooser);
}

/* From the loop, last. */
static void end_with(struct chooser *chooser, const struct shp_transport_end *end)
{
    struct shp_transport_end told = *end;

    told.ssh = &chooser->facts;
    shp_transport_begin_close(&chooser->base);
    shp_transport_report_closed(&chooser->base, &told);
}

static void fail(struct chooser *chooser, int code, const char *step, const char *what,
                 const char *detail)
{
    struct shp_transport_end end = {.diagnostic = detail};

    if (!chooser->by_us)
        shp_error_set(&end.error, code, NULL, step, "%s%s%s", what, detail[0] != '\0' ? ": " : "",
                      detail);
    end_with(chooser, &end);
}

/* ---- child -------------------------------------------------------------------------------- */

static void start_openssh(struct chooser *chooser);

/* What another program would meet as well is no reason to try it. */
static bool is_final(int code)
{
    switch (code) {
    case 0:
    case SHP_CODE_HOST_KEY_UNKNOWN:
    case SHP_CODE_HOST_KEY_CHANGED:
    case SHP_CODE_NAME_UNRESOLVED:
    case SHP_CODE_CONNECT_REFUSED:
    case SHP_CODE_CONNECT_TIMEOUT:
    case SHP_CODE_KEY_LOCKED:
    case SHP_CODE_INTERACTION_REQUIRED:
    case SHP_CODE_LOGIN_SLOW:
        return true;
    default:
        return false;
    }
}

static bool falls_back(const struct chooser *chooser, const struct shp_transport *child,
                       const struct shp_transport_end *end)
{
    /* A server that hung up before it said anything is full, whoever comes. */
    bool full = end->error.code == SHP_CODE_CONNECT_FAILED &&
                end->ssh->phase == SHP_SSH_PHASE_KEX && !shp_transport_libssh_greeted(child);
    /* libssh asks agents with less patience (transport_ssh_agent.h). */
    bool hasty = end->ssh->agent_silent;

    return chooser->libssh_runs && !full && !chooser->by_us && !chooser->no_ssh &&
           chooser->kind == SHP_SSH_AUTO && end->ssh->phase < SHP_SSH_PHASE_CHANNEL &&
           (!is_final(end->error.code) || (hasty && (end->error.code == SHP_CODE_LOGIN_SLOW ||
                                                     end->error.code == SHP_CODE_KEY_LOCKED)));
}

static void fall_back(struct chooser *chooser, const struct shp_transport_end *end)
{
    chooser->first = end->error;
    snprintf(chooser->facts.reason, sizeof(chooser->facts.reason), "libssh failed: %.40s, %.130s",
             shp_code_name(end->error.code), end->error.cause);
    start_openssh(chooser);
}

static void on_child_open(struct shp_transport *child, void *user)
{
    struct chooser *chooser = user;

    if (!chooser->base.reading)
        shp_transport_read_stop(child);
    shp_transport_report_open(&chooser->base);
}

static void on_child_read(struct shp_transport *child, const uint8_t *data, size_t len, void *user)
{
    (void)child;
    shp_transport_report_read(&((struct chooser *)user)->base, data, len);
}

static void on_child_writable(struct shp_transport *child, void *user)
{
    (void)child;
    shp_transport_report_writable(&((struct chooser *)user)->base);
}

static void on_child_closed(struct shp_transport *child, const struct shp_transport_end *end,
                            void *user)
{
    struct chooser *chooser = user;
    struct shp_transport_end told = *end;

    chooser->child = NULL;
    if (falls_back(chooser, child, end)) {
        fall_back(chooser, end);
    } else {
        chooser->facts = *end->ssh;
        /* The first failure says more than one that openssh cannot name. */
        if (chooser->first.code != 0 && told.error.code == SHP_CODE_CONNECT_FAILED)
            told.error = chooser->first;
        shp_openssh_add_command(&told.error, chooser->target);
        end_with(chooser, &told);
    }
    shp_transport_free(child);
}

static void start_child(struct chooser *chooser, int err)
{
    static const struct shp_transport_callbacks callbacks = {
        .on_open = on_child_open,
        .on_read = on_child_read,
        .on_writable = on_child_writable,
        .on_closed = on_child_closed,
    };

    if (err == SHP_OK)
        err = shp_transport_open(chooser->child, &callbacks, chooser);
    if (err == SHP_OK)
        return;
    shp_transport_free(chooser->child);
    chooser->child = NULL;
    fail(chooser, err == SHP_ERR_NOMEM ? SHP_CODE_OUT_OF_MEMORY : SHP_CODE_CONNECT_FAILED,
         "connect", shp_strerror(err), "");
}

/* ---- agents ------------------------------------------------------------------------------- */

static void add_agent(struct chooser *chooser, const char *path)
{
    for (size_t i = 0; i < SHP_SSH_AGENTS_MAX && path != NULL && path[0] != '\0'; i++) {
        if (chooser->agents[i] == NULL) {
            chooser->agents[i] = path;
            return;
        }
        if (strcmp(chooser->agents[i], path) == 0)
            return;
    }
}

static void read_tokens(struct shp_ssh_tokens *tokens, char *host, size_t size)
{
    const struct passwd *account = getpwuid(getuid());

    *tokens = (struct shp_ssh_tokens){
        .home = account != NULL ? account->pw_dir : "/",
        .local_host = host,
        .uid = getuid(),
        .local_user = account != NULL ? account->pw_name : "",
    };
    if (gethostname(host, size) != 0)
        snprintf(host, size, "localhost");
    host[size - 1] = '\0';
}

/* Whether agents are those of the environment, and not one that the configuration names. */
static bool agent_by_environment(const struct chooser *chooser)
{
    const char *configured = chooser->config.identity_agent;

    return configured == NULL || strcmp(configured, "SSH_AUTH_SOCK") == 0;
}

/* The agents in the order to ask. False: IdentityAgent has words that we do not replace. */
static bool find_agents(struct chooser *chooser)
{
    const char *configured = chooser->config.identity_agent;
    struct shp_ssh_tokens tokens;
    char host[256];

    memset(chooser->agents, 0, sizeof(chooser->agents));
    if (agent_by_environment(chooser)) {
        add_agent(chooser, chooser->agent);
        add_agent(chooser, getenv("SSH_AUTH_SOCK"));
        return true;
    }
    if (strcasecmp(configured, "none") == 0)
        return true;
    if (configured[0] == '$' && configured[1] != '{') {
        add_agent(chooser, getenv(configured + 1));
        return true;
    }
    read_tokens(&tokens, host, sizeof(host));
    if (!shp_ssh_config_expand(chooser->agent_path, sizeof(chooser->agent_path), configured,
                               &chooser->config, &tokens))
        return false;
    add_agent(chooser, chooser->agent_path);
    return true;
}

/* ---- openssh ------------------------------------------------------------------------------ */

static void run_openssh(struct chooser *chooser, const char *agent, bool no_agent)
{
    struct shp_ssh_options options = {
        .target = chooser->target,
        .command = chooser->command,
        .ssh_auth_sock = no_agent ? "" : agent,
        .ssh_path = chooser->ssh,
    };
    struct shp_openssh_prepared prepared = {
        .facts = &chooser->facts,
        .optional = chooser->optional,
        .kex = chooser->post_quantum ? chooser->kex : NULL,
        .no_agent = no_agent,
        .no_control = chooser->no_control,
    };
    int err;

    if (chooser->post_quantum && chooser->kex[0] == '\0') {
        fail(chooser, SHP_CODE_KEX_UNSUPPORTED, "configuration",
             "a post-quantum key exchange is required, and the configuration of ssh allows none",
             "");
        return;
    }
    err = shp_transport_openssh_new(&chooser->child, chooser->base.loop, &options);
    if (err == SHP_OK)
        err = shp_transport_openssh_prepare(chooser->child, &prepared);
    start_child(chooser, err);
}

static void on_agents(int chosen, bool silent, void *user)
{
    struct chooser *chooser = user;
    const char *agent = chooser->agent;

    chooser->asking = NULL;
    if (chooser->by_us) {
        fail(chooser, 0, "", "", "");
        return;
    }
    chooser->facts.agent_silent = chosen < 0 && silent;
    if (chooser->facts.agent_silent)
        snprintf(chooser->facts.agent, sizeof(chooser->facts.agent), "%.150s does not answer",
                 chooser->agents[0]);
    else if (chosen >= 0 && agent_by_environment(chooser))
        agent = chooser->agents[chosen];
    run_openssh(chooser, agent, chooser->facts.agent_silent);
}

/* From the loop. ssh gets an agent that answers: it would wait for ever for one that does not. */
static void start_openssh(struct chooser *chooser)
{
    size_t count = 0;

    chooser->libssh_runs = false;
    chooser->facts.agent[0] = '\0';
    chooser->facts.agent_silent = false;
    if (find_agents(chooser)) {
        while (count < SHP_SSH_AGENTS_MAX && chooser->agents[count] != NULL)
            count++;
    }
    if (count == 0 || shp_ssh_agents_ask(&chooser->asking, chooser->base.loop, chooser->agents,
                                         count, on_agents, chooser) != SHP_OK)
        run_openssh(chooser, chooser->agent, false);
}

/* ---- libssh ------------------------------------------------------------------------------- */

static void start_libssh(struct chooser *chooser)
{
    struct shp_libssh_options options = {
        .config = &chooser->config,
        .files = &chooser->files,
        .command = chooser->command,
        .post_quantum = chooser->post_quantum,
        .facts = &chooser->facts,
    };

    if (!find_agents(chooser) && chooser->kind == SHP_SSH_AUTO && !chooser->no_ssh) {
        snprintf(chooser->facts.reason, sizeof(chooser->facts.reason),
                 "IdentityAgent has words that only ssh replaces");
        start_openssh(chooser);
        return;
    }
    for (size_t i = 0; i < SHP_LIBSSH_AGENTS_MAX && i < SHP_SSH_AGENTS_MAX; i++)
        options.agents[i] = chooser->agents[i];
    chooser->libssh_runs = true;
    start_child(chooser, shp_transport_libssh_new(&chooser->child, chooser->base.loop, &options));
}

/* ---- choice ------------------------------------------------------------------------------- */

static void set_reason(struct chooser *chooser, const char *reason)
{
    snprintf(chooser->facts.reason, sizeof(chooser->facts.reason), "%s", reason);
}

/* How well libssh fits what was resolved; finds the files on the way. */
static enum shp_ssh_fit judge(struct chooser *chooser)
{
    char *reason = chooser->facts.reason;
    size_t size = sizeof(chooser->facts.reason);
    char host[256];
    char file_reason[sizeof(chooser->facts.reason)];
    struct shp_ssh_tokens tokens;
    enum shp_ssh_fit fit = shp_ssh_config_fit(&chooser->config, chooser->post_quantum,
                                              shp_libssh_knows_kex, reason, size);
    enum shp_ssh_fit of_files;

    if (fit == SHP_SSH_FIT_NOT)
        return fit;
    read_tokens(&tokens, host, sizeof(host));
    of_files = shp_ssh_files_find(&chooser->files, &chooser->config, &tokens, file_reason,
                                  sizeof(file_reason));
    if (of_files <= fit)
        return fit;
    snprintf(reason, size, "%s", file_reason);
    return of_files;
}

static void start_chosen(struct chooser *chooser)
{
    if (chooser->choose_libssh)
        start_libssh(chooser);
    else
        start_openssh(chooser);
}

static void on_control(const struct shp_ssh_run_end *end, void *user)
{
    static const char stopped[] = "the user's running connection (ControlPath) does not answer";
    struct chooser *chooser = user;
    size_t used = strlen(chooser->facts.reason);

    chooser->run = NULL;
    if (chooser->by_us) {
        fail(chooser, 0, "", "", "");
    } else if (end->started && !end->timed_out && end->exit_status == 0 && end->term_signal == 0) {
        if (chooser->choose_libssh)
            set_reason(chooser, "a running connection of the user's is shared (ControlPath)");
        start_openssh(chooser);
    } else {
        chooser->no_control = end->timed_out;
        if (end->timed_out && chooser->choose_libssh)
            set_reason(chooser, stopped);
        else if (end->timed_out)
            snprintf(chooser->facts.reason + used, sizeof(chooser->facts.reason) - used, "; %s",
                     stopped);
        start_chosen(chooser);
    }
}

/*
 * Whether the user's own connection runs: only ssh knows where its socket is, and it would wait for
 * ever for one that is stopped. The same commands of the configuration run as in the query.
 */
static void start_after_control(struct chooser *chooser, bool libssh)
{
    const char *argv[] = {chooser->ssh,
                          "-O",
                          "check",
                          "-oBatchMode=yes",
                          "-oControlMaster=no",
                          "-oLogLevel=ERROR",
                          "--",
                          chooser->target,
                          NULL};
    uint64_t query_ms = uv_now(chooser->base.loop) - (chooser->query_until - QUERY_MS);

    chooser->choose_libssh = libssh;
    if (chooser->config.control_path == NULL ||
        shp_ssh_run_start(&chooser->run, chooser->base.loop, argv, chooser->auth_sock,
                          (uint32_t)(CONTROL_MS + query_ms), on_control, chooser) != SHP_OK)
        start_chosen(chooser);
}

static void choose_libssh(struct chooser *chooser)
{
    switch (judge(chooser)) {
    case SHP_SSH_FIT_ALL:
    case SHP_SSH_FIT_PARTLY:
        set_reason(chooser, "the settings say libssh");
        start_libssh(chooser);
        break;
    case SHP_SSH_FIT_NOT:
        fail(chooser, chooser->post_quantum ? SHP_CODE_KEX_UNSUPPORTED : SHP_CODE_SSH_CONFIG_FAILED,
             "configuration", "the settings say transport libssh; with auto it would be ssh",
             chooser->facts.reason);
        break;
    }
}

static void choose(struct chooser *chooser)
{
    if (chooser->kind == SHP_SSH_OPENSSH) {
        set_reason(chooser, "the settings say openssh");
        start_after_control(chooser, false);
    } else if (chooser->kind == SHP_SSH_LIBSSH) {
        choose_libssh(chooser);
    } else if (!shp_libssh_available()) {
        set_reason(chooser, "this program was built without libssh");
        start_after_control(chooser, false);
    } else if (judge(chooser) != SHP_SSH_FIT_ALL) {
        start_after_control(chooser, false);
    } else {
        set_reason(chooser, "libssh honours all of the configuration");
        start_after_control(chooser, true);
    }
}

/* ---- resolution --------------------------------------------------------------------------- */

static void keep_resolved(struct chooser *chooser)
{
    const struct shp_ssh_config *config = &chooser->config;
    const char *proxy = config->proxy_jump != NULL ? config->proxy_jump : config->proxy_command;
    struct shp_ssh_facts *facts = &chooser->facts;
    const char *user = config->user != NULL ? config->user : "";

    shp_text_clean(facts->hostname, sizeof(facts->hostname), config->hostname,
                   strlen(config->hostname));
    shp_text_clean(facts->user, sizeof(facts->user), user, strlen(user));
    facts->port = config->port;
    if (proxy != NULL)
        shp_text_clean(facts->proxy, sizeof(facts->proxy), proxy, strlen(proxy));
    shp_ssh_config_post_quantum(chooser->kex, sizeof(chooser->kex), config->kex);
}

/* Nobody to ask: the words of the target, and what is in the home directory. */
static void go_without_ssh(struct chooser *chooser, const char *cause)
{
    char host[256];
    struct shp_ssh_tokens tokens;
    const char *home = getenv("HOME");
    int err;

    if (chooser->kind == SHP_SSH_OPENSSH || !shp_libssh_available()) {
        fail(chooser, SHP_CODE_SSH_MISSING, "start ssh", cause, "");
        return;
    }
    read_tokens(&tokens, host, sizeof(host));
    err = shp_ssh_config_from_target(&chooser->config, chooser->target, tokens.local_user,
                                     home != NULL && home[0] == '/' ? home : tokens.home);
    if (err != SHP_OK) {
        fail(chooser, err == SHP_ERR_NOMEM ? SHP_CODE_OUT_OF_MEMORY : SHP_CODE_TARGET_INVALID,
             "configuration",
             "without an ssh program a target is [user@]host or "
             "ssh://[user@]host[:port]",
             "");
        return;
    }
    chooser->no_ssh = true;
    keep_resolved(chooser);
    if (judge(chooser) == SHP_SSH_FIT_NOT) {
        fail(chooser, chooser->post_quantum ? SHP_CODE_KEX_UNSUPPORTED : SHP_CODE_SSH_MISSING,
             "configuration", "there is no ssh program", chooser->facts.reason);
        return;
    }
    set_reason(chooser, "there is no ssh program, so libssh takes the target's own words");
    start_libssh(chooser);
}

static void resolved(struct chooser *chooser, const struct shp_ssh_run_end *end)
{
    int err = shp_ssh_config_parse(&chooser->config, end->output, end->output_len);

    if (err == SHP_ERR_INVALID) {
        fail(chooser, SHP_CODE_SSH_CONFIG_FAILED, "ssh -G", "ssh names no host and port",
             end->diagnostic);
    } else if (err != SHP_OK) {
        fail(chooser, SHP_CODE_OUT_OF_MEMORY, "ssh -G", shp_strerror(err), "");
    } else {
        keep_resolved(chooser);
        choose(chooser);
    }
}

static void not_resolved(struct chooser *chooser, const struct shp_ssh_run_end *end)
{
    unsigned refused = shp_openssh_refused_option(end->diagnostic) & chooser->optional;

    if (end->timed_out) {
        fail(chooser, SHP_CODE_SSH_CONFIG_FAILED, "ssh -G", "it did not answer in 10 s",
             end->diagnostic);
    } else if (shp_openssh_lacks_query(end->diagnostic)) {
        chooser->optional = 0; /* a client that old knows none of them */
        set_reason(chooser, "this ssh is too old to tell its configuration");
        start_openssh(chooser);
    } else if (refused != 0) {
        chooser->optional &= ~refused;
        start_query(chooser);
    } else {
        fail(chooser, SHP_CODE_SSH_CONFIG_FAILED, "ssh -G",
             "ssh refuses its configuration or the target", end->diagnostic);
    }
}

static void on_query(const struct shp_ssh_run_end *end, void *user)
{
    struct chooser *chooser = user;

    chooser->run = NULL;
    if (chooser->by_us)
        fail(chooser, 0, "", "", "");
    else if (!end->started)
        go_without_ssh(chooser, end->cause);
    else if (!end->timed_out && end->exit_status == 0 && end->term_signal == 0)
        resolved(chooser, end);
    else
        not_resolved(chooser, end);
}

static int run_query(struct chooser *chooser)
{
    const char *argv[SHP_OPENSSH_ARGV_MAX];
    uint64_t now = uv_now(chooser->base.loop);
    uint64_t left = chooser->query_until > now ? chooser->query_until - now : 1;

    shp_openssh_argv(argv, chooser->ssh, chooser->target, NULL, chooser->optional);
    shp_openssh_insert(argv, "-oLogLevel=INFO");
    return shp_ssh_run_start(&chooser->run, chooser->base.loop, argv, chooser->auth_sock,
                             (uint32_t)left, on_query, chooser);
}

/* From the loop. */
static void start_query(struct chooser *chooser)
{
    int err = run_query(chooser);

    if (err != SHP_OK)
        fail(chooser, SHP_CODE_OUT_OF_MEMORY, "ssh -G", shp_strerror(err), "");
}

/* ---- operations --------------------------------------------------------------------------- */

static int chooser_open(struct shp_transport *transport)
{
    struct chooser *chooser = (struct chooser *)transport;

    chooser->query_until = uv_now(transport->loop) + QUERY_MS;
    return run_query(chooser);
}

static size_t chooser_write(struct shp_transport *transport, const uint8_t *data, size_t len)
{
    return shp_transport_write(((struct chooser *)transport)->child, data, len);
}

static void chooser_read_start(struct shp_transport *transport)
{
    shp_transport_read_start(((struct chooser *)transport)->child);
}

static void chooser_read_stop(struct shp_transport *transport)
{
    shp_transport_read_stop(((struct chooser *)transport)->child);
}

static void chooser_close(struct shp_transport *transport)
{
    struct chooser *chooser = (struct chooser *)transport;

    chooser->by_us = true;
    if (chooser->child != NULL)
        shp_transport_close(chooser->child);
    else if (chooser->run != NULL)
        shp_ssh_run_cancel(chooser->run);
    else if (chooser->asking != NULL)
        shp_ssh_agents_cancel(chooser->asking);
}

static void chooser_free(struct shp_transport *transport)
{
    release((struct chooser *)transport);
}

static const struct shp_transport_ops ops = {
    .name = "ssh",
    .open = chooser_open,
    .write = chooser_write,
    .read_start = chooser_read_start,
    .read_stop = chooser_read_stop,
    .close = chooser_close,
    .free = chooser_free,
};

static bool copy_options(struct chooser *chooser, const struct shp_ssh_options *options)
{
    static const char name[] = "SSH_AUTH_SOCK=";
    const char *sock = options->ssh_auth_sock;

    chooser->target = shp_strdup(options->target);
    chooser->command = shp_strdup(options->command);
    chooser->ssh = shp_strdup(options->ssh_path != NULL ? options->ssh_path : "ssh");
    if (chooser->target == NULL || chooser->command == NULL || chooser->ssh == NULL)
        return false;
    if (sock == NULL)
        return true;
    chooser->agent = shp_strdup(sock);
    chooser->auth_sock = shp_malloc(sizeof(name) + strlen(sock));
    if (chooser->auth_sock != NULL)
        sprintf(chooser->auth_sock, "%s%s", name, sock);
    return chooser->agent != NULL && chooser->auth_sock != NULL;
}

int shp_transport_ssh_new(struct shp_transport **out, uv_loop_t *loop,
                          const struct shp_ssh_options *options)
{
    struct chooser *chooser;

    if (!shp_openssh_target_ok(options->target) || options->command == NULL ||
        (options->kind == SHP_SSH_LIBSSH && !shp_libssh_available()))
        return SHP_ERR_INVALID;
    chooser = shp_calloc(1, sizeof(*chooser));
    if (chooser == NULL)
        return SHP_ERR_NOMEM;
    shp_transport_init(&chooser->base, &ops, loop);
    chooser->kind = options->kind;
    chooser->post_quantum = options->post_quantum;
    chooser->optional = SHP_OPENSSH_OPTIONAL_ALL;
    if (!copy_options(chooser, options)) {
        release(chooser);
        return SHP_ERR_NOMEM;
    }
    *out = &chooser->base;
    return SHP_OK;
}

const char *shp_ssh_libssh_version(void)
{
    return shp_libssh_version();
}

const struct shp_ssh_facts *shp_transport_ssh_facts(const struct shp_transport *transport)
{
    const struct chooser *chooser = (const struct chooser *)transport;
    const struct shp_ssh_facts *facts = shp_transport_libssh_facts(transport);

    if (facts == NULL)
        facts = shp_transport_openssh_facts(transport);
    if (facts != NULL || transport->ops != &ops)
        return facts;
    return chooser->child != NULL ? shp_transport_ssh_facts(chooser->child) : &chooser->facts;
}
