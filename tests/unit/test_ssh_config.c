/* What `ssh -G` says, and who can do it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/support/temp_root.h"
#include "transport/ssh_config.h"

#define DEFAULT_KEX                                                                                \
    "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,"        \
    "ecdh-sha2-nistp521,diffie-hellman-group-exchange-sha256,diffie-hellman-group16-sha512,"       \
    "diffie-hellman-group18-sha512,diffie-hellman-group14-sha256"

#define PLAIN                                                                                      \
    "host box\nuser me\nhostname box.example\nport 2222\nstricthostkeychecking ask\n"              \
    "canonicalizehostname false\nverifyhostkeydns false\nhostbasedauthentication no\n"             \
    "gssapiauthentication yes\nsecuritykeyprovider internal\nsendenv LANG\nsendenv LC_*\n"         \
    "pubkeyauthentication true\nkexalgorithms sntrup761x25519-sha512@openssh.com," DEFAULT_KEX     \
    "\n"

static const struct shp_ssh_tokens tokens = {
    .home = "/home/me", .local_host = "near.example", .uid = 1000, .local_user = "self"};

static struct shp_ssh_config parse(const char *text)
{
    struct shp_ssh_config config;

    assert_int_equal(shp_ssh_config_parse(&config, text, strlen(text)), SHP_OK);
    return config;
}

static bool classic_kex(const char *name)
{
    return !shp_ssh_config_is_post_quantum(name, strlen(name));
}

static bool every_kex(const char *name)
{
    (void)name;
    return true;
}

static enum shp_ssh_fit fit_of(const char *text, bool post_quantum, const char *reason_part)
{
    struct shp_ssh_config config = parse(text);
    char reason[200] = "";
    enum shp_ssh_fit fit =
        shp_ssh_config_fit(&config, post_quantum, classic_kex, reason, sizeof(reason));

    if (reason_part != NULL && strstr(reason, reason_part) == NULL)
        fail_msg("\"%s\" does not name %s", reason, reason_part);
    shp_ssh_config_fini(&config);
    return fit;
}

/* ---- parse -------------------------------------------------------------------------------- */

static void values_and_lists_are_read(void **state)
{
    struct shp_ssh_config config =
        parse("user me\nhostname box.example\nport 2222\nidentityfile ~/.ssh/a\n"
              "identityfile ~/.ssh/b c\ncertificatefile none\nproxyjump none\nproxycommand none\n"
              "identityagent none\nidentitiesonly yes\npkcs11provider none\n"
              "userknownhostsfile /a /b\nunknownword x\nnovalue\n");

    (void)state;
    assert_string_equal(config.user, "me");
    assert_string_equal(config.hostname, "box.example");
    assert_int_equal(config.port, 2222);
    assert_int_equal(config.identity_files.len, 2);
    assert_string_equal(config.identity_files.items[1], "~/.ssh/b c");
    assert_int_equal(config.certificate_files.len, 0);
    assert_null(config.proxy_jump);
    assert_null(config.proxy_command);
    assert_null(config.pkcs11_provider);
    assert_string_equal(config.identity_agent, "none");
    assert_true(shp_ssh_config_yes(config.identities_only));
    assert_string_equal(config.user_known_hosts, "/a /b");
    shp_ssh_config_fini(&config);
}

static void what_names_no_host_is_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "user me\nport 22\n",
                                      "hostname a\n",
                                      "hostname a\nport 0\n",
                                      "hostname a\nport 65536\n",
                                      "hostname \nport 22\n"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct shp_ssh_config config;

        assert_int_equal(shp_ssh_config_parse(&config, bad[i], strlen(bad[i])), SHP_ERR_INVALID);
    }
}

static void a_list_beyond_its_bound_is_openssh_s(void **state)
{
    char text[8192] = PLAIN;
    size_t used = strlen(text);

    (void)state;
    for (int i = 0; i <= SHP_SSH_CONFIG_FILES_MAX; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "identityfile /k%d\n", i);
    assert_int_equal(fit_of(text, false, "more than is read"), SHP_SSH_FIT_NOT);
}

static void a_target_without_ssh_is_host_and_user(void **state)
{
    static const struct {
        const char *target;
        const char *user;
        const char *host;
        uint32_t port;
    } good[] = {
        {"box", "self", "box", 22},
        {"me@box", "me", "box", 22},
        {"me@corp@box", "me@corp", "box", 22},
        {"ssh://me@box:2222", "me", "box", 2222},
        {"ssh://box/", "self", "box", 22},
        {"ssh://[::1]:2022", "self", "::1", 2022},
        {"box:22", "self", "box:22", 22}, /* an IPv6 address looks like that too */
    };
    static const char *const bad[] = {"", "me@", "ssh://", "ssh://[::1", "ssh://box:x", "a b"};
    struct shp_ssh_config config;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(shp_ssh_config_from_target(&config, good[i].target, "self", "/home/me"),
                         SHP_OK);
        assert_string_equal(config.user, good[i].user);
        assert_string_equal(config.hostname, good[i].host);
        assert_int_equal(config.port, good[i].port);
        assert_string_equal(config.identity_files.items[0], "/home/me/.ssh/id_rsa");
        shp_ssh_config_fini(&config);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(shp_ssh_config_from_target(&config, bad[i], "self", "/home/me"),
                         SHP_ERR_INVALID);
}

/* ---- tokens ------------------------------------------------------------------------------- */

static void expands(const char *value, const char *wanted)
{
    struct shp_ssh_config config = parse(PLAIN "hostkeyalias alias\n");
    char out[128];

    assert_true(shp_ssh_config_expand(out, sizeof(out), value, &config, &tokens));
    assert_string_equal(out, wanted);
    shp_ssh_config_fini(&config);
}

static void does_not_expand(const char *value, size_t size)
{
    struct shp_ssh_config config = parse(PLAIN);
    char out[128];

    assert_false(shp_ssh_config_expand(out, size, value, &config, &tokens));
    shp_ssh_config_fini(&config);
}

static void tokens_are_those_of_openssh(void **state)
{
    (void)state;
    setenv("SHP_TEST_WORD", "word", 1);
    unsetenv("SHP_TEST_NONE");
    expands("~/.ssh/id", "/home/me/.ssh/id");
    expands("/k/%h-%n-%p-%r-%u-%i-%k-%L-%l-%d-%%",
            "/k/box.example-box-2222-me-self-1000-alias-near-near.example-/home/me-%");
    expands("${SHP_TEST_WORD}/x", "word/x");
    expands("/a~b$c%", "/a~b$c%");
    does_not_expand("~other/x", 128);
    does_not_expand("/tmp/%C", 128);
    does_not_expand("${SHP_TEST_NONE}", 128);
    does_not_expand("${OPEN", 128);
    does_not_expand("/long", 5);
}

/* ---- choice ------------------------------------------------------------------------------- */

static void a_plain_configuration_is_libssh_s(void **state)
{
    (void)state;
    assert_int_equal(fit_of(PLAIN, false, NULL), SHP_SSH_FIT_ALL);
    assert_int_equal(fit_of(PLAIN
                            "controlpath /tmp/c\nsendenv HERDR_*\nsetenv none\ncheckhostip no\n"
                            "requiredrsasize 1024\nnohostauthenticationforlocalhost no\n",
                            false, NULL),
                     SHP_SSH_FIT_ALL);
}

static void what_would_lead_elsewhere_does_not_fit(void **state)
{
    static const char *const lines[][2] = {
        {"proxyjump hop", "ProxyJump"},
        {"proxycommand nc %h %p", "ProxyCommand"},
        {"canonicalizehostname always", "CanonicalizeHostname"},
        {"bindaddress 10.0.0.1", "BindAddress"},
        {"revokedhostkeys /k", "RevokedHostKeys"},
        {"knownhostscommand /c", "KnownHostsCommand"},
        {"verifyhostkeydns ask", "VerifyHostKeyDNS"},
        {"checkhostip yes", "CheckHostIP"},
        {"requiredrsasize 4096", "RequiredRSASize"},
        {"stricthostkeychecking accept-new", "StrictHostKeyChecking"},
        {"stricthostkeychecking false", "StrictHostKeyChecking"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char text[2048];

        snprintf(text, sizeof(text), "%s%s\n", PLAIN, lines[i][0]);
        assert_int_equal(fit_of(text, false, lines[i][1]), SHP_SSH_FIT_NOT);
    }
}

static void what_only_openssh_tries_fits_partly(void **state)
{
    static const char *const lines[][2] = {
        {"certificatefile /c", "CertificateFile"},
        {"pkcs11provider /p.so", "PKCS11Provider"},
        {"securitykeyprovider /s.so", "SecurityKeyProvider"},
        {"preferredauthentications password", "PreferredAuthentications"},
        {"pubkeyauthentication no", "PubkeyAuthentication"},
        {"hostbasedauthentication yes", "HostbasedAuthentication"},
        {"nohostauthenticationforlocalhost yes", "NoHostAuthenticationForLocalhost"},
        {"setenv A=b", "SetEnv"},
        {"sendenv PROJECT_*", "SendEnv"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char text[2048];

        snprintf(text, sizeof(text), "%s%s\n", PLAIN, lines[i][0]);
        assert_int_equal(fit_of(text, false, lines[i][1]), SHP_SSH_FIT_PARTLY);
    }
}

static void a_key_exchange_that_somebody_chose_is_kept(void **state)
{
    (void)state;
    assert_int_equal(
        fit_of(PLAIN "kexalgorithms sntrup761x25519-sha512@openssh.com\n", false, "sntrup761"),
        SHP_SSH_FIT_PARTLY);
    assert_int_equal(
        fit_of(PLAIN "kexalgorithms mlkem768x25519-sha256,curve25519-sha256\n", false, "mlkem768"),
        SHP_SSH_FIT_PARTLY);
    assert_int_equal(fit_of(PLAIN "kexalgorithms ecdh-sha2-nistp256\n", false, NULL),
                     SHP_SSH_FIT_ALL);
    assert_int_equal(fit_of(PLAIN "kexalgorithms mlkem768x25519-sha256,sntrup761x25519-sha512,"
                                  "sntrup761x25519-sha512@openssh.com," DEFAULT_KEX "\n",
                            false, NULL),
                     SHP_SSH_FIT_ALL);
}

static void post_quantum_needs_one_that_both_have(void **state)
{
    struct shp_ssh_config config = parse(PLAIN);
    char reason[200];
    char names[256];

    (void)state;
    assert_int_equal(fit_of(PLAIN, true, "post-quantum"), SHP_SSH_FIT_NOT);
    assert_int_equal(shp_ssh_config_fit(&config, true, every_kex, reason, sizeof(reason)),
                     SHP_SSH_FIT_ALL);
    shp_ssh_config_post_quantum(names, sizeof(names), config.kex);
    assert_string_equal(names, "sntrup761x25519-sha512@openssh.com");
    shp_ssh_config_post_quantum(names, sizeof(names), DEFAULT_KEX);
    assert_string_equal(names, "");
    shp_ssh_config_fini(&config);
}

/* ---- files -------------------------------------------------------------------------------- */

static void write_text(const char *root, const char *name, const char *text)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", root, name);
    file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static enum shp_ssh_fit find(const char *root, const char *lines, struct shp_ssh_files *files,
                             char reason[200])
{
    struct shp_ssh_tokens at_root = tokens;
    struct shp_ssh_config config;
    char text[2048];
    enum shp_ssh_fit fit;

    at_root.home = root;
    reason[0] = '\0';
    snprintf(text, sizeof(text), "%s%s", PLAIN, lines);
    config = parse(text);
    fit = shp_ssh_files_find(files, &config, &at_root, reason, 200);
    shp_ssh_config_fini(&config);
    return fit;
}

static void known_hosts_are_those_that_exist(void **state)
{
    struct shp_ssh_files files;
    char reason[200];
    char wanted[512];

    write_text(*state, "known", "box ssh-ed25519 AAAA\n");
    write_text(*state, "global", "# @revoked in a comment\n");
    assert_int_equal(find(*state,
                          "userknownhostsfile none ~/none ~/known /dev/null\n"
                          "globalknownhostsfile ~/global ~/nothing\n",
                          &files, reason),
                     SHP_SSH_FIT_ALL);
    assert_int_equal(files.known_hosts_len, 2);
    snprintf(wanted, sizeof(wanted), "%s/known", (const char *)*state);
    assert_string_equal(files.known_hosts[0], wanted);
    shp_ssh_files_fini(&files);
}

static void authorities_among_known_hosts_are_openssh_s(void **state)
{
    struct shp_ssh_files files;
    char reason[200];

    write_text(*state, "known", "box ssh-ed25519 AAAA\n  @cert-authority * ssh-ed25519 AAAA\n");
    assert_int_equal(find(*state, "userknownhostsfile ~/known\n", &files, reason), SHP_SSH_FIT_NOT);
    assert_non_null(strstr(reason, "certificate authorities"));
    shp_ssh_files_fini(&files);
}

/* libssh would trust a key for more hosts than OpenSSH does. */
static void patterns_that_libssh_reads_otherwise_are_openssh_s(void **state)
{
    static const struct {
        const char *line;
        enum shp_ssh_fit fit;
    } rows[] = {
        {"*.example,!box.example", SHP_SSH_FIT_NOT},
        {"!box.example,*.example", SHP_SSH_FIT_NOT},
        {"near,[box.example]:22", SHP_SSH_FIT_NOT},
        {"[box.example]:*", SHP_SSH_FIT_NOT},
        {"[box.example]:2?", SHP_SSH_FIT_NOT},
        {"[box*", SHP_SSH_FIT_NOT},
        {"[::1]", SHP_SSH_FIT_NOT},
        {"near\r\n\t!box", SHP_SSH_FIT_NOT},
        {"[box.example]:2222,[10.0.0.1]:2222,*.example,a?", SHP_SSH_FIT_ALL},
        {"[::1]:2200", SHP_SSH_FIT_ALL},
        {"::1,fe80::1%eth0", SHP_SSH_FIT_ALL},
        {"|1|W2Jv!eF0=|W2JveF06MjI=", SHP_SSH_FIT_ALL},
        {"# [box]:22,!box", SHP_SSH_FIT_ALL},
        {"near ssh-ed25519 AAAA [box]:22,!box\nbox", SHP_SSH_FIT_ALL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct shp_ssh_files files;
        char text[200];
        char reason[200] = "";

        snprintf(text, sizeof(text), "%s ssh-ed25519 AAAA\n", rows[i].line);
        write_text(*state, "known", text);
        if (find(*state, "userknownhostsfile ~/known\n", &files, reason) != rows[i].fit)
            fail_msg("%s: %s", rows[i].line, reason);
        if (rows[i].fit == SHP_SSH_FIT_NOT)
            assert_non_null(strstr(reason, "reads otherwise"));
        shp_ssh_files_fini(&files);
    }
}

/* ssh -G prints "a b" and a, b alike. */
static void the_rest_of_a_path_is_no_file_of_known_hosts(void **state)
{
    struct shp_ssh_files files;
    char reason[200];

    write_text(*state, "known", "box ssh-ed25519 AAAA\n");
    assert_int_equal(find(*state, "userknownhostsfile ~/my known\n", &files, reason),
                     SHP_SSH_FIT_NOT);
    assert_int_equal(files.known_hosts_len, 0);
    shp_ssh_files_fini(&files);
}

static void a_key_that_others_may_read_is_openssh_s(void **state)
{
    static const char private_key[] = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n";
    struct shp_ssh_files files;
    char reason[200];
    char path[512];

    write_text(*state, "key", private_key);
    snprintf(path, sizeof(path), "%s/key", (const char *)*state);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(find(*state, "identityfile ~/key\n", &files, reason), SHP_SSH_FIT_ALL);
    shp_ssh_files_fini(&files);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(find(*state, "identityfile ~/key\n", &files, reason), SHP_SSH_FIT_PARTLY);
    assert_non_null(strstr(reason, "read by others"));
    shp_ssh_files_fini(&files);
    write_text(*state, "key", "ssh-ed25519 AAAA a public key, for one in the agent\n");
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(find(*state, "identityfile ~/key\n", &files, reason), SHP_SSH_FIT_ALL);
    shp_ssh_files_fini(&files);
}

static void special_keys_are_openssh_s(void **state)
{
    struct shp_ssh_files files;
    char reason[200];
    static const char token_key[] = /* the public half of a key on a token, as stored */
        "-----BEGIN OPENSSH PRIVATE KEY-----\n"
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAASgAAABpzay1z\n"
        "c2gtZWQyNTUxOUBvcGVuc3NoLmNvbQAAACA=\n-----END OPENSSH PRIVATE KEY-----\n";

    write_text(*state, "cert", "x");
    write_text(*state, "cert-cert.pub", "ssh-ed25519-cert-v01@openssh.com AAAA\n");
    write_text(*state, "token", token_key);
    write_text(*state, "plain", "x");
    assert_int_equal(find(*state, "identityfile ~/plain\n", &files, reason), SHP_SSH_FIT_ALL);
    shp_ssh_files_fini(&files);
    assert_int_equal(find(*state, "identityfile ~/cert\n", &files, reason), SHP_SSH_FIT_PARTLY);
    assert_non_null(strstr(reason, "certificate beside it"));
    shp_ssh_files_fini(&files);
    assert_int_equal(find(*state, "identityfile ~/token\n", &files, reason), SHP_SSH_FIT_PARTLY);
    assert_non_null(strstr(reason, "security key"));
    shp_ssh_files_fini(&files);
}

static void a_locked_key_is_seen_in_every_format(void **state)
{
    char path[512];
    char command[1024];
    static const char *const made[][2] = {
        {"-t ed25519 -N ''", "open"},
        {"-t ed25519 -N secret", "locked"},
        {"-t rsa -b 2048 -m PEM -N ''", "open"},
        {"-t rsa -b 2048 -m PEM -N secret", "locked"},
        {"-t rsa -b 2048 -m PKCS8 -N secret", "locked"},
    };

    if (system("command -v ssh-keygen >/dev/null") != 0) {
        print_message("skipped: no ssh-keygen\n");
        skip();
    }
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        snprintf(path, sizeof(path), "%s/key%zu", (const char *)*state, i);
        snprintf(command, sizeof(command), "ssh-keygen -q %s -f '%s'", made[i][0], path);
        assert_int_equal(system(command), 0);
        if (shp_ssh_key_is_locked(path) != (strcmp(made[i][1], "locked") == 0))
            fail_msg("%s is not seen as %s", made[i][0], made[i][1]);
    }
    assert_false(shp_ssh_key_is_locked("/nonexistent"));
}

#define ON_FILES(name) cmocka_unit_test_setup_teardown(name, temp_root_setup, temp_root_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_lists_are_read),
        cmocka_unit_test(what_names_no_host_is_refused),
        cmocka_unit_test(a_list_beyond_its_bound_is_openssh_s),
        cmocka_unit_test(a_target_without_ssh_is_host_and_user),
        cmocka_unit_test(tokens_are_those_of_openssh),
        cmocka_unit_test(a_plain_configuration_is_libssh_s),
        cmocka_unit_test(what_would_lead_elsewhere_does_not_fit),
        cmocka_unit_test(what_only_openssh_tries_fits_partly),
        cmocka_unit_test(a_key_exchange_that_somebody_chose_is_kept),
        cmocka_unit_test(post_quantum_needs_one_that_both_have),
        ON_FILES(known_hosts_are_those_that_exist),
        ON_FILES(authorities_among_known_hosts_are_openssh_s),
        ON_FILES(patterns_that_libssh_reads_otherwise_are_openssh_s),
        ON_FILES(the_rest_of_a_path_is_no_file_of_known_hosts),
        ON_FILES(a_key_that_others_may_read_is_openssh_s),
        ON_FILES(special_keys_are_openssh_s),
        ON_FILES(a_locked_key_is_seen_in_every_format),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
