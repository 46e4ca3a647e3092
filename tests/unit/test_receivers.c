/* Which descriptors count as live receivers, and which are not trusted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>

#include <cmocka.h>

#include "base/error.h"
#include "remote-helper/receivers.h"
#include "tests/support/temp_root.h"

static struct identity identity;
static char *root;
static char *run;

static int setup(void **state)
{
    (void)state;
    root = temp_root_make();
    setenv("HOME", root, 1);
    assert_int_equal(identity_init(&identity), 0);
    static const char *const names[] = {".pi", ".pi/agent", ".pi/agent/shepherdr",
                                        ".pi/agent/shepherdr/run"};
    for (size_t i = 0; i < 4; i++) {
        free(run);
        run = temp_path(root, names[i]);
        assert_int_equal(mkdir(run, 0700), 0);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(run);
    run = NULL;
    temp_root_remove(root);
    return 0;
}

/* A good descriptor; extra replaces or adds members by standing behind them. */
static void make_text(char *out, size_t size, const char *id, long pid, const char *extra)
{
    snprintf(out, size,
             "{\"version\":1,\"socket\":\"%s/s.sock\",\"host\":\"%s\",\"agent_dir\":\"/a\","
             "\"pi_session_id\":\"%s\",\"pid\":%ld,\"token\":\"tt\",\"protocol\":[1,1]%s}\n",
             run, identity.boot_id_known ? identity.host : "", id, pid, extra);
}

static char *put(unsigned number, const char *text)
{
    char name[64];
    snprintf(name, sizeof name, "%032x.json", number);
    char *path = temp_path(run, name);
    temp_write(path, text, strlen(text));
    assert_int_equal(chmod(path, 0600), 0);
    return path;
}

static void put_good(unsigned number, const char *id, const char *extra)
{
    char text[2048];
    make_text(text, sizeof text, id, (long)getpid(), extra);
    free(put(number, text));
}

static bool count_one(struct receiver *receiver, void *user)
{
    (void)receiver;
    ++*(unsigned *)user;
    return true;
}

static unsigned live(void)
{
    unsigned count = 0;
    receivers_each(&identity, count_one, &count);
    return count;
}

static long own_start(void)
{
    char text[1024] = "";
    FILE *file = fopen("/proc/self/stat", "r");
    if (file == NULL)
        return -1;
    size_t len = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[len] = '\0';
    const char *at = strrchr(text, ')');
    for (int field = 3; field <= 22; field++)
        at = strchr(at + 1, ' ');
    return strtol(at, NULL, 10);
}

static void a_descriptor_is_read_whole(void **state)
{
    struct receiver receiver;
    (void)state;
    static const char text[] =
        "{\"version\":1,\"socket\":\"/x/s\",\"host\":\"h\",\"agent_dir\":\"/a\",\"later\":[{}],"
        "\"pi_session_id\":\"id\",\"session_file\":\"/f.jsonl\",\"terminal_id\":\"term\","
        "\"pid\":7,\"start\":12345678901,\"token\":\"t\",\"protocol\":[1,3]}\n";
    assert_int_equal(receiver_parse(&receiver, text, strlen(text)), 0);
    assert_string_equal(receiver.socket, "/x/s");
    assert_string_equal(receiver.session_file, "/f.jsonl");
    assert_string_equal(receiver.terminal_id, "term");
    assert_int_equal(receiver.pid, 7);
    assert_int_equal(receiver.start, 12345678901);
    assert_int_equal(receiver.protocol_min, 1);
    assert_int_equal(receiver.protocol_max, 3);
    receiver_fini(&receiver);
}

static void what_may_be_absent_may_be_absent(void **state)
{
    struct receiver receiver;
    char text[2048];
    (void)state;
    make_text(text, sizeof text, "id", 1, ",\"session_file\":\"\"");
    assert_int_equal(receiver_parse(&receiver, text, strlen(text)), 0);
    assert_null(receiver.session_file);
    assert_null(receiver.terminal_id);
    assert_int_equal(receiver.start, -1);
    receiver_fini(&receiver);
}

static void malformed_descriptors_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "null",
        "{\"version\":1",
        "{\"version\":2,\"socket\":\"/s\",\"host\":\"h\",\"agent_dir\":\"/"
        "a\",\"pi_session_id\":\"i\",\"pid\":1,\"token\":\"t\",\"protocol\":[1,1]}",
        "{\"version\":1,\"socket\":\"s\",\"host\":\"h\",\"agent_dir\":\"/"
        "a\",\"pi_session_id\":\"i\",\"pid\":1,\"token\":\"t\",\"protocol\":[1,1]}",
        "{\"version\":1,\"socket\":\"/s\",\"agent_dir\":\"/"
        "a\",\"pi_session_id\":\"i\",\"pid\":1,\"token\":\"t\",\"protocol\":[1,1]}",
        "{\"version\":1,\"socket\":\"/s\",\"host\":\"h\",\"agent_dir\":\"/"
        "a\",\"pi_session_id\":\"\",\"pid\":1,\"token\":\"t\",\"protocol\":[1,1]}",
        "{\"version\":1,\"socket\":\"/s\",\"host\":\"h\",\"agent_dir\":\"/"
        "a\",\"pi_session_id\":\"i\",\"pid\":0,\"token\":\"t\",\"protocol\":[1,1]}",
        "{\"version\":1,\"socket\":\"/s\",\"host\":\"h\",\"agent_dir\":\"/"
        "a\",\"pi_session_id\":\"i\",\"pid\":-1,\"token\":\"t\",\"protocol\":[1,1]}",
        "{\"version\":1,\"socket\":\"/s\",\"host\":\"h\",\"agent_dir\":\"/"
        "a\",\"pi_session_id\":\"i\",\"pid\":1e20,\"token\":\"t\",\"protocol\":[1,1]}",
        "{\"version\":1,\"socket\":\"/s\",\"host\":\"h\",\"agent_dir\":\"/"
        "a\",\"pi_session_id\":\"i\",\"pid\":1.5,\"token\":\"t\",\"protocol\":[1,1]}",
        "{\"version\":1,\"socket\":\"/s\",\"host\":\"h\",\"agent_dir\":\"/"
        "a\",\"pi_session_id\":\"i\",\"pid\":1,\"token\":\"\",\"protocol\":[1,1]}",
        "{\"version\":1,\"socket\":\"/s\",\"host\":\"h\",\"agent_dir\":\"/"
        "a\",\"pi_session_id\":\"i\",\"pid\":1,\"token\":\"t\",\"protocol\":[2,1]}",
        "{\"version\":1,\"socket\":\"/s\",\"host\":\"h\",\"agent_dir\":\"/"
        "a\",\"pi_session_id\":\"i\",\"pid\":1,\"token\":\"t\",\"protocol\":[1]}",
        "{\"version\":1,\"socket\":\"/s\",\"host\":\"h\",\"agent_dir\":\"/"
        "a\",\"pi_session_id\":\"i\",\"pid\":1,\"token\":\"t\",\"protocol\":{\"a\":1,\"b\":1}}",
        "{\"version\":1,\"socket\":\"/s\",\"host\":\"h\",\"agent_dir\":\"/"
        "a\",\"pi_session_id\":\"i\",\"pid\":1,\"start\":\"5\",\"token\":\"t\",\"protocol\":[1,1]}",
        "{\"version\":1,\"socket\":\"/s\\u0000x\",\"host\":\"h\",\"agent_dir\":\"/"
        "a\",\"pi_session_id\":\"i\",\"pid\":1,\"token\":\"t\",\"protocol\":[1,1]}",
        "{\"a\":[[[[[[]]]]]],\"version\":1}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct receiver receiver = {0};
        assert_int_equal(receiver_parse(&receiver, bad[i], strlen(bad[i])), SHP_ERR_INVALID);
        assert_null(receiver.tree);
    }
    /* The good one that they all resemble. */
    struct receiver receiver;
    static const char good[] =
        "{\"version\":1,\"socket\":\"/s\",\"host\":\"h\",\"agent_dir\":\"/a\",\"pi_session_id\":"
        "\"i\",\"pid\":1,\"token\":\"t\",\"protocol\":[1,1]}";
    assert_int_equal(receiver_parse(&receiver, good, strlen(good)), 0);
    receiver_fini(&receiver);
}

static void only_live_processes_of_this_host_count(void **state)
{
    char text[2048], extra[64];
    (void)state;
    put_good(1, "one", "");
    assert_int_equal(live(), 1);

    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    make_text(text, sizeof text, "dead", (long)child, "");
    free(put(2, text));
    assert_int_equal(live(), 1);

    snprintf(text, sizeof text,
             "{\"version\":1,\"socket\":\"/s\",\"host\":\"elsewhere\",\"agent_dir\":\"/a\","
             "\"pi_session_id\":\"far\",\"pid\":%d,\"token\":\"t\",\"protocol\":[1,1]}",
             (int)getpid());
    free(put(3, text));
    assert_int_equal(live(), 1);

    long start = own_start();
    if (start >= 0) {
        snprintf(extra, sizeof extra, ",\"start\":%ld", start);
        put_good(4, "same start", extra);
        assert_int_equal(live(), 2);
        snprintf(extra, sizeof extra, ",\"start\":%ld", start + 1);
        put_good(5, "reused pid", extra);
        assert_int_equal(live(), 2);
    }
}

static void files_that_others_could_have_written_do_not_count(void **state)
{
    char text[2048];
    (void)state;
    make_text(text, sizeof text, "id", (long)getpid(), "");
    char *path = put(1, text);
    assert_int_equal(live(), 1);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(live(), 0);
    assert_int_equal(chmod(path, 0600), 0);

    char *elsewhere = temp_path(root, "elsewhere.json");
    assert_int_equal(rename(path, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, path), 0);
    assert_int_equal(live(), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(live(), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(elsewhere, path), 0);
    assert_int_equal(live(), 1);

    assert_int_equal(chmod(run, 0755), 0);
    assert_int_equal(live(), 0);
    assert_int_equal(chmod(run, 0700), 0);
    char *moved = temp_path(root, "moved");
    assert_int_equal(rename(run, moved), 0);
    assert_int_equal(symlink(moved, run), 0);
    assert_int_equal(live(), 0);
    assert_int_equal(unlink(run), 0);
    assert_int_equal(live(), 0);
    free(moved);
    free(elsewhere);
    free(path);
}

static void oversize_files_and_other_names_do_not_count(void **state)
{
    char *text = malloc(RECEIVER_DESCRIPTOR_BYTES_MAX + 100);
    (void)state;
    make_text(text, 2048, "id", (long)getpid(), "");
    size_t len = strlen(text);
    char *path = put(1, text);
    memset(text + len - 1, ' ', RECEIVER_DESCRIPTOR_BYTES_MAX + 1 - len);
    text[RECEIVER_DESCRIPTOR_BYTES_MAX] = '\0';
    temp_write(path, text, RECEIVER_DESCRIPTOR_BYTES_MAX);
    assert_int_equal(live(), 1);
    text[RECEIVER_DESCRIPTOR_BYTES_MAX] = ' ';
    temp_write(path, text, RECEIVER_DESCRIPTOR_BYTES_MAX + 1);
    assert_int_equal(live(), 0);

    make_text(text, 2048, "id", (long)getpid(), "");
    temp_write(path, text, strlen(text));
    assert_int_equal(live(), 1);
    char *other = temp_path(run, "descriptor.json");
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(live(), 0);
    free(other);
    free(path);
    free(text);
}

static void the_newest_of_several_is_found(void **state)
{
    struct receiver receiver;
    struct utimbuf old = {.actime = 1000, .modtime = 1000};
    char text[2048];
    (void)state;
    put_good(1, "new", ",\"terminal_id\":\"t\"");
    make_text(text, sizeof text, "old", (long)getpid(), ",\"terminal_id\":\"t\"");
    char *path = put(2, text);
    assert_int_equal(utime(path, &old), 0);
    put_good(3, "other", ",\"terminal_id\":\"u\"");
    assert_int_equal(receivers_find(&receiver, &identity, NULL, "t"), 0);
    assert_string_equal(receiver.pi_session_id, "new");
    receiver_fini(&receiver);
    assert_int_equal(receivers_find(&receiver, &identity, "old", NULL), 0);
    assert_string_equal(receiver.pi_session_id, "old");
    receiver_fini(&receiver);
    assert_int_equal(receivers_find(&receiver, &identity, "none", NULL), SHP_ERR_NOT_FOUND);
    assert_int_equal(receivers_find(&receiver, &identity, NULL, "none"), SHP_ERR_NOT_FOUND);
    free(path);
}

static void sockets_must_be_ours_in_a_private_directory(void **state)
{
    struct receiver receiver = {0};
    (void)state;
    char *socket = temp_path(run, "s.sock");
    receiver.socket = socket;
    assert_false(receiver_socket_good(&receiver));
    temp_write(socket, "", 0);
    assert_false(receiver_socket_good(&receiver));
    unlink(socket);
    assert_int_equal(mknod(socket, S_IFSOCK | 0600, 0), 0);
    assert_true(receiver_socket_good(&receiver));
    assert_int_equal(chmod(run, 0710), 0);
    assert_false(receiver_socket_good(&receiver));
    assert_int_equal(chmod(run, 0700), 0);
    receiver.socket = "/s.sock";
    assert_false(receiver_socket_good(&receiver));
    free(socket);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_descriptor_is_read_whole),
        CASE(what_may_be_absent_may_be_absent),
        CASE(malformed_descriptors_are_refused),
        CASE(only_live_processes_of_this_host_count),
        CASE(files_that_others_could_have_written_do_not_count),
        CASE(oversize_files_and_other_names_do_not_count),
        CASE(the_newest_of_several_is_found),
        CASE(sockets_must_be_ours_in_a_private_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
