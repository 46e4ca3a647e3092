#include "controller/fleet/catalog.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cjson/cJSON.h>

#include "controller/json.h"
#include "controller/xalloc.h"
#include "protocol/json_check.h"
#include "protocol/messages.h"
#include "transport/transport.h"

void catalog_fini(struct catalog *catalog)
{
    for (size_t i = 0; i < catalog->len; i++) {
        free(catalog->items[i].label);
        free(catalog->items[i].target);
        free(catalog->items[i].session);
    }
    free(catalog->items);
    *catalog = (struct catalog){0};
}

static bool has_control(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7f)
            return true;
    return false;
}

static bool id_valid(const char *id)
{
    return strlen(id) == 32 && strspn(id, "0123456789abcdef") == 32;
}

static bool session_valid(const char *name)
{
    static const char alphabet[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = strlen(name);
    return len >= 1 && len <= 64 && strspn(name, alphabet) == len && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

/* What is wrong with an entry, or NULL. */
static const char *entry_fault(const cJSON *item)
{
    const char *id = json_string(item, "id");
    const char *label = json_string(item, "label");
    const char *target = json_string(item, "target");
    const char *session = json_string(item, "session");
    if (!id || !id_valid(id))
        return "id is not 32 lowercase hex digits";
    if (!label || !*label || strlen(label) > 128 || has_control(label))
        return "label is empty, too long or has control characters";
    if (!target || !*target || strlen(target) > 1024 || has_control(target))
        return "target is empty, too long or has control characters";
    if (target[0] == '-')
        return "target begins with a dash";
    if (!session || !session_valid(session))
        return "session is not a Herdr session name";
    if (!cJSON_IsBool(cJSON_GetObjectItemCaseSensitive(item, "enabled")))
        return "enabled is missing";
    return NULL;
}

int catalog_parse(struct catalog *out, const char *text, size_t len, struct shp_error *error)
{
    cJSON *array = shp_json_has_nul(text, len) ? NULL : json_parse(text, len);
    struct catalog catalog = {0};
    const char *fault = NULL;
    int index = 0;
    if (!cJSON_IsArray(array)) {
        shp_error_set(error, SHP_CODE_CATALOG_INVALID, NULL, "read machine catalog",
                      "herdr machine list --json did not print a JSON array");
        cJSON_Delete(array);
        return SHP_ERR_INVALID;
    }
    int count = cJSON_GetArraySize(array);
    if (count > CATALOG_ENTRIES_MAX)
        fault = "more entries than Herdr allows";
    else
        catalog.items = xcalloc((size_t)count, sizeof(*catalog.items));
    const cJSON *item = NULL;
    if (!fault) {
        cJSON_ArrayForEach(item, array)
        {
            fault = cJSON_IsObject(item) ? entry_fault(item) : "it is not an object";
            for (size_t i = 0; !fault && i < catalog.len; i++)
                if (strcmp(catalog.items[i].id, json_string(item, "id")) == 0)
                    fault = "its id is there twice";
            if (fault)
                break;
            struct catalog_entry *entry = &catalog.items[catalog.len++];
            memcpy(entry->id, json_string(item, "id"), sizeof(entry->id));
            entry->label = xstrdup(json_string(item, "label"));
            entry->target = xstrdup(json_string(item, "target"));
            entry->session = xstrdup(json_string(item, "session"));
            entry->enabled = json_bool(item, "enabled");
            index++;
        }
    }
    if (fault) {
        const char *label = json_string(item, "label");
        shp_error_set(error, SHP_CODE_CATALOG_INVALID, NULL, "read machine catalog",
                      "entry %d%s%s: %s", index + 1, label ? " " : "", label ? label : "", fault);
        cJSON_Delete(array);
        catalog_fini(&catalog);
        return SHP_ERR_INVALID;
    }
    cJSON_Delete(array);
    *out = catalog;
    return SHP_OK;
}

struct catalog_reader {
    struct shp_transport *transport;
    uv_timer_t timer;
    uv_loop_t *loop;
    char *bin;
    char *text;
    size_t len;
    bool too_long;
    bool timed_out;
    bool canceled;
    bool transport_ended;
    bool timer_closed;
    catalog_cb cb;
    void *user;
};

static void reader_release(struct catalog_reader *reader)
{
    if (!reader->transport_ended || !reader->timer_closed)
        return;
    free(reader->bin);
    free(reader->text);
    free(reader);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct catalog_reader *reader = handle->data;
    reader->timer_closed = true;
    reader_release(reader);
}

static void finish(struct catalog_reader *reader, const struct shp_transport_end *end)
{
    struct catalog catalog = {0};
    struct shp_error error = {0};
    if (reader->timed_out)
        shp_error_set(&error, SHP_CODE_CATALOG_FAILED, NULL, "read machine catalog",
                      "%s machine list --json did not end within %d s", reader->bin,
                      CATALOG_TIMEOUT_MS / 1000);
    else if (reader->too_long)
        shp_error_set(&error, SHP_CODE_CATALOG_INVALID, NULL, "read machine catalog",
                      "%s machine list --json printed more than 1 MiB", reader->bin);
    else if (!end->exited || end->exit_status == 127)
        shp_error_set(&error, SHP_CODE_HERDR_MISSING, NULL, "read machine catalog",
                      "%s cannot be run%s%s", reader->bin, *end->error.cause ? ": " : "",
                      end->error.cause);
    else if (end->exit_status != 0 || end->term_signal != 0)
        shp_error_set(&error, SHP_CODE_CATALOG_FAILED, NULL, "read machine catalog",
                      "%s machine list --json ended with %lld: %s", reader->bin,
                      (long long)end->exit_status, end->diagnostic);
    else
        catalog_parse(&catalog, reader->text ? reader->text : "", reader->len, &error);
    reader->cb(&catalog, error.code ? &error : NULL, reader->user);
}

static void on_open(struct shp_transport *transport, void *user)
{
    (void)user;
    shp_transport_read_start(transport);
}

static void on_read(struct shp_transport *transport, const uint8_t *data, size_t len, void *user)
{
    struct catalog_reader *reader = user;
    if (reader->too_long)
        return;
    if (reader->len + len > CATALOG_BYTES_MAX) {
        reader->too_long = true;
        shp_transport_close(transport);
        return;
    }
    reader->text = xrealloc(reader->text, reader->len + len + 1);
    memcpy(reader->text + reader->len, data, len);
    reader->len += len;
}

static void on_writable(struct shp_transport *transport, void *user)
{
    (void)transport;
    (void)user;
}

static void on_closed(struct shp_transport *transport, const struct shp_transport_end *end,
                      void *user)
{
    struct catalog_reader *reader = user;
    uv_close((uv_handle_t *)&reader->timer, on_timer_closed);
    if (!reader->canceled)
        finish(reader, end);
    shp_transport_free(transport);
    reader->transport_ended = true;
    reader_release(reader);
}

static void on_timeout(uv_timer_t *timer)
{
    struct catalog_reader *reader = timer->data;
    reader->timed_out = true;
    shp_transport_close(reader->transport);
}

static char *usable_binary(const char *herdr_bin)
{
    static const char ending[] = " (deleted)";
    if (!herdr_bin || !*herdr_bin)
        return xstrdup("herdr");
    size_t len = strlen(herdr_bin);
    size_t ending_len = sizeof(ending) - 1;
    if (len > ending_len && strcmp(herdr_bin + len - ending_len, ending) == 0 &&
        access(herdr_bin, F_OK) != 0)
        return xstrndup(herdr_bin, len - ending_len);
    return xstrdup(herdr_bin);
}

void catalog_read(uv_loop_t *loop, const char *herdr_bin, catalog_cb cb, void *user,
                  struct catalog_reader **out)
{
    struct catalog_reader *reader = xcalloc(1, sizeof(*reader));
    reader->loop = loop;
    reader->cb = cb;
    reader->user = user;
    reader->bin = usable_binary(herdr_bin);
    uv_timer_init(loop, &reader->timer);
    reader->timer.data = reader;
    uv_timer_start(&reader->timer, on_timeout, CATALOG_TIMEOUT_MS, 0);
    char *argv[] = {reader->bin, "machine", "list", "--json", NULL};
    struct shp_process_options options = {.argv = argv};
    static const struct shp_transport_callbacks callbacks = {on_open, on_read, on_writable,
                                                             on_closed};
    if (shp_transport_process_new(&reader->transport, loop, &options) != 0 ||
        shp_transport_open(reader->transport, &callbacks, reader) != 0)
        abort(); /* only for want of memory: see xalloc.h */
    *out = reader;
}

void catalog_reader_cancel(struct catalog_reader *reader)
{
    reader->canceled = true;
    shp_transport_close(reader->transport);
}
