#include "controller/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>
#include <cjson/cJSON.h>

#include "controller/agents/operation.h"
#include "controller/app.h"
#include "controller/json.h"
#include "controller/xalloc.h"
#include "protocol/codec.h"
#include "protocol/json_check.h"
#include "protocol/messages.h"

struct cli {
    uv_loop_t loop;
    struct app *app;
    int status;
};

void cli_print_error(const struct shp_error *error)
{
    fprintf(stderr, "shepherdr: %s", shp_code_name(error->code));
    if (*error->machine || *error->step)
        fprintf(stderr, " (%s%s%s)", error->machine, *error->machine && *error->step ? ", " : "",
                error->step);
    fprintf(stderr, ": %s\n", *error->cause ? error->cause : shp_code_doc(error->code));
    fprintf(stderr, "  next: %s\n", shp_code_next(error->code));
}

int cli_printed(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "shepherdr: standard output cannot be written\n");
    return status != 0 ? status : 1;
}

static void on_app_closed(struct app *app, void *user)
{
    (void)app;
    (void)user;
}

static bool cli_open(struct cli *cli, const char *program_dir)
{
    uv_loop_init(&cli->loop);
    struct context context;
    context_from_environment(&context);
    struct app_events events = {0};
    struct shp_error error = {0};
    if (app_open(&cli->app, &cli->loop, &context, program_dir, &events, &error) == SHP_OK)
        return true;
    cli_print_error(&error);
    cli->status = 1;
    return false;
}

static int cli_run(struct cli *cli)
{
    uv_run(&cli->loop, UV_RUN_DEFAULT);
    uv_loop_close(&cli->loop);
    return cli_printed(cli->status);
}

/* ---- agents -------------------------------------------------------------------------------- */

/* The arguments were wrong, as told before anything was asked. */
static bool wrong_call(int code)
{
    return code == SHP_CODE_INVALID_CALL || code == SHP_CODE_UNKNOWN_ACTION ||
           code == SHP_CODE_UNKNOWN_FIELD || code == SHP_CODE_MISSING_FIELD ||
           code == SHP_CODE_FIELD_INVALID;
}

static void on_agents_done(const struct operation_result *result, void *user)
{
    struct cli *cli = user;
    if (result->error) {
        char text[SHP_CODEC_ERROR_JSON_MAX];
        shp_codec_error_print(text, result->error);
        fprintf(stderr, "%s\n", text);
        cli->status = wrong_call(result->error->code) ? 2 : 1;
    } else {
        cJSON *value = cJSON_Duplicate(result->value, true);
        if (result->bulk_field)
            json_add(value, result->bulk_field, result->bulk);
        if (result->warning) {
            fprintf(stderr, "shepherdr: warning: %s\n", result->warning);
            json_add(value, "warning", result->warning);
        }
        char *text = json_print(value);
        cJSON_Delete(value);
        printf("%s\n", text);
        free(text);
    }
    app_close(cli->app, on_app_closed, NULL);
}

int cli_agents(const char *program_dir, const char *call)
{
    struct cli cli = {0};
    if (strcmp(call, "help") == 0)
        call = "{}";
    /* A C string would end at the NUL, and the rest of a message would be missing. */
    bool nul = shp_json_has_nul(call, strlen(call));
    cJSON *object = nul ? NULL : json_parse_object(call, strlen(call));
    if (!object) {
        struct shp_error error = {0};
        char text[SHP_CODEC_ERROR_JSON_MAX];
        shp_error_set(&error, SHP_CODE_INVALID_CALL, NULL, "read call",
                      nul ? "the argument has a NUL (\\u0000) in it"
                          : "the argument is not a JSON object");
        shp_codec_error_print(text, &error);
        fprintf(stderr, "%s\n", text);
        return 2;
    }
    if (cli_open(&cli, program_dir)) {
        char id[33];
        app_new_id(id);
        struct operation_caller caller = {on_agents_done, NULL, &cli};
        operation_start(cli.app, id, object, NULL, &caller);
    }
    cJSON_Delete(object);
    return cli_run(&cli);
}
