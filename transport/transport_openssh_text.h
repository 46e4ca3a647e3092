/*
 * The text side of the openssh transport: its command lines and what `ssh -G` prints. Pure
 * functions, so that they can be tested and fuzzed. Private to transport/.
 */
#ifndef SHP_TRANSPORT_OPENSSH_TEXT_H
#define SHP_TRANSPORT_OPENSSH_TEXT_H

#include "transport/ssh.h"

/* Options that clients before 8.7 do not know; bit i of a mask stands for entry i. */
#define SHP_OPENSSH_OPTIONAL_COUNT 3
#define SHP_OPENSSH_OPTIONAL_ALL ((1u << SHP_OPENSSH_OPTIONAL_COUNT) - 1)

#define SHP_OPENSSH_ARGV_MAX 24

/*
 * argv for ssh: with command NULL the query `ssh -G`. Strings are borrowed from the arguments or
 * static. optional: mask of the optional options to use.
 */
void shp_openssh_argv(const char *argv[SHP_OPENSSH_ARGV_MAX], const char *ssh, const char *target,
                      const char *command, unsigned optional);

/* Puts an option before all others: the first value that ssh sees is the one that counts. */
void shp_openssh_insert(const char *argv[SHP_OPENSSH_ARGV_MAX], const char *option);

/* Standard error of a failed query: the mask of an optional option that it refused; 0: another. */
unsigned shp_openssh_refused_option(const char *text);

/* Standard error of a failed query: this client has no -G at all. */
bool shp_openssh_lacks_query(const char *text);

/* Reads the output of `ssh -G`; fields that it lacks stay empty. */
void shp_openssh_parse_query(struct shp_ssh_facts *facts, const char *text, size_t len);

#endif
