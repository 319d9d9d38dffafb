#include <assert.h>
#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/merge/gram.h"
#include "common/merge/merge-round.h"
#include "common/merge/weights.h"

/* 1000 * along / (norm * other), of numbers of up to 126 bits: both are cut to 100 bits first. */
static int32_t cosine_of(__int128 along, uint64_t norm, uint64_t other)
{
    const __int128 most = (__int128)1 << 100;
    unsigned __int128 norms = (unsigned __int128)norm * other;
    while (norms >= (unsigned __int128)most || along >= most || along <= -most) {
        norms /= 2;
        along /= 2;
    }
    return skep_fixed_permille(along, norms);
}

/* Of all inputs, clipped and weighted as those that were merged are. */
static void measure_agreement(const struct skep_merge_round *merge, uint64_t limit,
                              struct skep_merge_report *ret_report)
{
    size_t all[SKEP_LIMIT_UPDATES_PER_ROUND];
    bool merged[SKEP_LIMIT_UPDATES_PER_ROUND];
    uint64_t multipliers[SKEP_LIMIT_UPDATES_PER_ROUND];
    int32_t agreement[SKEP_LIMIT_UPDATES_PER_ROUND];
    struct skep_gram *gram = skep_alloc(1, sizeof *gram);
    for (size_t i = 0; i < merge->input_count; i++) {
        all[i] = i;
        merged[i] = skep_merge_counts(merge, i);
        uint64_t ratio = skep_merge_ratio(ret_report->inputs[merge->order[i]].norm, limit);
        multipliers[i] = skep_merge_multiplier(ratio, skep_merge_ordered(merge, i)->staleness);
    }
    skep_pairs_gram(merge->pairs, all, merge->input_count, multipliers, SKEP_MERGE_MULTIPLIER_BITS,
                    gram);
    skep_gram_agreement(gram, merged, agreement);
    for (size_t i = 0; i < merge->input_count; i++) {
        ret_report->inputs[merge->order[i]].agreement_permille = agreement[i];
    }
    free(gram);
}

void skep_merge_write_report(const struct skep_merge_round *merge,
                             const struct skep_aggregate *aggregate,
                             struct skep_merge_report *ret_report)
{
    *ret_report = (struct skep_merge_report){
        .counted = merge->n,
        .liars = merge->liars,
        .median_norm = merge->median,
        .step_norm = merge->step_norm,
    };
    uint64_t norm = aggregate == NULL ? 0 : skep_fixed_root(aggregate->square);
    for (size_t i = 0; i < merge->input_count; i++) {
        __int128 square = merge->pairs->products[i * merge->input_count + i];
        size_t copy_of = merge->copy_of[i];
        ret_report->inputs[merge->order[i]] = (struct skep_merge_verdict){
            .norm = skep_fixed_root((unsigned __int128)square),
            .merged = skep_merge_counts(merge, i),
            .clip_ratio = (uint32_t)SKEP_FIXED_RATIO_ONE,
            .copy_of = copy_of == i ? SKEP_MERGE_NO_COPY : (uint32_t)merge->order[copy_of],
        };
    }
    assert(aggregate != NULL || merge->n == 0);
    for (size_t i = 0; i < merge->n; i++) {
        struct skep_merge_verdict *verdict = &ret_report->inputs[merge->order[merge->chosen[i]]];
        verdict->clip_ratio = (uint32_t)merge->ratios[i];
        verdict->cosine_permille = cosine_of(aggregate->along[i], merge->clipped[i], norm);
    }
    measure_agreement(merge, skep_merge_clip_limit(merge), ret_report);
}
