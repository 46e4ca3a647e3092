/* A whole helper, asked by a controller: identity, directories, Herdr, files, transcripts. */
#include <setjmp.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "protocol/codec.h"
#include "protocol/messages.h"
#include "tests/support/helper_rig.h"
#include "tests/support/temp_root.h"

static struct rig rig;

static int open_rig(void **state)
{
    (void)state;
    rig_open(&rig);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

static cJSON *result_of(const struct rig_answer *answer, uint16_t message)
{
    cJSON *result = NULL;
    char field[64] = "";
    assert_int_equal(answer->code, 0);
    assert_int_equal(shp_codec_parse(&result, answer->json, strlen(answer->json)), 0);
    assert_int_equal(shp_codec_check_result(message, result, field, sizeof field), 0);
    return result;
}

static void expect_error(uint16_t message, const char *json, const void *bulk, size_t len, int code,
                         enum shp_outcome outcome)
{
    struct rig_answer answer;
    rig_call(&rig, message, json, bulk, len, &answer);
    assert_string_equal(shp_code_name(answer.code), shp_code_name(code));
    assert_int_equal(answer.outcome, outcome);
    /* An unknown message is refused below the helper, where nothing more is known. */
    if (code != SHP_CODE_UNKNOWN_MESSAGE) {
        assert_true(answer.error.step[0] != '\0');
        assert_true(answer.error.cause[0] != '\0');
    }
    rig_answer_fini(&answer);
}

/* ---- itself ------------------------------------------------------------------------------- */

static void the_hello_names_the_helper(void **state)
{
    cJSON *hello = NULL;
    (void)state;
    assert_int_equal(shp_codec_parse(&hello, rig.hello, strlen(rig.hello)), 0);
    assert_string_equal(shp_codec_string(hello, "role", ""), "helper");
    assert_string_equal(shp_codec_string(hello, "build", ""), "test-build");
    assert_string_equal(shp_codec_string(hello, "home", ""), rig.home);
    assert_int_equal(shp_codec_int(hello, "pid", 0), getpid());
    assert_true(strlen(shp_codec_string(hello, "host", "")) >= 32);
    cJSON_Delete(hello);
    assert_string_equal(rig.helper.pi_session_id, "controlling");
    assert_string_equal(rig.helper.installation, "0123456789abcdef0123456789abcdef");
}

static void identity_says_who_and_where(void **state)
{
    struct rig_answer answer;
    (void)state;
    rig_call(&rig, SHP_MSG_IDENTITY_GET, "{}", NULL, 0, &answer);
    cJSON *result = result_of(&answer, SHP_MSG_IDENTITY_GET);
    assert_string_equal(shp_codec_string(result, "home", ""), rig.home);
    assert_int_equal(shp_codec_int(result, "uid", -1), geteuid());
    assert_true(strchr(shp_codec_string(result, "system", ""), ' ') != NULL);
    cJSON_Delete(result);
    rig_answer_fini(&answer);
}

static void facts_are_read_from_files_alone(void **state)
{
    static const char package[] = "{\"name\":\"@x/pi-coding-agent\",\"version\":\"1.6.2\"}";
    static const char wrapper[] = "#!/bin/sh\nexec node '%s/pi-coding-agent/cli.js' \"$@\"\n";
    struct rig_answer answer;
    char command[4096];
    char text[2048];
    (void)state;
    snprintf(command, sizeof command,
             "cd '%s' && mkdir -p pi-coding-agent .local/bin .pi/agent/extensions "
             ".pi/agent/sessions/--a-- .pi/agent/shepherdr/ext && "
             "touch pi-coding-agent/cli.js .pi/agent/sessions/--a--/1.jsonl "
             ".pi/agent/sessions/--a--/note .pi/agent/shepherdr/ext/pi-ext-0a.mjs && "
             "echo '// HERDR_INTEGRATION_VERSION=9' >.pi/agent/extensions/herdr-agent-state.ts && "
             "echo '{\"packages\":[{\"source\":\"npm:pi-shepherdr\"}]}' >.pi/agent/settings.json",
             rig.home);
    assert_int_equal(system(command), 0);
    char *path = temp_path(rig.home, "pi-coding-agent/package.json");
    temp_write(path, package, sizeof package - 1);
    free(path);
    snprintf(text, sizeof text, wrapper, rig.home);
    path = temp_path(rig.home, ".local/bin/pi");
    temp_write(path, text, strlen(text));
    chmod(path, 0700);
    rig_call(&rig, SHP_MSG_MACHINE_FACTS, "{}", NULL, 0, &answer);
    cJSON *result = result_of(&answer, SHP_MSG_MACHINE_FACTS);
    assert_string_equal(shp_codec_string(result, "pi", ""), path);
    assert_string_equal(shp_codec_string(result, "pi_version", ""), "1.6.2");
    assert_int_equal(shp_codec_int(result, "integration", -1), 9);
    assert_int_equal(shp_codec_int(result, "sessions", -1), 1);
    assert_true(shp_codec_bool(result, "sessions_readable", false));
    assert_true(shp_codec_bool(result, "extension_installed", false));
    assert_int_equal(shp_codec_int(result, "extension_pushed", -1), 1);
    assert_true(shp_codec_bool(result, "home_owned", false));
    assert_false(shp_codec_bool(result, "read_only", true));
    assert_true(shp_codec_int(result, "disk_free_bytes", 0) > 0);
    assert_string_equal(shp_codec_string(result, "watch", ""), "events");
    cJSON_Delete(result);
    rig_answer_fini(&answer);
    free(path);
    snprintf(text, sizeof text, "{\"agent_dir\":\"%s/elsewhere\"}", rig.home);
    rig_call(&rig, SHP_MSG_MACHINE_FACTS, text, NULL, 0, &answer);
    result = result_of(&answer, SHP_MSG_MACHINE_FACTS);
    assert_null(cJSON_GetObjectItemCaseSensitive(result, "integration"));
    assert_int_equal(shp_codec_int(result, "sessions", -1), 0);
    assert_true(shp_codec_bool(result, "sessions_readable", false));
    cJSON_Delete(result);
    rig_answer_fini(&answer);
    expect_error(SHP_MSG_MACHINE_FACTS, "{\"agent_dir\":\"x\"}", NULL, 0, SHP_CODE_INVALID_PARAMS,
                 SHP_OUTCOME_REJECTED);
}

static void an_echo_has_the_same_bytes(void **state)
{
    static uint8_t bytes[1024 * 1024 + 1];
    struct rig_answer answer;
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 31 + i / 251);
    rig_call(&rig, SHP_MSG_LINK_ECHO, "{}", bytes, sizeof bytes - 1, &answer);
    assert_int_equal(answer.code, 0);
    assert_int_equal(answer.bulk_len, sizeof bytes - 1);
    assert_memory_equal(answer.bulk, bytes, sizeof bytes - 1);
    rig_answer_fini(&answer);
    rig_call(&rig, SHP_MSG_LINK_ECHO, "{}", NULL, 0, &answer);
    assert_int_equal(answer.code, 0);
    rig_answer_fini(&answer);
    expect_error(SHP_MSG_LINK_ECHO, "{}", bytes, sizeof bytes, SHP_CODE_MESSAGE_TOO_LARGE,
                 SHP_OUTCOME_REJECTED);
}

static void unknown_messages_and_bad_params_are_refused(void **state)
{
    struct rig_answer answer;
    (void)state;
    expect_error(SHP_MSG_SESSION_OPEN, "{}", NULL, 0, SHP_CODE_UNKNOWN_MESSAGE,
                 SHP_OUTCOME_REJECTED);
    expect_error(4242, "{}", NULL, 0, SHP_CODE_UNKNOWN_MESSAGE, SHP_OUTCOME_REJECTED);
    rig_call(&rig, SHP_MSG_DIRECTORY_RESOLVE, "{\"path\":\"/\",\"extra\":1}", NULL, 0, &answer);
    assert_int_equal(answer.code, SHP_CODE_INVALID_PARAMS);
    assert_non_null(strstr(answer.error.cause, "extra"));
    rig_answer_fini(&answer);
    expect_error(SHP_MSG_DIRECTORY_RESOLVE, "{}", NULL, 0, SHP_CODE_INVALID_PARAMS,
                 SHP_OUTCOME_REJECTED);
}

static void the_end_of_the_link_ends_everything(void **state)
{
    struct rig_answer answer;
    (void)state;
    rig_ask(&rig, SHP_MSG_RECEIVER_WAIT, "{\"terminal_id\":\"never\"}", NULL, 0, 60000, &answer);
    rig_linger(&rig, 1);
    shp_link_close(rig.controller, 0, "bye");
    /* close_rig asserts that no job, no connection and no handle is left. */
    rig_until(&rig, &answer.done);
    assert_int_not_equal(answer.code, 0);
    rig_answer_fini(&answer);
}

/* ---- directories -------------------------------------------------------------------------- */

static void expect_directory(const char *json, const char *wanted)
{
    struct rig_answer answer;
    rig_call(&rig, SHP_MSG_DIRECTORY_RESOLVE, json, NULL, 0, &answer);
    cJSON *result = result_of(&answer, SHP_MSG_DIRECTORY_RESOLVE);
    assert_string_equal(shp_codec_string(result, "path", ""), wanted);
    cJSON_Delete(result);
    rig_answer_fini(&answer);
}

static void directories_begin_at_home_or_base_and_must_exist(void **state)
{
    char json[1024], real_home[PATH_MAX];
    (void)state;
    char *made = temp_path(rig.home, "made up");
    char *link = temp_path(rig.home, "link");
    char *file = temp_path(rig.home, "file");
    assert_int_equal(mkdir(made, 0755), 0);
    assert_int_equal(symlink(made, link), 0);
    temp_write(file, "x", 1);
    assert_non_null(realpath(rig.home, real_home));
    expect_directory("{\"path\":\"~\"}", real_home);
    expect_directory("{\"path\":\"~/made up/..\"}", real_home);
    expect_directory("{\"path\":\"made up\"}", made);
    expect_directory("{\"path\":\"link/\"}", made);
    snprintf(json, sizeof json, "{\"path\":\".\",\"base\":\"%s\"}", made);
    expect_directory(json, made);
    expect_directory("{\"path\":\"/\"}", "/");
    expect_error(SHP_MSG_DIRECTORY_RESOLVE, "{\"path\":\"file\"}", NULL, 0,
                 SHP_CODE_DIRECTORY_MISSING, SHP_OUTCOME_REJECTED);
    expect_error(SHP_MSG_DIRECTORY_RESOLVE, "{\"path\":\"nothing\"}", NULL, 0,
                 SHP_CODE_DIRECTORY_MISSING, SHP_OUTCOME_REJECTED);
    expect_error(SHP_MSG_DIRECTORY_RESOLVE, "{\"path\":\"~other\"}", NULL, 0,
                 SHP_CODE_INVALID_PARAMS, SHP_OUTCOME_REJECTED);
    expect_error(SHP_MSG_DIRECTORY_RESOLVE, "{\"path\":\"x\",\"base\":\"y\"}", NULL, 0,
                 SHP_CODE_INVALID_PARAMS, SHP_OUTCOME_REJECTED);
    expect_error(SHP_MSG_DIRECTORY_RESOLVE, "{\"path\":\"\"}", NULL, 0, SHP_CODE_INVALID_PARAMS,
                 SHP_OUTCOME_REJECTED);
    free(made);
    free(link);
    free(file);
}

/* ---- Herdr -------------------------------------------------------------------------------- */

static struct fake_herdr herdr;
static char herdr_params[256];

static int open_herdr(void **state)
{
    open_rig(state);
    char *path = temp_path(rig.home, "h.sock");
    fake_herdr_open(&herdr, &rig.loop, path);
    snprintf(herdr_params, sizeof herdr_params, "{\"socket\":\"%s\"}", path);
    free(path);
    return 0;
}

static int close_herdr(void **state)
{
    fake_herdr_close(&rig, &herdr);
    return close_rig(state);
}

static const char ping[] = "{\"id\":\"1\",\"method\":\"ping\",\"params\":{}}";

static void a_call_is_one_line_each_way(void **state)
{
    struct rig_answer answer;
    (void)state;
    herdr.answer = "{\"id\":\"1\",\"result\":{\"type\":\"pong\",\"x\": \"\\u00e9\"}}";
    herdr.answer_len = strlen(herdr.answer);
    rig_call(&rig, SHP_MSG_HERDR_CALL, herdr_params, ping, strlen(ping), &answer);
    assert_int_equal(answer.code, 0);
    assert_string_equal(answer.json, "{}");
    assert_string_equal(answer.bulk, herdr.answer);
    assert_int_equal(herdr.line_len, strlen(ping) + 1);
    assert_int_equal(herdr.first_read, strlen(ping) + 1);
    assert_memory_equal(herdr.line, ping, strlen(ping));
    rig_answer_fini(&answer);
    /* Every call has a connection of its own. */
    rig_call(&rig, SHP_MSG_HERDR_CALL, herdr_params, ping, strlen(ping), &answer);
    assert_int_equal(herdr.connections, 2);
    rig_answer_fini(&answer);
}

static void a_large_answer_passes_under_credit(void **state)
{
    struct rig_answer answer;
    (void)state;
    size_t len = 7u << 20;
    char *text = malloc(len);
    for (size_t i = 0; i < len; i++)
        text[i] = (char)('a' + i % 23);
    herdr.answer = text;
    herdr.answer_len = len;
    rig_call(&rig, SHP_MSG_HERDR_CALL, herdr_params, ping, strlen(ping), &answer);
    assert_int_equal(answer.code, 0);
    assert_int_equal(answer.bulk_len, len);
    assert_memory_equal(answer.bulk, text, len);
    rig_answer_fini(&answer);
    free(text);
}

static void a_large_request_is_sent_whole(void **state)
{
    struct rig_answer answer;
    (void)state;
    size_t len = 700000;
    char *text = malloc(len);
    memset(text, 'r', len);
    herdr.answer = "{}";
    herdr.answer_len = 2;
    rig_call(&rig, SHP_MSG_HERDR_CALL, herdr_params, text, len, &answer);
    assert_int_equal(answer.code, 0);
    assert_int_equal(herdr.line_len, len + 1);
    rig_answer_fini(&answer);
    free(text);
}

static void request_lines_above_the_limit_never_reach_herdr(void **state)
{
    (void)state;
    size_t len = (1u << 20) + 1;
    char *text = malloc(len);
    memset(text, 'r', len);
    expect_error(SHP_MSG_HERDR_CALL, herdr_params, text, len, SHP_CODE_MESSAGE_TOO_LARGE,
                 SHP_OUTCOME_REJECTED);
    free(text);
    expect_error(SHP_MSG_HERDR_CALL, herdr_params, "a\nb", 3, SHP_CODE_INVALID_PARAMS,
                 SHP_OUTCOME_REJECTED);
    expect_error(SHP_MSG_HERDR_CALL, herdr_params, "a\0b", 3, SHP_CODE_INVALID_PARAMS,
                 SHP_OUTCOME_REJECTED);
    expect_error(SHP_MSG_HERDR_CALL, herdr_params, NULL, 0, SHP_CODE_INVALID_PARAMS,
                 SHP_OUTCOME_REJECTED);
    expect_error(SHP_MSG_HERDR_CALL, "{\"socket\":\"relative\"}", ping, 5, SHP_CODE_INVALID_PARAMS,
                 SHP_OUTCOME_REJECTED);
    expect_error(SHP_MSG_HERDR_CALL, "{\"session\":\"../x\"}", ping, 5, SHP_CODE_INVALID_PARAMS,
                 SHP_OUTCOME_REJECTED);
    assert_int_equal(herdr.connections, 0);
}

static void an_answer_above_the_limit_is_broken_off(void **state)
{
    struct rig_answer answer;
    (void)state;
    size_t len = SHP_LIMIT_MESSAGE_BYTES_MAX + 1;
    char *text = malloc(len);
    memset(text, 'a', len);
    herdr.answer = text;
    herdr.answer_len = len;
    rig_call(&rig, SHP_MSG_HERDR_CALL, herdr_params, ping, strlen(ping), &answer);
    assert_int_equal(answer.code, SHP_CODE_MESSAGE_TOO_LARGE);
    rig_answer_fini(&answer);
    free(text);
}

static void nobody_listening_is_known_not_to_have_acted(void **state)
{
    char json[300];
    (void)state;
    char *path = temp_path(rig.home, "nobody.sock");
    snprintf(json, sizeof json, "{\"socket\":\"%s\"}", path);
    expect_error(SHP_MSG_HERDR_CALL, json, ping, strlen(ping), SHP_CODE_HERDR_NOT_RUNNING,
                 SHP_OUTCOME_REJECTED);
    temp_write(path, "", 0);
    expect_error(SHP_MSG_HERDR_CALL, json, ping, strlen(ping), SHP_CODE_HERDR_NOT_RUNNING,
                 SHP_OUTCOME_REJECTED);
    expect_error(SHP_MSG_ROSTER_GET, json, NULL, 0, SHP_CODE_HERDR_NOT_RUNNING,
                 SHP_OUTCOME_REJECTED);
    free(path);
}

static void a_connection_that_ends_early_leaves_the_outcome_unknown(void **state)
{
    (void)state;
    herdr.mode = FAKE_HERDR_SILENT;
    expect_error(SHP_MSG_HERDR_CALL, herdr_params, ping, strlen(ping), SHP_CODE_HERDR_NO_ANSWER,
                 SHP_OUTCOME_UNKNOWN);
    herdr.mode = FAKE_HERDR_PARTIAL;
    herdr.answer = "{\"id\":\"1\",\"resu";
    herdr.answer_len = strlen(herdr.answer);
    expect_error(SHP_MSG_HERDR_CALL, herdr_params, ping, strlen(ping), SHP_CODE_HERDR_NO_ANSWER,
                 SHP_OUTCOME_UNKNOWN);
}

static void a_large_answer_that_breaks_is_broken_off(void **state)
{
    struct rig_answer answer;
    (void)state;
    size_t len = 1u << 20;
    char *text = malloc(len);
    memset(text, 'a', len);
    herdr.mode = FAKE_HERDR_PARTIAL;
    herdr.answer = text;
    herdr.answer_len = len;
    rig_call(&rig, SHP_MSG_HERDR_CALL, herdr_params, ping, strlen(ping), &answer);
    assert_int_equal(answer.code, SHP_CODE_HERDR_NO_ANSWER);
    assert_int_equal(answer.outcome, SHP_OUTCOME_UNKNOWN);
    rig_answer_fini(&answer);
    free(text);
}

static void a_deadline_and_a_cancel_close_the_connection(void **state)
{
    struct rig_answer answer;
    (void)state;
    herdr.mode = FAKE_HERDR_HOLD;
    rig_ask(&rig, SHP_MSG_HERDR_CALL, herdr_params, ping, strlen(ping), 60, &answer);
    rig_until(&rig, &answer.done);
    assert_int_equal(answer.code, SHP_CODE_TIMEOUT);
    assert_int_equal(answer.outcome, SHP_OUTCOME_UNKNOWN);
    rig_answer_fini(&answer);
    while (herdr.ended < 1)
        rig_linger(&rig, 1);

    rig_ask(&rig, SHP_MSG_HERDR_CALL, herdr_params, ping, strlen(ping), 60000, &answer);
    while (herdr.connections < 2)
        rig_linger(&rig, 1);
    shp_link_cancel(rig.controller, answer.stream, SHP_CODE_CANCELED);
    rig_until(&rig, &answer.done);
    assert_int_equal(answer.code, SHP_CODE_CANCELED);
    rig_answer_fini(&answer);
    while (herdr.ended < 2)
        rig_linger(&rig, 1);
}

static void sockets_are_found_by_session_name(void **state)
{
    static const char *const folders[] = {".config", ".config/herdr", ".config/herdr/sessions",
                                          ".config/herdr/sessions/two"};
    struct fake_herdr named, unnamed;
    struct rig_answer answer;
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char *path = temp_path(rig.home, folders[i]);
        assert_int_equal(mkdir(path, 0700), 0);
        free(path);
    }
    char *one = temp_path(rig.home, ".config/herdr/herdr.sock");
    char *two = temp_path(rig.home, ".config/herdr/sessions/two/herdr.sock");
    fake_herdr_open(&unnamed, &rig.loop, one);
    fake_herdr_open(&named, &rig.loop, two);
    named.answer = unnamed.answer = "{}";
    named.answer_len = unnamed.answer_len = 2;
    static const char *const params[] = {"{}", "{\"session\":\"default\"}",
                                         "{\"session\":\"two\"}"};
    for (size_t i = 0; i < 3; i++) {
        rig_call(&rig, SHP_MSG_HERDR_CALL, params[i], ping, strlen(ping), &answer);
        assert_int_equal(answer.code, 0);
        rig_answer_fini(&answer);
    }
    assert_int_equal(unnamed.connections, 2);
    assert_int_equal(named.connections, 1);
    fake_herdr_close(&rig, &unnamed);
    fake_herdr_close(&rig, &named);
    free(one);
    free(two);
}

static void a_roster_is_a_reduced_snapshot(void **state)
{
    struct rig_answer answer;
    (void)state;
    herdr.answer =
        "{\"id\":\"roster\",\"result\":{\"type\":\"session_snapshot\",\"snapshot\":{"
        "\"version\":\"0.9.1\",\"protocol\":22,\"workspaces\":[],\"tabs\":[],\"panes\":[],"
        "\"agents\":[{\"terminal_id\":\"t1\",\"workspace_id\":\"w1\",\"tab_id\":\"b1\","
        "\"pane_id\":\"p1\",\"agent\":\"pi\",\"agent_status\":\"idle\"}]}}}";
    herdr.answer_len = strlen(herdr.answer);
    rig_call(&rig, SHP_MSG_ROSTER_GET, herdr_params, NULL, 0, &answer);
    cJSON *result = result_of(&answer, SHP_MSG_ROSTER_GET);
    assert_int_equal(shp_codec_int(result, "agents", 0), 1);
    cJSON_Delete(result);
    assert_non_null(strstr(answer.bulk, "\"terminal_id\":\"t1\""));
    assert_non_null(strstr(herdr.line, "session.snapshot"));
    rig_answer_fini(&answer);

    herdr.answer = "{\"id\":\"\",\"error\":{\"code\":\"invalid_request\",\"message\":\"no\"}}";
    herdr.answer_len = strlen(herdr.answer);
    expect_error(SHP_MSG_ROSTER_GET, herdr_params, NULL, 0, SHP_CODE_HERDR_ERROR,
                 SHP_OUTCOME_REJECTED);
    herdr.answer = "[]";
    herdr.answer_len = 2;
    expect_error(SHP_MSG_ROSTER_GET, herdr_params, NULL, 0, SHP_CODE_HERDR_INVALID,
                 SHP_OUTCOME_REJECTED);
}

/* ---- transcripts -------------------------------------------------------------------------- */

static void a_reply_of_megabytes_arrives_whole(void **state)
{
    struct rig_answer answer;
    char json[300];
    (void)state;
    size_t len = 3u << 20;
    static const char before[] =
        "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n{\"type\":\"message\",\"id\":\"a1\","
        "\"parentId\":null,\"message\":{\"role\":\"assistant\",\"stopReason\":\"stop\","
        "\"content\":[{\"type\":\"text\",\"text\":\"";
    static const char after[] = "\"}]}}\n";
    char *text = malloc(sizeof before + len + sizeof after);
    memcpy(text, before, sizeof before - 1);
    for (size_t i = 0; i < len; i++)
        text[sizeof before - 1 + i] = (char)('a' + i % 19);
    memcpy(text + sizeof before - 1 + len, after, sizeof after - 1);
    char *path = temp_path(rig.home, "session.jsonl");
    temp_write(path, text, sizeof before - 1 + len + sizeof after - 1);
    snprintf(json, sizeof json, "{\"path\":\"%s\"}", path);
    rig_call(&rig, SHP_MSG_TRANSCRIPT_LATEST, json, NULL, 0, &answer);
    cJSON *result = result_of(&answer, SHP_MSG_TRANSCRIPT_LATEST);
    assert_true(shp_codec_bool(result, "found", false));
    assert_string_equal(shp_codec_string(result, "entry_id", ""), "a1");
    assert_string_equal(shp_codec_string(result, "stop_reason", ""), "stop");
    assert_int_equal(answer.bulk_len, len);
    assert_memory_equal(answer.bulk, text + sizeof before - 1, len);
    cJSON_Delete(result);
    rig_answer_fini(&answer);
    free(text);
    free(path);
    expect_error(SHP_MSG_TRANSCRIPT_LATEST, "{\"path\":\"/nonexistent.jsonl\"}", NULL, 0,
                 SHP_CODE_TRANSCRIPT_MISSING, SHP_OUTCOME_REJECTED);
    expect_error(SHP_MSG_TRANSCRIPT_LATEST, "{\"path\":\"relative\"}", NULL, 0,
                 SHP_CODE_INVALID_PARAMS, SHP_OUTCOME_REJECTED);
}

static void a_session_without_a_reply_says_so(void **state)
{
    struct rig_answer answer;
    char json[300];
    (void)state;
    char *path = temp_path(rig.home, "session.jsonl");
    static const char text[] = "{\"type\":\"session\",\"version\":3,\"id\":\"s\"}\n{\"torn";
    temp_write(path, text, sizeof text - 1);
    snprintf(json, sizeof json, "{\"path\":\"%s\"}", path);
    rig_call(&rig, SHP_MSG_TRANSCRIPT_LATEST, json, NULL, 0, &answer);
    cJSON *result = result_of(&answer, SHP_MSG_TRANSCRIPT_LATEST);
    assert_false(shp_codec_bool(result, "found", true));
    assert_true(shp_codec_bool(result, "torn", false));
    assert_int_equal(shp_codec_int(result, "size", 0), sizeof text - 1);
    assert_int_equal(answer.bulk_len, 0);
    cJSON_Delete(result);
    rig_answer_fini(&answer);
    free(path);
}

/* ---- files -------------------------------------------------------------------------------- */

static void a_file_is_placed_once(void **state)
{
    struct rig_answer answer;
    struct stat info;
    (void)state;
    static const char empty[] = "{\"kind\":\"prompt\",\"size\":0,\"digest\":"
                                "\"e3b0c44298fc1c149afbf4c8996fb924"
                                "27ae41e4649b934ca495991b7852b855\"}";
    rig_call(&rig, SHP_MSG_FILE_PUT, empty, NULL, 0, &answer);
    cJSON *result = result_of(&answer, SHP_MSG_FILE_PUT);
    assert_true(shp_codec_bool(result, "written", false));
    const char *path = shp_codec_string(result, "path", "");
    assert_int_equal(lstat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_non_null(
        strstr(path, "/.pi/agent/shepherdr/prompts/e3b0c44298fc1c149afbf4c8996fb924.md"));
    cJSON_Delete(result);
    rig_answer_fini(&answer);
    rig_call(&rig, SHP_MSG_FILE_PUT, empty, NULL, 0, &answer);
    result = result_of(&answer, SHP_MSG_FILE_PUT);
    assert_true(shp_codec_bool(result, "present", false));
    assert_false(shp_codec_bool(result, "written", true));
    cJSON_Delete(result);
    rig_answer_fini(&answer);
    /* Bytes that do not fit the promise. */
    expect_error(SHP_MSG_FILE_PUT,
                 "{\"kind\":\"extension\",\"size\":3,\"digest\":"
                 "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"}",
                 "abc", 3, SHP_CODE_INSTALL_CORRUPT, SHP_OUTCOME_REJECTED);
    char *ext = temp_path(rig.home, ".pi/agent/shepherdr/ext");
    assert_int_equal(temp_entries(ext), 0);
    free(ext);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_rig, close_rig)
#define HERDR_CASE(name) cmocka_unit_test_setup_teardown(name, open_herdr, close_herdr)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_hello_names_the_helper),
        CASE(identity_says_who_and_where),
        CASE(facts_are_read_from_files_alone),
        CASE(an_echo_has_the_same_bytes),
        CASE(unknown_messages_and_bad_params_are_refused),
        CASE(the_end_of_the_link_ends_everything),
        CASE(directories_begin_at_home_or_base_and_must_exist),
        HERDR_CASE(a_call_is_one_line_each_way),
        HERDR_CASE(a_large_answer_passes_under_credit),
        HERDR_CASE(a_large_request_is_sent_whole),
        HERDR_CASE(request_lines_above_the_limit_never_reach_herdr),
        HERDR_CASE(an_answer_above_the_limit_is_broken_off),
        HERDR_CASE(nobody_listening_is_known_not_to_have_acted),
        HERDR_CASE(a_connection_that_ends_early_leaves_the_outcome_unknown),
        HERDR_CASE(a_large_answer_that_breaks_is_broken_off),
        HERDR_CASE(a_deadline_and_a_cancel_close_the_connection),
        HERDR_CASE(sockets_are_found_by_session_name),
        HERDR_CASE(a_roster_is_a_reduced_snapshot),
        CASE(a_reply_of_megabytes_arrives_whole),
        CASE(a_session_without_a_reply_says_so),
        CASE(a_file_is_placed_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
