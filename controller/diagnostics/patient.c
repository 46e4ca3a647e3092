#include "controller/diagnostics/patient.h"

#include <stdlib.h>
#include <string.h>
#include <sodium.h>
#include <uv.h>

#include "controller/clock.h"
#include "controller/diagnostics/layers.h"
#include "controller/diagnostics/smoke.h"
#include "controller/fleet/fleet.h"
#include "controller/json.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

#define ASK_TIMEOUT_MS 10000
#define ECHO_TIMEOUT_MS 10000
/* The second, larger echo is worth its time only where the first was quick. */
#define ECHO_SMALL_BYTES ((size_t)32 * 1024)
#define ECHO_LARGE_BYTES ((size_t)256 * 1024)
#define ECHO_QUICK_US 20000

static void ask(struct patient *patient);

static void finish(struct patient *patient)
{
    patient->done(patient, patient->user);
}

static void on_smoke(const struct shp_error *error, const char *text, void *user)
{
    struct patient *patient = user;
    struct finding *finding = &patient->diagnosis.findings[LAYER_SMOKE];
    if (error)
        finding_fail(finding, error);
    else
        finding_ok(finding, "%s", text);
    finish(patient);
}

/* What follows the layers. */
static void conclude(struct patient *patient)
{
    if (!patient->smoke) {
        finish(patient);
        return;
    }
    enum verdict herdr = patient->diagnosis.findings[LAYER_HERDR].verdict;
    if (herdr == VERDICT_OK || herdr == VERDICT_WARNING) {
        smoke_run(patient->machine, on_smoke, patient);
        return;
    }
    finding_skip(&patient->diagnosis.findings[LAYER_SMOKE], "needs herdr");
    finish(patient);
}

/* ---- answers ------------------------------------------------------------------------------- */

/* Only what was named: an absent helper of a home that takes one, and stale files. */
static bool fix(struct patient *patient)
{
    const struct finding *findings = patient->diagnosis.findings;
    bool absent = patient->lost.code == SHP_CODE_HELPER_ABSENT;
    bool stale = patient->facts && json_number(patient->facts, "stale", 0) > 0;
    if (!patient->fix || patient->fixed || (!absent && !stale))
        return false;
    for (int layer = LAYER_HOME; absent && layer < LAYER_HELPER; layer++)
        if (findings[layer].verdict == VERDICT_FAILED)
            return false;
    patient->fixed = true;
    patient->machine->may_install = true;
    if (patient->machine->link)
        shp_link_close(patient->machine->link, 0, "started again");
    ask(patient);
    return true;
}

static void judge_answers(struct patient *patient)
{
    struct diagnosis *diagnosis = &patient->diagnosis;
    const struct machine *machine = patient->machine;
    if (patient->lost.code) {
        layers_unconnected(diagnosis, machine, &patient->lost);
        if (!fix(patient))
            conclude(patient);
        return;
    }
    layers_connected(diagnosis, machine);
    struct herdr_answer herdr = {.error = patient->herdr_failed ? &patient->herdr_error : NULL,
                                 .herdr_code = "",
                                 .result = patient->herdr_result};
    const char *program = machine->local ? machine->fleet->context->herdr_bin : NULL;
    layers_herdr(diagnosis, machine, &herdr,
                 program ? program : json_string(patient->facts, "herdr"));
    if (!fix(patient))
        conclude(patient);
}

/* A link that broke or never was: its reason is what a person needs. */
static void note_loss(struct patient *patient, const struct shp_error *error)
{
    const struct shp_error *reason = &patient->machine->reason;
    if (patient->machine->state == MACHINE_CONNECTED || patient->lost.code)
        return;
    patient->lost = reason->code ? *reason : *error;
}

static void answered(struct patient *patient, const struct shp_error *error)
{
    if (error)
        note_loss(patient, error);
    if (--patient->pending == 0)
        judge_answers(patient);
}

/* ---- link ---------------------------------------------------------------------------------- */

static void echo(struct patient *patient, size_t bytes);

static void on_echo(struct machine *machine, const struct machine_answer *answer, void *user)
{
    struct patient *patient = user;
    size_t bytes = patient->echo_bytes;
    uint64_t us = (uv_hrtime() - patient->echo_began_ns) / 1000;
    if (!answer->error && bytes == ECHO_SMALL_BYTES && us < ECHO_QUICK_US) {
        echo(patient, ECHO_LARGE_BYTES);
        return;
    }
    uint64_t rtt_us = machine->link ? shp_link_rtt_us(machine->link) : 0;
    layers_link(&patient->diagnosis, machine, answer->error, rtt_us, 2 * (uint64_t)bytes, us);
    answered(patient, answer->error);
}

/* Bytes that nothing on the way can compress. */
static void echo(struct patient *patient, size_t bytes)
{
    char *noise = xcalloc(1, bytes);
    randombytes_buf(noise, bytes);
    patient->echo_bytes = bytes;
    patient->echo_began_ns = uv_hrtime();
    machine_request(patient->machine, SHP_MSG_LINK_ECHO, NULL, ECHO_TIMEOUT_MS, NULL, noise, bytes,
                    on_echo, patient);
    free(noise);
}

/* With the first answer the link is quiet but for the last of the questions. */
static void measure_link(struct patient *patient)
{
    patient->pending++;
    shp_link_probe(patient->machine->link);
    echo(patient, ECHO_SMALL_BYTES);
}

/* ---- questions ----------------------------------------------------------------------------- */

static void on_facts(struct machine *machine, const struct machine_answer *answer, void *user)
{
    struct patient *patient = user;
    if (answer->error) {
        layers_facts_failed(&patient->diagnosis, answer->error);
    } else {
        uint64_t now = clock_unix_ms();
        uint64_t slack = (now - patient->asked_unix_ms) / 2 + 1;
        int64_t theirs = (int64_t)json_number(answer->result, "unix_ms", 0);
        patient->facts = cJSON_Duplicate(answer->result, true);
        layers_facts(&patient->diagnosis, machine, answer->result,
                     theirs - (int64_t)(patient->asked_unix_ms + slack), slack);
        if (machine->link)
            measure_link(patient);
    }
    answered(patient, answer->error);
}

static void on_ping(struct machine *machine, const struct herdr_answer *answer, void *user)
{
    (void)machine;
    struct patient *patient = user;
    patient->herdr_failed = answer->error != NULL;
    if (answer->error)
        patient->herdr_error = *answer->error;
    else
        patient->herdr_result = cJSON_Duplicate(answer->result, true);
    answered(patient, answer->error);
}

static void on_receivers(struct machine *machine, const struct machine_answer *answer, void *user)
{
    struct patient *patient = user;
    cJSON *receivers = answer->error ? NULL : json_parse(answer->bulk, answer->bulk_len);
    layers_receivers(&patient->diagnosis, machine, answer->error, receivers);
    cJSON_Delete(receivers);
    answered(patient, answer->error);
}

/* ---- asking -------------------------------------------------------------------------------- */

static void forget(struct patient *patient)
{
    cJSON_Delete(patient->facts);
    cJSON_Delete(patient->herdr_result);
    patient->facts = patient->herdr_result = NULL;
    patient->lost = (struct shp_error){0};
}

/* All at once: the first of them connects, and one turn of the link carries them. */
static void ask(struct patient *patient)
{
    struct machine *machine = patient->machine;
    cJSON *params = cJSON_CreateObject();
    forget(patient);
    if (machine->local)
        json_add(params, "agent_dir", machine->fleet->context->agent_dir);
    patient->pending = 3;
    patient->asked_unix_ms = clock_unix_ms();
    machine_request(machine, SHP_MSG_MACHINE_FACTS, NULL, ASK_TIMEOUT_MS, params, NULL, 0, on_facts,
                    patient);
    herdr_call(machine, "ping", NULL, ASK_TIMEOUT_MS, on_ping, patient);
    machine_request(machine, SHP_MSG_RECEIVERS_LIST, NULL, ASK_TIMEOUT_MS, NULL, NULL, 0,
                    on_receivers, patient);
}

void patient_examine(struct patient *patient)
{
    ask(patient);
}

void patient_on_state(struct patient *patient)
{
    if (patient->machine->state == MACHINE_CONNECTED)
        patient->asked_unix_ms = clock_unix_ms();
}

void patient_fini(struct patient *patient)
{
    forget(patient);
}
