/* Which rows a text wants, from the trunk alone. */
#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/model/ends.h"
#include "common/model/model-state.h"

/* One window's bytes as they enter the model, into model->x; returns how many rows that are. */
static size_t embed_window(struct skep_model *model, const uint8_t *window)
{
    bool lm = skep_model_is_lm(model);
    uint32_t places = lm ? model->config.prefix : 1;
    struct skep_model_pass pass = {
        .records = window, .stride = model->config.inputs, .batch = 1, .length = places};
    skep_embed_bytes(model, &pass, model->x);
    return places;
}

/* Adds weight times the mean scores of x [places, d] to scores [R]; `fetched` has room for R values. */
static void score_layer(struct skep_model *model, uint32_t layer, size_t places, float weight,
                        float *fetched, float *scores)
{
    const struct skep_ops *ops = model->ops;
    const struct skep_model_layer *trunk = &model->trunk.layers[layer];
    struct skep_model_inner *inner = &model->kept[layer].inner;
    size_t rows = model->config.rows;
    struct skep_rows each = {places, model->config.dim, NULL};
    const skep_real *from = model->x;
    if (model->config.route == SKEP_ROUTE_TOKEN) {
        ops->normalise(each, model->x, inner->mid_hat, inner->mid_scale);
        ops->affine(each, inner->mid_hat, trunk->norm, inner->mid_norm);
        from = inner->mid_norm;
    }
    /* the mean of the scores is the score of the mean */
    skep_real *mean = inner->mid_hat;
    ops->fill(each.dim, 0, mean);
    ops->rows_sum(each, from, mean);
    ops->scale(each.dim, 1 / (skep_real)places, mean);
    skep_linear_forward(ops, (struct skep_linear){1, each.dim, rows}, mean, trunk->gate_row, 0,
                        model->row_scores);
    skep_model_copy_out(ops, model->row_scores, rows, fetched);
    for (size_t r = 0; r < rows; r++) {
        scores[r] += weight * fetched[r];
    }
}

int skep_model_score_rows(struct skep_model *model, const uint8_t *windows, uint32_t count,
                          float *ret_scores, struct skep_error *err)
{
    size_t rows = model->config.rows;
    size_t window = skep_model_config_window(&model->config);
    float *fetched = skep_alloc(rows, sizeof *fetched);
    int rc = SKEP_OK;
    model->complete = false;
    for (uint32_t l = 0; l < model->config.layers; l++) {
        skep_model_copy_out(model->ops, model->trunk.layers[l].balance_row, rows,
                            ret_scores + l * rows);
    }
    for (uint32_t w = 0; w < count && rc == SKEP_OK; w++) {
        rc = skep_model_check_bytes(model, windows + w * window, model->config.prefix, err);
        size_t places = rc == SKEP_OK ? embed_window(model, windows + w * window) : 0;
        for (uint32_t l = 0; l < model->config.layers && rc == SKEP_OK; l++) {
            score_layer(model, l, places, 1 / (float)count, fetched, ret_scores + l * rows);
        }
    }
    free(fetched);
    rc = rc != SKEP_OK ? rc : model->ops->status(err);
    return rc != SKEP_OK ? rc : skep_model_stopped("scoring", err);
}
