/*
 * The user's settings: <agent dir>/pi-shepherdr.json, shared with pi-ext, whose other keys are not
 * ours. Read on every use and never written. A missing or empty file sets nothing.
 */
#ifndef SHP_CONTROLLER_SETTINGS_H
#define SHP_CONTROLLER_SETTINGS_H

#include "base/error.h"

#define SETTINGS_FILE_NAME "pi-shepherdr.json"
#define SETTINGS_BYTES_MAX (64 * 1024)

/*
 * Where helpers go on a machine whose home directory runs no programs: key helperDir, an object of
 * machine id to absolute directory. *dir is the caller's to free, NULL: not set. *error:
 * settings_invalid with the file's path.
 */
int settings_helper_dir(char **dir, const char *agent_dir, const char *machine,
                        struct shp_error *error);

#endif
