/* The latest reply of a pi session file: branches, retries, torn and huge lines, foreign files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "protocol/messages.h"
#include "remote-helper/transcript.h"

#define HEADER                                                                                     \
    "{\"type\":\"session\",\"version\":3,\"id\":\"made-up\",\"cwd\":\"/home/dev/made-up\"}\n"

static char path[64];
static FILE *file;

static int make_file(void **state)
{
    (void)state;
    strcpy(path, "/tmp/shp-transcript-XXXXXX");
    int fd = mkstemp(path);
    file = fd < 0 ? NULL : fdopen(fd, "w");
    return file == NULL ? -1 : 0;
}

static int remove_file(void **state)
{
    (void)state;
    fclose(file);
    unlink(path);
    return 0;
}

static void put(const char *text)
{
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fflush(file), 0);
}

static void put_entry(const char *id, const char *parent, const char *rest)
{
    fprintf(file, "{\"type\":\"message\",\"id\":\"%s\",\"parentId\":", id);
    fprintf(file, parent == NULL ? "null" : "\"%s\"", parent);
    fprintf(file, ",\"message\":{%s}}\n", rest);
    assert_int_equal(fflush(file), 0);
}

static void put_reply(const char *id, const char *parent, const char *text, const char *stop)
{
    char rest[1024];
    snprintf(rest, sizeof rest,
             "\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\"},"
             "{\"type\":\"text\",\"text\":\"%s\"}],\"usage\":{\"input\":1},\"stopReason\":\"%s\"",
             text, stop);
    put_entry(id, parent, rest);
}

static void put_user(const char *id, const char *parent)
{
    put_entry(id, parent,
              "\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"please\"}]");
}

struct reply {
    struct transcript_result result;
    char *text;
    size_t len;
};

/* The caller frees reply->text. */
static void read_reply(struct reply *reply, const char *leaf, uint64_t max)
{
    struct transcript *transcript;
    struct shp_error error;
    enum transcript_status status;
    assert_int_equal(transcript_open(&transcript, path, leaf, max, &error), 0);
    do
        status = transcript_step(transcript, &error);
    while (status == TRANSCRIPT_MORE);
    assert_int_equal(status, TRANSCRIPT_DONE);
    reply->result = *transcript_result(transcript);
    reply->text = NULL;
    reply->len = 0;
    for (;;) {
        const char *piece;
        size_t len;
        int got = transcript_text(transcript, &piece, &len);
        if (got == SHP_ERR_AGAIN)
            continue;
        assert_int_equal(got, 0);
        if (len == 0)
            break;
        reply->text = realloc(reply->text, reply->len + len + 1);
        assert_non_null(reply->text);
        memcpy(reply->text + reply->len, piece, len);
        reply->len += len;
        reply->text[reply->len] = '\0';
    }
    assert_true(shp_utf8_valid((const uint8_t *)reply->text, reply->len));
    transcript_free(transcript);
}

static void expect_reply(const char *leaf, const char *id, const char *stop, const char *text)
{
    struct reply reply;
    read_reply(&reply, leaf, SHP_LIMIT_MESSAGE_BYTES_MAX);
    assert_true(reply.result.found);
    assert_string_equal(reply.result.entry_id, id);
    assert_string_equal(reply.result.stop_reason, stop);
    assert_string_equal(reply.text == NULL ? "" : reply.text, text);
    assert_int_equal(reply.result.text_bytes, reply.len);
    free(reply.text);
}

static int expect_open_error(const char *where)
{
    struct transcript *transcript;
    struct shp_error error = {0};
    assert_int_not_equal(transcript_open(&transcript, where, NULL, 1, &error), 0);
    assert_true(error.cause[0] != '\0');
    return error.code;
}

/* ---- the shapes of the recorded sessions -------------------------------------------------- */

static void the_last_answer_of_a_line_without_branches(void **state)
{
    (void)state;
    put(HEADER "{\"type\":\"model_change\",\"id\":\"m1\",\"parentId\":null,\"modelId\":\"x\"}\n");
    put_user("u1", "m1");
    put_entry(
        "a1", "u1",
        "\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"Calling it.\"},"
        "{\"type\":\"toolCall\",\"id\":\"c\",\"name\":\"n\",\"arguments\":{\"text\":\"no\"}}],"
        "\"stopReason\":\"toolUse\"");
    put_entry("t1", "a1",
              "\"role\":\"toolResult\",\"content\":[{\"type\":\"text\",\"text\":\"started\"}]");
    put("{\"type\":\"custom\",\"customType\":\"made.up\",\"data\":{\"id\":\"zz\",\"parentId\":"
        "\"zz\"},"
        "\"id\":\"c1\",\"parentId\":\"t1\"}\n");
    put("{\"type\":\"custom_message\",\"customType\":\"made.up\",\"content\":\"note\",\"id\":"
        "\"c2\","
        "\"parentId\":\"c1\"}\n");
    put_entry("b1", "c2", "\"role\":\"bashExecution\",\"command\":\"ls\",\"output\":\"x\\n\"");
    put_user("u2", "b1");
    put_reply("a2", "u2", "That was the last. ", "stop");
    expect_reply(NULL, "a2", "stop", "That was the last. ");
    expect_reply("u2", "a1", "toolUse", "Calling it.");
}

static void the_branch_of_the_last_line_counts_not_the_last_reply(void **state)
{
    (void)state;
    put(HEADER);
    put_user("u1", NULL);
    put_reply("a1", "u1", "First answer. ", "stop");
    put_user("u2", "a1");
    put_reply("a2", "u2", "Call it Bolt. ", "stop");
    put("{\"type\":\"label\",\"id\":\"l1\",\"parentId\":\"a2\",\"targetId\":\"a2\"}\n");
    put_user("u3", "a1");
    put_reply("a3", "u3", "Call it Nut. ", "stop");
    put("{\"type\":\"branch_summary\",\"id\":\"s1\",\"parentId\":\"a1\",\"fromId\":\"a3\"}\n");
    put_user("u4", "s1");
    put_reply("a4", "u4", "It is Washer. ", "stop");
    put("{\"type\":\"compaction\",\"id\":\"k1\",\"parentId\":\"a4\",\"summary\":\"s\"}\n");
    put_user("u5", "k1");
    put_reply("a5", "u5", "After the compaction. ", "stop");
    put("{\"type\":\"custom\",\"customType\":\"made.up\",\"data\":{},\"id\":\"x1\",\"parentId\":"
        "\"a3\"}\n");
    expect_reply(NULL, "a3", "stop", "Call it Nut. ");
    /* What pi-ext reports wins over the last line, here across a compaction. */
    expect_reply("u5", "a4", "stop", "It is Washer. ");
    expect_reply("a2", "a2", "stop", "Call it Bolt. ");
}

static void an_error_keeps_its_status_and_shows_the_text_above(void **state)
{
    struct reply reply;
    (void)state;
    put(HEADER);
    put_user("u1", NULL);
    put_reply("a1", "u1", "A good answer. ", "stop");
    put_user("u2", "a1");
    put_reply("a2", "u2", "partial", "error");
    put("{\"type\":\"context_edit\",\"id\":\"e1\",\"parentId\":\"a2\",\"targetId\":\"a2\","
        "\"replacement\":null}\n");
    put_reply("a3", "e1", "partial again", "error");
    put_user("u3", "a3");
    put_reply("a4", "u3", "w0 w1 w2 ", "aborted");
    put_user("u4", "a4");
    put_entry("a5", "u4",
              "\"role\":\"assistant\",\"content\":[],\"stopReason\":\"error\","
              "\"errorMessage\":\"400: {\\\"message\\\":\\\"bad\\\"}\"");
    read_reply(&reply, NULL, SHP_LIMIT_MESSAGE_BYTES_MAX);
    assert_string_equal(reply.result.entry_id, "a5");
    assert_string_equal(reply.result.stop_reason, "error");
    assert_string_equal(reply.result.error_message, "400: {\"message\":\"bad\"}");
    assert_string_equal(reply.text, "w0 w1 w2 ");
    free(reply.text);
    /* The hidden attempt is the latest one, but its text was taken back by the retry. */
    expect_reply("e1", "a2", "error", "A good answer. ");
    expect_reply("u3", "a3", "error", "partial again");
}

static void a_stop_without_text_is_an_empty_reply(void **state)
{
    (void)state;
    put(HEADER);
    put_reply("a1", NULL, "earlier", "stop");
    put_reply("a2", "a1", "", "stop");
    expect_reply(NULL, "a2", "stop", "");
}

static void white_space_is_not_a_text(void **state)
{
    (void)state;
    put(HEADER);
    put_reply("a1", NULL, "earlier", "stop");
    put_reply("a2", "a1", " \\n\\t", "aborted");
    expect_reply(NULL, "a2", "aborted", "earlier");
}

/* ---- forms of content --------------------------------------------------------------------- */

static void text_blocks_are_joined_whatever_the_order_of_keys(void **state)
{
    (void)state;
    put(HEADER);
    put("{\"message\":{\"content\":[{\"text\":\"one \",\"type\":\"text\"},"
        "{\"text\":\"no\",\"type\":\"thinking\"},{\"type\":\"text\",\"text\":\"two\"}],"
        "\"stopReason\":\"stop\",\"role\":\"assistant\"},\"parentId\":null,\"id\":\"a1\","
        "\"type\":\"message\"}\n");
    expect_reply(NULL, "a1", "stop", "one two");
}

static void content_may_be_a_string_or_missing(void **state)
{
    (void)state;
    put(HEADER);
    put_entry("a1", NULL, "\"role\":\"assistant\",\"content\":\"plain\",\"stopReason\":\"stop\"");
    expect_reply(NULL, "a1", "stop", "plain");
    put_entry("a2", "a1", "\"role\":\"assistant\",\"content\":null,\"stopReason\":\"length\"");
    expect_reply(NULL, "a2", "length", "plain");
    put_entry("a3", "a2", "\"role\":\"assistant\"");
    expect_reply(NULL, "a3", "", "plain");
}

static void broken_text_comes_out_as_utf8(void **state)
{
    (void)state;
    put(HEADER);
    put_reply("a1", NULL, "a\xff\\ud800b", "stop");
    expect_reply(NULL, "a1", "stop",
                 "a\xef\xbf\xbd\xef\xbf\xbd"
                 "b");
}

/* ---- files that are not whole ------------------------------------------------------------- */

static void a_torn_last_line_is_not_yet(void **state)
{
    struct reply reply;
    (void)state;
    put(HEADER);
    put_reply("a1", NULL, "done", "stop");
    put("{\"type\":\"message\",\"id\":\"a2\",\"parentId\":\"a1\",\"message\":{\"role\":"
        "\"assistant\","
        "\"content\":[{\"type\":\"text\",\"text\":\"half\"}],\"stopReason\":\"stop\"}}");
    read_reply(&reply, NULL, SHP_LIMIT_MESSAGE_BYTES_MAX);
    assert_true(reply.result.torn);
    assert_int_equal(reply.result.bad_lines, 0);
    assert_string_equal(reply.text, "done");
    free(reply.text);
    put("\n");
    expect_reply(NULL, "a2", "stop", "half");
}

static void bad_and_blank_lines_are_passed_over(void **state)
{
    struct reply reply;
    (void)state;
    put("\nnot json\n" HEADER);
    put_reply("a1", NULL, "kept", "stop");
    put("{\"torn\n\n   \n[1,2]\n{\"no\":\"id\"}\n{\"id\":5,\"type\":\"message\"}\n\x01\n");
    read_reply(&reply, NULL, SHP_LIMIT_MESSAGE_BYTES_MAX);
    assert_true(reply.result.found);
    assert_false(reply.result.torn);
    assert_int_equal(reply.result.bad_lines, 2);
    assert_string_equal(reply.text, "kept");
    free(reply.text);
}

static void a_missing_parent_ends_the_walk(void **state)
{
    struct reply reply;
    (void)state;
    put(HEADER);
    put_reply("a1", NULL, "unreachable", "stop");
    put_user("u2", "gone");
    read_reply(&reply, NULL, SHP_LIMIT_MESSAGE_BYTES_MAX);
    assert_false(reply.result.found);
    assert_null(reply.text);
    read_reply(&reply, "never-written", SHP_LIMIT_MESSAGE_BYTES_MAX);
    assert_false(reply.result.found);
}

static void a_session_that_was_not_written_yet_has_no_reply(void **state)
{
    struct reply reply;
    (void)state;
    read_reply(&reply, NULL, 100);
    assert_false(reply.result.found);
    assert_false(reply.result.torn);
    put("{\"type\":\"sess");
    read_reply(&reply, NULL, 100);
    assert_false(reply.result.found);
    assert_true(reply.result.torn);
}

static void foreign_files_are_told_apart_from_missing_ones(void **state)
{
    (void)state;
    assert_int_equal(expect_open_error("/nonexistent/file.jsonl"), SHP_CODE_TRANSCRIPT_MISSING);
    assert_int_equal(expect_open_error("/tmp"), SHP_CODE_TRANSCRIPT_INVALID);
    put("{\"type\":\"message\",\"id\":\"x\"}\n" HEADER);
    assert_int_equal(expect_open_error(path), SHP_CODE_TRANSCRIPT_INVALID);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(expect_open_error(path), SHP_CODE_TRANSCRIPT_INVALID);
}

static void noise_without_a_header_is_refused_within_bounds(void **state)
{
    (void)state;
    for (int i = 0; i < 3 * TRANSCRIPT_HEADER_BYTES_MAX / 16; i++)
        fputs("fifteen letters\n", file);
    put("");
    assert_int_equal(expect_open_error(path), SHP_CODE_TRANSCRIPT_INVALID);
}

/* ---- size --------------------------------------------------------------------------------- */

static void put_run(char letter, size_t count)
{
    static char block[65536];
    memset(block, letter, sizeof block);
    while (count > 0) {
        size_t len = count < sizeof block ? count : sizeof block;
        assert_int_equal(fwrite(block, 1, len, file), len);
        count -= len;
    }
}

static void a_huge_line_on_the_way_costs_steps_not_memory(void **state)
{
    (void)state;
    put(HEADER);
    put_reply("a1", NULL, "far above", "stop");
    put("{\"type\":\"message\",\"id\":\"t1\",\"parentId\":\"a1\",\"message\":{\"role\":"
        "\"toolResult\","
        "\"content\":[{\"type\":\"text\",\"text\":\"");
    put_run('x', 20u << 20);
    put("\"}]}}\n");
    put_user("u1", "t1");
    expect_reply(NULL, "a1", "stop", "far above");
}

static void a_long_text_is_cut_at_the_limit_on_a_character(void **state)
{
    struct reply reply;
    (void)state;
    put(HEADER "{\"type\":\"message\",\"id\":\"a1\",\"parentId\":null,\"message\":{\"role\":"
               "\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"");
    for (int i = 0; i < 100000; i++)
        fputs("\xe2\x82\xac", file);
    put("\"}],\"stopReason\":\"stop\"}}\n");
    read_reply(&reply, NULL, 200000);
    assert_true(reply.result.truncated);
    assert_int_equal(reply.result.text_bytes, 300000);
    assert_int_equal(reply.len, 199998);
    free(reply.text);
    read_reply(&reply, NULL, 300000);
    assert_false(reply.result.truncated);
    assert_int_equal(reply.len, 300000);
    free(reply.text);
}

static void only_the_end_of_a_large_file_is_read(void **state)
{
    struct transcript *transcript;
    struct shp_error error;
    (void)state;
    put(HEADER);
    /* A hole: a gigabyte that nobody has to write or read. */
    assert_int_equal(fseeko(file, (off_t)1 << 30, SEEK_SET), 0);
    put("\n");
    put_reply("a1", "above", "near the end", "stop");
    assert_int_equal(transcript_open(&transcript, path, NULL, 100, &error), 0);
    assert_int_equal(transcript_step(transcript, &error), TRANSCRIPT_DONE);
    assert_true(transcript_result(transcript)->found);
    assert_true(transcript_result(transcript)->size > (uint64_t)1 << 30);
    transcript_free(transcript);
}

static void a_file_that_shrinks_meanwhile_is_an_error(void **state)
{
    struct transcript *transcript;
    struct shp_error error;
    (void)state;
    put(HEADER);
    put_reply("a1", NULL, "gone", "stop");
    put_run('x', 400000);
    put("\n");
    assert_int_equal(transcript_open(&transcript, path, NULL, 100, &error), 0);
    assert_int_equal(ftruncate(fileno(file), 100), 0);
    enum transcript_status status;
    do
        status = transcript_step(transcript, &error);
    while (status == TRANSCRIPT_MORE);
    assert_int_equal(status, TRANSCRIPT_FAILED);
    assert_int_equal(error.code, SHP_CODE_TRANSCRIPT_INVALID);
    transcript_free(transcript);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_file, remove_file)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_last_answer_of_a_line_without_branches),
        CASE(the_branch_of_the_last_line_counts_not_the_last_reply),
        CASE(an_error_keeps_its_status_and_shows_the_text_above),
        CASE(a_stop_without_text_is_an_empty_reply),
        CASE(white_space_is_not_a_text),
        CASE(text_blocks_are_joined_whatever_the_order_of_keys),
        CASE(content_may_be_a_string_or_missing),
        CASE(broken_text_comes_out_as_utf8),
        CASE(a_torn_last_line_is_not_yet),
        CASE(bad_and_blank_lines_are_passed_over),
        CASE(a_missing_parent_ends_the_walk),
        CASE(a_session_that_was_not_written_yet_has_no_reply),
        CASE(foreign_files_are_told_apart_from_missing_ones),
        CASE(noise_without_a_header_is_refused_within_bounds),
        CASE(a_huge_line_on_the_way_costs_steps_not_memory),
        CASE(a_long_text_is_cut_at_the_limit_on_a_character),
        CASE(only_the_end_of_a_large_file_is_read),
        CASE(a_file_that_shrinks_meanwhile_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
