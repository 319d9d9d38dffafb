#include "common/merge/merge.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/merge/fixed.h"

#define RATIO_BITS SKEP_FIXED_RATIO_BITS
#define WEIGHT_BITS 16
#define ENTRY_LIMIT SKEP_FIXED_ENTRY_LIMIT
#define STATE_LIMIT SKEP_FIXED_STATE_LIMIT
#define RATIO_ONE ((uint64_t)1 << RATIO_BITS)
#define LEAST_TO_TRIM 5u /* with fewer updates there is nothing to vote with */

/* 1/sqrt(1 + staleness) in units of 2^-16, rounded to nearest. */
static const uint32_t staleness_weights[SKEP_LIMIT_STALENESS + 1] = {65536, 46341, 37837};

static unsigned __int128 square_of(int64_t value)
{
    return (unsigned __int128)((__int128)value * value);
}

static void sort(int64_t *values, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        int64_t value = values[i];
        size_t at = i;
        for (; at > 0 && values[at - 1] > value; at--) {
            values[at] = values[at - 1];
        }
        values[at] = value;
    }
}

/* ---- one merge ---- */

/* What the merge of one round needs; lives for one call. */
struct merge {
    const struct skep_merge_input *inputs;
    size_t input_count;
    const size_t *offsets;
    size_t tensor_count;
    size_t trimmed; /* f */
    /* entries[(input * tensor_count + tensor) * 4 + code]: clipped and weighted */
    int64_t *entries;
    uint32_t *code_counts; /* in the same order: how often an update sends a code */
    /* scratch for one block */
    int64_t *values;
    uint32_t starts[SKEP_BLOCK_SIZE + 1];
    /* of the first pass, and the second pass's multiplier */
    unsigned __int128 square;
    uint64_t largest;
    uint64_t step_ratio; /* rescale * alpha, RATIO_BITS */
};

static const struct skep_update_tensor *tensor_of(const struct merge *merge, size_t input, size_t t)
{
    return &merge->inputs[input].body->tensors[t];
}

static size_t entry_at(const struct merge *merge, size_t input, size_t t)
{
    return (input * merge->tensor_count + t) * 4;
}

static int check_input(const struct merge *merge, size_t input, struct skep_error *err)
{
    const struct skep_merge_input *in = &merge->inputs[input];
    if (in->staleness > SKEP_LIMIT_STALENESS) {
        return skep_error_set(err, SKEP_ERR_STALE,
                              "update %zu is %u versions old; allowed: up to %u", input,
                              in->staleness, SKEP_LIMIT_STALENESS);
    }
    if (in->body->tensor_count != merge->tensor_count) {
        return skep_error_set(err, SKEP_ERR_FORMAT, "update %zu has %zu tensors; the shard has %zu",
                              input, in->body->tensor_count, merge->tensor_count);
    }
    for (size_t t = 0; t < merge->tensor_count; t++) {
        const struct skep_tiling *tiling = &in->body->tensors[t].tiling;
        const struct skep_tiling *first = &merge->inputs[0].body->tensors[t].tiling;
        size_t size = merge->offsets[t + 1] - merge->offsets[t];
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

static int check_arguments(const struct merge *merge, struct skep_error *err)
{
    if (merge->input_count > SKEP_LIMIT_UPDATES_PER_ROUND) {
        return skep_error_set(err, SKEP_ERR_TOO_LARGE,
                              "%zu updates in one merge; allowed: up to %u", merge->input_count,
                              SKEP_LIMIT_UPDATES_PER_ROUND);
    }
    for (size_t i = 0; i < merge->input_count; i++) {
        int rc = check_input(merge, i, err);
        if (rc != SKEP_OK) {
            return rc;
        }
    }
    return SKEP_OK;
}

/* All state values must be finite and within range; *ret_largest is the largest magnitude, in units. */
static int check_state(const float *parameters, size_t count, uint64_t *ret_largest,
                       struct skep_error *err)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &parameters[i], sizeof bits);
        bits &= 0x7fffffffu;
        largest = bits > largest ? bits : largest;
        if (bits > 0x4e800000u) { /* 2^30 */
            return skep_error_set(err, SKEP_ERR_NUMERIC,
                                  "state value %zu is %g; allowed: -2^30 .. 2^30", i,
                                  (double)parameters[i]);
        }
    }
    float value;
    memcpy(&value, &largest, sizeof value);
    *ret_largest = (uint64_t)skep_fixed_from_float(value);
    return SKEP_OK;
}

static void count_codes(const struct merge *merge, size_t input, size_t t)
{
    const struct skep_update_tensor *tensor = tensor_of(merge, input, t);
    uint32_t *counts = merge->code_counts + entry_at(merge, input, t);
    size_t count = (size_t)tensor->tiling.blocks * tensor->tiling.kept;
    for (size_t i = 0; i < count; i++) {
        counts[tensor->codes[i] & 3]++;
    }
}

static void load_entries(struct merge *merge)
{
    for (size_t i = 0; i < merge->input_count; i++) {
        for (size_t t = 0; t < merge->tensor_count; t++) {
            count_codes(merge, i, t);
            for (size_t code = 0; code < 4; code++) {
                int64_t entry = skep_fixed_from_float(tensor_of(merge, i, t)->codebook[code]);
                entry = entry > ENTRY_LIMIT ? ENTRY_LIMIT : entry;
                entry = entry < -ENTRY_LIMIT ? -ENTRY_LIMIT : entry;
                merge->entries[entry_at(merge, i, t) + code] = entry;
            }
        }
    }
}

/* The L2 norm of one update over the whole shard, rounded down. */
static uint64_t norm_of(const struct merge *merge, size_t input)
{
    unsigned __int128 square = 0;
    size_t first = entry_at(merge, input, 0);
    for (size_t i = first; i < first + 4 * merge->tensor_count; i++) {
        square += square_of(merge->entries[i]) * merge->code_counts[i];
    }
    return skep_fixed_root(square);
}

/* Step 1: clips each update to the median norm, then weights it. Returns the median norm of what that leaves. */
static uint64_t clip_and_weight(struct merge *merge)
{
    uint64_t norms[SKEP_LIMIT_UPDATES_PER_ROUND];
    for (size_t i = 0; i < merge->input_count; i++) {
        norms[i] = norm_of(merge, i);
    }
    uint64_t median = skep_fixed_median(norms, merge->input_count);
    for (size_t i = 0; i < merge->input_count; i++) {
        uint64_t ratio = norms[i] <= median
                             ? RATIO_ONE
                             : (uint64_t)(((unsigned __int128)median << RATIO_BITS) / norms[i]);
        uint64_t multiplier = ratio * staleness_weights[merge->inputs[i].staleness];
        size_t first = entry_at(merge, i, 0);
        for (size_t e = first; e < first + 4 * merge->tensor_count; e++) {
            merge->entries[e] =
                skep_fixed_scale(merge->entries[e], multiplier, RATIO_BITS + WEIGHT_BITS);
        }
        norms[i] = norm_of(merge, i);
    }
    return skep_fixed_median(norms, merge->input_count);
}

/* Puts the values that all updates sent of one block in order of coordinate: those of coordinate c lie at values[starts[c]]
 * up to values[starts[c + 1]]. Their order within a coordinate is the inputs' and must not matter. */
static void collect_block(struct merge *merge, size_t t, uint32_t block)
{
    const struct skep_tiling *tiling = &tensor_of(merge, 0, t)->tiling;
    uint32_t size = tiling->tile_rows * tiling->tile_columns;
    size_t first = (size_t)block * tiling->kept;
    uint32_t *starts = merge->starts;
    memset(starts, 0, (size + 1) * sizeof *starts);
    for (size_t i = 0; i < merge->input_count; i++) {
        const uint16_t *indices = tensor_of(merge, i, t)->indices + first;
        for (uint32_t k = 0; k < tiling->kept; k++) {
            starts[indices[k]]++;
        }
    }
    uint32_t sum = 0;
    for (uint32_t place = 0; place <= size; place++) {
        sum += starts[place];
        starts[place] = sum; /* where this coordinate ends; filled from its end below */
    }
    for (size_t i = 0; i < merge->input_count; i++) {
        const struct skep_update_tensor *tensor = tensor_of(merge, i, t);
        const int64_t *entries = merge->entries + entry_at(merge, i, t);
        for (size_t k = first; k < first + tiling->kept; k++) {
            merge->values[--starts[tensor->indices[k]]] = entries[tensor->codes[k] & 3];
        }
    }
}

/*
 * Step 2 for one coordinate: the mean of all n updates without the f least and the f greatest, where the n - count that did
 * not send it count as 0. Sorted, those zeros lie between the negative and the other values, so they need not be written down.
 */
static int64_t combine(const struct merge *merge, int64_t *values, size_t count)
{
    size_t n = merge->input_count;
    size_t f = merge->trimmed;
    assert(n > 2 * f && "check_arguments() lets less than half be trimmed at each end");
    if (f > 0) {
        sort(values, count);
    }
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        size_t rank = values[i] < 0 ? i : i + (n - count);
        if (rank >= f && rank < n - f) {
            sum += values[i];
        }
    }
    return sum / (int64_t)(n - 2 * f);
}

static void measure_value(struct merge *merge, int64_t aggregate)
{
    uint64_t magnitude = (uint64_t)(aggregate < 0 ? -aggregate : aggregate);
    merge->largest = magnitude > merge->largest ? magnitude : merge->largest;
    merge->square += square_of(aggregate);
}

/* Step 4 for one value. Where the step is 0 the float keeps its bits, also those that the fixed point cannot hold. */
static void step_value(const struct merge *merge, int64_t aggregate, float *parameter)
{
    int64_t step = skep_fixed_scale(aggregate, merge->step_ratio, RATIO_BITS);
    if (step != 0) {
        *parameter = skep_fixed_to_float(skep_fixed_from_float(*parameter) - step);
    }
}

/* Visits each coordinate that any update sent: measures its aggregate, or steps if there are `parameters`. */
static void visit_tensor(struct merge *merge, size_t t, float *parameters)
{
    const struct skep_tiling *tiling = &tensor_of(merge, 0, t)->tiling;
    uint32_t size = tiling->tile_rows * tiling->tile_columns;
    for (uint32_t block = 0; block < tiling->blocks; block++) {
        collect_block(merge, t, block);
        for (uint32_t place = 0; place < size; place++) {
            uint32_t start = merge->starts[place];
            uint32_t count = merge->starts[place + 1] - start;
            if (count == 0) {
                continue;
            }
            int64_t aggregate = combine(merge, merge->values + start, count);
            if (parameters == NULL) {
                measure_value(merge, aggregate);
            } else if (aggregate != 0) {
                size_t at = merge->offsets[t] + skep_tiling_place(tiling, block, place);
                step_value(merge, aggregate, &parameters[at]);
            }
        }
    }
}

static void visit(struct merge *merge, float *parameters)
{
    for (size_t t = 0; t < merge->tensor_count; t++) {
        visit_tensor(merge, t, parameters);
    }
}

/* Step 3: clamp(target / norm, 1, 2) * alpha. */
static uint64_t step_ratio_of(uint64_t target, uint64_t norm, uint32_t step_permille)
{
    const unsigned __int128 most = (unsigned __int128)2 << RATIO_BITS;
    unsigned __int128 ratio =
        norm == 0 ? RATIO_ONE : ((unsigned __int128)target << RATIO_BITS) / norm;
    ratio = ratio < RATIO_ONE ? RATIO_ONE : ratio;
    ratio = ratio > most ? most : ratio;
    return (uint64_t)(ratio * step_permille / 1000);
}

/* The largest value and the largest step need not meet, but if their sum is within range then all are, and no value needs to
 * be written before that is known. */
static int check_step(const struct merge *merge, uint64_t largest_state, struct skep_error *err)
{
    unsigned __int128 step = (unsigned __int128)merge->largest * merge->step_ratio >> RATIO_BITS;
    if (step + largest_state > (unsigned __int128)STATE_LIMIT) {
        return skep_error_set(
            err, SKEP_ERR_NUMERIC,
            "a step of up to %g from values of up to %g could leave -2^30 .. 2^30",
            (double)step / 4294967296.0, (double)largest_state / 4294967296.0);
    }
    return SKEP_OK;
}

static int allocate(struct merge *merge, struct skep_error *err)
{
    size_t entries = merge->input_count * merge->tensor_count * 4;
    uint32_t kept = 0;
    for (size_t t = 0; t < merge->tensor_count; t++) {
        uint32_t this_kept = tensor_of(merge, 0, t)->tiling.kept;
        kept = this_kept > kept ? this_kept : kept;
    }
    merge->entries = calloc(entries + 1, sizeof *merge->entries);
    merge->code_counts = calloc(entries + 1, sizeof *merge->code_counts);
    merge->values = calloc(merge->input_count * kept + 1, sizeof *merge->values);
    if (merge->entries == NULL || merge->code_counts == NULL || merge->values == NULL) {
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory to merge %zu updates of %zu tensors",
                              merge->input_count, merge->tensor_count);
    }
    return SKEP_OK;
}

static int run(struct merge *merge, const struct skep_merge_config *config, float *parameters,
               struct skep_error *err)
{
    uint64_t largest_state = 0;
    int rc = check_state(parameters, merge->offsets[merge->tensor_count], &largest_state, err);
    if (rc != SKEP_OK || merge->input_count == 0) {
        return rc;
    }
    rc = allocate(merge, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    load_entries(merge);
    uint64_t target = clip_and_weight(merge);
    visit(merge, NULL);
    merge->step_ratio =
        step_ratio_of(target, skep_fixed_root(merge->square), config->step_permille);
    rc = check_step(merge, largest_state, err);
    if (rc == SKEP_OK) {
        visit(merge, parameters);
    }
    return rc;
}

int skep_merge(const struct skep_merge_shard *shard, const struct skep_merge_input *inputs,
               size_t input_count, const struct skep_merge_options *options,
               struct skep_merge_report *ret_report, struct skep_error *err)
{
    const struct skep_merge_config *config = options->config;
    struct merge merge = {
        .inputs = inputs,
        .input_count = input_count,
        .offsets = shard->offsets,
        .tensor_count = shard->tensor_count,
    };
    (void)ret_report;
    if (config->rule != SKEP_MERGE_MEAN && input_count >= LEAST_TO_TRIM) {
        merge.trimmed = input_count * config->liars_permille / 1000;
    }
    int rc = check_arguments(&merge, err);
    if (rc == SKEP_OK) {
        rc = run(&merge, config, shard->parameters, err);
    }
    free(merge.entries);
    free(merge.code_counts);
    free(merge.values);
    return rc;
}
