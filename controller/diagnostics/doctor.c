#include "controller/diagnostics/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>
#include <cjson/cJSON.h>

#include "controller/app.h"
#include "controller/cli.h"
#include "controller/json.h"
#include "controller/routing/herdr.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

#define DOCTOR_TIMEOUT_MS 10000

enum layer { LAYER_CATALOG, LAYER_CONNECT, LAYER_HERDR, LAYER_RECEIVERS, LAYER_COUNT };

static const char *const layer_names[LAYER_COUNT] = {"catalog", "connect", "herdr", "receivers"};

struct finding {
    enum { FINDING_SKIPPED, FINDING_OK, FINDING_FAILED } status;
    char text[256]; /* ok: what was seen */
    struct shp_error error;
};

struct patient {
    struct doctor *doctor;
    struct machine *machine;
    struct finding findings[LAYER_COUNT];
};

struct doctor {
    const struct doctor_options *options;
    uv_loop_t loop;
    struct app *app;
    struct patient *patients;
    size_t len;
    size_t pending;
    int status;
};

/* ---- output -------------------------------------------------------------------------------- */

static cJSON *finding_json(enum layer layer, const struct finding *finding)
{
    cJSON *item = cJSON_CreateObject();
    json_add(item, "layer", layer_names[layer]);
    json_add(item, "status",
             finding->status == FINDING_OK       ? "ok"
             : finding->status == FINDING_FAILED ? "failed"
                                                 : "skipped");
    if (finding->status == FINDING_OK)
        json_add(item, "text", finding->text);
    if (finding->status == FINDING_FAILED) {
        json_add(item, "code", shp_code_name(finding->error.code));
        json_add(item, "step", finding->error.step);
        json_add(item, "cause", finding->error.cause);
        json_add(item, "next", shp_code_next(finding->error.code));
    }
    return item;
}

static void print_json(const struct doctor *doctor)
{
    cJSON *array = cJSON_CreateArray();
    for (size_t i = 0; i < doctor->len; i++) {
        const struct patient *patient = &doctor->patients[i];
        cJSON *item = cJSON_CreateObject();
        json_add(item, "machine", patient->machine->id);
        json_add(item, "label", patient->machine->label);
        json_add(item, "target", patient->machine->target);
        cJSON *layers = cJSON_AddArrayToObject(item, "layers");
        for (int layer = 0; layer < LAYER_COUNT; layer++)
            cJSON_AddItemToArray(layers,
                                 finding_json((enum layer)layer, &patient->findings[layer]));
        cJSON_AddItemToArray(array, item);
    }
    char *text = json_print(array);
    printf("%s\n", text);
    free(text);
    cJSON_Delete(array);
}

static void print_text(const struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->len; i++) {
        const struct patient *patient = &doctor->patients[i];
        const struct machine *machine = patient->machine;
        printf("%s (%s%s%s)\n", machine->label, machine->id, machine->target ? ", " : "",
               machine->target ? machine->target : "");
        for (int layer = 0; layer < LAYER_COUNT; layer++) {
            const struct finding *finding = &patient->findings[layer];
            if (finding->status == FINDING_OK)
                printf("  ok       %-10s %s\n", layer_names[layer], finding->text);
            else if (finding->status == FINDING_FAILED)
                printf("  FAILED   %-10s %s (%s): %s\n           next: %s\n", layer_names[layer],
                       shp_code_name(finding->error.code), finding->error.step,
                       finding->error.cause, shp_code_next(finding->error.code));
            else
                printf("  skipped  %s\n", layer_names[layer]);
        }
    }
}

static void on_app_closed(struct app *app, void *user)
{
    (void)app;
    (void)user;
}

static void finish(struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->len; i++)
        for (int layer = 0; layer < LAYER_COUNT; layer++)
            if (doctor->patients[i].findings[layer].status == FINDING_FAILED)
                doctor->status = 1;
    if (doctor->options->json)
        print_json(doctor);
    else
        print_text(doctor);
    app_close(doctor->app, on_app_closed, NULL);
}

static void patient_done(struct patient *patient)
{
    if (--patient->doctor->pending == 0)
        finish(patient->doctor);
}

/* ---- layers -------------------------------------------------------------------------------- */

static void layer_failed(struct patient *patient, enum layer layer, const struct shp_error *error)
{
    struct finding *finding = &patient->findings[layer];
    finding->status = FINDING_FAILED;
    finding->error = *error;
    patient_done(patient);
}

static struct finding *layer_ok(struct patient *patient, enum layer layer)
{
    struct finding *finding = &patient->findings[layer];
    finding->status = FINDING_OK;
    return finding;
}

static void on_receivers(struct machine *machine, const struct machine_answer *answer, void *user)
{
    (void)machine;
    struct patient *patient = user;
    if (answer->error) {
        layer_failed(patient, LAYER_RECEIVERS, answer->error);
        return;
    }
    struct finding *finding = layer_ok(patient, LAYER_RECEIVERS);
    snprintf(finding->text, sizeof(finding->text), "%d live pi sessions can be reached",
             (int)json_number(answer->result, "receivers", 0));
    patient_done(patient);
}

/* 0.9 for the catalog; an older one that answers is used, below 0.8 it is refused. */
static bool herdr_version_ok(const char *version, struct shp_error *error, const char *machine)
{
    int major = 0, minor = 0;
    if (version && sscanf(version, "%d.%d", &major, &minor) == 2 && (major > 0 || minor >= 8))
        return true;
    shp_error_set(error, SHP_CODE_HERDR_TOO_OLD, machine, "ping", "version %s",
                  version ? version : "unknown");
    return false;
}

static void on_ping(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    struct patient *patient = user;
    struct shp_error error = {0};
    if (answer->error) {
        layer_failed(patient, LAYER_HERDR, answer->error);
        return;
    }
    const char *version = json_string(answer->result, "version");
    if (!herdr_version_ok(version, &error, machine->id)) {
        layer_failed(patient, LAYER_HERDR, &error);
        return;
    }
    struct finding *finding = layer_ok(patient, LAYER_HERDR);
    snprintf(finding->text, sizeof(finding->text), "herdr %s, protocol %d", version,
             (int)json_number(answer->result, "protocol", 0));
    machine_request(machine, SHP_MSG_RECEIVERS_LIST, NULL, DOCTOR_TIMEOUT_MS, NULL, NULL, 0,
                    on_receivers, patient);
}

static void on_identity(struct machine *machine, const struct machine_answer *answer, void *user)
{
    struct patient *patient = user;
    if (answer->error) {
        /* The reason below machine_unavailable is what a person needs. */
        const struct shp_error *reason = machine->reason.code ? &machine->reason : answer->error;
        layer_failed(patient, LAYER_CONNECT, reason);
        return;
    }
    struct finding *finding = layer_ok(patient, LAYER_CONNECT);
    snprintf(finding->text, sizeof(finding->text), "%s, %s, home %s",
             machine->link ? shp_link_transport_name(machine->link) : "",
             json_string(answer->result, "system"), json_string(answer->result, "home"));
    herdr_call(machine, "ping", NULL, DOCTOR_TIMEOUT_MS, on_ping, patient);
}

static bool selected(const struct doctor_options *options, const char *id)
{
    for (size_t i = 0; i < options->machines_len; i++)
        if (strcmp(options->machines[i], id) == 0)
            return true;
    return options->machines_len == 0;
}

/* 0: all ids are known; 2: one is not; 1: the catalog, which would tell, cannot be read. */
static int check_ids(const struct doctor *doctor, const struct fleet *fleet)
{
    for (size_t i = 0; i < doctor->options->machines_len; i++) {
        struct shp_error error = {0};
        if (fleet_find(fleet, doctor->options->machines[i], &error) ||
            error.code == SHP_CODE_MACHINE_DISABLED)
            continue;
        cli_print_error(&error);
        return error.code == SHP_CODE_MACHINE_UNKNOWN ? 2 : 1;
    }
    return 0;
}

static void on_catalog(struct fleet *fleet, const struct shp_error *error, void *user)
{
    struct doctor *doctor = user;
    doctor->status = check_ids(doctor, fleet);
    if (doctor->status != 0) {
        app_close(doctor->app, on_app_closed, NULL);
        return;
    }
    doctor->patients = xcalloc(fleet->len, sizeof(*doctor->patients));
    for (size_t i = 0; i < fleet->len; i++) {
        struct machine *machine = fleet->items[i];
        if (machine->state != MACHINE_CLOSED && selected(doctor->options, machine->id))
            doctor->patients[doctor->len++] =
                (struct patient){.doctor = doctor, .machine = machine};
    }
    doctor->pending = doctor->len + 1;
    for (size_t i = 0; i < doctor->len; i++) {
        struct patient *patient = &doctor->patients[i];
        struct machine *machine = patient->machine;
        if (machine->local && error) {
            patient->findings[LAYER_CATALOG].status = FINDING_FAILED;
            patient->findings[LAYER_CATALOG].error = *error;
        } else if (machine->local) {
            snprintf(layer_ok(patient, LAYER_CATALOG)->text, sizeof(patient->findings[0].text),
                     "%zu machines", fleet->len - 1);
        } else if (!machine->enabled) { /* somebody's wish, not a fault */
            snprintf(layer_ok(patient, LAYER_CATALOG)->text, sizeof(patient->findings[0].text),
                     "disabled in Herdr's catalog");
            patient_done(patient);
            continue;
        } else {
            snprintf(layer_ok(patient, LAYER_CATALOG)->text, sizeof(patient->findings[0].text),
                     "Herdr session %s", machine->session);
        }
        machine_request(machine, SHP_MSG_IDENTITY_GET, NULL, DOCTOR_TIMEOUT_MS, NULL, NULL, 0,
                        on_identity, patient);
    }
    if (--doctor->pending == 0)
        finish(doctor);
}

int doctor_run(const struct doctor_options *options)
{
    struct doctor doctor = {.options = options};
    struct context context;
    struct app_events events = {0};
    struct shp_error error = {0};
    uv_loop_init(&doctor.loop);
    context_from_environment(&context);
    if (app_open(&doctor.app, &doctor.loop, &context, options->program_dir, &events, &error) ==
        SHP_OK) {
        doctor.app->fleet->probe_only = true;
        fleet_refresh(doctor.app->fleet, on_catalog, &doctor);
    } else {
        cli_print_error(&error);
        doctor.status = 1;
    }
    uv_run(&doctor.loop, UV_RUN_DEFAULT);
    uv_loop_close(&doctor.loop);
    free(doctor.patients);
    return cli_printed(doctor.status);
}
