#include "transport/transport_openssh_cause.h"

#include "protocol/messages.h"

#include <stdio.h>
#include <string.h>

/* ssh's own failures; the remote command can end with it too. */
#define SSH_FAILED 255

/* What a sentence is made of. */
struct view {
    const struct shp_openssh_end *end;
    const struct shp_openssh_log *log;
    const struct shp_ssh_facts *facts;
    char text[SHP_TAIL_BYTES + 1]; /* standard error, plain */
    char word[600];                /* the target, for a shell */
    char host[600];                /* the target, and its address where it is known */
};

/* ---- texts -------------------------------------------------------------------------------- */

/* Bytes of a terminal sequence at text, 0 when there is none. ssh itself writes ESC as \033. */
static size_t sequence(const char *text, size_t len)
{
    size_t at = 2;

    if (len > 4 && memcmp(text, "\\033", 4) == 0) {
        for (at = 5; text[4] == '[' && at < len && text[at] >= 0x20 && text[at] < 0x40;)
            at++;
        return text[4] != '[' ? 4 : at < len ? at + 1 : len;
    }
    if (len < 2 || text[0] != '\x1b')
        return 0;
    if (text[1] == '[') {
        while (at < len && (unsigned char)text[at] >= 0x20 && (unsigned char)text[at] < 0x40)
            at++;
        return at < len ? at + 1 : len;
    }
    if (text[1] == ']' || text[1] == 'P') {
        while (at < len && text[at] != '\x07' && text[at] != '\x1b' && text[at] != '\n')
            at++;
        if (at + 1 < len && text[at] == '\x1b' && text[at + 1] == '\\')
            at++;
        return at < len ? at + 1 : len;
    }
    return 2;
}

size_t shp_openssh_plain(char *out, size_t size, const char *text, size_t len)
{
    size_t used = 0;
    bool space = false;

    if (size == 0)
        return 0;
    for (size_t i = 0; i < len && used + 1 < size;) {
        size_t skipped = sequence(text + i, len - i);

        if (skipped > 0) {
            i += skipped;
            continue;
        }
        if ((unsigned char)text[i] <= 0x20 || text[i] == 0x7f) {
            space = used > 0;
            i++;
            continue;
        }
        if (space && used + 2 < size)
            out[used++] = ' ';
        space = false;
        out[used++] = text[i++];
    }
    /* In place is fine for it: what it writes is never ahead of what it reads. */
    return shp_text_clean(out, size, out, used);
}

void shp_openssh_quote(char *out, size_t size, const char *target)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "@%+=:,./_-";
    size_t used = 0;

    if (size < 3) {
        if (size > 0)
            out[0] = '\0';
        return;
    }
    if (target[0] != '\0' && target[strspn(target, plain)] == '\0' && strchr(target, '[') == NULL) {
        snprintf(out, size, "%s", target);
        return;
    }
    out[used++] = '\'';
    for (; *target != '\0' && used + 6 < size; target++) {
        if (*target == '\'') {
            memcpy(out + used, "'\\''", 4);
            used += 4;
        } else {
            out[used++] = *target;
        }
    }
    out[used++] = '\'';
    out[used] = '\0';
}

static bool says(const struct view *view, const char *words)
{
    return strstr(view->text, words) != NULL;
}

static bool says_one(const struct view *view, const char *const *phrases)
{
    for (; *phrases != NULL; phrases++) {
        if (says(view, *phrases))
            return true;
    }
    return false;
}

/* What is worth quoting: the end of the text, from the beginning of a character. */
static const char *quote(const struct view *view)
{
    const char *text = view->text;
    size_t len = strlen(text);

    if (len <= SHP_OPENSSH_QUOTE_BYTES)
        return text;
    text += len - SHP_OPENSSH_QUOTE_BYTES;
    while (((unsigned char)*text & 0xc0) == 0x80)
        text++;
    return text;
}

/* Words of the text from the one phrase to before the other; "" where it is not said. */
static void between(const struct view *view, const char *from, const char *to, char *out,
                    size_t size)
{
    const char *begin = strstr(view->text, from);
    const char *end;

    out[0] = '\0';
    if (begin == NULL)
        return;
    begin += strlen(from);
    end = strstr(begin, to);
    shp_text_clean(out, size, begin, end != NULL ? (size_t)(end - begin) : strlen(begin));
}

static void look(struct view *view, const struct shp_openssh_end *end)
{
    char raw[SHP_TAIL_BYTES];
    const struct shp_ssh_facts *facts = end->log->facts;

    view->end = end;
    view->log = end->log;
    view->facts = facts;
    shp_openssh_plain(view->text, sizeof(view->text), raw, shp_tail_copy(&end->log->tail, raw));
    shp_openssh_quote(view->word, sizeof(view->word), end->target);
    if (facts->address[0] != '\0' && strcmp(facts->address, end->target) != 0)
        snprintf(view->host, sizeof(view->host), "%.400s (%s)", end->target, facts->address);
    else
        snprintf(view->host, sizeof(view->host), "%.400s", end->target);
}

static void plain_error(struct shp_error *error, const struct view *view, int code,
                        const char *step, const char *what)
{
    bool quoted = view->text[0] != '\0';

    shp_error_set(error, code, NULL, step, "%s%s%s", what, quoted ? ": " : "", quote(view));
}

/* ---- each cause --------------------------------------------------------------------------- */

static bool waits_for_url(struct shp_error *error, const struct view *view)
{
    if (view->log->url[0] == '\0')
        return false;
    shp_error_set(error, SHP_CODE_INTERACTION_REQUIRED, NULL, "login",
                  "the login waits for a person at %s (or run: ssh %s)", view->log->url,
                  view->word);
    return true;
}

static bool is_host_key(struct shp_error *error, const struct view *view)
{
    static const char *const changed[] = {
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "has changed and you have requested strict checking",
        NULL,
    };
    static const char *const unknown[] = {
        "Host key verification failed",
        "host key is known for",
        "authenticity of host",
        NULL,
    };
    static const char *const revoked[] = {
        "marked as revoked",
        "REVOKED HOST KEY",
        "revoked by file",
        NULL,
    };
    const char *key = view->facts->host_key;
    char known[300];

    /* In this order: a changed or revoked key also says that the verification failed. */
    if (says_one(view, revoked)) {
        shp_error_set(error, SHP_CODE_HOST_KEY_CHANGED, NULL, "host key",
                      "the host key of %s is marked as revoked (%s)", view->host, key);
    } else if (says_one(view, changed)) {
        between(view, "Offending ", " remove with", known, sizeof(known));
        if (known[0] == '\0')
            between(view, "Offending ", " Host key", known, sizeof(known));
        shp_error_set(error, SHP_CODE_HOST_KEY_CHANGED, NULL, "host key",
                      "%s shows another host key than the known one (it shows %s%s%s); when the "
                      "change is right, remove the old key and run: ssh %s",
                      view->host, key[0] != '\0' ? key : "one that ssh did not name",
                      known[0] != '\0' ? ", known is the " : "", known, view->word);
    } else if (says_one(view, unknown)) {
        shp_error_set(error, SHP_CODE_HOST_KEY_UNKNOWN, NULL, "host key",
                      "the host key of %s is not known (%s); compare and confirm it with: ssh %s",
                      key[0] != '\0' ? view->host : "a host on the way",
                      key[0] != '\0' ? key : "ssh did not name it", view->word);
    } else {
        return false;
    }
    return true;
}

/* A list of methods in which none works without a person. */
static bool needs_person(const char *methods)
{
    static const char *const alone[] = {"publickey", "hostbased", "gssapi", NULL};

    for (size_t i = 0; alone[i] != NULL; i++) {
        if (strstr(methods, alone[i]) != NULL)
            return false;
    }
    return methods[0] != '\0';
}

/* A key that the server took, and that ssh could not sign with. */
static void explain_unsigned(struct shp_error *error, const struct view *view)
{
    const struct shp_openssh_key *key = &view->log->unsigned_key;
    char word[300];
    char missing[300];

    shp_openssh_quote(word, sizeof(word), key->name);
    snprintf(missing, sizeof(missing), "no such identity: %s:", key->name);
    if (says(view, missing))
        shp_error_set(error, SHP_CODE_LOGIN_DENIED, NULL, "login",
                      "the server takes the key %s, but its private file is missing, and no agent "
                      "holds it",
                      key->name);
    else if (says(view, "signing failed") &&
             (key->of_agent || says(view, "agent refused operation")))
        shp_error_set(error, SHP_CODE_INTERACTION_REQUIRED, NULL, "login",
                      "the agent refused to sign with the key %s: it is locked, or its question "
                      "was not answered; answer it while you run: ssh %s",
                      key->name, view->word);
    else if (key->of_device)
        plain_error(error, view, SHP_CODE_INTERACTION_REQUIRED, "login",
                    "the security key did not sign: plug it in and touch it");
    else if (says(view, "signing failed") || says(view, "Load key ") || key->of_agent)
        plain_error(error, view, SHP_CODE_LOGIN_DENIED, "login",
                    "the server takes the key, but ssh cannot sign with it");
    else
        shp_error_set(error, SHP_CODE_KEY_LOCKED, NULL, "login",
                      "the server takes the key %s, which needs its passphrase, and no agent holds "
                      "it; run: ssh-add %s",
                      key->name, word);
}

/* "user@host: Permission denied (methods)." says no more than the facts do. */
static void drop_denial(struct view *view)
{
    char *begin = strstr(view->text, "Permission denied (");
    char *end = begin != NULL ? strchr(begin, ')') : NULL;

    if (end == NULL)
        return;
    if (begin - view->text >= 2 && begin[-2] == ':') {
        begin--;
        while (begin > view->text && begin[-1] != ' ')
            begin--;
    }
    end += end[1] == '.' ? 2 : 1;
    if (*end == '\0' && begin > view->text)
        begin--; /* the space before it */
    memmove(begin, end, strlen(end) + 1);
}

static void explain_denied(struct shp_error *error, struct view *view)
{
    const struct shp_ssh_facts *facts = view->facts;
    const char *methods = facts->auth_offered;
    char said[300];
    char what[400];
    char word[300];

    if (methods[0] == '\0') { /* of a host on the way, whose log we do not see */
        between(view, "Permission denied (", ")", said, sizeof(said));
        methods = said;
    } else {
        drop_denial(view);
    }
    if (view->log->unsigned_key.name[0] != '\0') {
        explain_unsigned(error, view);
    } else if (needs_person(methods) && view->log->partial) {
        shp_error_set(error, SHP_CODE_INTERACTION_REQUIRED, NULL, "login",
                      "the server took the key and asks for more, which only a person can give "
                      "(%s); run: ssh %s",
                      methods, view->word);
    } else if (needs_person(methods) && strcmp(methods, "password") == 0) {
        shp_error_set(error, SHP_CODE_INTERACTION_REQUIRED, NULL, "login",
                      "the server takes nothing but a password; see what it wants with: ssh %s, "
                      "and have it allow keys",
                      view->word);
    } else if (needs_person(methods)) {
        shp_error_set(error, SHP_CODE_INTERACTION_REQUIRED, NULL, "login",
                      "the server takes only what a person enters (%s); run: ssh %s", methods,
                      view->word);
    } else if (view->log->token[0] != '\0') {
        shp_openssh_quote(word, sizeof(word), view->log->token);
        shp_error_set(error, SHP_CODE_KEY_LOCKED, NULL, "login",
                      "the keys behind %s need the PIN of their token, and no agent holds them; "
                      "run: ssh-add -s %s",
                      view->log->token, word);
    } else if (view->end->locked != NULL) {
        shp_openssh_quote(said, sizeof(said), view->end->locked);
        shp_error_set(error, SHP_CODE_KEY_LOCKED, NULL, "login",
                      "the key %s needs its passphrase, and no agent holds it; run: ssh-add %s",
                      view->end->locked, said);
    } else if (says(view, "Too many authentication failures")) {
        shp_error_set(
            error, SHP_CODE_LOGIN_DENIED, NULL, "login",
            "the server ended the login after %u keys that it does not know (agent: %s); "
            "name the right one with IdentityFile and IdentitiesOnly yes, and try: ssh %s",
            facts->keys_tried, facts->agent[0] != '\0' ? facts->agent : "not asked", view->word);
    } else if (facts->agent_silent) {
        shp_error_set(error, SHP_CODE_LOGIN_SLOW, NULL, "login",
                      "the server refused every key file, and the agent at %s", facts->agent);
    } else if (facts->keys_tried == 0 && facts->auth_offered[0] != '\0') {
        plain_error(error, view, SHP_CODE_LOGIN_DENIED, "login", "ssh had no key to offer");
    } else {
        snprintf(what, sizeof(what), "the server refused every key%s%s%s",
                 methods[0] != '\0' ? " (it takes " : "", methods, methods[0] != '\0' ? ")" : "");
        plain_error(error, view, SHP_CODE_LOGIN_DENIED, "login", what);
    }
}

static bool is_login(struct shp_error *error, struct view *view)
{
    /* With the parenthesis: a remote shell says "Permission denied" of files. */
    static const char *const denied[] = {
        "Permission denied (",
        "Too many authentication failures",
        "No supported authentication methods",
        "no such identity",
        NULL,
    };

    if (!says_one(view, denied))
        return false;
    explain_denied(error, view);
    return true;
}

/* "ssh: connect to host H port P: why", or "Connection to H port P timed out". */
static void explain_silence(struct shp_error *error, const struct view *view)
{
    char where[300];
    char behind[310];
    char why[200];

    between(view, "connect to host ", ": ", where, sizeof(where));
    if (where[0] == '\0') {
        plain_error(error, view, SHP_CODE_CONNECT_TIMEOUT, "connect", "no connection");
        return;
    }
    snprintf(behind, sizeof(behind), "%s: ", where);
    between(view, behind, "\n", why, sizeof(why));
    shp_error_set(error, SHP_CODE_CONNECT_TIMEOUT, NULL, "connect", "%s does not answer (%s)",
                  where, why);
}

static bool is_network(struct shp_error *error, const struct view *view)
{
    static const char *const silent[] = {
        "timed out",    "Operation timed out",    "No route to host",
        "Host is down", "Network is unreachable", NULL,
    };
    char what[300];

    if (says(view, "Could not resolve hostname")) {
        between(view, "Could not resolve hostname ", ": ", what, sizeof(what));
        shp_error_set(error, SHP_CODE_NAME_UNRESOLVED, NULL, "name",
                      "the name %s has no address; try: ssh %s", what, view->word);
    } else if (says(view, "Connection refused")) {
        between(view, "connect to host ", ": ", what, sizeof(what));
        if (what[0] != '\0')
            shp_error_set(error, SHP_CODE_CONNECT_REFUSED, NULL, "connect",
                          "%s%s refuses connections",
                          view->facts->proxy[0] != '\0' ? "on the way: " : "", what);
        else if (view->facts->proxy[0] != '\0')
            shp_error_set(error, SHP_CODE_CONNECT_REFUSED, NULL, "connect",
                          "on the way (%s) a host refuses connections from the one before it",
                          view->facts->proxy);
        else
            plain_error(error, view, SHP_CODE_CONNECT_REFUSED, "connect", "refused");
    } else if (says_one(view, silent)) {
        if (!waits_for_url(error, view))
            explain_silence(error, view);
    } else {
        return false;
    }
    return true;
}

static bool is_config(struct shp_error *error, const struct view *view)
{
    static const char *const bad[] = {
        "Bad configuration option",
        "bad configuration option",
        "Bad owner or permissions on",
        "command-line line 0",
        "command-line: line 0",
        "hostname contains invalid",
        "jumphost loop",
        NULL,
    };

    if (view->log->spoke || !says_one(view, bad))
        return false;
    plain_error(error, view, SHP_CODE_SSH_CONFIG_FAILED, "ssh -G",
                "ssh refuses its configuration or the target");
    return true;
}

static bool is_negotiation(struct shp_error *error, const struct view *view)
{
    char what[400];

    between(view, "no matching ", "\n", what, sizeof(what));
    if (what[0] == '\0' || !says(view, "Unable to negotiate"))
        return false;
    shp_error_set(error, SHP_CODE_KEX_UNSUPPORTED, NULL, "key exchange",
                  "%s and ssh share no algorithm: no matching %s", view->host, what);
    return true;
}

static bool is_channel(struct shp_error *error, const struct view *view)
{
    static const char *const refused[] = {
        "exec request failed on channel",
        "shell request failed on channel",
        NULL,
    };
    bool no_channel = !view->log->opened && view->facts->phase == SHP_SSH_PHASE_CHANNEL &&
                      says(view, "open failed");

    if (!no_channel && !says_one(view, refused))
        return false;
    plain_error(error, view, SHP_CODE_CHANNEL_REFUSED, "channel",
                "the login succeeded, but the server runs no command for it");
    return true;
}

/* 255 without a byte from the remote side, and none of the texts above. */
static void explain_rest(struct shp_error *error, const struct view *view)
{
    static const char *const lost[] = {
        "closed by remote host", "Broken pipe",
        "not responding",        "Connection reset by",
        "packet_write_wait",     "mux_client_request_session",
        "send disconnect",       NULL,
    };
    static const char *const was_none[] = {"kex_exchange_identification", "ssh_exchange_id", NULL};
    const struct shp_ssh_facts *facts = view->facts;
    bool began = facts->phase >= SHP_SSH_PHASE_CHANNEL ||
                 (!view->log->spoke && says_one(view, lost) && !says_one(view, was_none));

    if (began)
        plain_error(error, view, SHP_CODE_LINK_LOST, "connection", "ssh lost the connection");
    else if (facts->phase <= SHP_SSH_PHASE_TCP && facts->proxy[0] != '\0' &&
             waits_for_url(error, view))
        return;
    else if (facts->phase <= SHP_SSH_PHASE_TCP && facts->proxy[0] != '\0')
        plain_error(error, view, SHP_CODE_CONNECT_FAILED, "connect",
                    "the way there (ProxyJump or ProxyCommand) gave no connection");
    else
        plain_error(error, view, SHP_CODE_CONNECT_FAILED, "ssh", "ssh gave up");
}

/* ---- ends --------------------------------------------------------------------------------- */

static void explain_failure(struct shp_error *error, struct view *view)
{
    char what[96];

    if (view->end->term_signal != 0) {
        snprintf(what, sizeof(what), "ssh was killed by signal %d", view->end->term_signal);
        plain_error(error, view, view->end->heard ? SHP_CODE_LINK_LOST : SHP_CODE_CONNECT_FAILED,
                    "ssh", what);
    } else if (view->end->exit_status != SSH_FAILED || view->end->heard) {
        snprintf(what, sizeof(what), "ssh ended with exit status %lld",
                 (long long)view->end->exit_status);
        plain_error(error, view, SHP_CODE_LINK_LOST, "connection", what);
    } else if (!is_channel(error, view) &&
               (view->log->opened || (!is_config(error, view) && !is_negotiation(error, view) &&
                                      !is_host_key(error, view) && !is_login(error, view) &&
                                      !is_network(error, view)))) {
        explain_rest(error, view);
    }
}

void shp_openssh_explain_end(struct shp_error *error, const struct shp_openssh_end *end)
{
    struct view view;

    memset(error, 0, sizeof(*error));
    if (end->term_signal == 0 && end->exit_status == 0)
        return;
    look(&view, end);
    explain_failure(error, &view);
    shp_openssh_add_command(error, end->target);
    if (end->heard)
        error->outcome = SHP_OUTCOME_UNKNOWN;
}

void shp_openssh_add_command(struct shp_error *error, const char *target)
{
    struct shp_error told = *error;
    char word[600];

    switch (error->code) {
    case SHP_CODE_HOST_KEY_UNKNOWN:
    case SHP_CODE_HOST_KEY_CHANGED:
    case SHP_CODE_LOGIN_DENIED:
    case SHP_CODE_KEY_LOCKED:
    case SHP_CODE_INTERACTION_REQUIRED:
    case SHP_CODE_LOGIN_SLOW:
        break;
    default:
        return;
    }
    if (strstr(error->cause, ": ssh ") != NULL || strstr(error->cause, ": ssh-add ") != NULL)
        return;
    shp_openssh_quote(word, sizeof(word), target);
    shp_error_set(error, told.code, told.machine, told.step, "%.*s; try it with: ssh %s",
                  SHP_OPENSSH_QUOTE_BYTES, told.cause, word);
    error->outcome = told.outcome;
}

/* ---- deadlines ---------------------------------------------------------------------------- */

static void explain_slow_login(struct shp_error *error, const struct view *view, unsigned seconds)
{
    const struct shp_openssh_log *log = view->log;
    const struct shp_openssh_key *key = &log->key;

    if (log->signing && key->of_device)
        shp_error_set(error, SHP_CODE_LOGIN_SLOW, NULL, "login",
                      "the security key %s was not touched within %u s", key->name, seconds);
    else if (log->signing && key->of_agent)
        shp_error_set(error, SHP_CODE_LOGIN_SLOW, NULL, "login",
                      "the agent did not sign with the key %s within %u s: it may wait for a touch "
                      "or an answer",
                      key->name, seconds);
    else if (log->spoke && !log->keys_listed)
        shp_error_set(error, SHP_CODE_LOGIN_SLOW, NULL, "login",
                      "ssh had no key to offer after %u s: the agent does not answer", seconds);
    else if (!waits_for_url(error, view))
        plain_error(error, view, SHP_CODE_LOGIN_SLOW, "login",
                    "the server did not finish the login in time");
}

static void explain_phase(struct shp_error *error, const struct view *view, unsigned seconds)
{
    char what[160];

    switch (view->facts->phase) {
    case SHP_SSH_PHASE_CONFIG:
    case SHP_SSH_PHASE_NAME:
        snprintf(what, sizeof(what), "the name lookup gave no answer in %u s", seconds);
        plain_error(error, view, SHP_CODE_NAME_UNRESOLVED, "name", what);
        break;
    case SHP_SSH_PHASE_TCP:
        snprintf(what, sizeof(what), "no connection in %u s", seconds);
        plain_error(error, view, SHP_CODE_CONNECT_TIMEOUT, "connect", what);
        break;
    case SHP_SSH_PHASE_KEX:
    case SHP_SSH_PHASE_HOST_KEY:
        snprintf(what, sizeof(what), "no key exchange in %u s", seconds);
        plain_error(error, view, SHP_CODE_CONNECT_TIMEOUT, "key exchange", what);
        break;
    case SHP_SSH_PHASE_AUTH:
        explain_slow_login(error, view, seconds);
        break;
    case SHP_SSH_PHASE_CHANNEL:
    case SHP_SSH_PHASE_RUNNING:
        snprintf(what, sizeof(what), "the server opened no channel in %u s", seconds);
        plain_error(error, view, SHP_CODE_LOGIN_SLOW, "channel", what);
        break;
    }
}

void shp_openssh_explain_wait(struct shp_error *error, const struct shp_openssh_end *end,
                              unsigned seconds)
{
    struct view view;

    memset(error, 0, sizeof(*error));
    look(&view, end);
    if (end->log->url_waits && waits_for_url(error, &view))
        return;
    explain_phase(error, &view, seconds);
    shp_openssh_add_command(error, end->target);
}

void shp_openssh_explain_query(struct shp_error *error, const struct shp_openssh_end *end,
                               bool timed_out, unsigned seconds)
{
    struct view view;
    char what[160];

    memset(error, 0, sizeof(*error));
    look(&view, end);
    if (timed_out)
        snprintf(what, sizeof(what),
                 "ssh -G did not answer in %u s (a command of its configuration may hang)",
                 seconds);
    else
        snprintf(what, sizeof(what), "ssh refuses its configuration or the target");
    plain_error(error, &view, SHP_CODE_SSH_CONFIG_FAILED, "ssh -G", what);
}
