/* The host's key, and our login: keys in OpenSSH's order. */
#include "transport/transport_libssh_worker.h"

#include "base/alloc.h"
#include "transport/transport_libssh_agent.h"
#include "transport/transport_openssh_log.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define NS_OF_MS 1000000u
#define PATH_BYTES 1100
#define DEFAULT_PORT 22
#define BLOB_BYTES_MAX 16384

/* ---- host key ----------------------------------------------------------------------------- */

static void describe_key(struct shp_libssh_run *run)
{
    ssh_key key = NULL;
    unsigned char *hash = NULL;
    size_t len = 0;
    char *print = NULL;

    if (ssh_get_server_publickey(run->session, &key) != SSH_OK)
        return;
    if (ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &len) == 0)
        print = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, len);
    snprintf(run->facts.host_key, sizeof(run->facts.host_key), "%s %s",
             ssh_key_type_to_char(ssh_key_type(key)), print != NULL ? print : "");
    ssh_string_free_char(print);
    ssh_clean_pubkey_hash(&hash);
    ssh_key_free(key);
}

/* A key that is stored without its port counts for every port, as in OpenSSH. */
static enum ssh_known_hosts_e find_host(struct shp_libssh_run *run)
{
    enum ssh_known_hosts_e found = ssh_session_is_known_server(run->session);
    const struct shp_ssh_config *config = &run->worker->config;
    unsigned port = DEFAULT_PORT;

    if ((found != SSH_KNOWN_HOSTS_UNKNOWN && found != SSH_KNOWN_HOSTS_NOT_FOUND) ||
        config->port == DEFAULT_PORT || config->host_key_alias != NULL)
        return found;
    ssh_options_set(run->session, SSH_OPTIONS_PORT, &port);
    return ssh_session_is_known_server(run->session) == SSH_KNOWN_HOSTS_OK ? SSH_KNOWN_HOSTS_OK
                                                                           : found;
}

bool shp_libssh_check_host(struct shp_libssh_run *run)
{
    const struct shp_ssh_config *config = &run->worker->config;
    const char *name = config->host_key_alias != NULL ? config->host_key_alias : config->hostname;
    enum ssh_known_hosts_e found;

    describe_key(run);
    found = find_host(run);
    switch (found) {
    case SSH_KNOWN_HOSTS_OK:
        return true;
    case SSH_KNOWN_HOSTS_CHANGED:
    case SSH_KNOWN_HOSTS_OTHER:
        shp_error_set(&run->error, SHP_CODE_HOST_KEY_CHANGED, NULL, "host key",
                      "%s shows %s, and another key of it is known", name, run->facts.host_key);
        return false;
    case SSH_KNOWN_HOSTS_NOT_FOUND:
    case SSH_KNOWN_HOSTS_UNKNOWN:
        shp_error_set(&run->error, SHP_CODE_HOST_KEY_UNKNOWN, NULL, "host key",
                      "no key of %s is known; it shows %s", name, run->facts.host_key);
        return false;
    case SSH_KNOWN_HOSTS_ERROR:
        break;
    }
    return shp_libssh_fail(run, SHP_CODE_CONNECT_FAILED, "host key",
                           "the host key could not be compared");
}

/* ---- login -------------------------------------------------------------------------------- */

struct identity {
    const char *path;
    uint8_t *blob; /* public half, where it could be read */
    size_t blob_len;
    ssh_key public_key;
    bool in_agent;
};

struct login {
    struct shp_libssh_run *run;
    struct identity identities[SHP_SSH_CONFIG_FILES_MAX];
    size_t identities_len;
    struct shp_agent agent;
    const char *locked; /* a key that the server may take and that needs its passphrase */
    bool locked_wanted; /* the server said that it takes it */
    bool partial;
    int result; /* of the last try */
};

/* The server's banner names a page that a person has to open before it answers. */
static bool waits_at_url(struct shp_libssh_run *run)
{
    char *banner = ssh_get_issue_banner(run->session);
    char url[256];
    bool found = banner != NULL && shp_openssh_find_url(url, sizeof(url), banner, strlen(banner));

    if (found)
        shp_error_set(&run->error, SHP_CODE_INTERACTION_REQUIRED, NULL, "login",
                      "the login waits for a person at %s", url);
    ssh_string_free_char(banner);
    return found;
}

/* Repeats a call until libssh has an answer; false: there will be none, and the error is set. */
static bool settle(struct login *login, int rc)
{
    struct shp_libssh_run *run = login->run;

    login->result = rc;
    if (rc != SSH_AUTH_AGAIN)
        return false;
    switch (shp_libssh_wait(run)) {
    case SHP_LIBSSH_READY:
        return true;
    case SHP_LIBSSH_CANCELLED:
        break;
    case SHP_LIBSSH_TIMEOUT:
        if (!waits_at_url(run))
            shp_error_set(&run->error, SHP_CODE_LOGIN_SLOW, NULL, "login",
                          "the login did not end in %d s%s%s", SHP_LIBSSH_AUTH_MS / 1000,
                          run->facts.agent[0] != '\0' ? "; agent: " : "", run->facts.agent);
        break;
    case SHP_LIBSSH_GONE:
        shp_libssh_fail(run, SHP_CODE_LOGIN_DENIED, "login",
                        "the server ended the connection during the login");
        break;
    }
    login->result = SSH_AUTH_ERROR;
    return false;
}

/* Whether to go on with further keys. */
static bool go_on(struct login *login)
{
    struct shp_libssh_run *run = login->run;

    if (login->result == SSH_AUTH_PARTIAL)
        login->partial = true;
    if (login->result == SSH_AUTH_ERROR && run->error.code == 0 && !run->cancelled)
        shp_libssh_fail(run, SHP_CODE_LOGIN_DENIED, "login", "the server ended the login");
    return login->result == SSH_AUTH_DENIED;
}

/* ---- agent -------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void say_agent(struct login *login, const char *format,
                                                            ...)
{
    struct shp_ssh_facts *facts = &login->run->facts;
    size_t used = strlen(facts->agent);
    char text[160];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (used < sizeof(facts->agent) - 1)
        snprintf(facts->agent + used, sizeof(facts->agent) - used, "%s%s",
                 used > 0 ? ", then " : "", text);
}

/* The first agent that answers. */
static void find_agent(struct login *login)
{
    struct shp_libssh_worker *worker = login->run->worker;

    login->agent.fd = -1;
    for (size_t i = 0; i < SHP_LIBSSH_AGENTS_MAX && worker->agents[i] != NULL; i++) {
        const char *path = worker->agents[i];
        uint64_t deadline_ns = uv_hrtime() + (uint64_t)SHP_LIBSSH_AGENT_MS * NS_OF_MS;

        switch (shp_agent_open(&login->agent, path, deadline_ns)) {
        case SHP_AGENT_ANSWERED:
            say_agent(login, "%zu %s", login->agent.keys_len,
                      login->agent.keys_len == 1 ? "key" : "keys");
            return;
        case SHP_AGENT_SILENT:
            login->run->facts.agent_silent = true;
            say_agent(login, "%.100s does not answer", path);
            break;
        case SHP_AGENT_ABSENT:
            say_agent(login, "%.100s is stale", path);
            break;
        case SHP_AGENT_ODD:
            say_agent(login, "%.100s is no agent", path);
            break;
        }
    }
    if (login->run->facts.agent[0] == '\0')
        say_agent(login, "none");
}

/* libssh stops at a key whose type it does not know. */
static bool is_known_type(const struct shp_agent_key *key)
{
    static const char *const types[] = {"ssh-ed25519",
                                        "ssh-rsa",
                                        "ecdsa-sha2-nistp256",
                                        "ecdsa-sha2-nistp384",
                                        "ecdsa-sha2-nistp521",
                                        "sk-ssh-ed25519@openssh.com",
                                        "sk-ecdsa-sha2-nistp256@openssh.com"};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        size_t len = strlen(types[i]);

        if (key->blob_len > 4 + len && key->blob[2] == 0 && key->blob[3] == len &&
            memcmp(key->blob + 4, types[i], len) == 0)
            return true;
    }
    return false;
}

static bool is_identity(struct login *login, const struct shp_agent_key *key)
{
    for (size_t i = 0; i < login->identities_len; i++) {
        struct identity *identity = &login->identities[i];

        if (identity->blob_len == key->blob_len && identity->blob_len > 0 &&
            memcmp(identity->blob, key->blob, key->blob_len) == 0) {
            identity->in_agent = true;
            return true;
        }
    }
    return false;
}

/* Keys that the configuration names first, then the others, unless only those are wanted. */
static size_t choose_keys(struct login *login, size_t chosen[SHP_AGENT_KEYS_MAX])
{
    bool only = shp_ssh_config_yes(login->run->worker->config.identities_only);
    bool named[SHP_AGENT_KEYS_MAX] = {false};
    size_t count = 0;

    for (size_t i = 0; i < login->agent.keys_len; i++) {
        named[i] = is_identity(login, &login->agent.keys[i]);
        if (named[i] && is_known_type(&login->agent.keys[i]))
            chosen[count++] = i;
    }
    for (size_t i = 0; i < login->agent.keys_len && !only; i++) {
        if (!named[i] && is_known_type(&login->agent.keys[i]))
            chosen[count++] = i;
    }
    return count;
}

static void try_agent(struct login *login)
{
    struct shp_libssh_run *run = login->run;
    struct shp_agent_relay *relay = NULL;
    size_t chosen[SHP_AGENT_KEYS_MAX];
    size_t count = choose_keys(login, chosen);
    int fd = -1;

    login->result = SSH_AUTH_DENIED;
    if (count == 0 || shp_agent_relay_start(&relay, &login->agent, chosen, count, run->deadline_ns,
                                            &fd) != SHP_OK)
        return;
    if (ssh_set_agent_socket(run->session, fd) == SSH_OK) {
        while (settle(login, ssh_userauth_agent(run->session, NULL)))
            continue;
    } else {
        close(fd);
    }
    if (login->result == SSH_AUTH_DENIED)
        run->facts.keys_tried += (uint32_t)count;
    if (shp_agent_relay_stop(relay) && login->result != SSH_AUTH_SUCCESS) {
        shp_error_set(&run->error, SHP_CODE_LOGIN_SLOW, NULL, "login",
                      "the agent did not sign with one of its keys in %d s; agent: %s",
                      SHP_LIBSSH_AUTH_MS / 1000, run->facts.agent);
        login->result = SSH_AUTH_ERROR;
    }
}

/* ---- key files ---------------------------------------------------------------------------- */

static void read_public_half(struct identity *identity)
{
    char path[PATH_BYTES];
    char *text = NULL;

    snprintf(path, sizeof(path), "%s.pub", identity->path);
    /* The private file's own public half where there is no other; or it is a public key itself. */
    if (ssh_pki_import_pubkey_file(path, &identity->public_key) != SSH_OK &&
        ssh_pki_import_pubkey_file(identity->path, &identity->public_key) != SSH_OK) {
        identity->public_key = NULL;
        return;
    }
    if (ssh_pki_export_pubkey_base64(identity->public_key, &text) != SSH_OK)
        return;
    identity->blob = shp_malloc(BLOB_BYTES_MAX);
    if (identity->blob != NULL)
        identity->blob_len = shp_ssh_base64(identity->blob, BLOB_BYTES_MAX, text);
    ssh_string_free_char(text);
}

static void read_identities(struct login *login)
{
    const struct shp_ssh_files *files = &login->run->worker->files;

    for (size_t i = 0; i < files->identities; i++) {
        struct identity *identity = &login->identities[login->identities_len];
        char path[PATH_BYTES];

        snprintf(path, sizeof(path), "%s.pub", files->identity[i]);
        if (access(files->identity[i], F_OK) != 0 && access(path, F_OK) != 0)
            continue;
        identity->path = files->identity[i];
        read_public_half(identity);
        login->identities_len++;
    }
}

/* The key cannot be used, but the server may say that it would be the right one. */
static void ask_for_locked(struct login *login, const struct identity *identity)
{
    struct shp_libssh_run *run = login->run;

    if (login->locked == NULL)
        login->locked = identity->path;
    login->result = SSH_AUTH_DENIED;
    if (identity->public_key == NULL)
        return;
    while (settle(login, ssh_userauth_try_publickey(run->session, NULL, identity->public_key)))
        continue;
    run->facts.keys_tried++;
    if (login->result == SSH_AUTH_SUCCESS) {
        login->locked = identity->path;
        login->locked_wanted = true;
        login->result = SSH_AUTH_DENIED;
    }
}

static void try_identity(struct login *login, const struct identity *identity)
{
    struct shp_libssh_run *run = login->run;
    ssh_key key = NULL;

    login->result = SSH_AUTH_DENIED;
    if (identity->in_agent || access(identity->path, F_OK) != 0 ||
        shp_ssh_key_is_exposed(identity->path))
        return;
    if (shp_ssh_key_is_locked(identity->path)) {
        ask_for_locked(login, identity);
        return;
    }
    if (ssh_pki_import_privkey_file(identity->path, NULL, NULL, NULL, &key) != SSH_OK)
        return;
    while (settle(login, ssh_userauth_publickey(run->session, NULL, key)))
        continue;
    run->facts.keys_tried++;
    ssh_key_free(key);
}

/* ---- result ------------------------------------------------------------------------------- */

static void keep_methods(struct shp_libssh_run *run)
{
    static const struct {
        unsigned method;
        const char *name;
    } names[] = {
        {SSH_AUTH_METHOD_PUBLICKEY, "publickey"},
        {SSH_AUTH_METHOD_PASSWORD, "password"},
        {SSH_AUTH_METHOD_INTERACTIVE, "keyboard-interactive"},
        {SSH_AUTH_METHOD_HOSTBASED, "hostbased"},
        {SSH_AUTH_METHOD_GSSAPI_MIC, "gssapi-with-mic"},
    };
    int offered = ssh_userauth_list(run->session, NULL);
    char *out = run->facts.auth_offered;
    size_t size = sizeof(run->facts.auth_offered);
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if ((unsigned)offered & names[i].method)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used > 0 ? "," : "",
                                     names[i].name);
    }
}

static bool asks_a_person(const struct login *login)
{
    const char *offered = login->run->facts.auth_offered;
    bool by_person = shp_ssh_config_lists(offered, "password") ||
                     shp_ssh_config_lists(offered, "keyboard-interactive");

    return by_person && (login->partial || !shp_ssh_config_lists(offered, "publickey"));
}

/* Every key was refused: why, for a person. */
static void judge(struct login *login)
{
    struct shp_libssh_run *run = login->run;
    const char *offered = run->facts.auth_offered;
    struct shp_error *error = &run->error;

    keep_methods(run);
    if (asks_a_person(login))
        shp_error_set(error, SHP_CODE_INTERACTION_REQUIRED, NULL, "login",
                      "%s, the server wants %s",
                      login->partial ? "after the key" : "keys do not help", offered);
    else if (login->locked_wanted)
        shp_error_set(error, SHP_CODE_KEY_LOCKED, NULL, "login",
                      "the server takes the key %.200s, which needs its passphrase; agent: %.100s; "
                      "run: ssh-add %.200s",
                      login->locked, run->facts.agent, login->locked);
    else if (run->facts.agent_silent)
        shp_error_set(error, SHP_CODE_LOGIN_SLOW, NULL, "login",
                      "no key file was accepted, and the agent does not say its keys; agent: %s",
                      run->facts.agent);
    else if (login->locked != NULL)
        shp_error_set(error, SHP_CODE_KEY_LOCKED, NULL, "login",
                      "no usable key was accepted, and %.300s needs its passphrase; agent: %s",
                      login->locked, run->facts.agent);
    else
        shp_error_set(error, SHP_CODE_LOGIN_DENIED, NULL, "login",
                      "%u keys were refused for %s; the server takes %s; agent: %s",
                      (unsigned)run->facts.keys_tried, run->facts.user,
                      offered[0] != '\0' ? offered : "no method", run->facts.agent);
}

/* As far as the server told: nothing before the first refusal. */
static bool keys_are_taken(struct shp_libssh_run *run)
{
    int methods = ssh_userauth_list(run->session, NULL);

    return methods == 0 || ((unsigned)methods & SSH_AUTH_METHOD_PUBLICKEY) != 0;
}

static void try_all(struct login *login)
{
    struct shp_libssh_run *run = login->run;

    try_agent(login);
    if (!go_on(login))
        return;
    for (size_t i = 0; i < login->identities_len && keys_are_taken(run); i++) {
        try_identity(login, &login->identities[i]);
        if (!go_on(login))
            return;
    }
    if (run->facts.keys_tried > 0)
        return;
    /* It tells what the server takes; some take it. */
    while (settle(login, ssh_userauth_none(run->session, NULL)))
        continue;
    go_on(login);
}

static void release(struct login *login)
{
    for (size_t i = 0; i < login->identities_len; i++) {
        shp_free(login->identities[i].blob);
        ssh_key_free(login->identities[i].public_key);
    }
    shp_agent_fini(&login->agent);
    shp_free(login);
}

bool shp_libssh_login(struct shp_libssh_run *run)
{
    struct login *login = shp_calloc(1, sizeof(*login));
    bool good;

    if (login == NULL)
        return shp_libssh_fail(run, SHP_CODE_OUT_OF_MEMORY, "login", "no memory");
    login->run = run;
    read_identities(login);
    find_agent(login);
    try_all(login);
    good = login->result == SSH_AUTH_SUCCESS;
    if (good)
        snprintf(run->facts.auth_used, sizeof(run->facts.auth_used), "%s",
                 run->facts.keys_tried > 0 || login->identities_len > 0 || login->agent.keys_len > 0
                     ? "publickey"
                     : "none");
    else if (run->error.code == 0 && !run->cancelled)
        judge(login);
    release(login);
    shp_libssh_publish(run);
    return good;
}
