#include "transport/ssh_config.h"

#include "base/alloc.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FIELD(member) offsetof(struct shp_ssh_config, member)

/* What the word "none" means for a key. */
enum none { NONE_IS_ABSENT, NONE_IS_A_VALUE };

/* Older clients have other names for some keys. */
static const struct {
    const char *key;
    size_t offset;
    enum none none;
} strings[] = {
    {"hostname", FIELD(hostname), NONE_IS_A_VALUE},
    {"user", FIELD(user), NONE_IS_A_VALUE},
    {"host", FIELD(original_host), NONE_IS_A_VALUE},
    {"hostkeyalias", FIELD(host_key_alias), NONE_IS_A_VALUE},
    {"identityagent", FIELD(identity_agent), NONE_IS_A_VALUE},
    {"proxyjump", FIELD(proxy_jump), NONE_IS_ABSENT},
    {"proxycommand", FIELD(proxy_command), NONE_IS_ABSENT},
    {"controlpath", FIELD(control_path), NONE_IS_ABSENT},
    {"pkcs11provider", FIELD(pkcs11_provider), NONE_IS_ABSENT},
    {"securitykeyprovider", FIELD(security_key_provider), NONE_IS_ABSENT},
    {"canonicalizehostname", FIELD(canonicalize), NONE_IS_ABSENT},
    {"revokedhostkeys", FIELD(revoked_host_keys), NONE_IS_ABSENT},
    {"knownhostscommand", FIELD(known_hosts_command), NONE_IS_ABSENT},
    {"verifyhostkeydns", FIELD(verify_host_key_dns), NONE_IS_ABSENT},
    {"stricthostkeychecking", FIELD(strict_host_key_checking), NONE_IS_ABSENT},
    {"checkhostip", FIELD(check_host_ip), NONE_IS_ABSENT},
    {"nohostauthenticationforlocalhost", FIELD(no_local_host_key), NONE_IS_ABSENT},
    {"bindaddress", FIELD(bind_address), NONE_IS_ABSENT},
    {"bindinterface", FIELD(bind_interface), NONE_IS_ABSENT},
    {"addressfamily", FIELD(address_family), NONE_IS_ABSENT},
    {"preferredauthentications", FIELD(preferred_authentications), NONE_IS_ABSENT},
    {"pubkeyauthentication", FIELD(pubkey_authentication), NONE_IS_ABSENT},
    {"hostbasedauthentication", FIELD(hostbased_authentication), NONE_IS_ABSENT},
    {"gssapiauthentication", FIELD(gssapi_authentication), NONE_IS_ABSENT},
    {"identitiesonly", FIELD(identities_only), NONE_IS_ABSENT},
    {"compression", FIELD(compression), NONE_IS_ABSENT},
    {"rekeylimit", FIELD(rekey_limit), NONE_IS_ABSENT},
    {"requiredrsasize", FIELD(required_rsa_size), NONE_IS_ABSENT},
    {"kexalgorithms", FIELD(kex), NONE_IS_ABSENT},
    {"ciphers", FIELD(ciphers), NONE_IS_ABSENT},
    {"macs", FIELD(macs), NONE_IS_ABSENT},
    {"hostkeyalgorithms", FIELD(host_key_algorithms), NONE_IS_ABSENT},
    {"pubkeyacceptedalgorithms", FIELD(pubkey_algorithms), NONE_IS_ABSENT},
    {"pubkeyacceptedkeytypes", FIELD(pubkey_algorithms), NONE_IS_ABSENT},
    {"userknownhostsfile", FIELD(user_known_hosts), NONE_IS_ABSENT},
    {"globalknownhostsfile", FIELD(global_known_hosts), NONE_IS_ABSENT},
};

static const struct {
    const char *key;
    size_t offset;
} lists[] = {
    {"identityfile", FIELD(identity_files)},
    {"certificatefile", FIELD(certificate_files)},
    {"setenv", FIELD(set_env)},
    {"sendenv", FIELD(send_env)},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void *at(struct shp_ssh_config *config, size_t offset)
{
    return (char *)config + offset;
}

static bool is_none(const char *value)
{
    return value[0] == '\0' || strcasecmp(value, "none") == 0;
}

static void keep(struct shp_ssh_config *config, const char *key, char *value)
{
    if (strcasecmp(key, "port") == 0) {
        unsigned long port = strtoul(value, NULL, 10);

        config->port = port > 0 && port <= 65535 ? (uint32_t)port : 0;
        return;
    }
    for (size_t i = 0; i < COUNT(strings); i++) {
        if (strcasecmp(key, strings[i].key) != 0)
            continue;
        if (value[0] != '\0' && !(strings[i].none == NONE_IS_ABSENT && is_none(value)))
            *(const char **)at(config, strings[i].offset) = value;
        return;
    }
    for (size_t i = 0; i < COUNT(lists); i++) {
        struct shp_ssh_list *list = at(config, lists[i].offset);

        if (strcasecmp(key, lists[i].key) != 0)
            continue;
        if (is_none(value))
            return;
        if (list->len == SHP_SSH_CONFIG_FILES_MAX)
            config->truncated = true;
        else
            list->items[list->len++] = value;
        return;
    }
}

static void parse_line(struct shp_ssh_config *config, char *line)
{
    char *value = strchr(line, ' ');
    char *end = line + strlen(line);

    while (end > line && (end[-1] == '\r' || end[-1] == ' '))
        *--end = '\0';
    if (value == NULL || value >= end) {
        keep(config, line, end);
        return;
    }
    *value++ = '\0';
    while (*value == ' ')
        value++;
    keep(config, line, value);
}

int shp_ssh_config_parse(struct shp_ssh_config *config, const char *text, size_t len)
{
    struct shp_ssh_config parsed = {.truncated = len > SHP_SSH_CONFIG_BYTES_MAX};
    char *rest;

    if (parsed.truncated)
        len = SHP_SSH_CONFIG_BYTES_MAX;
    parsed.text = shp_strndup(text, len);
    if (parsed.text == NULL)
        return SHP_ERR_NOMEM;
    for (size_t i = 0; i < len; i++) {
        if (parsed.text[i] == '\0')
            parsed.text[i] = '?';
    }
    for (rest = parsed.text; rest != NULL && *rest != '\0';) {
        char *line = rest;

        rest = strchr(rest, '\n');
        if (rest != NULL)
            *rest++ = '\0';
        parse_line(&parsed, line);
    }
    if (parsed.hostname == NULL || parsed.port == 0) {
        shp_free(parsed.text);
        return SHP_ERR_INVALID;
    }
    *config = parsed;
    return SHP_OK;
}

void shp_ssh_config_fini(struct shp_ssh_config *config)
{
    shp_free(config->text);
    memset(config, 0, sizeof(*config));
}

bool shp_ssh_config_yes(const char *value)
{
    return value != NULL && strcasecmp(value, "no") != 0 && strcasecmp(value, "false") != 0;
}

bool shp_ssh_config_lists(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *item = list; item != NULL && *item != '\0';) {
        size_t item_len = strcspn(item, ",");

        if (item_len == len && strncmp(item, word, len) == 0)
            return true;
        item += item_len;
        if (*item == ',')
            item++;
    }
    return false;
}

/* ---- without ssh -------------------------------------------------------------------------- */

/* Cuts the user off; the last @ counts, as in OpenSSH. */
static const char *split_user(char *words, const char **user)
{
    char *sign = strrchr(words, '@');

    if (sign == NULL)
        return words;
    *sign = '\0';
    *user = words;
    return sign + 1;
}

/* host, host:port or [address]:port of a URI; false: not that. */
static bool split_port(char *host, const char **name, const char **port)
{
    char *end;

    *name = host;
    host[strcspn(host, "/")] = '\0';
    if (host[0] == '[') {
        end = strchr(host, ']');
        if (end == NULL)
            return false;
        *name = host + 1;
        *end++ = '\0';
    } else {
        end = strchr(host, ':');
        if (end == NULL)
            return true;
    }
    if (*end == ':') {
        *end = '\0';
        *port = end + 1;
    } else if (*end != '\0') {
        return false;
    }
    return true;
}

int shp_ssh_config_from_target(struct shp_ssh_config *config, const char *target, const char *user,
                               const char *home)
{
    static const char scheme[] = "ssh://";
    bool uri = strncmp(target, scheme, sizeof(scheme) - 1) == 0;
    char *words = shp_strdup(uri ? target + sizeof(scheme) - 1 : target);
    const char *port = "22";
    const char *host;
    char *text = NULL;
    int err = SHP_ERR_INVALID;

    if (words == NULL)
        return SHP_ERR_NOMEM;
    host = split_user(words, &user);
    if ((!uri || split_port((char *)(uintptr_t)host, &host, &port)) && host[0] != '\0' &&
        strchr(host, ' ') == NULL) {
        size_t size = strlen(target) + strlen(user != NULL ? user : "") + 4 * strlen(home) + 300;

        text = shp_malloc(size);
        err = text != NULL ? SHP_OK : SHP_ERR_NOMEM;
        if (text != NULL)
            snprintf(text, size,
                     "hostname %s\nhost %s\nport %s\nuser %s\nidentityfile %s/.ssh/id_rsa\n"
                     "identityfile %s/.ssh/id_ecdsa\nidentityfile %s/.ssh/id_ed25519\n"
                     "userknownhostsfile %s/.ssh/known_hosts\n"
                     "globalknownhostsfile /etc/ssh/ssh_known_hosts\n",
                     host, host, port, user != NULL ? user : "", home, home, home, home);
    }
    if (err == SHP_OK)
        err = shp_ssh_config_parse(config, text, strlen(text));
    shp_free(text);
    shp_free(words);
    return err;
}
