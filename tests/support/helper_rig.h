/*
 * A whole helper in this process: its side and a controller's side of one noise link over an
 * in-memory pipe, on one loop, with a home directory of its own. Peers of the helper (a Herdr, the
 * receiver of a pi session) are real unix sockets served on the same loop.
 *
 * Everything aborts the test on failure. Waiting has one generous deadline and no other clock.
 */
#ifndef SHP_TESTS_SUPPORT_HELPER_RIG_H
#define SHP_TESTS_SUPPORT_HELPER_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "remote-helper/helper.h"
#include "transport/link.h"

#define RIG_NOTES_MAX 16

/* One answer to rig_ask. */
struct rig_answer {
    bool done;
    int code; /* 0: success */
    enum shp_outcome outcome;
    struct shp_error error;
    char *json;
    char *bulk; /* NUL-terminated */
    size_t bulk_len;
    uint32_t stream;
};

struct rig {
    uv_loop_t loop;
    char *home; /* also $HOME */
    struct helper helper;
    struct shp_link *controller; /* NULL: has ended */
    bool established;
    struct shp_error end;
    char *hello;                /* the helper's */
    char *notes[RIG_NOTES_MAX]; /* JSON of session_event notifications, as they came */
    size_t note_count;
    /* An inbound session_request, answered with inbound_result or, when that is NULL, an error. */
    const char *inbound_result;
    char *inbound_json;
    char *inbound_bulk;
    uint8_t inbound_id[SHP_REQUEST_ID_BYTES];
    size_t inbound_bulk_len;
};

void rig_open(struct rig *rig);
void rig_close(struct rig *rig);

/* Turns of the loop until *flag is set. */
void rig_until(struct rig *rig, const bool *flag);

/* Turns of the loop for that long. */
void rig_linger(struct rig *rig, uint64_t ms);

void rig_ask(struct rig *rig, uint16_t message, const char *json, const void *bulk, size_t len,
             uint32_t timeout_ms, struct rig_answer *answer);
void rig_ask_id(struct rig *rig, uint16_t message, const uint8_t *id, const char *json,
                const void *bulk, size_t len, uint32_t timeout_ms, struct rig_answer *answer);
/* rig_ask and rig_until. */
void rig_call(struct rig *rig, uint16_t message, const char *json, const void *bulk, size_t len,
              struct rig_answer *answer);
void rig_answer_fini(struct rig_answer *answer);

/* ---- a Herdr ------------------------------------------------------------------------------ */

enum fake_herdr_mode {
    FAKE_HERDR_ANSWER,  /* answer and a newline, then close */
    FAKE_HERDR_SILENT,  /* close without an answer */
    FAKE_HERDR_PARTIAL, /* answer without newline, then close */
    FAKE_HERDR_HOLD,    /* never answer */
};

struct fake_herdr {
    uv_pipe_t listener;
    enum fake_herdr_mode mode;
    const char *answer;
    size_t answer_len;
    unsigned connections, ended;
    size_t first_read; /* bytes of the first read of the last connection */
    char line[4096];   /* of the last connection, cut */
    size_t line_len;   /* whole length with its newline */
    bool closed;
};

/* Listens at path. */
void fake_herdr_open(struct fake_herdr *herdr, uv_loop_t *loop, const char *path);
void fake_herdr_close(struct rig *rig, struct fake_herdr *herdr);

/* ---- the receiver of a pi session ---------------------------------------------------------- */

enum fake_receiver_mode {
    FAKE_RECEIVER_ANSWER, /* {"answer":{}} with the request's bulk back as bulk */
    FAKE_RECEIVER_ERROR,  /* receiver_busy */
    FAKE_RECEIVER_HOLD,   /* never answer */
    FAKE_RECEIVER_DROP,   /* close the connection on a request */
};

struct fake_receiver {
    struct rig *rig;
    uv_pipe_t listener;
    enum fake_receiver_mode mode;
    char pi_session_id[64];
    char token[65];
    char *socket;
    char *descriptor;
    struct shp_link *link; /* of the last connection */
    bool established, gone, closed, canceled, requested;
    unsigned connections, requests;
    char *hello; /* of the helper */
    char *json;  /* of the last request */
    char *bulk;
    size_t bulk_len;
    uint8_t id[SHP_REQUEST_ID_BYTES];
    uint32_t stream;
    uint32_t timeout_ms;
    bool refuse_token;
    const char *versions; /* of its hello; NULL: [1,1] */
};

/* Socket and descriptor in the rig's run directory. */
void fake_receiver_open(struct fake_receiver *receiver, struct rig *rig, const char *pi_session_id,
                        const char *terminal_id);
void fake_receiver_close(struct fake_receiver *receiver);

/* Malloc'ed path of the run directory, made when missing. */
char *rig_run_directory(struct rig *rig);

#endif
