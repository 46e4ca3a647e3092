/* Arithmetic of windows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "framing/credit.h"

static void sender_takes_what_there_is(void **state)
{
    (void)state;
    struct shp_credit_out credit;
    shp_credit_out_init(&credit, 100);
    assert_int_equal(shp_credit_out_take(&credit, 60), 60);
    assert_int_equal(shp_credit_out_take(&credit, 60), 40);
    assert_int_equal(shp_credit_out_take(&credit, 1), 0);
    assert_int_equal(shp_credit_out_give(&credit, 5), 0);
    assert_int_equal(shp_credit_out_take(&credit, 60), 5);
}

static void credit_without_measure_is_refused(void **state)
{
    (void)state;
    struct shp_credit_out credit;
    shp_credit_out_init(&credit, 100);
    assert_int_equal(shp_credit_out_give(&credit, UINT32_MAX), SHP_ERR_PROTOCOL);
    assert_int_equal(credit.available, 100);
    assert_int_equal(shp_credit_out_give(&credit, 1 << 29), 0);
    assert_int_equal(shp_credit_out_give(&credit, 1 << 29), SHP_ERR_PROTOCOL);
}

static void receiver_holds_the_peer_to_its_window(void **state)
{
    (void)state;
    struct shp_credit_in credit;
    shp_credit_in_init(&credit, 100);
    assert_int_equal(shp_credit_in_receive(&credit, 100), 0);
    assert_int_equal(shp_credit_in_receive(&credit, 1), SHP_ERR_CREDIT);
    assert_int_equal(shp_credit_in_consume(&credit, 49), 0);
    assert_int_equal(shp_credit_in_receive(&credit, 1), SHP_ERR_CREDIT);
    assert_int_equal(shp_credit_in_consume(&credit, 1), 50);
    assert_int_equal(shp_credit_in_receive(&credit, 50), 0);
    assert_int_equal(shp_credit_in_receive(&credit, 1), SHP_ERR_CREDIT);
}

static void consumer_cannot_give_what_it_does_not_hold(void **state)
{
    (void)state;
    struct shp_credit_in credit;
    shp_credit_in_init(&credit, 100);
    assert_int_equal(shp_credit_in_consume(&credit, 1000), 0);
    assert_int_equal(shp_credit_in_receive(&credit, 60), 0);
    assert_int_equal(shp_credit_in_consume(&credit, 1000), 60);
    assert_int_equal(credit.left, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sender_takes_what_there_is),
        cmocka_unit_test(credit_without_measure_is_refused),
        cmocka_unit_test(receiver_holds_the_peer_to_its_window),
        cmocka_unit_test(consumer_cannot_give_what_it_does_not_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
