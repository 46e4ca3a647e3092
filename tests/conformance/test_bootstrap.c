/* The bootstrap against real shells, file systems and what may stand in its way. */
#include "bootstrap_suite.h"

#include "installer/shell.h"
#include "protocol/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define TOGETHER 20

static void sh(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void sh(const char *format, ...)
{
    char command[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    if (system(command) != 0)
        fail_msg("%s", command);
}

static void expect_ready(const struct rig_result *result, bool uploaded, const char *where)
{
    if (!result->ready || result->seen.uploaded != uploaded)
        fail_msg("%s: ready %d, uploaded %d: %s: %s (%s)", where, result->ready,
                 result->seen.uploaded, shp_code_name(result->error.code), result->error.cause,
                 result->diagnostic);
}

static void expect_failure(const struct rig_result *result, int code)
{
    if (result->ready || result->error.code != code)
        fail_msg("ready %d, %s instead of %s: %s (%s)", result->ready,
                 shp_code_name(result->error.code), shp_code_name(code), result->error.cause,
                 result->diagnostic);
    assert_true(result->error.cause[0] != '\0');
    assert_true(result->error.step[0] != '\0');
}

/* Cold, then warm; a warm start changes neither the file nor its directory. */
static void cold_then_warm(struct rig *rig, const char *const *shell, const char *where)
{
    struct rig_result result;
    struct stat file[2];
    struct stat directory[2];

    rig_run(rig, shell, &result, 1);
    expect_ready(&result, true, where);
    assert_int_equal(rig_count_files(rig), 1);
    assert_int_equal(lstat(rig_helper_path(rig), &file[0]), 0);
    assert_int_equal(lstat(rig->bin, &directory[0]), 0);
    assert_int_equal(file[0].st_mode & 07777, 0700);
    assert_int_equal(directory[0].st_mode & 07777, 0700);
    rig_run(rig, shell, &result, 1);
    expect_ready(&result, false, where);
    assert_int_equal(lstat(rig_helper_path(rig), &file[1]), 0);
    assert_int_equal(lstat(rig->bin, &directory[1]), 0);
    assert_int_equal(file[0].st_ino, file[1].st_ino);
    assert_memory_equal(&file[0].st_mtim, &file[1].st_mtim, sizeof(file[0].st_mtim));
    assert_memory_equal(&file[0].st_ctim, &file[1].st_ctim, sizeof(file[0].st_ctim));
    assert_memory_equal(&directory[0].st_mtim, &directory[1].st_mtim, sizeof(directory[0].st_mtim));
    assert_int_equal(rig_count_files(rig), 1);
}

static void every_login_shell_installs_and_starts(void **state)
{
    const char *const shells[][3] = {
        {"/bin/sh", NULL},         {"/usr/bin/dash", NULL},      {"/bin/bash", NULL},
        {"/bin/bash", "-l", NULL}, {"/usr/bin/zsh", NULL},       {"/usr/bin/fish", NULL},
        {"/usr/bin/tcsh", NULL},   {"/bin/busybox", "sh", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
        struct rig rig;

        if (access(shells[i][0], X_OK) != 0) {
            print_message("skipped: no %s\n", shells[i][0]);
            continue;
        }
        rig_init(&rig, 200000);
        cold_then_warm(&rig, shells[i], shells[i][0]);
        rig_fini(&rig);
    }
}

static void five_tools_are_enough(void **state)
{
    const char *const shell[] = {"/bin/sh", NULL};
    struct rig rig;
    char path[256];

    (void)state;
    rig_init(&rig, 1000);
    snprintf(path, sizeof(path), "%s/tools", rig.home);
    sh("mkdir %s; for tool in sh head mkdir chmod mv; do ln -s \"$(command -v $tool)\" %s; done",
       path, path);
    rig.path = path;
    cold_then_warm(&rig, shell, "five tools");
    rig_fini(&rig);
}

static void busybox_tools_are_enough(void **state)
{
    const char *const shell[] = {"/bin/busybox", "sh", NULL};
    struct rig rig;
    char path[256];

    (void)state;
    if (access(shell[0], X_OK) != 0) {
        print_message("skipped: no busybox\n");
        return;
    }
    rig_init(&rig, 300000);
    snprintf(path, sizeof(path), "%s/tools", rig.home);
    sh("mkdir %s; for tool in sh head mkdir chmod mv rm uname sha256sum; do "
       "ln -s /bin/busybox %s/$tool; done",
       path, path);
    rig.path = path;
    cold_then_warm(&rig, shell, "busybox");
    rig_fini(&rig);
}

static void a_home_with_odd_characters_works(void **state)
{
    const char *const shell[] = {"/bin/sh", NULL};
    struct rig rig;

    (void)state;
    rig_init(&rig, 0);
    strcat(rig.home, "/a b$c*\"d");
    sh("mkdir '%s'", rig.home);
    snprintf(rig.bin, sizeof(rig.bin), "%s/.pi/agent/shepherdr/bin", rig.home);
    cold_then_warm(&rig, shell, "odd home");
    *strstr(rig.home, "/a b") = '\0';
    rig_fini(&rig);
}

static void a_helper_directory_of_the_users_choice_is_used(void **state)
{
    const char *const shell[] = {"/bin/sh", NULL};
    struct rig rig;

    (void)state;
    rig_init(&rig, 0);
    snprintf(rig.bin, sizeof(rig.bin), "%s/chosen", rig.home);
    rig.helper_dir = rig.bin;
    cold_then_warm(&rig, shell, "chosen directory");
    rig_fini(&rig);
}

static void twenty_at_once_leave_one_file(void **state)
{
    const char *const shell[] = {"/bin/sh", NULL};
    struct rig_result results[TOGETHER];
    struct rig rig;

    (void)state;
    rig_init(&rig, 300000);
    rig_run(&rig, shell, results, TOGETHER);
    for (size_t i = 0; i < TOGETHER; i++)
        expect_ready(&results[i], results[i].seen.uploaded, "together");
    assert_true(results[0].seen.uploaded);
    assert_int_equal(rig_count_files(&rig), 1);
    rig_fini(&rig);
}

static void a_damaged_helper_is_replaced(void **state)
{
    const char *const damages[] = {
        "head -c 100 \"$F\" > \"$F.x\"; cat \"$F.x\" > \"$F\"; rm \"$F.x\"",
        ": > \"$F\"",
        "printf Y | dd of=\"$F\" bs=1 seek=600 conv=notrunc status=none",
        "chmod 600 \"$F\"",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        struct rig_result result;
        struct rig rig;

        rig_init(&rig, 1000);
        result = rig_run_once(&rig);
        expect_ready(&result, true, "first");
        sh("F=%s; %s", rig_helper_path(&rig), damages[i]);
        result = rig_run_once(&rig);
        expect_ready(&result, true, damages[i]);
        result = rig_run_once(&rig);
        expect_ready(&result, false, "after the repair");
        assert_int_equal(rig_count_files(&rig), 1);
        rig_fini(&rig);
    }
}

static void what_is_not_ours_stays_untouched(void **state)
{
    const char *const foreign[] = {
        "mkdir \"$F\"; touch \"$F/precious\"",
        "ln -s /etc/passwd \"$F\"",
        "ln -s nowhere \"$F\"",
        "mkfifo \"$F\"",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        struct rig_result result;
        struct stat before;
        struct stat after;
        struct rig rig;

        rig_init(&rig, 0);
        sh("mkdir -p %s; F=%s; %s", rig.bin, rig_helper_path(&rig), foreign[i]);
        assert_int_equal(lstat(rig_helper_path(&rig), &before), 0);
        result = rig_run_once(&rig);
        expect_failure(&result, SHP_CODE_INSTALL_FOREIGN_FILE);
        assert_non_null(strstr(result.error.cause, rig_helper_path(&rig)));
        assert_int_equal(lstat(rig_helper_path(&rig), &after), 0);
        assert_int_equal(before.st_ino, after.st_ino);
        assert_int_equal(rig_count_files(&rig), 1);
        rig_fini(&rig);
    }
}

static void a_linked_directory_is_not_ours(void **state)
{
    struct rig_result result;
    struct rig rig;

    (void)state;
    rig_init(&rig, 0);
    sh("mkdir -p %s/other %s && rmdir %s && ln -s %s/other %s", rig.home, rig.bin, rig.bin,
       rig.home, rig.bin);
    result = rig_run_once(&rig);
    expect_failure(&result, SHP_CODE_INSTALL_FOREIGN_FILE);
    rig_fini(&rig);
}

static void another_owners_file_is_not_run(void **state)
{
    struct rig_result result;
    struct rig rig;

    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: giving a file away needs root\n");
        return;
    }
    rig_init(&rig, 0);
    result = rig_run_once(&rig);
    expect_ready(&result, true, "first");
    sh("chown 12345 %s", rig_helper_path(&rig));
    result = rig_run_once(&rig);
    expect_failure(&result, SHP_CODE_INSTALL_FOREIGN_FILE);
    rig_fini(&rig);
}

static void bytes_that_differ_from_their_digest_are_not_installed(void **state)
{
    struct rig_result result;
    struct rig rig;

    (void)state;
    rig_init(&rig, 1000);
    rig.artifacts.items[0].content[700] ^= 1; /* in the filler */
    result = rig_run_once(&rig);
    expect_failure(&result, SHP_CODE_INSTALL_CORRUPT);
    assert_int_equal(rig_count_files(&rig), 0);
    rig_fini(&rig);
}

static void bytes_too_damaged_to_load_are_no_other_architecture(void **state)
{
    struct rig_result result;
    struct rig rig;

    (void)state;
    rig_init(&rig, 1000);
    memset(rig.artifacts.items[0].content, 0x80, 64);
    result = rig_run_once(&rig);
    expect_failure(&result, SHP_CODE_INSTALL_CORRUPT);
    assert_int_equal(rig_count_files(&rig), 0);
    rig_fini(&rig);
}

static void a_program_of_another_architecture_is_named(void **state)
{
    unsigned char elf[4096] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    struct rig_result result;
    struct rig rig;

    (void)state;
    elf[16] = 2;
    elf[18] = 0xee; /* e_machine of nothing */
    elf[19] = 0xee;
    rig_init(&rig, 0);
    rig_set_content(&rig, elf, sizeof(elf));
    result = rig_run_once(&rig);
    expect_failure(&result, SHP_CODE_ARCH_UNSUPPORTED);
    assert_int_equal(rig_count_files(&rig), 0);
    rig_fini(&rig);
}

static void a_system_without_helper_is_named_before_the_upload(void **state)
{
    struct rig_result result;
    struct rig rig;

    (void)state;
    rig_init(&rig, 0);
    strcpy(rig.artifacts.items[0].system, "Plan9 mips");
    result = rig_run_once(&rig);
    expect_failure(&result, SHP_CODE_ARCH_UNSUPPORTED);
    assert_false(result.seen.uploaded);
    assert_non_null(strstr(result.error.cause, "Linux"));
    assert_int_equal(rig_count_files(&rig), -1);
    rig_fini(&rig);
}

static void a_home_that_cannot_be_written_is_named(void **state)
{
    struct rig_result result;
    struct rig rig;

    (void)state;
    rig_init(&rig, 0);
    sh("touch %s/.pi", rig.home);
    result = rig_run_once(&rig);
    expect_failure(&result, SHP_CODE_INSTALL_FAILED);
    assert_non_null(strstr(result.error.cause, ".pi"));
    rig.no_home = true;
    result = rig_run_once(&rig);
    expect_failure(&result, SHP_CODE_HOME_MISSING);
    assert_non_null(strstr(result.error.cause, "HOME"));
    rig_fini(&rig);
}

/* False: no permission to mount here. */
static bool mount_home(const struct rig *rig, unsigned long flags, const char *options)
{
    if (mount("tmpfs", rig->home, "tmpfs", flags, options) == 0)
        return true;
    print_message("skipped: mounting a tmpfs needs root\n");
    return false;
}

static void a_noexec_home_is_named(void **state)
{
    struct rig_result result;
    struct rig rig;

    (void)state;
    rig_init(&rig, 0);
    if (mount_home(&rig, MS_NOEXEC, "size=1m")) {
        result = rig_run_once(&rig);
        expect_failure(&result, SHP_CODE_INSTALL_NOEXEC);
        assert_int_equal(rig_count_files(&rig), 0);
        assert_int_equal(umount(rig.home), 0);
    }
    rig_fini(&rig);
}

static void a_full_disk_is_named_and_left_clean(void **state)
{
    struct rig_result result;
    struct rig rig;

    (void)state;
    rig_init(&rig, 500000);
    if (mount_home(&rig, 0, "size=200k")) {
        result = rig_run_once(&rig);
        expect_failure(&result, SHP_CODE_INSTALL_NO_SPACE);
        assert_int_equal(rig_count_files(&rig), 0);
        assert_int_equal(umount(rig.home), 0);
    }
    rig_fini(&rig);
}

static void a_read_only_home_is_named(void **state)
{
    struct rig_result result;
    struct rig rig;

    (void)state;
    rig_init(&rig, 0);
    if (mount_home(&rig, MS_RDONLY, "size=200k")) {
        result = rig_run_once(&rig);
        expect_failure(&result, SHP_CODE_INSTALL_READ_ONLY);
        assert_non_null(strstr(result.error.cause, "Read-only"));
        assert_int_equal(umount(rig.home), 0);
    }
    rig_fini(&rig);
}

static void an_upload_that_breaks_off_leaves_nothing(void **state)
{
    struct rig_result result;
    struct rig rig;

    (void)state;
    rig_init(&rig, 4000000);
    rig.cut_after = 1000000;
    result = rig_run_once(&rig);
    expect_failure(&result, SHP_CODE_LINK_LOST);
    assert_int_equal(rig_count_files(&rig), 0);
    rig_fini(&rig);
}

static void noise_before_the_helper_is_skipped(void **state)
{
    struct rig_result result;
    struct rig rig;

    (void)state;
    rig_init(&rig, 50000);
    rig.before = "head -c 3000000 /dev/zero; printf \"\\n@@SHP1 "
                 "00000000000000000000000000000000 READY " RIG_BUILD "\\n@@SHP1 \\033[31mhi\";";
    result = rig_run_once(&rig);
    expect_ready(&result, true, "noise");
    assert_in_range(result.seen.noise_bytes, 3000000, 3001000);
    assert_memory_equal(result.seen.first_line, "\\x00\\x00", 8);
    assert_true(strlen(result.seen.first_line) < sizeof(result.seen.first_line));
    assert_true(result.seen.ready_ms > 0);
    rig_fini(&rig);
}

static void endless_noise_is_named(void **state)
{
    struct rig_result result;
    struct rig rig;

    (void)state;
    rig_init(&rig, 0);
    rig.before = "yes welcome to the machine;";
    result = rig_run_once(&rig);
    expect_failure(&result, SHP_CODE_SHELL_NOISE);
    assert_non_null(strstr(result.error.cause, "welcome"));
    rig_fini(&rig);
}

static void a_shell_that_ends_shows_its_text(void **state)
{
    struct rig_result result;
    struct rig rig;

    (void)state;
    rig_init(&rig, 0);
    rig.before = "echo This account is currently not available.; exit 1;";
    result = rig_run_once(&rig);
    expect_failure(&result, SHP_CODE_SHELL_REFUSED);
    assert_non_null(strstr(result.error.cause, "not available"));
    rig_fini(&rig);
}

static void a_shell_that_waits_meets_the_deadline(void **state)
{
    struct rig_result result;
    struct rig rig;

    (void)state;
    rig_init(&rig, 0);
    rig.before = "echo loading; read line;";
    rig.timeout_ms = 300;
    result = rig_run_once(&rig);
    expect_failure(&result, SHP_CODE_SHELL_SLOW);
    assert_non_null(strstr(result.error.cause, "loading"));
    rig_fini(&rig);
}

/* The deadline of the bootstrap, shortened; tests/connect has the real one. */
static void s5_a_start_up_file_that_reads_standard_input_meets_the_deadline(void **state)
{
    struct rig_result result;
    struct rig rig;

    (void)state;
    rig_init(&rig, 0);
    rig.before = "echo Press enter; cat >/dev/null;";
    rig.timeout_ms = 300;
    result = rig_run_once(&rig);
    expect_failure(&result, SHP_CODE_SHELL_SLOW);
    assert_non_null(strstr(result.error.cause, "reads standard input"));
    assert_non_null(strstr(result.error.cause, "Press enter"));
    rig_fini(&rig);
}

/* Two thirds of a deadline connect, four thirds do not: 20 s and 40 s of 30 s, in small. */
static void s6_a_slow_shell_connects_within_the_deadline(void **state)
{
    struct rig_result result;
    struct rig rig;

    (void)state;
    rig_init(&rig, 0);
    rig.timeout_ms = 15000;
    rig.before = "echo loading; sleep 1;";
    result = rig_run_once(&rig);
    expect_ready(&result, true, "slow");
    rig.timeout_ms = 300;
    rig.before = "echo loading; sleep 20;";
    result = rig_run_once(&rig);
    expect_failure(&result, SHP_CODE_SHELL_SLOW);
    rig_fini(&rig);
}

static void s2_a_shell_of_another_language_is_told_by_its_own_words(void **state)
{
    static const struct {
        const char *printed;
        const char *name; /* NULL: no complaint about our command */
    } texts[] = {
        {"File \"<string>\", line 1 exec sh -c 'k=0 ^^ SyntaxError: invalid syntax", "Python"},
        {"[eval]:1 exec sh -c ^^ SyntaxError: Unexpected identifier 'sh'", "Node.js"},
        {"syntax error at -e line 1, near \"exec sh -\"", "Perl"},
        {"exec: The term 'exec' is not recognized as a name of a cmdlet", "PowerShell"},
        {"'exec' is not recognized as an internal or external command,", "cmd.exe"},
        {"fatal: unrecognized command 'exec sh -c '", "git-shell"},
        {"-lang: 1: parse error before 'sh'", "lang"},
        {"/usr/local/bin/plan9rc: line 1: syntax error near \"sh\"", "plan9rc"},
        {"Welcome: news /opt/x/clish: Unknown command: exec", "clish"},
        {"ERROR: syntax error at or near \"exec\"", ""},
        {"This account is currently not available.", NULL},
        {"/home/a/.bashrc: line 3: syntax error near unexpected token `fi'", NULL},
        {"bash: nosuchtool: command not found", NULL},
        {"not allowed: (our command)", NULL},
        {"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct shp_error error;
        char start[128];

        shp_error_set(&error, SHP_CODE_SHELL_REFUSED, "m", "start helper", "it ended");
        assert_int_equal(shp_shell_explain(&error, texts[i].printed), texts[i].name != NULL);
        if (texts[i].name == NULL) {
            assert_int_equal(error.code, SHP_CODE_SHELL_REFUSED);
            assert_string_equal(error.cause, "it ended");
            continue;
        }
        snprintf(start, sizeof(start),
                 "the login shell %s%sdoes not understand sh: ", texts[i].name,
                 texts[i].name[0] != '\0' ? " " : "");
        assert_int_equal(error.code, SHP_CODE_SHELL_UNSUPPORTED);
        assert_string_equal(error.machine, "m");
        if (strncmp(error.cause, start, strlen(start)) != 0)
            fail_msg("%s: %s", start, error.cause);
    }
}

/* One that shows a prompt instead of ending is told the same way. */
static void s2_a_shell_that_goes_on_after_its_complaint_is_unsupported(void **state)
{
    struct shp_error error;

    (void)state;
    shp_error_set(&error, SHP_CODE_SHELL_SLOW, NULL, "start helper", "no answer within 30 s");
    assert_true(shp_shell_explain(&error, "% Unknown command: exec sh -c router>"));
    assert_int_equal(error.code, SHP_CODE_SHELL_UNSUPPORTED);
}

/* Other ends than those of a shell keep their meaning, whatever was printed. */
static void other_ends_are_no_shells(void **state)
{
    struct shp_error error;

    (void)state;
    shp_error_set(&error, SHP_CODE_LINK_LOST, NULL, "connection", "gone");
    assert_false(shp_shell_explain(&error, "lang: syntax error near 'sh'"));
    assert_int_equal(error.code, SHP_CODE_LINK_LOST);
}

static void a_repeated_command_line_leaves_room_for_the_rest(void **state)
{
    struct shp_prelude prelude;
    struct rig rig;
    char *command = NULL;
    char *text;
    struct shp_bootstrap_options options = {
        .artifacts = &rig.artifacts,
        .marker = "0123456789abcdef0123456789abcdef",
        .build_id = RIG_BUILD,
    };
    size_t size;

    (void)state;
    rig_init(&rig, 0);
    assert_int_equal(shp_bootstrap_new(&prelude, &command, &options), 0);
    prelude.free(prelude.prelude);
    size = strlen(command) + 2048;
    text = malloc(size);
    assert_non_null(text);
    snprintf(text, size, "refused: %s, sorry", command);
    shp_shell_hide_command(text);
    assert_string_equal(text, "refused: (our command), sorry");
    /* Its end only, its beginning only. */
    snprintf(text, size, "%s: refused", command + 100);
    shp_shell_hide_command(text);
    assert_string_equal(text, "(our command): refused");
    snprintf(text, size, "refused: %.50s...", command);
    shp_shell_hide_command(text);
    assert_memory_equal(text, "refused: (our command);", 23);
    snprintf(text, size, "exec sh -c 'k=");
    shp_shell_hide_command(text);
    assert_string_equal(text, "(our command)");
    snprintf(text, size, "nothing of ours");
    shp_shell_hide_command(text);
    assert_string_equal(text, "nothing of ours");
    free(command);
    options.probe_only = true;
    assert_int_equal(shp_bootstrap_new(&prelude, &command, &options), 0);
    prelude.free(prelude.prelude);
    assert_true(strlen(command) + 64 <= size);
    snprintf(text, size, "refused: %s, sorry", command);
    shp_shell_hide_command(text);
    assert_string_equal(text, "refused: (our command), sorry");
    free(text);
    free(command);
    rig_fini(&rig);
}

static void a_look_does_not_install(void **state)
{
    struct rig_result result;
    struct rig rig;

    (void)state;
    rig_init(&rig, 0);
    rig.probe_only = true;
    result = rig_run_once(&rig);
    expect_failure(&result, SHP_CODE_HELPER_ABSENT);
    assert_int_equal(rig_count_files(&rig), -1);
    assert_true(result.seen.absent);
    assert_int_equal(result.seen.absent_bytes, rig.artifacts.items[0].len);
    assert_string_equal(result.seen.absent_path, rig_helper_path(&rig));
    assert_false(result.seen.unwritable);
    rig.probe_only = false;
    result = rig_run_once(&rig);
    expect_ready(&result, true, "install");
    assert_int_equal(result.seen.noise_bytes, 0);
    assert_string_equal(result.seen.first_line, "");
    rig.probe_only = true;
    rig.before = "echo Welcome back; echo more;";
    result = rig_run_once(&rig);
    expect_ready(&result, false, "look");
    assert_string_equal(result.seen.first_line, "Welcome back");
    rig_fini(&rig);
}

/* The places where an install would fail are known without one. */
static void a_look_names_what_an_install_would_meet(void **state)
{
    struct rig_result result;
    struct rig rig;

    (void)state;
    rig_init(&rig, 0);
    rig.probe_only = true;
    if (mount_home(&rig, MS_NOEXEC, "size=1m,nr_inodes=20")) {
        result = rig_run_once(&rig);
        expect_failure(&result, SHP_CODE_HELPER_ABSENT);
        assert_true(result.seen.noexec);
        assert_false(result.seen.read_only);
        assert_false(result.seen.unwritable);
        assert_in_range(result.seen.free_kib, 1, 1024);
        assert_in_range(result.seen.free_inodes, 1, 20);
        assert_int_equal(umount(rig.home), 0);
    }
    if (mount_home(&rig, MS_RDONLY, "size=1m")) {
        result = rig_run_once(&rig);
        expect_failure(&result, SHP_CODE_HELPER_ABSENT);
        assert_true(result.seen.read_only);
        assert_true(result.seen.unwritable);
        assert_int_equal(umount(rig.home), 0);
    }
    rig_fini(&rig);
}

static void the_command_line_is_one_quoted_word_for_every_shell(void **state)
{
    struct shp_prelude prelude;
    struct rig rig;
    char *command = NULL;
    char *inner;
    struct shp_bootstrap_options options = {
        .artifacts = &rig.artifacts,
        .marker = "0123456789abcdef0123456789abcdef",
        .build_id = RIG_BUILD,
    };

    (void)state;
    rig_init(&rig, 0);
    assert_int_equal(shp_bootstrap_new(&prelude, &command, &options), 0);
    assert_memory_equal(command, "exec sh -c '", 12);
    inner = command + 12;
    assert_null(strchr(command, '\n'));
    assert_null(strchr(command, '!'));
    assert_ptr_equal(strchr(inner, '\''), inner + strlen(inner) - 1);
    prelude.free(prelude.prelude);
    free(command);

    options.marker = "not a marker";
    assert_int_equal(shp_bootstrap_new(&prelude, &command, &options), SHP_ERR_INVALID);
    options.marker = "0123456789abcdef0123456789abcdef";
    options.helper_dir = "/tmp/it's";
    assert_int_equal(shp_bootstrap_new(&prelude, &command, &options), SHP_ERR_INVALID);
    options.helper_dir = "relative";
    assert_int_equal(shp_bootstrap_new(&prelude, &command, &options), SHP_ERR_INVALID);
    options.helper_dir = NULL;
    rig.artifacts.len = 0;
    assert_int_equal(shp_bootstrap_new(&prelude, &command, &options), SHP_ERR_INVALID);
    rig_fini(&rig);
}

static void another_build_is_named(void **state)
{
    struct rig_result result;
    struct rig rig;
    char *at;

    (void)state;
    rig_init(&rig, 0);
    at = memmem(rig.artifacts.items[0].content, rig.artifacts.items[0].len, RIG_BUILD,
                strlen(RIG_BUILD));
    assert_non_null(at);
    {
        size_t len = rig.artifacts.items[0].len;
        char *copy = malloc(len);

        at[0] = 'b';
        memcpy(copy, rig.artifacts.items[0].content, len);
        rig_set_content(&rig, copy, len);
        free(copy);
    }
    result = rig_run_once(&rig);
    expect_failure(&result, SHP_CODE_BUILD_MISMATCH);
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(every_login_shell_installs_and_starts),
        cmocka_unit_test(five_tools_are_enough),
        cmocka_unit_test(busybox_tools_are_enough),
        cmocka_unit_test(a_home_with_odd_characters_works),
        cmocka_unit_test(a_helper_directory_of_the_users_choice_is_used),
        cmocka_unit_test(twenty_at_once_leave_one_file),
        cmocka_unit_test(a_damaged_helper_is_replaced),
        cmocka_unit_test(what_is_not_ours_stays_untouched),
        cmocka_unit_test(a_linked_directory_is_not_ours),
        cmocka_unit_test(another_owners_file_is_not_run),
        cmocka_unit_test(bytes_that_differ_from_their_digest_are_not_installed),
        cmocka_unit_test(bytes_too_damaged_to_load_are_no_other_architecture),
        cmocka_unit_test(a_program_of_another_architecture_is_named),
        cmocka_unit_test(a_system_without_helper_is_named_before_the_upload),
        cmocka_unit_test(a_home_that_cannot_be_written_is_named),
        cmocka_unit_test(a_noexec_home_is_named),
        cmocka_unit_test(a_full_disk_is_named_and_left_clean),
        cmocka_unit_test(a_read_only_home_is_named),
        cmocka_unit_test(an_upload_that_breaks_off_leaves_nothing),
        cmocka_unit_test(noise_before_the_helper_is_skipped),
        cmocka_unit_test(endless_noise_is_named),
        cmocka_unit_test(a_shell_that_ends_shows_its_text),
        cmocka_unit_test(a_shell_that_waits_meets_the_deadline),
        cmocka_unit_test(s5_a_start_up_file_that_reads_standard_input_meets_the_deadline),
        cmocka_unit_test(s6_a_slow_shell_connects_within_the_deadline),
        cmocka_unit_test(s2_a_shell_of_another_language_is_told_by_its_own_words),
        cmocka_unit_test(s2_a_shell_that_goes_on_after_its_complaint_is_unsupported),
        cmocka_unit_test(other_ends_are_no_shells),
        cmocka_unit_test(a_repeated_command_line_leaves_room_for_the_rest),
        cmocka_unit_test(a_look_does_not_install),
        cmocka_unit_test(a_look_names_what_an_install_would_meet),
        cmocka_unit_test(the_command_line_is_one_quoted_word_for_every_shell),
        cmocka_unit_test(another_build_is_named),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
