/*
 * `shepherdr machines`: the catalog with what is known of each machine, after one connect attempt;
 * with --session what a running session's controller knows, asked through that session's receiver.
 */
#include "controller/cli_machines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>
#include <cjson/cJSON.h>

#include "controller/cli.h"
#include "controller/fleet/fleet.h"
#include "controller/fleet/machine_row.h"
#include "controller/installation.h"
#include "controller/json.h"
#include "controller/routing/herdr.h"
#include "controller/routing/session_request.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

#define ECHO_TIMEOUT_MS 10000
/* A reconnect on the other side has the deadlines of a whole login. */
#define SESSION_TIMEOUT_MS 120000

struct seen {
    struct command *command;
    struct machine *machine;
    struct shp_error snapshot;
};

struct command {
    const struct cli_machines_options *options;
    uv_loop_t loop;
    struct context context;
    struct shp_artifacts *artifacts;
    struct fleet *fleet;
    struct seen *seen;
    size_t len;
    size_t pending;
    int status;
};

/* ---- output -------------------------------------------------------------------------------- */

static const char *cell(const cJSON *row, const char *name)
{
    const char *text = json_string(row, name);
    return text ? text : "";
}

/* The error of a machine that is not connected, else what is wrong with its Herdr, else the error
 * that its connection had last. */
static char *row_trouble(const cJSON *row)
{
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(row, "error");
    const cJSON *last = cJSON_GetObjectItemCaseSensitive(row, "lastError");
    if (error)
        return xasprintf("%s: %s", cell(error, "code"), cell(error, "cause"));
    if (last && !*cell(row, "snapshotError"))
        return xasprintf("(before: %s: %s)", cell(last, "code"), cell(last, "cause"));
    return xstrdup(cell(row, "snapshotError"));
}

static void row_since(char out[24], const cJSON *row)
{
    time_t at = (time_t)(json_number(row, "since", 0) / 1000);
    struct tm parts;
    out[0] = 0;
    if (at > 0 && localtime_r(&at, &parts))
        strftime(out, 24, "%m-%d %H:%M:%S", &parts);
}

static void print_row(const int widths[4], const char *id, const char *label, const char *status,
                      const char *transport, const char *kex, const char *trip, const char *since,
                      const char *trouble)
{
    printf("%-*s  %-*s  %-15s  %-*s  %-*s  %8s  %-14s  %s\n", widths[0], id, widths[1], label,
           status, widths[2], transport, widths[3], kex, trip, since, trouble);
}

static void widen(int *width, const char *text)
{
    int len = (int)strlen(text);
    *width = len > *width ? len : *width;
}

static void print_table(const cJSON *rows)
{
    int widths[4] = {5, 5, 9, 3};
    const cJSON *row = NULL;
    cJSON_ArrayForEach(row, rows)
    {
        widen(&widths[0], cell(row, "id"));
        widen(&widths[1], cell(row, "label"));
        widen(&widths[2], cell(row, "transport"));
        widen(&widths[3], cell(row, "kex"));
    }
    print_row(widths, "ID", "LABEL", "STATUS", "TRANSPORT", "KEX", "TRIP", "SINCE", "ERROR");
    cJSON_ArrayForEach(row, rows)
    {
        char trip[24] = "", since[24];
        double rtt_ms = json_number(row, "roundTripMs", 0);
        char *trouble = row_trouble(row);
        if (rtt_ms > 0)
            snprintf(trip, sizeof(trip), "%.1f ms", rtt_ms);
        row_since(since, row);
        print_row(widths, cell(row, "id"), cell(row, "label"), cell(row, "status"),
                  cell(row, "transport"), cell(row, "kex"), trip, since, trouble);
        free(trouble);
    }
}

static void print_rows(const struct command *command, const cJSON *rows)
{
    if (!command->options->json) {
        print_table(rows);
        return;
    }
    char *text = json_print(rows);
    printf("%s\n", text);
    free(text);
}

static void on_fleet_closed(struct fleet *fleet, void *user)
{
    (void)fleet;
    (void)user;
}

static void end(struct command *command)
{
    fleet_close(command->fleet, on_fleet_closed, NULL);
}

static void fail(struct command *command, const struct shp_error *error)
{
    cli_print_error(error);
    bool usage = error->code == SHP_CODE_MACHINE_UNKNOWN;
    command->status = usage ? 2 : 1;
    end(command);
}

/* ---- our own look -------------------------------------------------------------------------- */

static void one_done(struct command *command)
{
    if (--command->pending > 0)
        return;
    cJSON *rows = cJSON_CreateArray();
    for (size_t i = 0; i < command->len; i++)
        cJSON_AddItemToArray(rows,
                             machine_row(command->seen[i].machine, &command->seen[i].snapshot));
    if (command->fleet->catalog_error.code) {
        cli_print_error(&command->fleet->catalog_error);
        command->status = 1;
    }
    print_rows(command, rows);
    cJSON_Delete(rows);
    end(command);
}

/* Only for the round trip: an answer means that the ping before it was answered, too. */
static void on_echo(struct machine *machine, const struct machine_answer *answer, void *user)
{
    (void)machine;
    (void)answer;
    one_done(user);
}

static void on_roster(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    struct seen *seen = user;
    if (answer->error && machine->state == MACHINE_CONNECTED)
        seen->snapshot = *answer->error;
    if (machine->state != MACHINE_CONNECTED) {
        one_done(seen->command);
        return;
    }
    shp_link_probe(machine->link);
    machine_request(machine, SHP_MSG_LINK_ECHO, NULL, ECHO_TIMEOUT_MS, NULL, NULL, 0, on_echo,
                    seen->command);
}

static void look(struct command *command)
{
    struct fleet *fleet = command->fleet;
    command->seen = xcalloc(fleet->len, sizeof(*command->seen));
    for (size_t i = 0; i < fleet->len; i++)
        if (fleet->items[i]->state != MACHINE_CLOSED)
            command->seen[command->len++] =
                (struct seen){.command = command, .machine = fleet->items[i]};
    command->pending = command->len + 1;
    for (size_t i = 0; i < command->len; i++) {
        if (command->seen[i].machine->enabled)
            herdr_roster(command->seen[i].machine, on_roster, &command->seen[i]);
        else
            one_done(command);
    }
    one_done(command);
}

static void on_catalog(struct fleet *fleet, const struct shp_error *error, void *user)
{
    (void)fleet;
    (void)error; /* told at the end: the local machine is shown all the same */
    look(user);
}

/* ---- a session's look ---------------------------------------------------------------------- */

static void on_session(const struct session_answer *answer, void *user)
{
    struct command *command = user;
    if (answer->error) {
        fail(command, answer->error);
        return;
    }
    cJSON *rows = json_parse(answer->text, answer->text_len);
    if (!json_bool(answer->answer, "controller") || !cJSON_IsArray(rows)) {
        fprintf(stderr,
                "shepherdr: pi session %s runs no controller now, so it controls no machine\n"
                "  next: its first agents call starts one.\n",
                command->options->session);
        command->status = 1;
    } else {
        print_rows(command, rows);
    }
    cJSON_Delete(rows);
    end(command);
}

static void ask_session(struct command *command)
{
    const struct cli_machines_options *options = command->options;
    struct session_address to = {fleet_local(command->fleet), options->session, NULL};
    cJSON *payload = cJSON_CreateObject();
    json_add(payload, "reconnect", options->reconnect);
    if (options->refresh)
        cJSON_AddTrueToObject(payload, "refresh");
    session_request(&to, "machines", NULL, payload, NULL, SESSION_TIMEOUT_MS, on_session, command);
}

/* ---- run ----------------------------------------------------------------------------------- */

int cli_machines(const struct cli_machines_options *options)
{
    struct command command = {.options = options};
    struct shp_error error = {0};
    char installation[33];
    context_from_environment(&command.context);
    if (installation_id(installation, command.context.home, &error) != SHP_OK) {
        cli_print_error(&error);
        context_fini(&command.context);
        return 1;
    }
    uv_loop_init(&command.loop);
    command.artifacts = shp_artifacts_load(options->program_dir);
    struct machine_events events = {0};
    command.fleet =
        fleet_new(&command.loop, &command.context, command.artifacts, installation, true, &events);
    if (options->session)
        ask_session(&command);
    else
        fleet_refresh(command.fleet, on_catalog, &command);
    uv_run(&command.loop, UV_RUN_DEFAULT);
    uv_loop_close(&command.loop);
    free(command.seen);
    fleet_free(command.fleet);
    shp_artifacts_free(command.artifacts);
    context_fini(&command.context);
    return cli_printed(command.status);
}
