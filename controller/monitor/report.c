#include "controller/monitor/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sodium.h>
#include <cjson/cJSON.h>

#include "base/id.h"
#include "controller/json.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

#define REPLY_PART_BYTES 16384
#define TASK_DETAIL_BYTES 2048

bool settlement_failed(const struct settlement *settlement)
{
    return settlement->exited || settlement->aborted ||
           (settlement->stop_reason && (strcmp(settlement->stop_reason, "error") == 0 ||
                                        strcmp(settlement->stop_reason, "aborted") == 0));
}

/* ---- text ---------------------------------------------------------------------------------- */

struct text {
    char *bytes;
    size_t len;
};

static void add_len(struct text *text, const char *part, size_t len)
{
    text->bytes = xrealloc(text->bytes, text->len + len + 1);
    memcpy(text->bytes + text->len, part, len);
    text->len += len;
    text->bytes[text->len] = 0;
}

static void add(struct text *text, const char *part)
{
    add_len(text, part, strlen(part));
}

/* Names and texts of agents must not be able to close or open an element. */
static void add_escaped(struct text *text, const char *part, bool attribute)
{
    const char *start = part;
    for (const char *p = part;; p++) {
        const char *entity = NULL;
        if (*p == '&')
            entity = "&amp;";
        else if (*p == '<')
            entity = "&lt;";
        else if (*p == '>')
            entity = "&gt;";
        else if (attribute && *p == '"')
            entity = "&quot;";
        else if (attribute && *p == '\n')
            entity = "&#10;";
        else if (attribute && *p == '\r')
            entity = "&#13;";
        if (!entity && *p)
            continue;
        add_len(text, start, (size_t)(p - start));
        if (!*p)
            return;
        add(text, entity);
        start = p + 1;
    }
}

static void add_attribute(struct text *text, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    add(text, " ");
    add(text, name);
    add(text, "=\"");
    add_escaped(text, value, true);
    add(text, "\"");
}

static void add_element(struct text *text, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    add(text, "<");
    add(text, name);
    add(text, ">");
    add_escaped(text, value, false);
    add(text, "</");
    add(text, name);
    add(text, ">\n");
}

/* First byte at or after at that begins a character. */
static size_t character_start(const char *text, size_t at)
{
    while (((unsigned char)text[at] & 0xc0) == 0x80)
        at++;
    return at;
}

char *report_reply_text(const char *reply, const char *machine, const char *target)
{
    size_t len = strlen(reply);
    if (len <= SHP_LIMIT_REPLY_VERBATIM_BYTES_MAX)
        return xstrdup(reply);
    size_t head = REPLY_PART_BYTES;
    while (head > 0 && ((unsigned char)reply[head] & 0xc0) == 0x80)
        head--;
    size_t tail = character_start(reply, len - REPLY_PART_BYTES);
    return xasprintf("%.*s\n\n[… %zu of %zu bytes left out; read all of it with agents "
                     "{\"action\":\"read\",\"machine\":\"%s\",\"target\":\"%s\"} …]\n\n%s",
                     (int)head, reply, tail - head, len, machine, target, reply + tail);
}

static const char *failure_hint(const struct settlement *settlement)
{
    if (settlement->exited)
        return "The worker's Pi ended before the task settled. Look at the pane, then decide.";
    if (settlement->aborted)
        return "The run was stopped, by a person or with its Pi. Look or ask before you start it "
               "again.";
    return "Read its recent output, retry at most once with one corrective prompt, then tell the "
           "user.";
}

static void digest_part(crypto_generichash_state *state, const char *part)
{
    const char *text = part ? part : "";
    crypto_generichash_update(state, (const unsigned char *)text, strlen(text) + 1);
}

static void make_id(char out[65], const struct shp_agent_record *agent,
                    const struct shp_task_record *task, const struct settlement *settlement)
{
    uint8_t digest[SHP_ID_BYTES];
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof(digest));
    digest_part(&state, agent->pi_session_id);
    digest_part(&state, settlement->exited ? agent->terminal_id : settlement->entry_id);
    digest_part(&state, task->input);
    crypto_generichash_final(&state, digest, sizeof(digest));
    shp_hex_encode(out, digest, sizeof(digest));
}

static char *make_details(const struct machine *machine, const struct shp_agent_record *agent,
                          const struct shp_task_record *task, const struct settlement *settlement)
{
    cJSON *details = cJSON_CreateObject();
    json_add(details, "machine", machine->id);
    json_add(details, "machineLabel", machine->label);
    json_add(details, "paneId", agent->pane);
    json_add(details, "state", settlement_failed(settlement) ? "failed" : "settled");
    json_add(details, "name", agent->name);
    json_add(details, "label", agent->label);
    json_add(details, "cwd", agent->cwd);
    char *task_text = xstrdup(task->text ? task->text : "");
    if (strlen(task_text) > TASK_DETAIL_BYTES) {
        size_t cut = TASK_DETAIL_BYTES;
        while (cut > 0 && ((unsigned char)task_text[cut] & 0xc0) == 0x80)
            cut--;
        task_text[cut] = 0;
    }
    json_add(details, "task", task_text);
    free(task_text);
    json_add(details, "taskId", task->id);
    json_add(details, "agentId", agent->id);
    json_add(details, "evidence", settlement->evidence);
    json_add(details, "stopReason", settlement->stop_reason);
    char *printed = json_print(details);
    cJSON_Delete(details);
    return printed;
}

void report_build(struct shp_report_record *report, const struct machine *machine,
                  const struct shp_agent_record *agent, const struct shp_task_record *task,
                  const struct settlement *settlement, uint64_t now_unix_ms)
{
    bool failed = settlement_failed(settlement);
    *report = (struct shp_report_record){.state = SHP_REPORT_DUE, .created_unix_ms = now_unix_ms};
    make_id(report->id, agent, task, settlement);
    snprintf(report->task, sizeof(report->task), "%s", task->id);
    report->details = make_details(machine, agent, task, settlement);
    struct text text = {0};
    add(&text, "<agent_report");
    add_attribute(&text, "state", failed ? "failed" : "settled");
    add_attribute(&text, "machine", machine->id);
    if (!machine->local)
        add_attribute(&text, "machine_name", machine->label);
    add_attribute(&text, "target", agent->pane);
    add_attribute(&text, "name", agent->name);
    add_attribute(&text, "label", agent->label);
    add_attribute(&text, "directory", agent->cwd);
    add_attribute(&text, "evidence", settlement->evidence);
    add(&text, ">\n");
    add_element(&text, "task", task->text);
    if (failed) {
        add_element(&text, "error",
                    settlement->error_message ? settlement->error_message
                    : settlement->exited      ? "exited"
                                              : settlement->stop_reason);
        add_element(&text, "hint", failure_hint(settlement));
    }
    if (settlement->reply && *settlement->reply) {
        char *reply = report_reply_text(settlement->reply, machine->id, agent->pane);
        add_element(&text, "response", reply);
        free(reply);
    }
    add(&text, "</agent_report>");
    report->text = text.bytes;
}
