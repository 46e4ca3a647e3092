#include "remote-helper/roster.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/messages.h"
#include "remote-helper/json_scan.h"

const char roster_request[] = "{\"id\":\"roster\",\"method\":\"session.snapshot\",\"params\":{}}";

#define PATH_MAX_BYTES 160

enum field_type {
    FIELD_TEXT,
    FIELD_NUMBER,
    FIELD_BOOL,
};

struct field {
    char name[18];
    uint8_t type;
    bool required;
};

enum section {
    SECTION_AGENTS,
    SECTION_PANES,
    SECTION_WORKSPACES,
    SECTION_TABS,
    SECTION_COUNT,
    SECTION_NONE = SECTION_COUNT,
};

enum agent_field {
    AGENT_PANE_ID,
    AGENT_TERMINAL_ID,
    AGENT_WORKSPACE_ID,
    AGENT_TAB_ID,
    AGENT_AGENT,
    AGENT_NAME,
    AGENT_TITLE,
    AGENT_STATUS,
    AGENT_LAUNCH_PENDING,
    AGENT_INTERACTIVE_READY,
    AGENT_STATE_CHANGE_SEQ,
    AGENT_CWD,
    AGENT_FOREGROUND_CWD,
    AGENT_SESSION_KIND, /* members of agent_session */
    AGENT_SESSION_VALUE,
    AGENT_FIELDS,
};

enum pane_field { PANE_PANE_ID, PANE_LABEL, PANE_CWD, PANE_FOREGROUND_CWD, PANE_FIELDS };
enum { WORKSPACE_FIELDS = 4, TAB_FIELDS = 3 };

static const struct field agent_fields[AGENT_FIELDS] = {
    {"pane_id", FIELD_TEXT, true},
    {"terminal_id", FIELD_TEXT, true},
    {"workspace_id", FIELD_TEXT, true},
    {"tab_id", FIELD_TEXT, true},
    {"agent", FIELD_TEXT, false},
    {"name", FIELD_TEXT, false},
    {"title", FIELD_TEXT, false},
    {"agent_status", FIELD_TEXT, false},
    {"launch_pending", FIELD_BOOL, false},
    {"interactive_ready", FIELD_BOOL, false},
    {"state_change_seq", FIELD_NUMBER, false},
    {"cwd", FIELD_TEXT, false},
    {"foreground_cwd", FIELD_TEXT, false},
    {"kind", FIELD_TEXT, false},
    {"value", FIELD_TEXT, false},
};

static const struct field pane_fields[PANE_FIELDS] = {
    {"pane_id", FIELD_TEXT, true},
    {"label", FIELD_TEXT, false},
    {"cwd", FIELD_TEXT, false},
    {"foreground_cwd", FIELD_TEXT, false},
};

static const struct field workspace_fields[WORKSPACE_FIELDS] = {
    {"workspace_id", FIELD_TEXT, true},
    {"label", FIELD_TEXT, false},
    {"number", FIELD_NUMBER, false},
    {"focused", FIELD_BOOL, false},
};

static const struct field tab_fields[TAB_FIELDS] = {
    {"tab_id", FIELD_TEXT, true},
    {"workspace_id", FIELD_TEXT, true},
    {"label", FIELD_TEXT, false},
};

static const struct section_info {
    const char *name;
    const struct field *fields;
    unsigned count;
} sections[SECTION_COUNT] = {
    [SECTION_AGENTS] = {"agents", agent_fields, AGENT_FIELDS},
    [SECTION_PANES] = {"panes", pane_fields, PANE_FIELDS},
    [SECTION_WORKSPACES] = {"workspaces", workspace_fields, WORKSPACE_FIELDS},
    [SECTION_TABS] = {"tabs", tab_fields, TAB_FIELDS},
};

/*
 * A record is one slot per field: for texts and numbers an offset into the store (0: absent), for
 * booleans 0 or 1.
 */
struct table {
    uint32_t *slots;
    size_t count, capacity; /* records */
};

struct roster {
    struct json_scan scan;
    struct table tables[SECTION_COUNT];
    char *store;
    size_t store_len, store_capacity;

    /* Where the scanner stands. */
    bool in_result, in_error, in_snapshot, in_session;
    enum section section; /* whose array is open */
    bool in_record;
    bool in_text; /* the string at hand is kept */
    size_t text_len;

    bool have_snapshot, have_error;
    uint32_t version, protocol, error_code, error_message;

    int code; /* enum shp_code of a failure, 0: none */
    const char *why;
    char path[PATH_MAX_BYTES];
};

static int on_token(struct json_scan *scan, enum json_token token, const char *text, size_t len,
                    void *user);

int roster_new(struct roster **out)
{
    struct roster *roster = calloc(1, sizeof *roster);
    if (roster == NULL)
        return SHP_ERR_NOMEM;
    roster->section = SECTION_NONE;
    json_scan_init(&roster->scan, on_token, roster);
    *out = roster;
    return 0;
}

void roster_free(struct roster *roster)
{
    if (roster == NULL)
        return;
    for (unsigned i = 0; i < SECTION_COUNT; i++)
        free(roster->tables[i].slots);
    free(roster->store);
    free(roster);
}

/* ---- failures ----------------------------------------------------------------------------- */

static void path_add(struct roster *roster, size_t *at, const char *text)
{
    while (*text != '\0' && *at < sizeof roster->path - 1)
        roster->path[(*at)++] = *text++;
    roster->path[*at] = '\0';
}

static void path_add_index(struct roster *roster, size_t *at, size_t index)
{
    char text[24];
    size_t pos = sizeof text - 1;
    text[pos] = '\0';
    text[--pos] = ']';
    do {
        text[--pos] = (char)('0' + index % 10);
        index /= 10;
    } while (index != 0);
    text[--pos] = '[';
    path_add(roster, at, text + pos);
}

static int invalid(struct roster *roster, const char *key, const char *why)
{
    size_t at = 0;
    path_add(roster, &at, roster->in_error ? "error" : roster->in_result ? "result" : "");
    if (roster->in_snapshot)
        path_add(roster, &at, ".snapshot");
    if (roster->section != SECTION_NONE) {
        path_add(roster, &at, ".");
        path_add(roster, &at, sections[roster->section].name);
        if (roster->in_record)
            path_add_index(roster, &at, roster->tables[roster->section].count - 1);
    }
    if (roster->in_session)
        path_add(roster, &at, ".agent_session");
    if (key[0] != '\0') {
        path_add(roster, &at, at > 0 ? "." : "");
        path_add(roster, &at, key);
    }
    roster->code = SHP_CODE_HERDR_INVALID;
    roster->why = why;
    return SHP_ERR_INVALID;
}

static int too_large(struct roster *roster)
{
    roster->code = SHP_CODE_MESSAGE_TOO_LARGE;
    roster->why = "more agents than can be kept";
    return SHP_ERR_LIMIT;
}

static int no_memory(struct roster *roster)
{
    roster->code = SHP_CODE_OUT_OF_MEMORY;
    roster->why = "no memory for the roster";
    return SHP_ERR_NOMEM;
}

/* ---- what is kept ------------------------------------------------------------------------- */

static size_t kept_bytes(const struct roster *roster)
{
    size_t bytes = roster->store_capacity;
    for (unsigned i = 0; i < SECTION_COUNT; i++)
        bytes += roster->tables[i].capacity * sections[i].count * sizeof(uint32_t);
    return bytes;
}

static int grow(struct roster *roster, void **data, size_t *capacity, size_t unit)
{
    size_t wanted = *capacity == 0 ? 16 : *capacity + *capacity / 2;
    if (kept_bytes(roster) + (wanted - *capacity) * unit > ROSTER_BYTES_MAX)
        return too_large(roster);
    void *grown = realloc(*data, wanted * unit);
    if (grown == NULL)
        return no_memory(roster);
    *data = grown;
    *capacity = wanted;
    return 0;
}

static int store_put(struct roster *roster, const char *text, size_t len)
{
    while (roster->store_len + len > roster->store_capacity) {
        void *data = roster->store;
        int status = grow(roster, &data, &roster->store_capacity, 1);
        roster->store = data;
        if (status != 0)
            return status;
    }
    memcpy(roster->store + roster->store_len, text, len);
    roster->store_len += len;
    return 0;
}

static const char *stored(const struct roster *roster, uint32_t offset)
{
    return offset == 0 ? NULL : roster->store + offset;
}

static int text_begin(struct roster *roster, uint32_t *slot)
{
    /* Offset 0 means absent, so nothing is stored there. */
    int status = roster->store_len == 0 ? store_put(roster, "", 1) : 0;
    if (status != 0)
        return status;
    roster->in_text = true;
    roster->text_len = 0;
    *slot = (uint32_t)roster->store_len;
    return 0;
}

static int text_put(struct roster *roster, const char *text, size_t len)
{
    if (roster->text_len > ROSTER_TEXT_BYTES_MAX)
        return 0;
    size_t room = ROSTER_TEXT_BYTES_MAX - roster->text_len;
    roster->text_len += len;
    if (len > room) {
        roster->text_len = ROSTER_TEXT_BYTES_MAX + 1;
        len = room;
        while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
            len--;
    }
    return store_put(roster, text, len);
}

static uint32_t *record(const struct roster *roster, enum section section, size_t index)
{
    return roster->tables[section].slots + index * sections[section].count;
}

static int record_begin(struct roster *roster)
{
    struct table *table = &roster->tables[roster->section];
    unsigned fields = sections[roster->section].count;
    if (table->count == table->capacity) {
        void *slots = table->slots;
        int status = grow(roster, &slots, &table->capacity, fields * sizeof(uint32_t));
        table->slots = slots;
        if (status != 0)
            return status;
    }
    table->count++;
    memset(record(roster, roster->section, table->count - 1), 0, fields * sizeof(uint32_t));
    roster->in_record = true;
    return 0;
}

static int record_end(struct roster *roster)
{
    const struct section_info *info = &sections[roster->section];
    const uint32_t *slots =
        record(roster, roster->section, roster->tables[roster->section].count - 1);
    for (unsigned i = 0; i < info->count; i++)
        if (info->fields[i].required && slots[i] == 0)
            return invalid(roster, info->fields[i].name, "is missing");
    roster->in_record = false;
    return 0;
}

/* ---- scanning ----------------------------------------------------------------------------- */

/* The place of a known member at the scanner's position; NULL: not one that we read. */
static uint32_t *known_member(struct roster *roster, enum field_type *type)
{
    const char *key = roster->scan.key;
    unsigned depth = roster->scan.depth;
    *type = FIELD_TEXT;
    if (depth == 2 && roster->in_error) {
        if (strcmp(key, "code") == 0)
            return &roster->error_code;
        return strcmp(key, "message") == 0 ? &roster->error_message : NULL;
    }
    if (depth == 3 && roster->in_snapshot) {
        if (strcmp(key, "version") == 0)
            return &roster->version;
        *type = FIELD_NUMBER;
        return strcmp(key, "protocol") == 0 ? &roster->protocol : NULL;
    }
    if (!roster->in_record || depth != (roster->in_session ? 6u : 5u))
        return NULL;
    const struct section_info *info = &sections[roster->section];
    bool agents = roster->section == SECTION_AGENTS;
    unsigned from = roster->in_session ? AGENT_SESSION_KIND : 0;
    unsigned to = roster->in_session ? AGENT_FIELDS : agents ? AGENT_SESSION_KIND : info->count;
    uint32_t *slots = record(roster, roster->section, roster->tables[roster->section].count - 1);
    for (unsigned i = from; i < to; i++) {
        if (strcmp(key, info->fields[i].name) == 0) {
            *type = (enum field_type)info->fields[i].type;
            return &slots[i];
        }
    }
    return NULL;
}

static int container_begin(struct roster *roster, bool object)
{
    const char *key = roster->scan.key;
    unsigned depth = roster->scan.depth;
    enum field_type type;
    if (known_member(roster, &type) != NULL)
        return invalid(roster, key, "has the wrong type");
    if (depth == 0)
        return object ? 0 : invalid(roster, "", "the answer is not an object");
    if (depth == 1 && (strcmp(key, "result") == 0 || strcmp(key, "error") == 0)) {
        if (!object)
            return invalid(roster, key, "has the wrong type");
        roster->in_result = key[0] == 'r';
        roster->in_error = key[0] == 'e';
        roster->have_error = roster->have_error || roster->in_error;
    } else if (depth == 2 && roster->in_result && strcmp(key, "snapshot") == 0) {
        if (!object)
            return invalid(roster, key, "has the wrong type");
        roster->in_snapshot = roster->have_snapshot = true;
    } else if (depth == 3 && roster->in_snapshot) {
        for (unsigned i = 0; i < SECTION_COUNT; i++) {
            if (strcmp(key, sections[i].name) != 0)
                continue;
            if (object)
                return invalid(roster, key, "has the wrong type");
            roster->section = (enum section)i;
        }
    } else if (depth == 4 && roster->section != SECTION_NONE) {
        return object ? record_begin(roster) : invalid(roster, "", "holds what is not an object");
    } else if (depth == 5 && roster->in_record && roster->section == SECTION_AGENTS &&
               strcmp(key, "agent_session") == 0) {
        if (!object)
            return invalid(roster, key, "has the wrong type");
        roster->in_session = true;
    }
    return 0;
}

static int container_end(struct roster *roster)
{
    switch (roster->scan.depth) {
    case 1:
        roster->in_result = roster->in_error = false;
        return 0;
    case 2:
        roster->in_snapshot = false;
        return 0;
    case 3:
        roster->section = SECTION_NONE;
        return 0;
    case 4:
        return roster->in_record ? record_end(roster) : 0;
    case 5:
        roster->in_session = false;
        return 0;
    default:
        return 0;
    }
}

/* A value that is neither container nor null at the place of a container or of a record. */
static int misplaced_scalar(struct roster *roster)
{
    const char *key = roster->scan.key;
    unsigned depth = roster->scan.depth;
    bool wrong = depth == 0;
    if (depth == 1)
        wrong = strcmp(key, "result") == 0 || strcmp(key, "error") == 0;
    else if (depth == 2 && roster->in_result)
        wrong = strcmp(key, "snapshot") == 0;
    else if (depth == 4 && roster->section != SECTION_NONE)
        wrong = true;
    else if (depth == 5 && roster->section == SECTION_AGENTS)
        wrong = strcmp(key, "agent_session") == 0;
    else if (depth == 3 && roster->in_snapshot)
        for (unsigned i = 0; i < SECTION_COUNT; i++)
            wrong = wrong || strcmp(key, sections[i].name) == 0;
    return wrong ? invalid(roster, key, "has the wrong type") : 0;
}

static int scalar(struct roster *roster, enum json_token token, const char *text, size_t len)
{
    enum field_type type;
    uint32_t *slot = known_member(roster, &type);
    if (slot == NULL)
        return misplaced_scalar(roster);
    if (type == FIELD_BOOL && (token == JSON_TRUE || token == JSON_FALSE)) {
        *slot = token == JSON_TRUE;
        return 0;
    }
    if (type != FIELD_NUMBER || token != JSON_NUMBER)
        return invalid(roster, roster->scan.key, "has the wrong type");
    /* Every number that we read is a small unsigned integer. */
    if (len > 19)
        return invalid(roster, roster->scan.key, "is not a small integer");
    for (size_t i = 0; i < len; i++)
        if (text[i] < '0' || text[i] > '9')
            return invalid(roster, roster->scan.key, "is not a small integer");
    int status = text_begin(roster, slot);
    roster->in_text = false;
    return status != 0 ? status : store_put(roster, text, len + 1);
}

static int string_begin(struct roster *roster)
{
    enum field_type type;
    uint32_t *slot = known_member(roster, &type);
    if (slot == NULL) {
        int status = misplaced_scalar(roster);
        return status != 0 ? status : JSON_SCAN_SKIP;
    }
    if (type != FIELD_TEXT)
        return invalid(roster, roster->scan.key, "has the wrong type");
    return text_begin(roster, slot);
}

static int on_token(struct json_scan *scan, enum json_token token, const char *text, size_t len,
                    void *user)
{
    struct roster *roster = user;
    (void)scan;
    switch (token) {
    case JSON_OBJECT:
    case JSON_ARRAY:
        return container_begin(roster, token == JSON_OBJECT);
    case JSON_OBJECT_END:
    case JSON_ARRAY_END:
        return container_end(roster);
    case JSON_STRING:
        return string_begin(roster);
    case JSON_STRING_PART:
        return text_put(roster, text, len);
    case JSON_STRING_END:
        if (!roster->in_text)
            return 0;
        roster->in_text = false;
        return store_put(roster, "", 1);
    case JSON_NULL:
        return scan->depth == 0 ? invalid(roster, "", "the answer is not an object") : 0;
    default:
        return scalar(roster, token, text, len);
    }
}

int roster_feed(struct roster *roster, const void *data, size_t len)
{
    int status = json_scan_feed(&roster->scan, data, len);
    if (status != 0 && roster->code == 0) {
        roster->code = SHP_CODE_HERDR_INVALID;
        roster->why = "the answer is not JSON";
    }
    return status;
}

int roster_finish(struct roster *roster, struct shp_error *error)
{
    static const char step[] = "session.snapshot";
    if (roster->code == 0 && json_scan_finish(&roster->scan) != 0) {
        roster->code = SHP_CODE_HERDR_INVALID;
        roster->why = "the answer is not JSON";
    }
    if (roster->code != 0) {
        shp_error_set(error, roster->code, NULL, step, "%s%s%s", roster->path,
                      roster->path[0] != '\0' ? " " : "", roster->why);
        return SHP_ERR_INVALID;
    }
    if (roster->have_error) {
        const char *code = stored(roster, roster->error_code);
        const char *message = stored(roster, roster->error_message);
        shp_error_set(error, SHP_CODE_HERDR_ERROR, NULL, step, "%s: %s",
                      code != NULL ? code : "no code", message != NULL ? message : "");
        return SHP_ERR_INVALID;
    }
    if (!roster->have_snapshot) {
        shp_error_set(error, SHP_CODE_HERDR_INVALID, NULL, step, "result.snapshot is missing");
        return SHP_ERR_INVALID;
    }
    return 0;
}

/* ---- writing ------------------------------------------------------------------------------ */

size_t roster_agents(const struct roster *roster)
{
    return roster->tables[SECTION_AGENTS].count;
}

static void write_field(const struct roster *roster, struct json_out *out,
                        const struct field *field, const char *name, uint32_t slot)
{
    if (slot == 0 && field->type != FIELD_BOOL)
        return;
    if (field->type == FIELD_TEXT) {
        json_out_member_string(out, name, stored(roster, slot));
    } else if (field->type == FIELD_NUMBER) {
        json_out_key(out, name);
        json_out_raw(out, stored(roster, slot));
    } else {
        json_out_member_bool(out, name, slot != 0);
    }
}

/* Panes come in the agents' order, so the search begins where the last one ended. */
static const uint32_t *pane_of(const struct roster *roster, uint32_t pane_id, size_t *cursor)
{
    size_t count = roster->tables[SECTION_PANES].count;
    for (size_t i = 0; i < count; i++) {
        size_t index = (*cursor + i) % count;
        const uint32_t *pane = record(roster, SECTION_PANES, index);
        if (strcmp(stored(roster, pane[PANE_PANE_ID]), stored(roster, pane_id)) == 0) {
            *cursor = index + 1;
            return pane;
        }
    }
    return NULL;
}

static void write_agent(const struct roster *roster, struct json_out *out, size_t index,
                        size_t *cursor)
{
    static const uint32_t no_pane[PANE_FIELDS];
    const uint32_t *agent = record(roster, SECTION_AGENTS, index);
    const uint32_t *pane = pane_of(roster, agent[AGENT_PANE_ID], cursor);
    if (pane == NULL)
        pane = no_pane;
    const uint32_t cwds[] = {agent[AGENT_FOREGROUND_CWD], agent[AGENT_CWD],
                             pane[PANE_FOREGROUND_CWD], pane[PANE_CWD]};
    uint32_t cwd = 0;
    for (unsigned i = 0; i < 4 && cwd == 0; i++)
        cwd = cwds[i];

    json_out_next(out);
    json_out_raw(out, "{");
    for (unsigned i = 0; i < AGENT_CWD; i++)
        write_field(roster, out, &agent_fields[i], agent_fields[i].name, agent[i]);
    json_out_member_string(out, "label", stored(roster, pane[PANE_LABEL]));
    json_out_member_string(out, "cwd", stored(roster, cwd));
    json_out_member_string(out, "session_kind", stored(roster, agent[AGENT_SESSION_KIND]));
    json_out_member_string(out, "session_value", stored(roster, agent[AGENT_SESSION_VALUE]));
    json_out_raw(out, "}");
}

static void write_section(const struct roster *roster, struct json_out *out, enum section section)
{
    size_t cursor = 0;
    json_out_key(out, sections[section].name);
    json_out_raw(out, "[");
    for (size_t index = 0; index < roster->tables[section].count; index++) {
        if (section == SECTION_AGENTS) {
            write_agent(roster, out, index, &cursor);
            continue;
        }
        const uint32_t *slots = record(roster, section, index);
        json_out_next(out);
        json_out_raw(out, "{");
        for (unsigned i = 0; i < sections[section].count; i++)
            write_field(roster, out, &sections[section].fields[i], sections[section].fields[i].name,
                        slots[i]);
        json_out_raw(out, "}");
    }
    json_out_raw(out, "]");
}

void roster_write(const struct roster *roster, struct json_out *out)
{
    json_out_raw(out, "{");
    json_out_member_string(out, "version", stored(roster, roster->version));
    if (roster->protocol != 0) {
        json_out_key(out, "protocol");
        json_out_raw(out, stored(roster, roster->protocol));
    }
    write_section(roster, out, SECTION_AGENTS);
    write_section(roster, out, SECTION_WORKSPACES);
    write_section(roster, out, SECTION_TABS);
    json_out_raw(out, "}");
}
