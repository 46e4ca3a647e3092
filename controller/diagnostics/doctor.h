/*
 * `shepherdr doctor`: for each machine the layers from the catalog up, the first that fails with
 * its cause and what to do, the ones above it skipped. Read-only: it installs nothing.
 */
#ifndef SHP_CONTROLLER_DIAGNOSTICS_DOCTOR_H
#define SHP_CONTROLLER_DIAGNOSTICS_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

struct doctor_options {
    const char *program_dir;
    bool json;
    char **machines; /* ids; none: all */
    size_t machines_len;
};

/* 0: every machine is well (or disabled); 1: something failed; 2: an id is unknown. */
int doctor_run(const struct doctor_options *options);

#endif
