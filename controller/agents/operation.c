#include "controller/agents/operation.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "controller/agents/action.h"
#include "controller/clock.h"
#include "controller/json.h"
#include "controller/xalloc.h"
#include "protocol/codec.h"
#include "protocol/messages.h"

static void tell(struct operation *op, const struct operation_result *result)
{
    bool attached = op->attached;
    op->attached = false; /* first: the caller may end the controller from its callback */
    if (attached && op->caller.on_done)
        op->caller.on_done(result, op->caller.user);
}

static void operation_free(struct operation *op)
{
    struct operation **slot = &op->app->operations;
    while (*slot && *slot != op)
        slot = &(*slot)->next;
    if (*slot)
        *slot = op->next;
    shp_call_fini(&op->call);
    shp_profiles_fini(&op->profiles);
    free(op->asked);
    free(op->message);
    cJSON_Delete(op->progress);
    free(op);
}

static void answer_error(const struct operation_caller *caller, const struct shp_error *error)
{
    struct operation_result result = {.error = error};
    if (caller && caller->on_done)
        caller->on_done(&result, caller->user);
}

/* An end that cannot be stored is told all the same: the work is done, and a repeat after a crash
 * finds what it made by its progress. */
static void end_stored(struct app *app, const char *id, int rc)
{
    if (rc == SHP_OK)
        rc = shp_store_sync(app->store);
    if (rc != SHP_OK)
        shp_log(SHP_LOG_WARN, "operation", NULL, "end of %s not stored: %s", id,
                shp_store_error(app->store));
}

static void store_failure(struct app *app, const char *id, const struct shp_error *error)
{
    char text[SHP_CODEC_ERROR_JSON_MAX];
    shp_codec_error_print(text, error);
    end_stored(app, id, shp_store_operation_failed(app->store, id, text));
}

/* ---- ends ---------------------------------------------------------------------------------- */

void operation_finish(struct operation *op, cJSON *value, const char *bulk_field, const char *bulk,
                      const char *warning)
{
    if (op->acts) {
        char *text = json_print(value);
        end_stored(op->app, op->id,
                   shp_store_operation_done(op->app->store, op->id, text, bulk_field, bulk));
        free(text);
    }
    struct operation_result result = {
        .value = value, .bulk_field = bulk_field, .bulk = bulk, .warning = warning};
    tell(op, &result);
    cJSON_Delete(value);
    operation_free(op);
}

void operation_fail(struct operation *op, const struct shp_error *error)
{
    struct shp_error copy = *error;
    if (op->acts && !op->app->closing)
        store_failure(op->app, op->id, &copy);
    struct operation_result result = {.error = &copy};
    tell(op, &result);
    operation_free(op);
}

void operation_failf(struct operation *op, int code, const char *machine, const char *step,
                     const char *format, ...)
{
    struct shp_error error = {0};
    va_list args;
    va_start(args, format);
    shp_error_vset(&error, code, machine, step, format, args);
    va_end(args);
    operation_fail(op, &error);
}

bool operation_acting(struct operation *op, const char *step, struct shp_error *error)
{
    char *progress = json_print(op->progress);
    int rc = shp_store_operation_acting(op->app->store, op->id, step, progress);
    free(progress);
    if (rc == SHP_OK)
        rc = shp_store_sync(op->app->store);
    if (rc == SHP_OK)
        return true;
    shp_error_set(error, SHP_CODE_STORE_FAILED, NULL, step, "%s", shp_store_error(op->app->store));
    return false;
}

void operation_progress(struct operation *op, cJSON *value)
{
    if (op->attached && op->caller.on_progress)
        op->caller.on_progress(value, op->caller.user);
    cJSON_Delete(value);
}

/* ---- begin --------------------------------------------------------------------------------- */

static struct operation *operation_under_way(struct app *app, const char *id)
{
    for (struct operation *op = app->operations; op; op = op->next)
        if (strcmp(op->id, id) == 0)
            return op;
    return NULL;
}

/* The stored end of a call, told again. */
static void answer_stored(const struct shp_operation *stored, const struct operation_caller *caller)
{
    cJSON *value =
        stored->result ? json_parse_object(stored->result, strlen(stored->result)) : NULL;
    struct shp_error error = {0};
    struct operation_result result = {.value = value};
    if (!value) {
        shp_error_set(&error, SHP_CODE_STORE_FAILED, NULL, "repeat call",
                      "the stored result of operation %s cannot be read", stored->id);
        result = (struct operation_result){.error = &error};
    } else if (stored->state == SHP_OPERATION_FAILED) {
        shp_codec_error_parse(&error, shp_code_from_name(json_string(value, "code")),
                              stored->result, strlen(stored->result));
        result = (struct operation_result){.error = &error};
    } else {
        result.bulk_field = stored->bulk_field;
        result.bulk = stored->bulk;
    }
    if (caller->on_done)
        caller->on_done(&result, caller->user);
    cJSON_Delete(value);
}

/* call, asked and message are taken over. */
static void run(struct app *app, const char *id, struct shp_call *call, char *asked, char *message,
                bool acts, const struct shp_operation *stored,
                const struct operation_caller *caller)
{
    struct operation *op = xcalloc(1, sizeof(*op));
    op->app = app;
    snprintf(op->id, sizeof(op->id), "%s", id);
    op->call = *call;
    op->asked = asked;
    op->message = message;
    op->acts = acts;
    op->resumed = stored && stored->state == SHP_OPERATION_ACTING;
    if (stored && stored->progress)
        op->progress = json_parse_object(stored->progress, strlen(stored->progress));
    if (!op->progress)
        op->progress = cJSON_CreateObject();
    op->canceled = json_bool(op->progress, OPERATION_CANCELED);
    if (caller) {
        op->attached = true;
        op->caller = *caller;
    }
    op->next = app->operations;
    app->operations = op;
    action_find(op->call.action)->start(op);
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static void conflict(const char *id, const struct operation_caller *caller)
{
    struct shp_error error = {0};
    shp_error_set(&error, SHP_CODE_DUPLICATE_CONFLICT, NULL, "repeat call",
                  "operation %s was another call before", id);
    answer_error(caller, &error);
}

static void join(struct operation *op, const struct operation_caller *caller)
{
    struct operation_caller before = op->caller;
    bool replaced = op->attached;
    op->attached = true;
    op->caller = *caller;
    if (!replaced)
        return;
    struct shp_error error = {0};
    shp_error_set(&error, SHP_CODE_CANCELED, NULL, "agents call",
                  "the call was repeated meanwhile; its repeat hears the end");
    answer_error(&before, &error);
}

/* call, text and message are taken over. */
static void begin(struct app *app, const char *id, struct shp_call *call, char *text, char *message,
                  const struct operation_caller *caller)
{
    struct shp_operation stored = {0};
    bool same = false;
    int rc =
        shp_store_operation_begin(app->store, id, text, message, clock_unix_ms(), &stored, &same);
    if (rc == SHP_OK || (rc == SHP_ERR_EXISTS && same && stored.state <= SHP_OPERATION_ACTING)) {
        run(app, id, call, text, message, true, &stored, caller);
        shp_operation_fini(&stored);
        return;
    }
    if (rc != SHP_ERR_EXISTS) {
        struct shp_error error = {0};
        shp_error_set(&error, SHP_CODE_STORE_FAILED, NULL, "store call", "%s",
                      shp_store_error(app->store));
        answer_error(caller, &error);
    } else if (!same) {
        conflict(id, caller);
    } else {
        answer_stored(&stored, caller);
    }
    shp_operation_fini(&stored);
    shp_call_fini(call);
    free(text);
    free(message);
}

void operation_start(struct app *app, const char *id, const cJSON *object, const char *message,
                     const struct operation_caller *caller)
{
    char *text = json_print(object);
    struct operation *running = operation_under_way(app, id);
    if (running) {
        if (same_text(running->asked, text) && same_text(running->message, message))
            join(running, caller);
        else
            conflict(id, caller);
        free(text);
        return;
    }
    struct shp_error error = {0};
    struct shp_call call;
    if (shp_call_parse(&call, object, message, &error) != SHP_OK) {
        free(text);
        answer_error(caller, &error);
        return;
    }
    if (action_find(call.action)->acts)
        begin(app, id, &call, text, xstrdup(message), caller);
    else
        run(app, id, &call, text, xstrdup(message), false, NULL, caller);
}

void operation_detach(struct app *app, const char *id, void *user)
{
    struct operation *op = operation_under_way(app, id);
    if (!op || !op->attached || op->caller.user != user)
        return;
    op->attached = false;
    op->canceled = true;
    if (op->acts) {
        struct shp_error error = {0};
        const char *step = json_string(op->progress, "step");
        cJSON_AddTrueToObject(op->progress, OPERATION_CANCELED);
        /* Not stored: then a crash before the next step forgets the cancel, no more. */
        (void)operation_acting(op, step ? step : OPERATION_CANCELED, &error);
    }
    if (op->on_cancel)
        op->on_cancel(op, op->on_cancel_user);
}

void operation_detach_quietly(struct app *app, const char *id, void *user)
{
    struct operation *op = operation_under_way(app, id);
    if (op && op->attached && op->caller.user == user)
        op->attached = false;
}

/* ---- after a crash ------------------------------------------------------------------------- */

struct open_list {
    struct shp_operation *items;
    size_t len;
};

static void collect(const struct shp_operation *stored, void *user)
{
    struct open_list *list = user;
    list->items = xrealloc(list->items, (list->len + 1) * sizeof(*list->items));
    struct shp_operation *copy = &list->items[list->len++];
    *copy = *stored;
    copy->call = xstrdup(stored->call);
    copy->message = xstrdup(stored->message);
    copy->result = xstrdup(stored->result);
    copy->bulk_field = xstrdup(stored->bulk_field);
    copy->bulk = xstrdup(stored->bulk);
    copy->progress = xstrdup(stored->progress);
}

void operation_resume_open(struct app *app)
{
    struct open_list list = {0};
    shp_store_operation_each_open(app->store, collect, &list);
    for (size_t i = 0; i < list.len; i++) {
        struct shp_operation *stored = &list.items[i];
        cJSON *object = json_parse_object(stored->call, strlen(stored->call));
        struct shp_call call;
        struct shp_error error = {0};
        if (operation_under_way(app, stored->id)) {
            /* somebody asked for it again already */
        } else if (object && shp_call_parse(&call, object, stored->message, &error) == SHP_OK) {
            run(app, stored->id, &call, xstrdup(stored->call), xstrdup(stored->message), true,
                stored, NULL);
        } else {
            shp_error_set(&error, SHP_CODE_OPERATION_INTERRUPTED, NULL, "resume call",
                          "the stored call cannot be read");
            store_failure(app, stored->id, &error);
        }
        cJSON_Delete(object);
        shp_operation_fini(stored);
    }
    free(list.items);
}

void operation_abandon_all(struct app *app)
{
    struct shp_error error = {0};
    shp_error_set(&error, SHP_CODE_SHUTTING_DOWN, NULL, "agents call", "the controller ends");
    struct operation *next = NULL;
    for (struct operation *op = app->operations; op; op = next) {
        next = op->next;
        struct operation_result result = {.error = &error};
        tell(op, &result);
        if (op->on_cancel)
            op->on_cancel(op, op->on_cancel_user);
    }
}
