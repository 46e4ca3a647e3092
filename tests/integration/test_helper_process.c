/* The built helper as a process: start, end, self-check, and what it costs under load. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>
#include <sodium.h>

#include "protocol/codec.h"
#include "protocol/messages.h"
#include "tests/support/helper_rig.h"
#include "tests/support/temp_root.h"

#define DEADLINE_MS 60000
#define HELPER SHP_TEST_BIN_DIR "/shepherdr-helper"
#define MARKER "00112233445566778899aabbccddeeff"

/* design: 1 MiB idle, 4 MiB under the listed loads, for the static helper. */
#define PSS_IDLE_KIB 1024
#define PSS_LOAD_KIB 4096

#if defined(__SANITIZE_ADDRESS__)
#define MEASURED false
#else
#define MEASURED true
#endif

struct process {
    uv_loop_t loop;
    struct shp_link *link;
    bool established, closed;
    struct shp_error error;
    bool exited;
    int64_t exit_status;
    int term_signal;
    pid_t pid;
    char *home;
    size_t matched; /* of the ready line */
};

/* ---- starting ----------------------------------------------------------------------------- */

static enum shp_prelude_status prelude_feed(void *prelude, const uint8_t *in, size_t len,
                                            size_t *taken, bool ended, struct shp_error *error)
{
    static const char ready[] = "\n@@SHP1 " MARKER " READY ";
    struct process *process = prelude;
    for (size_t i = 0; i < len; i++) {
        if (process->matched == sizeof ready - 1) {
            if (in[i] == '\n') {
                *taken = i + 1;
                return SHP_PRELUDE_READY;
            }
        } else if (in[i] == (uint8_t)ready[process->matched]) {
            process->matched++;
        }
    }
    if (len > 0)
        return SHP_PRELUDE_MORE;
    (void)ended;
    shp_error_set(error, SHP_CODE_SHELL_REFUSED, NULL, "start", "no ready line");
    return SHP_PRELUDE_FAILED;
}

static size_t prelude_output(void *prelude, const uint8_t **out)
{
    (void)prelude;
    *out = NULL;
    return 0;
}

static void prelude_consume(void *prelude, size_t len)
{
    (void)prelude;
    (void)len;
}

static void prelude_free(void *prelude)
{
    (void)prelude;
}

static void on_established(struct shp_link *link, const char *peer_hello, void *user)
{
    struct process *process = user;
    cJSON *hello = NULL;
    (void)link;
    assert_int_equal(shp_codec_parse(&hello, peer_hello, strlen(peer_hello)), 0);
    process->pid = (pid_t)shp_codec_int(hello, "pid", 0);
    cJSON_Delete(hello);
    process->established = true;
}

static void on_closed(struct shp_link *link, const struct shp_error *error,
                      const struct shp_transport_end *end, void *user)
{
    struct process *process = user;
    (void)link;
    process->link = NULL;
    process->error = *error;
    process->exited = end->exited;
    process->exit_status = end->exit_status;
    process->term_signal = end->term_signal;
    process->closed = true;
}

static void on_late(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

static void until(struct process *process, const bool *flag)
{
    uv_timer_t timer;
    bool late = false;
    uv_timer_init(&process->loop, &timer);
    timer.data = &late;
    uv_timer_start(&timer, on_late, DEADLINE_MS, 0);
    while (!*flag && !late)
        uv_run(&process->loop, UV_RUN_ONCE);
    assert_false(late);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&process->loop, UV_RUN_NOWAIT);
}

static void start(struct process *process, char *const *argv)
{
    static const char hello[] =
        "{\"versions\":[1,1],\"role\":\"controller\",\"build\":\"test\",\"installation\":"
        "\"0123456789abcdef0123456789abcdef\",\"pi_session_id\":\"controlling\"}";
    static char *const default_argv[] = {HELPER, "serve", MARKER, NULL};
    char home[512];
    memset(process, 0, sizeof *process);
    process->home = temp_root_make();
    snprintf(home, sizeof home, "HOME=%s", process->home);
    char *env[] = {home, NULL};
    struct shp_process_options process_options = {.argv = argv != NULL ? argv : default_argv,
                                                  .env = env};
    struct shp_prelude prelude = {.feed = prelude_feed,
                                  .output = prelude_output,
                                  .consume = prelude_consume,
                                  .free = prelude_free,
                                  .prelude = process,
                                  .timeout_ms = DEADLINE_MS};
    struct shp_link_options options = {
        .session = {.role = SHP_ROLE_INITIATOR,
                    .suite = SHP_SUITE_NOISE,
                    .hello_json = hello,
                    .hello_len = sizeof hello - 1,
                    .marker = MARKER},
        .prelude = &prelude,
        .callbacks = {.on_established = on_established, .on_closed = on_closed},
        .user = process,
    };
    assert_int_equal(uv_loop_init(&process->loop), 0);
    assert_int_equal(
        shp_transport_process_new(&options.transport, &process->loop, &process_options), 0);
    assert_int_equal(shp_link_open(&process->link, &process->loop, &options), 0);
}

static void finish(struct process *process)
{
    if (process->link != NULL)
        shp_link_close(process->link, 0, "done");
    until(process, &process->closed);
    uv_run(&process->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&process->loop), 0);
    temp_root_remove(process->home);
}

static int need_helper(void **state)
{
    (void)state;
    if (access(HELPER, X_OK) == 0)
        return 0;
    print_message("skipped: %s was not built\n", HELPER);
    exit(77);
}

/* ---- asking ------------------------------------------------------------------------------- */

static void on_answer(struct shp_link *link, const struct shp_link_answer *answer, void *user)
{
    struct rig_answer *out = user;
    (void)link;
    out->code = answer->error != NULL ? answer->error->code : 0;
    out->json = strdup(answer->json);
    out->bulk_len = answer->bulk_len;
    out->done = true;
}

static void ask(struct process *process, uint16_t message, const char *json, const char *bulk,
                struct rig_answer *answer)
{
    memset(answer, 0, sizeof *answer);
    assert_int_equal(shp_link_request(process->link, message, NULL, DEADLINE_MS, json,
                                      (const uint8_t *)bulk, bulk != NULL ? strlen(bulk) : 0,
                                      on_answer, answer, NULL),
                     0);
    until(process, &answer->done);
}

/* Most memory that the process has had at once, beyond what it shares; -1: not known. */
static long memory_kib(const struct process *process, const char *file, const char *field)
{
    char path[64], line[256];
    long value = -1;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)process->pid, file);
    FILE *stream = fopen(path, "r");
    if (stream == NULL)
        return -1;
    while (fgets(line, sizeof line, stream) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            value = strtol(line + strlen(field), NULL, 10);
    fclose(stream);
    return value;
}

/* ---- cases -------------------------------------------------------------------------------- */

static void it_starts_answers_and_ends_with_the_link(void **state)
{
    struct process process;
    struct rig_answer answer;
    (void)state;
    start(&process, NULL);
    until(&process, &process.established);
    ask(&process, SHP_MSG_IDENTITY_GET, "{}", NULL, &answer);
    assert_int_equal(answer.code, 0);
    assert_non_null(strstr(answer.json, process.home));
    rig_answer_fini(&answer);
    shp_link_close(process.link, 0, "done");
    until(&process, &process.closed);
    assert_true(process.exited);
    assert_int_equal(process.exit_status, 0);
    assert_int_equal(process.term_signal, 0);
    finish(&process);
}

static void a_signal_ends_it_in_order(void **state)
{
    struct process process;
    (void)state;
    start(&process, NULL);
    until(&process, &process.established);
    assert_int_equal(kill(process.pid, SIGTERM), 0);
    until(&process, &process.closed);
    assert_int_equal(process.error.code, SHP_CODE_SHUTTING_DOWN);
    assert_true(process.exited);
    assert_int_equal(process.exit_status, 0);
    finish(&process);
}

static void foreign_input_ends_it(void **state)
{
    int in[2], out[2], status;
    char text[256];
    (void)state;
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(2);
        close(in[1]);
        close(out[0]);
        setenv("HOME", "/tmp", 1);
        execl(HELPER, HELPER, "serve", MARKER, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    memset(text, 'x', sizeof text);
    assert_int_equal(write(in[1], text, sizeof text), sizeof text);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    /* Nothing but the ready line was said to whoever that is. */
    ssize_t len = read(out[0], text, sizeof text);
    assert_true(len > 0 && text[len - 1] == '\n');
    assert_int_equal(memcmp(text, "\n@@SHP1 " MARKER " READY ", 47), 0);
    assert_int_equal(read(out[0], text, sizeof text), 0);
    close(in[1]);
    close(out[0]);
}

static int run(const char *first, const char *second)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        close(2);
        execl(HELPER, HELPER, first, second, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void self_check_compares_its_own_file(void **state)
{
    uint8_t digest[crypto_hash_sha256_BYTES];
    char hex[2 * sizeof digest + 1];
    size_t len;
    (void)state;
    char *bytes = temp_read(HELPER, &len);
    crypto_hash_sha256(digest, (const uint8_t *)bytes, len);
    free(bytes);
    sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
    assert_int_equal(run("self-check", hex), 0);
    hex[10] = hex[10] == '0' ? '1' : '0';
    assert_int_equal(run("self-check", hex), 1);
    assert_int_equal(run("self-check", "short"), 2);
    assert_int_equal(run("serve", "00112233445566778899AABBCCDDEEFF"), 2);
    assert_int_equal(run("serve", "short"), 2);
    assert_int_equal(run("unknown", NULL), 2);
}

/* ---- load --------------------------------------------------------------------------------- */

static void put_run(FILE *file, size_t count)
{
    static char block[65536];
    memset(block, 'x', sizeof block);
    for (; count > 0; count -= sizeof block)
        assert_int_equal(fwrite(block, 1, sizeof block, file), sizeof block);
}

/* A gigabyte above, then a line of 20 MiB, then the text. */
static char *make_session(const char *home, size_t text_bytes)
{
    char *path = temp_path(home, "session.jsonl");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n", file);
    assert_int_equal(fseeko(file, (off_t)1 << 30, SEEK_SET), 0);
    fputs("\n{\"type\":\"message\",\"id\":\"a1\",\"parentId\":null,\"message\":{\"role\":"
          "\"assistant\",\"stopReason\":\"stop\",\"content\":[{\"type\":\"text\",\"text\":\"",
          file);
    put_run(file, text_bytes);
    fputs("\"}]}}\n{\"type\":\"message\",\"id\":\"t1\",\"parentId\":\"a1\",\"message\":{\"role\":"
          "\"toolResult\",\"content\":[{\"type\":\"text\",\"text\":\"",
          file);
    put_run(file, 20u << 20);
    fputs("\"}]}}\n", file);
    assert_int_equal(fclose(file), 0);
    return path;
}

static char *make_snapshot(size_t *len)
{
    char *json = malloc(2u << 20);
    assert_non_null(json);
    size_t at = (size_t)sprintf(json, "{\"id\":\"roster\",\"result\":{\"snapshot\":{\"agents\":[");
    for (int i = 0; i < 500; i++)
        at += (size_t)sprintf(
            json + at,
            "%s{\"terminal_id\":\"term-%d\",\"workspace_id\":\"w%d\",\"tab_id\":\"w%d:t1\","
            "\"pane_id\":\"w%d-%d\",\"agent\":\"pi\",\"agent_status\":\"working\",\"name\":"
            "\"agent-%d\",\"title\":\"a title of some length for agent %d\",\"cwd\":"
            "\"/home/somebody/projects/with/a/longer/path/number-%d\",\"agent_session\":{\"kind\":"
            "\"path\",\"value\":\"/home/somebody/.pi/agent/sessions/--home-somebody--/2026-11-30_"
            "%d.jsonl\"},\"state_change_seq\":%d,\"revision\":1}",
            i > 0 ? "," : "", i, i / 8, i / 8, i / 8, i, i, i, i, i, i);
    at += (size_t)sprintf(json + at, "]}}}");
    *len = at;
    return json;
}

static void memory_stays_small_under_load(void **state)
{
    struct process process;
    struct fake_herdr herdr;
    struct rig_answer answer;
    char json[600];
    (void)state;
    start(&process, NULL);
    until(&process, &process.established);
    ask(&process, SHP_MSG_IDENTITY_GET, "{}", NULL, &answer);
    rig_answer_fini(&answer);
    long idle = memory_kib(&process, "smaps_rollup", "Pss:");

    char *socket = temp_path(process.home, "h.sock");
    fake_herdr_open(&herdr, &process.loop, socket);
    snprintf(json, sizeof json, "{\"socket\":\"%s\"}", socket);
    char *snapshot = make_snapshot(&herdr.answer_len);
    herdr.answer = snapshot;
    ask(&process, SHP_MSG_ROSTER_GET, json, NULL, &answer);
    assert_int_equal(answer.code, 0);
    assert_string_equal(answer.json, "{\"agents\":500}");
    rig_answer_fini(&answer);
    long roster = memory_kib(&process, "status", "VmHWM:");

    char *large = malloc(8u << 20);
    memset(large, 'x', 8u << 20);
    herdr.answer = large;
    herdr.answer_len = 8u << 20;
    ask(&process, SHP_MSG_HERDR_CALL, json, "{}", &answer);
    assert_int_equal(answer.code, 0);
    assert_int_equal(answer.bulk_len, 8u << 20);
    rig_answer_fini(&answer);
    long relay = memory_kib(&process, "status", "VmHWM:");

    char *path = make_session(process.home, 4u << 20);
    snprintf(json, sizeof json, "{\"path\":\"%s\"}", path);
    uint64_t before = uv_hrtime();
    ask(&process, SHP_MSG_TRANSCRIPT_LATEST, json, NULL, &answer);
    uint64_t took = uv_hrtime() - before;
    assert_int_equal(answer.code, 0);
    assert_int_equal(answer.bulk_len, 4u << 20);
    rig_answer_fini(&answer);
    long reading = memory_kib(&process, "status", "VmHWM:");

    print_message("memory in KiB: idle %ld, 500 agents %ld, 8 MiB relay %ld, 20 MiB line in a "
                  "1 GiB file %ld (%llu ms)\n",
                  idle, roster, relay, reading, (unsigned long long)(took / 1000000));
    if (MEASURED && idle >= 0) {
        /* Nothing here may need a thread: there are accounts that cannot make one. */
        assert_int_equal(memory_kib(&process, "status", "Threads:"), 1);
        assert_true(idle <= PSS_IDLE_KIB);
        assert_true(reading <= PSS_LOAD_KIB);
    }
    free(snapshot);
    free(large);
    free(path);
    free(socket);
    uv_close((uv_handle_t *)&herdr.listener, NULL);
    finish(&process);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_starts_answers_and_ends_with_the_link),
        cmocka_unit_test(a_signal_ends_it_in_order),
        cmocka_unit_test(foreign_input_ends_it),
        cmocka_unit_test(self_check_compares_its_own_file),
        cmocka_unit_test(memory_stays_small_under_load),
    };
    return cmocka_run_group_tests(tests, need_helper, NULL);
}
