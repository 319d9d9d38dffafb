#include <string.h>

#include "common/merge/merge-round.h"

static int check_input(const struct skep_merge_round *merge, size_t input, struct skep_error *err)
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

static int check_options(const struct skep_merge_round *merge, struct skep_error *err)
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

/* Rising hashes, whatever order the inputs came in. */
static int sort_inputs(struct skep_merge_round *merge, struct skep_error *err)
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

int skep_merge_check(struct skep_merge_round *merge, struct skep_error *err)
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
