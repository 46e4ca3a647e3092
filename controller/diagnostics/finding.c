#include "controller/diagnostics/finding.h"

#include <stdarg.h>
#include <string.h>

#include "controller/json.h"
#include "protocol/messages.h"

static const char *const layer_names[LAYER_COUNT] = {
#define XX(name, text) text,
    LAYERS(XX)
#undef XX
};

static const char *const verdict_names[] = {
    [VERDICT_NONE] = "",           [VERDICT_SKIPPED] = "skipped", [VERDICT_OK] = "ok",
    [VERDICT_WARNING] = "warning", [VERDICT_FAILED] = "failed",
};

const char *layer_name(enum layer layer)
{
    return layer_names[layer];
}

void finding_skip(struct finding *finding, const char *why)
{
    *finding = (struct finding){.verdict = VERDICT_SKIPPED};
    snprintf(finding->text, sizeof(finding->text), "%s", why);
}

void finding_ok(struct finding *finding, const char *format, ...)
{
    va_list list;
    *finding = (struct finding){.verdict = VERDICT_OK};
    va_start(list, format);
    vsnprintf(finding->text, sizeof(finding->text), format, list);
    va_end(list);
}

void finding_fail(struct finding *finding, const struct shp_error *error)
{
    finding->verdict = VERDICT_FAILED;
    finding->error = *error;
}

void finding_judge(struct finding *finding, enum verdict verdict, int code, const char *machine,
                   const char *format, ...)
{
    va_list list;
    finding->verdict = verdict;
    va_start(list, format);
    shp_error_vset(&finding->error, code, machine, "doctor", format, list);
    va_end(list);
}

/* ---- which layer --------------------------------------------------------------------------- */

static const struct {
    int code;
    enum layer layer;
} layers_of_codes[] = {
    {SHP_CODE_MACHINE_DISABLED, LAYER_CATALOG},
    {SHP_CODE_SETTINGS_INVALID, LAYER_CONFIG},
    {SHP_CODE_TARGET_INVALID, LAYER_CONFIG},
    {SHP_CODE_SSH_CONFIG_FAILED, LAYER_CONFIG},
    {SHP_CODE_SSH_MISSING, LAYER_CONFIG},
    {SHP_CODE_NAME_UNRESOLVED, LAYER_DNS},
    {SHP_CODE_CONNECT_REFUSED, LAYER_TCP},
    {SHP_CODE_CONNECT_TIMEOUT, LAYER_TCP},
    {SHP_CODE_KEX_UNSUPPORTED, LAYER_HOST_KEY},
    {SHP_CODE_HOST_KEY_UNKNOWN, LAYER_HOST_KEY},
    {SHP_CODE_HOST_KEY_CHANGED, LAYER_HOST_KEY},
    {SHP_CODE_LOGIN_DENIED, LAYER_AUTH},
    {SHP_CODE_KEY_LOCKED, LAYER_AUTH},
    {SHP_CODE_INTERACTION_REQUIRED, LAYER_AUTH},
    {SHP_CODE_LOGIN_SLOW, LAYER_AUTH},
    {SHP_CODE_CHANNEL_REFUSED, LAYER_SHELL},
    /* Foreign bytes on the channel: somebody prints. */
    {SHP_CODE_AUTH_FAILED, LAYER_SHELL},
    {SHP_CODE_SHELL_NOISE, LAYER_SHELL},
    {SHP_CODE_SHELL_REFUSED, LAYER_SHELL},
    {SHP_CODE_SHELL_SLOW, LAYER_SHELL},
    {SHP_CODE_SHELL_UNSUPPORTED, LAYER_SHELL},
    {SHP_CODE_SHELL_LIMITS, LAYER_SHELL},
    {SHP_CODE_HOME_MISSING, LAYER_HOME},
    {SHP_CODE_INSTALL_READ_ONLY, LAYER_HOME},
    {SHP_CODE_INSTALL_NO_SPACE, LAYER_DISK},
    {SHP_CODE_INSTALL_NOEXEC, LAYER_NOEXEC},
    {SHP_CODE_ARCH_UNSUPPORTED, LAYER_ARCHITECTURE},
    {SHP_CODE_HELPER_MISSING, LAYER_HELPER},
    {SHP_CODE_HELPER_ABSENT, LAYER_HELPER},
    {SHP_CODE_INSTALL_FAILED, LAYER_HELPER},
    {SHP_CODE_INSTALL_FOREIGN_FILE, LAYER_HELPER},
    {SHP_CODE_INSTALL_CORRUPT, LAYER_HELPER},
    {SHP_CODE_BUILD_MISMATCH, LAYER_HELPER},
    {SHP_CODE_HELPER_SILENT, LAYER_HELPER},
};

enum layer layer_of_failure(int code, enum shp_ssh_phase phase)
{
    for (size_t i = 0; i < sizeof(layers_of_codes) / sizeof(layers_of_codes[0]); i++)
        if (layers_of_codes[i].code == code)
            return layers_of_codes[i].layer;
    switch (phase) {
    case SHP_SSH_PHASE_CONFIG:
        return code == SHP_CODE_CONNECT_FAILED ? LAYER_TCP : LAYER_CONFIG;
    case SHP_SSH_PHASE_NAME:
        return LAYER_DNS;
    case SHP_SSH_PHASE_TCP:
        return LAYER_TCP;
    case SHP_SSH_PHASE_KEX:
    case SHP_SSH_PHASE_HOST_KEY:
        return LAYER_HOST_KEY;
    case SHP_SSH_PHASE_AUTH:
        return LAYER_AUTH;
    case SHP_SSH_PHASE_CHANNEL:
        return LAYER_SHELL;
    case SHP_SSH_PHASE_RUNNING:
        break;
    }
    return LAYER_LINK;
}

/* ---- forms --------------------------------------------------------------------------------- */

int diagnosis_status(const struct diagnosis *diagnosis)
{
    int status = 0;
    for (int layer = 0; layer < LAYER_COUNT; layer++) {
        enum verdict verdict = diagnosis->findings[layer].verdict;
        int own = verdict == VERDICT_FAILED ? 2 : verdict == VERDICT_WARNING ? 1 : 0;
        status = own > status ? own : status;
    }
    return status;
}

static cJSON *finding_json(enum layer layer, const struct finding *finding)
{
    cJSON *item = cJSON_CreateObject();
    json_add(item, "layer", layer_names[layer]);
    json_add(item, "status", verdict_names[finding->verdict]);
    if (*finding->text)
        json_add(item, "text", finding->text);
    if (finding->verdict >= VERDICT_WARNING) {
        json_add(item, "code", shp_code_name(finding->error.code));
        json_add(item, "step", finding->error.step);
        json_add(item, "cause", finding->error.cause);
        json_add(item, "next", shp_code_next(finding->error.code));
    }
    return item;
}

cJSON *diagnosis_json(const struct diagnosis *diagnosis)
{
    static const char *const verdicts[] = {"ok", "warning", "failed"};
    cJSON *item = cJSON_CreateObject();
    json_add(item, "machine", diagnosis->id);
    json_add(item, "label", diagnosis->label);
    json_add(item, "target", diagnosis->target);
    json_add(item, "status", verdicts[diagnosis_status(diagnosis)]);
    cJSON *layers = cJSON_AddArrayToObject(item, "layers");
    for (int layer = 0; layer < LAYER_COUNT; layer++)
        if (diagnosis->findings[layer].verdict != VERDICT_NONE)
            cJSON_AddItemToArray(layers,
                                 finding_json((enum layer)layer, &diagnosis->findings[layer]));
    return item;
}

#define MARK_WIDTH 7
#define NAME_WIDTH 12

static void print_mark(FILE *out, bool colour, enum verdict verdict)
{
    static const char *const colours[] = {
        [VERDICT_SKIPPED] = "\033[2m",
        [VERDICT_OK] = "\033[32m",
        [VERDICT_WARNING] = "\033[33m",
        [VERDICT_FAILED] = "\033[1;31m",
    };
    const char *name = verdict == VERDICT_FAILED ? "FAILED" : verdict_names[verdict];
    fprintf(out, "  %s%-*s%s  ", colour ? colours[verdict] : "", MARK_WIDTH, name,
            colour ? "\033[0m" : "");
}

/* Layers that were skipped for one reason share a line. Returns the last of them. */
static int print_skipped(const struct diagnosis *diagnosis, FILE *out, bool colour, int layer)
{
    const char *why = diagnosis->findings[layer].text;
    int last = layer;
    for (int next = layer + 1; next < LAYER_COUNT; next++) {
        const struct finding *finding = &diagnosis->findings[next];
        if (finding->verdict == VERDICT_NONE)
            continue;
        if (finding->verdict != VERDICT_SKIPPED || strcmp(finding->text, why) != 0)
            break;
        last = next;
    }
    print_mark(out, colour, VERDICT_SKIPPED);
    if (last == layer)
        fprintf(out, "%-*s  %s\n", NAME_WIDTH, layer_names[layer], why);
    else
        fprintf(out, "%s to %s: %s\n", layer_names[layer], layer_names[last], why);
    return last;
}

static void print_error(const struct finding *finding, FILE *out)
{
    const struct shp_error *error = &finding->error;
    fprintf(out, "%s: %s\n", shp_code_name(error->code),
            *error->cause ? error->cause : shp_code_doc(error->code));
    if (*finding->text)
        fprintf(out, "  %*s  %*s  seen: %s\n", MARK_WIDTH, "", NAME_WIDTH, "", finding->text);
    fprintf(out, "  %*s  %*s  next: %s\n", MARK_WIDTH, "", NAME_WIDTH, "",
            shp_code_next(error->code));
}

void diagnosis_print(const struct diagnosis *diagnosis, FILE *out, bool colour)
{
    fprintf(out, "%s%s%s", colour ? "\033[1m" : "", diagnosis->label, colour ? "\033[0m" : "");
    if (diagnosis->target)
        fprintf(out, " (%s, %s)", diagnosis->target, diagnosis->id);
    fprintf(out, "\n");
    for (int layer = 0; layer < LAYER_COUNT; layer++) {
        const struct finding *finding = &diagnosis->findings[layer];
        if (finding->verdict == VERDICT_NONE)
            continue;
        if (finding->verdict == VERDICT_SKIPPED) {
            layer = print_skipped(diagnosis, out, colour, layer);
            continue;
        }
        print_mark(out, colour, finding->verdict);
        fprintf(out, "%-*s  ", NAME_WIDTH, layer_names[layer]);
        if (finding->verdict >= VERDICT_WARNING)
            print_error(finding, out);
        else
            fprintf(out, "%s\n", finding->text);
    }
}
