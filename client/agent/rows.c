#include "client/agent/rows.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/base/rng.h"
#include "common/model/model.h"

/* The row with the highest score of those not taken yet; the first of equals. There must be one. */
static uint32_t best_row(const float *scores, uint32_t rows, const bool *taken)
{
    uint32_t best = rows;
    for (uint32_t row = 0; row < rows; row++) {
        if (!taken[row] && (best == rows || scores[row] > scores[best])) {
            best = row;
        }
    }
    return best;
}

void skep_rows_count(const float *scores, uint32_t layers, uint32_t rows, uint32_t per_window,
                     uint64_t *counts)
{
    bool *taken = skep_alloc(rows, sizeof *taken);
    for (uint32_t layer = 0; layer < layers; layer++) {
        const float *of_layer = scores + (size_t)layer * rows;
        memset(taken, 0, rows * sizeof *taken);
        for (uint32_t n = 0; n < per_window && n < rows; n++) {
            uint32_t best = best_row(of_layer, rows, taken);
            taken[best] = true;
            counts[(size_t)layer * rows + best]++;
        }
    }
    free(taken);
}

void skep_rows_best(const uint64_t *counts, uint32_t rows, uint32_t want, bool *ret_chosen)
{
    memset(ret_chosen, 0, rows * sizeof *ret_chosen);
    for (uint32_t n = 0; n < want && n < rows; n++) {
        uint32_t best = rows;
        for (uint32_t row = 0; row < rows; row++) {
            if (!ret_chosen[row] && (best == rows || counts[row] > counts[best])) {
                best = row;
            }
        }
        ret_chosen[best] = true;
    }
}

void skep_rows_draw(const struct skep_hash *ticket, uint32_t layer, uint32_t rows, uint32_t want,
                    bool *ret_chosen)
{
    uint8_t seed[SKEP_ID_SIZE + 4];
    memcpy(seed, ticket->bytes, SKEP_ID_SIZE);
    skep_put_u32(seed + SKEP_ID_SIZE, layer);
    struct skep_rng rng = skep_rng_of_bytes(seed, sizeof seed);
    memset(ret_chosen, 0, rows * sizeof *ret_chosen);
    /* Floyd's sampling: each of the subsets of this size is equally likely */
    uint32_t count = want < rows ? want : rows;
    for (uint32_t i = rows - count; i < rows; i++) {
        uint64_t pick = skep_rng_below(&rng, (uint64_t)i + 1);
        ret_chosen[ret_chosen[pick] ? i : pick] = true;
    }
}

static int count_windows(const struct skep_rows_input *input, struct skep_model *lm,
                         uint64_t *counts, struct skep_error *err)
{
    const struct skep_model_config *model = &input->manifest->model;
    const struct skep_training_config *training = &input->manifest->training;
    size_t window = skep_model_config_window(model);
    uint8_t *tokens = skep_alloc(training->batch, window);
    float *scores = skep_alloc((size_t)model->layers * model->rows, sizeof *scores);
    uint32_t windows = 0;
    int rc = 0;
    for (uint32_t step = 0; step < training->steps && windows < SKEP_ROWS_WINDOWS; step++) {
        rc = skep_slice_batch(model, input->chunks, input->chunk_count, input->ticket, step,
                              training->batch, tokens, err);
        if (rc != 0) {
            break;
        }
        for (uint32_t i = 0; i < training->batch && windows < SKEP_ROWS_WINDOWS && rc == 0;
             i++, windows++) {
            rc = skep_model_score_rows(lm, tokens + i * window, 1, scores, err);
            if (rc == 0) {
                skep_rows_count(scores, model->layers, model->rows, model->rows_per_token, counts);
            }
        }
    }
    free(tokens);
    free(scores);
    return rc;
}

int skep_rows_choose(const struct skep_rows_input *input, bool *ret_chosen, struct skep_error *err)
{
    const struct skep_model_config *model = &input->manifest->model;
    uint32_t want = input->manifest->training.donor_rows;
    struct skep_model *lm = NULL;
    if (model->route == SKEP_ROUTE_TOKEN) {
        for (uint32_t layer = 0; layer < model->layers; layer++) {
            skep_rows_draw(input->ticket, layer, model->rows, want,
                           ret_chosen + (size_t)layer * model->rows);
        }
        return 0;
    }
    struct skep_model_options options = {.batch = 1, .forward_only = true};
    int rc = skep_model_new(model, &options, &lm, err);
    if (rc != 0) {
        return rc;
    }
    uint64_t *counts = skep_alloc((size_t)model->layers * model->rows, sizeof *counts);
    struct skep_shard trunk = {.kind = SKEP_SHARD_TRUNK};
    rc = skep_model_set(lm, &trunk, input->trunk);
    if (rc == 0) {
        rc = count_windows(input, lm, counts, err);
    } else {
        skep_error_set(err, (enum skep_err)rc, "no memory for the trunk");
    }
    for (uint32_t layer = 0; layer < model->layers && rc == 0; layer++) {
        skep_rows_best(counts + (size_t)layer * model->rows, model->rows, want,
                       ret_chosen + (size_t)layer * model->rows);
    }
    free(counts);
    skep_model_free(lm);
    return rc;
}
