/*
 * Seeded random numbers: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), integers only, so that a seed gives the same
 * numbers on every machine. Used for initial weights, slices and simulated time; never for keys (crypto/random.h).
 */
#ifndef SKEP_BASE_RNG_H
#define SKEP_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct skep_rng {
    uint64_t state;
};

struct skep_rng skep_rng_of(uint64_t seed);
/* Seeds from any number of bytes (a ticket, a seed and a name): FNV-1a folded into SplitMix64. */
struct skep_rng skep_rng_of_bytes(const void *data, size_t size);
uint64_t skep_rng_next(struct skep_rng *rng);
/* Uniform in 0 .. bound-1 without bias (rejection); bound > 0. */
uint64_t skep_rng_below(struct skep_rng *rng, uint64_t bound);
/* Uniform in [0, 1), a multiple of 2^-53. */
double skep_rng_unit(struct skep_rng *rng);

#endif
