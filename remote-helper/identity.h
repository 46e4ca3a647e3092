/*
 * Facts about the machine and this process, gathered once at the start. Nothing here needs /proc,
 * a passwd file or a resolver.
 */
#ifndef SHP_REMOTE_HELPER_IDENTITY_H
#define SHP_REMOTE_HELPER_IDENTITY_H

#include <stdbool.h>
#include <sys/types.h>

#include "remote-helper/json_out.h"

#define IDENTITY_PATH_MAX 4096
#define IDENTITY_HOST_MAX 64

struct identity {
    char hostname[257];
    char host[IDENTITY_HOST_MAX + 1]; /* boot id; without /proc a digest of what names the system */
    char home[IDENTITY_PATH_MAX];     /* $HOME; absolute */
    char system[129];                 /* as uname -sm */
    bool boot_id_known;
    uid_t uid;
    pid_t pid;
};

/* INVALID: HOME is not set to an absolute path. */
int identity_init(struct identity *identity);

/* The members of identity_get's result, without braces. */
void identity_write(const struct identity *identity, struct json_out *out);

#endif
