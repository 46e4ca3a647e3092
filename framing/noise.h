/*
 * Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b (Noise protocol framework, revision 34) over libsodium:
 *
 *     -> psk, e
 *     <- e, ee
 *
 * Neither side has a lasting key. The pre-shared key makes the first message unforgeable; the
 * ephemeral keys make sessions independent of it afterwards. No random bytes are made here. The
 * program has called sodium_init: without it everything works, three times slower.
 */
#ifndef SHP_FRAMING_NOISE_H
#define SHP_FRAMING_NOISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHP_NOISE_KEY_BYTES 32
#define SHP_NOISE_TAG_BYTES 16
#define SHP_NOISE_HASH_BYTES 64
/* What a handshake message adds to its payload: the ephemeral key and the tag. */
#define SHP_NOISE_OVERHEAD_BYTES (SHP_NOISE_KEY_BYTES + SHP_NOISE_TAG_BYTES)

/* One direction after the handshake. */
struct shp_noise_cipher {
    uint8_t key[SHP_NOISE_KEY_BYTES];
    uint64_t counter; /* nonce of the next message; a key is renewed at each multiple of 2^32 */
};

struct shp_noise {
    bool initiator;
    int step; /* messages that went by */
    uint8_t chaining_key[SHP_NOISE_HASH_BYTES];
    uint8_t hash[SHP_NOISE_HASH_BYTES]; /* handshake hash once step is 2 */
    struct shp_noise_cipher cipher;
    uint8_t psk[SHP_NOISE_KEY_BYTES];
    uint8_t secret[SHP_NOISE_KEY_BYTES]; /* our ephemeral key */
    uint8_t peer_public[SHP_NOISE_KEY_BYTES];
};

/* Copies everything. secret: 32 fresh random bytes. */
void shp_noise_init(struct shp_noise *noise, bool initiator, const uint8_t *prologue,
                    size_t prologue_len, const uint8_t psk[SHP_NOISE_KEY_BYTES],
                    const uint8_t secret[SHP_NOISE_KEY_BYTES]);

/* Wipes. Call it also after shp_noise_split. */
void shp_noise_fini(struct shp_noise *noise);

/*
 * Our message: len + SHP_NOISE_OVERHEAD_BYTES bytes to out. STATE: not our turn; AUTH: the peer's
 * key is of low order.
 */
int shp_noise_write(struct shp_noise *noise, const uint8_t *payload, size_t len, uint8_t *out);

/*
 * The peer's message: len - SHP_NOISE_OVERHEAD_BYTES bytes to payload. STATE: not its turn; AUTH:
 * anything that does not fit. The handshake is over then.
 */
int shp_noise_read(struct shp_noise *noise, const uint8_t *in, size_t len, uint8_t *payload);

/* After both messages: the ciphers of our two directions. STATE: too early. */
int shp_noise_split(struct shp_noise *noise, struct shp_noise_cipher *send,
                    struct shp_noise_cipher *receive);

/* len + SHP_NOISE_TAG_BYTES bytes to out; out may be in. LIMIT: the counter is used up. */
int shp_noise_seal(struct shp_noise_cipher *cipher, const uint8_t *in, size_t len, uint8_t *out);

/* len - SHP_NOISE_TAG_BYTES bytes to out; out may be in. AUTH: not what the peer sent next. */
int shp_noise_open(struct shp_noise_cipher *cipher, const uint8_t *in, size_t len, uint8_t *out);

#endif
