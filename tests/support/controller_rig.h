/*
 * A whole controller in this process, with real parts around it: its own helper over /bin/sh, a
 * Herdr on a unix socket that keeps tabs and agents, and the receiver of the worker that this
 * Herdr starts. What the world does wrong is set by the fields below, before or between calls.
 *
 * Everything aborts the test on failure. Waiting has one generous deadline and no other clock.
 */
#ifndef SHP_TESTS_SUPPORT_CONTROLLER_RIG_H
#define SHP_TESTS_SUPPORT_CONTROLLER_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>
#include <cjson/cJSON.h>

#include "base/error.h"
#include "controller/app.h"
#include "transport/link.h"

#define WORLD_TABS_MAX 8
#define WORLD_INPUTS_MAX 8
#define WORLD_REPLY "All is well."

/* Answer of the worker's receiver to deliver. */
enum world_deliver {
    WORLD_ACCEPT,
    WORLD_BUSY,      /* refused: nothing was recorded */
    WORLD_SEEN_LOST, /* recorded, then the connection breaks */
    WORLD_LOST,      /* not recorded, the connection breaks */
};

/* What was asked of the world, by name: Herdr's methods and the receiver's services. */
#define WORLD_STEPS(XX)                                                                            \
    XX(PANE_CURRENT, "pane.current")                                                               \
    XX(SNAPSHOT, "session.snapshot")                                                               \
    XX(TAB_CREATE, "tab.create")                                                                   \
    XX(TAB_RENAME, "tab.rename")                                                                   \
    XX(TAB_CLOSE, "tab.close")                                                                     \
    XX(AGENT_START, "agent.start")                                                                 \
    XX(AGENT_GET, "agent.get")                                                                     \
    XX(READ, "agent.read")                                                                         \
    XX(PING, "ping")                                                                               \
    XX(BIND, "bind")                                                                               \
    XX(DELIVER, "deliver")                                                                         \
    XX(STATUS, "delivery_status")                                                                  \
    XX(SETTLEMENT, "settlement")                                                                   \
    XX(OTHER, "?")
enum world_step {
#define XX(name, text) WORLD_##name,
    WORLD_STEPS(XX)
#undef XX
        WORLD_STEPS_COUNT
};

struct world_tab {
    char id[16];
    char pane[16];
    char label[64];
    char agent[64]; /* "": a shell */
    char terminal[16];
};

struct world {
    uv_loop_t *loop;
    char *home;
    char *socket;
    uv_pipe_t herdr;
    uv_pipe_t receiver;
    bool receiver_up;
    struct shp_link *links[4]; /* helpers at the receiver */
    struct world_tab tabs[WORLD_TABS_MAX];
    size_t tabs_len;
    unsigned made; /* tabs ever, for ids */
    unsigned count[WORLD_STEPS_COUNT];
    /* faults */
    const char *refuse[WORLD_STEPS_COUNT]; /* Herdr's error code; NULL: it acts */
    bool drop[WORLD_STEPS_COUNT];          /* it acts and does not answer */
    bool no_receiver;                      /* Pi starts without the extension */
    enum world_deliver deliver;
    const char *settlement; /* state; NULL: running until world_settle */
    bool forget;            /* inputs that were told are forgotten once (delivery unknown) */
    /* the worker */
    char inputs[WORLD_INPUTS_MAX][33];
    char digests[WORLD_INPUTS_MAX][65];
    size_t inputs_len;
    unsigned delivered; /* tasks handed to Pi */
    bool settled;
    bool silent; /* no event at the settlement */
    char *last_text;
    /* called in every step, after it acted and before its answer */
    void (*on_step)(enum world_step step, void *user);
    void *on_step_user;
};

/* One call of the tool. */
struct rig_call {
    bool done;
    unsigned progress;
    struct shp_error error; /* code 0: success */
    cJSON *value;
    char *bulk;
    char *warning;
};

struct controller_rig {
    uv_loop_t loop;
    char *root;
    char *program_dir;
    struct world world;
    struct app *app;
    bool closed;
    unsigned reports_due; /* news of that kind */
    bool command;         /* context of a command instead of a pi session */
};

/* Herdr listens; no controller yet. herdr_bin prints the catalog, "[]" at first. bin_dir: where the
 * built helper is. */
void controller_rig_open(struct controller_rig *rig, const char *bin_dir);
void controller_rig_close(struct controller_rig *rig);
void controller_rig_catalog(struct controller_rig *rig, const char *json);

/* The controller of the one pi session of this rig. Fails the test when it does not open. */
void controller_start(struct controller_rig *rig);
void controller_stop(struct controller_rig *rig);
/* The same, from within the world: the end begins now and is waited for by controller_stop. */
void controller_stop_begin(struct controller_rig *rig);

/* A call; message may be NULL. id: 32 hex. */
void controller_ask(struct controller_rig *rig, const char *id, const char *json,
                    const char *message, struct rig_call *call);
void rig_call_fini(struct rig_call *call);

/* Turns of the loop until *flag, or until condition says so. */
void controller_until(struct controller_rig *rig, const bool *flag);
void controller_until_true(struct controller_rig *rig,
                           bool (*condition)(struct controller_rig *rig));
void controller_linger(struct controller_rig *rig, uint64_t ms);

/* Reports in that state. */
size_t controller_reports(struct controller_rig *rig, enum shp_report_state state);

/* A worker that nobody of ours started, in a tab of its own: agent `scout`. */
struct world_tab *world_worker(struct world *world);
/* The worker's run ends; its receiver says so unless silent. */
void world_settle(struct world *world);
/* The worker's Pi ends: no agent in its terminal, no receiver. */
void world_exit(struct world *world);
/* Connections to the receiver break. */
void world_break(struct world *world);

#endif
