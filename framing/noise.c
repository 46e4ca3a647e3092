/* Function and token names follow the Noise specification, sections 4, 5 and 9. */
#include "framing/noise.h"

#include "base/error.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

#define BLOCK_BYTES 128 /* of BLAKE2b, for HMAC */
#define REKEY_FRAMES UINT64_C(0x100000000)
#define NONCE_REKEY UINT64_MAX

_Static_assert(SHP_NOISE_TAG_BYTES == crypto_aead_chacha20poly1305_ietf_ABYTES, "tag");
_Static_assert(SHP_NOISE_KEY_BYTES == crypto_aead_chacha20poly1305_ietf_KEYBYTES, "key");
_Static_assert(SHP_NOISE_KEY_BYTES == crypto_scalarmult_BYTES, "public key");
_Static_assert(SHP_NOISE_HASH_BYTES == crypto_generichash_BYTES_MAX, "BLAKE2b-512");

static const char protocol_name[] = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b";

typedef crypto_generichash_state hash_state;

static void hash_begin(hash_state *state)
{
    (void)crypto_generichash_init(state, NULL, 0, SHP_NOISE_HASH_BYTES);
}

static void hash_add(hash_state *state, const uint8_t *data, size_t len)
{
    (void)crypto_generichash_update(state, data, len);
}

static void hash_end(hash_state *state, uint8_t out[SHP_NOISE_HASH_BYTES])
{
    (void)crypto_generichash_final(state, out, SHP_NOISE_HASH_BYTES);
    sodium_memzero(state, sizeof(*state));
}

/* HMAC (RFC 2104) over a and one more byte; extra < 0: none. The key is never above a block. */
static void hmac(uint8_t out[SHP_NOISE_HASH_BYTES], const uint8_t key[SHP_NOISE_HASH_BYTES],
                 const uint8_t *a, size_t a_len, int extra)
{
    hash_state state;
    uint8_t pad[BLOCK_BYTES];
    uint8_t inner[SHP_NOISE_HASH_BYTES];

    memset(pad, 0x36, sizeof(pad));
    for (size_t i = 0; i < SHP_NOISE_HASH_BYTES; i++)
        pad[i] ^= key[i];
    hash_begin(&state);
    hash_add(&state, pad, sizeof(pad));
    hash_add(&state, a, a_len);
    if (extra >= 0) {
        uint8_t byte = (uint8_t)extra;
        hash_add(&state, &byte, 1);
    }
    hash_end(&state, inner);

    for (size_t i = 0; i < sizeof(pad); i++)
        pad[i] ^= 0x36 ^ 0x5c;
    hash_begin(&state);
    hash_add(&state, pad, sizeof(pad));
    hash_add(&state, inner, sizeof(inner));
    hash_end(&state, out);
    sodium_memzero(pad, sizeof(pad));
    sodium_memzero(inner, sizeof(inner));
}

/* count is 2 or 3; outputs may not be chaining_key. */
static void hkdf(const uint8_t chaining_key[SHP_NOISE_HASH_BYTES], const uint8_t *input, size_t len,
                 int count, uint8_t outputs[3][SHP_NOISE_HASH_BYTES])
{
    uint8_t temp_key[SHP_NOISE_HASH_BYTES];
    hmac(temp_key, chaining_key, input, len, -1);
    hmac(outputs[0], temp_key, NULL, 0, 1);
    for (int i = 1; i < count; i++)
        hmac(outputs[i], temp_key, outputs[i - 1], SHP_NOISE_HASH_BYTES, i + 1);
    sodium_memzero(temp_key, sizeof(temp_key));
}

static void mix_hash(struct shp_noise *noise, const uint8_t *data, size_t len)
{
    hash_state state;
    hash_begin(&state);
    hash_add(&state, noise->hash, sizeof(noise->hash));
    hash_add(&state, data, len);
    hash_end(&state, noise->hash);
}

static void set_key(struct shp_noise *noise, const uint8_t *key)
{
    memcpy(noise->cipher.key, key, SHP_NOISE_KEY_BYTES);
    noise->cipher.counter = 0;
}

static void mix_key(struct shp_noise *noise, const uint8_t input[SHP_NOISE_KEY_BYTES])
{
    uint8_t outputs[3][SHP_NOISE_HASH_BYTES];
    hkdf(noise->chaining_key, input, SHP_NOISE_KEY_BYTES, 2, outputs);
    memcpy(noise->chaining_key, outputs[0], sizeof(noise->chaining_key));
    set_key(noise, outputs[1]);
    sodium_memzero(outputs, sizeof(outputs));
}

static void mix_key_and_hash(struct shp_noise *noise, const uint8_t input[SHP_NOISE_KEY_BYTES])
{
    uint8_t outputs[3][SHP_NOISE_HASH_BYTES];
    hkdf(noise->chaining_key, input, SHP_NOISE_KEY_BYTES, 3, outputs);
    memcpy(noise->chaining_key, outputs[0], sizeof(noise->chaining_key));
    mix_hash(noise, outputs[1], SHP_NOISE_HASH_BYTES);
    set_key(noise, outputs[2]);
    sodium_memzero(outputs, sizeof(outputs));
}

static void nonce_of(uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES], uint64_t counter)
{
    memset(nonce, 0, 4);
    for (int i = 0; i < 8; i++)
        nonce[4 + i] = (uint8_t)(counter >> (8 * i));
}

static void rekey(struct shp_noise_cipher *cipher)
{
    static const uint8_t zeros[SHP_NOISE_KEY_BYTES];
    uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
    uint8_t sealed[SHP_NOISE_KEY_BYTES + SHP_NOISE_TAG_BYTES];
    nonce_of(nonce, NONCE_REKEY);
    (void)crypto_aead_chacha20poly1305_ietf_encrypt(sealed, NULL, zeros, sizeof(zeros), NULL, 0,
                                                    NULL, nonce, cipher->key);
    memcpy(cipher->key, sealed, SHP_NOISE_KEY_BYTES);
    sodium_memzero(sealed, sizeof(sealed));
}

static bool due_for_rekey(const struct shp_noise_cipher *cipher)
{
    return cipher->counter != 0 && cipher->counter % REKEY_FRAMES == 0;
}

static int seal(struct shp_noise_cipher *cipher, const uint8_t *ad, size_t ad_len,
                const uint8_t *in, size_t len, uint8_t *out)
{
    uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
    if (cipher->counter == NONCE_REKEY)
        return SHP_ERR_LIMIT;
    nonce_of(nonce, cipher->counter++);
    (void)crypto_aead_chacha20poly1305_ietf_encrypt(out, NULL, in, len, ad, ad_len, NULL, nonce,
                                                    cipher->key);
    return SHP_OK;
}

static int unseal(struct shp_noise_cipher *cipher, const uint8_t *ad, size_t ad_len,
                  const uint8_t *in, size_t len, uint8_t *out)
{
    uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
    if (len < SHP_NOISE_TAG_BYTES || cipher->counter == NONCE_REKEY)
        return SHP_ERR_AUTH;
    nonce_of(nonce, cipher->counter);
    if (crypto_aead_chacha20poly1305_ietf_decrypt(out, NULL, NULL, in, len, ad, ad_len, nonce,
                                                  cipher->key) != 0)
        return SHP_ERR_AUTH;
    cipher->counter++;
    return SHP_OK;
}

int shp_noise_seal(struct shp_noise_cipher *cipher, const uint8_t *in, size_t len, uint8_t *out)
{
    if (due_for_rekey(cipher))
        rekey(cipher);
    return seal(cipher, NULL, 0, in, len, out);
}

int shp_noise_open(struct shp_noise_cipher *cipher, const uint8_t *in, size_t len, uint8_t *out)
{
    if (due_for_rekey(cipher))
        rekey(cipher);
    return unseal(cipher, NULL, 0, in, len, out);
}

void shp_noise_init(struct shp_noise *noise, bool initiator, const uint8_t *prologue,
                    size_t prologue_len, const uint8_t psk[SHP_NOISE_KEY_BYTES],
                    const uint8_t secret[SHP_NOISE_KEY_BYTES])
{
    *noise = (struct shp_noise){.initiator = initiator};
    _Static_assert(sizeof(protocol_name) - 1 <= SHP_NOISE_HASH_BYTES, "the name is not hashed");
    memcpy(noise->hash, protocol_name, sizeof(protocol_name) - 1);
    memcpy(noise->chaining_key, noise->hash, sizeof(noise->chaining_key));
    memcpy(noise->psk, psk, sizeof(noise->psk));
    memcpy(noise->secret, secret, sizeof(noise->secret));
    mix_hash(noise, prologue, prologue_len);
}

void shp_noise_fini(struct shp_noise *noise)
{
    sodium_memzero(noise, sizeof(*noise));
}

/* Message 0 is the initiator's, message 1 the responder's. */
static bool is_turn_of(const struct shp_noise *noise, bool initiator)
{
    return noise->step == (initiator ? 0 : 1);
}

/* The tokens that both sides process alike once the ephemeral public key is known. */
static void mix_public(struct shp_noise *noise, const uint8_t public[SHP_NOISE_KEY_BYTES])
{
    mix_hash(noise, public, SHP_NOISE_KEY_BYTES);
    /* With a pre-shared key the ephemeral key also randomizes the cipher key (section 9.2). */
    mix_key(noise, public);
}

static int mix_shared(struct shp_noise *noise)
{
    uint8_t shared[SHP_NOISE_KEY_BYTES];
    if (crypto_scalarmult(shared, noise->secret, noise->peer_public) != 0)
        return SHP_ERR_AUTH;
    mix_key(noise, shared);
    sodium_memzero(shared, sizeof(shared));
    return SHP_OK;
}

int shp_noise_write(struct shp_noise *noise, const uint8_t *payload, size_t len, uint8_t *out)
{
    if (!is_turn_of(noise, noise->initiator))
        return SHP_ERR_STATE;
    if (noise->step == 0)
        mix_key_and_hash(noise, noise->psk);
    (void)crypto_scalarmult_base(out, noise->secret);
    mix_public(noise, out);
    if (noise->step == 1) {
        int err = mix_shared(noise);
        if (err)
            return err;
    }
    uint8_t *sealed = out + SHP_NOISE_KEY_BYTES;
    int err = seal(&noise->cipher, noise->hash, sizeof(noise->hash), payload, len, sealed);
    if (err)
        return err;
    mix_hash(noise, sealed, len + SHP_NOISE_TAG_BYTES);
    noise->step++;
    return SHP_OK;
}

int shp_noise_read(struct shp_noise *noise, const uint8_t *in, size_t len, uint8_t *payload)
{
    if (!is_turn_of(noise, !noise->initiator))
        return SHP_ERR_STATE;
    if (len < SHP_NOISE_OVERHEAD_BYTES)
        return SHP_ERR_AUTH;
    if (noise->step == 0)
        mix_key_and_hash(noise, noise->psk);
    memcpy(noise->peer_public, in, SHP_NOISE_KEY_BYTES);
    mix_public(noise, noise->peer_public);
    if (noise->step == 1) {
        int err = mix_shared(noise);
        if (err)
            return err;
    }
    const uint8_t *sealed = in + SHP_NOISE_KEY_BYTES;
    size_t sealed_len = len - SHP_NOISE_KEY_BYTES;
    int err = unseal(&noise->cipher, noise->hash, sizeof(noise->hash), sealed, sealed_len, payload);
    if (err)
        return err;
    mix_hash(noise, sealed, sealed_len);
    noise->step++;
    return SHP_OK;
}

int shp_noise_split(struct shp_noise *noise, struct shp_noise_cipher *send,
                    struct shp_noise_cipher *receive)
{
    uint8_t outputs[3][SHP_NOISE_HASH_BYTES];
    if (noise->step != 2)
        return SHP_ERR_STATE;
    hkdf(noise->chaining_key, NULL, 0, 2, outputs);
    memcpy(send->key, outputs[noise->initiator ? 0 : 1], SHP_NOISE_KEY_BYTES);
    memcpy(receive->key, outputs[noise->initiator ? 1 : 0], SHP_NOISE_KEY_BYTES);
    send->counter = 0;
    receive->counter = 0;
    sodium_memzero(outputs, sizeof(outputs));
    return SHP_OK;
}
