/*
 * A security key in software, for OpenSSH's SecurityKeyProvider (sk-api.h of OpenSSH 9.2, version
 * 10): it signs only after its touch file has appeared. A key's handle is the secret key and the
 * path of that file, so nothing but the key file tells what to wait for; while it waits there is a
 * file with ".asked" behind that name.
 *
 * The path comes from SHP_SK_TOUCH at enrolment.
 */
#include <fcntl.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define API_VERSION 0x000a0000u
#define ALGORITHM_ED25519 1u
#define ERROR_GENERAL (-1)
#define ERROR_UNSUPPORTED (-2)
#define FLAG_PRESENT 0x01u
#define PATH_BYTES_MAX 400
#define WAIT_STEP_NS 20000000L
/* Nobody touches a key for longer than a test lasts. */
#define WAIT_STEPS_MAX (120 * 50)

struct sk_option {
    char *name;
    char *value;
    uint8_t required;
};

struct sk_enroll_response {
    uint8_t flags;
    uint8_t *public_key;
    size_t public_key_len;
    uint8_t *key_handle;
    size_t key_handle_len;
    uint8_t *signature;
    size_t signature_len;
    uint8_t *attestation_cert;
    size_t attestation_cert_len;
    uint8_t *authdata;
    size_t authdata_len;
};

struct sk_sign_response {
    uint8_t flags;
    uint32_t counter;
    uint8_t *sig_r;
    size_t sig_r_len;
    uint8_t *sig_s;
    size_t sig_s_len;
};

struct sk_resident_key;

uint32_t sk_api_version(void);
int sk_enroll(uint32_t alg, const uint8_t *challenge, size_t challenge_len, const char *application,
              uint8_t flags, const char *pin, struct sk_option **options,
              struct sk_enroll_response **response);
int sk_sign(uint32_t alg, const uint8_t *data, size_t data_len, const char *application,
            const uint8_t *key_handle, size_t key_handle_len, uint8_t flags, const char *pin,
            struct sk_option **options, struct sk_sign_response **response);
int sk_load_resident_keys(const char *pin, struct sk_option **options,
                          struct sk_resident_key ***keys, size_t *count);

uint32_t sk_api_version(void)
{
    return API_VERSION;
}

int sk_enroll(uint32_t alg, const uint8_t *challenge, size_t challenge_len, const char *application,
              uint8_t flags, const char *pin, struct sk_option **options,
              struct sk_enroll_response **response)
{
    const char *path = getenv("SHP_SK_TOUCH");
    struct sk_enroll_response *made;

    (void)challenge;
    (void)challenge_len;
    (void)application;
    (void)pin;
    (void)options;
    if (alg != ALGORITHM_ED25519)
        return ERROR_UNSUPPORTED;
    if (path == NULL || strlen(path) > PATH_BYTES_MAX || sodium_init() < 0)
        return ERROR_GENERAL;
    made = calloc(1, sizeof(*made));
    if (made == NULL)
        return ERROR_GENERAL;
    made->flags = flags;
    made->public_key_len = crypto_sign_PUBLICKEYBYTES;
    made->public_key = malloc(made->public_key_len);
    made->key_handle_len = crypto_sign_SECRETKEYBYTES + strlen(path);
    made->key_handle = malloc(made->key_handle_len);
    /* ssh-keygen wants an attestation that is not empty; nothing here reads it. */
    made->signature = calloc(1, 1);
    made->signature_len = 1;
    if (made->public_key == NULL || made->key_handle == NULL || made->signature == NULL)
        abort();
    crypto_sign_keypair(made->public_key, made->key_handle);
    memcpy(made->key_handle + crypto_sign_SECRETKEYBYTES, path, strlen(path));
    *response = made;
    return 0;
}

/* The signed message: digest of the application, flags, counter, digest of the data. */
static void sign(uint8_t *signature, const uint8_t *secret, const char *application, uint8_t flags,
                 const uint8_t *data, size_t data_len)
{
    uint8_t message[crypto_hash_sha256_BYTES + 1 + 4 + crypto_hash_sha256_BYTES] = {0};
    uint8_t *at = message;

    crypto_hash_sha256(at, (const uint8_t *)application, strlen(application));
    at += crypto_hash_sha256_BYTES;
    *at = flags;
    at += 1 + 4; /* a counter of 0 */
    crypto_hash_sha256(at, data, data_len);
    crypto_sign_detached(signature, NULL, message, sizeof(message), secret);
}

static int wait_for(const char *path)
{
    const struct timespec step = {.tv_nsec = WAIT_STEP_NS};
    char asked[PATH_BYTES_MAX + sizeof(".asked")];
    int fd;

    snprintf(asked, sizeof(asked), "%s.asked", path);
    fd = open(asked, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    for (int i = 0; i < WAIT_STEPS_MAX; i++) {
        if (access(path, F_OK) == 0)
            return 0;
        nanosleep(&step, NULL);
    }
    return ERROR_GENERAL;
}

int sk_sign(uint32_t alg, const uint8_t *data, size_t data_len, const char *application,
            const uint8_t *key_handle, size_t key_handle_len, uint8_t flags, const char *pin,
            struct sk_option **options, struct sk_sign_response **response)
{
    size_t path_len = key_handle_len - crypto_sign_SECRETKEYBYTES;
    char path[PATH_BYTES_MAX + 1] = {0};
    struct sk_sign_response *made;

    (void)pin;
    (void)options;
    if (alg != ALGORITHM_ED25519)
        return ERROR_UNSUPPORTED;
    if (key_handle_len < crypto_sign_SECRETKEYBYTES || path_len > PATH_BYTES_MAX ||
        sodium_init() < 0)
        return ERROR_GENERAL;
    memcpy(path, key_handle + crypto_sign_SECRETKEYBYTES, path_len);
    if (wait_for(path) != 0)
        return ERROR_GENERAL;
    made = calloc(1, sizeof(*made));
    if (made == NULL)
        return ERROR_GENERAL;
    made->flags = flags & FLAG_PRESENT;
    made->sig_r_len = crypto_sign_BYTES;
    made->sig_r = malloc(made->sig_r_len);
    if (made->sig_r == NULL)
        abort();
    sign(made->sig_r, key_handle, application, made->flags, data, data_len);
    *response = made;
    return 0;
}

int sk_load_resident_keys(const char *pin, struct sk_option **options,
                          struct sk_resident_key ***keys, size_t *count)
{
    (void)pin;
    (void)options;
    (void)keys;
    (void)count;
    return ERROR_UNSUPPORTED;
}
