/*
 * The bootstrap of a link (spec/protocol.md 9): one command line that starts the helper when it is
 * there and takes it over standard input when it is not, and the sans-IO half on our side that
 * reads its lines. It is the prelude of a link.
 */
#ifndef SHP_INSTALLER_BOOTSTRAP_H
#define SHP_INSTALLER_BOOTSTRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "installer/artifact.h"
#include "transport/link.h"

#define SHP_BOOTSTRAP_UNKNOWN UINT64_MAX

/* What a bootstrap met on its way, for diagnostics. */
struct shp_bootstrap_seen {
    bool uploaded;        /* the helper had to be sent */
    size_t noise_bytes;   /* of the login shell before our first line */
    char first_line[128]; /* of that noise, escaped and cut */
    uint64_t ready_ms;    /* from the making of the bootstrap to the ready line; 0: not yet */
    /* probe_only, and no helper there: the place where it would go */
    bool absent;
    uint64_t absent_bytes;
    char absent_path[512];
    bool unwritable;
    bool read_only;
    bool noexec;
    uint64_t free_kib, free_inodes; /* SHP_BOOTSTRAP_UNKNOWN */
};

struct shp_bootstrap_options {
    const struct shp_artifacts *artifacts; /* borrowed until the prelude is freed */
    const char *marker;                    /* 32 hex digits, public, of this launch */
    const char *build_id;                  /* the helper's, expected in the ready line */
    const char *helper_dir; /* NULL: ~/.pi/agent/shepherdr/bin; else an absolute directory */
    bool probe_only;        /* never install: an absent helper is the error helper_absent */
    struct shp_bootstrap_seen *seen; /* NULL, or filled as things are seen; outlives the prelude */
};

/*
 * *command: one line without single quotes and exclamation marks inside, for any login shell that
 * knows `exec` and quotes; the caller frees it. *prelude: to be given to a link, which frees it
 * (or prelude->free). INVALID: no artifacts, a malformed marker, or a helper_dir that is not an
 * absolute path of letters, digits and "/._-".
 */
int shp_bootstrap_new(struct shp_prelude *prelude, char **command,
                      const struct shp_bootstrap_options *options);

/* Whether a path may be helper_dir: absolute, of letters, digits and "/._-" (it stands in the
 * command line unquoted). */
bool shp_bootstrap_directory_valid(const char *path);

/* Whether sh, or what starts a program, says in text that a limit of the account stops it. */
bool shp_bootstrap_names_limit(const char *text);

#endif
