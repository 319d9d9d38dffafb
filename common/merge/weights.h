/*
 * Rules that answer with a linear combination of the updates: sum of w_i x_i. They look at the updates only through their inner
 * products (gram.h), so each costs O(n^2) or O(n^3) small integer operations for n <= 64 updates, however large the shard is;
 * under a millisecond. Integers only, so that every machine finds the same weights.
 *
 * Before anything else the matrix is multiplied by the power of two that brings its largest magnitude to exactly 62 bits, each entry
 * rounded toward zero (weights.c says why nothing overflows then). All rules below do not care for the scale, so the same updates in
 * other units get the same weights. Squared distances are |x_i - x_j|^2 = G_ii - 2 G_ij + G_jj, those to a centre v = sum of w_j x_j
 * are |x_i - v|^2 = G_ii - 2 (G w)_i + w^T G w, and one that rounding brought below 0 counts as 0. Medians are the lower one of an
 * even number. Ties go to the lower index, so callers bring the updates in an order that nobody can choose (by hash).
 *
 *   rule              paper                     breakdown point      cost beyond the Gram matrix
 *   krum              NeurIPS 2017, Blanchard   (n - 3) / 2n         O(n^3)
 *   multi_krum        the same                  (n - 3) / 2n         O(n^3)
 *   geometric_median  arXiv 1912.13445 (RFA)    1/2                  O(8 n^2)
 *   centered_clip     arXiv 2012.10333          about 1/10 proven    O(3 n^2)
 *   NNM (before any)  arXiv 2302.01772          1/2                  O(n^3)
 * A breakdown point says how many liars cannot carry the result away as far as they like; it does not say that the result is good:
 * krum alone is fooled by liars that agree with each other and stay close (ALIE, IPM with a small epsilon, mimic).
 */
#ifndef SKEP_MERGE_WEIGHTS_H
#define SKEP_MERGE_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/merge/gram.h"

/* Weights are integers in units of 2^-30. */
#define SKEP_WEIGHT_BITS 30

/*
 * All of one shape, so that a table can name them: `f` is how many of the gram->n (1 .. 64) updates may lie, any value is allowed;
 * ret_weights has room for n.
 */

/* The one update whose n - f - 2 nearest others (at least 1 if there are others) are nearest in sum of squared distances: weight 1. */
void skep_weights_krum(const struct skep_gram *gram, size_t f, int64_t *ret_weights);

/* The mean of the m = n - f (at least 1) updates of the best such scores; what 1/m leaves over goes to the best. */
void skep_weights_multi_krum(const struct skep_gram *gram, size_t f, int64_t *ret_weights);

/*
 * The point of the least sum of distances, by smoothed Weiszfeld from the mean: 8 times w_i ~ 1 / max(nu, |x_i - v|). nu is the median
 * norm / 2^16: it only keeps an update that coincides with the centre from owning it. Weights are at least 0 and sum to exactly 2^30; what
 * rounding leaves over goes to the heaviest, the first of them. f is not used.
 */
void skep_weights_geometric_median(const struct skep_gram *gram, size_t f, int64_t *ret_weights);

/*
 * v <- v + 1/n sum of (x_i - v) min(1, tau / |x_i - v|), 3 times from v = 0. tau is the median of |x_i - v| each time, so that the radius
 * shrinks with the spread of the updates and nobody has to name it. Weights are at least 0 and sum to 2^30 or less: what is
 * missing pulls toward 0, where the centre started. f is not used.
 */
void skep_weights_centered_clip(const struct skep_gram *gram, size_t f, int64_t *ret_weights);

/*
 * Nearest-neighbour mixing: replaces each update by the mean of the `count` (1 .. n; n - f in the paper) updates nearest to it, itself always
 * included. Bit j of ret_sets[i]: j is one of them. A rule applied after it is off by at most the order of f/n.
 */
void skep_gram_nearest(const struct skep_gram *gram, size_t count, uint64_t *ret_sets);

/* The inner products of y_i = mean of the updates in sets[i] (none of them empty), rounded toward zero; *ret is not *gram. */
void skep_gram_mix(const struct skep_gram *gram, const uint64_t *sets, struct skep_gram *ret);

/*
 * Agreement: the cosine of each update and the sum of the others among those that are `merged`, itself left out, in thousandths
 * (-1000 .. 1000, toward zero; 0 where one of the two is zero). The sum and not what the rule made of it, and itself left out, so that an
 * update cannot agree with its own trace in the aggregate. A near-copy can, through its original: its agreement says nothing of its donor
 * (standings.h passes it over). O(n^2).
 */
void skep_gram_agreement(const struct skep_gram *gram, const bool *merged, int32_t *ret_permille);

#endif
