/* X25519 with the base point, over the same ladder as any other point.
 *
 * libsodium goes through Edwards form with a table of 30 KiB, an eighth of the helper, to save a
 * tenth of a millisecond once per connection. ShpThirdParty.cmake renames its two functions out of
 * the way; the result is the same number (RFC 7748, section 6.1: X25519(a, 9)). */
#include <stdlib.h>

#include <sodium/crypto_scalarmult_curve25519.h>

int crypto_scalarmult_curve25519_base(unsigned char *q, const unsigned char *n)
{
    static const unsigned char base_point[crypto_scalarmult_curve25519_BYTES] = {9};

    return crypto_scalarmult_curve25519(q, n, base_point);
}

/* Only reached through a pointer in a table of implementations that nobody follows any more. */
void shp_sodium_no_table(void *h, const unsigned char *a);
void shp_sodium_no_table(void *h, const unsigned char *a)
{
    (void)h;
    (void)a;
    abort();
}
