/* What `herdr machine list --json` prints: refused with a reason, or entries that can be used. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "controller/fleet/catalog.h"
#include "protocol/messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_entry(const struct catalog *catalog, size_t index)
{
    const struct catalog_entry *entry = &catalog->items[index];

    require(strlen(entry->id) == 32);
    require(strspn(entry->id, "0123456789abcdef") == 32);
    require(entry->label != NULL && entry->label[0] != '\0');
    require(entry->session != NULL && entry->session[0] != '\0');
    require(entry->target[0] != '\0' && entry->target[0] != '-');
    for (const char *at = entry->target; *at != '\0'; at++)
        require((unsigned char)*at >= 0x20 && *at != 0x7f);
    for (size_t i = 0; i < index; i++)
        require(strcmp(catalog->items[i].id, entry->id) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct catalog catalog = {0};
    struct shp_error error = {0};

    if (catalog_parse(&catalog, (const char *)data, size, &error) != 0) {
        require(error.code == SHP_CODE_CATALOG_INVALID && error.cause[0] != '\0');
        require(catalog.items == NULL && catalog.len == 0);
        return 0;
    }
    require(catalog.len <= CATALOG_ENTRIES_MAX);
    for (size_t i = 0; i < catalog.len; i++)
        check_entry(&catalog, i);
    catalog_fini(&catalog);
    return 0;
}
