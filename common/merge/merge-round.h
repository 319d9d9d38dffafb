/*
 * One round's merge from the inside, for the files that share it: merge.c (the order of steps), merge-check.c (is it a merge at all, and in
 * which order do updates come), merge-rule.c (which rule with which numbers), merge-report.c (what became of each update).
 */
#ifndef SKEP_MERGE_MERGE_ROUND_H
#define SKEP_MERGE_MERGE_ROUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/merge/aggregate.h"
#include "common/merge/combine.h"
#include "common/merge/fixed.h"
#include "common/merge/merge.h"
#include "common/merge/pairs.h"
#include "common/merge/places.h"

/* Of what is left of an update after clipping (30) and weighting (16). */
#define SKEP_MERGE_MULTIPLIER_BITS (SKEP_FIXED_RATIO_BITS + 16)

/* What the merge of one round needs; lives for one call. */
struct skep_merge_round {
    const struct skep_merge_shard *shard;
    const struct skep_merge_options *options;
    const struct skep_merge_config *config;
    size_t threads;
    /* all updates in order of hash, and where the caller has them */
    const struct skep_merge_input *inputs;
    size_t input_count;
    size_t order[SKEP_LIMIT_UPDATES_PER_ROUND];
    size_t copy_of[SKEP_LIMIT_UPDATES_PER_ROUND]; /* by place in `order`; itself: no copy */
    bool empty[SKEP_LIMIT_UPDATES_PER_ROUND];     /* sends only zeros */
    /* the n that count, in order of hash */
    size_t n;
    size_t liars;
    size_t chosen[SKEP_LIMIT_UPDATES_PER_ROUND]; /* places in `order` */
    const struct skep_update_body *bodies[SKEP_LIMIT_UPDATES_PER_ROUND];
    uint64_t norms[SKEP_LIMIT_UPDATES_PER_ROUND];       /* before clipping */
    uint64_t ratios[SKEP_LIMIT_UPDATES_PER_ROUND];      /* of clipping, 30 bits */
    uint64_t multipliers[SKEP_LIMIT_UPDATES_PER_ROUND]; /* of clipping and weighting, 46 bits */
    uint64_t clipped[SKEP_LIMIT_UPDATES_PER_ROUND];     /* norms after both */
    uint64_t median;                                    /* of norms */
    struct skep_places places;
    int64_t *entries;         /* [tensor * 4n + tag], what is left of the codebooks */
    struct skep_pairs *pairs; /* of all inputs */
    struct skep_combine *rule;
    int64_t weights[SKEP_LIMIT_UPDATES_PER_ROUND];
    uint64_t step_ratio; /* rescale * alpha, 30 bits */
    uint64_t step_norm;
};

static inline const struct skep_merge_input *
skep_merge_ordered(const struct skep_merge_round *merge, size_t i)
{
    return &merge->inputs[merge->order[i]];
}

/* Options, inputs and shard fit; fills merge->order, so that nothing after it depends on the order of arrival. */
int skep_merge_check(struct skep_merge_round *merge, struct skep_error *err);

/* Whether the i-th in order of hash is merged: copies are not, nor those that are left out or send only zeros. */
bool skep_merge_counts(const struct skep_merge_round *merge, size_t i);

/* No norm may be larger; UINT64_MAX if all may. */
uint64_t skep_merge_clip_limit(const struct skep_merge_round *merge);
/* What clipping leaves of a norm, in units of 2^-30. */
uint64_t skep_merge_ratio(uint64_t norm, uint64_t limit);
/* That times 1/sqrt(1 + staleness), which is in units of 2^-16, rounded to nearest. */
uint64_t skep_merge_multiplier(uint64_t ratio, uint32_t staleness);

/* Fills merge->rule and merge->liars. */
void skep_merge_make_rule(struct skep_merge_round *merge);

/* `aggregate` is NULL if nothing was merged. */
void skep_merge_write_report(const struct skep_merge_round *merge,
                             const struct skep_aggregate *aggregate,
                             struct skep_merge_report *ret_report);

#endif
