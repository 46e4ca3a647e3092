/*
 * What `ssh -G` prints, as a struct, and what of it decides who speaks SSH to the target. Pure, so
 * that it can be tested and fuzzed; ssh_config_files.c alone looks at files. Private to transport/.
 */
#ifndef SHP_TRANSPORT_SSH_CONFIG_H
#define SHP_TRANSPORT_SSH_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHP_SSH_CONFIG_BYTES_MAX (256 * 1024)
#define SHP_SSH_CONFIG_FILES_MAX 64
#define SHP_SSH_KNOWN_HOSTS_MAX 16

struct shp_ssh_list {
    const char *items[SHP_SSH_CONFIG_FILES_MAX];
    size_t len;
};

/*
 * Strings point into text. A value that is absent, or "none" where OpenSSH takes that word for
 * nothing, is NULL. Paths and names still have their tokens: ssh_config_expand.
 */
struct shp_ssh_config {
    char *text;     /* owned */
    bool truncated; /* longer, or a longer list, than is kept */
    uint32_t port;
    const char *hostname;
    const char *user;
    const char *original_host; /* as typed, without user */
    const char *host_key_alias;
    const char *identity_agent; /* "none" is kept: it differs from absent */
    const char *proxy_jump;
    const char *proxy_command;
    const char *control_path;
    const char *pkcs11_provider;
    const char *security_key_provider;
    const char *canonicalize;
    const char *revoked_host_keys;
    const char *known_hosts_command;
    const char *verify_host_key_dns;
    const char *strict_host_key_checking;
    const char *check_host_ip;
    const char *no_local_host_key; /* NoHostAuthenticationForLocalhost */
    const char *bind_address;
    const char *bind_interface;
    const char *address_family;
    const char *preferred_authentications;
    const char *pubkey_authentication;
    const char *hostbased_authentication;
    const char *gssapi_authentication;
    const char *identities_only;
    const char *compression;
    const char *rekey_limit;
    const char *required_rsa_size;
    const char *kex;
    const char *ciphers;
    const char *macs;
    const char *host_key_algorithms;
    const char *pubkey_algorithms;
    const char *user_known_hosts;   /* words separated by spaces */
    const char *global_known_hosts; /* alike */
    struct shp_ssh_list identity_files;
    struct shp_ssh_list certificate_files;
    struct shp_ssh_list set_env;
    struct shp_ssh_list send_env;
};

/*
 * Reads the output of `ssh -G`. INVALID: it names no host or no usable port; NOMEM. On success
 * config->text is the caller's to free with shp_ssh_config_fini.
 */
int shp_ssh_config_parse(struct shp_ssh_config *config, const char *text, size_t len);

/*
 * What the words of a target say when there is no ssh to ask: [user@]host, or
 * ssh://[user@]host[:port]. user may be NULL. Everything else is as OpenSSH has it without
 * configuration, in the home directory given. INVALID: no such target.
 */
int shp_ssh_config_from_target(struct shp_ssh_config *config, const char *target, const char *user,
                               const char *home);
void shp_ssh_config_fini(struct shp_ssh_config *config);

/* A yes as ssh -G prints it: "yes", "true" and what only differs from them in detail. */
bool shp_ssh_config_yes(const char *value);

/* Whether a comma separated list names the word. */
bool shp_ssh_config_lists(const char *list, const char *word);

/* ---- tokens ------------------------------------------------------------------------------- */

struct shp_ssh_tokens {
    const char *home; /* of the account, not $HOME: OpenSSH looks there */
    const char *local_host;
    uint32_t uid;
    const char *local_user;
};

/*
 * A path or name with ~, %-tokens and ${VAR} replaced as OpenSSH replaces them. False: something in
 * it that we do not replace, or the result does not fit.
 */
bool shp_ssh_config_expand(char *out, size_t size, const char *value,
                           const struct shp_ssh_config *config,
                           const struct shp_ssh_tokens *tokens);

/* ---- choice ------------------------------------------------------------------------------- */

enum shp_ssh_fit {
    SHP_SSH_FIT_ALL,    /* libssh does what the configuration asks for */
    SHP_SSH_FIT_PARTLY, /* it leaves something out that OpenSSH would try */
    SHP_SSH_FIT_NOT,    /* it would connect somewhere else, or trust something else */
};

/*
 * How well libssh fits. knows_kex tells whether it has a key exchange. On anything but ALL reason
 * becomes one sentence without full stop.
 */
enum shp_ssh_fit shp_ssh_config_fit(const struct shp_ssh_config *config, bool post_quantum,
                                    bool (*knows_kex)(const char *name), char *reason, size_t size);

/* The post-quantum key exchanges of a list, comma separated; "" for none. */
void shp_ssh_config_post_quantum(char *out, size_t size, const char *kex);
bool shp_ssh_config_is_post_quantum(const char *name, size_t len);

/* ---- files -------------------------------------------------------------------------------- */

/* The files that libssh is to use; paths are owned. */
struct shp_ssh_files {
    char *identity[SHP_SSH_CONFIG_FILES_MAX];
    size_t identities;
    char *known_hosts[SHP_SSH_KNOWN_HOSTS_MAX]; /* those that exist, users' before global ones */
    size_t known_hosts_len;
};

/*
 * Expands the paths of a configuration and looks at what is there: certificates beside keys, keys
 * on security tokens, certificate authorities among known hosts are OpenSSH's to handle. Reads
 * bounded parts of these files. reason as above. The caller frees with shp_ssh_files_fini.
 */
enum shp_ssh_fit shp_ssh_files_find(struct shp_ssh_files *files,
                                    const struct shp_ssh_config *config,
                                    const struct shp_ssh_tokens *tokens, char *reason, size_t size);
void shp_ssh_files_fini(struct shp_ssh_files *files);

/* A private key file that needs a passphrase. */
bool shp_ssh_key_is_locked(const char *path);

/*
 * A private key file of ours that others may read: OpenSSH does not use it. A public key in the
 * place of a private one is none.
 */
bool shp_ssh_key_is_exposed(const char *path);

/* Decodes until '=', '-' or the end, skipping all that is no base64; returns the length. */
size_t shp_ssh_base64(uint8_t *out, size_t size, const char *text);

#endif
