/* controller/agents: the help object, word for word, and its bound. After a wanted change:
 *   SHP_UPDATE_GOLDEN=1 build/tests/test_help
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "controller/agents/call_internal.h"
#include "tests/support/temp_root.h"

#define GOLDEN SHP_TEST_SOURCE_DIR "/tests/unit/golden/help.json"
#define HELP_BYTES_MAX 6144

static cJSON *machine(const char *id, const char *label)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "id", id);
    cJSON_AddStringToObject(object, "label", label);
    cJSON_AddStringToObject(object, "status", "connected");
    return object;
}

static struct shp_profiles installed(void)
{
    char *root = temp_root_make();
    struct shp_profiles profiles = {0};
    struct shp_error error;
    assert_int_equal(shp_profiles_load(&profiles, root, &error), 0);
    temp_root_remove(root);
    return profiles;
}

static void help_is_the_golden_one(void **state)
{
    (void)state;
    struct shp_profiles profiles = installed();
    cJSON *machines = cJSON_CreateArray();
    cJSON_AddItemToArray(machines, machine("local", "this machine"));
    cJSON_AddItemToArray(machines, machine("0123456789abcdef0123456789abcdef", "build box"));
    cJSON *help = shp_call_help(&profiles, machines);
    assert_non_null(help);
    char *small = cJSON_PrintUnformatted(help);
    assert_true(strlen(small) <= HELP_BYTES_MAX);
    free(small);
    char *text = cJSON_Print(help);
    if (getenv("SHP_UPDATE_GOLDEN") != NULL) {
        text = realloc(text, strlen(text) + 2);
        strcat(text, "\n");
        temp_write(GOLDEN, text, strlen(text));
    } else {
        size_t len;
        char *golden = temp_read(GOLDEN, &len);
        assert_true(len > 0 && golden[len - 1] == '\n');
        golden[len - 1] = '\0';
        assert_string_equal(text, golden);
        free(golden);
    }
    free(text);
    cJSON_Delete(help);
    shp_profiles_fini(&profiles);
}

static void only_supported_actions_are_in_it(void **state)
{
    (void)state;
    struct shp_profiles none = {0};
    cJSON *help = shp_call_help(&none, NULL);
    const cJSON *actions = cJSON_GetObjectItemCaseSensitive(help, "actions");
    for (int i = 0; i < SHP_ACTION_COUNT; i++) {
        const char *name = shp_action_name((enum shp_action)i);
        assert_int_equal(cJSON_HasObjectItem(actions, name),
                         shp_action_supported((enum shp_action)i));
    }
    assert_true(cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(help, "machines")));
    cJSON_Delete(help);
}

static void rule_about_general_needs_that_profile(void **state)
{
    (void)state;
    struct shp_profiles none = {0}, profiles = installed();
    cJSON *help = shp_call_help(&none, NULL);
    assert_false(cJSON_HasObjectItem(cJSON_GetObjectItemCaseSensitive(help, "rules"), "general"));
    cJSON_Delete(help);
    help = shp_call_help(&profiles, NULL);
    assert_true(cJSON_HasObjectItem(cJSON_GetObjectItemCaseSensitive(help, "rules"), "general"));
    cJSON_Delete(help);
    shp_profiles_fini(&profiles);
}

static void every_text_is_below_its_bound_however_much_there_is(void **state)
{
    (void)state;
    static char description[1025];
    for (size_t i = 0; i + 2 <= sizeof description - 1; i += 2)
        memcpy(description + i, "é", 2);
    struct shp_profiles profiles = {.items = calloc(SHP_PROFILES_MAX, sizeof *profiles.items),
                                    .len = SHP_PROFILES_MAX};
    cJSON *machines = cJSON_CreateArray();
    for (size_t i = 0; i < SHP_PROFILES_MAX; i++) {
        char id[33];
        snprintf(profiles.items[i].name, sizeof profiles.items[i].name, "p%031zu", i);
        snprintf(id, sizeof id, "%032zu", i);
        profiles.items[i].description = description;
        profiles.items[i].accepts_base = true;
        profiles.items[i].blocking = SHP_TRUE;
        profiles.items[i].share_context = SHP_FALSE;
        cJSON_AddItemToArray(machines, machine(id, description + 512));
    }
    cJSON *help = shp_call_help(&profiles, machines);
    assert_non_null(help);
    char *text = cJSON_PrintUnformatted(help);
    assert_true(strlen(text) <= HELP_BYTES_MAX);
    assert_true(shp_utf8_valid((const uint8_t *)text, strlen(text)));
    free(text);
    /* What was left out is counted. */
    int shown = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(help, "profiles"));
    const cJSON *more = cJSON_GetObjectItemCaseSensitive(help, "moreProfiles");
    assert_true(shown > 0);
    assert_int_equal(shown + more->valueint, SHP_PROFILES_MAX);
    shown = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(help, "machines"));
    more = cJSON_GetObjectItemCaseSensitive(help, "moreMachines");
    assert_int_equal(shown + more->valueint, SHP_PROFILES_MAX);
    cJSON_Delete(help);

    /* list shows all of them, whole. */
    cJSON *all = shp_profiles_json(&profiles);
    assert_int_equal(cJSON_GetArraySize(all), SHP_PROFILES_MAX);
    const cJSON *first = all->child;
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(first, "description")->valuestring,
                        description);
    assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(first, "blocking")));
    assert_true(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(first, "share_context")));
    cJSON_Delete(all);
    free(profiles.items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_is_the_golden_one),
        cmocka_unit_test(only_supported_actions_are_in_it),
        cmocka_unit_test(rule_about_general_needs_that_profile),
        cmocka_unit_test(every_text_is_below_its_bound_however_much_there_is),
    };
    return cmocka_run_group_tests_name("help", tests, NULL, NULL);
}
