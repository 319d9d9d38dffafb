/*
 * What pairs of updates have in common: their exact inner products and how many places both sent, in one pass over the values.
 *
 * An update sends at most 4 different numbers per tensor, so the inner product of two updates over a tensor is
 *
 *   <x_i, x_j> = sum over codes a, b of N_ij[a][b] * e_i[a] * e_j[b],
 *
 * N_ij[a][b] being the number of places where i sent code a and j sent code b. Counting N needs one step for each pair of updates
 * that sent the same place and no multiplication; the rest is arithmetic on 16 numbers per pair and tensor. Clipping and
 * weighting an update multiply its row and its column of the matrix, so they need no second pass.
 *
 * Cost: O(values sent) where supports hardly meet, O(n * values sent) if all are equal.
 */
#ifndef SKEP_MERGE_PAIRS_H
#define SKEP_MERGE_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/merge/gram.h"
#include "common/merge/places.h"

/* n x n matrices with rows of n. */
struct skep_pairs {
    size_t n;
    /* <x_i, x_j> in units of 2^-64 before clipping, at most 2^126 in magnitude */
    __int128 products[SKEP_LIMIT_UPDATES_PER_ROUND * SKEP_LIMIT_UPDATES_PER_ROUND];
    /* informative places (copies.h says which) that i and j sent; on the diagonal those that i sent */
    uint64_t shared[SKEP_LIMIT_UPDATES_PER_ROUND * SKEP_LIMIT_UPDATES_PER_ROUND];
};

/* Fills *ret_pairs. `entries[tensor * 4n + tag]` are the numbers that tags stand for, in units of 2^-32, at most 2^49 in
 * magnitude. In `threads` parts. */
int skep_pairs_count(const struct skep_places *places, const int64_t *entries, size_t threads,
                     struct skep_pairs *ret_pairs, struct skep_error *err);

/* The Gram matrix of the updates chosen[0 .. n - 1], update i multiplied by multipliers[i] / 2^bits (at most 1). Rounded toward
 * zero, and alike for equal updates, so that their distance is exactly 0. */
void skep_pairs_gram(const struct skep_pairs *pairs, const size_t *chosen, size_t n,
                     const uint64_t *multipliers, uint32_t bits, struct skep_gram *ret_gram);

#endif
