/*
 * Runs bootstraps as a controller does, without the link: the prelude over a child process that is
 * the login shell. The helper is a script that proves and announces itself as the real one.
 */
#ifndef SHP_TESTS_CONFORMANCE_BOOTSTRAP_SUITE_H
#define SHP_TESTS_CONFORMANCE_BOOTSTRAP_SUITE_H

#include "installer/bootstrap.h"

#define RIG_BUILD "test-build"

struct rig {
    char home[160];
    char bin[224];    /* home/.pi/agent/shepherdr/bin */
    const char *path; /* PATH of the remote side */
    const char *helper_dir;
    bool no_home; /* HOME is not set */
    bool probe_only;
    const char *before;  /* sh commands in front of the command line, or NULL */
    int64_t cut_after;   /* end the connection after that many bytes of upload; 0: never */
    uint32_t timeout_ms; /* 0: the prelude's own */
    struct shp_artifacts artifacts;
};

struct rig_result {
    bool ready;
    struct shp_bootstrap_seen seen;
    struct shp_error error;
    char diagnostic[1024]; /* of the shell */
};

/* A fresh home and an artifact for this system; filler bytes make it larger. */
void rig_init(struct rig *rig, size_t filler);
void rig_fini(struct rig *rig);

/* Replaces the artifact's bytes; the digest follows. */
void rig_set_content(struct rig *rig, const void *content, size_t len);

/* Path of the installed helper; static. */
const char *rig_helper_path(const struct rig *rig);

/* Number of entries of the bin directory, hidden ones too; -1: no such directory. */
int rig_count_files(const struct rig *rig);

/* `shell... -c <command>`; shell is a NULL-terminated list. count at the same time. */
void rig_run(struct rig *rig, const char *const *shell, struct rig_result *results, size_t count);

/* One under /bin/sh. */
struct rig_result rig_run_once(struct rig *rig);

#endif
