/*
 * What `ssh -G` prints: refused, or every value inside the text, lists bounded, tokens replaced
 * within bounds, and a choice with a reason.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transport/ssh.h"
#include "transport/ssh_config.h"
#include "transport/transport_openssh_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static bool knows(const char *name)
{
    return strcmp(name, "curve25519-sha256") == 0;
}

static void check_text(const char *text, size_t size)
{
    require(strnlen(text, size) < size);
}

static void check_list(const struct shp_ssh_list *list)
{
    require(list->len <= SHP_SSH_CONFIG_FILES_MAX);
    for (size_t i = 0; i < list->len; i++)
        require(list->items[i] != NULL && strlen(list->items[i]) <= SHP_SSH_CONFIG_BYTES_MAX);
}

static void check_expansion(const struct shp_ssh_config *config, const char *value)
{
    static const struct shp_ssh_tokens tokens = {
        .home = "/home/me", .local_host = "here", .uid = 1000, .local_user = "me"};
    char out[64];

    if (value != NULL && shp_ssh_config_expand(out, sizeof(out), value, config, &tokens))
        check_text(out, sizeof(out));
}

static void check_fit(const struct shp_ssh_config *config, bool post_quantum)
{
    char reason[200] = "";

    if (shp_ssh_config_fit(config, post_quantum, knows, reason, sizeof(reason)) != SHP_SSH_FIT_ALL)
        require(reason[0] != '\0');
    check_text(reason, sizeof(reason));
}

static void check_facts(const char *text, size_t len)
{
    struct shp_ssh_facts facts;

    memset(&facts, 0, sizeof(facts));
    shp_openssh_parse_query(&facts, text, len);
    require(facts.port <= 65535);
    check_text(facts.hostname, sizeof(facts.hostname));
    check_text(facts.user, sizeof(facts.user));
    check_text(facts.proxy, sizeof(facts.proxy));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct shp_ssh_config config;
    char kex[128];

    check_facts((const char *)data, size);
    if (shp_ssh_config_parse(&config, (const char *)data, size) != 0)
        return 0;
    require(config.hostname != NULL && config.hostname[0] != '\0');
    require(config.port >= 1 && config.port <= 65535);
    check_list(&config.identity_files);
    check_list(&config.certificate_files);
    check_list(&config.set_env);
    check_list(&config.send_env);
    for (size_t i = 0; i < config.identity_files.len; i++)
        check_expansion(&config, config.identity_files.items[i]);
    check_expansion(&config, config.identity_agent);
    check_expansion(&config, config.user_known_hosts);
    check_fit(&config, false);
    check_fit(&config, true);
    shp_ssh_config_post_quantum(kex, sizeof(kex), config.kex);
    check_text(kex, sizeof(kex));
    shp_ssh_config_fini(&config);
    return 0;
}
