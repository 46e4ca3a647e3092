/* A link that meets a raw peer: garbage around the handshake, and preludes. */
#include "tests/support/link_world.h"

#include "protocol/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct raw {
    struct shp_transport *transport;
    const uint8_t *say;
    size_t len;
    bool end_after;
    uint8_t heard[256];
    size_t heard_len;
    bool closed;
};

static void raw_open(struct shp_transport *transport, void *user)
{
    struct raw *raw = user;

    assert_int_equal(shp_transport_write(transport, raw->say, raw->len), raw->len);
    if (raw->end_after)
        shp_transport_close(transport);
}

static void raw_read(struct shp_transport *transport, const uint8_t *data, size_t len, void *user)
{
    struct raw *raw = user;

    (void)transport;
    for (size_t i = 0; i < len && raw->heard_len < sizeof(raw->heard); i++)
        raw->heard[raw->heard_len++] = data[i];
}

static void raw_closed(struct shp_transport *transport, const struct shp_transport_end *end,
                       void *user)
{
    struct raw *raw = user;

    (void)end;
    raw->closed = true;
    shp_transport_free(transport);
}

static void begin_raw(struct link_world *world, struct raw *raw, enum shp_role role,
                      const struct shp_prelude *prelude)
{
    static const struct shp_transport_callbacks callbacks = {
        .on_open = raw_open, .on_read = raw_read, .on_closed = raw_closed};
    const struct shp_pipe_options whole = {.cut_after = -1};
    struct shp_transport *a = NULL;

    link_world_init(world);
    assert_int_equal(shp_transport_pipe_new(&a, &raw->transport, &world->loop, &whole), 0);
    assert_int_equal(shp_transport_open(raw->transport, &callbacks, raw), 0);
    link_open_side(world, &world->a, a, role, SHP_SUITE_NOISE, prelude);
}

static void garbage_instead_of_a_handshake_ends_the_link(void **state)
{
    uint8_t garbage[3000];

    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        for (int role = 0; role < 2; role++) {
            struct raw raw = {.say = garbage, .len = sizeof(garbage)};
            struct link_world world;

            for (size_t i = 0; i < sizeof(garbage); i++)
                garbage[i] = kind == 0 ? 0 : kind == 1 ? 0xff : link_pattern(i + (size_t)kind);
            begin_raw(&world, &raw, role == 0 ? SHP_ROLE_INITIATOR : SHP_ROLE_RESPONDER, NULL);
            RUN_UNTIL(&world, world.a.closed && raw.closed);
            assert_int_not_equal(world.a.error.code, 0);
            assert_false(world.a.established);
            link_world_finish(&world);
        }
    }
}

static void a_foreign_byte_after_the_handshake_ends_the_link(void **state)
{
    static const char foreign[] = "a line from a program in the background\n";
    struct link_world world;
    struct link_answer_seen answer;

    (void)state;
    link_world_begin(&world, SHP_SUITE_NOISE, NULL);
    link_world_establish(&world);
    world.b.behaviour = SILENT;
    link_ask(&world, &answer, 60000, "{}", NULL, 0);
    RUN_UNTIL(&world, world.b.requests == 1);
    /* Past the link, straight into the stream. */
    assert_int_equal(
        shp_transport_write(world.b_transport, (const uint8_t *)foreign, sizeof(foreign)),
        sizeof(foreign));
    RUN_UNTIL(&world, world.a.closed && world.b.closed);
    assert_int_equal(answer.count, 1);
    assert_int_not_equal(answer.code, 0);
    assert_int_equal(answer.outcome, SHP_OUTCOME_UNKNOWN);
    assert_true(world.a.error.code == SHP_CODE_AUTH_FAILED ||
                world.a.error.code == SHP_CODE_PROTOCOL_ERROR);
    link_world_finish(&world);
}

/* A prelude that skips to a '!' and sends a word before. */
struct skip {
    const char *out;
    bool freed;
    bool fail;
    int ended;
};

static enum shp_prelude_status skip_feed(void *prelude, const uint8_t *in, size_t len,
                                         size_t *taken, bool ended, struct shp_error *error)
{
    struct skip *skip = prelude;

    if (len == 0) {
        skip->ended = ended ? 1 : 2;
        shp_error_set(error, ended ? SHP_CODE_SHELL_REFUSED : SHP_CODE_SHELL_SLOW, NULL, "skip",
                      "it ended");
        return SHP_PRELUDE_FAILED;
    }
    for (size_t i = 0; i < len; i++) {
        if (in[i] == '!') {
            *taken = i + 1;
            if (skip->fail) {
                shp_error_set(error, SHP_CODE_INSTALL_FAILED, NULL, "skip", "no room");
                return SHP_PRELUDE_FAILED;
            }
            return SHP_PRELUDE_READY;
        }
    }
    return SHP_PRELUDE_MORE;
}

static size_t skip_output(void *prelude, const uint8_t **out)
{
    struct skip *skip = prelude;

    *out = (const uint8_t *)skip->out;
    return strlen(skip->out);
}

static void skip_consume(void *prelude, size_t len)
{
    ((struct skip *)prelude)->out += len;
}

static void skip_free(void *prelude)
{
    struct skip *skip = prelude;

    assert_false(skip->freed);
    skip->freed = true;
}

static struct shp_prelude skip_prelude(struct skip *skip, uint32_t timeout_ms)
{
    return (struct shp_prelude){.feed = skip_feed,
                                .output = skip_output,
                                .consume = skip_consume,
                                .free = skip_free,
                                .prelude = skip,
                                .timeout_ms = timeout_ms};
}

/* The handshake of the initiator begins right behind what the prelude took. */
static void a_prelude_hands_over_to_the_session(void **state)
{
    struct skip skip = {.out = "word"};
    struct shp_prelude prelude = skip_prelude(&skip, 30000);
    struct raw raw = {.say = (const uint8_t *)"noise noise!", .len = 12};
    struct link_world world;

    (void)state;
    begin_raw(&world, &raw, SHP_ROLE_INITIATOR, &prelude);
    RUN_UNTIL(&world, raw.heard_len >= 4 + 32 + 2 + 32);
    assert_memory_equal(raw.heard, "word", 4);
    assert_true(skip.freed);
    /* The secret of the launch comes first, message 1 with its big-endian length after it. */
    assert_true((raw.heard[36] << 8 | raw.heard[37]) >= 48);
    shp_transport_close(raw.transport);
    RUN_UNTIL(&world, world.a.closed && raw.closed);
    assert_int_equal(world.a.error.code, SHP_CODE_LINK_LOST);
    link_world_finish(&world);
}

static void a_prelude_that_fails_gives_its_error(void **state)
{
    struct skip skip = {.out = "", .fail = true};
    struct shp_prelude prelude = skip_prelude(&skip, 30000);
    struct raw raw = {.say = (const uint8_t *)"!", .len = 1};
    struct link_world world;

    (void)state;
    begin_raw(&world, &raw, SHP_ROLE_INITIATOR, &prelude);
    RUN_UNTIL(&world, world.a.closed && raw.closed);
    assert_int_equal(world.a.error.code, SHP_CODE_INSTALL_FAILED);
    assert_string_equal(world.a.error.cause, "no room");
    link_world_finish(&world);
    assert_true(skip.freed);
}

static void a_prelude_hears_of_the_end_and_of_the_deadline(void **state)
{
    struct link_world world;
    struct skip skip = {.out = ""};
    struct shp_prelude prelude = skip_prelude(&skip, 30000);
    struct raw raw = {.say = (const uint8_t *)"bye", .len = 3, .end_after = true};

    (void)state;
    begin_raw(&world, &raw, SHP_ROLE_INITIATOR, &prelude);
    RUN_UNTIL(&world, world.a.closed && raw.closed);
    assert_int_equal(skip.ended, 1);
    assert_int_equal(world.a.error.code, SHP_CODE_SHELL_REFUSED);
    link_world_finish(&world);

    memset(&raw, 0, sizeof(raw));
    raw.say = (const uint8_t *)"...";
    raw.len = 3;
    skip = (struct skip){.out = ""};
    prelude = skip_prelude(&skip, 30);
    begin_raw(&world, &raw, SHP_ROLE_INITIATOR, &prelude);
    RUN_UNTIL(&world, world.a.closed && raw.closed);
    assert_int_equal(skip.ended, 2);
    assert_int_equal(world.a.error.code, SHP_CODE_SHELL_SLOW);
    link_world_finish(&world);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(garbage_instead_of_a_handshake_ends_the_link),
        cmocka_unit_test(a_foreign_byte_after_the_handshake_ends_the_link),
        cmocka_unit_test(a_prelude_hands_over_to_the_session),
        cmocka_unit_test(a_prelude_that_fails_gives_its_error),
        cmocka_unit_test(a_prelude_hears_of_the_end_and_of_the_deadline),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
