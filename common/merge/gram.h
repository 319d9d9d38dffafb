/*
 * The Gram matrix of a round: the exact inner products of its updates. Which update is near which, and every rule that
 * answers with a linear combination of updates (weights.h), can be read from it without looking at the state again.
 */
#ifndef SKEP_MERGE_GRAM_H
#define SKEP_MERGE_GRAM_H

#include <stddef.h>

#include "common/base/limits.h"

#define SKEP_GRAM_MOST SKEP_LIMIT_UPDATES_PER_ROUND

/* products[i * n + j] = <x_i, x_j> in units of 2^-64, at most 2^126 in magnitude; symmetric. */
struct skep_gram {
    size_t n;
    __int128 products[SKEP_GRAM_MOST * SKEP_GRAM_MOST];
};

#endif
