/*
 * The user's settings: <agent dir>/pi-shepherdr.json, shared with pi-ext, whose other keys are not
 * ours. Read on every use and never written. A missing or empty file sets nothing.
 */
#ifndef SHP_CONTROLLER_SETTINGS_H
#define SHP_CONTROLLER_SETTINGS_H

#include <stdbool.h>

#include "base/error.h"
#include "transport/ssh.h"

#define SETTINGS_FILE_NAME "pi-shepherdr.json"
#define SETTINGS_BYTES_MAX (64 * 1024)

/* What holds for one machine. */
struct settings {
    /*
     * Key helperDir, an object of machine id to absolute directory: where the helper goes on a
     * machine whose home directory runs no programs. NULL: not set.
     */
    char *helper_dir;
    /*
     * Key transport: "auto", "libssh" or "openssh"; or an object of machine id to one of these,
     * "default" for the others.
     */
    enum shp_ssh_kind transport;
    /* Key postQuantum: "prefer" or "require". */
    bool post_quantum;
};

/*
 * Read for this machine. *error: settings_invalid with the file's path. On success the caller frees
 * with settings_fini.
 */
int settings_read(struct settings *out, const char *agent_dir, const char *machine,
                  struct shp_error *error);
void settings_fini(struct settings *settings);

#endif
