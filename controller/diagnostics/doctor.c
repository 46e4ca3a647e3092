#include "controller/diagnostics/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>
#include <cjson/cJSON.h>

#include "controller/cli.h"
#include "controller/context.h"
#include "controller/diagnostics/finding.h"
#include "controller/diagnostics/patient.h"
#include "controller/fleet/fleet.h"
#include "controller/installation.h"
#include "controller/json.h"
#include "controller/xalloc.h"
#include "installer/artifact.h"
#include "protocol/messages.h"

struct doctor {
    const struct doctor_options *options;
    uv_loop_t loop;
    struct context context;
    struct shp_artifacts *artifacts;
    struct fleet *fleet;
    struct patient *patients;
    size_t len;
    size_t pending;
    int status;
};

/* ---- output -------------------------------------------------------------------------------- */

static bool colour_wanted(const struct doctor_options *options)
{
    if (options->colour != DOCTOR_COLOUR_AUTO)
        return options->colour == DOCTOR_COLOUR_ALWAYS;
    const char *refused = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && !(refused && *refused) &&
           !(terminal && strcmp(terminal, "dumb") == 0);
}

static void print_json(const struct doctor *doctor)
{
    cJSON *array = cJSON_CreateArray();
    for (size_t i = 0; i < doctor->len; i++)
        cJSON_AddItemToArray(array, diagnosis_json(&doctor->patients[i].diagnosis));
    char *text = json_print(array);
    printf("%s\n", text);
    free(text);
    cJSON_Delete(array);
}

static void on_fleet_closed(struct fleet *fleet, void *user)
{
    (void)fleet;
    (void)user;
}

static void finish(struct doctor *doctor)
{
    bool colour = colour_wanted(doctor->options);
    for (size_t i = 0; i < doctor->len; i++) {
        int own = diagnosis_status(&doctor->patients[i].diagnosis);
        doctor->status = own > doctor->status ? own : doctor->status;
        if (!doctor->options->json)
            diagnosis_print(&doctor->patients[i].diagnosis, stdout, colour);
    }
    if (doctor->options->json)
        print_json(doctor);
    fleet_close(doctor->fleet, on_fleet_closed, NULL);
}

static void one_done(struct doctor *doctor)
{
    if (--doctor->pending == 0)
        finish(doctor);
}

static void on_examined(struct patient *patient, void *user)
{
    (void)patient;
    one_done(user);
}

/* ---- machines ------------------------------------------------------------------------------ */

static void on_state(struct machine *machine, void *user)
{
    struct doctor *doctor = user;
    for (size_t i = 0; i < doctor->len; i++)
        if (doctor->patients[i].machine == machine)
            patient_on_state(&doctor->patients[i]);
}

static bool selected(const struct doctor_options *options, const char *id)
{
    for (size_t i = 0; i < options->machines_len; i++)
        if (strcmp(options->machines[i], id) == 0)
            return true;
    return options->machines_len == 0;
}

/* Whether every id is known; says which is not, or that the catalog cannot be read. */
static bool check_ids(const struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->options->machines_len; i++) {
        struct shp_error error = {0};
        if (fleet_find(doctor->fleet, doctor->options->machines[i], &error) ||
            error.code == SHP_CODE_MACHINE_DISABLED)
            continue;
        cli_print_error(&error);
        return false;
    }
    return true;
}

/* The catalog's layer. False: nothing more is to be asked of this machine. */
static bool admit(struct patient *patient, size_t remotes, const struct shp_error *catalog_error)
{
    struct finding *finding = &patient->diagnosis.findings[LAYER_CATALOG];
    const struct machine *machine = patient->machine;
    if (machine->local && catalog_error)
        finding_fail(finding, catalog_error);
    else if (machine->local)
        finding_ok(finding, "%zu machines", remotes);
    else if (!machine->enabled) /* somebody's wish, not a fault */
        finding_ok(finding, "disabled in Herdr's catalog");
    else
        finding_ok(finding, "Herdr session %s", machine->session);
    return machine->enabled;
}

static void on_catalog(struct fleet *fleet, const struct shp_error *error, void *user)
{
    struct doctor *doctor = user;
    if (!check_ids(doctor)) {
        doctor->status = 2;
        fleet_close(fleet, on_fleet_closed, NULL);
        return;
    }
    doctor->patients = xcalloc(fleet->len, sizeof(*doctor->patients));
    for (size_t i = 0; i < fleet->len; i++) {
        struct machine *machine = fleet->items[i];
        if (machine->state == MACHINE_CLOSED || !selected(doctor->options, machine->id))
            continue;
        doctor->patients[doctor->len++] = (struct patient){
            .machine = machine,
            .diagnosis = {.id = machine->id, .label = machine->label, .target = machine->target},
            .fix = doctor->options->fix,
            .smoke = doctor->options->smoke,
            .done = on_examined,
            .user = doctor,
        };
    }
    doctor->pending = doctor->len + 1;
    for (size_t i = 0; i < doctor->len; i++) {
        if (admit(&doctor->patients[i], fleet->len - 1, error))
            patient_examine(&doctor->patients[i]);
        else
            one_done(doctor);
    }
    one_done(doctor);
}

/* ---- run ----------------------------------------------------------------------------------- */

int doctor_run(const struct doctor_options *options)
{
    struct doctor doctor = {.options = options};
    char installation[33];
    uv_loop_init(&doctor.loop);
    context_from_environment(&doctor.context);
    installation_look(installation, doctor.context.home);
    doctor.artifacts = shp_artifacts_load(options->program_dir);
    struct machine_events events = {.on_state = on_state, .user = &doctor};
    doctor.fleet =
        fleet_new(&doctor.loop, &doctor.context, doctor.artifacts, installation, true, &events);
    doctor.fleet->probe_only = true;
    fleet_refresh(doctor.fleet, on_catalog, &doctor);
    uv_run(&doctor.loop, UV_RUN_DEFAULT);
    uv_loop_close(&doctor.loop);
    for (size_t i = 0; i < doctor.len; i++)
        patient_fini(&doctor.patients[i]);
    free(doctor.patients);
    fleet_free(doctor.fleet);
    shp_artifacts_free(doctor.artifacts);
    context_fini(&doctor.context);
    return cli_printed(doctor.status);
}
