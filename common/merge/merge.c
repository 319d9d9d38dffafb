/* The order of steps; merge.h says which and why. */
#include "common/merge/merge.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/merge/copies.h"
#include "common/merge/fixed.h"
#include "common/merge/merge-round.h"
#include "common/merge/pairs.h"
#include "common/merge/places.h"

#define PEAK_FACTOR 2u
#define PAST_ROUNDS 16u
#define LEAST_PAST_ROUNDS 4u
#define PAST_FACTOR 3u

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

static const struct skep_merge_input *chosen_input(const struct skep_merge_round *merge, size_t i)
{
    return &merge->inputs[merge->order[merge->chosen[i]]];
}

bool skep_merge_counts(const struct skep_merge_round *merge, size_t i)
{
    return merge->copy_of[i] == i && !skep_merge_ordered(merge, i)->left_out && !merge->empty[i];
}

static int64_t hold(int64_t value, int64_t limit)
{
    value = value > limit ? limit : value;
    return value < -limit ? -limit : value;
}

/* Those that are gone on with: all, or those that count. */
static void choose(struct skep_merge_round *merge, bool all)
{
    merge->n = 0;
    for (size_t i = 0; i < merge->input_count; i++) {
        if (all || skep_merge_counts(merge, i)) {
            merge->chosen[merge->n] = i;
            merge->bodies[merge->n] = skep_merge_ordered(merge, i)->body;
            merge->n++;
        }
    }
}

/* ---- peaks ---- */

/* The largest magnitude that an update sends of a tensor. */
static uint64_t peak_of(const struct skep_merge_round *merge, size_t t, size_t i)
{
    uint64_t peak = 0;
    for (size_t at = (t * merge->n + i) * 4; at < (t * merge->n + i + 1) * 4; at++) {
        int64_t entry = merge->places.code_counts[at] != 0 ? merge->entries[at] : 0;
        uint64_t magnitude = (uint64_t)(entry < 0 ? -entry : entry);
        peak = magnitude > peak ? magnitude : peak;
    }
    return peak;
}

/* Twice the median peak of those that count (as far as is known yet); no limit if they are too few or all send zeros. */
static int64_t peak_limit(const struct skep_merge_round *merge, size_t t)
{
    uint64_t peaks[SKEP_LIMIT_UPDATES_PER_ROUND];
    size_t count = 0;
    for (size_t i = 0; i < merge->n; i++) {
        if (skep_merge_counts(merge, merge->chosen[i])) {
            peaks[count++] = peak_of(merge, t, i);
        }
    }
    uint64_t median = count < SKEP_MERGE_LEAST_TO_VOTE ? 0 : skep_fixed_median(peaks, count);
    uint64_t limit = PEAK_FACTOR * median;
    return limit == 0 || limit > SKEP_FIXED_ENTRY_LIMIT ? SKEP_FIXED_ENTRY_LIMIT : (int64_t)limit;
}

static void read_codebooks(struct skep_merge_round *merge)
{
    for (size_t t = 0; t < merge->shard->tensor_count; t++) {
        int64_t *entries = merge->entries + t * 4 * merge->n;
        for (size_t tag = 0; tag < 4 * merge->n; tag++) {
            float value = merge->bodies[tag / 4]->tensors[t].codebook[tag % 4];
            entries[tag] = hold(skep_fixed_from_float(value), SKEP_FIXED_ENTRY_LIMIT);
        }
    }
}

static void flatten_peaks(struct skep_merge_round *merge)
{
    bool clips = merge->config->clip_permille != 0;
    for (size_t t = 0; t < merge->shard->tensor_count && clips; t++) {
        int64_t *entries = merge->entries + t * 4 * merge->n;
        int64_t limit = peak_limit(merge, t);
        for (size_t tag = 0; tag < 4 * merge->n; tag++) {
            entries[tag] = hold(entries[tag], limit);
        }
    }
}

/* Sorts the places of those that are gone on with and reads their codebooks. */
static int load(struct skep_merge_round *merge, struct skep_error *err)
{
    int rc = skep_places_init(&merge->places, merge->bodies, merge->n, merge->threads, err);
    if (rc == SKEP_OK) {
        read_codebooks(merge);
    }
    return rc;
}

/* ---- step 1: those that do not count ---- */

/* An expert that saw no token, or a free rider. */
static bool sends_zeros(const struct skep_merge_round *merge, size_t i)
{
    uint64_t peak = 0;
    for (size_t t = 0; t < merge->shard->tensor_count; t++) {
        peak |= peak_of(merge, t, i);
    }
    return peak == 0;
}

static bool needs_pairs(const struct skep_merge_round *merge, bool with_report)
{
    return with_report || merge->config->overlap_permille != 0 ||
           merge->config->rule > SKEP_MERGE_TRIMMED_MEAN;
}

static bool any_copy(const struct skep_merge_round *merge)
{
    bool any = false;
    for (size_t i = 0; i < merge->input_count; i++) {
        any = any || merge->copy_of[i] != i;
    }
    return any;
}

/* Peaks are held to what those that count send. Where copies are found these are fewer than was thought, so it is done again. */
static int find_copies(struct skep_merge_round *merge, struct skep_error *err)
{
    bool left_out[SKEP_LIMIT_UPDATES_PER_ROUND];
    int rc = skep_pairs_count(&merge->places, merge->entries, merge->threads, merge->pairs, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    for (size_t i = 0; i < merge->input_count; i++) {
        left_out[i] = skep_merge_ordered(merge, i)->left_out;
    }
    skep_copies_find(merge->pairs, left_out, merge->config->overlap_permille, merge->copy_of);
    if (any_copy(merge)) {
        read_codebooks(merge);
        flatten_peaks(merge);
        rc = skep_pairs_count(&merge->places, merge->entries, merge->threads, merge->pairs, err);
    }
    return rc;
}

static int choose_counting(struct skep_merge_round *merge, bool with_report, struct skep_error *err)
{
    int rc = SKEP_OK;
    for (size_t i = 0; i < merge->input_count; i++) {
        merge->empty[i] = sends_zeros(merge, i);
    }
    flatten_peaks(merge);
    if (needs_pairs(merge, with_report)) {
        rc = find_copies(merge, err);
    }
    choose(merge, false);
    if (rc != SKEP_OK || merge->n == merge->input_count) {
        return rc;
    }
    skep_places_done(&merge->places);
    rc = merge->n == 0 ? SKEP_OK : load(merge, err);
    if (rc == SKEP_OK && merge->n > 0) {
        flatten_peaks(merge);
    }
    return rc;
}

/* ---- step 2: norms ---- */

/* The L2 norm of one update over the whole shard, rounded down. */
static uint64_t norm_of(const struct skep_merge_round *merge, size_t i)
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

uint64_t skep_merge_clip_limit(const struct skep_merge_round *merge)
{
    uint64_t limit = merge->options->norm_limit == 0 ? UINT64_MAX : merge->options->norm_limit;
    if (merge->config->clip_permille == 0 || merge->median == 0) {
        return limit;
    }
    unsigned __int128 of_median =
        (unsigned __int128)merge->median * merge->config->clip_permille / 1000;
    return of_median > limit ? limit : (uint64_t)of_median;
}

uint64_t skep_merge_ratio(uint64_t norm, uint64_t limit)
{
    return norm > limit ? (uint64_t)(((unsigned __int128)limit << SKEP_FIXED_RATIO_BITS) / norm)
                        : SKEP_FIXED_RATIO_ONE;
}

uint64_t skep_merge_multiplier(uint64_t ratio, uint32_t staleness)
{
    static const uint32_t weights[SKEP_LIMIT_STALENESS + 1] = {65536, 46341, 37837};
    return ratio * weights[staleness];
}

/* Clips each update, then weights it. Returns the median norm of what that leaves. */
static uint64_t clip_and_weight(struct skep_merge_round *merge)
{
    for (size_t i = 0; i < merge->n; i++) {
        merge->norms[i] = norm_of(merge, i);
    }
    merge->median = skep_fixed_median(merge->norms, merge->n);
    uint64_t limit = skep_merge_clip_limit(merge);
    for (size_t i = 0; i < merge->n; i++) {
        uint32_t staleness = chosen_input(merge, i)->staleness;
        merge->ratios[i] = skep_merge_ratio(merge->norms[i], limit);
        merge->multipliers[i] = skep_merge_multiplier(merge->ratios[i], staleness);
    }
    for (size_t at = 0; at < 4 * merge->n * merge->shard->tensor_count; at++) {
        merge->entries[at] = skep_fixed_scale(
            merge->entries[at], merge->multipliers[at / 4 % merge->n], SKEP_MERGE_MULTIPLIER_BITS);
    }
    for (size_t i = 0; i < merge->n; i++) {
        merge->clipped[i] = norm_of(merge, i);
    }
    return skep_fixed_median(merge->clipped, merge->n);
}

/* ---- steps 4 and 5 ---- */

/* clamp(target / norm, 1, 2) * alpha / 2^halvings. */
static uint64_t step_ratio_of(const struct skep_merge_round *merge, uint64_t target, uint64_t norm)
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
static int check_step(const struct skep_merge_round *merge, uint64_t largest,
                      uint64_t largest_state, struct skep_error *err)
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

/* ---- all of it ---- */

static int apply(struct skep_merge_round *merge, uint64_t target, uint64_t largest_state,
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
        skep_merge_write_report(merge, &aggregate, ret_report);
    }
    skep_aggregate_done(&aggregate);
    return rc;
}

static int run(struct skep_merge_round *merge, struct skep_merge_report *ret_report,
               struct skep_error *err)
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
    if (rc == SKEP_OK) {
        rc = choose_counting(merge, ret_report != NULL, err);
    }
    if (rc == SKEP_OK && merge->n == 0) {
        if (ret_report != NULL) {
            skep_merge_write_report(merge, NULL, ret_report);
        }
        return rc;
    }
    if (rc == SKEP_OK) {
        uint64_t target = clip_and_weight(merge);
        skep_merge_make_rule(merge);
        rc = apply(merge, target, largest_state, ret_report, err);
    }
    return rc;
}

int skep_merge(const struct skep_merge_shard *shard, const struct skep_merge_input *inputs,
               size_t input_count, const struct skep_merge_options *options,
               struct skep_merge_report *ret_report, struct skep_error *err)
{
    struct skep_merge_round merge = {
        .shard = shard,
        .options = options,
        .config = options->config,
        .threads = options->threads == 0 ? 1 : options->threads,
        .inputs = inputs,
        .input_count = input_count,
    };
    int rc = skep_merge_check(&merge, err);
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
