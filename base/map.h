/*
 * A table from non-zero u32 keys to pointers: linear probing, at most half full. It owns no value.
 */
#ifndef SHP_BASE_MAP_H
#define SHP_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

struct shp_map_slot {
    uint32_t key; /* 0: empty */
    void *value;
};

struct shp_map {
    struct shp_map_slot *slots;
    size_t capacity; /* power of two, or 0 */
    size_t count;
    size_t max; /* largest count */
};

/* No memory is taken before the first entry. fini frees the table, not what it points to. */
void shp_map_init(struct shp_map *map, size_t max);
void shp_map_fini(struct shp_map *map);

/* The key is non-zero and not in the map. LIMIT: the map is full; NOMEM. */
int shp_map_put(struct shp_map *map, uint32_t key, void *value);

/* NULL: not there. */
void *shp_map_get(const struct shp_map *map, uint32_t key);

/* Returns the value that was there, or NULL. */
void *shp_map_remove(struct shp_map *map, uint32_t key);

#endif
