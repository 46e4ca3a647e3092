/* herdr integration status: prose only, from the header of the installed file. */
#include "cli.h"
#include "util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INTEGRATION_VERSION 10
#define INTEGRATION_BYTES_MAX (1024 * 1024)

int cli_integration(int argc, char **argv)
{
    bool outdated_only = argc == 2 && !strcmp(argv[1], "--outdated-only");
    if (argc < 1 || strcmp(argv[0], "status") != 0 || (argc > 1 && !outdated_only))
        return cli_usage("unknown integration command");
    const char *dir = getenv("PI_CODING_AGENT_DIR");
    const char *home = getenv("HOME");
    char *path = dir && *dir
                     ? sim_format("%s/extensions/herdr-agent-state.ts", dir)
                     : sim_format("%s/.pi/agent/extensions/herdr-agent-state.ts", home ? home : "");
    char *text = read_file(path, INTEGRATION_BYTES_MAX, NULL);
    const char *mark = text ? strstr(text, "HERDR_INTEGRATION_VERSION=") : NULL;
    int version = mark ? atoi(mark + strlen("HERDR_INTEGRATION_VERSION=")) : 0;
    if (!text && !outdated_only)
        printf("pi: not installed (%s)\n", path);
    else if (text && !mark)
        printf("pi: outdated (legacy < v%d) (%s)\n", INTEGRATION_VERSION, path);
    else if (text && version < INTEGRATION_VERSION)
        printf("pi: outdated (v%d < v%d) (%s)\n", version, INTEGRATION_VERSION, path);
    else if (text && !outdated_only)
        printf("pi: current (v%d) (%s)\n", version, path);
    free(text);
    free(path);
    return 0;
}
