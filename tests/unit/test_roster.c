/* A snapshot reduced while it streams in: what is kept, merged, refused, bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "protocol/messages.h"
#include "remote-helper/roster.h"

#define SNAPSHOT(body)                                                                             \
    "{\"id\":\"roster\",\"result\":{\"type\":\"session_snapshot\",\"snapshot\":{" body "}}}"
#define AGENT_IDS                                                                                  \
    "\"terminal_id\":\"t1\",\"workspace_id\":\"w1\",\"tab_id\":\"b1\",\"pane_id\":\"p1\""

/* The roster as text, or NULL with *error. The caller frees it. */
static char *reduce(const char *json, size_t len, size_t piece, struct shp_error *error)
{
    struct roster *roster;
    struct json_out out;
    assert_int_equal(roster_new(&roster), 0);
    for (size_t at = 0; at < len; at += piece)
        if (roster_feed(roster, json + at, len - at < piece ? len - at : piece) != 0)
            break;
    if (roster_finish(roster, error) != 0) {
        roster_free(roster);
        return NULL;
    }
    json_out_init(&out, SHP_LIMIT_MESSAGE_BYTES_MAX);
    roster_write(roster, &out);
    assert_int_equal(json_out_status(&out), 0);
    cJSON *tree = cJSON_Parse(out.data);
    assert_non_null(tree);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(tree, "agents")),
                     roster_agents(roster));
    cJSON_Delete(tree);
    roster_free(roster);
    return out.data;
}

static void expect_roster(const char *json, const char *wanted)
{
    struct shp_error error;
    for (size_t piece = 1; piece <= strlen(json); piece += piece < 40 ? 1 : 97) {
        char *text = reduce(json, strlen(json), piece, &error);
        assert_non_null(text);
        assert_string_equal(text, wanted);
        free(text);
    }
}

static void expect_error(const char *json, int code, const char *cause)
{
    for (size_t piece = 1; piece <= 64; piece += 21) {
        struct shp_error error;
        assert_null(reduce(json, strlen(json), piece, &error));
        assert_string_equal(shp_code_name(error.code), shp_code_name(code));
        assert_string_equal(error.cause, cause);
    }
}

static void a_snapshot_becomes_a_roster(void **state)
{
    (void)state;
    expect_roster(
        SNAPSHOT(
            "\"version\":\"0.9.2\",\"protocol\":22,\"focused_pane_id\":\"p1\",\"workspaces\":["
            "{\"workspace_id\":\"w1\",\"number\":1,\"label\":\"made up\",\"focused\":true,"
            "\"pane_count\":2,\"worktree\":{\"repo_key\":\"k\",\"label\":\"no\"}}],"
            "\"tabs\":[{\"tab_id\":\"b1\",\"workspace_id\":\"w1\",\"number\":1,\"label\":\"one\"}],"
            "\"panes\":[{\"pane_id\":\"p1\",\"terminal_id\":\"t1\",\"label\":\"manual\","
            "\"cwd\":\"/pane\",\"scroll\":{\"cwd\":5}}],\"layouts\":[{\"agents\":[1,\"x\"]}],"
            "\"agents\":[{" AGENT_IDS ",\"name\":\"n\",\"agent\":\"pi\",\"title\":\"ti\","
            "\"agent_status\":\"working\",\"agent_session\":{\"source\":\"herdr:pi\",\"agent\":"
            "\"pi\",\"kind\":\"path\",\"value\":\"/s.jsonl\"},\"launch_pending\":true,"
            "\"interactive_ready\":false,\"state_change_seq\":18446744073,\"cwd\":\"/own\","
            "\"foreground_cwd\":\"/front\",\"tokens\":{\"name\":\"no\",\"kind\":\"no\"},"
            "\"revision\":3}]"),
        "{\"version\":\"0.9.2\",\"protocol\":22,\"agents\":[{\"pane_id\":\"p1\",\"terminal_id\":"
        "\"t1\",\"workspace_id\":\"w1\",\"tab_id\":\"b1\",\"agent\":\"pi\",\"name\":\"n\","
        "\"title\":"
        "\"ti\",\"agent_status\":\"working\",\"launch_pending\":true,\"interactive_ready\":false,"
        "\"state_change_seq\":18446744073,\"label\":\"manual\",\"cwd\":\"/front\",\"session_kind\":"
        "\"path\",\"session_value\":\"/s.jsonl\"}],\"workspaces\":[{\"workspace_id\":\"w1\","
        "\"label\":\"made up\",\"number\":1,\"focused\":true}],\"tabs\":[{\"tab_id\":\"b1\","
        "\"workspace_id\":\"w1\",\"label\":\"one\"}]}");
}

static void what_is_absent_or_null_is_left_out(void **state)
{
    (void)state;
    expect_roster(SNAPSHOT("\"agents\":[{" AGENT_IDS ",\"name\":null,\"agent_session\":null},null],"
                           "\"panes\":null"),
                  "{\"agents\":[{\"pane_id\":\"p1\",\"terminal_id\":\"t1\",\"workspace_id\":\"w1\","
                  "\"tab_id\":\"b1\",\"launch_pending\":false,\"interactive_ready\":false}],"
                  "\"workspaces\":[],\"tabs\":[]}");
    expect_roster(SNAPSHOT(""), "{\"agents\":[],\"workspaces\":[],\"tabs\":[]}");
}

static void the_pane_fills_in_whatever_comes_first(void **state)
{
    (void)state;
    static const char wanted[] = "{\"agents\":[{\"pane_id\":\"p1\",\"terminal_id\":\"t1\","
                                 "\"workspace_id\":\"w1\",\"tab_id\":"
                                 "\"b1\",\"launch_pending\":false,\"interactive_ready\":false,"
                                 "\"label\":\"L\",\"cwd\":\"/f\"}],"
                                 "\"workspaces\":[],\"tabs\":[]}";
    static const char panes[] =
        "\"panes\":[{\"pane_id\":\"p0\"},{\"pane_id\":\"p1\",\"label\":\"L\","
        "\"cwd\":\"/c\",\"foreground_cwd\":\"/f\"}]";
    char json[1024];
    snprintf(json, sizeof json, SNAPSHOT("\"agents\":[{" AGENT_IDS "}],%s"), panes);
    expect_roster(json, wanted);
    snprintf(json, sizeof json, SNAPSHOT("%s,\"agents\":[{" AGENT_IDS "}]"), panes);
    expect_roster(json, wanted);
}

static void strange_text_comes_out_as_json(void **state)
{
    (void)state;
    expect_roster(
        SNAPSHOT("\"workspaces\":[{\"workspace_id\":\"w\\u0000\\\"\\\\\\n\x80\","
                 "\"label\":\"\\ud83d\\ude00\"}]"),
        "{\"agents\":[],\"workspaces\":[{\"workspace_id\":\"w\",\"label\":\"\xf0\x9f\x98\x80\","
        "\"focused\":false}],\"tabs\":[]}");
}

static void errors_of_herdr_keep_their_code(void **state)
{
    (void)state;
    expect_error(
        "{\"id\":\"\",\"error\":{\"code\":\"server_unavailable\",\"message\":\"stopping\"}}",
        SHP_CODE_HERDR_ERROR, "server_unavailable: stopping");
    expect_error("{\"error\":{}}", SHP_CODE_HERDR_ERROR, "no code: ");
}

static void wrong_types_are_named_by_their_path(void **state)
{
    (void)state;
    expect_error("[]", SHP_CODE_HERDR_INVALID, "the answer is not an object");
    expect_error("5", SHP_CODE_HERDR_INVALID, "the answer is not JSON");
    expect_error("null", SHP_CODE_HERDR_INVALID, "the answer is not an object");
    expect_error("{\"result\":[]}", SHP_CODE_HERDR_INVALID, "result has the wrong type");
    expect_error("{\"result\":{}}", SHP_CODE_HERDR_INVALID, "result.snapshot is missing");
    expect_error("{\"result\":{\"snapshot\":\"x\"}}", SHP_CODE_HERDR_INVALID,
                 "result.snapshot has the wrong type");
    expect_error(SNAPSHOT("\"version\":9"), SHP_CODE_HERDR_INVALID,
                 "result.snapshot.version has the wrong type");
    expect_error(SNAPSHOT("\"protocol\":-1"), SHP_CODE_HERDR_INVALID,
                 "result.snapshot.protocol is not a small integer");
    expect_error(SNAPSHOT("\"agents\":{}"), SHP_CODE_HERDR_INVALID,
                 "result.snapshot.agents has the wrong type");
    expect_error(SNAPSHOT("\"agents\":[5]"), SHP_CODE_HERDR_INVALID,
                 "result.snapshot.agents has the wrong type");
    expect_error(SNAPSHOT("\"agents\":[{" AGENT_IDS "},{\"pane_id\":{}}]"), SHP_CODE_HERDR_INVALID,
                 "result.snapshot.agents[1].pane_id has the wrong type");
    expect_error(SNAPSHOT("\"agents\":[{" AGENT_IDS ",\"agent_session\":{\"kind\":true}}]"),
                 SHP_CODE_HERDR_INVALID,
                 "result.snapshot.agents[0].agent_session.kind has the wrong type");
    expect_error(SNAPSHOT("\"agents\":[{" AGENT_IDS ",\"launch_pending\":\"yes\"}]"),
                 SHP_CODE_HERDR_INVALID,
                 "result.snapshot.agents[0].launch_pending has the wrong type");
    expect_error(SNAPSHOT("\"agents\":[{\"pane_id\":\"p\"}]"), SHP_CODE_HERDR_INVALID,
                 "result.snapshot.agents[0].terminal_id is missing");
    expect_error(SNAPSHOT("\"tabs\":[{\"tab_id\":\"t\",\"workspace_id\":[]}]"),
                 SHP_CODE_HERDR_INVALID, "result.snapshot.tabs[0].workspace_id has the wrong type");
    expect_error("{\"result\":{\"snapshot\":{", SHP_CODE_HERDR_INVALID, "the answer is not JSON");
    expect_error("{\"error\":{\"code\":5}}", SHP_CODE_HERDR_INVALID,
                 "error.code has the wrong type");
}

static char *many_agents(size_t count, size_t title, size_t *len)
{
    size_t size = 256 + count * (title + 256);
    char *json = malloc(size);
    assert_non_null(json);
    size_t at = (size_t)sprintf(json, "{\"result\":{\"snapshot\":{\"agents\":[");
    for (size_t i = 0; i < count; i++) {
        at += (size_t)sprintf(json + at,
                              "%s{\"terminal_id\":\"t%zu\",\"workspace_id\":\"w\",\"tab_id\":\"b\","
                              "\"pane_id\":\"p%zu\",\"title\":\"",
                              i > 0 ? "," : "", i, i);
        memset(json + at, 'x', title);
        at += title;
        at += (size_t)sprintf(json + at, "\"}");
    }
    at += (size_t)sprintf(json + at, "]}}}");
    *len = at;
    return json;
}

static void what_is_kept_is_bounded(void **state)
{
    struct shp_error error;
    size_t len;
    (void)state;
    char *json = many_agents(500, 100, &len);
    char *text = reduce(json, len, 16384, &error);
    assert_non_null(text);
    assert_non_null(strstr(text, "\"p499\""));
    free(text);
    free(json);

    json = many_agents(3000, 4000, &len);
    assert_null(reduce(json, len, 16384, &error));
    assert_int_equal(error.code, SHP_CODE_MESSAGE_TOO_LARGE);
    free(json);

    /* One text is cut, the rest of the snapshot is not lost. */
    json = many_agents(2, 3 * ROSTER_TEXT_BYTES_MAX, &len);
    text = reduce(json, len, 16384, &error);
    assert_non_null(text);
    assert_true(strlen(text) < 3 * ROSTER_TEXT_BYTES_MAX);
    assert_non_null(strstr(text, "\"p1\""));
    free(text);
    free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_becomes_a_roster),
        cmocka_unit_test(what_is_absent_or_null_is_left_out),
        cmocka_unit_test(the_pane_fills_in_whatever_comes_first),
        cmocka_unit_test(strange_text_comes_out_as_json),
        cmocka_unit_test(errors_of_herdr_keep_their_code),
        cmocka_unit_test(wrong_types_are_named_by_their_path),
        cmocka_unit_test(what_is_kept_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
