/*
 * Herdr's machine catalog: `herdr machine list --json`, the only source of remote machines. Read
 * through the program, never from its file, and never written.
 */
#ifndef SHP_CONTROLLER_FLEET_CATALOG_H
#define SHP_CONTROLLER_FLEET_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/error.h"

#define CATALOG_ENTRIES_MAX 64
#define CATALOG_BYTES_MAX (1024 * 1024)
#define CATALOG_TIMEOUT_MS 10000

struct catalog_entry {
    char id[33];
    char *label;
    char *target;  /* SSH target; never begins with '-' */
    char *session; /* Herdr session name */
    bool enabled;
};

struct catalog {
    struct catalog_entry *items;
    size_t len;
};

void catalog_fini(struct catalog *catalog);

/* Pure: parse what the program printed. One invalid or double entry fails the whole
 * (catalog_invalid names it). */
int catalog_parse(struct catalog *out, const char *text, size_t len, struct shp_error *error);

/* One read under way. Exactly one callback from the loop; *catalog is the callee's (fini) and
 * valid when error is NULL. */
struct catalog_reader;
typedef void (*catalog_cb)(struct catalog *catalog, const struct shp_error *error, void *user);

/*
 * Run the program (NULL: "herdr" from PATH) with environment less HERDR_* and PI_*, at most
 * CATALOG_TIMEOUT_MS and CATALOG_BYTES_MAX. A path that ends in " (deleted)" and does not exist is
 * tried without that ending (Herdr's own path after its update).
 */
void catalog_read(uv_loop_t *loop, const char *herdr_bin, catalog_cb cb, void *user,
                  struct catalog_reader **reader);

/* Give up: no callback comes any more. */
void catalog_reader_cancel(struct catalog_reader *reader);

#endif
