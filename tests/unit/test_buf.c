/* Buffer and map against simple models of themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/map.h"
#include "tests/support/fail_alloc.h"

/* Small, and the same on every run. */
static uint32_t random_state;

static uint32_t next_random(uint32_t below)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % below;
}

static void buffer_is_a_queue_of_bytes(void **state)
{
    (void)state;
    struct shp_buf buf;
    uint8_t written = 0;
    uint8_t read = 0;
    shp_buf_init(&buf, 5000);
    assert_null(shp_buf_peek(&buf));
    random_state = 1;
    for (int i = 0; i < 20000; i++) {
        uint8_t bytes[700];
        size_t len = next_random(sizeof(bytes));
        for (size_t j = 0; j < len; j++)
            bytes[j] = (uint8_t)(written + j);
        size_t before = shp_buf_len(&buf);
        int err = shp_buf_append(&buf, bytes, len);
        if (before + len > 5000) {
            assert_int_equal(err, SHP_ERR_LIMIT);
            assert_int_equal(shp_buf_len(&buf), before);
        } else {
            assert_int_equal(err, 0);
            written = (uint8_t)(written + len);
        }
        size_t taken = next_random((uint32_t)shp_buf_len(&buf) + 1);
        const uint8_t *front = shp_buf_peek(&buf);
        for (size_t j = 0; j < taken; j++)
            assert_int_equal(front[j], (uint8_t)(read + j));
        shp_buf_consume(&buf, taken);
        read = (uint8_t)(read + taken);
        assert_true(buf.capacity <= 16384);
    }
    shp_buf_fini(&buf);
}

static void buffer_takes_what_was_written_into_its_room(void **state)
{
    (void)state;
    struct shp_buf buf;
    uint8_t *room;
    shp_buf_init(&buf, 10);
    assert_int_equal(shp_buf_reserve(&buf, 11, &room), SHP_ERR_LIMIT);
    assert_int_equal(shp_buf_reserve(&buf, 10, &room), 0);
    memcpy(room, "abc", 3);
    shp_buf_commit(&buf, 3);
    assert_int_equal(shp_buf_len(&buf), 3);
    assert_memory_equal(shp_buf_peek(&buf), "abc", 3);
    shp_buf_wipe(&buf);
    assert_null(buf.data);
    assert_int_equal(buf.max, 10);
}

static void large_buffer_gives_its_memory_back_when_it_runs_empty(void **state)
{
    (void)state;
    static uint8_t bytes[2 * SHP_BUF_KEEP_BYTES];
    struct shp_buf buf;
    shp_buf_init(&buf, sizeof(bytes));
    assert_int_equal(shp_buf_append(&buf, bytes, sizeof(bytes)), 0);
    shp_buf_consume(&buf, sizeof(bytes) - 1);
    assert_non_null(buf.data);
    shp_buf_consume(&buf, 1);
    assert_null(buf.data);
    assert_int_equal(shp_buf_append(&buf, bytes, 10), 0);
    shp_buf_consume(&buf, 10);
    assert_non_null(buf.data);
    shp_buf_fini(&buf);
}

static void buffer_without_memory_keeps_what_it_has(void **state)
{
    (void)state;
    struct shp_buf buf;
    static uint8_t bytes[4000];
    shp_buf_init(&buf, 5000);
    fail_alloc_begin(1);
    assert_int_equal(shp_buf_append(&buf, "abc", 3), 0);
    assert_int_equal(shp_buf_append(&buf, bytes, sizeof(bytes)), SHP_ERR_NOMEM);
    assert_memory_equal(shp_buf_peek(&buf), "abc", 3);
    assert_int_equal(shp_buf_len(&buf), 3);
    shp_buf_fini(&buf);
    assert_int_equal(fail_alloc_held(), 0);
    fail_alloc_end();
}

static void map_holds_what_was_put(void **state)
{
    (void)state;
    enum { KEYS = 600, MAX = 512 };
    static int values[KEYS + 1];
    static bool there[KEYS + 1];
    struct shp_map map;
    size_t count = 0;
    shp_map_init(&map, MAX);
    assert_null(shp_map_get(&map, 5));
    assert_null(shp_map_remove(&map, 5));
    random_state = 2;
    for (int i = 0; i < 100000; i++) {
        uint32_t key = 1 + next_random(KEYS);
        if (there[key]) {
            assert_ptr_equal(shp_map_remove(&map, key), &values[key]);
            there[key] = false;
            count--;
        } else if (count == MAX) {
            assert_int_equal(shp_map_put(&map, key, &values[key]), SHP_ERR_LIMIT);
        } else {
            assert_int_equal(shp_map_put(&map, key, &values[key]), 0);
            there[key] = true;
            count++;
        }
        uint32_t probe = 1 + next_random(KEYS);
        assert_ptr_equal(shp_map_get(&map, probe), there[probe] ? &values[probe] : NULL);
        assert_int_equal(map.count, count);
    }
    assert_null(shp_map_get(&map, 0));
    shp_map_fini(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffer_is_a_queue_of_bytes),
        cmocka_unit_test(buffer_takes_what_was_written_into_its_room),
        cmocka_unit_test(large_buffer_gives_its_memory_back_when_it_runs_empty),
        cmocka_unit_test(buffer_without_memory_keeps_what_it_has),
        cmocka_unit_test(map_holds_what_was_put),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
