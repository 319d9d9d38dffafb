#include "common/merge/merge.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/merge/aggregate.h"
#include "common/merge/combine.h"
#include "common/merge/copies.h"
#include "common/merge/fixed.h"
#include "common/merge/gram.h"
#include "common/merge/pairs.h"
#include "common/merge/places.h"
#include "common/merge/weights.h"

#define WEIGHT_BITS 16
#define LEAST_TO_VOTE 5u       /* with fewer updates there is nothing to vote with */
#define LEAST_TO_TRIM_MIXES 8u /* with fewer a trimmed mean of mixes is one mix: see merge.h */
#define PAST_ROUNDS 16u
#define LEAST_PAST_ROUNDS 4u
#define PAST_FACTOR 3u

/* 1/sqrt(1 + staleness) in units of 2^-16, rounded to nearest. */
static const uint32_t staleness_weights[SKEP_LIMIT_STALENESS + 1] = {65536, 46341, 37837};

/* What the merge of one round needs; lives for one call. */
struct merge {
    const struct skep_merge_shard *shard;
    const struct skep_merge_options *options;
    const struct skep_merge_config *config;
    size_t threads;
    /* all updates in order of hash, and where the caller has them */
    const struct skep_merge_input *inputs;
    size_t input_count;
    size_t order[SKEP_LIMIT_UPDATES_PER_ROUND];
    size_t copy_of[SKEP_LIMIT_UPDATES_PER_ROUND]; /* by place in `order`; itself: it counts */
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
    struct skep_pairs *pairs; /* of all inputs, if `paired` */
    bool paired;
    struct skep_combine *rule;
    int64_t weights[SKEP_LIMIT_UPDATES_PER_ROUND];
    uint64_t step_ratio; /* rescale * alpha, 30 bits */
    uint64_t step_norm;
};

/* ---- checking ---- */

static int check_input(const struct merge *merge, size_t input, struct skep_error *err)
{
    const struct skep_merge_input *in = &merge->inputs[input];
    const struct skep_merge_shard *shard = merge->shard;
    if (in->staleness > SKEP_LIMIT_STALENESS) {
        return skep_error_set(err, SKEP_ERR_STALE,
                              "update %zu is %u versions old; allowed: up to %u", input,
                              in->staleness, SKEP_LIMIT_STALENESS);
    }
    if (in->body->tensor_count != shard->tensor_count) {
        return skep_error_set(err, SKEP_ERR_FORMAT, "update %zu has %zu tensors; the shard has %zu",
                              input, in->body->tensor_count, shard->tensor_count);
    }
    for (size_t t = 0; t < shard->tensor_count; t++) {
        const struct skep_tiling *tiling = &in->body->tensors[t].tiling;
        const struct skep_tiling *first = &merge->inputs[0].body->tensors[t].tiling;
        size_t size = shard->offsets[t + 1] - shard->offsets[t];
        if ((size_t)tiling->rows * tiling->columns != size ||
            memcmp(tiling, first, sizeof *tiling) != 0) {
            return skep_error_set(err, SKEP_ERR_FORMAT,
                                  "update %zu cuts tensor %zu of %zu values as %u x %u; all "
                                  "updates of a round must fit the shard and each other",
                                  input, t, size, tiling->rows, tiling->columns);
        }
    }
    return SKEP_OK;
}

static int check_options(const struct merge *merge, struct skep_error *err)
{
    const struct skep_merge_options *options = merge->options;
    if ((unsigned)merge->config->rule >= SKEP_MERGE_RULES) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT, "merge rule %u is unknown; allowed: 0 to %u",
                              (unsigned)merge->config->rule, (unsigned)SKEP_MERGE_RULES - 1);
    }
    if (merge->config->liars_permille >= 500) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "liars_permille is %u, which is half or more; allowed: 0 to 499",
                              merge->config->liars_permille);
    }
    if (options->halvings > SKEP_MERGE_HALVINGS_MOST) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT, "%u halvings of a step; allowed: up to %u",
                              options->halvings, SKEP_MERGE_HALVINGS_MOST);
    }
    if (options->threads > SKEP_MERGE_THREADS_MOST) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT, "%u threads in one merge; allowed: up to %u",
                              options->threads, SKEP_MERGE_THREADS_MOST);
    }
    return SKEP_OK;
}

/* |value| as an integer that orders as the number does. */
static uint32_t magnitude_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x7fffffffu;
}

/* All state values must be finite and within range; *ret_largest is the largest magnitude, in units. */
static int check_state(const float *parameters, size_t count, uint64_t *ret_largest,
                       struct skep_error *err)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = magnitude_bits(parameters[i]);
        largest = magnitude > largest ? magnitude : largest;
    }
    if (largest > 0x4e800000u) { /* 2^30 */
        size_t at = 0;
        while (magnitude_bits(parameters[at]) <= 0x4e800000u) {
            at++;
        }
        return skep_error_set(err, SKEP_ERR_NUMERIC,
                              "state value %zu is %g; allowed: -2^30 .. 2^30", at,
                              (double)parameters[at]);
    }
    float value;
    memcpy(&value, &largest, sizeof value);
    *ret_largest = (uint64_t)skep_fixed_from_float(value);
    return SKEP_OK;
}

/* ---- order ---- */

/* Rising hashes, whatever order the inputs came in. */
static int sort_inputs(struct merge *merge, struct skep_error *err)
{
    const struct skep_merge_input *inputs = merge->inputs;
    for (size_t i = 0; i < merge->input_count; i++) {
        size_t at = i;
        for (; at > 0; at--) {
            size_t before = merge->order[at - 1];
            int compared = skep_hash_compare(&inputs[before].hash, &inputs[i].hash);
            if (compared == 0) {
                return skep_error_set(err, SKEP_ERR_FORMAT,
                                      "update %.12s is given twice; allowed: once",
                                      skep_id_text(inputs[i].hash.bytes));
            }
            if (compared < 0) {
                break;
            }
            merge->order[at] = before;
        }
        merge->order[at] = i;
    }
    return SKEP_OK;
}

static const struct skep_merge_input *chosen_input(const struct merge *merge, size_t i)
{
    return &merge->inputs[merge->order[merge->chosen[i]]];
}

static const struct skep_merge_input *ordered_input(const struct merge *merge, size_t i)
{
    return &merge->inputs[merge->order[i]];
}

/* Copies do not, nor do those that are left out. */
static bool counts(const struct merge *merge, size_t i)
{
    return merge->copy_of[i] == i && !ordered_input(merge, i)->left_out;
}

/* Those that are gone on with: all, or those that count. */
static void choose(struct merge *merge, bool all)
{
    merge->n = 0;
    for (size_t i = 0; i < merge->input_count; i++) {
        if (all || counts(merge, i)) {
            merge->chosen[merge->n] = i;
            merge->bodies[merge->n] = ordered_input(merge, i)->body;
            merge->n++;
        }
    }
}

/* Sorts the places of those that count and reads their codebooks. */
static int load(struct merge *merge, struct skep_error *err)
{
    int rc = skep_places_init(&merge->places, merge->bodies, merge->n, merge->threads, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    for (size_t t = 0; t < merge->shard->tensor_count; t++) {
        for (size_t tag = 0; tag < 4 * merge->n; tag++) {
            int64_t entry =
                skep_fixed_from_float(merge->bodies[tag / 4]->tensors[t].codebook[tag % 4]);
            entry = entry > SKEP_FIXED_ENTRY_LIMIT ? SKEP_FIXED_ENTRY_LIMIT : entry;
            entry = entry < -SKEP_FIXED_ENTRY_LIMIT ? -SKEP_FIXED_ENTRY_LIMIT : entry;
            merge->entries[t * 4 * merge->n + tag] = entry;
        }
    }
    return SKEP_OK;
}

/* ---- step 1: those that do not count ---- */

static bool any_left_out(const struct merge *merge)
{
    bool any = false;
    for (size_t i = 0; i < merge->input_count; i++) {
        any = any || merge->inputs[i].left_out;
    }
    return any;
}

static bool needs_pairs(const struct merge *merge, bool with_report)
{
    return with_report || any_left_out(merge) || merge->config->overlap_permille != 0 ||
           merge->config->rule > SKEP_MERGE_TRIMMED_MEAN;
}

static int choose_counting(struct merge *merge, struct skep_error *err)
{
    uint32_t ranks[SKEP_LIMIT_UPDATES_PER_ROUND];
    int rc = skep_pairs_count(&merge->places, merge->entries, merge->threads, merge->pairs, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    merge->paired = true;
    for (size_t i = 0; i < merge->input_count; i++) {
        const struct skep_merge_input *input = ordered_input(merge, i);
        ranks[i] = input->staleness + (input->left_out ? SKEP_LIMIT_STALENESS + 1 : 0);
    }
    skep_copies_find(merge->pairs, ranks, merge->config->overlap_permille, merge->copy_of);
    choose(merge, false);
    if (merge->n == merge->input_count) {
        return SKEP_OK;
    }
    skep_places_done(&merge->places);
    return merge->n == 0 ? SKEP_OK : load(merge, err);
}

/* ---- step 2: norms ---- */

/* The L2 norm of one update over the whole shard, rounded down. */
static uint64_t norm_of(const struct merge *merge, size_t i)
{
    unsigned __int128 square = 0;
    for (size_t t = 0; t < merge->shard->tensor_count; t++) {
        for (size_t code = 0; code < 4; code++) {
            size_t at = (t * merge->n + i) * 4 + code;
            __int128 entry = merge->entries[at];
            square += (unsigned __int128)(entry * entry) * merge->places.code_counts[at];
        }
    }
    return skep_fixed_root(square);
}

/* No norm may be larger; UINT64_MAX if all may. */
static uint64_t clip_limit(const struct merge *merge)
{
    uint64_t limit = merge->options->norm_limit;
    if (merge->config->clip_permille == 0 || merge->median == 0) {
        return UINT64_MAX;
    }
    unsigned __int128 of_median =
        (unsigned __int128)merge->median * merge->config->clip_permille / 1000;
    if (limit != 0 && limit < of_median) {
        return limit;
    }
    return of_median > UINT64_MAX ? UINT64_MAX : (uint64_t)of_median;
}

/* What clipping leaves of a norm, in units of 2^-30. */
static uint64_t ratio_of(uint64_t norm, uint64_t limit)
{
    return norm > limit ? (uint64_t)(((unsigned __int128)limit << SKEP_FIXED_RATIO_BITS) / norm)
                        : SKEP_FIXED_RATIO_ONE;
}

/* Clips each update, then weights it. Returns the median norm of what that leaves. */
static uint64_t clip_and_weight(struct merge *merge)
{
    for (size_t i = 0; i < merge->n; i++) {
        merge->norms[i] = norm_of(merge, i);
    }
    merge->median = skep_fixed_median(merge->norms, merge->n);
    uint64_t limit = clip_limit(merge);
    for (size_t i = 0; i < merge->n; i++) {
        merge->ratios[i] = ratio_of(merge->norms[i], limit);
        merge->multipliers[i] =
            merge->ratios[i] * staleness_weights[chosen_input(merge, i)->staleness];
    }
    for (size_t at = 0; at < 4 * merge->n * merge->shard->tensor_count; at++) {
        merge->entries[at] =
            skep_fixed_scale(merge->entries[at], merge->multipliers[at / 4 % merge->n],
                             SKEP_FIXED_RATIO_BITS + WEIGHT_BITS);
    }
    for (size_t i = 0; i < merge->n; i++) {
        merge->clipped[i] = norm_of(merge, i);
    }
    return skep_fixed_median(merge->clipped, merge->n);
}

/* ---- step 3: the rule ---- */

size_t skep_merge_liars(size_t n, uint32_t liars_permille)
{
    if (n < LEAST_TO_VOTE) {
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
static void weigh(struct merge *merge, const struct skep_gram *gram, struct skep_gram *mix)
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
static void make_mixing_rule(struct merge *merge, const struct skep_gram *gram,
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

static void make_rule(struct merge *merge)
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
                    SKEP_FIXED_RATIO_BITS + WEIGHT_BITS, gram);
    if (rule == SKEP_MERGE_NNM_TRIMMED_MEAN || rule == SKEP_MERGE_NNM_GEOMETRIC_MEDIAN) {
        make_mixing_rule(merge, gram, &gram[1]);
    } else {
        weigh(merge, gram, &gram[1]);
    }
    free(gram);
}

/* ---- steps 4 and 5 ---- */

/* clamp(target / norm, 1, 2) * alpha / 2^halvings. */
static uint64_t step_ratio_of(const struct merge *merge, uint64_t target, uint64_t norm)
{
    const unsigned __int128 one = SKEP_FIXED_RATIO_ONE;
    unsigned __int128 ratio =
        norm == 0 ? one : ((unsigned __int128)target << SKEP_FIXED_RATIO_BITS) / norm;
    ratio = ratio < one ? one : ratio;
    ratio = ratio > 2 * one ? 2 * one : ratio;
    return (uint64_t)(ratio * merge->config->step_permille / 1000) >> merge->options->halvings;
}

/* The largest value and the largest step need not meet, but if their sum is within range then all are, and no value needs to
 * be written before that is known. */
static int check_step(const struct merge *merge, uint64_t largest, uint64_t largest_state,
                      struct skep_error *err)
{
    unsigned __int128 step = (unsigned __int128)largest * merge->step_ratio;
    step >>= SKEP_FIXED_RATIO_BITS;
    if (step + largest_state > (unsigned __int128)SKEP_FIXED_STATE_LIMIT) {
        return skep_error_set(
            err, SKEP_ERR_NUMERIC,
            "a step of up to %g from values of up to %g could leave -2^30 .. 2^30",
            (double)step / 4294967296.0, (double)largest_state / 4294967296.0);
    }
    return SKEP_OK;
}

/* ---- the report ---- */

/* 1000 * along / (norm * other), of numbers of up to 126 bits: both are cut to 100 bits first. */
static int32_t cosine_of(__int128 along, uint64_t norm, uint64_t other)
{
    unsigned __int128 size = (unsigned __int128)(along < 0 ? -along : along);
    unsigned __int128 norms = (unsigned __int128)norm * other;
    while (norms >> 100 != 0 || size >> 100 != 0) {
        norms >>= 1;
        size >>= 1;
    }
    if (norms == 0) {
        return 0;
    }
    unsigned __int128 permille = size * 1000 / norms;
    int32_t held = permille > 1000 ? 1000 : (int32_t)permille;
    return along < 0 ? -held : held;
}

/* Of all inputs, clipped and weighted as those that were merged are. */
static void measure_agreement(const struct merge *merge, uint64_t limit,
                              struct skep_merge_report *ret_report)
{
    size_t all[SKEP_LIMIT_UPDATES_PER_ROUND];
    bool merged[SKEP_LIMIT_UPDATES_PER_ROUND];
    uint64_t multipliers[SKEP_LIMIT_UPDATES_PER_ROUND];
    int32_t agreement[SKEP_LIMIT_UPDATES_PER_ROUND];
    struct skep_gram *gram = skep_alloc(1, sizeof *gram);
    for (size_t i = 0; i < merge->input_count; i++) {
        all[i] = i;
        merged[i] = counts(merge, i);
        multipliers[i] = ratio_of(ret_report->inputs[merge->order[i]].norm, limit) *
                         staleness_weights[ordered_input(merge, i)->staleness];
    }
    skep_pairs_gram(merge->pairs, all, merge->input_count, multipliers,
                    SKEP_FIXED_RATIO_BITS + WEIGHT_BITS, gram);
    skep_gram_agreement(gram, merged, agreement);
    for (size_t i = 0; i < merge->input_count; i++) {
        ret_report->inputs[merge->order[i]].agreement_permille = agreement[i];
    }
    free(gram);
}

/* `aggregate` is NULL if nothing was merged. */
static void write_report(const struct merge *merge, const struct skep_aggregate *aggregate,
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
            .merged = counts(merge, i),
            .clip_ratio = (uint32_t)SKEP_FIXED_RATIO_ONE,
            .copy_of = copy_of == i ? SKEP_MERGE_NO_COPY : (uint32_t)merge->order[copy_of],
        };
    }
    for (size_t i = 0; i < merge->n; i++) {
        struct skep_merge_verdict *verdict = &ret_report->inputs[merge->order[merge->chosen[i]]];
        verdict->clip_ratio = (uint32_t)merge->ratios[i];
        verdict->cosine_permille = cosine_of(aggregate->along[i], merge->clipped[i], norm);
    }
    measure_agreement(merge, clip_limit(merge), ret_report);
}

/* ---- all of it ---- */

static int apply(struct merge *merge, uint64_t target, uint64_t largest_state,
                 struct skep_merge_report *ret_report, struct skep_error *err)
{
    const struct skep_aggregate_source source = {
        .places = &merge->places,
        .entries = merge->entries,
        .rule = merge->rule,
        .with_along = ret_report != NULL,
        .threads = merge->threads,
    };
    struct skep_aggregate aggregate;
    int rc = skep_aggregate_init(&aggregate, &source, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    uint64_t norm = skep_fixed_root(aggregate.square);
    merge->step_ratio = step_ratio_of(merge, target, norm);
    merge->step_norm =
        (uint64_t)((unsigned __int128)norm * merge->step_ratio >> SKEP_FIXED_RATIO_BITS);
    rc = check_step(merge, aggregate.largest, largest_state, err);
    if (rc == SKEP_OK) {
        skep_aggregate_step(&aggregate, merge->step_ratio, merge->shard->offsets, merge->threads,
                            merge->shard->parameters);
    }
    if (rc == SKEP_OK && ret_report != NULL) {
        write_report(merge, &aggregate, ret_report);
    }
    skep_aggregate_done(&aggregate);
    return rc;
}

static int run(struct merge *merge, struct skep_merge_report *ret_report, struct skep_error *err)
{
    const struct skep_merge_shard *shard = merge->shard;
    uint64_t largest_state = 0;
    int rc =
        check_state(shard->parameters, shard->offsets[shard->tensor_count], &largest_state, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    if (merge->input_count == 0) {
        if (ret_report != NULL) {
            *ret_report = (struct skep_merge_report){0};
        }
        return SKEP_OK;
    }
    for (size_t i = 0; i < merge->input_count; i++) {
        merge->copy_of[i] = i;
    }
    choose(merge, true);
    rc = load(merge, err);
    if (rc == SKEP_OK && needs_pairs(merge, ret_report != NULL)) {
        rc = choose_counting(merge, err);
    }
    if (rc == SKEP_OK && merge->n == 0) {
        if (ret_report != NULL) {
            write_report(merge, NULL, ret_report);
        }
        return rc;
    }
    if (rc == SKEP_OK) {
        uint64_t target = clip_and_weight(merge);
        make_rule(merge);
        rc = apply(merge, target, largest_state, ret_report, err);
    }
    return rc;
}

static int check(struct merge *merge, struct skep_error *err)
{
    if (merge->input_count > SKEP_LIMIT_UPDATES_PER_ROUND) {
        return skep_error_set(err, SKEP_ERR_TOO_LARGE,
                              "%zu updates in one merge; allowed: up to %u", merge->input_count,
                              SKEP_LIMIT_UPDATES_PER_ROUND);
    }
    int rc = check_options(merge, err);
    for (size_t i = 0; i < merge->input_count && rc == SKEP_OK; i++) {
        rc = check_input(merge, i, err);
    }
    return rc == SKEP_OK ? sort_inputs(merge, err) : rc;
}

int skep_merge(const struct skep_merge_shard *shard, const struct skep_merge_input *inputs,
               size_t input_count, const struct skep_merge_options *options,
               struct skep_merge_report *ret_report, struct skep_error *err)
{
    struct merge merge = {
        .shard = shard,
        .options = options,
        .config = options->config,
        .threads = options->threads == 0 ? 1 : options->threads,
        .inputs = inputs,
        .input_count = input_count,
    };
    int rc = check(&merge, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    merge.pairs = skep_alloc(1, sizeof *merge.pairs);
    merge.rule = skep_alloc(1, sizeof *merge.rule);
    merge.entries = calloc(4 * input_count * shard->tensor_count + 1, sizeof *merge.entries);
    if (merge.entries == NULL) {
        rc = skep_error_set(err, SKEP_ERR_MEMORY, "no memory to merge %zu updates of %zu tensors",
                            input_count, shard->tensor_count);
    } else {
        rc = run(&merge, ret_report, err);
    }
    skep_places_done(&merge.places);
    free(merge.pairs);
    free(merge.rule);
    free(merge.entries);
    return rc;
}

uint64_t skep_merge_norm_limit(const uint64_t *past_medians, size_t count)
{
    uint64_t last[PAST_ROUNDS];
    size_t used = 0;
    for (size_t i = count; i > 0 && used < PAST_ROUNDS; i--) {
        if (past_medians[i - 1] != 0) {
            last[used++] = past_medians[i - 1];
        }
    }
    if (used < LEAST_PAST_ROUNDS) {
        return 0;
    }
    uint64_t median = skep_fixed_median(last, used);
    return median > UINT64_MAX / PAST_FACTOR ? UINT64_MAX : median * PAST_FACTOR;
}
