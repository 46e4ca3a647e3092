/* Noise against the public vectors, and what it must refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "framing/noise.h"
#include "tests/support/vectors.h"

static struct shp_noise initiator;
static struct shp_noise responder;

static void both(const uint8_t psk_a[32], const uint8_t psk_b[32], const char *prologue_b)
{
    static const uint8_t secret_a[32] = {1, 2, 3};
    static const uint8_t secret_b[32] = {4, 5, 6};
    shp_noise_init(&initiator, true, (const uint8_t *)"p", 1, psk_a, secret_a);
    shp_noise_init(&responder, false, (const uint8_t *)prologue_b, 1, psk_b, secret_b);
}

static void noise_agrees_with_the_public_vectors(void **state)
{
    (void)state;
    cJSON *file = vectors_load(SHP_TEST_SOURCE_DIR, "noise.json");
    const cJSON *vector;
    int count = 0;
    cJSON_ArrayForEach(vector, vectors_get(file, "vectors"))
    {
        uint8_t psk[32], e1[32], e2[32], hash[64];
        size_t prologue_len;
        uint8_t *prologue = vectors_bytes(vectors_get(vector, "init_prologue"), &prologue_len);
        const char *psk_hex = cJSON_GetArrayItem(vectors_get(vector, "init_psks"), 0)->valuestring;
        cJSON *holder = cJSON_CreateObject();
        cJSON_AddStringToObject(holder, "psk", psk_hex);
        vectors_hex(holder, "psk", psk, sizeof(psk));
        cJSON_Delete(holder);
        vectors_hex(vector, "init_ephemeral", e1, sizeof(e1));
        vectors_hex(vector, "resp_ephemeral", e2, sizeof(e2));
        vectors_hex(vector, "handshake_hash", hash, sizeof(hash));
        shp_noise_init(&initiator, true, prologue, prologue_len, psk, e1);
        shp_noise_init(&responder, false, prologue, prologue_len, psk, e2);

        struct shp_noise_cipher send[2], receive[2];
        const cJSON *message;
        int i = 0;
        cJSON_ArrayForEach(message, vectors_get(vector, "messages"))
        {
            size_t payload_len, sealed_len;
            uint8_t *payload = vectors_bytes(vectors_get(message, "payload"), &payload_len);
            uint8_t *sealed = vectors_bytes(vectors_get(message, "ciphertext"), &sealed_len);
            uint8_t made[512], opened[512];
            int from = i % 2;
            struct shp_noise *writer = from == 0 ? &initiator : &responder;
            struct shp_noise *reader = from == 0 ? &responder : &initiator;
            if (i < 2) {
                assert_int_equal(sealed_len, payload_len + SHP_NOISE_OVERHEAD_BYTES);
                assert_int_equal(shp_noise_write(writer, payload, payload_len, made), 0);
                assert_int_equal(shp_noise_read(reader, sealed, sealed_len, opened), 0);
            } else {
                assert_int_equal(sealed_len, payload_len + SHP_NOISE_TAG_BYTES);
                assert_int_equal(shp_noise_seal(&send[from], payload, payload_len, made), 0);
                assert_int_equal(shp_noise_open(&receive[1 - from], sealed, sealed_len, opened), 0);
            }
            assert_memory_equal(made, sealed, sealed_len);
            assert_memory_equal(opened, payload, payload_len);
            free(payload);
            free(sealed);
            if (++i == 2) {
                assert_memory_equal(initiator.hash, hash, sizeof(hash));
                assert_memory_equal(responder.hash, hash, sizeof(hash));
                assert_int_equal(shp_noise_split(&initiator, &send[0], &receive[0]), 0);
                assert_int_equal(shp_noise_split(&responder, &send[1], &receive[1]), 0);
            }
        }
        assert_int_equal(i, 6);
        free(prologue);
        count++;
    }
    assert_int_equal(count, 1);
    cJSON_Delete(file);
}

static void keys_are_renewed_at_two_to_the_32(void **state)
{
    (void)state;
    cJSON *file = vectors_load(SHP_TEST_SOURCE_DIR, "noise-wire.json");
    const cJSON *rekey = vectors_get(file, "rekey");
    struct shp_noise_cipher send = {0}, receive = {0};
    const cJSON *message;
    vectors_hex(rekey, "key", send.key, sizeof(send.key));
    receive = send;
    cJSON_ArrayForEach(message, vectors_get(rekey, "messages"))
    {
        uint8_t plain[2], sealed[18], made[18], opened[2];
        send.counter = strtoull(vectors_string(message, "counter"), NULL, 10);
        receive.counter = send.counter;
        vectors_hex(message, "plaintext", plain, sizeof(plain));
        vectors_hex(message, "ciphertext", sealed, sizeof(sealed));
        assert_int_equal(shp_noise_seal(&send, plain, sizeof(plain), made), 0);
        assert_memory_equal(made, sealed, sizeof(sealed));
        assert_int_equal(shp_noise_open(&receive, sealed, sizeof(sealed), opened), 0);
        assert_memory_equal(opened, plain, sizeof(plain));
    }
    assert_memory_equal(send.key, receive.key, sizeof(send.key));
    cJSON_Delete(file);
}

static void handshake_fails_with_another_secret_or_prologue(void **state)
{
    (void)state;
    static const uint8_t psk[32] = {9};
    static const uint8_t other[32] = {8};
    uint8_t message[64], payload[16];
    both(psk, other, "p");
    assert_int_equal(shp_noise_write(&initiator, (const uint8_t *)"hi", 2, message), 0);
    assert_int_equal(shp_noise_read(&responder, message, 50, payload), SHP_ERR_AUTH);
    both(psk, psk, "q");
    assert_int_equal(shp_noise_write(&initiator, (const uint8_t *)"hi", 2, message), 0);
    assert_int_equal(shp_noise_read(&responder, message, 50, payload), SHP_ERR_AUTH);
}

static void handshake_fails_at_any_changed_bit(void **state)
{
    (void)state;
    static const uint8_t psk[32] = {9};
    uint8_t message[50], changed[50], payload[16];
    for (size_t bit = 0; bit < 8 * sizeof(message); bit++) {
        both(psk, psk, "p");
        assert_int_equal(shp_noise_write(&initiator, (const uint8_t *)"hi", 2, message), 0);
        memcpy(changed, message, sizeof(message));
        changed[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(shp_noise_read(&responder, changed, sizeof(changed), payload),
                         SHP_ERR_AUTH);
    }
}

static void key_of_low_order_is_refused(void **state)
{
    (void)state;
    static const uint8_t psk[32] = {9};
    uint8_t message[64], payload[64];
    both(psk, psk, "p");
    assert_int_equal(shp_noise_write(&initiator, NULL, 0, message), 0);
    assert_int_equal(shp_noise_read(&responder, message, 48, payload), 0);
    memset(responder.peer_public, 0, 32);
    assert_int_equal(shp_noise_write(&responder, NULL, 0, message), SHP_ERR_AUTH);
}

static void messages_have_their_turn(void **state)
{
    (void)state;
    static const uint8_t psk[32] = {9};
    uint8_t message[64], payload[64];
    struct shp_noise_cipher send, receive;
    both(psk, psk, "p");
    assert_int_equal(shp_noise_write(&responder, NULL, 0, message), SHP_ERR_STATE);
    assert_int_equal(shp_noise_read(&initiator, message, 48, payload), SHP_ERR_STATE);
    assert_int_equal(shp_noise_split(&initiator, &send, &receive), SHP_ERR_STATE);
    assert_int_equal(shp_noise_write(&initiator, NULL, 0, message), 0);
    assert_int_equal(shp_noise_write(&initiator, NULL, 0, message), SHP_ERR_STATE);
    assert_int_equal(shp_noise_read(&responder, message, 47, payload), SHP_ERR_AUTH);
}

static void transport_message_opens_once_and_in_order(void **state)
{
    (void)state;
    struct shp_noise_cipher send = {.key = {1}}, receive = {.key = {1}};
    uint8_t first[18], second[18], out[18];
    assert_int_equal(shp_noise_seal(&send, (const uint8_t *)"ab", 2, first), 0);
    assert_int_equal(shp_noise_seal(&send, (const uint8_t *)"ab", 2, second), 0);
    assert_memory_not_equal(first, second, sizeof(first));
    assert_int_equal(shp_noise_open(&receive, second, sizeof(second), out), SHP_ERR_AUTH);
    assert_int_equal(shp_noise_open(&receive, first, sizeof(first), out), 0);
    assert_int_equal(shp_noise_open(&receive, first, sizeof(first), out), SHP_ERR_AUTH);
    assert_int_equal(shp_noise_open(&receive, second, sizeof(second), second), 0);
    assert_memory_equal(second, "ab", 2);
    assert_int_equal(shp_noise_open(&receive, first, 15, out), SHP_ERR_AUTH);
}

static void counter_never_wraps(void **state)
{
    (void)state;
    struct shp_noise_cipher cipher = {.key = {1}, .counter = UINT64_MAX};
    uint8_t out[18];
    assert_int_equal(shp_noise_seal(&cipher, (const uint8_t *)"ab", 2, out), SHP_ERR_LIMIT);
    assert_int_equal(shp_noise_open(&cipher, out, sizeof(out), out), SHP_ERR_AUTH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_agrees_with_the_public_vectors),
        cmocka_unit_test(keys_are_renewed_at_two_to_the_32),
        cmocka_unit_test(handshake_fails_with_another_secret_or_prologue),
        cmocka_unit_test(handshake_fails_at_any_changed_bit),
        cmocka_unit_test(key_of_low_order_is_refused),
        cmocka_unit_test(messages_have_their_turn),
        cmocka_unit_test(transport_message_opens_once_and_in_order),
        cmocka_unit_test(counter_never_wraps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
