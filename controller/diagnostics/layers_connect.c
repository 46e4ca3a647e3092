#include "controller/diagnostics/layers.h"

#include <inttypes.h>
#include <string.h>

#include "protocol/messages.h"

static const char *or_text(const char *text, const char *otherwise)
{
    return text && *text ? text : otherwise;
}

/* ---- layers of SSH that were passed -------------------------------------------------------- */

static void config_ok(struct finding *finding, const struct machine *machine)
{
    const struct shp_ssh_facts *ssh = &machine->ssh;
    char port[16] = "";
    if (ssh->port)
        snprintf(port, sizeof(port), ":%" PRIu32, ssh->port);
    finding_ok(finding, "%s%s%s%s%s%s, %s%s%s%s%s%s", ssh->user, *ssh->user ? "@" : "",
               or_text(ssh->hostname, machine->target), port, *ssh->proxy ? " by way of " : "",
               ssh->proxy, or_text(ssh->transport, "ssh"), *ssh->reason ? " (" : "", ssh->reason,
               *ssh->reason ? ")" : "", *ssh->kex ? ", " : "", ssh->kex);
}

/* otherwise: for a method that is not known. */
static void auth_seen(struct finding *finding, const struct shp_ssh_facts *ssh,
                      const char *otherwise)
{
    char tried[32] = "";
    if (ssh->keys_tried > 0)
        snprintf(tried, sizeof(tried), "; %" PRIu32 " key%s tried", ssh->keys_tried,
                 ssh->keys_tried == 1 ? "" : "s");
    finding_ok(finding, "%s%s%s%s%s%s", or_text(ssh->auth_used, otherwise),
               *ssh->auth_offered ? ", offered: " : "", ssh->auth_offered, tried,
               *ssh->agent ? "; agent: " : "", ssh->agent);
}

static void shell_seen(struct finding *finding, const struct shp_bootstrap_seen *seen)
{
    if (seen->noise_bytes == 0)
        finding_ok(finding, "silent");
    else
        finding_ok(finding, "%zu bytes of noise: %s", seen->noise_bytes, seen->first_line);
}

/* What is known of a layer of SSH that was passed. */
static void passed(struct diagnosis *diagnosis, const struct machine *machine, enum layer layer)
{
    const struct shp_ssh_facts *ssh = &machine->ssh;
    struct finding *finding = &diagnosis->findings[layer];
    switch (layer) {
    case LAYER_CONFIG:
        config_ok(finding, machine);
        break;
    case LAYER_DNS:
        if (*ssh->proxy)
            finding_ok(finding, "resolved behind the proxy");
        else
            finding_ok(finding, "%s", or_text(ssh->address, "resolved"));
        break;
    case LAYER_TCP:
        if (*ssh->address && ssh->port)
            finding_ok(finding, "%s port %" PRIu32, ssh->address, ssh->port);
        else
            finding_ok(finding, "connected");
        break;
    case LAYER_HOST_KEY:
        finding_ok(finding, "%s", or_text(ssh->host_key, "known"));
        break;
    case LAYER_AUTH:
        auth_seen(finding, ssh, "logged in");
        break;
    case LAYER_SHELL:
        shell_seen(finding, &machine->seen);
        break;
    default:
        break;
    }
}

void layers_connected(struct diagnosis *diagnosis, const struct machine *machine)
{
    for (int layer = machine->local ? LAYER_SHELL : LAYER_CONFIG; layer <= LAYER_SHELL; layer++)
        passed(diagnosis, machine, (enum layer)layer);
}

/* ---- an absent helper ---------------------------------------------------------------------- */

/* The home is what stands before our own part of the path; another directory is told whole. */
static void absent_home(struct finding *finding, const struct machine *machine)
{
    const struct shp_bootstrap_seen *seen = &machine->seen;
    const char *ours = strstr(seen->absent_path, "/.pi/agent/");
    const char *last = strrchr(seen->absent_path, '/');
    const char *end = ours ? ours : last ? last : seen->absent_path;
    int len = (int)(end - seen->absent_path);
    if (seen->read_only)
        finding_judge(finding, VERDICT_FAILED, SHP_CODE_INSTALL_READ_ONLY, machine->id,
                      "%.*s is on a file system that is mounted read-only", len, seen->absent_path);
    else if (seen->unwritable)
        finding_judge(finding, VERDICT_FAILED, SHP_CODE_INSTALL_FAILED, machine->id,
                      "%.*s cannot be written", len, seen->absent_path);
    else
        finding_ok(finding, "%.*s", len, seen->absent_path);
}

static void absent_disk(struct finding *finding, const struct machine *machine)
{
    const struct shp_bootstrap_seen *seen = &machine->seen;
    uint64_t kib = seen->free_kib;
    if (seen->free_inodes == 0)
        finding_judge(finding, VERDICT_FAILED, SHP_CODE_INSTALL_NO_SPACE, machine->id,
                      "no inodes are left");
    else if (kib == SHP_BOOTSTRAP_UNKNOWN)
        finding_skip(finding, "needs the helper");
    else if (kib < seen->absent_bytes / 1024 + 1)
        finding_judge(finding, VERDICT_FAILED, SHP_CODE_INSTALL_NO_SPACE, machine->id,
                      "%" PRIu64 " KiB are free, the helper needs %" PRIu64, kib,
                      seen->absent_bytes / 1024 + 1);
    else
        finding_ok(finding, "%" PRIu64 " MiB free", kib / 1024);
}

static void absent_layers(struct diagnosis *diagnosis, const struct machine *machine)
{
    const struct shp_bootstrap_seen *seen = &machine->seen;
    absent_home(&diagnosis->findings[LAYER_HOME], machine);
    absent_disk(&diagnosis->findings[LAYER_DISK], machine);
    if (seen->noexec)
        finding_judge(&diagnosis->findings[LAYER_NOEXEC], VERDICT_FAILED, SHP_CODE_INSTALL_NOEXEC,
                      machine->id, "the place of %s is mounted noexec", seen->absent_path);
    else
        finding_ok(&diagnosis->findings[LAYER_NOEXEC], "programs may run");
    finding_ok(&diagnosis->findings[LAYER_ARCHITECTURE], "a helper fits");
}

/* ---- failed -------------------------------------------------------------------------------- */

void layers_unconnected(struct diagnosis *diagnosis, const struct machine *machine,
                        const struct shp_error *error)
{
    enum shp_ssh_phase phase = machine->local ? SHP_SSH_PHASE_RUNNING : machine->ssh.phase;
    enum layer failed = layer_of_failure(error->code, phase);
    bool absent = error->code == SHP_CODE_HELPER_ABSENT;
    char why[64];
    snprintf(why, sizeof(why), absent ? "needs the helper" : "needs %s", layer_name(failed));
    /* A fault of this side: the way was never tried. */
    bool untried = error->code == SHP_CODE_HELPER_MISSING || failed == LAYER_CATALOG;
    for (int layer = LAYER_CONFIG; layer < LAYER_SMOKE; layer++) {
        struct finding *finding = &diagnosis->findings[layer];
        if (machine->local && layer < LAYER_SHELL)
            continue;
        if (layer == (int)failed && failed == LAYER_AUTH)
            auth_seen(finding, &machine->ssh, "no method succeeded");
        if (layer == (int)failed && failed == LAYER_SHELL && machine->seen.noise_bytes > 0)
            shell_seen(finding, &machine->seen);
        if (layer == (int)failed)
            finding_fail(finding, error);
        else if (layer > (int)failed || untried || layer > LAYER_SHELL)
            finding_skip(finding, why);
        else
            passed(diagnosis, machine, (enum layer)layer);
    }
    if (absent) {
        absent_layers(diagnosis, machine);
        diagnosis->findings[LAYER_HELPER].verdict = VERDICT_WARNING;
    }
}
