/*
 * Facts about the machine for doctor (spec: machine_facts): what can be learned by looking at
 * files. Nothing is written, no process is started, no other host is asked.
 */
#ifndef SHP_REMOTE_HELPER_FACTS_H
#define SHP_REMOTE_HELPER_FACTS_H

#include "remote-helper/identity.h"
#include "remote-helper/json_out.h"

/* Entries of directories that are looked at when session files are counted. */
#define FACTS_ENTRIES_MAX 20000

/*
 * The members of machine_facts that come from files, without braces. agent_dir: Pi's configuration
 * (NULL: ~/.pi/agent); program: argv[0] of the helper, or NULL.
 */
void facts_write(const struct identity *identity, const char *agent_dir, const char *program,
                 struct json_out *out);

/* out gets the path of an executable file: PATH first, then where installers put it. */
bool facts_find_program(char *out, size_t size, const char *name, const char *home);

/*
 * The version of the Pi that path starts: from the package.json above the file itself, or above
 * what a short wrapper script names. false: unknown.
 */
bool facts_pi_version(char *out, size_t size, const char *path);

#endif
