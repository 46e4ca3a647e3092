#include "controller/diagnostics/layers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "controller/json.h"
#include "protocol/messages.h"

/* Pi's lowest version; Herdr's lowest that is used, and the lowest without a warning. */
#define PI_MAJOR_MIN 1
#define PI_MINOR_MIN 2
#define HERDR_MINOR_MIN 8
#define HERDR_MINOR_FULL 9

#define MIB ((uint64_t)1024 * 1024)

static uint64_t number(const cJSON *facts, const char *name)
{
    double value = json_number(facts, name, 0);
    return value > 0 ? (uint64_t)value : 0;
}

static bool version_parse(const char *text, int *major, int *minor)
{
    *major = *minor = 0;
    return text && sscanf(text, "%d.%d", major, minor) == 2;
}

/* ---- the place of the helper --------------------------------------------------------------- */

static void home(struct finding *finding, const struct machine *machine, const cJSON *facts)
{
    const char *path = json_string(facts, "home");
    path = path ? path : "?";
    if (!json_bool(facts, "home_exists"))
        finding_judge(finding, VERDICT_FAILED, SHP_CODE_HOME_MISSING, machine->id,
                      "%s is no directory", path);
    else if (!json_bool(facts, "home_writable"))
        finding_judge(
            finding, VERDICT_WARNING,
            json_bool(facts, "read_only") ? SHP_CODE_INSTALL_READ_ONLY : SHP_CODE_INSTALL_FAILED,
            machine->id, "%s cannot be written; a newer helper could not be placed", path);
    else
        finding_ok(finding, "%s%s", path,
                   json_bool(facts, "home_owned") ? "" : " (of another account)");
}

static void disk(struct finding *finding, const struct machine *machine, const cJSON *facts)
{
    uint64_t bytes = number(facts, "disk_free_bytes");
    const cJSON *inodes = cJSON_GetObjectItemCaseSensitive(facts, "disk_free_inodes");
    char counted[48] = "";
    if (inodes && inodes->valuedouble < 1) {
        finding_judge(finding, VERDICT_WARNING, SHP_CODE_INSTALL_NO_SPACE, machine->id,
                      "no inodes are left");
        return;
    }
    if (inodes)
        snprintf(counted, sizeof(counted), ", %.0f inodes", inodes->valuedouble);
    if (bytes < DISK_LOW_BYTES)
        finding_judge(finding, VERDICT_WARNING, SHP_CODE_INSTALL_NO_SPACE, machine->id,
                      "%" PRIu64 " KiB are free", bytes / 1024);
    else
        finding_ok(finding, "%" PRIu64 " MiB free%s", bytes / MIB, counted);
}

static void noexec(struct finding *finding, const cJSON *facts)
{
    /* A helper that was mapped before a remount goes on; the next one would not start. */
    if (json_bool(facts, "noexec"))
        finding_judge(finding, VERDICT_WARNING, SHP_CODE_INSTALL_NOEXEC, NULL,
                      "the file system of the helper is mounted noexec by now");
    else
        finding_ok(finding, "programs may run");
}

/* A path below the home, as people write it. */
static void short_path(char *out, size_t size, const char *path, const char *home)
{
    size_t len = home ? strlen(home) : 0;
    if (len > 1 && strncmp(path, home, len) == 0 && path[len] == '/')
        snprintf(out, size, "~%s", path + len);
    else
        snprintf(out, size, "%s", path);
}

static void helper(struct finding *finding, const struct machine *machine, const cJSON *facts)
{
    const char *path = json_string(facts, "helper");
    const char *version = json_string(facts, "version");
    const char *build = json_string(facts, "build");
    uint64_t stale = number(facts, "stale");
    char more[80] = "";
    char shown[300];
    short_path(shown, sizeof(shown), path ? path : "?", json_string(facts, "home"));
    if (stale > 0)
        snprintf(more, sizeof(more), "; %" PRIu64 " stale file%s beside it (--fix sweeps)", stale,
                 stale == 1 ? "" : "s");
    finding_ok(finding, "%s%s (build %.12s), %s, %" PRIu64 " bytes, ready after %" PRIu64 " ms%s",
               machine->seen.uploaded ? "installed now: " : "", version ? version : "?",
               build ? build : "?", shown, number(facts, "helper_bytes"), machine->seen.ready_ms,
               more);
}

/* ---- what the machine is used for ---------------------------------------------------------- */

static void pi(struct finding *finding, const struct machine *machine, const cJSON *facts)
{
    const char *path = json_string(facts, "pi");
    const char *version = json_string(facts, "pi_version");
    const cJSON *integration = cJSON_GetObjectItemCaseSensitive(facts, "integration");
    int major = 0, minor = 0;
    if (!path) {
        finding_judge(finding, VERDICT_WARNING, SHP_CODE_PI_MISSING, machine->id,
                      "neither PATH of a noninteractive login nor the usual directories have it");
        return;
    }
    if (version_parse(version, &major, &minor) &&
        (major < PI_MAJOR_MIN || (major == PI_MAJOR_MIN && minor < PI_MINOR_MIN))) {
        finding_judge(finding, VERDICT_FAILED, SHP_CODE_PI_TOO_OLD, machine->id, "%s is %s", path,
                      version);
        return;
    }
    char extension[64] = "extension comes with a spawn";
    if (json_bool(facts, "extension_installed"))
        snprintf(extension, sizeof(extension), "extension installed");
    else if (number(facts, "extension_pushed") > 0)
        snprintf(extension, sizeof(extension), "extension placed by a controller");
    finding_ok(finding, "%s %s, %s, %s", path, version ? version : "of unknown version", extension,
               integration ? "integration" : "no integration");
    if (integration)
        snprintf(finding->text + strlen(finding->text),
                 sizeof(finding->text) - strlen(finding->text), " %.0f", integration->valuedouble);
    else
        finding_judge(finding, VERDICT_WARNING, SHP_CODE_INTEGRATION_MISSING, machine->id,
                      "%s %s has no herdr-agent-state.ts among its extensions", path,
                      version ? version : "");
}

static void sessions(struct finding *finding, const struct machine *machine, const cJSON *facts)
{
    const char *dir = json_string(facts, "sessions_dir");
    if (json_bool(facts, "sessions_readable"))
        finding_ok(finding, "%" PRIu64 " in %s", number(facts, "sessions"), dir ? dir : "?");
    else
        finding_judge(finding, VERDICT_FAILED, SHP_CODE_SESSIONS_UNREADABLE, machine->id,
                      "%s cannot be listed", dir ? dir : "?");
}

static void watches(struct finding *finding, const struct machine *machine, const cJSON *facts)
{
    const char *how = json_string(facts, "watch");
    uint64_t calls = number(facts, "calls_per_minute");
    if (how && strcmp(how, "events") == 0)
        finding_ok(finding, "file events; %" PRIu64 " Herdr calls per minute", calls);
    else
        finding_judge(finding, VERDICT_WARNING, SHP_CODE_WATCH_POLLING, machine->id,
                      "files are polled; %" PRIu64 " Herdr calls per minute", calls);
}

static void clock_skew(struct finding *finding, const struct machine *machine, int64_t skew_ms,
                       uint64_t slack_ms)
{
    uint64_t size = (uint64_t)(skew_ms < 0 ? -skew_ms : skew_ms);
    const char *which = skew_ms < 0 ? "behind" : "ahead of";
    if (size > CLOCK_SKEW_MAX_MS + slack_ms)
        finding_judge(finding, VERDICT_WARNING, SHP_CODE_CLOCK_SKEW, machine->id,
                      "its clock is %" PRIu64 " s %s ours", size / 1000, which);
    else if (size <= slack_ms)
        finding_ok(finding, "equal within %" PRIu64 " ms", slack_ms);
    else
        finding_ok(finding, "%" PRIu64 " ms %s ours", size, which);
}

void layers_facts(struct diagnosis *diagnosis, const struct machine *machine, const cJSON *facts,
                  int64_t skew_ms, uint64_t slack_ms)
{
    struct finding *findings = diagnosis->findings;
    const char *system = json_string(facts, "system");
    home(&findings[LAYER_HOME], machine, facts);
    disk(&findings[LAYER_DISK], machine, facts);
    noexec(&findings[LAYER_NOEXEC], facts);
    finding_ok(&findings[LAYER_ARCHITECTURE], "%s", system ? system : "?");
    helper(&findings[LAYER_HELPER], machine, facts);
    pi(&findings[LAYER_PI], machine, facts);
    sessions(&findings[LAYER_SESSIONS], machine, facts);
    watches(&findings[LAYER_WATCHES], machine, facts);
    clock_skew(&findings[LAYER_CLOCK], machine, skew_ms, slack_ms);
}

void layers_facts_failed(struct diagnosis *diagnosis, const struct shp_error *error)
{
    static const enum layer layers[] = {LAYER_HOME,         LAYER_DISK, LAYER_NOEXEC,
                                        LAYER_ARCHITECTURE, LAYER_PI,   LAYER_SESSIONS,
                                        LAYER_WATCHES,      LAYER_CLOCK};
    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++)
        finding_skip(&diagnosis->findings[layers[i]], "needs the helper");
    finding_fail(&diagnosis->findings[LAYER_HELPER], error);
}

/* ---- Herdr --------------------------------------------------------------------------------- */

void layers_herdr(struct diagnosis *diagnosis, const struct machine *machine,
                  const struct herdr_answer *answer, const char *program)
{
    struct finding *finding = &diagnosis->findings[LAYER_HERDR];
    int major = 0, minor = 0;
    if (answer->error && answer->error->code == SHP_CODE_HERDR_NOT_RUNNING && !program) {
        finding_judge(finding, VERDICT_FAILED, SHP_CODE_HERDR_MISSING, machine->id,
                      "no server listens, and no herdr program was found");
        return;
    }
    if (answer->error) {
        finding_fail(finding, answer->error);
        return;
    }
    const char *version = json_string(answer->result, "version");
    bool known = version_parse(version, &major, &minor);
    if (!known || (major == 0 && minor < HERDR_MINOR_FULL))
        finding_judge(finding, known && minor >= HERDR_MINOR_MIN ? VERDICT_WARNING : VERDICT_FAILED,
                      SHP_CODE_HERDR_TOO_OLD, machine->id, "version %s",
                      version ? version : "unknown");
    else
        finding_ok(finding, "server %s runs, protocol %d, session %s, program %s", version,
                   (int)json_number(answer->result, "protocol", 0),
                   machine->session ? machine->session : "default",
                   program ? program : "not in PATH");
}

/* ---- receivers ----------------------------------------------------------------------------- */

void layers_receivers(struct diagnosis *diagnosis, const struct machine *machine,
                      const struct shp_error *error, const cJSON *receivers)
{
    struct finding *finding = &diagnosis->findings[LAYER_RECEIVERS];
    size_t outdated = 0;
    const cJSON *item = NULL;
    if (error) {
        finding_fail(finding, error);
        return;
    }
    cJSON_ArrayForEach(item, receivers)
    {
        outdated += json_number(item, "protocol_max", 0) < SHP_PROTOCOL_VERSION_MIN;
    }
    if (outdated > 0)
        finding_judge(finding, VERDICT_WARNING, SHP_CODE_RECEIVER_OUTDATED, machine->id,
                      "%zu of %d live pi sessions", outdated, cJSON_GetArraySize(receivers));
    else
        finding_ok(finding, "%d live pi session%s; this command has no relations",
                   cJSON_GetArraySize(receivers), cJSON_GetArraySize(receivers) == 1 ? "" : "s");
}

/* ---- link ---------------------------------------------------------------------------------- */

void layers_link(struct diagnosis *diagnosis, const struct machine *machine,
                 const struct shp_error *error, uint64_t rtt_us, uint64_t bytes, uint64_t us)
{
    struct finding *finding = &diagnosis->findings[LAYER_LINK];
    uint64_t per_second = us > 0 ? bytes * 1000000 / us : 0;
    double rtt_ms = (double)rtt_us / 1000;
    if (error) {
        finding_fail(finding, error);
        if (error->code == SHP_CODE_TIMEOUT)
            finding_judge(finding, VERDICT_WARNING, SHP_CODE_LINK_SLOW, machine->id,
                          "%" PRIu64 " KiB did not come back in time; round trip %.1f ms",
                          bytes / 1024, rtt_ms);
    } else if (per_second < LINK_SLOW_BYTES_PER_S) {
        finding_judge(finding, VERDICT_WARNING, SHP_CODE_LINK_SLOW, machine->id,
                      "%" PRIu64 " KiB/s; round trip %.1f ms", per_second / 1024, rtt_ms);
    } else {
        finding_ok(finding, "round trip %.1f ms, %.1f MB/s", rtt_ms, (double)per_second / 1e6);
    }
}
