#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/merge/gram.h"
#include "common/merge/merge-round.h"
#include "common/merge/weights.h"

#define LEAST_TO_TRIM_MIXES 8u /* with fewer a trimmed mean of mixes is one mix: see merge.h */

size_t skep_merge_liars(size_t n, uint32_t liars_permille)
{
    if (n < SKEP_MERGE_LEAST_TO_VOTE) {
        return 0;
    }
    size_t liars = (n * liars_permille + 999) / 1000;
    size_t most = (n - 1) / 2;
    return liars < most ? liars : most;
}

/* z over the mixes, back to weights of the updates that they are made of. */
static void unmix(const int64_t *mixed, const uint64_t *sets, size_t n, size_t near,
                  int64_t *ret_weights)
{
    for (size_t j = 0; j < n; j++) {
        int64_t sum = 0;
        for (size_t i = 0; i < n; i++) {
            sum += (sets[i] >> j & 1) != 0 ? mixed[i] : 0;
        }
        ret_weights[j] = sum / (int64_t)near;
    }
}

/* Rules that need no more than the Gram matrix. `mix` is scratch. */
static void weigh(struct skep_merge_round *merge, const struct skep_gram *gram,
                  struct skep_gram *mix)
{
    uint64_t sets[SKEP_LIMIT_UPDATES_PER_ROUND];
    int64_t mixed[SKEP_LIMIT_UPDATES_PER_ROUND];
    size_t near = merge->n - merge->liars;
    switch (merge->config->rule) {
    case SKEP_MERGE_KRUM:
        skep_weights_krum(gram, merge->liars, merge->weights);
        break;
    case SKEP_MERGE_MULTI_KRUM:
        skep_weights_multi_krum(gram, merge->liars, merge->weights);
        break;
    case SKEP_MERGE_GEOMETRIC_MEDIAN:
        skep_weights_geometric_median(gram, merge->liars, merge->weights);
        break;
    case SKEP_MERGE_CENTERED_CLIP:
        skep_weights_centered_clip(gram, merge->liars, merge->weights);
        break;
    default:
        skep_gram_nearest(gram, near, sets);
        skep_gram_mix(gram, sets, mix);
        skep_weights_geometric_median(mix, merge->liars, mixed);
        unmix(mixed, sets, merge->n, near, merge->weights);
    }
    skep_combine_linear(merge->rule, merge->n, merge->weights);
}

/* Without liars to withstand the mixes are all the mean. */
static void make_mixing_rule(struct skep_merge_round *merge, const struct skep_gram *gram,
                             struct skep_gram *mix)
{
    bool trims = merge->config->rule == SKEP_MERGE_NNM_TRIMMED_MEAN;
    if (merge->liars == 0) {
        skep_combine_trimmed(merge->rule, merge->n, 0);
    } else if (trims && merge->n >= LEAST_TO_TRIM_MIXES) {
        uint64_t sets[SKEP_LIMIT_UPDATES_PER_ROUND];
        size_t near = merge->n - merge->liars;
        skep_gram_nearest(gram, near, sets);
        skep_combine_mixed(merge->rule, merge->n, merge->liars, sets, near);
    } else {
        weigh(merge, gram, mix);
    }
}

void skep_merge_make_rule(struct skep_merge_round *merge)
{
    merge->liars = skep_merge_liars(merge->n, merge->config->liars_permille);
    enum skep_merge_rule rule = merge->n == 1 ? SKEP_MERGE_MEAN : merge->config->rule;
    if (rule <= SKEP_MERGE_TRIMMED_MEAN) {
        const size_t trimmed[] = {
            [SKEP_MERGE_MEAN] = 0,
            [SKEP_MERGE_COORDINATE_MEDIAN] = (merge->n - 1) / 2,
            [SKEP_MERGE_TRIMMED_MEAN] = merge->liars,
        };
        skep_combine_trimmed(merge->rule, merge->n, trimmed[rule]);
        return;
    }
    struct skep_gram *gram = skep_alloc(2, sizeof *gram);
    skep_pairs_gram(merge->pairs, merge->chosen, merge->n, merge->multipliers,
                    SKEP_MERGE_MULTIPLIER_BITS, gram);
    if (rule == SKEP_MERGE_NNM_TRIMMED_MEAN || rule == SKEP_MERGE_NNM_GEOMETRIC_MEDIAN) {
        make_mixing_rule(merge, gram, &gram[1]);
    } else {
        weigh(merge, gram, &gram[1]);
    }
    free(gram);
}
