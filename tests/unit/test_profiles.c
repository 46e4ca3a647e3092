/* controller/profiles: first-run installation, and what makes a profile valid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "controller/profiles/profile_internal.h"
#include "protocol/messages.h"
#include "tests/support/temp_root.h"

#define GOOD "\"description\":\"d\",\"model\":\"m/x\",\"thinking\":\"high\""

static struct shp_profiles load(const char *root)
{
    struct shp_profiles profiles = {0};
    struct shp_error error = {0};
    int err = shp_profiles_load(&profiles, root, &error);
    if (err != 0)
        print_error("load: %s\n", error.cause);
    assert_int_equal(err, 0);
    return profiles;
}

static void load_fails(const char *root, const char *cause)
{
    struct shp_profiles profiles = {0};
    struct shp_error error = {0};
    assert_int_not_equal(shp_profiles_load(&profiles, root, &error), 0);
    assert_null(profiles.items);
    assert_int_equal(error.code, SHP_CODE_PROFILE_INVALID);
    if (strstr(error.cause, cause) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", cause, error.cause);
}

/* A profile beside the installed ones. */
static void add(const char *root, const char *name, const char *file, const char *text)
{
    struct shp_profiles profiles = {0};
    struct shp_error error;
    char below[256];
    if (shp_profiles_load(&profiles, root, &error) == 0)
        shp_profiles_fini(&profiles);
    snprintf(below, sizeof below, "shepherdr/profiles/%s", name);
    char *folder = temp_path(root, below);
    mkdir(folder, 0700);
    char *path = temp_path(folder, file);
    temp_write(path, text, strlen(text));
    free(path);
    free(folder);
}

static void json_fails(const char *json, const char *cause)
{
    struct shp_profile profile;
    struct shp_error error = {0};
    int err = shp_profile_parse(&profile, "mine", "/p/mine", "/p/mine/profile.json", json,
                                strlen(json), &error);
    if (err == 0)
        fail_msg("accepted: %s", json);
    assert_int_equal(err, SHP_ERR_INVALID);
    assert_int_equal(error.code, SHP_CODE_PROFILE_INVALID);
    assert_non_null(strstr(error.cause, "/p/mine/profile.json"));
    if (strstr(error.cause, cause) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", cause, error.cause);
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

/* ---- installation ------------------------------------------------------------------------------
 */

static void first_load_installs_the_three_with_their_models(void **state)
{
    struct shp_profiles profiles = load(*state);
    assert_int_equal(profiles.len, 3);
    assert_string_equal(profiles.items[0].name, "explorer");
    assert_string_equal(profiles.items[1].name, "general");
    assert_string_equal(profiles.items[2].name, "reviewer");

    const struct shp_profile *general = shp_profiles_find(&profiles, "general");
    assert_string_equal(general->model, "openai-codex/gpt-6-sol");
    assert_string_equal(general->thinking, "high");
    assert_int_equal(general->blocking, SHP_UNSET);
    assert_false(general->accepts_base);
    const struct shp_profile *explorer = shp_profiles_find(&profiles, "explorer");
    assert_string_equal(explorer->model, "openai-codex/gpt-6-luna");
    assert_string_equal(explorer->thinking, "high");
    assert_int_equal(explorer->blocking, SHP_UNSET);
    assert_false(explorer->accepts_base);
    const struct shp_profile *reviewer = shp_profiles_find(&profiles, "reviewer");
    assert_string_equal(reviewer->model, "openai-codex/gpt-6-luna");
    assert_string_equal(reviewer->thinking, "xhigh");
    assert_int_equal(reviewer->blocking, SHP_TRUE);
    assert_true(reviewer->accepts_base);
    for (size_t i = 0; i < profiles.len; i++) {
        char *text = NULL;
        size_t len = 0;
        struct shp_error error;
        assert_int_equal(profiles.items[i].share_context, SHP_UNSET);
        assert_int_equal(profiles.items[i].args_len, 0);
        assert_null(profiles.items[i].prepare_path);
        assert_int_equal(shp_profile_read_prompt(&profiles.items[i], &text, &len, &error), 0);
        assert_int_equal(strlen(text), len);
        assert_true(len > 200 && len < 4096);
        if (i != 1)
            assert_non_null(strstr(text, "read-only"));
        free(text);
    }
    assert_null(shp_profiles_find(&profiles, "missing"));
    shp_profiles_fini(&profiles);

    char *marker = temp_path(*state, "shepherdr/.profiles-initialized");
    char *folder = temp_path(*state, "shepherdr/profiles");
    char *parent = temp_path(*state, "shepherdr");
    char *file = temp_path(*state, "shepherdr/profiles/general/profile.json");
    assert_int_equal(mode_of(marker), 0600);
    assert_int_equal(mode_of(folder), 0700);
    assert_int_equal(mode_of(parent), 0700);
    assert_int_equal(mode_of(file), 0600);
    /* The marker and the folder; no copy is left behind. */
    assert_int_equal(temp_entries(parent), 2);
    free(file);
    free(parent);
    free(folder);
    free(marker);
}

static void existing_profile_is_never_touched(void **state)
{
    char *folder = temp_path(*state, "shepherdr");
    char *profiles_folder = temp_path(folder, "profiles");
    char *own = temp_path(profiles_folder, "reviewer");
    char *path = temp_path(own, "profile.json");
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(mkdir(profiles_folder, 0700), 0);
    assert_int_equal(mkdir(own, 0700), 0);
    temp_write(path, "{" GOOD "}", strlen("{" GOOD "}"));
    struct shp_profiles profiles = load(*state);
    assert_int_equal(profiles.len, 3);
    const struct shp_profile *reviewer = shp_profiles_find(&profiles, "reviewer");
    assert_string_equal(reviewer->model, "m/x");
    assert_int_equal(reviewer->blocking, SHP_UNSET);
    assert_int_equal(temp_entries(own), 1);
    shp_profiles_fini(&profiles);
    free(path);
    free(own);
    free(profiles_folder);
    free(folder);
}

static void empty_directory_of_a_bundled_name_is_not_replaced(void **state)
{
    char *folder = temp_path(*state, "shepherdr");
    char *profiles_folder = temp_path(folder, "profiles");
    char *own = temp_path(profiles_folder, "general");
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(mkdir(profiles_folder, 0700), 0);
    assert_int_equal(mkdir(own, 0700), 0);
    load_fails(*state, "general/profile.json: there is no such file");
    assert_int_equal(temp_entries(own), 0);
    free(own);
    free(profiles_folder);
    free(folder);
}

static void deleted_default_stays_deleted(void **state)
{
    struct shp_profiles profiles = load(*state);
    shp_profiles_fini(&profiles);
    char *own = temp_path(*state, "shepherdr/profiles/explorer");
    char *json = temp_path(own, "profile.json"), *prompt = temp_path(own, "prompt.md");
    assert_int_equal(unlink(json), 0);
    assert_int_equal(unlink(prompt), 0);
    assert_int_equal(rmdir(own), 0);
    profiles = load(*state);
    assert_int_equal(profiles.len, 2);
    assert_null(shp_profiles_find(&profiles, "explorer"));
    shp_profiles_fini(&profiles);
    free(prompt);
    free(json);
    free(own);
}

static void no_directory_at_all_means_no_profiles(void **state)
{
    char *folder = temp_path(*state, "shepherdr");
    char *marker = temp_path(folder, ".profiles-initialized");
    assert_int_equal(mkdir(folder, 0700), 0);
    temp_write(marker, "", 0);
    struct shp_profiles profiles = load(*state);
    assert_int_equal(profiles.len, 0);
    shp_profiles_fini(&profiles);
    free(marker);
    free(folder);
}

static void first_runs_at_the_same_time_tolerate_each_other(void **state)
{
    enum { CHILDREN = 8 };
    pid_t children[CHILDREN];
    int go[2];
    assert_int_equal(pipe(go), 0);
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            char byte;
            struct shp_profiles profiles = {0};
            struct shp_error error = {0};
            close(go[1]);
            if (read(go[0], &byte, 1) != 0)
                _exit(2);
            int err = shp_profiles_load(&profiles, *state, &error);
            if (err != 0)
                fprintf(stderr, "%s\n", error.cause);
            bool good = err == 0 && profiles.len == 3;
            _exit(good ? 0 : 1);
        }
    }
    /* The end of the pipe lets all of them go at once. */
    close(go[0]);
    close(go[1]);
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    char *parent = temp_path(*state, "shepherdr");
    assert_int_equal(temp_entries(parent), 2);
    free(parent);
}

static void interrupted_installation_is_finished_and_cleaned_up(void **state)
{
    char *parent = temp_path(*state, "shepherdr");
    char *stale = temp_path(parent, ".profile-stage-Ab12Cd");
    char *half = temp_path(stale, "profile.json");
    assert_int_equal(mkdir(parent, 0700), 0);
    assert_int_equal(mkdir(stale, 0700), 0);
    temp_write(half, "{\"descr", 7);
    struct shp_profiles profiles = load(*state);
    assert_int_equal(profiles.len, 3);
    shp_profiles_fini(&profiles);
    assert_int_equal(temp_entries(parent), 2);
    free(half);
    free(stale);
    free(parent);
}

static void folder_without_permission_is_named(void **state)
{
    pid_t child = fork();
    if (child == 0) {
        bool root = geteuid() == 0;
        if (root ? setgid(65534) != 0 || setuid(65534) != 0 : chmod(*state, 0555) != 0)
            _exit(2);
        struct shp_profiles profiles = {0};
        struct shp_error error = {0};
        int err = shp_profiles_load(&profiles, *state, &error);
        bool good = err == SHP_ERR_IO && error.code == SHP_CODE_PROFILE_INVALID &&
                    strstr(error.cause, *state) != NULL &&
                    strstr(error.cause, "Permission denied") != NULL;
        if (!good)
            fprintf(stderr, "%d: %s\n", err, error.cause);
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(chmod(*state, 0755), 0);
    assert_int_equal(temp_entries(*state), 0);
}

static void file_in_the_way_is_named(void **state)
{
    char *parent = temp_path(*state, "shepherdr");
    temp_write(parent, "x", 1);
    load_fails(*state, parent);
    free(parent);
    load_fails("not/absolute", "absolute");
}

/* ---- reading -----------------------------------------------------------------------------------
 */

static void all_keys_are_read(void **state)
{
    add(*state, "mine", "prompt.md", "You look at dependencies.\n");
    add(*state, "mine", "prepare.mjs", "export function prepare() {}\n");
    add(*state, "mine", "profile.json",
        "{ " GOOD ", \"prompt\": \"prompt.md\", \"prepare\": \"prepare.mjs\",\n"
        "  \"accepts\": [\"base\", \"later\"], \"pi_args\": [\"--flag\", \"a b\"],\n"
        "  \"blocking\": false, \"share_context\": false }\n");
    struct shp_profiles profiles = load(*state);
    assert_int_equal(profiles.len, 4);
    const struct shp_profile *mine = shp_profiles_find(&profiles, "mine");
    char *prompt = temp_path(*state, "shepherdr/profiles/mine/prompt.md");
    char *prepare = temp_path(*state, "shepherdr/profiles/mine/prepare.mjs");
    assert_string_equal(mine->prompt_path, prompt);
    assert_string_equal(mine->prepare_path, prepare);
    assert_true(mine->accepts_base);
    assert_int_equal(mine->args_len, 2);
    assert_string_equal(mine->args[0], "--flag");
    assert_string_equal(mine->args[1], "a b");
    assert_int_equal(mine->blocking, SHP_FALSE);
    assert_int_equal(mine->share_context, SHP_FALSE);
    shp_profiles_fini(&profiles);

    /* Read again on every use. */
    add(*state, "mine", "profile.json", "{" GOOD "}");
    profiles = load(*state);
    mine = shp_profiles_find(&profiles, "mine");
    assert_null(mine->prompt_path);
    assert_false(mine->accepts_base);
    assert_int_equal(mine->blocking, SHP_UNSET);
    shp_profiles_fini(&profiles);
    free(prompt);
    free(prepare);
}

static void one_bad_profile_fails_the_load_with_its_path(void **state)
{
    add(*state, "mine", "profile.json", "{" GOOD ",\"colour\":\"red\"}");
    load_fails(*state, "profiles/mine/profile.json: \"colour\" is no key of a profile");
    add(*state, "mine", "profile.json", "{" GOOD ",\"prompt\":\"absent.md\"}");
    load_fails(*state, "\"prompt\" names no regular file");
    add(*state, "mine", "profile.json", "{" GOOD ",\"prepare\":\"..\"}");
    load_fails(*state, "\"prepare\" names no regular file");
}

static void badly_named_directory_fails_the_load(void **state)
{
    add(*state, "My Profile", "profile.json", "{" GOOD "}");
    load_fails(*state, "profiles/My Profile: a profile's name");
}

static void files_and_hidden_directories_beside_profiles_are_skipped(void **state)
{
    add(*state, ".git", "HEAD", "ref");
    add(*state, "..keep", "x", "x");
    char *file = temp_path(*state, "shepherdr/profiles/README");
    temp_write(file, "x", 1);
    struct shp_profiles profiles = load(*state);
    assert_int_equal(profiles.len, 3);
    shp_profiles_fini(&profiles);
    free(file);
}

static void pipe_in_place_of_a_profile_is_refused_at_once(void **state)
{
    add(*state, "mine", "note", "x");
    char *path = temp_path(*state, "shepherdr/profiles/mine/profile.json");
    assert_int_equal(mkfifo(path, 0600), 0);
    load_fails(*state, "no regular file");
    free(path);
}

static void oversized_files_are_refused(void **state)
{
    size_t len = SHP_PROFILE_PROMPT_BYTES_MAX + 1;
    char *big = malloc(len + 1);
    memset(big, 'x', len);
    big[len] = '\0';
    add(*state, "mine", "prompt.md", big);
    add(*state, "mine", "profile.json", "{" GOOD ",\"prompt\":\"prompt.md\"}");
    struct shp_profiles profiles = load(*state);
    struct shp_error error = {0};
    char *text = NULL;
    const struct shp_profile *mine = shp_profiles_find(&profiles, "mine");
    assert_int_equal(shp_profile_read_prompt(mine, &text, &len, &error), SHP_ERR_LIMIT);
    assert_int_equal(error.code, SHP_CODE_PROFILE_INVALID);
    assert_non_null(strstr(error.cause, "prompt.md: it has more than 262144 bytes"));
    big[SHP_PROFILE_PROMPT_BYTES_MAX] = '\0';
    add(*state, "mine", "prompt.md", big);
    assert_int_equal(shp_profile_read_prompt(mine, &text, &len, &error), 0);
    assert_int_equal(len, SHP_PROFILE_PROMPT_BYTES_MAX);
    free(text);
    shp_profiles_fini(&profiles);
    add(*state, "mine", "profile.json", big);
    load_fails(*state, "profile.json: it has more than 65536 bytes");
    free(big);
}

static void prompt_that_is_no_text_is_refused(void **state)
{
    add(*state, "mine", "prompt.md", "caf\xe9");
    add(*state, "mine", "profile.json", "{" GOOD ",\"prompt\":\"prompt.md\"}");
    struct shp_profiles profiles = load(*state);
    struct shp_error error = {0};
    char *text = NULL;
    size_t len;
    assert_int_equal(
        shp_profile_read_prompt(shp_profiles_find(&profiles, "mine"), &text, &len, &error),
        SHP_ERR_INVALID);
    assert_non_null(strstr(error.cause, "not UTF-8"));
    shp_profiles_fini(&profiles);
}

/* ---- validation --------------------------------------------------------------------------------
 */

static void malformed_profiles_are_refused_with_the_reason(void **state)
{
    (void)state;
    json_fails("", "not JSON");
    json_fails("{", "not JSON");
    json_fails("{" GOOD "} x", "not JSON");
    json_fails("[]", "not a JSON object");
    json_fails("{}", "\"description\" is missing");
    json_fails("{\"description\":\"d\",\"thinking\":\"high\"}", "\"model\" is missing");
    json_fails("{\"description\":\"d\",\"model\":\"m\"}", "\"thinking\" is missing");
    json_fails("{\"description\":\" \",\"model\":\"m\",\"thinking\":\"t\"}", "non-empty string");
    json_fails("{\"description\":7,\"model\":\"m\",\"thinking\":\"t\"}", "non-empty string");
    json_fails("{\"description\":\"d\",\"model\":\"m\\nx\",\"thinking\":\"t\"}", "control");
    json_fails("{\"description\":\"d\",\"model\":\"m\\u0000x\",\"thinking\":\"t\"}", "NUL");
    json_fails("{\"description\":\"d\xff\",\"model\":\"m\",\"thinking\":\"t\"}", "not UTF-8");
    json_fails("{" GOOD ",\"model\":\"other\"}", "\"model\" is given twice");
    json_fails("{" GOOD ",\"extra\":1}", "\"extra\" is no key");
    json_fails("{" GOOD ",\"prompt\":\"/etc/passwd\"}", "relative");
    json_fails("{" GOOD ",\"prompt\":\"\"}", "non-empty");
    json_fails("{" GOOD ",\"accepts\":\"base\"}", "must be a list");
    json_fails("{" GOOD ",\"accepts\":[1]}", "non-empty string");
    json_fails("{" GOOD ",\"pi_args\":[\"ok\",\"\"]}", "non-empty string");
    json_fails("{" GOOD ",\"pi_args\":{}}", "must be a list");
    json_fails("{" GOOD ",\"pi_args\":[\"a\\u001b[2J\"]}", "control");
    json_fails("{" GOOD ",\"blocking\":\"true\"}", "true or false");
    json_fails("{" GOOD ",\"share_context\":null}", "true or false");
}

static void escaped_backslash_before_u0000_is_no_nul(void **state)
{
    (void)state;
    static const char json[] = "{\"description\":\"\\\\u0000\",\"model\":\"m\",\"thinking\":\"t\"}";
    struct shp_profile profile;
    struct shp_error error = {0};
    assert_int_equal(shp_profile_parse(&profile, "mine", "/p", "/p/f", json, strlen(json), &error),
                     0);
    assert_string_equal(profile.description, "\\u0000");
    shp_profile_fini(&profile);
}

static void pi_args_are_bounded(void **state)
{
    (void)state;
    char json[2048];
    struct shp_profile profile;
    struct shp_error error = {0};
    size_t used = (size_t)snprintf(json, sizeof json, "{" GOOD ",\"pi_args\":[");
    for (int i = 0; i < SHP_PROFILE_ARGS_MAX; i++)
        used += (size_t)snprintf(json + used, sizeof json - used, "%s\"-x\"", i > 0 ? "," : "");
    snprintf(json + used, sizeof json - used, "]}");
    assert_int_equal(shp_profile_parse(&profile, "mine", "/p", "/p/f", json, strlen(json), &error),
                     0);
    assert_int_equal(profile.args_len, SHP_PROFILE_ARGS_MAX);
    shp_profile_fini(&profile);
    snprintf(json + used, sizeof json - used, ",\"-x\"]}");
    json_fails(json, "at most 64");
}

static void names_follow_one_pattern(void **state)
{
    (void)state;
    assert_true(shp_profile_name_valid("a"));
    assert_true(shp_profile_name_valid("a-b_9"));
    assert_true(shp_profile_name_valid("abcdefghijklmnopqrstuvwxyz012345"));
    assert_false(shp_profile_name_valid("abcdefghijklmnopqrstuvwxyz0123456"));
    assert_false(shp_profile_name_valid(""));
    assert_false(shp_profile_name_valid("9a"));
    assert_false(shp_profile_name_valid("-a"));
    assert_false(shp_profile_name_valid("A"));
    assert_false(shp_profile_name_valid("a.b"));
    assert_false(shp_profile_name_valid("../a"));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, temp_root_setup, temp_root_teardown)
    const struct CMUnitTest tests[] = {
        CASE(first_load_installs_the_three_with_their_models),
        CASE(existing_profile_is_never_touched),
        CASE(empty_directory_of_a_bundled_name_is_not_replaced),
        CASE(deleted_default_stays_deleted),
        CASE(no_directory_at_all_means_no_profiles),
        CASE(first_runs_at_the_same_time_tolerate_each_other),
        CASE(interrupted_installation_is_finished_and_cleaned_up),
        CASE(folder_without_permission_is_named),
        CASE(file_in_the_way_is_named),
        CASE(all_keys_are_read),
        CASE(one_bad_profile_fails_the_load_with_its_path),
        CASE(badly_named_directory_fails_the_load),
        CASE(files_and_hidden_directories_beside_profiles_are_skipped),
        CASE(pipe_in_place_of_a_profile_is_refused_at_once),
        CASE(oversized_files_are_refused),
        CASE(prompt_that_is_no_text_is_refused),
        cmocka_unit_test(malformed_profiles_are_refused_with_the_reason),
        cmocka_unit_test(escaped_backslash_before_u0000_is_no_nul),
        cmocka_unit_test(pi_args_are_bounded),
        cmocka_unit_test(names_follow_one_pattern),
    };
    return cmocka_run_group_tests_name("profiles", tests, NULL, NULL);
}
