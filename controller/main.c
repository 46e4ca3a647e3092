#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sodium.h>

#include "base/log.h"
#include "controller/cli.h"
#include "controller/cli_machines.h"
#include "controller/diagnostics/doctor.h"
#include "controller/stdio_server.h"
#include "shp_build_id.h"

static const char usage[] =
    "usage: shepherdr machines [--json] [--session ID [--reconnect MACHINE] [--refresh]]\n"
    "       shepherdr agents '<json>' | help\n"
    "       shepherdr doctor [--json] [--fix] [--smoke] [--color=auto|always|never] [machine...]\n"
    "       shepherdr controller --stdio\n"
    "       shepherdr --version | --help\n"
    "\n"
    "  machines    the machines of Herdr's catalog, connected once, with their states; with "
    "--session\n"
    "              those of a running pi session, which may be told to connect one anew\n"
    "  agents      one call of the agents tool; '{}' prints its actions and rules\n"
    "  doctor      for each machine: every layer, the one that fails, why, and what to do; it "
    "changes\n"
    "              nothing, but --fix installs the helper that it misses, and --smoke runs a "
    "command\n"
    "              in a throw-away tab of each machine's Herdr\n"
    "  controller  serves a pi session over standard input and output (used by the extension)\n"
    "\n"
    "Exit status: 0 done, 1 failed (why and what to do on standard error), 2 wrong usage.\n"
    "For doctor: 0 all is well, 1 warnings, 2 something failed, or wrong usage.\n"
    "Machine ids come from `shepherdr machines`; `local` is this one.\n"
    "SHEPHERDR_LOG=error|warn|info|debug|trace sets what is logged to standard error.\n";

static int wrong_usage(const char *what, const char *argument)
{
    fprintf(stderr, "shepherdr: %s%s%s\n\n%s", what, argument ? ": " : "", argument ? argument : "",
            usage);
    return 2;
}

/* Where helpers and the extension are found from. */
static void find_program_dir(char out[PATH_MAX], const char *argv0)
{
    ssize_t len = readlink("/proc/self/exe", out, PATH_MAX - 1);
    if (len > 0)
        out[len] = 0;
    else if (!realpath(argv0, out))
        snprintf(out, PATH_MAX, "./shepherdr");
    char *slash = strrchr(out, '/');
    if (slash && slash != out)
        *slash = 0;
    else
        snprintf(out, PATH_MAX, "/");
}

static int run_machines(const char *program_dir, int argc, char **argv)
{
    struct cli_machines_options options = {.program_dir = program_dir};
    for (int i = 0; i < argc; i++) {
        const char **value = strcmp(argv[i], "--session") == 0     ? &options.session
                             : strcmp(argv[i], "--reconnect") == 0 ? &options.reconnect
                                                                   : NULL;
        if (value && i + 1 < argc)
            *value = argv[++i];
        else if (value)
            return wrong_usage("machines: an id is missing behind", argv[i]);
        else if (strcmp(argv[i], "--json") == 0)
            options.json = true;
        else if (strcmp(argv[i], "--refresh") == 0)
            options.refresh = true;
        else
            return wrong_usage("machines: unknown argument", argv[i]);
    }
    if (!options.session && (options.reconnect || options.refresh))
        return wrong_usage("machines: --reconnect and --refresh need --session", NULL);
    return cli_machines(&options);
}

static bool doctor_colour(const char *argument, enum doctor_colour *colour)
{
    static const char *const words[] = {"--color=auto", "--color=always", "--color=never"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(argument, words[i]) == 0) {
            *colour = (enum doctor_colour)i;
            return true;
        }
    }
    return false;
}

static int run_doctor(const char *program_dir, int argc, char **argv)
{
    struct doctor_options options = {.program_dir = program_dir};
    options.machines = argv;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            options.json = true;
        else if (strcmp(argv[i], "--fix") == 0)
            options.fix = true;
        else if (strcmp(argv[i], "--smoke") == 0)
            options.smoke = true;
        else if (doctor_colour(argv[i], &options.colour))
            continue;
        else if (argv[i][0] == '-')
            return wrong_usage("doctor: unknown argument", argv[i]);
        else
            options.machines[options.machines_len++] = argv[i];
    }
    return doctor_run(&options);
}

int main(int argc, char **argv)
{
    char program_dir[PATH_MAX];
    signal(SIGPIPE, SIG_IGN);
    if (sodium_init() < 0) {
        fprintf(stderr, "shepherdr: libsodium cannot start: no source of random numbers\n");
        return 1;
    }
    const char *level = getenv("SHEPHERDR_LOG");
    if (level && shp_log_level_from_name(level) >= 0)
        shp_log_set_level((enum shp_log_level)shp_log_level_from_name(level));
    find_program_dir(program_dir, argv[0]);
    if (argc < 2)
        return wrong_usage("a command is missing", NULL);
    const char *command = argv[1];
    bool help = strcmp(command, "--help") == 0 || strcmp(command, "help") == 0;
    if (help || strcmp(command, "--version") == 0) {
        if (argc > 2)
            return wrong_usage("unknown argument", argv[2]);
        if (help)
            fputs(usage, stdout);
        else
            printf("shepherdr %s (build %s)\n", SHP_VERSION, SHP_BUILD_ID);
        return cli_printed(0);
    }
    if (argc == 3 && strcmp(argv[2], "--help") == 0) {
        fputs(usage, stdout);
        return cli_printed(0);
    }
    if (strcmp(command, "machines") == 0)
        return run_machines(program_dir, argc - 2, argv + 2);
    if (strcmp(command, "doctor") == 0)
        return run_doctor(program_dir, argc - 2, argv + 2);
    if (strcmp(command, "agents") == 0)
        return argc == 3 ? cli_agents(program_dir, argv[2])
                         : wrong_usage("agents: exactly one JSON argument is needed", NULL);
    if (strcmp(command, "controller") == 0)
        return argc == 3 && strcmp(argv[2], "--stdio") == 0
                   ? stdio_server_run(program_dir)
                   : wrong_usage("controller: --stdio is needed", NULL);
    return wrong_usage("unknown command", command);
}
