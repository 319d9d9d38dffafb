/*
 * merge(state_v, sorted updates, parameters) -> state_v+1: a pure function in integers, so that it gives the same bits on every
 * CPU, compiler, thread count and order of arrival.
 *
 * Numbers are fixed point: state values and codebook entries in units of 2^-32 (int64; float32 converted exactly or to nearest,
 * ties to even, by their bits), sums in int64 and __int128. Steps, over n updates:
 *   1. each update's L2 norm over the whole shard (integer square root) is clipped to the median norm of the round, then it is
 *      weighted by its staleness s: 1, 0.7071, 0.5774 (16-bit fixed point of 1/sqrt(1+s)). The median is the lower one of
 *      an even number, and updates of zeros alone do not count for it;
 *   2. per coordinate: trimmed mean, f = floor(n * trim_permille / 1000) values dropped at each end, absent coordinates are 0,
 *      divided by n - 2f and so never by the number of contributors alone; f = 0 for n < 5, where there is nothing to vote with;
 *   3. the aggregate is scaled by clamp(median norm after step 1 / its norm, 1, 2), so that the step does not shrink with n;
 *   4. theta <- theta - alpha * aggregate, back to float32. Where the step is zero theta keeps its bits.
 * Divisions round toward zero. Codebook entries beyond +-2^17 count as +-2^17. Cost: O(sum of values sent) plus one pass over the state.
 */
#ifndef SKEP_MERGE_MERGE_H
#define SKEP_MERGE_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/wire/manifest.h"
#include "common/wire/update.h"

struct skep_merge_input {
    const struct skep_update_body *body; /* borrowed */
    uint32_t staleness;                  /* v - base version */
};

/*
 * `parameters` are the shard's floats in layout order, tensor t at offsets[t] (tensor_count + 1 offsets; the last is the total);
 * changed in place. The inputs' order does not matter. n = 0 changes nothing. On failure parameters are untouched:
 * SKEP_ERR_NUMERIC if a state value is not finite or, with the largest step, could leave the fixed point's range of +-2^30;
 * SKEP_ERR_FORMAT if an update does not fit the shard, SKEP_ERR_STALE beyond SKEP_LIMIT_STALENESS, SKEP_ERR_TOO_LARGE beyond
 * SKEP_LIMIT_UPDATES_PER_ROUND, SKEP_ERR_ARGUMENT if trimming would leave nothing. Indices within blocks and codes are
 * trusted to be in range, as skep_update_body_decode() leaves them.
 */
int skep_merge(float *parameters, const size_t *offsets, size_t tensor_count,
               const struct skep_merge_input *inputs, size_t input_count,
               const struct skep_merge_config *config, struct skep_error *err);

/* float32 <-> units of 2^-32, exposed for tests: to nearest, ties to even. Beyond +-2^30 the first saturates; NaN gives 0. */
int64_t skep_fixed_from_float(float value);
float skep_fixed_to_float(int64_t value);

#endif
