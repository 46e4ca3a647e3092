#include "transport/transport_openssh_log.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char own[] = "debug1: ";
#define OWN_LEN (sizeof(own) - 1)

/* ---- words -------------------------------------------------------------------------------- */

/* A piece of a line. */
struct text {
    const char *at;
    size_t len;
};

static bool begins(struct text text, const char *with)
{
    size_t len = strlen(with);

    return text.len >= len && memcmp(text.at, with, len) == 0;
}

static struct text behind(struct text text, size_t len)
{
    return (struct text){text.at + len, text.len - len};
}

/* Takes the beginning away when it is there. */
static bool skip(struct text *text, const char *with)
{
    if (!begins(*text, with))
        return false;
    *text = behind(*text, strlen(with));
    return true;
}

/* What stands behind the words, wherever they are. */
static bool after(struct text text, const char *words, struct text *rest)
{
    const char *found = memmem(text.at, text.len, words, strlen(words));

    if (found == NULL)
        return false;
    *rest = behind(text, (size_t)(found - text.at) + strlen(words));
    return true;
}

static bool contains(struct text text, const char *words)
{
    struct text rest;

    return after(text, words, &rest);
}

static struct text until(struct text text, const char *ends)
{
    size_t len = 0;

    while (len < text.len && strchr(ends, text.at[len]) == NULL)
        len++;
    return (struct text){text.at, len};
}

static void copy(char *out, size_t size, struct text text)
{
    shp_text_clean(out, size, text.at, text.len);
}

/* ---- facts -------------------------------------------------------------------------------- */

static void reach(struct shp_openssh_log *log, enum shp_ssh_phase phase)
{
    if (log->facts->phase < phase)
        log->facts->phase = phase;
    log->url_waits = false;
}

/* "PATH TYPE SHA256:... explicit agent"; older: "TYPE SHA256:... PATH". */
static void offered_key(struct shp_openssh_log *log, struct text text)
{
    struct shp_openssh_key *key = &log->key;
    struct text name = text;
    struct text type = {text.at, 0};
    const char *print = memmem(text.at, text.len, " SHA256:", 8);

    memset(key, 0, sizeof(*key));
    log->signing = false;
    log->tried_last = false;
    log->keys_listed = true;
    log->url_waits = false;
    log->facts->keys_tried++;
    if (print != NULL) {
        size_t head = (size_t)(print - text.at);
        size_t space = head;
        struct text rest = behind(text, head + 1);

        while (space > 0 && text.at[space - 1] != ' ')
            space--;
        type = (struct text){text.at + space, head - space};
        rest = behind(rest, until(rest, " ").len);
        if (space > 0) {
            name = (struct text){text.at, space - 1};
            key->of_agent = contains(rest, " agent");
        } else if (rest.len > 0) {
            name = behind(rest, 1);
        }
    }
    copy(key->name, sizeof(key->name), name);
    key->of_device =
        !key->of_agent && type.len > 3 && memcmp(type.at + type.len - 3, "-SK", 3) == 0;
}

static void accepted_key(struct shp_openssh_log *log)
{
    log->signing = true;
    log->unsigned_key = log->key;
    log->url_waits = false;
}

static void signed_key(struct shp_openssh_log *log)
{
    if (log->signing)
        memset(&log->unsigned_key, 0, sizeof(log->unsigned_key));
    log->signing = false;
}

static void tried_key(struct shp_openssh_log *log, struct text text)
{
    size_t used = strlen(log->tried);

    log->signing = false;
    log->tried_last = memchr(text.at, '\0', text.len) == NULL && text.len > 0 &&
                      used + text.len + 2 <= sizeof(log->tried);
    if (!log->tried_last)
        return;
    memcpy(log->tried + used, text.at, text.len);
    memcpy(log->tried + used + text.len, "\n", 2);
}

/* The server answered a signature by the last of them, so that one is not locked. */
static void drop_last_tried(struct shp_openssh_log *log)
{
    size_t len = strlen(log->tried);

    if (!log->tried_last)
        return;
    log->tried_last = false;
    log->facts->keys_tried++;
    len--; /* its newline */
    while (len > 0 && log->tried[len - 1] != '\n')
        len--;
    log->tried[len] = '\0';
}

static void agent_said(struct shp_openssh_log *log, struct text line)
{
    struct shp_ssh_facts *facts = log->facts;
    struct text rest;
    char why[100];

    if (after(line, "agent returned ", &rest)) {
        copy(facts->agent, sizeof(facts->agent), rest);
    } else if (contains(line, "agent contains no identities")) {
        snprintf(facts->agent, sizeof(facts->agent), "0 keys");
    } else if (after(line, "ssh_get_authentication_socket: ", &rest)) {
        copy(why, sizeof(why), rest);
        snprintf(facts->agent, sizeof(facts->agent), "cannot be reached: %s", why);
    } else if (after(line, "ssh_fetch_identitylist: ", &rest)) {
        copy(why, sizeof(why), rest);
        snprintf(facts->agent, sizeof(facts->agent), "does not list its keys: %s", why);
    }
}

static void keys_listed(struct shp_openssh_log *log)
{
    struct shp_ssh_facts *facts = log->facts;

    log->keys_listed = true;
    if (facts->agent[0] == '\0')
        snprintf(facts->agent, sizeof(facts->agent), "none");
}

static void authenticated(struct shp_openssh_log *log, struct text line)
{
    struct text method;

    if (!after(line, "using \"", &method))
        return;
    copy(log->facts->auth_used, sizeof(log->facts->auth_used), until(method, "\""));
    signed_key(log);
    reach(log, SHP_SSH_PHASE_CHANNEL);
}

static void connecting(struct shp_openssh_log *log, struct text rest)
{
    struct text address;

    if (after(rest, " [", &address))
        copy(log->facts->address, sizeof(log->facts->address), until(address, "]"));
    reach(log, SHP_SSH_PHASE_TCP);
}

static void can_continue(struct shp_openssh_log *log, struct text rest)
{
    copy(log->facts->auth_offered, sizeof(log->facts->auth_offered), rest);
    signed_key(log);
    drop_last_tried(log);
    reach(log, SHP_SSH_PHASE_AUTH);
}

static void open_channel(struct shp_openssh_log *log)
{
    log->opened = true;
    reach(log, SHP_SSH_PHASE_RUNNING);
}

/* A provider of tokens gave no keys after one asked for its PIN, which ssh may not ask for. */
static void token_said(struct shp_openssh_log *log, struct text line)
{
    struct text rest;

    if (!log->pin_missing || !after(line, "pkcs11_add_provider: provider ", &rest))
        return;
    copy(log->token, sizeof(log->token), until(rest, " "));
    log->pin_missing = false;
}

/* A line of ssh's without its "debug1: ". */
static void own_line(struct shp_openssh_log *log, struct text line)
{
    struct shp_ssh_facts *facts = log->facts;
    struct text rest = line;

    log->spoke = true;
    if (log->opened)
        return;
    if (skip(&rest, "Connecting to ")) {
        connecting(log, rest);
    } else if (begins(line, "Executing proxy command") || begins(line, "Setting implicit Proxy")) {
        reach(log, SHP_SSH_PHASE_TCP);
    } else if (begins(line, "Connection established") || begins(line, "Remote protocol version") ||
               begins(line, "SSH2_MSG_KEXINIT received")) {
        reach(log, SHP_SSH_PHASE_KEX);
    } else if (skip(&rest, "kex: algorithm: ")) {
        if (!begins(rest, "(no match)"))
            copy(facts->kex, sizeof(facts->kex), rest);
    } else if (skip(&rest, "Server host key: ")) {
        copy(facts->host_key, sizeof(facts->host_key), rest);
        reach(log, SHP_SSH_PHASE_HOST_KEY);
    } else if (skip(&rest, "Server host certificate: ")) {
        copy(facts->host_key, sizeof(facts->host_key), until(rest, ","));
        reach(log, SHP_SSH_PHASE_HOST_KEY);
    } else if (begins(line, "SSH2_MSG_NEWKEYS received") ||
               begins(line, "SSH2_MSG_SERVICE_ACCEPT received")) {
        reach(log, SHP_SSH_PHASE_AUTH);
    } else if (begins(line, "Will attempt key: ")) {
        keys_listed(log);
    } else if (skip(&rest, "Authentications that can continue: ")) {
        can_continue(log, rest);
    } else if (skip(&rest, "Offering public key: ")) {
        offered_key(log, rest);
    } else if (skip(&rest, "Trying private key: ")) {
        tried_key(log, rest);
    } else if (begins(line, "Server accepts key: ")) {
        accepted_key(log);
    } else if (begins(line, "No more authentication methods")) {
        log->signing = false;
    } else if (begins(line, "Authentication succeeded (")) { /* before 8.5 */
        copy(facts->auth_used, sizeof(facts->auth_used),
             until(behind(line, sizeof("Authentication succeeded (") - 1), ")"));
        signed_key(log);
        reach(log, SHP_SSH_PHASE_CHANNEL);
    } else if (begins(line, "Entering interactive session")) {
        reach(log, SHP_SSH_PHASE_CHANNEL);
    } else if (begins(line, "Sending command: ")) {
        open_channel(log);
    } else if (contains(line, "master session id: ")) {
        snprintf(facts->auth_used, sizeof(facts->auth_used), "running connection");
        open_channel(log);
    } else {
        agent_said(log, line);
        token_said(log, line);
    }
}

/* ---- what others say ---------------------------------------------------------------------- */

bool shp_openssh_find_url(char *out, size_t size, const char *text, size_t len)
{
    const char *found = memmem(text, len, "https://", 8);
    struct text url;

    if (found == NULL)
        found = memmem(text, len, "http://", 7);
    if (found == NULL)
        return false;
    url =
        until((struct text){found, len - (size_t)(found - text)}, " \t\r\n\"'<>()[]{}`\\\x1b\x07");
    while (url.len > 0 && strchr(".,;:!", url.at[url.len - 1]) != NULL)
        url.len--;
    copy(out, size, url);
    return true;
}

static void look_for_url(struct shp_openssh_log *log, struct text line)
{
    if (shp_openssh_find_url(log->url, sizeof(log->url), line.at, line.len))
        log->url_waits = true;
}

static bool skip_number(struct text *text)
{
    size_t len = 0;

    while (len < text->len &&
           ((text->at[len] >= '0' && text->at[len] <= '9') || text->at[len] == '.'))
        len++;
    *text = behind(*text, len);
    return len > 0;
}

/* The sums that ssh prints at its end at this level. */
static bool is_statistics(struct text line)
{
    struct text a = line;
    struct text b = line;

    return (skip(&a, "Transferred: sent ") && skip_number(&a) && skip(&a, ", received ") &&
            skip_number(&a) && skip(&a, " bytes, in ") && skip_number(&a) && skip(&a, " seconds") &&
            a.len == 0) ||
           (skip(&b, "Bytes per second: sent ") && skip_number(&b) && skip(&b, ", received ") &&
            skip_number(&b) && b.len == 0);
}

/* A line that is not marked as ssh's own. True: it is one all the same. */
static bool other_line(struct shp_openssh_log *log, struct text line)
{
    if (is_statistics(line))
        return true;
    if (!log->opened && begins(line, "Authenticated ") && log->facts->phase >= SHP_SSH_PHASE_AUTH) {
        if (contains(line, "with partial success")) {
            log->partial = true;
            log->url_waits = false;
            signed_key(log);
        } else {
            authenticated(log, line);
        }
        return true;
    }
    if (log->facts->phase < SHP_SSH_PHASE_HOST_KEY && begins(line, "pin required"))
        log->pin_missing = true;
    look_for_url(log, line);
    return false;
}

/* ---- lines -------------------------------------------------------------------------------- */

/* The line is in the buffer, or its beginning is. */
static void take_line(struct shp_openssh_log *log, bool ended)
{
    struct text line = {log->line, log->len};
    bool drop;

    log->len = 0;
    if (line.len > 0 && ended && line.at[line.len - 1] == '\r')
        line.len--;
    if (begins(line, own)) {
        own_line(log, behind(line, OWN_LEN));
        drop = true;
    } else {
        drop = other_line(log, line);
    }
    log->state = ended  ? SHP_OPENSSH_LINE_COLLECT
                 : drop ? SHP_OPENSSH_LINE_DROP
                        : SHP_OPENSSH_LINE_PASS;
    if (drop)
        return;
    shp_tail_add(&log->tail, line.at, line.len);
    if (ended)
        shp_tail_add(&log->tail, "\n", 1);
}

void shp_openssh_log_feed(struct shp_openssh_log *log, const char *data, size_t len)
{
    while (len > 0) {
        const char *end = memchr(data, '\n', len);
        size_t part = end != NULL ? (size_t)(end - data) : len;

        if (log->state == SHP_OPENSSH_LINE_COLLECT) {
            size_t room = sizeof(log->line) - log->len;

            if (part > room) {
                part = room;
                end = NULL;
            }
            memcpy(log->line + log->len, data, part);
            log->len += part;
            if (end != NULL)
                take_line(log, true);
            else if (log->len == sizeof(log->line))
                take_line(log, false);
        } else {
            if (log->state == SHP_OPENSSH_LINE_PASS)
                shp_tail_add(&log->tail, data, part + (end != NULL));
            if (end != NULL)
                log->state = SHP_OPENSSH_LINE_COLLECT;
        }
        data += part + (end != NULL);
        len -= part + (end != NULL);
    }
}

void shp_openssh_log_flush(struct shp_openssh_log *log)
{
    if (log->state != SHP_OPENSSH_LINE_COLLECT || log->len == 0)
        return;
    /* Torn inside the mark of an own line, by the end of ssh. */
    if (log->len > 3 && log->len < OWN_LEN && memcmp(log->line, own, log->len) == 0)
        log->len = 0;
    else
        take_line(log, false);
}
