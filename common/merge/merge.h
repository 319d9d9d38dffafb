/*
 * merge(state_v, updates of a round, settings) -> state_v+1: a pure function in integers, so that it gives the same bits on every
 * CPU, compiler, thread count and order of arrival. It stands between anyone who publishes an update and the model, so it is built to
 * survive liars: n updates of which f do as they please, together, knowing all others.
 *
 * Steps, over the updates in rising order of their keys (see skep_merge_input: nobody can choose one), which breaks all ties:
 *   1. donors of bad standing are left out (standing.h), near-copies count once (copies.h), and updates of zeros alone (an expert that
 *      saw no token, a free rider) not at all; n is what is left;
 *   2. peaks are flattened: per tensor no value may be larger than twice the median of the updates' largest ones (n >= 5; updates that
 *      send only zeros of it do not count). Then each update is clipped to c = min(clip_permille of the round's median norm, norm
 *      limit) and weighted by its staleness s: 1, 0.7071, 0.5774 (1/sqrt(1+s)). clip_permille 0, for comparisons, leaves peaks and norms
 *      as they are but for the norm limit;
 *   3. the rule makes one aggregate of them;
 *   4. the aggregate is scaled by clamp(median norm after step 2 / its norm, 1, 2), so that the step does not shrink with n nor with
 *      what a rule leaves out;
 *   5. theta <- theta - alpha / 2^halvings * aggregate, back to float32. Where the step is zero theta keeps its bits. The halvings are
 *      the loss gate's (loss-gate.h).
 * A clip of the norm alone lets a liar put all of it on a few weights, which then are off by a thousand ordinary steps and take the
 * rest of the run to mend (measured: 2.5 points of accuracy by 3 liars of 16 in the five rounds before their standing fell); with peaks
 * flattened it cannot be more than twice as loud anywhere. Copies go first, so that Sybils cannot shift medians by repeating one update. Medians are the lower one of an
 * even number.
 *
 * f = ceil(n * liars_permille / 1000), held to n > 2f, and 0 for n < 5, where there is nothing to vote with: trimmed_mean, multi_krum and
 * both NNM rules are then the mean, which only the clipping protects (krum, the medians and centered_clip run as ever), and the caller
 * merges audited or trusted updates alone. In all rules a place that an update did not send counts as 0, and they divide by updates,
 * never by the contributors of a place, which would let one liar own it.
 *
 *   rule                  what                                               breakdown  paper
 *   mean                  1/n sum of x_i                                     0
 *   coordinate_median     per place the median (mean of the two middle ones) 1/2        arXiv 1803.01498
 *   trimmed_mean          per place the mean without the f least and f most  f/n        arXiv 1803.01498
 *   krum                  the update with the nearest neighbours             (n-3)/2n   Blanchard et al., NeurIPS 2017
 *   multi_krum            the mean of the n-f best of them                   (n-3)/2n   same, and arXiv 2602.03899
 *   geometric_median      least sum of distances, 8 Weiszfeld steps          1/2        arXiv 1912.13445
 *   centered_clip         clipped pulls on a centre, radius from the median  ~0.1 .. 7/16 arXiv 2012.10333
 *   nnm_trimmed_mean      NNM, then the trimmed mean                         f/n        arXiv 2302.01772
 *   nnm_geometric_median  NNM, then the geometric median                     1/2        arXiv 2302.01772
 *
 * NNM (nearest-neighbour mixing) replaces each update by y_i, the mean of the n - f updates nearest to it, itself included. It is what
 * makes rules per place work on updates that were compressed apart: supports of honest donors hardly meet, so most places are sent by
 * one or two of n, and a trimmed mean of the x_i drops just those; after mixing a place that one honest donor sent is held by about
 * n - f of the y_i. For n < 8 nnm_trimmed_mean takes the geometric median of the y_i instead: with f = 2 of 5 a trimmed mean is
 * the value of a single y_i per place, which throws most of the round away.
 *
 * Numbers are fixed point (fixed.h): state values and codebook entries in units of 2^-32 (int64), sums in int64 and __int128.
 * Divisions round toward zero. Codebook entries beyond +-2^17 count as +-2^17.
 *
 * Cost: one sort of the places sent and one pass over the state; where pairs of updates matter (copies, NNM, all rules but the first three),
 * one step for each pair of updates that sent the same place (pairs.h). Memory: about 9 bytes for each value sent and 1 for each of the state.
 */
#ifndef SKEP_MERGE_MERGE_H
#define SKEP_MERGE_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/limits.h"
#include "common/merge/share.h"
#include "common/wire/manifest.h"
#include "common/wire/update.h"

#define SKEP_MERGE_LEAST_TO_VOTE 5u /* with fewer updates there is nothing to vote with */
#define SKEP_MERGE_HALVINGS_MOST 16u
#define SKEP_MERGE_THREADS_MOST SKEP_SHARE_PARTS_MOST
#define SKEP_MERGE_NO_COPY UINT32_MAX

struct skep_merge_input {
    const struct skep_update_body *body; /* borrowed */
    uint32_t staleness;                  /* v - base version */
    /* The update's place in the round, another for each. It decides ties and which of two near-copies stays, so a donor must not be able
     * to choose it as the hash of its file: callers take SHA-256 over the previous seal's hash and the donor's key. */
    struct skep_hash hash;
    bool left_out; /* for its donor's standing (standing.h): measured, but not merged */
};

/* A shard's state: floats in layout order, tensor t at offsets[t] (tensor_count + 1 offsets; the last is the total). All borrowed. */
struct skep_merge_shard {
    float *parameters;
    const size_t *offsets;
    size_t tensor_count;
};

struct skep_merge_options {
    const struct skep_merge_config *config; /* borrowed */
    uint64_t norm_limit;                    /* in units of 2^-32; 0: none */
    uint32_t halvings;                      /* of the step, by the loss gate */
    uint32_t threads;                       /* that share the work; 0 and 1: the caller's alone */
};

/* What became of one input. Cosines are in thousandths, -1000 .. 1000, and 0 if one of the two is zero. */
struct skep_merge_verdict {
    uint64_t norm;       /* before clipping, in units of 2^-32 */
    bool merged;         /* false of copies, of those left out, and of zeros */
    uint32_t clip_ratio; /* what clipping left of it, in units of 2^-30 */
    /* the input that it nearly equals and that was merged in its place, or SKEP_MERGE_NO_COPY */
    uint32_t copy_of;
    int32_t cosine_permille; /* to the aggregate; 0 if it was not merged */
    /* to the sum of the others that were merged (weights.h), for the donor's standing */
    int32_t agreement_permille;
};

struct skep_merge_report {
    struct skep_merge_verdict inputs[SKEP_LIMIT_UPDATES_PER_ROUND]; /* in the caller's order */
    size_t counted;                                                 /* n: inputs that were merged */
    size_t liars;                                                   /* f */
    uint64_t median_norm; /* before clipping, of those that counted: for skep_merge_norm_limit() */
    uint64_t step_norm;   /* of what was subtracted from the state */
};

/*
 * Changes shard->parameters in place. The inputs' order does not matter; none change nothing. `ret_report` may be NULL. On failure
 * parameters and report are untouched: SKEP_ERR_NUMERIC if a state value is not finite or, with the largest step, could leave the
 * fixed point's range of +-2^30; SKEP_ERR_FORMAT if an update does not fit the shard or two have one hash, SKEP_ERR_STALE beyond
 * SKEP_LIMIT_STALENESS, SKEP_ERR_TOO_LARGE beyond SKEP_LIMIT_UPDATES_PER_ROUND, SKEP_ERR_ARGUMENT for options out of their
 * range, SKEP_ERR_MEMORY. Indices within blocks and codes are trusted to be in range and rising, as skep_update_body_decode() leaves them.
 */
int skep_merge(const struct skep_merge_shard *shard, const struct skep_merge_input *inputs,
               size_t input_count, const struct skep_merge_options *options,
               struct skep_merge_report *ret_report, struct skep_error *err);

/*
 * The norm limit of a round: 3 times the lower median of the last (up to 16) rounds' median norms, so that a majority of one round cannot
 * make a step that no round made before. Rounds whose median is 0 are passed over; 0 (no limit) with fewer than 4 left. `past_medians`: the oldest first.
 */
uint64_t skep_merge_norm_limit(const uint64_t *past_medians, size_t count);

/* f for n updates that count, as above. */
size_t skep_merge_liars(size_t n, uint32_t liars_permille);

#endif
