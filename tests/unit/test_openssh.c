/* What ssh(1) logs and says: facts, the text that is left for people, and the causes. */
#include "protocol/messages.h"
#include "transport/transport_openssh_cause.h"
#include "transport/transport_openssh_log.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* As OpenSSH 9.2 logs them, less what tells nothing. */
#define TO_KEX                                                                                     \
    "debug1: Connecting to box.example [192.0.2.7] port 22.\r\n"                                   \
    "debug1: Connection established.\r\n"                                                          \
    "debug1: identity file /h/.ssh/id_ed25519 type 3\r\n"                                          \
    "debug1: Local version string SSH-2.0-OpenSSH_9.2p1\r\n"                                       \
    "debug1: Remote protocol version 2.0, remote software version OpenSSH_9.2p1\r\n"               \
    "debug1: SSH2_MSG_KEXINIT sent\r\n"                                                            \
    "debug1: SSH2_MSG_KEXINIT received\r\n"
#define TO_HOST_KEY                                                                                \
    TO_KEX "debug1: kex: algorithm: sntrup761x25519-sha512\r\n"                                    \
           "debug1: kex: host key algorithm: ssh-ed25519\r\n"                                      \
           "debug1: Server host key: ssh-ed25519 SHA256:dVY7\r\n"
#define TO_AUTH TO_HOST_KEY "debug1: SSH2_MSG_NEWKEYS sent\r\ndebug1: SSH2_MSG_NEWKEYS received\r\n"
#define TO_OFFER(methods)                                                                          \
    TO_AUTH "debug1: Will attempt key: /h/k ED25519 SHA256:asB explicit\r\n"                       \
            "debug1: SSH2_MSG_SERVICE_ACCEPT received\r\n"                                         \
            "debug1: Authentications that can continue: " methods "\r\n"
#define OFFER "debug1: Offering public key: /h/my key ED25519 SHA256:asB explicit\r\n"
#define OFFER_AGENT "debug1: Offering public key: me@box ED25519 SHA256:asB agent\r\n"
#define OFFER_DEVICE                                                                               \
    "debug1: Offering public key: /h/id_sk ED25519-SK SHA256:asB explicit authenticator\r\n"
#define ACCEPT "debug1: Server accepts key: /h/my key ED25519 SHA256:asB explicit\r\n"
#define TO_CHANNEL                                                                                 \
    TO_OFFER("publickey")                                                                          \
    OFFER ACCEPT "Authenticated to box.example ([192.0.2.7]:22) using \"publickey\".\r\n"          \
                 "debug1: channel 0: new session [client-session]\r\n"                             \
                 "debug1: Entering interactive session.\r\n"
#define TO_COMMAND TO_CHANNEL "debug1: Sending command: exec sh -c 'x'\r\n"
#define DENIED(methods)                                                                            \
    "debug1: No more authentication methods to try.\r\n"                                           \
    "u@box.example: Permission denied (" methods ").\r\n"

struct seen {
    struct shp_ssh_facts facts;
    struct shp_openssh_log log;
    char text[SHP_TAIL_BYTES + 1];
};

static void feed(struct seen *seen, const char *text, size_t piece)
{
    size_t len = strlen(text);

    memset(seen, 0, sizeof(*seen));
    seen->log.facts = &seen->facts;
    for (size_t at = 0; at < len; at += piece)
        shp_openssh_log_feed(&seen->log, text + at, len - at < piece ? len - at : piece);
    shp_openssh_log_flush(&seen->log);
    shp_tail_clean(&seen->log.tail, seen->text, sizeof(seen->text));
}

static void the_log_becomes_facts_however_it_is_cut(void **state)
{
    static const size_t pieces[] = {1, 2, 7, 64, 100000};
    struct seen seen;

    (void)state;
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        feed(&seen,
             TO_COMMAND "remote text\r\ndebug1: dropped\r\n"
                        "Transferred: sent 3520, received 3412 bytes, in 0.2 seconds\r\n"
                        "Bytes per second: sent 22345.0, received 21659.4\r\ndebug1: Exit status 0",
             pieces[i]);
        assert_int_equal(seen.facts.phase, SHP_SSH_PHASE_RUNNING);
        assert_string_equal(seen.facts.address, "192.0.2.7");
        assert_string_equal(seen.facts.kex, "sntrup761x25519-sha512");
        assert_string_equal(seen.facts.host_key, "ssh-ed25519 SHA256:dVY7");
        assert_string_equal(seen.facts.auth_offered, "publickey");
        assert_string_equal(seen.facts.auth_used, "publickey");
        assert_string_equal(seen.facts.agent, "none");
        assert_int_equal(seen.facts.keys_tried, 1);
        assert_true(seen.log.opened);
        assert_string_equal(seen.text, "remote text");
    }
}

static void each_line_moves_the_phase(void **state)
{
    static const struct {
        const char *text;
        enum shp_ssh_phase phase;
    } rows[] = {
        {"", SHP_SSH_PHASE_CONFIG},
        {"debug1: Connecting to a [::1] port 22.\n", SHP_SSH_PHASE_TCP},
        {"debug1: Executing proxy command: exec ssh -W\n", SHP_SSH_PHASE_TCP},
        {TO_KEX, SHP_SSH_PHASE_KEX},
        {TO_HOST_KEY, SHP_SSH_PHASE_HOST_KEY},
        {TO_AUTH, SHP_SSH_PHASE_AUTH},
        {TO_CHANNEL, SHP_SSH_PHASE_CHANNEL},
        {TO_COMMAND, SHP_SSH_PHASE_RUNNING},
        {"debug1: mux_client_request_session: master session id: 2\r\n", SHP_SSH_PHASE_RUNNING},
    };
    struct seen seen;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        feed(&seen, rows[i].text, 1000);
        assert_int_equal(seen.facts.phase, rows[i].phase);
    }
}

static void what_the_remote_side_prints_is_no_fact(void **state)
{
    struct seen seen;

    (void)state;
    feed(&seen,
         TO_COMMAND "debug1: kex: algorithm: mine\ndebug1: Server host key: x y\n"
                    "Authenticated to me using \"magic\".\n"
                    " debug1: not at the beginning\nTransferred: sent nothing\n",
         1000);
    assert_string_equal(seen.facts.kex, "sntrup761x25519-sha512");
    assert_string_equal(seen.facts.auth_used, "publickey");
    assert_string_equal(seen.text, "Authenticated to me using \"magic\".  debug1: not at the "
                                   "beginning Transferred: sent nothing");
}

static void long_lines_are_bounded(void **state)
{
    static char text[3 * SHP_OPENSSH_LINE_BYTES];
    struct seen seen;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    memcpy(text, "debug1: ", 8);
    memcpy(text + 2 * SHP_OPENSSH_LINE_BYTES, "\nstays\n", 7);
    text[2 * SHP_OPENSSH_LINE_BYTES + 7] = '\0';
    feed(&seen, text, 333);
    assert_string_equal(seen.text, "stays");
    text[0] = 'D';
    feed(&seen, text, 333);
    assert_int_equal(strlen(seen.text), 2 * SHP_OPENSSH_LINE_BYTES + 6);
}

static void states_of_the_agent_are_told(void **state)
{
    static const struct {
        const char *line;
        const char *agent;
    } rows[] = {
        {"debug1: get_agent_identities: agent returned 7 keys\r\n", "7 keys"},
        {"debug1: get_agent_identities: ssh_fetch_identitylist: agent contains no identities\n",
         "0 keys"},
        {"debug1: pubkey_prepare: ssh_get_authentication_socket: Connection refused\n",
         "cannot be reached: Connection refused"},
        {"debug1: get_agent_identities: ssh_fetch_identitylist: communication with agent failed\n",
         "does not list its keys: communication with agent failed"},
        {"", "none"},
    };
    struct seen seen;
    char text[400];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(text, sizeof(text), "%sdebug1: Will attempt key: k\n", rows[i].line);
        feed(&seen, text, 1000);
        assert_string_equal(seen.facts.agent, rows[i].agent);
    }
}

static void keys_are_named_as_each_version_names_them(void **state)
{
    struct seen seen;

    (void)state;
    feed(&seen, OFFER, 1000);
    assert_string_equal(seen.log.key.name, "/h/my key");
    assert_false(seen.log.key.of_agent);
    feed(&seen, OFFER_AGENT, 1000);
    assert_string_equal(seen.log.key.name, "me@box");
    assert_true(seen.log.key.of_agent);
    feed(&seen, OFFER_DEVICE, 1000);
    assert_string_equal(seen.log.key.name, "/h/id_sk");
    assert_true(seen.log.key.of_device);
    feed(&seen, "debug1: Offering public key: RSA SHA256:abc /h/id_rsa\n", 1000);
    assert_string_equal(seen.log.key.name, "/h/id_rsa");
    feed(&seen, "debug1: Offering public key: \n", 1000);
    assert_string_equal(seen.log.key.name, "");
}

/* ---- causes ------------------------------------------------------------------------------- */

struct row {
    const char *log;
    int status;
    bool heard;
    int code;
    const char *says[3]; /* in the cause */
};

static void expect_cause(const struct row *row, const struct shp_error *error)
{
    if (error->code != row->code)
        fail_msg("%s\n%s instead of %s: %s", row->log, shp_code_name(error->code),
                 shp_code_name(row->code), error->cause);
    for (size_t i = 0; i < 3 && row->says[i] != NULL; i++) {
        if (strstr(error->cause, row->says[i]) == NULL)
            fail_msg("%s\nno \"%s\" in: %s", row->log, row->says[i], error->cause);
    }
    assert_null(strstr(error->cause, "debug1"));
    assert_null(strchr(error->cause, '\x1b'));
    if (row->code != 0)
        assert_true(error->step[0] != '\0');
}

static const struct row ends[] = {
    {TO_COMMAND, 0, true, 0, {0}},
    {TO_COMMAND "sh: 1: exec: /x: Permission denied\n",
     126,
     false,
     SHP_CODE_LINK_LOST,
     {"status 126", "Permission denied"}},
    {TO_COMMAND "Connection to box closed by remote host.\n", 255, false, SHP_CODE_LINK_LOST, {0}},
    {TO_COMMAND "u@box: Permission denied (publickey).\n", 255, false, SHP_CODE_LINK_LOST, {0}},
    {TO_COMMAND "Timeout, server box not responding.\n", 255, true, SHP_CODE_LINK_LOST, {0}},
    {TO_COMMAND "exec request failed on channel 0\n",
     255,
     false,
     SHP_CODE_CHANNEL_REFUSED,
     {"runs no command"}},
    {TO_CHANNEL "channel 0: open failed: connect failed: open failed\r\n",
     255,
     false,
     SHP_CODE_CHANNEL_REFUSED,
     {"open failed"}},
    {"ssh: Could not resolve hostname box: Name or service not known\r\n",
     255,
     false,
     SHP_CODE_NAME_UNRESOLVED,
     {"name box", "ssh box"}},
    {"debug1: Connecting to ::1 [::1] port 4.\r\nssh: connect to host ::1 port 4: Connection "
     "refused\r\n",
     255,
     false,
     SHP_CODE_CONNECT_REFUSED,
     {"::1 port 4 refuses"}},
    {"ssh: connect to host box port 22: Connection timed out\r\n",
     255,
     false,
     SHP_CODE_CONNECT_TIMEOUT,
     {0}},
    {"ssh: connect to host box port 22: No route to host\r\n",
     255,
     false,
     SHP_CODE_CONNECT_TIMEOUT,
     {"box port 22 does not answer (No route to host)"}},
    {TO_KEX "Connection timed out during banner exchange\r\n",
     255,
     false,
     SHP_CODE_CONNECT_TIMEOUT,
     {0}},
    {"debug1: Executing proxy command: exec p\r\n\x1b[1mvisit\x1b[0m https://x.example/a?b=1.\n"
     "Connection timed out during banner exchange\r\n",
     255,
     false,
     SHP_CODE_INTERACTION_REQUIRED,
     {"https://x.example/a?b=1 ", "ssh box"}},
    {"kex_exchange_identification: Connection closed by remote host\r\n",
     255,
     false,
     SHP_CODE_CONNECT_FAILED,
     {0}},
    {TO_KEX "debug1: kex: algorithm: (no match)\r\nUnable to negotiate with 192.0.2.7 port 22: no "
            "matching key exchange method found. Their offer: mlkem768x25519-sha256\r\n",
     255,
     false,
     SHP_CODE_KEX_UNSUPPORTED,
     {"key exchange method", "Their offer: mlkem768x25519-sha256"}},
    {TO_HOST_KEY "No ED25519 host key is known for box.example and you have requested strict "
                 "checking.\r\nHost key verification failed.\r\n",
     255,
     false,
     SHP_CODE_HOST_KEY_UNKNOWN,
     {"ssh-ed25519 SHA256:dVY7", "ssh box"}},
    {"Host key verification failed.\r\nkex_exchange_identification: Connection closed by remote "
     "host\r\n",
     255,
     false,
     SHP_CODE_HOST_KEY_UNKNOWN,
     {"on the way"}},
    {TO_HOST_KEY "@@@@@@@@\r\n@  WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!  @\r\n"
                 "Offending ED25519 key in /h/.ssh/known_hosts:3\r\n  remove with:\r\n"
                 "  ssh-keygen -f \"/h/.ssh/known_hosts\" -R \"box.example\"\r\n"
                 "Host key verification failed.\r\n",
     255,
     false,
     SHP_CODE_HOST_KEY_CHANGED,
     {"SHA256:dVY7", "known is the ED25519 key in /h/.ssh/known_hosts:3)", "ssh box"}},
    {TO_HOST_KEY "@ WARNING: REVOKED HOST KEY DETECTED! @\r\nThe ED25519 host key for box is "
                 "marked as revoked.\r\nHost key verification failed.\r\n",
     255,
     false,
     SHP_CODE_HOST_KEY_CHANGED,
     {"revoked"}},
    {TO_HOST_KEY "Host key ED25519 SHA256:dVY7 revoked by file /h/revoked\r\n"
                 "Host key verification failed.\r\n",
     255,
     false,
     SHP_CODE_HOST_KEY_CHANGED,
     {"revoked"}},
    {TO_OFFER("publickey") OFFER
     "debug1: Authentications that can continue: publickey\r\n" DENIED("publickey"),
     255,
     false,
     SHP_CODE_LOGIN_DENIED,
     {"refused every key (it takes publickey); try it with: ssh box"}},
    {TO_OFFER("publickey,password") OFFER
     "debug1: Authentications that can continue: publickey,password\r\n" DENIED(
         "publickey,password"),
     255,
     false,
     SHP_CODE_LOGIN_DENIED,
     {0}},
    {TO_OFFER("publickey") OFFER
     "Received disconnect from 192.0.2.7 port 22:2: Too many authentication failures\r\n",
     255,
     false,
     SHP_CODE_LOGIN_DENIED,
     {"1 keys", "IdentitiesOnly"}},
    {TO_OFFER("publickey") DENIED("publickey"),
     255,
     false,
     SHP_CODE_LOGIN_DENIED,
     {"no key to offer"}},
    {TO_OFFER("publickey") OFFER ACCEPT DENIED("publickey"),
     255,
     false,
     SHP_CODE_KEY_LOCKED,
     {"the key /h/my key", "ssh-add '/h/my key'"}},
    {TO_OFFER("publickey") OFFER ACCEPT
     "no such identity: /h/my key: No such file or directory\r\n" DENIED("publickey"),
     255,
     false,
     SHP_CODE_LOGIN_DENIED,
     {"/h/my key", "private file is missing"}},
    {"debug1: Connection established.\r\npin required\n"
     "debug1: pkcs11_add_provider: provider /l/p.so returned no keys\r\n" TO_OFFER("publickey")
         DENIED("publickey"),
     255,
     false,
     SHP_CODE_KEY_LOCKED,
     {"PIN", "ssh-add -s /l/p.so"}},
    /* Without the question for a PIN, and said by the server, it is no token that waits. */
    {"debug1: pkcs11_add_provider: provider /l/p.so returned no keys\r\n" TO_OFFER(
         "publickey") "pin required\n" DENIED("publickey"),
     255,
     false,
     SHP_CODE_LOGIN_DENIED,
     {"no key to offer"}},
    {TO_OFFER("publickey") OFFER ACCEPT OFFER_AGENT
     "debug1: Authentications that can continue: publickey\r\n" DENIED("publickey"),
     255,
     false,
     SHP_CODE_KEY_LOCKED,
     {"ssh-add '/h/my key'"}},
    {TO_OFFER("publickey") OFFER ACCEPT
     "debug1: Authentications that can continue: publickey\r\n" DENIED("publickey"),
     255,
     false,
     SHP_CODE_LOGIN_DENIED,
     {0}},
    {TO_OFFER("publickey") OFFER_AGENT ACCEPT
     "sign_and_send_pubkey: signing failed for ED25519 \"me\" from agent: agent refused operation"
     "\r\n" DENIED("publickey"),
     255,
     false,
     SHP_CODE_INTERACTION_REQUIRED,
     {"agent refused", "me@box", "ssh box"}},
    {TO_OFFER("publickey") OFFER_DEVICE ACCEPT
     "sign_and_send_pubkey: signing failed for ED25519-SK \"/h/id_sk\": device not "
     "found\r\n" DENIED("publickey"),
     255,
     false,
     SHP_CODE_INTERACTION_REQUIRED,
     {"security key", "device not found"}},
    {TO_OFFER("publickey") OFFER ACCEPT
     "Load key \"/h/my key\": bad permissions\r\n" DENIED("publickey"),
     255,
     false,
     SHP_CODE_LOGIN_DENIED,
     {"bad permissions"}},
    {TO_OFFER("keyboard-interactive") DENIED("keyboard-interactive"),
     255,
     false,
     SHP_CODE_INTERACTION_REQUIRED,
     {"keyboard-interactive", "ssh box"}},
    {TO_OFFER("password") DENIED("password"),
     255,
     false,
     SHP_CODE_INTERACTION_REQUIRED,
     {"nothing but a password", "ssh box"}},
    {TO_OFFER("publickey") OFFER ACCEPT
     "Authenticated using \"publickey\" with partial success.\r\n"
     "debug1: Authentications that can continue: password\r\n" DENIED("password"),
     255,
     false,
     SHP_CODE_INTERACTION_REQUIRED,
     {"took the key and asks for more", "ssh box"}},
    {"u@jump: Permission denied (password).\r\nkex_exchange_identification: Connection closed by "
     "remote host\r\n",
     255,
     false,
     SHP_CODE_INTERACTION_REQUIRED,
     {0}},
    {"/h/.ssh/config: line 3: Bad configuration option: x\r\n",
     255,
     false,
     SHP_CODE_SSH_CONFIG_FAILED,
     {"line 3"}},
    {"", 255, false, SHP_CODE_CONNECT_FAILED, {"gave up"}},
};

static void ends_of_ssh_are_explained(void **state)
{
    struct shp_error error;
    struct seen seen;

    (void)state;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        struct shp_openssh_end end = {.log = &seen.log,
                                      .target = "box",
                                      .exit_status = ends[i].status,
                                      .heard = ends[i].heard};

        feed(&seen, ends[i].log, 50);
        shp_openssh_explain_end(&error, &end);
        expect_cause(&ends[i], &error);
        assert_int_equal(error.outcome, ends[i].heard && ends[i].code != 0 ? SHP_OUTCOME_UNKNOWN
                                                                           : SHP_OUTCOME_REJECTED);
    }
}

static void a_signal_and_a_silent_locked_key_are_explained(void **state)
{
    struct shp_error error;
    struct seen seen;
    struct shp_openssh_end end = {.log = &seen.log, .target = "box", .term_signal = SIGKILL};

    (void)state;
    feed(&seen, "", 1);
    shp_openssh_explain_end(&error, &end);
    assert_int_equal(error.code, SHP_CODE_CONNECT_FAILED);
    end.heard = true;
    shp_openssh_explain_end(&error, &end);
    assert_int_equal(error.code, SHP_CODE_LINK_LOST);

    /* A private key without a public half: ssh says nothing when it cannot read it. */
    feed(&seen,
         TO_OFFER("publickey") "debug1: Trying private key: /h/none\r\n"
                               "debug1: Trying private key: /h/a\r\n"
                               "debug1: Authentications that can continue: publickey\r\n"
                               "debug1: Trying private key: /h/pem\r\n" DENIED("publickey"),
         9);
    assert_string_equal(seen.log.tried, "/h/none\n/h/pem\n");
    assert_int_equal(seen.facts.keys_tried, 1);
    end = (struct shp_openssh_end){
        .log = &seen.log, .target = "box", .locked = "/h/pem", .exit_status = 255};
    shp_openssh_explain_end(&error, &end);
    assert_int_equal(error.code, SHP_CODE_KEY_LOCKED);
    assert_non_null(strstr(error.cause, "ssh-add /h/pem"));
}

static void waiting_in_vain_is_explained_by_phase(void **state)
{
    static const struct row rows[] = {
        {"", 0, false, SHP_CODE_NAME_UNRESOLVED, {"30 s"}},
        {"debug1: Connecting to a [::1] port 22.\n", 0, false, SHP_CODE_CONNECT_TIMEOUT, {0}},
        {TO_KEX, 0, false, SHP_CODE_CONNECT_TIMEOUT, {"key exchange"}},
        {TO_AUTH, 0, false, SHP_CODE_LOGIN_SLOW, {"agent does not answer"}},
        {TO_OFFER("publickey") OFFER_DEVICE ACCEPT,
         0,
         false,
         SHP_CODE_LOGIN_SLOW,
         {"security key /h/id_sk was not touched"}},
        {TO_OFFER("publickey") OFFER_AGENT ACCEPT,
         0,
         false,
         SHP_CODE_LOGIN_SLOW,
         {"agent did not sign with the key me@box"}},
        {TO_OFFER("publickey") OFFER, 0, false, SHP_CODE_LOGIN_SLOW, {"server"}},
        {TO_CHANNEL, 0, false, SHP_CODE_LOGIN_SLOW, {"no channel"}},
        {TO_AUTH "To authenticate, visit: \x1b]8;;x\x07https://login.example/a/1b\x1b]8;;\x07\r\n",
         0,
         false,
         SHP_CODE_INTERACTION_REQUIRED,
         {"https://login.example/a/1b ", "ssh box"}},
        /* A policy behind which the server went on is none. */
        {TO_AUTH "Rules: https://wiki.example/\r\n"
                 "debug1: Authentications that can continue: publickey\r\n",
         0,
         false,
         SHP_CODE_LOGIN_SLOW,
         {0}},
        {TO_COMMAND "open <https://x.example/y>", 0, false, SHP_CODE_INTERACTION_REQUIRED, {0}},
    };
    struct shp_error error;
    struct seen seen;
    struct shp_openssh_end end = {.log = &seen.log, .target = "box"};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        feed(&seen, rows[i].log, 40);
        shp_openssh_explain_wait(&error, &end, 30);
        expect_cause(&rows[i], &error);
    }
}

static void a_failed_query_is_explained(void **state)
{
    struct shp_error error;
    struct seen seen;
    struct shp_openssh_end end = {.log = &seen.log, .target = "box", .exit_status = 255};

    (void)state;
    feed(&seen, "/h/c: line 3: Bad configuration option: x\r\n/h/c: terminating\r\n", 100);
    shp_openssh_explain_query(&error, &end, false, 10);
    assert_int_equal(error.code, SHP_CODE_SSH_CONFIG_FAILED);
    assert_non_null(strstr(error.cause, "option: x /h/c: terminating"));
    feed(&seen, "", 1);
    shp_openssh_explain_query(&error, &end, true, 10);
    assert_int_equal(error.code, SHP_CODE_SSH_CONFIG_FAILED);
    assert_non_null(strstr(error.cause, "10 s"));
}

static void the_command_is_added_where_a_person_is_needed(void **state)
{
    struct shp_error error;

    (void)state;
    shp_error_set(&error, SHP_CODE_HOST_KEY_UNKNOWN, NULL, "host key", "not known");
    error.outcome = SHP_OUTCOME_UNKNOWN;
    shp_openssh_add_command(&error, "my box");
    assert_string_equal(error.cause, "not known; try it with: ssh 'my box'");
    assert_string_equal(error.step, "host key");
    assert_int_equal(error.outcome, SHP_OUTCOME_UNKNOWN);
    shp_openssh_add_command(&error, "other");
    assert_string_equal(error.cause, "not known; try it with: ssh 'my box'");
    shp_error_set(&error, SHP_CODE_LINK_LOST, NULL, "connection", "gone");
    shp_openssh_add_command(&error, "box");
    assert_string_equal(error.cause, "gone");
}

static void texts_are_made_plain_and_targets_quoted(void **state)
{
    static const char sequences[] = "\x1b[31;1mred\x1b[0m\r\n\t a\x1b]0;title\x07"
                                    "b\xff";
    char out[64];

    (void)state;
    shp_openssh_plain(out, sizeof(out), sequences, sizeof(sequences) - 1);
    assert_string_equal(out, "red ab?");
    shp_openssh_plain(out, sizeof(out), "\\033[31mred\\033[0m a\\033", 24);
    assert_string_equal(out, "red a\\033");
    assert_int_equal(shp_openssh_plain(out, 4, "abcdef", 6), 3);
    assert_int_equal(shp_openssh_plain(out, sizeof(out), "\x1b[", 2), 0);
    shp_openssh_quote(out, sizeof(out), "ssh://me@box:22");
    assert_string_equal(out, "ssh://me@box:22");
    shp_openssh_quote(out, sizeof(out), "a b'c");
    assert_string_equal(out, "'a b'\\''c'");
    shp_openssh_quote(out, sizeof(out), "[::1]");
    assert_string_equal(out, "'[::1]'");
    shp_openssh_quote(out, 8, "$$$$$$$$$$$$");
    assert_true(strlen(out) < 8);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(the_log_becomes_facts_however_it_is_cut),
        cmocka_unit_test(each_line_moves_the_phase),
        cmocka_unit_test(what_the_remote_side_prints_is_no_fact),
        cmocka_unit_test(long_lines_are_bounded),
        cmocka_unit_test(states_of_the_agent_are_told),
        cmocka_unit_test(keys_are_named_as_each_version_names_them),
        cmocka_unit_test(ends_of_ssh_are_explained),
        cmocka_unit_test(a_signal_and_a_silent_locked_key_are_explained),
        cmocka_unit_test(waiting_in_vain_is_explained_by_phase),
        cmocka_unit_test(a_failed_query_is_explained),
        cmocka_unit_test(the_command_is_added_where_a_person_is_needed),
        cmocka_unit_test(texts_are_made_plain_and_targets_quoted),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
