/*
 * The aggregate of a round: what the rule makes of every place that any update sent, kept until the step, since its norm must be known
 * before the first value of the state changes. Nothing is kept for places that nobody sent.
 *
 * Cost: one pass over the places, 8 bytes for each place of a block that can have been sent: at most 8 for each value sent.
 */
#ifndef SKEP_MERGE_AGGREGATE_H
#define SKEP_MERGE_AGGREGATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/merge/combine.h"
#include "common/merge/places.h"

struct skep_aggregate {
    const struct skep_places *places; /* borrowed */
    size_t *firsts;                   /* of each tensor in `values` */
    int64_t *values;                  /* block by block, the places sent in order; units of 2^-32 */
    unsigned __int128 square;         /* of its norm */
    uint64_t largest;                 /* magnitude */
    /* <x_i, aggregate>, in units of 2^-64; only if asked for */
    __int128 along[SKEP_LIMIT_UPDATES_PER_ROUND];
};

/* What skep_aggregate_init() looks at. `entries[tensor * 4n + tag]` are what tags stand for. All borrowed; `places` must outlive the aggregate. */
struct skep_aggregate_source {
    const struct skep_places *places;
    const int64_t *entries;
    const struct skep_combine *rule;
    bool with_along;
    size_t threads;
};

/* SKEP_ERR_MEMORY leaves nothing to free. */
int skep_aggregate_init(struct skep_aggregate *aggregate,
                        const struct skep_aggregate_source *source, struct skep_error *err);
void skep_aggregate_done(struct skep_aggregate *aggregate);

/*
 * theta <- theta - aggregate * ratio / 2^30, each step rounded toward zero and each result to float32, to nearest, ties to even. Where the step
 * is 0 the float keeps its bits, also those that the fixed point cannot hold. No result may be beyond +-2^31. `offsets`: where each
 * tensor begins in `parameters`.
 */
void skep_aggregate_step(const struct skep_aggregate *aggregate, uint64_t ratio,
                         const size_t *offsets, size_t threads, float *parameters);

#endif
