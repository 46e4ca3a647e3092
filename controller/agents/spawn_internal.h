/*
 * spawn in three rooms: action_spawn.c plans (what, where, under which name, with which files),
 * spawn_launch.c makes the pane and starts Pi in it, spawn_task.c binds the worker, gives it its
 * task and waits. The order of a life, each step an answer of the one before:
 *
 *     plan: machine -> sender -> directory -> roster -> extension -> prompt
 *     launch: create -> name -> start -> ready        (after a crash: reconcile first)
 *     task: bind -> deliver -> follow
 *
 * What a step made stands in op->progress before the next begins, and the name of a step that acts
 * is stored before it acts, so that a resumed call looks instead of repeating.
 */
#ifndef SHP_CONTROLLER_AGENTS_SPAWN_INTERNAL_H
#define SHP_CONTROLLER_AGENTS_SPAWN_INTERNAL_H

#include <stdbool.h>
#include <uv.h>
#include <cjson/cJSON.h>

#include "controller/agents/operation.h"

struct spawn {
    struct operation *op; /* NULL once ended */
    struct machine *machine;
    const struct shp_profile *profile;
    cJSON *sender;
    cJSON *roster;
    char *cwd;          /* NULL with placement pane */
    char *workspace_id; /* for a new tab */
    enum shp_placement placement;
    char *extension_path;     /* on the machine */
    char *prompt_path;        /* on the machine, or NULL */
    char *text;               /* of the task, as it is delivered */
    struct shp_error failure; /* told after the rollback */
    uv_timer_t timer;
    bool timer_closed;
    unsigned tries;
    unsigned calls; /* answers under way: the spawn is freed after the last */
    bool ready;
};

/* Names in op->progress. */
#define SPAWN_STEP "step"
#define SPAWN_NAME "name"
#define SPAWN_TOKEN "token"     /* label of what is being made, until it is known by id */
#define SPAWN_PLACE "place"     /* "tab" or "workspace": what is being made */
#define SPAWN_CREATED "created" /* the same once it is made: what a rollback closes */
#define SPAWN_WORKSPACE "workspace"
#define SPAWN_TAB "tab"
#define SPAWN_PANE "pane"
#define SPAWN_TERMINAL "terminal"
#define SPAWN_SESSION "session"
#define SPAWN_FILE "sessionFile"
#define SPAWN_AGENT "agent"
#define SPAWN_TASK "task"
#define SPAWN_INPUT "input"
#define SPAWN_DELIVER "deliver" /* the step that submits */

const char *spawn_made(const struct spawn *spawn, const char *name);
void spawn_note(struct spawn *spawn, const char *name, const char *value);

/* A step that acts begins: stored. False: the spawn has failed, return. */
bool spawn_acting(struct spawn *spawn, const char *step);

/*
 * First thing in every callback: counts the answer, and ends the spawn on an error, on shutdown,
 * and on a cancel before the submission. False: return.
 */
bool spawn_continues(struct spawn *spawn, const struct shp_error *error);

/*
 * Before the submission: close what was made (never an existing pane), then fail. From the
 * submission on (step deliver) nothing is closed: the worker stays, its task is followed, and the
 * outcome is unknown. spawn_undo closes also then: the receiver said that it did not take it.
 */
void spawn_fail(struct spawn *spawn, const struct shp_error *error);
void spawn_undo(struct spawn *spawn, const struct shp_error *error);
void spawn_failf(struct spawn *spawn, int code, const char *step, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The operation ends without a rollback. value is taken over. */
void spawn_finish(struct spawn *spawn, cJSON *value, const char *bulk_field, const char *bulk);
void spawn_end_with(struct spawn *spawn, const struct shp_error *error);

/* The tab or workspace of a roster that is labelled with our token, or NULL. */
const cJSON *spawn_find_token(const struct spawn *spawn, const cJSON *roster);

bool spawn_submitted(const struct spawn *spawn);
/* Store what became of the task, unless it has ended meanwhile. */
void spawn_task_update(struct spawn *spawn, enum shp_task_state state,
                       enum shp_delivery_state delivery);
/* Agent, task and input get their ids before anything acts, so that a resume finds them. */
void spawn_make_ids(struct spawn *spawn);

void spawn_launch(struct spawn *spawn);
void spawn_give_task(struct spawn *spawn);

#endif
