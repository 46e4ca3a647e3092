/*
 * `shepherdr doctor`: for each machine the layers from the catalog up, what was seen of each, and
 * for what is wrong its cause and what to do. Read-only: it installs nothing, starts nothing and
 * stores nothing, unless fix or smoke ask for it.
 */
#ifndef SHP_CONTROLLER_DIAGNOSTICS_DOCTOR_H
#define SHP_CONTROLLER_DIAGNOSTICS_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

enum doctor_colour {
    DOCTOR_COLOUR_AUTO, /* on a terminal, unless NO_COLOR is set */
    DOCTOR_COLOUR_ALWAYS,
    DOCTOR_COLOUR_NEVER,
};

struct doctor_options {
    const char *program_dir;
    bool json;
    bool fix;
    bool smoke;
    enum doctor_colour colour;
    char **machines; /* ids; none: all */
    size_t machines_len;
};

/* By the worst verdict: 0 every machine is well (or disabled), 1 warnings, 2 something failed, or
 * an id is unknown. */
int doctor_run(const struct doctor_options *options);

#endif
