/*
 * One call of the agents tool under way. Its id is made by the caller when the tool is entered and
 * is the same on a repeat, so that a call which acts is stored before it acts, each step with what
 * it made, and a repeat finds the result, joins the running call, or takes it up where it stopped.
 *
 * The operation's functions are called from the loop. Exactly one of operation_finish and
 * operation_fail ends it; both free it. A caller that gives up detaches: the work goes on, and
 * what it settles is pushed as a report.
 */
#ifndef SHP_CONTROLLER_AGENTS_OPERATION_H
#define SHP_CONTROLLER_AGENTS_OPERATION_H

#include <stdbool.h>
#include <cjson/cJSON.h>

#include "base/error.h"
#include "controller/agents/call.h"
#include "controller/app.h"

struct operation_result {
    const struct shp_error *error; /* NULL: success */
    const cJSON *value;
    const char *bulk_field; /* NULL: none */
    const char *bulk;
    const char *warning; /* NULL: none */
};

struct operation_caller {
    void (*on_done)(const struct operation_result *result, void *user);
    void (*on_progress)(const cJSON *value, void *user); /* may be NULL */
    void *user;
};

struct operation {
    struct app *app;
    char id[33];
    struct shp_call call;
    struct shp_profiles profiles;
    bool acts;     /* stored */
    char *asked;   /* the call as it was written: a repeat must be the same */
    char *message; /* beside it, or NULL */
    bool resumed;  /* taken up after a crash: progress may name what was made */
    bool attached; /* a caller waits */
    bool canceled; /* a caller gave up: stop before the submission, where nothing is lost by it */
    struct operation_caller caller;
    cJSON *progress; /* what the steps made; stored by operation_acting */
    /* Set by an action that waits: its caller gave up, or (app->closing) the controller ends.
     * May end the operation. */
    void (*on_cancel)(struct operation *op, void *user);
    void *on_cancel_user;
    struct operation *next;
};

/* In progress: the caller gave up. It outlives a crash, so that nothing is sent for nobody. */
#define OPERATION_CANCELED "canceled"

/*
 * Begin, join or answer a call. Of two callers of one running operation the later one hears its end
 * and the earlier one that it was replaced. call: the arguments (borrowed), message: text beside it
 * or NULL. The caller hears exactly once, from the loop or inside this call, unless it detaches
 * before.
 */
void operation_start(struct app *app, const char *id, const cJSON *call, const char *message,
                     const struct operation_caller *caller);

/* The caller of that user pointer gives up; no callback comes any more. */
void operation_detach(struct app *app, const char *id, void *user);

/* As operation_detach, but the controller ends with the caller: nothing is canceled. */
void operation_detach_quietly(struct app *app, const char *id, void *user);

/* Take up what the store holds as open and nobody asked for again. */
void operation_resume_open(struct app *app);

/* End everything under way with shutting_down (the store keeps it open for a resume). */
void operation_abandon_all(struct app *app);

/* For actions: value is taken over; bulk_field names the member that bulk carries. */
void operation_finish(struct operation *op, cJSON *value, const char *bulk_field, const char *bulk,
                      const char *warning);
void operation_fail(struct operation *op, const struct shp_error *error);
void operation_failf(struct operation *op, int code, const char *machine, const char *step,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Store progress and the name of the step that is about to act; power-durable. False: it could not
 * be stored (*error: store_failed), so it must not act. */
bool operation_acting(struct operation *op, const char *step, struct shp_error *error);
void operation_progress(struct operation *op, cJSON *value); /* tells the caller; taken over */

#endif
