#include "common/model/model.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/model/attention.h"
#include "common/model/experts.h"
#include "common/model/gate.h"
#include "common/model/head.h"
#include "common/model/model-state.h"

/* Returns the mean over layers of the gates' squared logsumexp. */
static double run(struct skep_model *model, const struct skep_model_pass *pass)
{
    assert(pass->batch > 0 && pass->batch <= model->batch_limit);
    assert(pass->length > 0 && pass->length <= model->config.context);
    assert(pass->first_output < pass->length);
    model->batch = pass->batch;
    model->length = pass->length;
    model->first_output = pass->first_output;
    model->prefix = pass->length < model->config.prefix ? pass->length : model->config.prefix;
    model->complete = false;
    for (uint32_t b = 0; b < pass->batch; b++) {
        memcpy(model->inputs + (size_t)b * pass->length, pass->tokens + b * pass->stride,
               pass->length);
    }
    skep_embed_forward(model);
    skep_gate_prefix(model);
    double z = 0;
    for (uint32_t l = 0; l < model->config.layers; l++) {
        skep_attention_forward(model, l);
        z += skep_gate_forward(model, l);
        skep_experts_forward(model, l);
    }
    skep_head_forward(model);
    return z / model->config.layers;
}

void skep_model_run(struct skep_model *model, const struct skep_model_pass *pass)
{
    run(model, pass);
}

/* Only a vocabulary below 256 leaves bytes without an embedding. */
static int check_bytes(const struct skep_model *model, const uint8_t *tokens, size_t count,
                       struct skep_error *err)
{
    for (size_t i = 0; model->config.vocabulary < 256 && i < count; i++) {
        if (tokens[i] >= model->config.vocabulary) {
            return skep_error_set(err, SKEP_ERR_FORMAT,
                                  "byte %zu of the text is %u, expected one below the vocabulary "
                                  "of %u",
                                  i, tokens[i], model->config.vocabulary);
        }
    }
    return SKEP_OK;
}

int skep_model_forward(struct skep_model *model, const uint8_t *tokens, uint32_t batch,
                       struct skep_model_loss *ret_loss, struct skep_error *err)
{
    /* The byte at place T - 1 is predicted but predicts nothing, so it is not run through the model. */
    uint32_t context = model->config.context;
    struct skep_model_pass pass = {.tokens = tokens,
                                   .stride = context,
                                   .batch = batch,
                                   .length = context - 1,
                                   .first_output = model->config.prefix - 1};
    int rc = check_bytes(model, tokens, (size_t)batch * context, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    double z = run(model, &pass);
    size_t each = context - model->config.prefix;
    for (uint32_t b = 0; b < batch; b++) {
        memcpy(model->targets + b * each, tokens + (size_t)b * context + model->config.prefix,
               each);
    }
    struct skep_model_loss loss = {
        .sum_nats = skep_head_loss(model), .tokens = batch * each, .z = z};
    if (!isfinite(loss.sum_nats) || !isfinite(loss.z)) {
        return skep_error_set(err, SKEP_ERR_NUMERIC,
                              "the loss of a batch is %f with z %f, expected finite numbers",
                              loss.sum_nats, loss.z);
    }
    model->complete = true;
    *ret_loss = loss;
    return SKEP_OK;
}

double skep_model_gradient_squares(const struct skep_model *model)
{
    double sum = model->trunk_gradient_squares;
    for (size_t i = 0; i < model->config.layers * skep_model_grid(model); i++) {
        if (model->experts[i].values != NULL) {
            sum += model->experts[i].gradient_squares;
        }
    }
    return sum;
}

int skep_model_backward(struct skep_model *model, double z_loss, struct skep_error *err)
{
    if (!model->complete) {
        return skep_error_set(err, SKEP_ERR_STATE,
                              "a backward pass was asked for without a forward pass before it");
    }
    model->complete = false; /* the logits become their gradients */
    size_t d = model->config.dim;
    memset(model->trunk_gradient.values, 0, model->trunk_parameters * sizeof *model->trunk.values);
    memset(model->dprefix, 0, model->batch * d * sizeof *model->dprefix);
    skep_head_backward(model);
    for (uint32_t l = model->config.layers; l-- > 0;) {
        size_t tokens = skep_model_tokens(model);
        memset(model->dhat, 0, tokens * d * sizeof *model->dhat);
        skep_experts_backward(model, l);
        skep_gate_backward(model, l, z_loss);
        skep_normalise_backward((struct skep_rows){tokens, d, NULL}, model->dhat,
                                model->kept[l].mid_hat, model->kept[l].mid_scale, model->dx);
        skep_attention_backward(model, l);
    }
    skep_embed_backward(model);
    skep_gate_prefix_backward(model);
    model->trunk_gradient_squares =
        skep_sum_squares(model->trunk_gradient.values, model->trunk_parameters);
    if (!isfinite(skep_model_gradient_squares(model))) {
        return skep_error_set(err, SKEP_ERR_NUMERIC,
                              "a gradient of the batch is not finite (sum of squares %f)",
                              skep_model_gradient_squares(model));
    }
    return SKEP_OK;
}

void skep_model_loads(const struct skep_model *model, uint32_t layer, uint64_t *ret_rows,
                      uint64_t *ret_columns)
{
    uint32_t columns = model->config.columns;
    size_t k = model->config.experts_per_token;
    memset(ret_rows, 0, model->config.rows * sizeof *ret_rows);
    memset(ret_columns, 0, columns * sizeof *ret_columns);
    for (size_t n = 0; n < skep_model_tokens(model); n++) {
        const uint32_t *chosen = model->kept[layer].chosen + n * k;
        for (size_t i = 0; i < k && chosen[i] != SKEP_NO_EXPERT; i++) {
            bool row_seen = false;
            bool column_seen = false;
            for (size_t j = 0; j < i; j++) {
                row_seen |= chosen[j] / columns == chosen[i] / columns;
                column_seen |= chosen[j] % columns == chosen[i] % columns;
            }
            ret_rows[chosen[i] / columns] += !row_seen;
            ret_columns[chosen[i] % columns] += !column_seen;
        }
    }
}

int skep_model_next(struct skep_model *model, const uint8_t *tokens, uint32_t count,
                    float *ret_logits, struct skep_error *err)
{
    if (count == 0 || count > model->config.context) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "%u bytes to continue, expected 1 to %u (the model's context)", count,
                              model->config.context);
    }
    int rc = check_bytes(model, tokens, count, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    struct skep_model_pass pass = {
        .tokens = tokens, .stride = count, .batch = 1, .length = count, .first_output = count - 1};
    run(model, &pass);
    for (uint32_t i = 0; i < model->config.vocabulary; i++) {
        if (!isfinite((double)model->logits[i])) {
            return skep_error_set(err, SKEP_ERR_NUMERIC,
                                  "the logit of byte %u is %f, expected a finite number", i,
                                  (double)model->logits[i]);
        }
        ret_logits[i] = (float)model->logits[i];
    }
    return SKEP_OK;
}

/* Row scores of one gate for one input, with balance. */
static void add_row_scores(const struct skep_model *model, uint32_t layer, const skep_real *input,
                           double weight, float *scores)
{
    size_t d = model->config.dim;
    for (uint32_t r = 0; r < model->config.rows; r++) {
        const skep_real *gate = model->trunk.layers[layer].gate_row + r * d;
        double sum = 0;
        for (size_t j = 0; j < d; j++) {
            sum += (double)gate[j] * (double)input[j];
        }
        scores[r] += (float)(sum * weight);
    }
}

static void embed(const struct skep_model *model, uint8_t byte, uint32_t place, skep_real *x)
{
    size_t d = model->config.dim;
    memcpy(x, model->trunk.token + byte * d, d * sizeof *x);
    skep_add(model->trunk.position + place * d, d, x);
}

/* One place of the prefix towards the mean of all layers' scores. `normed` is scratch of 2d values. */
static void score_place(const struct skep_model *model, const skep_real *x, skep_real *normed,
                        float *scores)
{
    double weight = 1.0 / model->config.prefix;
    struct skep_rows row = {1, model->config.dim, NULL};
    for (uint32_t l = 0; l < model->config.layers; l++) {
        const skep_real *input = x;
        if (model->config.route == SKEP_ROUTE_TOKEN) {
            skep_real scale;
            skep_normalise(row, x, normed, &scale);
            skep_affine_forward(row, normed, model->trunk.layers[l].norm,
                                normed + model->config.dim);
            input = normed + model->config.dim;
        }
        add_row_scores(model, l, input, weight, scores + (size_t)l * model->config.rows);
    }
}

void skep_model_score_rows(const struct skep_model *model, const uint8_t *tokens, float *ret_scores)
{
    size_t rows = model->config.rows;
    skep_real *x = skep_alloc(3 * (size_t)model->config.dim, sizeof *x);
    for (uint32_t l = 0; l < model->config.layers; l++) {
        for (size_t r = 0; r < rows; r++) {
            ret_scores[l * rows + r] = (float)model->trunk.layers[l].balance_row[r];
        }
    }
    for (uint32_t t = 0; t < model->config.prefix; t++) {
        assert(tokens[t] < model->config.vocabulary);
        embed(model, tokens[t], t, x);
        score_place(model, x, x + model->config.dim, ret_scores);
    }
    free(x);
}
