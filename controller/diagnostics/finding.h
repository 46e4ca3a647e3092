/*
 * What doctor says about one machine: a finding for each layer, from Herdr's catalog up to what the
 * machine is used for, and the two forms in which people and programs read them.
 */
#ifndef SHP_CONTROLLER_DIAGNOSTICS_FINDING_H
#define SHP_CONTROLLER_DIAGNOSTICS_FINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <cjson/cJSON.h>

#include "base/error.h"
#include "transport/ssh.h"

#define FINDING_TEXT_MAX 512

/* In the order in which they build on each other. */
#define LAYERS(XX)                                                                                 \
    XX(CATALOG, "catalog")           /* Herdr's entry of the machine */                            \
    XX(CONFIG, "config")             /* resolved ssh configuration, transport, key exchange */     \
    XX(DNS, "dns")                   /* host name to address */                                    \
    XX(TCP, "tcp")                   /* something listens */                                       \
    XX(HOST_KEY, "host_key")         /* known, and the same */                                     \
    XX(AUTH, "auth")                 /* the login */                                               \
    XX(SHELL, "shell")               /* runs our command; its noise */                             \
    XX(HOME, "home")                 /* there, ours, writable */                                   \
    XX(DISK, "disk")                 /* space for what we place */                                 \
    XX(NOEXEC, "noexec")             /* programs below it may run */                               \
    XX(ARCHITECTURE, "architecture") /* there is a helper for it */                                \
    XX(HELPER, "helper")             /* installed, of our build */                                 \
    XX(LINK, "link")                 /* round trip and throughput */                               \
    XX(HERDR, "herdr")               /* its server answers */                                      \
    XX(PI, "pi")                     /* program, extension, Herdr's integration */                 \
    XX(SESSIONS, "sessions")         /* files of pi sessions can be read */                        \
    XX(WATCHES, "watches")           /* how changes are noticed */                                 \
    XX(CLOCK, "clock")               /* skew */                                                    \
    XX(RECEIVERS, "receivers")       /* live pi sessions */                                        \
    XX(SMOKE, "smoke")               /* only with --smoke: a command in a throw-away tab */
enum layer {
#define XX(name, text) LAYER_##name,
    LAYERS(XX)
#undef XX
        LAYER_COUNT
};

enum verdict {
    VERDICT_NONE, /* the layer is not one of this machine: not shown */
    VERDICT_SKIPPED,
    VERDICT_OK,
    VERDICT_WARNING,
    VERDICT_FAILED,
};

struct finding {
    enum verdict verdict;
    char text[FINDING_TEXT_MAX]; /* what was seen, or why it was skipped */
    struct shp_error error;      /* warning, failed */
};

/* The findings of one machine, indexed by layer. */
struct diagnosis {
    const char *id, *label, *target; /* borrowed; target NULL: this machine */
    struct finding findings[LAYER_COUNT];
};

const char *layer_name(enum layer layer);

void finding_skip(struct finding *finding, const char *why);
void finding_ok(struct finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* text stays what it is; error is copied. */
void finding_fail(struct finding *finding, const struct shp_error *error);
/* verdict is warning or failed; format is the cause. */
void finding_judge(struct finding *finding, enum verdict verdict, int code, const char *machine,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The layer that a failed connection broke in: by its code, and where that says nothing by phase
 * (how far SSH came; local machines have none and pass RUNNING). */
enum layer layer_of_failure(int code, enum shp_ssh_phase phase);

/* Worst verdict as an exit status: 0 fine, 1 warnings, 2 failures. */
int diagnosis_status(const struct diagnosis *diagnosis);

cJSON *diagnosis_json(const struct diagnosis *diagnosis);
void diagnosis_print(const struct diagnosis *diagnosis, FILE *out, bool colour);

#endif
