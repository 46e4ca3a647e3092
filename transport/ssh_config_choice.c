/* Which configuration is libssh's and which OpenSSH's alone. */
#include "transport/ssh_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define RSA_BITS 1024 /* what OpenSSH requires by itself */

static const char *const post_quantum_names[] = {
    "mlkem768x25519-sha256",   "sntrup761x25519-sha512",   "sntrup761x25519-sha512@openssh.com",
    "mlkem768nistp256-sha256", "mlkem1024nistp384-sha384",
};

/* What OpenSSH's own list says after its post-quantum names, since 8.5. */
static const char default_rest[] =
    "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,"
    "ecdh-sha2-nistp521,diffie-hellman-group-exchange-sha256,diffie-hellman-group16-sha512,"
    "diffie-hellman-group18-sha512,diffie-hellman-group14-sha256";

bool shp_ssh_config_is_post_quantum(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof(post_quantum_names) / sizeof(post_quantum_names[0]); i++) {
        if (strlen(post_quantum_names[i]) == len && strncmp(post_quantum_names[i], name, len) == 0)
            return true;
    }
    return false;
}

void shp_ssh_config_post_quantum(char *out, size_t size, const char *kex)
{
    size_t used = 0;

    out[0] = '\0';
    for (const char *item = kex; item != NULL && *item != '\0';) {
        size_t len = strcspn(item, ",");

        if (shp_ssh_config_is_post_quantum(item, len) && used + len + 2 <= size)
            used += (size_t)snprintf(out + used, size - used, "%s%.*s", used > 0 ? "," : "",
                                     (int)len, item);
        item += len;
        if (*item == ',')
            item++;
    }
}

/* OpenSSH's own choice: no user asked for what stands before the rest. */
static bool is_default_kex(const char *kex)
{
    for (;;) {
        size_t len = strcspn(kex, ",");

        if (strcmp(kex, default_rest) == 0)
            return true;
        if (kex[len] == '\0' || !shp_ssh_config_is_post_quantum(kex, len))
            return false;
        kex += len + 1;
    }
}

static bool lacks_kex(const char *kex, bool (*knows_kex)(const char *name), char *reason,
                      size_t size)
{
    for (const char *item = kex; *item != '\0';) {
        size_t len = strcspn(item, ",");
        char name[96];

        snprintf(name, sizeof(name), "%.*s", (int)len, item);
        if (!knows_kex(name)) {
            snprintf(reason, size,
                     "the configuration names the key exchange %s, which libssh lacks", name);
            return true;
        }
        item += len;
        if (*item == ',')
            item++;
    }
    return false;
}

static bool has_post_quantum(const char *kex, bool (*knows_kex)(const char *name))
{
    char names[512];
    char *rest = names;

    shp_ssh_config_post_quantum(names, sizeof(names), kex);
    for (char *name; (name = strtok_r(rest, ",", &rest)) != NULL;) {
        if (knows_kex(name))
            return true;
    }
    return false;
}

static bool is_off(const char *value)
{
    return value == NULL || !shp_ssh_config_yes(value);
}

/* Locale variables change nothing for what we run; ours never leave this machine. */
static bool matters(const char *variable)
{
    return strcmp(variable, "LANG") != 0 && strcmp(variable, "LC_*") != 0 &&
           strncmp(variable, "LC_", 3) != 0 && strcmp(variable, "COLORTERM") != 0 &&
           strcmp(variable, "NO_COLOR") != 0 && strncmp(variable, "HERDR_", 6) != 0 &&
           strncmp(variable, "PI_", 3) != 0;
}

static const char *sent_variable(const struct shp_ssh_config *config)
{
    if (config->set_env.len > 0)
        return "SetEnv";
    for (size_t i = 0; i < config->send_env.len; i++) {
        if (matters(config->send_env.items[i]))
            return "SendEnv";
    }
    return NULL;
}

/* What would reach another host or trust another key; NULL: nothing. */
static const char *foreign_part(const struct shp_ssh_config *config)
{
    const char *strict = config->strict_host_key_checking;

    if (config->truncated)
        return "more than is read of it";
    if (config->proxy_jump != NULL)
        return "ProxyJump";
    if (config->proxy_command != NULL)
        return "ProxyCommand";
    if (!is_off(config->canonicalize))
        return "CanonicalizeHostname";
    if (config->bind_address != NULL || config->bind_interface != NULL)
        return "BindAddress or BindInterface";
    if (config->revoked_host_keys != NULL)
        return "RevokedHostKeys";
    if (config->known_hosts_command != NULL)
        return "KnownHostsCommand";
    if (!is_off(config->verify_host_key_dns))
        return "VerifyHostKeyDNS";
    if (!is_off(config->check_host_ip))
        return "CheckHostIP";
    if (config->required_rsa_size != NULL &&
        strtoul(config->required_rsa_size, NULL, 10) > RSA_BITS)
        return "RequiredRSASize";
    if (strict != NULL && strcasecmp(strict, "yes") != 0 && strcasecmp(strict, "true") != 0 &&
        strcasecmp(strict, "ask") != 0)
        return "StrictHostKeyChecking other than yes and ask";
    return NULL;
}

/* What only OpenSSH would try. */
static const char *left_out(const struct shp_ssh_config *config)
{
    const char *security = config->security_key_provider;
    const char *preferred = config->preferred_authentications;

    if (config->certificate_files.len > 0)
        return "CertificateFile";
    if (config->pkcs11_provider != NULL)
        return "PKCS11Provider";
    if (security != NULL && strcmp(security, "internal") != 0)
        return "SecurityKeyProvider";
    if (preferred != NULL && !shp_ssh_config_lists(preferred, "publickey"))
        return "PreferredAuthentications without publickey";
    if (config->pubkey_authentication != NULL && is_off(config->pubkey_authentication))
        return "PubkeyAuthentication no";
    if (!is_off(config->hostbased_authentication))
        return "HostbasedAuthentication";
    if (!is_off(config->no_local_host_key))
        return "NoHostAuthenticationForLocalhost";
    return sent_variable(config);
}

enum shp_ssh_fit shp_ssh_config_fit(const struct shp_ssh_config *config, bool post_quantum,
                                    bool (*knows_kex)(const char *name), char *reason, size_t size)
{
    const char *part = foreign_part(config);

    if (part != NULL) {
        snprintf(reason, size, "the configuration has %s, which libssh does not honour", part);
        return SHP_SSH_FIT_NOT;
    }
    if (post_quantum && !has_post_quantum(config->kex, knows_kex)) {
        snprintf(reason, size,
                 "a post-quantum key exchange is required, and this libssh has none of those that "
                 "the configuration allows");
        return SHP_SSH_FIT_NOT;
    }
    part = left_out(config);
    if (part != NULL) {
        snprintf(reason, size, "the configuration has %s, which libssh does not honour", part);
        return SHP_SSH_FIT_PARTLY;
    }
    if (config->kex != NULL && !is_default_kex(config->kex) &&
        lacks_kex(config->kex, knows_kex, reason, size))
        return SHP_SSH_FIT_PARTLY;
    return SHP_SSH_FIT_ALL;
}
