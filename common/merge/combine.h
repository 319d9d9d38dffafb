/*
 * Rules per place: one number out of those that the updates sent to one place of the state. Absent ones are 0, and n is the number of all
 * updates. Sorted, the zeros of those that did not send a place lie between the negative and the positive values, so they
 * need not be written down.
 *
 *   trimmed  (sum of the x_i without the f least and the f greatest) / (n - 2f)
 *            f = 0 is the mean, f = (n - 1) / 2 the coordinate-wise median. arXiv 1803.01498. O(c log c) for c contributors.
 *   linear   sum of w_i x_i with weights made elsewhere (weights.h). O(c).
 *   mixed    the same as trimmed over y_i = mean of the x_j with j in set i (NNM, arXiv 2302.01772).
 *
 * Mixed would cost n numbers for each place, but they are few different ones. A place with one contributor, value v, has v / q in the
 * m sets of q that hold him and 0 elsewhere: of the m equal values clamp(m - f, 0, n - 2f) lie between the cuts. With two
 * contributors there are four different values; they depend on the two tags alone, so a tensor with many places has them in a table.
 * From three on the n sums are made and sorted, eight places at once (lanes.h). In all cases sums are exact and there is one division, toward zero.
 *
 * Breakdown: f of n for trimmed and mixed; linear as its weights. What trimming does to updates that were compressed apart stands in merge.h.
 */
#ifndef SKEP_MERGE_COMBINE_H
#define SKEP_MERGE_COMBINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/merge/lanes.h"
#include "common/merge/places.h"

enum skep_combine_form {
    SKEP_COMBINE_TRIMMED,
    SKEP_COMBINE_LINEAR,
    SKEP_COMBINE_MIXED,
};

/* A rule made ready for a round. Plain values, but only skep_combine_*() look at them. */
struct skep_combine {
    enum skep_combine_form form;
    size_t n;
    size_t trimmed;                                 /* f at each end; n > 2f */
    size_t near;                                    /* q: updates in each set */
    const int64_t *weights;                         /* borrowed; in units of 2^-30 */
    uint64_t members[SKEP_LIMIT_UPDATES_PER_ROUND]; /* bit 63 - i of j: set i holds update j */
    uint8_t held[SKEP_LIMIT_UPDATES_PER_ROUND];     /* how many sets hold update j */
    uint8_t held_both[SKEP_LIMIT_UPDATES_PER_ROUND * SKEP_LIMIT_UPDATES_PER_ROUND];
    struct skep_lanes_network network;
};

/* A rule made ready for one tensor, by one thread. */
struct skep_combine_table {
    const struct skep_combine *rule;
    const int64_t *entries;            /* of the tensor's tags; borrowed */
    int64_t singles[SKEP_PLACES_TAGS]; /* what a place gets to which one tag was sent alone */
    int64_t *pairs;        /* [tag * 4n + greater tag], or NULL where it would not pay */
    int64_t *pairs_memory; /* room for them; NULL: never use them */
};

void skep_combine_trimmed(struct skep_combine *rule, size_t n, size_t trimmed);
/* Weights of the updates (n of them, each at most 2^30 in magnitude, at most 2^30 together). */
void skep_combine_linear(struct skep_combine *rule, size_t n, const int64_t *weights);
/* Bit j of sets[i]: y_i holds x_j; `near` bits are set in each. */
void skep_combine_mixed(struct skep_combine *rule, size_t n, size_t trimmed, const uint64_t *sets,
                        size_t near);

/* Numbers in a table's pairs_memory. */
size_t skep_combine_pairs_size(const struct skep_combine *rule);
/* For a tensor of `place_count` places whose tags stand for `entries`, each at most 2^49 in magnitude. */
void skep_combine_table_fill(struct skep_combine_table *table, const struct skep_combine *rule,
                             const int64_t *entries, size_t place_count);
/* The aggregates of `place_count` places one after the other: sent[k] (1 or more) tags were sent to the k-th, updates rising. Each is
 * at most 2^49 in magnitude. */
void skep_combine_block(const struct skep_combine_table *table, const uint8_t *tags,
                        const uint8_t *sent, size_t place_count, int64_t *ret_values);

#endif
