#include "common/base/rng.h"

#include <assert.h>

struct skep_rng skep_rng_of(uint64_t seed)
{
    return (struct skep_rng){.state = seed};
}

struct skep_rng skep_rng_of_bytes(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    struct skep_rng rng = {.state = hash};
    skep_rng_next(&rng);
    return rng;
}

uint64_t skep_rng_next(struct skep_rng *rng)
{
    rng->state += 0x9e3779b97f4a7c15u;
    uint64_t z = rng->state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t skep_rng_below(struct skep_rng *rng, uint64_t bound)
{
    assert(bound > 0);
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t value = skep_rng_next(rng);
    while (value >= limit) {
        value = skep_rng_next(rng);
    }
    return value % bound;
}

double skep_rng_unit(struct skep_rng *rng)
{
    return (double)(skep_rng_next(rng) >> 11) * 0x1p-53;
}
