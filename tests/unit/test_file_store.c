/* Files of ours: whole or not at all, never over anything else, no temporary left behind. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>
#include <utime.h>

#include <cmocka.h>
#include <sodium.h>

#include "base/id.h"
#include "protocol/messages.h"
#include "remote-helper/file_store.h"
#include "tests/support/temp_root.h"

static char *root;
static char *ext;
static char digest[FILE_STORE_DIGEST_HEX + 1];
static char bytes[100000];
static char *wanted_path;

static int setup(void **state)
{
    uint8_t raw[crypto_hash_sha256_BYTES];
    char name[64];
    (void)state;
    root = temp_root_make();
    ext = temp_path(root, ".pi/agent/shepherdr/ext");
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7 % 251);
    crypto_hash_sha256(raw, (const uint8_t *)bytes, sizeof bytes);
    shp_hex_encode(digest, raw, sizeof raw);
    snprintf(name, sizeof name, "pi-ext-%.32s.mjs", digest);
    wanted_path = temp_path(ext, name);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(ext);
    free(wanted_path);
    temp_root_remove(root);
    return 0;
}

static struct file_put *begin(bool *present)
{
    struct file_put *put = NULL;
    struct shp_error error;
    assert_int_equal(
        file_put_begin(&put, root, FILE_KIND_EXTENSION, digest, sizeof bytes, present, &error), 0);
    assert_string_equal(file_put_path(put), wanted_path);
    return put;
}

static int begin_error(void)
{
    struct file_put *put = NULL;
    struct shp_error error = {0};
    bool present;
    assert_int_not_equal(
        file_put_begin(&put, root, FILE_KIND_EXTENSION, digest, sizeof bytes, &present, &error), 0);
    assert_null(put);
    assert_true(error.cause[0] != '\0');
    return error.code;
}

static void write_all(struct file_put *put, size_t len)
{
    struct shp_error error;
    for (size_t at = 0; at < len; at += 30000)
        assert_int_equal(
            file_put_write(put, bytes + at, len - at < 30000 ? len - at : 30000, &error), 0);
}

static void place(void)
{
    struct shp_error error;
    bool present, written;
    struct file_put *put = begin(&present);
    assert_false(present);
    write_all(put, sizeof bytes);
    assert_int_equal(file_put_finish(put, &written, &error), 0);
    assert_true(written);
    file_put_free(put);
}

static void a_file_is_private_and_whole(void **state)
{
    struct stat info;
    size_t len;
    (void)state;
    mode_t mask = umask(0);
    place();
    umask(mask);
    assert_int_equal(lstat(wanted_path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(info.st_nlink, 1);
    assert_int_equal(lstat(ext, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    char *read = temp_read(wanted_path, &len);
    assert_int_equal(len, sizeof bytes);
    assert_memory_equal(read, bytes, len);
    free(read);
    assert_int_equal(temp_entries(ext), 1);
}

static void an_equal_file_is_present_and_made_private(void **state)
{
    struct stat before, after;
    bool present;
    (void)state;
    place();
    assert_int_equal(chmod(wanted_path, 0644), 0);
    assert_int_equal(lstat(wanted_path, &before), 0);
    struct file_put *put = begin(&present);
    assert_true(present);
    file_put_free(put);
    assert_int_equal(lstat(wanted_path, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    assert_int_equal(after.st_mode & 07777, 0600);
}

static void what_is_not_ours_stays_untouched(void **state)
{
    size_t len;
    (void)state;
    place();
    /* Same size, one byte changed. */
    char *changed = temp_read(wanted_path, &len);
    changed[len / 2] ^= 1;
    temp_write(wanted_path, changed, len);
    assert_int_equal(begin_error(), SHP_CODE_FILE_CONFLICT);
    char *again = temp_read(wanted_path, &len);
    assert_memory_equal(again, changed, len);
    free(again);
    free(changed);

    temp_write(wanted_path, "short", 5);
    assert_int_equal(begin_error(), SHP_CODE_FILE_CONFLICT);

    char *elsewhere = temp_path(root, "elsewhere");
    temp_write(elsewhere, bytes, sizeof bytes);
    unlink(wanted_path);
    assert_int_equal(symlink(elsewhere, wanted_path), 0);
    assert_int_equal(begin_error(), SHP_CODE_FILE_CONFLICT);
    free(elsewhere);

    unlink(wanted_path);
    assert_int_equal(mkdir(wanted_path, 0700), 0);
    assert_int_equal(begin_error(), SHP_CODE_FILE_CONFLICT);
    rmdir(wanted_path);
    assert_int_equal(mkfifo(wanted_path, 0600), 0);
    assert_int_equal(begin_error(), SHP_CODE_FILE_CONFLICT);
}

static void something_that_appears_meanwhile_wins(void **state)
{
    struct shp_error error;
    bool present, written;
    (void)state;
    struct file_put *first = begin(&present);
    struct file_put *second = begin(&present);
    struct file_put *third = begin(&present);
    write_all(first, sizeof bytes);
    write_all(second, sizeof bytes);
    write_all(third, sizeof bytes);
    assert_int_equal(file_put_finish(first, &written, &error), 0);
    assert_true(written);
    assert_int_equal(file_put_finish(second, &written, &error), 0);
    assert_false(written);
    temp_write(wanted_path, "foreign", 7);
    assert_int_not_equal(file_put_finish(third, &written, &error), 0);
    assert_int_equal(error.code, SHP_CODE_FILE_CONFLICT);
    file_put_free(first);
    file_put_free(second);
    file_put_free(third);
    assert_int_equal(temp_entries(ext), 1);
}

static void wrong_bytes_are_never_activated(void **state)
{
    struct shp_error error;
    bool present, written;
    (void)state;
    struct file_put *put = begin(&present);
    write_all(put, sizeof bytes - 1);
    assert_int_not_equal(file_put_finish(put, &written, &error), 0);
    assert_int_equal(error.code, SHP_CODE_INSTALL_CORRUPT);
    file_put_free(put);

    put = begin(&present);
    write_all(put, sizeof bytes);
    assert_int_not_equal(file_put_write(put, "x", 1, &error), 0);
    assert_int_equal(error.code, SHP_CODE_INSTALL_CORRUPT);
    file_put_free(put);

    put = begin(&present);
    bytes[5] ^= 1;
    write_all(put, sizeof bytes);
    bytes[5] ^= 1;
    assert_int_not_equal(file_put_finish(put, &written, &error), 0);
    assert_int_equal(error.code, SHP_CODE_INSTALL_CORRUPT);
    file_put_free(put);
    assert_int_equal(temp_entries(ext), 0);
}

static void breaking_off_leaves_nothing(void **state)
{
    bool present;
    (void)state;
    struct file_put *put = begin(&present);
    write_all(put, 50000);
    assert_int_equal(temp_entries(ext), 1);
    file_put_free(put);
    assert_int_equal(temp_entries(ext), 0);
}

static void a_write_that_fails_is_an_error_and_leaves_nothing(void **state)
{
    struct rlimit old, tight;
    struct shp_error error;
    bool present;
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = old;
    tight.rlim_cur = 4096;
    struct file_put *put = begin(&present);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    assert_int_not_equal(file_put_write(put, bytes, sizeof bytes, &error), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(error.code, SHP_CODE_INSTALL_FAILED);
    file_put_free(put);
    assert_int_equal(temp_entries(ext), 0);
}

static void a_full_disk_has_its_own_error(void **state)
{
    struct shp_error error;
    struct file_put *put = NULL;
    struct stat info;
    bool present;
    (void)state;
    /* /dev/full stands for the disk: it takes the place of the temporary file's descriptor. */
    if (stat("/dev/full", &info) != 0)
        skip();
    put = begin(&present);
    write_all(put, 30000);
    char link[64];
    char target[512];
    int full = open("/dev/full", O_WRONLY);
    assert_true(full >= 0);
    bool replaced = false;
    for (int fd = 3; fd < 64 && !replaced; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(link, target, sizeof target - 1);
        if (len <= 0)
            continue;
        target[len] = '\0';
        if (strstr(target, "/.tmp-") != NULL)
            replaced = dup2(full, fd) == fd;
    }
    close(full);
    if (!replaced) {
        file_put_free(put);
        skip();
    }
    assert_int_not_equal(file_put_write(put, bytes, 30000, &error), 0);
    assert_int_equal(error.code, SHP_CODE_INSTALL_NO_SPACE);
    file_put_free(put);
    assert_int_equal(temp_entries(ext), 0);
}

static void stale_temporaries_of_ours_are_swept(void **state)
{
    struct utimbuf old = {.actime = 1000, .modtime = 1000};
    static const char *const names[] = {
        ".tmp-00112233445566778899aabbccddeeff", /* old: goes */
        ".tmp-ffeeddccbbaa99887766554433221100", /* fresh: stays */
        ".tmp-short",                            /* not our pattern: stays */
        "prompt.md",                             /* stays */
    };
    bool present;
    (void)state;
    place();
    for (size_t i = 0; i < 4; i++) {
        char *path = temp_path(ext, names[i]);
        temp_write(path, "x", 1);
        if (i != 1)
            assert_int_equal(utime(path, &old), 0);
        free(path);
    }
    file_put_free(begin(&present));
    assert_int_equal(temp_entries(ext), 4);
    char *gone = temp_path(ext, names[0]);
    assert_int_equal(access(gone, F_OK), -1);
    free(gone);
}

static void a_link_or_file_in_place_of_our_folder_is_refused(void **state)
{
    (void)state;
    place();
    char *shepherdr = temp_path(root, ".pi/agent/shepherdr");
    char *moved = temp_path(root, "moved");
    assert_int_equal(rename(shepherdr, moved), 0);
    assert_int_equal(symlink(moved, shepherdr), 0);
    assert_int_equal(begin_error(), SHP_CODE_INSTALL_FAILED);
    unlink(shepherdr);
    temp_write(shepherdr, "x", 1);
    assert_int_equal(begin_error(), SHP_CODE_INSTALL_FAILED);
    free(shepherdr);
    free(moved);
}

static void a_digest_must_be_one(void **state)
{
    (void)state;
    digest[3] = 'G';
    assert_int_equal(begin_error(), SHP_CODE_INVALID_PARAMS);
    digest[3] = 'A';
    assert_int_equal(begin_error(), SHP_CODE_INVALID_PARAMS);
    digest[63] = '\0';
    assert_int_equal(begin_error(), SHP_CODE_INVALID_PARAMS);
}

static void prompts_have_their_own_folder(void **state)
{
    struct file_put *put;
    struct shp_error error;
    bool present;
    char name[96];
    (void)state;
    assert_int_equal(file_put_begin(&put, root, FILE_KIND_PROMPT, digest, 1, &present, &error), 0);
    snprintf(name, sizeof name, ".pi/agent/shepherdr/prompts/%.32s.md", digest);
    char *path = temp_path(root, name);
    assert_string_equal(file_put_path(put), path);
    free(path);
    file_put_free(put);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_file_is_private_and_whole),
        CASE(an_equal_file_is_present_and_made_private),
        CASE(what_is_not_ours_stays_untouched),
        CASE(something_that_appears_meanwhile_wins),
        CASE(wrong_bytes_are_never_activated),
        CASE(breaking_off_leaves_nothing),
        CASE(a_write_that_fails_is_an_error_and_leaves_nothing),
        CASE(a_full_disk_has_its_own_error),
        CASE(stale_temporaries_of_ours_are_swept),
        CASE(a_link_or_file_in_place_of_our_folder_is_refused),
        CASE(a_digest_must_be_one),
        CASE(prompts_have_their_own_folder),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
