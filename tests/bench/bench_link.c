/*
 * Drives the controller's own path (fleet, machine, link, ssh, helper) for `make bench`: commands
 * on standard input, one at a time, each answered by one line of JSON. Durations are microseconds.
 *
 *   open N          N machines of the catalog, all at once: from the first start to the last ready.
 *                   A new fleet each time: the bound on logins in a minute begins anew
 *   want            the open machines are wanted from now on: a lost link is made anew
 *   again           when each of them has another link than at `want`
 *   shut            end the fleet
 *   identity        the helper's process id on the first machine
 *   calls N         Herdr calls of 200 bytes, one after the other
 *   relay N BYTES   Herdr calls with an answer of BYTES, as the link delivers them
 *   parsed N BYTES  the same, read as JSON as every caller of herdr_call gets it
 *   busy N BYTES    as relay, and all the while a ping of the helper every PING_EVERY_MS
 *   pings N         pings of the helper, one after the other
 *   cancel N BYTES  while one answer of BYTES is under way, N others are given up half way; each
 *                   time a ping is sent right behind the cancel
 *   latest N PATH   latest reply of a transcript
 */
#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "controller/context.h"
#include "controller/fleet/fleet.h"
#include "controller/json.h"
#include "controller/routing/herdr.h"
#include "protocol/messages.h"
#include "tests/bench/bench_command.h"

#define REQUEST_BYTES 200
#define CALL_TIMEOUT_MS 60000
#define PING_EVERY_MS 5
#define CANCEL_EVERY_MS 500
#define PINGS_MAX 100000
#define LINE_BYTES_MAX 8192
#define BIG_CALL_BYTES 128

struct bench {
    uv_loop_t loop;
    uv_poll_t input;
    uv_timer_t ping;
    struct context context;
    struct shp_artifacts *artifacts;
    struct fleet *fleet;
    char line[LINE_BYTES_MAX];
    size_t line_len;
    struct bench_command command;
    struct bench_samples samples;
    struct bench_samples pings;
    uint64_t started_ns;
    uint64_t ping_ns; /* 0: none is under way */
    long left;
    uint32_t kept;     /* stream of the answer that stays under way; 0: none */
    uint32_t given_up; /* of the one that will be given up; 0: none */
    size_t wanted;     /* machines that are to be ready */
    size_t opened;     /* of the last open */
    bool renewing;     /* a link may be lost: `want` was told */
    bool again;        /* `again` waits */
    bool under_way;
};

static void failed(const char *what, const struct shp_error *error)
{
    char text[SHP_ERROR_CAUSE_MAX + 128];
    snprintf(text, sizeof(text), "%s (%s): %s", shp_code_name(error->code), error->step,
             error->cause);
    bench_die(what, text);
}

static struct machine *first(const struct bench *bench)
{
    if (!bench->fleet || bench->fleet->len == 0)
        bench_die("bench_link", "no machine is open");
    return bench->fleet->items[0];
}

static void done(struct bench *bench)
{
    bench->under_way = false;
    bench_samples_print(&bench->samples);
}

/* ---- open and shut ------------------------------------------------------------------------- */

static void renewed(struct bench *bench)
{
    for (size_t i = 0; i < bench->opened; i++) {
        const struct machine *machine = bench->fleet->items[i];
        if (machine->state != MACHINE_CONNECTED || machine->generation < 2)
            return;
    }
    bench->again = false;
    done(bench);
}

static void on_state(struct machine *machine, void *user)
{
    struct bench *bench = user;
    if (bench->again)
        renewed(bench);
    if (machine->state == MACHINE_WAITING && !bench->renewing)
        failed("open", &machine->reason);
    if (machine->state != MACHINE_CONNECTED || bench->wanted == 0)
        return;
    for (size_t i = 0; i < bench->wanted; i++)
        if (bench->fleet->items[i]->state != MACHINE_CONNECTED)
            return;
    size_t uploads = 0;
    for (size_t i = 0; i < bench->wanted; i++)
        uploads += bench->fleet->items[i]->seen.uploaded;
    printf("{\"us\":[%.1f],\"uploads\":%zu}\n",
           (double)(bench_now_ns() - bench->started_ns) / 1000.0, uploads);
    fflush(stdout);
    bench->wanted = 0;
    bench->under_way = false;
}

/* The catalog is read before the clock starts: a session reads it once, not per connect. */
static void on_catalog(struct fleet *fleet, const struct shp_error *error, void *user)
{
    struct bench *bench = user;
    size_t count = (size_t)bench_command_number(&bench->command, 1);
    if (error)
        failed("open", error);
    if (count == 0 || count > fleet->len)
        bench_die("open", "not that many machines in the catalog");
    bench->wanted = count;
    bench->opened = count;
    bench->started_ns = bench_now_ns();
    for (size_t i = 0; i < count; i++)
        machine_connect(fleet->items[i]);
}

static void open_fleet(struct bench *bench)
{
    static const char installation[] = "00000000000000000000000000000001";
    struct machine_events events = {.on_state = on_state, .user = bench};
    if (bench->fleet)
        bench_die("open", "a fleet is open");
    bench->fleet =
        fleet_new(&bench->loop, &bench->context, bench->artifacts, installation, false, &events);
    fleet_refresh(bench->fleet, on_catalog, bench);
}

static void on_fleet_closed(struct fleet *fleet, void *user)
{
    struct bench *bench = user;
    fleet_free(fleet);
    bench->fleet = NULL;
    done(bench);
}

static void want(struct bench *bench)
{
    first(bench);
    bench->renewing = true;
    for (size_t i = 0; i < bench->opened; i++)
        machine_want(bench->fleet->items[i], true);
    bench_samples_start(&bench->samples, 0);
    done(bench);
}

static void wait_again(struct bench *bench)
{
    if (!bench->renewing)
        bench_die("again", "no machine is wanted");
    bench_samples_start(&bench->samples, 0);
    bench->again = true;
    renewed(bench);
}

/* ---- calls --------------------------------------------------------------------------------- */

static void next(struct bench *bench);

static void one_done(struct bench *bench, const struct shp_error *error)
{
    if (error)
        failed(bench->command.word[0], error);
    bench_samples_add(&bench->samples, bench_now_ns() - bench->started_ns);
    bench->left--;
    next(bench);
}

static void on_herdr(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    one_done(user, answer->error);
}

static void on_relayed(struct machine *machine, const struct machine_answer *answer, void *user)
{
    (void)machine;
    struct bench *bench = user;
    if (!answer->error && answer->bulk_len + 1 != (size_t)bench_command_number(&bench->command, 2))
        bench_die("relay", "the answer has another length");
    one_done(bench, answer->error);
}

static void on_pinged(struct machine *machine, const struct machine_answer *answer, void *user)
{
    (void)machine;
    one_done(user, answer->error);
}

static void on_latest(struct machine *machine, const struct machine_answer *answer, void *user)
{
    (void)machine;
    if (!answer->error && (!json_bool(answer->result, "found") || answer->bulk_len == 0))
        bench_die("latest", "no reply was found");
    one_done(user, answer->error);
}

/* {"id":"shepherdr","method":"ping","params":{"pad":"x"}} and a newline in REQUEST_BYTES. */
static cJSON *small_params(void)
{
    static const char frame[] =
        "{\"id\":\"shepherdr\",\"method\":\"ping\",\"params\":{\"pad\":\"\"}}\n";
    char pad[REQUEST_BYTES];
    size_t len = REQUEST_BYTES - (sizeof(frame) - 1);
    memset(pad, 'x', len);
    pad[len] = 0;
    cJSON *params = cJSON_CreateObject();
    json_add(params, "pad", pad);
    return params;
}

/* A call of Herdr whose answer has as many bytes as the command says. */
static size_t big_call(const struct bench *bench, char line[BIG_CALL_BYTES])
{
    return (size_t)snprintf(line, BIG_CALL_BYTES,
                            "{\"id\":\"shepherdr\",\"method\":\"big\",\"params\":{\"bytes\":%ld}}",
                            bench_command_number(&bench->command, 2));
}

static void ask(struct bench *bench)
{
    const struct bench_command *command = &bench->command;
    struct machine *machine = first(bench);
    const char *name = command->word[0];
    if (strcmp(name, "calls") == 0) {
        herdr_call(machine, "ping", small_params(), CALL_TIMEOUT_MS, on_herdr, bench);
    } else if (strcmp(name, "pings") == 0) {
        machine_request(machine, SHP_MSG_IDENTITY_GET, NULL, CALL_TIMEOUT_MS, NULL, NULL, 0,
                        on_pinged, bench);
    } else if (strcmp(name, "latest") == 0) {
        cJSON *params = cJSON_CreateObject();
        json_add(params, "path", command->word[2]);
        machine_request(machine, SHP_MSG_TRANSCRIPT_LATEST, NULL, CALL_TIMEOUT_MS, params, NULL, 0,
                        on_latest, bench);
    } else if (strcmp(name, "parsed") == 0) {
        cJSON *params = cJSON_CreateObject();
        cJSON_AddNumberToObject(params, "bytes", (double)bench_command_number(command, 2));
        herdr_call(machine, "big", params, CALL_TIMEOUT_MS, on_herdr, bench);
    } else {
        char line[BIG_CALL_BYTES];
        size_t len = big_call(bench, line);
        machine_request(machine, SHP_MSG_HERDR_CALL, NULL, CALL_TIMEOUT_MS, herdr_address(machine),
                        line, len, on_relayed, bench);
    }
}

static void busy_done(struct bench *bench)
{
    fputs("{\"us\":", stdout);
    bench_samples_write(&bench->samples, stdout);
    fputs(",\"pings\":", stdout);
    bench_samples_write(&bench->pings, stdout);
    fputs("}\n", stdout);
    fflush(stdout);
    bench->under_way = false;
}

static void next(struct bench *bench)
{
    bool busy = strcmp(bench->command.word[0], "busy") == 0;
    if (bench->left > 0) {
        bench->started_ns = bench_now_ns();
        ask(bench);
    } else if (!busy) {
        done(bench);
    } else {
        uv_timer_stop(&bench->ping);
        if (bench->ping_ns == 0)
            busy_done(bench);
    }
}

static void on_pong(struct machine *machine, const struct machine_answer *answer, void *user)
{
    (void)machine;
    struct bench *bench = user;
    if (answer->error)
        failed("ping", answer->error);
    bench_samples_add(&bench->pings, bench_now_ns() - bench->ping_ns);
    bench->ping_ns = 0;
    if (bench->left == 0)
        busy_done(bench);
}

static void on_ping_due(uv_timer_t *timer)
{
    struct bench *bench = timer->data;
    if (bench->ping_ns != 0)
        return;
    bench->ping_ns = bench_now_ns();
    machine_request(first(bench), SHP_MSG_IDENTITY_GET, NULL, CALL_TIMEOUT_MS, NULL, NULL, 0,
                    on_pong, bench);
}

/* ---- cancels ------------------------------------------------------------------------------- */

/* Both answers end by our cancel and by nothing else. */
static void on_given_up(struct shp_link *link, const struct shp_link_answer *answer, void *user)
{
    (void)link;
    struct bench *bench = user;
    if (!answer->error)
        bench_die("cancel", "the answer came before the cancel");
    if (answer->error->code != SHP_CODE_CANCELED)
        failed("cancel", answer->error);
    if (bench->left == 0 && bench->kept == 0)
        done(bench);
}

static uint32_t ask_big(struct bench *bench)
{
    struct machine *machine = first(bench);
    cJSON *address = herdr_address(machine);
    char *json = cJSON_PrintUnformatted(address);
    char line[BIG_CALL_BYTES];
    size_t len = big_call(bench, line);
    uint32_t stream;
    if (!json || shp_link_request(machine->link, SHP_MSG_HERDR_CALL, NULL, CALL_TIMEOUT_MS, json,
                                  (const uint8_t *)line, len, on_given_up, bench, &stream) != 0)
        bench_die("cancel", "the link takes no request");
    cJSON_free(json);
    cJSON_Delete(address);
    return stream;
}

static void on_pong_behind_cancel(struct machine *machine, const struct machine_answer *answer,
                                  void *user)
{
    struct bench *bench = user;
    if (answer->error)
        failed("cancel", answer->error);
    bench_samples_add(&bench->samples, bench_now_ns() - bench->ping_ns);
    bench->ping_ns = 0;
    if (--bench->left > 0)
        return;
    uv_timer_stop(&bench->ping);
    uint32_t kept = bench->kept;
    bench->kept = 0;
    shp_link_cancel(machine->link, kept, SHP_CODE_CANCELED);
}

static void on_cancel_due(uv_timer_t *timer)
{
    struct bench *bench = timer->data;
    struct machine *machine = first(bench);
    if (bench->ping_ns != 0)
        return;
    if (bench->given_up == 0) {
        bench->given_up = ask_big(bench);
        return;
    }
    bench->ping_ns = bench_now_ns();
    shp_link_cancel(machine->link, bench->given_up, SHP_CODE_CANCELED);
    bench->given_up = 0;
    machine_request(machine, SHP_MSG_IDENTITY_GET, NULL, CALL_TIMEOUT_MS, NULL, NULL, 0,
                    on_pong_behind_cancel, bench);
}

static void start_cancels(struct bench *bench)
{
    bench->kept = ask_big(bench);
    bench->given_up = 0;
    uv_timer_start(&bench->ping, on_cancel_due, CANCEL_EVERY_MS, CANCEL_EVERY_MS);
}

static void on_identity(struct machine *machine, const struct machine_answer *answer, void *user)
{
    (void)machine;
    struct bench *bench = user;
    if (answer->error)
        failed("identity", answer->error);
    printf("{\"pid\":%.0f}\n", json_number(answer->result, "pid", 0));
    fflush(stdout);
    bench->under_way = false;
}

/* ---- commands ------------------------------------------------------------------------------ */

static bool repeats(const char *name)
{
    static const char *const names[] = {"calls", "relay",  "parsed", "busy",
                                        "pings", "cancel", "latest"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static void start_command(struct bench *bench, char *line)
{
    if (bench->under_way)
        bench_die("bench_link", "a command is still under way");
    bench_command_split(&bench->command, line);
    const char *name = bench->command.words > 0 ? bench->command.word[0] : "";
    bench->under_way = true;
    if (strcmp(name, "open") == 0) {
        open_fleet(bench);
    } else if (strcmp(name, "want") == 0) {
        want(bench);
    } else if (strcmp(name, "again") == 0) {
        wait_again(bench);
    } else if (strcmp(name, "shut") == 0) {
        bench->renewing = false;
        bench_samples_start(&bench->samples, 0);
        first(bench);
        fleet_close(bench->fleet, on_fleet_closed, bench);
    } else if (strcmp(name, "identity") == 0) {
        machine_request(first(bench), SHP_MSG_IDENTITY_GET, NULL, CALL_TIMEOUT_MS, NULL, NULL, 0,
                        on_identity, bench);
    } else if (repeats(name)) {
        bench->left = bench_command_number(&bench->command, 1);
        bench_samples_start(&bench->samples, (size_t)bench->left);
        if (strcmp(name, "busy") == 0) {
            bench_samples_start(&bench->pings, PINGS_MAX);
            uv_timer_start(&bench->ping, on_ping_due, PING_EVERY_MS, PING_EVERY_MS);
        }
        if (strcmp(name, "cancel") == 0)
            start_cancels(bench);
        else
            next(bench);
    } else {
        bench_die(name, "unknown command");
    }
}

static void on_input_fleet_closed(struct fleet *fleet, void *user)
{
    struct bench *bench = user;
    fleet_free(fleet);
    bench->fleet = NULL;
}

static void input_end(struct bench *bench)
{
    uv_poll_stop(&bench->input);
    uv_close((uv_handle_t *)&bench->input, NULL);
    uv_close((uv_handle_t *)&bench->ping, NULL);
    if (bench->fleet)
        fleet_close(bench->fleet, on_input_fleet_closed, bench);
}

static void on_input(uv_poll_t *poll, int status, int events)
{
    struct bench *bench = poll->data;
    (void)events;
    ssize_t got = status == 0 ? read(STDIN_FILENO, bench->line + bench->line_len,
                                     sizeof(bench->line) - 1 - bench->line_len)
                              : 0;
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0) {
        input_end(bench);
        return;
    }
    bench->line_len += (size_t)got;
    bench->line[bench->line_len] = 0;
    if (bench->line[bench->line_len - 1] != '\n')
        return;
    bench->line_len = 0;
    start_command(bench, bench->line);
}

int main(int argc, char **argv)
{
    static struct bench bench;
    signal(SIGPIPE, SIG_IGN);
    if (argc != 2)
        bench_die("bench_link", "usage: bench_link <directory of shepherdr-helper>");
    if (sodium_init() < 0)
        bench_die("bench_link", "libsodium cannot start");
    uv_loop_init(&bench.loop);
    context_from_environment(&bench.context);
    bench.artifacts = shp_artifacts_load(argv[1]);
    uv_timer_init(&bench.loop, &bench.ping);
    uv_poll_init(&bench.loop, &bench.input, STDIN_FILENO);
    bench.input.data = &bench;
    bench.ping.data = &bench;
    uv_poll_start(&bench.input, UV_READABLE, on_input);
    uv_run(&bench.loop, UV_RUN_DEFAULT);
    uv_loop_close(&bench.loop);
    shp_artifacts_free(bench.artifacts);
    context_fini(&bench.context);
    free(bench.samples.ns);
    free(bench.pings.ns);
    return 0;
}
