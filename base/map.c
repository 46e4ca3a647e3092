#include "base/map.h"

#include "base/alloc.h"
#include "base/error.h"

#include <assert.h>

#define CAPACITY_FIRST 16

void shp_map_init(struct shp_map *map, size_t max)
{
    *map = (struct shp_map){.max = max};
}

void shp_map_fini(struct shp_map *map)
{
    shp_free(map->slots);
    shp_map_init(map, map->max);
}

static size_t home_of(uint32_t key, size_t capacity)
{
    return (size_t)(key * UINT32_C(2654435769)) >> 8 & (capacity - 1);
}

/* The slot that holds key, or the empty one where it would be put. */
static size_t find(const struct shp_map_slot *slots, size_t capacity, uint32_t key)
{
    size_t i = home_of(key, capacity);
    while (slots[i].key != 0 && slots[i].key != key)
        i = (i + 1) & (capacity - 1);
    return i;
}

static int grow(struct shp_map *map)
{
    size_t capacity = map->capacity > 0 ? 2 * map->capacity : CAPACITY_FIRST;
    struct shp_map_slot *slots = shp_calloc(capacity, sizeof(*slots));
    if (!slots)
        return SHP_ERR_NOMEM;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->slots[i].key != 0)
            slots[find(slots, capacity, map->slots[i].key)] = map->slots[i];
    shp_free(map->slots);
    map->slots = slots;
    map->capacity = capacity;
    return SHP_OK;
}

int shp_map_put(struct shp_map *map, uint32_t key, void *value)
{
    assert(key != 0 && value);
    if (map->count >= map->max)
        return SHP_ERR_LIMIT;
    if (2 * (map->count + 1) > map->capacity) {
        int err = grow(map);
        if (err)
            return err;
    }
    size_t i = find(map->slots, map->capacity, key);
    assert(map->slots[i].key == 0);
    map->slots[i] = (struct shp_map_slot){.key = key, .value = value};
    map->count++;
    return SHP_OK;
}

void *shp_map_get(const struct shp_map *map, uint32_t key)
{
    if (map->capacity == 0 || key == 0)
        return NULL;
    return map->slots[find(map->slots, map->capacity, key)].value;
}

void *shp_map_remove(struct shp_map *map, uint32_t key)
{
    if (map->capacity == 0 || key == 0)
        return NULL;
    size_t mask = map->capacity - 1;
    size_t hole = find(map->slots, map->capacity, key);
    void *value = map->slots[hole].value;
    if (map->slots[hole].key == 0)
        return NULL;
    map->count--;
    /* Close the gap: an entry further on may stand in for a probe that began at or before it. */
    for (size_t i = (hole + 1) & mask; map->slots[i].key != 0; i = (i + 1) & mask) {
        size_t home = home_of(map->slots[i].key, map->capacity);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole] = (struct shp_map_slot){0};
    return value;
}
