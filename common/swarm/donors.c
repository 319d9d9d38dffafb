#include "common/swarm/donors.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/base/rng.h"

/* A place is a key and then its value; a set is SKEP_DONORS_WAYS of them, the ones in use first. */
struct skep_donors {
    uint64_t seed;
    size_t sets;
    size_t value_size;
    size_t place_size;
    uint8_t *places;
    uint8_t *used;  /* places of each set */
    uint8_t *spare; /* room for one place */
};

struct skep_donors *skep_donors_new(size_t most, size_t value_size, uint64_t seed)
{
    struct skep_donors *donors = skep_alloc(1, sizeof *donors);
    assert(most > 0 && most % SKEP_DONORS_WAYS == 0);
    donors->seed = seed;
    donors->sets = most / SKEP_DONORS_WAYS;
    donors->value_size = value_size;
    donors->place_size = SKEP_ID_SIZE + (value_size + 7) / 8 * 8; /* values stay aligned */
    donors->places = skep_alloc(most, donors->place_size);
    donors->used = skep_alloc(donors->sets, 1);
    donors->spare = skep_alloc(1, donors->place_size);
    return donors;
}

void skep_donors_free(struct skep_donors *donors)
{
    if (donors != NULL) {
        free(donors->places);
        free(donors->used);
        free(donors->spare);
        free(donors);
    }
}

static size_t set_of(const struct skep_donors *donors, const struct skep_peer_id *donor)
{
    uint8_t bytes[8 + SKEP_ID_SIZE];
    skep_put_u64(bytes, donors->seed);
    memcpy(bytes + 8, donor->bytes, SKEP_ID_SIZE);
    struct skep_rng rng = skep_rng_of_bytes(bytes, sizeof bytes);
    return (size_t)skep_rng_below(&rng, donors->sets);
}

/* Makes place `way` of the set the first. */
static uint8_t *to_front(struct skep_donors *donors, uint8_t *set, size_t way)
{
    size_t size = donors->place_size;
    memcpy(donors->spare, set + way * size, size);
    memmove(set + size, set, way * size);
    memcpy(set, donors->spare, size);
    return set;
}

void *skep_donors_find(struct skep_donors *donors, const struct skep_peer_id *donor)
{
    size_t number = set_of(donors, donor);
    uint8_t *set = donors->places + number * SKEP_DONORS_WAYS * donors->place_size;
    for (size_t way = 0; way < donors->used[number]; way++) {
        if (memcmp(set + way * donors->place_size, donor->bytes, SKEP_ID_SIZE) == 0) {
            return to_front(donors, set, way) + SKEP_ID_SIZE;
        }
    }
    return NULL;
}

void *skep_donors_take(struct skep_donors *donors, const struct skep_peer_id *donor)
{
    uint8_t *value = skep_donors_find(donors, donor);
    if (value != NULL) {
        return value;
    }
    size_t number = set_of(donors, donor);
    uint8_t *set = donors->places + number * SKEP_DONORS_WAYS * donors->place_size;
    if (donors->used[number] < SKEP_DONORS_WAYS) {
        donors->used[number]++;
    }
    uint8_t *place = to_front(donors, set, donors->used[number] - 1u);
    memcpy(place, donor->bytes, SKEP_ID_SIZE);
    memset(place + SKEP_ID_SIZE, 0, donors->value_size);
    return place + SKEP_ID_SIZE;
}
