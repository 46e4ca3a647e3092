/*
 * One request of the controller from its arrival to its answer.
 *
 * A kind of request embeds struct job first and gives a table of what it reacts to. A job ends
 * once: by its answer, its error, its deadline, the controller's cancel, or the end of the link;
 * each path goes through job_end, which calls ops->end to release what the kind holds. ops->end
 * frees the job, at once or when its handles are closed. A reaction may end its own job, no other.
 */
#ifndef SHP_REMOTE_HELPER_JOB_H
#define SHP_REMOTE_HELPER_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "transport/link.h"

struct helper;
struct job;

struct job_ops {
    /* Bytes of the question's bulk, already given back as credit. NULL: ignored. */
    void (*bulk)(struct job *job, const uint8_t *data, size_t len, bool fin);
    /* The link takes bulk again. NULL: does not stream. */
    void (*writable)(struct job *job);
    /* One bounded piece of work, called while job->runnable. NULL: has none. */
    void (*step)(struct job *job);
    void (*end)(struct job *job);
};

struct job {
    struct helper *helper;
    const struct job_ops *ops;
    struct job *next;
    uint64_t deadline_ms;
    uint32_t stream;
    uint8_t id[SHP_REQUEST_ID_BYTES];
    bool acted;     /* what was asked may have been done: an error says unknown */
    bool answering; /* the head of the answer is out: a failure breaks the half off */
    bool runnable;
};

/* Takes the job over; it must be on the heap. */
void job_start(struct job *job, struct helper *helper, const struct job_ops *ops,
               const struct shp_link_request *request);

/* Milliseconds until the deadline, at least 1. */
uint32_t job_left_ms(const struct job *job);

/* Answer whole and end. bulk is copied. */
void job_respond(struct job *job, const char *json, const uint8_t *bulk, size_t len);

/* Fail with an error as it is, or one made here; outcome as job->acted says. Ends the job. */
void job_fail_error(struct job *job, const struct shp_error *error);
void job_fail(struct job *job, int code, const char *step, const char *cause);

/* End without an answer: the cancel, the end of the link. The answers above call it themselves. */
void job_end(struct job *job);

#endif
