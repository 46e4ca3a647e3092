/*
 * Switches of the stand-in. Every one can be set at start through the environment
 * (HERDR_SIM_<NAME>, upper case) and at run time over the control socket ({"cmd":"set","name":v}).
 */
#ifndef HERDR_SIM_OPTIONS_H
#define HERDR_SIM_OPTIONS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

struct options {
    char version[32];
    bool omit_version;      /* pong without its version */
    bool null_capabilities; /* pong with capabilities null */
    int64_t protocol;
    bool replay;           /* lifecycle entries start with everything retained (0.8.2) */
    bool drain;            /* all pending events per poll instead of one per entry */
    bool events_lost;      /* a loss is said and ends the stream; otherwise silent */
    bool id_echo;          /* invalid_request repeats the id (0.9) */
    bool foreground_rule;  /* herdr:pi counts only while Pi owns the pane's foreground */
    bool viewer;           /* a UI client looks at the focused tab: completion there is idle */
    bool launch_stuck;     /* launched agents never become interactive_ready */
    bool strict_params;    /* unknown params members are refused */
    bool prompt_queued;    /* agent.prompt answers before anything is written (0.8.2) */
    bool restore;          /* the layout comes back with its ids after a restart */
    int64_t settle_ms;     /* agent.start: earliest readiness */
    int64_t shell_busy_ms; /* a fresh pane answers agent_pane_busy this long */
    int64_t stop_delay_ms; /* between server.stop's answer and the end */
};

void options_init(struct options *o); /* defaults, then the environment */
/* 0; -1 for an unknown name, -2 for a value of the wrong type. */
int options_set(struct options *o, const char *name, const cJSON *value);
cJSON *options_json(const struct options *o); /* caller deletes */

#endif
