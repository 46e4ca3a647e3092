#include "bootstrap_suite.h"

#include "base/id.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <cmocka.h>
#include <sodium.h>

#define GUARD_MS 60000
#define SHELL_WORDS_MAX 6

static const char helper_script[] =
    "#!/bin/sh\n"
    "case $1 in\n"
    "self-check)\n"
    "    h=$(/usr/bin/sha256sum <\"$0\")\n"
    "    case $h in \"$2\"*) exit 0;; esac\n"
    "    echo \"shepherdr-helper: self-check: the file has another digest\" >&2\n"
    "    exit 1;;\n"
    "serve)\n"
    "    printf \"\\n@@SHP1 %s READY " RIG_BUILD "\\n\" \"$2\"\n"
    "    exec /bin/cat >/dev/null;;\n"
    "esac\n"
    "exit 2\n"
    "# ";

struct run {
    struct rig *rig;
    struct rig_result *result;
    struct shp_prelude prelude;
    struct shp_transport *transport;
    uv_timer_t timer;
    int64_t sent;
    bool over;
    size_t *running;
};

void rig_set_content(struct rig *rig, const void *content, size_t len)
{
    struct shp_artifact *artifact = &rig->artifacts.items[0];
    uint8_t digest[crypto_hash_sha256_BYTES];

    free(artifact->content);
    artifact->content = malloc(len);
    assert_non_null(artifact->content);
    memcpy(artifact->content, content, len);
    artifact->len = len;
    crypto_hash_sha256(digest, content, len);
    shp_hex_encode(artifact->digest, digest, sizeof(digest));
    snprintf(artifact->name, sizeof(artifact->name), "helper-linux-test-%.32s", artifact->digest);
}

void rig_init(struct rig *rig, size_t filler)
{
    struct utsname self;
    size_t len = sizeof(helper_script) - 1;
    char *content = malloc(len + filler + 1);

    memset(rig, 0, sizeof(*rig));
    assert_non_null(content);
    memcpy(content, helper_script, len);
    memset(content + len, 'x', filler);
    content[len + filler] = '\n';
    strcpy(rig->home, "/tmp/shp-boot-XXXXXX");
    assert_non_null(mkdtemp(rig->home));
    snprintf(rig->bin, sizeof(rig->bin), "%s/.pi/agent/shepherdr/bin", rig->home);
    rig->path = "/usr/local/bin:/usr/bin:/bin";
    assert_int_equal(uname(&self), 0);
    snprintf(rig->artifacts.items[0].system, sizeof(rig->artifacts.items[0].system), "%.15s %.15s",
             self.sysname, self.machine);
    rig->artifacts.len = 1;
    rig_set_content(rig, content, len + filler + 1);
    free(content);
}

void rig_fini(struct rig *rig)
{
    char command[256];

    free(rig->artifacts.items[0].content);
    snprintf(command, sizeof(command), "rm -rf '%s'", rig->home);
    assert_int_equal(system(command), 0);
}

const char *rig_helper_path(const struct rig *rig)
{
    static char path[400];

    snprintf(path, sizeof(path), "%s/%s", rig->bin, rig->artifacts.items[0].name);
    return path;
}

int rig_count_files(const struct rig *rig)
{
    DIR *dir = opendir(rig->bin);
    int count = 0;

    if (dir == NULL)
        return -1;
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count - 2;
}

static void take(struct run *run, enum shp_prelude_status status)
{
    if (status == SHP_PRELUDE_MORE)
        return;
    run->over = true;
    run->result->ready = status == SHP_PRELUDE_READY;
    shp_transport_close(run->transport);
}

static void on_time(uv_timer_t *timer)
{
    struct run *run = timer->data;
    size_t taken = 0;

    if (!run->over)
        take(run,
             run->prelude.feed(run->prelude.prelude, NULL, 0, &taken, false, &run->result->error));
}

static void send_output(struct run *run)
{
    const uint8_t *data;
    size_t len;

    while (!run->over && (len = run->prelude.output(run->prelude.prelude, &data)) > 0) {
        size_t part = len < 20000 ? len : 20000;
        size_t taken = shp_transport_write(run->transport, data, part);

        run->sent += (int64_t)taken;
        run->prelude.consume(run->prelude.prelude, taken);
        uv_timer_again(&run->timer);
        if (run->rig->cut_after > 0 && run->sent >= run->rig->cut_after) {
            shp_transport_close(run->transport);
            return;
        }
        if (taken < part)
            return;
    }
}

static void on_read(struct shp_transport *transport, const uint8_t *data, size_t len, void *user)
{
    struct run *run = user;
    size_t taken = 0;

    (void)transport;
    if (run->over)
        return;
    take(run,
         run->prelude.feed(run->prelude.prelude, data, len, &taken, false, &run->result->error));
    send_output(run);
}

static void on_writable(struct shp_transport *transport, void *user)
{
    (void)transport;
    send_output(user);
}

static void on_closed(struct shp_transport *transport, const struct shp_transport_end *end,
                      void *user)
{
    struct run *run = user;
    size_t taken = 0;

    if (!run->over)
        run->prelude.feed(run->prelude.prelude, NULL, 0, &taken, true, &run->result->error);
    snprintf(run->result->diagnostic, sizeof(run->result->diagnostic), "%s", end->diagnostic);
    run->prelude.free(run->prelude.prelude);
    shp_transport_free(transport);
    uv_close((uv_handle_t *)&run->timer, NULL);
    --*run->running;
}

static void start(struct run *run, uv_loop_t *loop, const char *const *shell)
{
    static const struct shp_transport_callbacks callbacks = {
        .on_read = on_read, .on_writable = on_writable, .on_closed = on_closed};
    struct rig *rig = run->rig;
    const char *argv[SHELL_WORDS_MAX + 3] = {NULL};
    char home[200];
    char path[400];
    const char *env[] = {path, rig->no_home ? NULL : home, NULL};
    struct shp_process_options options = {.argv = (char *const *)(uintptr_t)argv,
                                          .env = (char *const *)(uintptr_t)env};
    uint8_t random[16];
    char marker[33];
    char *command = NULL;
    char *line;
    struct shp_bootstrap_options bootstrap = {
        .artifacts = &rig->artifacts,
        .marker = marker,
        .build_id = RIG_BUILD,
        .helper_dir = rig->helper_dir,
        .probe_only = rig->probe_only,
        .seen = &run->result->seen,
    };
    size_t words = 0;

    randombytes_buf(random, sizeof(random));
    sodium_bin2hex(marker, sizeof(marker), random, sizeof(random));
    assert_int_equal(shp_bootstrap_new(&run->prelude, &command, &bootstrap), 0);
    line = malloc(strlen(command) + (rig->before != NULL ? strlen(rig->before) : 0) + 1);
    assert_non_null(line);
    sprintf(line, "%s%s", rig->before != NULL ? rig->before : "", command);
    free(command);
    for (; shell[words] != NULL; words++)
        argv[words] = shell[words];
    argv[words++] = "-c";
    argv[words] = line;
    snprintf(home, sizeof(home), "HOME=%s", rig->home);
    snprintf(path, sizeof(path), "PATH=%s", rig->path);
    assert_int_equal(shp_transport_process_new(&run->transport, loop, &options), 0);
    free(line);
    uv_timer_init(loop, &run->timer);
    run->timer.data = run;
    {
        uint64_t ms = rig->timeout_ms != 0 ? rig->timeout_ms : run->prelude.timeout_ms;

        uv_timer_start(&run->timer, on_time, ms, ms);
    }
    assert_int_equal(shp_transport_open(run->transport, &callbacks, run), 0);
}

static void on_guard(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("the bootstrap hangs");
}

void rig_run(struct rig *rig, const char *const *shell, struct rig_result *results, size_t count)
{
    struct run *runs = calloc(count, sizeof(*runs));
    uv_loop_t loop;
    uv_timer_t guard;
    size_t running = count;

    assert_non_null(runs);
    memset(results, 0, count * sizeof(*results));
    assert_int_equal(uv_loop_init(&loop), 0);
    uv_timer_init(&loop, &guard);
    uv_timer_start(&guard, on_guard, GUARD_MS, 0);
    for (size_t i = 0; i < count; i++) {
        runs[i] = (struct run){.rig = rig, .result = &results[i], .running = &running};
        start(&runs[i], &loop, shell);
    }
    while (running > 0)
        uv_run(&loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&guard, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    free(runs);
}

struct rig_result rig_run_once(struct rig *rig)
{
    const char *const shell[] = {"/bin/sh", NULL};
    struct rig_result result;

    rig_run(rig, shell, &result, 1);
    return result;
}
