/*
 * `shepherdr controller --stdio` as pi-ext runs it: a real child over pipes, this test as the
 * peer. The world around it (Herdr, a worker's receiver) is the rig's, without the rig's own
 * controller.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "controller/json.h"
#include "protocol/messages.h"
#include "tests/support/controller_rig.h"
#include "tests/support/temp_root.h"
#include "transport/link.h"

#define OPERATION "0123456789abcdef0123456789abcdef"
#define PUSHES_MAX 8

struct peer {
    struct shp_link *link; /* NULL: ended */
    bool established, ended;
    long long exit_status;
    unsigned progress;
    unsigned pushes;
    char push_ids[PUSHES_MAX][65];
    char *push_text;
    bool refuse_push; /* "it is there already" */
    uint32_t push_stream;
};

struct answer {
    bool done;
    int code;
    struct shp_error error;
    cJSON *json;
    char *bulk;
};

static struct controller_rig rig;
static struct peer peer;

static void on_established(struct shp_link *link, const char *hello, void *user)
{
    (void)link;
    (void)user;
    cJSON *json = cJSON_Parse(hello);
    assert_string_equal(json_string(json, "role"), "controller");
    cJSON_Delete(json);
    peer.established = true;
}

static void answer_push(struct shp_link *link, uint32_t stream)
{
    char json[32];
    snprintf(json, sizeof json, "{\"accepted\":%s}", peer.refuse_push ? "false" : "true");
    assert_int_equal(shp_link_respond(link, stream, json, NULL, 0), 0);
    peer.pushes++;
}

static void on_request(struct shp_link *link, const struct shp_link_request *request,
                       const char *json, bool fin, void *user)
{
    (void)user;
    assert_int_equal(request->message, SHP_MSG_REPORT_PUSH);
    cJSON *params = cJSON_Parse(json);
    assert_true(peer.pushes < PUSHES_MAX);
    snprintf(peer.push_ids[peer.pushes], 65, "%s", json_string(params, "report"));
    assert_true(cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(params, "details")));
    cJSON_Delete(params);
    free(peer.push_text);
    peer.push_text = calloc(1, 1);
    if (fin)
        answer_push(link, request->stream);
}

static void on_bulk(struct shp_link *link, uint32_t stream, const uint8_t *data, size_t len,
                    bool fin, void *user)
{
    (void)user;
    shp_link_consume(link, stream, len);
    size_t before = strlen(peer.push_text);
    peer.push_text = realloc(peer.push_text, before + len + 1);
    memcpy(peer.push_text + before, data, len);
    peer.push_text[before + len] = 0;
    if (fin)
        answer_push(link, stream);
}

static void on_notification(struct shp_link *link, uint32_t stream, uint16_t message,
                            const char *json, bool fin, void *user)
{
    (void)link;
    (void)stream;
    (void)fin;
    (void)user;
    assert_int_equal(message, SHP_MSG_AGENTS_PROGRESS);
    assert_non_null(strstr(json, OPERATION));
    peer.progress++;
}

static void on_closed(struct shp_link *link, const struct shp_error *error,
                      const struct shp_transport_end *end, void *user)
{
    (void)link;
    (void)error;
    (void)user;
    peer.link = NULL;
    peer.exit_status = end->exited ? end->exit_status : -1;
    if (end->term_signal)
        peer.exit_status = -end->term_signal;
    peer.ended = true;
}

static void start(void)
{
    static const char hello[] = "{\"versions\":[1,1],\"role\":\"pi_ext\"}";
    char *program = temp_path(rig.program_dir, "shepherdr");
    char *argv[] = {program, "controller", "--stdio", NULL};
    struct shp_process_options process = {.argv = argv};
    struct shp_link_options options = {
        .session = {.role = SHP_ROLE_INITIATOR,
                    .suite = SHP_SUITE_PLAIN,
                    .hello_json = hello,
                    .hello_len = sizeof hello - 1},
        .callbacks = {.on_established = on_established,
                      .on_request = on_request,
                      .on_bulk = on_bulk,
                      .on_notification = on_notification,
                      .on_closed = on_closed},
    };
    free(peer.push_text);
    memset(&peer, 0, sizeof peer);
    assert_int_equal(shp_transport_process_new(&options.transport, &rig.loop, &process), 0);
    assert_int_equal(shp_link_open(&peer.link, &rig.loop, &options), 0);
    controller_until(&rig, &peer.established);
    free(program);
}

static void stop(void)
{
    if (peer.link)
        shp_link_close(peer.link, 0, "done");
    controller_until(&rig, &peer.ended);
}

/* A copy, because the program finds helper and extension beside itself. */
static void copy_program(void)
{
    size_t len = 0;
    char *bytes = temp_read(SHP_TEST_BIN_DIR "/shepherdr", &len);
    char *path = temp_path(rig.program_dir, "shepherdr");
    temp_write(path, bytes, len);
    assert_int_equal(chmod(path, 0700), 0);
    free(bytes);
    free(path);
}

static int setup(void **state)
{
    (void)state;
    controller_rig_open(&rig, SHP_TEST_BIN_DIR);
    copy_program();
    start();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stop();
    assert_int_equal(peer.exit_status, 0); /* also: nothing leaked, its loop was empty */
    free(peer.push_text);
    peer.push_text = NULL;
    controller_rig_close(&rig);
    return 0;
}

static void on_answer(struct shp_link *link, const struct shp_link_answer *from, void *user)
{
    (void)link;
    struct answer *out = user;
    assert_false(out->done);
    if (from->error) {
        out->error = *from->error;
        out->code = from->error->code;
    }
    out->json = cJSON_Parse(from->json);
    out->bulk = calloc(1, from->bulk_len + 1);
    if (from->bulk_len > 0)
        memcpy(out->bulk, from->bulk, from->bulk_len);
    out->done = true;
}

static uint32_t ask(uint16_t message, const char *json, const char *bulk, struct answer *out)
{
    uint32_t stream = 0;
    memset(out, 0, sizeof *out);
    assert_int_equal(shp_link_request(peer.link, message, NULL, 60000, json, (const uint8_t *)bulk,
                                      bulk ? strlen(bulk) : 0, on_answer, out, &stream),
                     0);
    return stream;
}

static void call(uint16_t message, const char *json, const char *bulk, struct answer *out)
{
    ask(message, json, bulk, out);
    controller_until(&rig, &out->done);
}

static void answer_fini(struct answer *out)
{
    cJSON_Delete(out->json);
    free(out->bulk);
    memset(out, 0, sizeof *out);
}

static void expect_code(const struct answer *out, int code)
{
    assert_true(out->done);
    assert_string_equal(shp_code_name(out->code), shp_code_name(code));
}

static char *session_json(void)
{
    cJSON *json = cJSON_CreateObject();
    char *agent_dir = temp_path(rig.root, ".pi/agent");
    char *file = temp_path(rig.root, "controlling.jsonl");
    char *bin = temp_path(rig.root, "herdr");
    json_add(json, "pi_session_id", "controlling-session");
    json_add(json, "pi_session_file", file);
    json_add(json, "header", "head 2026");
    json_add(json, "agent_dir", agent_dir);
    json_add(json, "home", rig.root);
    json_add(json, "cwd", rig.root);
    json_add(json, "mode", "tui");
    json_add(json, "herdr_socket", rig.world.socket);
    json_add(json, "herdr_bin", bin);
    json_add(json, "herdr_pane", "w1:p0");
    json_add(json, "herdr_workspace", "w1");
    cJSON_AddTrueToObject(json, "eager");
    char *text = json_print(json);
    cJSON_Delete(json);
    free(agent_dir);
    free(file);
    free(bin);
    return text;
}

static void open_session(struct answer *out)
{
    char *json = session_json();
    call(SHP_MSG_SESSION_OPEN, json, NULL, out);
    free(json);
}

static void opened(void)
{
    struct answer out;
    open_session(&out);
    expect_code(&out, 0);
    assert_true(json_bool(out.json, "durable"));
    assert_int_equal(strlen(json_string(out.json, "installation")), 32);
    answer_fini(&out);
}

#define CALL(fields, has_message)                                                                  \
    "{\"operation\":\"" OPERATION "\",\"has_message\":" has_message ",\"call\":{" fields "}}"
#define SPAWN "\"action\":\"spawn\",\"agent_type\":\"explorer\",\"label\":\"look around\""

/* ---- tests --------------------------------------------------------------------------------- */

static void what_comes_before_its_session_is_refused(void **state)
{
    (void)state;
    struct answer out;
    call(SHP_MSG_AGENTS_CALL, CALL("\"action\":\"list\"", "false"), NULL, &out);
    expect_code(&out, SHP_CODE_INVALID_PARAMS);
    assert_non_null(strstr(out.error.cause, "session_open"));
    answer_fini(&out);
    call(SHP_MSG_SESSION_OPEN, "{}", NULL, &out);
    expect_code(&out, SHP_CODE_INVALID_PARAMS);
    answer_fini(&out);
    opened();
    open_session(&out);
    expect_code(&out, SHP_CODE_INVALID_PARAMS);
    assert_non_null(strstr(out.error.cause, "already"));
    answer_fini(&out);
}

static void strange_requests_are_refused(void **state)
{
    (void)state;
    struct answer out;
    opened();
    call(SHP_MSG_HERDR_CALL, "{\"session\":\"x\"}", "{}", &out);
    expect_code(&out, SHP_CODE_UNKNOWN_MESSAGE);
    answer_fini(&out);
    call(SHP_MSG_AGENTS_CALL, "{\"operation\":\"short\",\"has_message\":false,\"call\":{}}", NULL,
         &out);
    expect_code(&out, SHP_CODE_INVALID_PARAMS);
    answer_fini(&out);
    call(SHP_MSG_LEDGER_MARK, "{\"state\":\"eaten\",\"reports\":[]}", NULL, &out);
    expect_code(&out, SHP_CODE_INVALID_PARAMS);
    answer_fini(&out);
    call(SHP_MSG_LEDGER_MARK, "{\"state\":\"confirmed\",\"reports\":[\"nobody-knows-it\"]}", NULL,
         &out);
    expect_code(&out, 0);
    answer_fini(&out);
    call(SHP_MSG_AGENTS_CALL, CALL("\"action\":\"fly\"", "false"), NULL, &out);
    expect_code(&out, SHP_CODE_UNKNOWN_ACTION);
    answer_fini(&out);
}

static void a_text_above_the_limit_is_refused(void **state)
{
    (void)state;
    struct answer out;
    size_t len = SHP_LIMIT_MESSAGE_TEXT_BYTES_MAX + 1;
    char *text = malloc(len + 1);
    memset(text, 'x', len);
    text[len] = 0;
    opened();
    call(SHP_MSG_AGENTS_CALL, CALL("\"action\":\"send\",\"target\":\"scout\"", "true"), text, &out);
    expect_code(&out, SHP_CODE_MESSAGE_TOO_LARGE);
    answer_fini(&out);
    free(text);
}

static void settle_at_once(enum world_step step, void *user)
{
    (void)user;
    if (step == WORLD_SETTLEMENT && !rig.world.settled)
        world_settle(&rig.world);
}

static void a_call_tells_progress_and_its_result(void **state)
{
    (void)state;
    struct answer out;
    rig.world.on_step = settle_at_once;
    opened();
    call(SHP_MSG_AGENTS_CALL, CALL(SPAWN, "true"), "Look.", &out);
    expect_code(&out, 0);
    assert_string_equal(json_string(out.json, "bulk_field"), "reply");
    assert_string_equal(out.bulk, WORLD_REPLY);
    assert_true(peer.progress >= 2);
    assert_int_equal(peer.pushes, 0);
    answer_fini(&out);
}

static bool pushed(struct controller_rig *of)
{
    (void)of;
    return peer.pushes > 0;
}

static bool delivered(struct controller_rig *of)
{
    return of->world.count[WORLD_SETTLEMENT] > 0;
}

static void mark(const char *state, const char *id)
{
    char json[256];
    struct answer out;
    snprintf(json, sizeof json, "{\"state\":\"%s\",\"reports\":[\"%s\"]}", state, id);
    call(SHP_MSG_LEDGER_MARK, json, NULL, &out);
    expect_code(&out, 0);
    answer_fini(&out);
}

/* Canceling the call's stream ends the waiting, not the work. */
static void the_result_of_a_call_given_up_is_pushed(void **state)
{
    (void)state;
    struct answer out;
    opened();
    uint32_t stream = ask(SHP_MSG_AGENTS_CALL, CALL(SPAWN, "true"), "Look.", &out);
    controller_until_true(&rig, delivered);
    shp_link_cancel(peer.link, stream, SHP_CODE_CANCELED);
    controller_until(&rig, &out.done);
    expect_code(&out, SHP_CODE_CANCELED);
    answer_fini(&out);
    controller_linger(&rig, 200);
    world_settle(&rig.world);
    controller_until_true(&rig, pushed);
    assert_non_null(strstr(peer.push_text, WORLD_REPLY));
    /* The conversation dropped it: again, under the same id. */
    peer.pushes = 0;
    char id[65];
    memcpy(id, peer.push_ids[0], sizeof id);
    mark("absent", id);
    controller_until_true(&rig, pushed);
    assert_string_equal(peer.push_ids[0], id);
    peer.pushes = 0;
    mark("provisional", id);
    mark("confirmed", id);
    controller_linger(&rig, 300);
    assert_int_equal(peer.pushes, 0);
    /* The next controller has nothing to say. */
    stop();
    assert_int_equal(peer.exit_status, 0);
    start();
    opened();
    controller_linger(&rig, 3500);
    assert_int_equal(peer.pushes, 0);
}

/* A crash of the controller: held results come again until the conversation has them. */
static void an_unconfirmed_result_is_pushed_by_the_next_controller(void **state)
{
    (void)state;
    struct answer out;
    rig.world.on_step = settle_at_once;
    opened();
    call(SHP_MSG_AGENTS_CALL, CALL(SPAWN, "true"), "Look.", &out);
    expect_code(&out, 0);
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(out.json, "value");
    char id[65];
    snprintf(id, sizeof id, "%s", json_string(value, "report"));
    answer_fini(&out);
    stop();
    start();
    peer.refuse_push = true; /* the tool's result stands in the session */
    opened();
    controller_until_true(&rig, pushed);
    assert_string_equal(peer.push_ids[0], id);
    stop();
    start();
    opened();
    controller_linger(&rig, 3500);
    assert_int_equal(peer.pushes, 0);
}

/* A store whose lock another process holds. */
static void a_second_controller_of_the_session_is_refused(void **state)
{
    (void)state;
    struct answer out;
    controller_start(&rig); /* the same session, in this process */
    open_session(&out);
    expect_code(&out, SHP_CODE_SESSION_IN_USE);
    assert_true(*out.error.cause != 0);
    answer_fini(&out);
    /* Once it has ended, the same controller serves. */
    controller_stop(&rig);
    opened();
}

/* The end of the input while everything is under way: it ends, and quickly. */
static const cJSON *row_of(cJSON **rows, const struct answer *out, const char *id)
{
    expect_code(out, 0);
    cJSON_Delete(*rows);
    *rows = cJSON_Parse(out->bulk);
    assert_int_equal(cJSON_GetArraySize(*rows), (int)json_number(out->json, "machines", -1));
    return json_find(*rows, "id", id);
}

#define BOX "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static void machines_are_told_read_again_and_connected_anew(void **state)
{
    struct answer out;
    cJSON *rows = NULL;
    (void)state;
    opened();
    call(SHP_MSG_AGENTS_CALL, CALL("\"action\":\"list\"", "false"), NULL, &out);
    answer_fini(&out);
    call(SHP_MSG_MACHINES_GET, "{}", NULL, &out);
    assert_string_equal(json_string(row_of(&rows, &out, "local"), "status"), "connected");
    assert_null(json_find(rows, "id", BOX));
    answer_fini(&out);

    controller_rig_catalog(&rig, "[{\"id\":\"" BOX "\",\"label\":\"box\",\"target\":\"nobody@x\","
                                 "\"session\":\"default\",\"enabled\":false}]");
    call(SHP_MSG_MACHINES_GET, "{\"refresh\":true}", NULL, &out);
    assert_string_equal(json_string(row_of(&rows, &out, BOX), "status"), "disabled");
    answer_fini(&out);
    call(SHP_MSG_MACHINES_GET, "{\"reconnect\":\"local\"}", NULL, &out);
    assert_string_equal(json_string(row_of(&rows, &out, "local"), "status"), "connected");
    answer_fini(&out);
    cJSON_Delete(rows);

    call(SHP_MSG_MACHINES_GET, "{\"reconnect\":\"nobody\"}", NULL, &out);
    expect_code(&out, SHP_CODE_MACHINE_UNKNOWN);
    answer_fini(&out);
    call(SHP_MSG_MACHINES_GET, "{\"reconnect\":\"" BOX "\"}", NULL, &out);
    expect_code(&out, SHP_CODE_MACHINE_DISABLED);
    answer_fini(&out);
    controller_rig_catalog(&rig, "{}");
    call(SHP_MSG_MACHINES_GET, "{\"refresh\":true}", NULL, &out);
    expect_code(&out, SHP_CODE_CATALOG_INVALID);
    answer_fini(&out);
}

static void the_end_of_the_link_ends_everything(void **state)
{
    (void)state;
    struct answer list, spawn;
    char *json = session_json();
    struct answer open;
    ask(SHP_MSG_SESSION_OPEN, json, NULL, &open);
    free(json);
    ask(SHP_MSG_AGENTS_CALL,
        "{\"operation\":\"1123456789abcdef0123456789abcdef\",\"has_message\":false,"
        "\"call\":{\"action\":\"list\"}}",
        NULL, &list);
    ask(SHP_MSG_AGENTS_CALL, CALL(SPAWN, "true"), "Look.", &spawn);
    shp_link_close(peer.link, 0, "bye");
    controller_until(&rig, &peer.ended);
    assert_true(open.done && list.done && spawn.done);
    assert_int_equal(peer.exit_status, 0);
    assert_int_equal(rig.world.tabs_len, 0);
    answer_fini(&open);
    answer_fini(&list);
    answer_fini(&spawn);
}

static void the_end_of_the_link_at_the_first_message(void **state)
{
    (void)state;
    char *json = session_json();
    struct answer open;
    ask(SHP_MSG_SESSION_OPEN, json, NULL, &open);
    free(json);
    uv_run(&rig.loop, UV_RUN_NOWAIT);
    shp_link_close(peer.link, 0, "bye");
    controller_until(&rig, &peer.ended);
    answer_fini(&open);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_comes_before_its_session_is_refused),
        TEST(strange_requests_are_refused),
        TEST(a_text_above_the_limit_is_refused),
        TEST(a_call_tells_progress_and_its_result),
        TEST(the_result_of_a_call_given_up_is_pushed),
        TEST(an_unconfirmed_result_is_pushed_by_the_next_controller),
        TEST(a_second_controller_of_the_session_is_refused),
        TEST(machines_are_told_read_again_and_connected_anew),
        TEST(the_end_of_the_link_ends_everything),
        TEST(the_end_of_the_link_at_the_first_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
