#include "tests/support/ssh_attempt.h"

#include "protocol/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define GUARD_MS 60000

static void on_open(struct shp_transport *transport, void *user)
{
    struct ssh_attempt *attempt = user;

    attempt->opened = true;
    assert_int_equal(shp_transport_ssh_facts(transport)->phase, SHP_SSH_PHASE_RUNNING);
}

static void on_read(struct shp_transport *transport, const uint8_t *data, size_t len, void *user)
{
    struct ssh_attempt *attempt = user;

    (void)transport;
    if (len > sizeof(attempt->heard) - 1 - attempt->heard_len)
        len = sizeof(attempt->heard) - 1 - attempt->heard_len;
    memcpy(attempt->heard + attempt->heard_len, data, len);
    attempt->heard_len += len;
}

void ssh_attempt_on_closed(struct shp_transport *transport, const struct shp_transport_end *end,
                           void *user)
{
    struct ssh_attempt *attempt = user;

    assert_false(attempt->closed);
    attempt->closed = true;
    attempt->error = end->error;
    snprintf(attempt->diagnostic, sizeof(attempt->diagnostic), "%s", end->diagnostic);
    assert_non_null(end->ssh);
    assert_ptr_equal(end->ssh, shp_transport_ssh_facts(transport));
    attempt->facts = *end->ssh;
    shp_transport_free(transport);
}

static void on_guard(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("ssh hangs");
}

void ssh_attempt_run(struct ssh_attempt *attempt, ssh_attempt_new make,
                     const struct shp_ssh_options *options)
{
    static const struct shp_transport_callbacks callbacks = {
        .on_open = on_open, .on_read = on_read, .on_closed = ssh_attempt_on_closed};
    struct shp_transport *transport = NULL;
    uv_timer_t guard;

    memset(attempt, 0, sizeof(*attempt));
    assert_int_equal(uv_loop_init(&attempt->loop), 0);
    uv_timer_init(&attempt->loop, &guard);
    uv_timer_start(&guard, on_guard, GUARD_MS, 0);
    uv_unref((uv_handle_t *)&guard);
    assert_int_equal(make(&transport, &attempt->loop, options), 0);
    assert_int_equal(shp_transport_open(transport, &callbacks, attempt), 0);
    uv_run(&attempt->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&guard, NULL);
    uv_run(&attempt->loop, UV_RUN_DEFAULT);
    assert_true(attempt->closed);
    assert_int_equal(uv_loop_close(&attempt->loop), 0);
}

void ssh_attempt_failed(const struct ssh_attempt *attempt, const char *target, int code)
{
    if (attempt->error.code != code)
        fail_msg("%s: %s instead of %s: %s", target, shp_code_name(attempt->error.code),
                 shp_code_name(code), attempt->error.cause);
    assert_true(attempt->error.cause[0] != '\0');
    assert_true(attempt->error.step[0] != '\0');
    assert_int_equal(attempt->heard_len, 0);
    assert_false(attempt->opened);
}

void ssh_attempt_bad_targets(ssh_attempt_new make)
{
    const char *bad[] = {"", "-oProxyCommand=touch", "a\nb", "a\x01", "\x7f", NULL};
    struct shp_transport *transport = NULL;
    uv_loop_t loop;

    assert_int_equal(uv_loop_init(&loop), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct shp_ssh_options options = {.target = bad[i], .command = "true"};

        assert_int_equal(make(&transport, &loop, &options), SHP_ERR_INVALID);
    }
    assert_int_equal(uv_loop_close(&loop), 0);
}
