/*
 * What the end of a login shell means that never let our command speak: whether it is a shell for
 * another language, and which.
 */
#ifndef SHP_INSTALLER_SHELL_H
#define SHP_INSTALLER_SHELL_H

#include <stdbool.h>

#include "base/error.h"

/*
 * error: shell_refused or shell_slow of a bootstrap; others are left alone. printed: all that the
 * shell said, standard error included. When that is a complaint about our command line, error
 * becomes shell_unsupported with the name of the shell as far as its text gives one, and true is
 * returned. The evidence is the shell's own words: no second login, and a shell that is not ours to
 * question.
 */
bool shp_shell_explain(struct shp_error *error, const char *printed);

/*
 * Text of a shell or a forced command that repeats our command line: that is replaced, in place, by
 * a word for it, so that there is room for what else was said.
 */
void shp_shell_hide_command(char *text);

#endif
