#include "controller/fleet/fleet.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "controller/fleet/wake.h"
#include "controller/xalloc.h"
#include "protocol/messages.h"

struct fleet_waiter {
    fleet_refresh_cb cb;
    void *user;
};

static void on_wake(void *user)
{
    struct fleet *fleet = user;
    for (size_t i = 0; i < fleet->len; i++)
        machine_wake(fleet->items[i]);
}

static void on_wake_closed(void *user)
{
    fleet_unref(user);
}

struct fleet *fleet_new(uv_loop_t *loop, const struct context *context,
                        const struct shp_artifacts *artifacts, const char *installation,
                        bool with_local, const struct machine_events *events)
{
    struct fleet *fleet = xcalloc(1, sizeof(*fleet));
    fleet->loop = loop;
    fleet->context = context;
    fleet->artifacts = artifacts;
    fleet->events = *events;
    snprintf(fleet->installation, sizeof(fleet->installation), "%s", installation);
    fleet->wake = wake_new(loop, on_wake, fleet);
    fleet->alive++;
    if (with_local) {
        fleet->items = xcalloc(1, sizeof(*fleet->items));
        fleet->items[fleet->len++] = machine_new(fleet, NULL);
    }
    return fleet;
}

struct machine *fleet_local(const struct fleet *fleet)
{
    return fleet->len > 0 && fleet->items[0]->local ? fleet->items[0] : NULL;
}

static struct machine *by_id(const struct fleet *fleet, const char *id)
{
    for (size_t i = 0; i < fleet->len; i++)
        if (strcmp(fleet->items[i]->id, id) == 0)
            return fleet->items[i];
    return NULL;
}

struct machine *fleet_find(const struct fleet *fleet, const char *id, struct shp_error *error)
{
    bool local = !id || strcmp(id, MACHINE_LOCAL) == 0;
    struct machine *machine = local ? fleet_local(fleet) : by_id(fleet, id);
    if (machine && machine->state == MACHINE_CLOSED)
        machine = NULL;
    if (machine && machine->enabled)
        return machine;
    if (machine)
        shp_error_set(error, SHP_CODE_MACHINE_DISABLED, id, "find machine", "%s is disabled",
                      machine->label);
    else if (local || fleet->len == 0)
        shp_error_set(error, SHP_CODE_NOT_IN_HERDR, id, "find machine",
                      "this pi session has no fleet: it was not started in a Herdr pane");
    else if (fleet->catalog_error.code)
        *error = fleet->catalog_error;
    else
        shp_error_set(error, SHP_CODE_MACHINE_UNKNOWN, id, "find machine",
                      "no machine of Herdr's catalog has this id (labels do not route)");
    return NULL;
}

static const struct catalog_entry *entry_of(const struct catalog *catalog, const char *id)
{
    for (size_t i = 0; i < catalog->len; i++)
        if (strcmp(catalog->items[i].id, id) == 0)
            return &catalog->items[i];
    return NULL;
}

static void apply(struct fleet *fleet, const struct catalog *catalog)
{
    for (size_t i = 0; i < fleet->len; i++) {
        struct machine *machine = fleet->items[i];
        const struct catalog_entry *entry = machine->local ? NULL : entry_of(catalog, machine->id);
        if (!machine->local && !entry)
            machine_close(machine);
        else if (entry)
            machine_update(machine, entry);
        machine_refreshed(machine);
    }
    for (size_t i = 0; i < catalog->len; i++) {
        if (by_id(fleet, catalog->items[i].id))
            continue;
        fleet->items = xrealloc(fleet->items, (fleet->len + 1) * sizeof(*fleet->items));
        fleet->items[fleet->len++] = machine_new(fleet, &catalog->items[i]);
    }
}

static void call_waiters(struct fleet *fleet, const struct shp_error *error)
{
    struct fleet_waiter *waiters = fleet->waiters;
    size_t len = fleet->waiters_len;
    fleet->waiters = NULL;
    fleet->waiters_len = 0;
    for (size_t i = 0; i < len; i++)
        waiters[i].cb(fleet, error, waiters[i].user);
    free(waiters);
}

static void on_catalog(struct catalog *catalog, const struct shp_error *error, void *user)
{
    struct fleet *fleet = user;
    fleet->reader = NULL;
    fleet->catalog_read = true;
    if (error) {
        fleet->catalog_error = *error;
    } else {
        fleet->catalog_error = (struct shp_error){0};
        apply(fleet, catalog);
        catalog_fini(catalog);
    }
    call_waiters(fleet, error);
}

void fleet_refresh(struct fleet *fleet, fleet_refresh_cb cb, void *user)
{
    fleet->waiters = xrealloc(fleet->waiters, (fleet->waiters_len + 1) * sizeof(*fleet->waiters));
    fleet->waiters[fleet->waiters_len++] = (struct fleet_waiter){cb, user};
    if (!fleet->reader)
        catalog_read(fleet->loop, fleet->context->herdr_bin, on_catalog, fleet, &fleet->reader);
}

void fleet_unref(struct fleet *fleet)
{
    if (--fleet->alive == 0 && fleet->closing)
        fleet->on_closed(fleet, fleet->on_closed_user);
}

struct ready_call {
    uv_timer_t timer;
    struct fleet *fleet;
    fleet_refresh_cb cb;
    void *user;
};

static void on_ready_closed(uv_handle_t *handle)
{
    struct ready_call *call = handle->data;
    fleet_unref(call->fleet);
    free(call);
}

static void on_ready(uv_timer_t *timer)
{
    struct ready_call *call = timer->data;
    struct fleet *fleet = call->fleet;
    const struct shp_error *error = fleet->catalog_error.code ? &fleet->catalog_error : NULL;
    call->cb(fleet, error, call->user);
    uv_close((uv_handle_t *)timer, on_ready_closed);
}

void fleet_ready(struct fleet *fleet, fleet_refresh_cb cb, void *user)
{
    /* A failed read is tried again: the catalog may be fine by now. */
    if (!fleet->catalog_read || fleet->catalog_error.code) {
        fleet_refresh(fleet, cb, user);
        return;
    }
    struct ready_call *call = xcalloc(1, sizeof(*call));
    call->fleet = fleet;
    call->cb = cb;
    call->user = user;
    fleet->alive++;
    uv_timer_init(fleet->loop, &call->timer);
    call->timer.data = call;
    uv_timer_start(&call->timer, on_ready, 0, 0);
}

void fleet_close(struct fleet *fleet, void (*on_closed)(struct fleet *, void *), void *user)
{
    fleet->closing = true;
    fleet->on_closed = on_closed;
    fleet->on_closed_user = user;
    if (fleet->reader) {
        catalog_reader_cancel(fleet->reader);
        fleet->reader = NULL;
    }
    fleet->alive++; /* hold: the last machine may end within this call */
    struct shp_error error = {0};
    shp_error_set(&error, SHP_CODE_SHUTTING_DOWN, NULL, "read machine catalog",
                  "the controller ends");
    call_waiters(fleet, &error);
    /* Out of reach for fleet_find, but in memory: answers under way name their machines. */
    fleet->ended_len = fleet->len;
    fleet->len = 0;
    wake_close(fleet->wake, on_wake_closed);
    for (size_t i = 0; i < fleet->ended_len; i++)
        machine_end(fleet->items[i]);
    fleet_unref(fleet);
}

void fleet_free(struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->ended_len; i++)
        machine_free(fleet->items[i]);
    free(fleet->items);
    free(fleet->waiters);
    free(fleet);
}
