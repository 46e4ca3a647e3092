/* Receipts: repeats, conflicts, and forgetting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "protocol/receipts.h"
#include "tests/support/fail_alloc.h"

static struct shp_receipts *receipts;

static int free_receipts(void **state)
{
    (void)state;
    shp_receipts_free(receipts);
    receipts = NULL;
    return 0;
}

/* Ids that differ in their last bytes only would all meet in one bucket; these do both. */
static void make_id(uint8_t id[SHP_ID_BYTES], unsigned n)
{
    memset(id, 0, SHP_ID_BYTES);
    id[0] = (uint8_t)(n / 3);
    id[14] = (uint8_t)n;
    id[15] = (uint8_t)(n >> 8);
}

static void make_digest(uint8_t digest[SHP_RECEIPT_DIGEST_BYTES], unsigned n)
{
    memset(digest, (int)(n % 251), SHP_RECEIPT_DIGEST_BYTES);
}

static void repeat_gets_the_stored_answer(void **state)
{
    (void)state;
    uint8_t id[SHP_ID_BYTES], digest[SHP_RECEIPT_DIGEST_BYTES], other[SHP_RECEIPT_DIGEST_BYTES];
    const char *answer = NULL;
    make_id(id, 1);
    make_digest(digest, 1);
    make_digest(other, 2);
    assert_int_equal(shp_receipts_new(&receipts, 10), 0);
    assert_int_equal(shp_receipts_find(receipts, id, digest, &answer), SHP_RECEIPT_NEW);
    assert_null(answer);
    assert_int_equal(shp_receipts_store(receipts, id, digest, "", 0), 0);
    assert_int_equal(shp_receipts_find(receipts, id, digest, &answer), SHP_RECEIPT_DUPLICATE);
    assert_string_equal(answer, "");
    assert_int_equal(shp_receipts_store(receipts, id, digest, "{\"a\":1}xxx", 7), 0);
    assert_int_equal(shp_receipts_find(receipts, id, digest, &answer), SHP_RECEIPT_DUPLICATE);
    assert_string_equal(answer, "{\"a\":1}");
    assert_int_equal(shp_receipts_find(receipts, id, other, NULL), SHP_RECEIPT_CONFLICT);
    assert_int_equal(shp_receipts_store(receipts, id, other, "", 0), SHP_ERR_EXISTS);
    assert_int_equal(shp_receipts_count(receipts), 1);
}

static void oldest_ids_are_forgotten_in_order(void **state)
{
    (void)state;
    enum { MAX = 300, ALL = 1000 };
    assert_int_equal(shp_receipts_new(&receipts, MAX), 0);
    for (unsigned n = 0; n < ALL; n++) {
        uint8_t id[SHP_ID_BYTES], digest[SHP_RECEIPT_DIGEST_BYTES];
        make_id(id, n);
        make_digest(digest, n);
        assert_int_equal(shp_receipts_store(receipts, id, digest, "x", 1), 0);
        assert_int_equal(shp_receipts_count(receipts), n < MAX ? n + 1 : MAX);
        for (unsigned back = 0; back <= MAX && back <= n; back += 37) {
            make_id(id, n - back);
            make_digest(digest, n - back);
            assert_int_equal(shp_receipts_find(receipts, id, digest, NULL),
                             back < MAX ? SHP_RECEIPT_DUPLICATE : SHP_RECEIPT_NEW);
        }
    }
}

static void bounds_are_kept(void **state)
{
    (void)state;
    static char answer[SHP_RECEIPT_ANSWER_MAX + 1];
    uint8_t id[SHP_ID_BYTES] = {0}, digest[SHP_RECEIPT_DIGEST_BYTES] = {0};
    assert_int_equal(shp_receipts_new(&receipts, 0), SHP_ERR_INVALID);
    assert_int_equal(shp_receipts_new(&receipts, 65535), SHP_ERR_INVALID);
    assert_int_equal(shp_receipts_new(&receipts, 65534), 0);
    memset(answer, 'x', sizeof(answer));
    assert_int_equal(shp_receipts_store(receipts, id, digest, answer, sizeof(answer)),
                     SHP_ERR_LIMIT);
    assert_int_equal(shp_receipts_count(receipts), 0);
}

static void failed_allocation_changes_nothing(void **state)
{
    (void)state;
    uint8_t id[SHP_ID_BYTES], digest[SHP_RECEIPT_DIGEST_BYTES];
    size_t total = SIZE_MAX;
    for (size_t fail_at = 0; fail_at < total; fail_at++) {
        fail_alloc_begin(fail_at);
        unsigned stored = 0;
        if (shp_receipts_new(&receipts, 200) == 0) {
            for (unsigned n = 0; n < 150; n++) {
                make_id(id, n);
                make_digest(digest, n);
                int err = shp_receipts_store(receipts, id, digest, "x", n % 2);
                assert_true(err == 0 || err == SHP_ERR_NOMEM);
                stored += err == 0;
                assert_int_equal(shp_receipts_count(receipts), stored);
                assert_int_equal(shp_receipts_find(receipts, id, digest, NULL),
                                 err ? SHP_RECEIPT_NEW : SHP_RECEIPT_DUPLICATE);
            }
            assert_true(stored >= 149);
        }
        shp_receipts_free(receipts);
        receipts = NULL;
        assert_int_equal(fail_alloc_held(), 0);
        size_t asked = fail_alloc_end();
        if (asked <= fail_at)
            total = fail_at;
    }
    assert_true(total > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(repeat_gets_the_stored_answer, free_receipts),
        cmocka_unit_test_teardown(oldest_ids_are_forgotten_in_order, free_receipts),
        cmocka_unit_test_teardown(bounds_are_kept, free_receipts),
        cmocka_unit_test_teardown(failed_allocation_changes_nothing, free_receipts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
