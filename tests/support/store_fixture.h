/* Records and shortcuts that the tests of the store share. Failures end the test (cmocka). */
#ifndef SHP_TESTS_SUPPORT_STORE_FIXTURE_H
#define SHP_TESTS_SUPPORT_STORE_FIXTURE_H

#include "controller/store/store_internal.h"

#define NOW_MS 1790000000000ULL /* 2026-09-21T14:13:20Z */
#define DAY_MS (24ULL * 60 * 60 * 1000)
#define SESSION "0198c0de-1111-7222-8333-444455556666"
#define AGENT "a0000000000000000000000000000001"

/* Options of the one session of these tests. */
struct shp_store_options options_for(const char *root);
/* Opens, or fails the test. */
struct shp_store *open_store(const char *root);
/* An agent on the local machine. */
void put_agent(struct shp_store *store, const char *id, const char *terminal, bool closed);
/* A held task of AGENT; id and input are made from number. */
int put_task(struct shp_store *store, unsigned number, enum shp_task_state state);
/* A report; its texts are constants. */
struct shp_report_record report_of(const char *id, const char *task);
/* What an _each function told. */
struct seen {
    char ids[8][SHP_STORE_KEY_MAX];
    int states[8];
    size_t len;
    struct shp_store *store;
};
void see(struct seen *seen, const char *id, int state);
void see_task(const struct shp_task_record *task, void *user);

#endif
