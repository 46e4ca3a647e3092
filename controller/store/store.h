/*
 * Durable state of one controlling pi session: one SQLite file with one writer.
 *
 * Every function that writes returns after the change is process-durable (committed to the
 * database). shp_store_sync makes everything so far power-durable; callers do so before a terminal
 * result, an operation step or a delivery mark acts outside.
 *
 * Strings passed in are copied; strings in out-structs are the caller's until the matching _fini.
 * Functions return 0 or SHP_ERR_NOT_FOUND, SHP_ERR_EXISTS, SHP_ERR_NOMEM, SHP_ERR_IO; the cause of
 * IO is in shp_store_error. Ids are 32 hex characters unless said otherwise. Times are Unix
 * milliseconds, given by the caller.
 */
#ifndef SHP_CONTROLLER_STORE_STORE_H
#define SHP_CONTROLLER_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct shp_store;

struct shp_store_options {
    const char *agent_dir;       /* state lives in <agent_dir>/shepherdr/state */
    const char *pi_session_id;   /* part of the file name */
    const char *header;          /* session header's id and timestamp: its 8-hex hash is the rest */
    const char *pi_session_file; /* recorded, so that a sweep can tell whether it still exists */
    bool memory;                 /* --no-session: nothing on disk */
    uint64_t now_unix_ms;
};

/*
 * Open or create, take the writer's lock (a lock file beside it, held by flock, holding pid and
 * time), migrate the schema. *error: session_in_use (cause names pid and since) or store_failed
 * (newer schema, corrupt file, no space, no permission). Returns a negative shp_err on failure.
 */
int shp_store_open(struct shp_store **out, const struct shp_store_options *options,
                   struct shp_error *error);
void shp_store_close(struct shp_store *store);              /* NULL is fine */
const char *shp_store_error(const struct shp_store *store); /* last SQLite message; borrowed */
int shp_store_sync(struct shp_store *store);
bool shp_store_durable(const struct shp_store *store); /* false: memory */

/* Remove databases whose pi session file is gone for 30 days. Bounded: 64 files a call. */
void shp_store_sweep(const char *agent_dir, uint64_t now_unix_ms);

/* ---- operations: a call of the tool, so that a repeat makes nothing twice ------------------- */

enum shp_operation_state {
    SHP_OPERATION_PLANNED = 0, /* stored, nothing done */
    SHP_OPERATION_ACTING = 1,  /* some step began */
    SHP_OPERATION_DONE = 2,    /* result stored */
    SHP_OPERATION_FAILED = 3,  /* error stored */
};

struct shp_operation {
    char id[33];
    enum shp_operation_state state;
    char *call;       /* JSON of the call without message */
    char *message;    /* text or NULL */
    char *result;     /* DONE: result JSON; FAILED: error JSON; else NULL */
    char *bulk_field; /* DONE: as in agents_call, or NULL */
    char *bulk;       /* DONE: its text, or NULL */
    char *progress;   /* JSON object: what the steps made so far, "{}" at first */
};
void shp_operation_fini(struct shp_operation *operation);

/* EXISTS: it is there already; *out (may be NULL) is filled then, and call+message are compared:
 * *same says whether they are equal. On success *out is filled too. */
int shp_store_operation_begin(struct shp_store *store, const char *id, const char *call,
                              const char *message, uint64_t now_unix_ms, struct shp_operation *out,
                              bool *same);
/* Before a step acts: step (short name) becomes `acting`, progress replaced. */
int shp_store_operation_acting(struct shp_store *store, const char *id, const char *step,
                               const char *progress);
int shp_store_operation_done(struct shp_store *store, const char *id, const char *result,
                             const char *bulk_field, const char *bulk);
int shp_store_operation_failed(struct shp_store *store, const char *id, const char *error);
/* Operations that are PLANNED or ACTING, oldest first. Finished ones are kept for repeats: the
 * newest 256, at most 64 MiB of results. */
int shp_store_operation_each_open(struct shp_store *store,
                                  void (*each)(const struct shp_operation *, void *), void *user);

/* ---- agents ---------------------------------------------------------------------------------- */

enum shp_agent_origin { SHP_AGENT_SPAWNED = 0, SHP_AGENT_OBSERVED = 1, SHP_AGENT_ATTACHED = 2 };

struct shp_agent_record {
    char id[33];
    char *machine;       /* "local" or catalog id */
    char *terminal_id;   /* Herdr's; the guard of identity */
    char *pi_session_id; /* or NULL while unknown */
    char *session_file;  /* or NULL */
    char *pane;          /* last known target */
    char *name;          /* or NULL */
    char *label;         /* or NULL */
    char *profile;       /* or NULL */
    char *cwd;           /* or NULL */
    char *operation;     /* that spawned it, or NULL */
    enum shp_agent_origin origin;
    bool watched; /* persistent subscription */
    bool closed;  /* its pane is gone */
};
void shp_agent_record_fini(struct shp_agent_record *agent);
int shp_store_agent_put(struct shp_store *store, const struct shp_agent_record *agent);
int shp_store_agent_get(struct shp_store *store, const char *id, struct shp_agent_record *out);
int shp_store_agent_find(struct shp_store *store, const char *machine, const char *terminal_id,
                         struct shp_agent_record *out);
int shp_store_agent_each(struct shp_store *store,
                         void (*each)(const struct shp_agent_record *, void *), void *user);

/* ---- tasks and their outgoing message -------------------------------------------------------- */

enum shp_task_state {
    SHP_TASK_CREATED = 0, /* not accepted by the worker yet */
    SHP_TASK_RUNNING = 1,
    SHP_TASK_COMPLETED = 2,
    SHP_TASK_FAILED = 3,
    SHP_TASK_CANCELED = 4, /* undone: rejected, rolled back, or not a task */
};

enum shp_delivery_state {
    SHP_DELIVERY_PLANNED = 0,
    SHP_DELIVERY_SENT = 1, /* under way: unknown until a receipt */
    SHP_DELIVERY_PROVISIONAL = 2,
    SHP_DELIVERY_ACCEPTED = 3,
    SHP_DELIVERY_DELIVERED = 4,
    SHP_DELIVERY_REJECTED = 5,
    SHP_DELIVERY_UNKNOWN = 6,
};

struct shp_task_record {
    char id[33];
    char agent[33];
    char input[33]; /* message id of the task's text */
    enum shp_task_state state;
    enum shp_delivery_state delivery;
    char *text;      /* what was asked */
    char *sender;    /* attribution JSON, for a repeat of the delivery under the same id, or NULL */
    char *operation; /* or NULL */
    bool held;       /* a blocking call waits for it (cleared at open: calls do not survive) */
    uint64_t created_unix_ms;
};
void shp_task_record_fini(struct shp_task_record *task);
/* Made or replaced by id. The agent must be stored (NOT_FOUND); another task with the same input is
 * EXISTS. */
int shp_store_task_put(struct shp_store *store, const struct shp_task_record *task);
int shp_store_task_get(struct shp_store *store, const char *id, struct shp_task_record *out);
int shp_store_task_by_input(struct shp_store *store, const char *input,
                            struct shp_task_record *out);
/* CREATED and RUNNING ones, oldest first. */
int shp_store_task_each_open(struct shp_store *store,
                             void (*each)(const struct shp_task_record *, void *), void *user);
int shp_store_task_count_open(struct shp_store *store, size_t *count);

/* ---- reports: the delivery ledger into the controlling session ------------------------------- */

enum shp_report_state {
    SHP_REPORT_DUE = 0,         /* to be pushed */
    SHP_REPORT_PUSHED = 1,      /* outstanding; after a restart: due again, same id */
    SHP_REPORT_PROVISIONAL = 2, /* in an entry, no file yet */
    SHP_REPORT_CONFIRMED = 3,
    SHP_REPORT_HELD = 4, /* handed to a blocking call instead */
};

struct shp_report_record {
    char id[65];   /* from stable facts; up to 64 characters */
    char task[33]; /* or "" */
    enum shp_report_state state;
    char *details; /* JSON */
    char *text;
    uint64_t created_unix_ms;
};
void shp_report_record_fini(struct shp_report_record *report);

/* EXISTS: a report of that id is there already; nothing changes. */
int shp_store_report_add(struct shp_store *store, const struct shp_report_record *report);
/* In one transaction: the task becomes state, and the report is added (EXISTS ignored). This is
 * the settlement: afterwards it cannot be lost or made twice. A task that has ended before is left
 * alone, and so is the report: 0 when it ended with the same state, else EXISTS. report may be NULL
 * (nothing to tell). The task is no longer held. */
int shp_store_task_settle(struct shp_store *store, const char *task, enum shp_task_state state,
                          const struct shp_report_record *report);
int shp_store_report_mark(struct shp_store *store, const char *id, enum shp_report_state state);
/* The report of that task becomes HELD. NOT_FOUND: it was handed over otherwise before, or there is
 * none; then a waiting call must not tell it a second time. */
int shp_store_report_hold(struct shp_store *store, const char *task);
/* PROVISIONAL and HELD ones are DUE again: for a process that begins while what they were handed to
 * may be lost. Confirmed ones stay. */
int shp_store_report_release(struct shp_store *store);
/* DUE and PUSHED ones, oldest first. Opening the store makes PUSHED ones DUE, so PUSHED here means
 * pushed by this process. A callback of an _each function may change the store. */
int shp_store_report_each_due(struct shp_store *store,
                              void (*each)(const struct shp_report_record *, void *), void *user);

#endif
