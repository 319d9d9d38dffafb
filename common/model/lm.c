#include "common/model/lm.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/model/attention.h"
#include "common/model/expert.h"
#include "common/model/gate.h"
#include "common/model/head.h"
#include "common/model/lm-state.h"

/* Returns the mean over layers of the gates' squared logsumexp. */
static double run(struct skep_lm *lm, const struct skep_lm_pass *pass)
{
    assert(pass->batch > 0 && pass->batch <= lm->batch_limit);
    assert(pass->length > 0 && pass->length <= lm->config.context);
    assert(pass->first_output < pass->length);
    lm->batch = pass->batch;
    lm->length = pass->length;
    lm->first_output = pass->first_output;
    lm->prefix = pass->length < lm->config.prefix ? pass->length : lm->config.prefix;
    lm->complete = false;
    for (uint32_t b = 0; b < pass->batch; b++) {
        memcpy(lm->inputs + (size_t)b * pass->length, pass->tokens + b * pass->stride,
               pass->length);
    }
    skep_embed_forward(lm);
    skep_gate_prefix(lm);
    double z = 0;
    for (uint32_t l = 0; l < lm->config.layers; l++) {
        skep_attention_forward(lm, l);
        z += skep_gate_forward(lm, l);
        skep_experts_forward(lm, l);
    }
    skep_head_forward(lm);
    return z / lm->config.layers;
}

void skep_lm_run(struct skep_lm *lm, const struct skep_lm_pass *pass)
{
    run(lm, pass);
}

/* Only a vocabulary below 256 leaves bytes without an embedding. */
static int check_bytes(const struct skep_lm *lm, const uint8_t *tokens, size_t count,
                       struct skep_error *err)
{
    for (size_t i = 0; lm->config.vocabulary < 256 && i < count; i++) {
        if (tokens[i] >= lm->config.vocabulary) {
            return skep_error_set(err, SKEP_ERR_FORMAT,
                                  "byte %zu of the text is %u, expected one below the vocabulary "
                                  "of %u",
                                  i, tokens[i], lm->config.vocabulary);
        }
    }
    return SKEP_OK;
}

int skep_lm_forward(struct skep_lm *lm, const uint8_t *tokens, uint32_t batch,
                    struct skep_lm_loss *ret_loss, struct skep_error *err)
{
    /* The byte at place T - 1 is predicted but predicts nothing, so it is not run through the model. */
    uint32_t context = lm->config.context;
    struct skep_lm_pass pass = {.tokens = tokens,
                                .stride = context,
                                .batch = batch,
                                .length = context - 1,
                                .first_output = lm->config.prefix - 1};
    int rc = check_bytes(lm, tokens, (size_t)batch * context, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    double z = run(lm, &pass);
    size_t each = context - lm->config.prefix;
    for (uint32_t b = 0; b < batch; b++) {
        memcpy(lm->targets + b * each, tokens + (size_t)b * context + lm->config.prefix, each);
    }
    struct skep_lm_loss loss = {.sum_nats = skep_head_loss(lm), .tokens = batch * each, .z = z};
    if (!isfinite(loss.sum_nats) || !isfinite(loss.z)) {
        return skep_error_set(err, SKEP_ERR_NUMERIC,
                              "the loss of a batch is %f with z %f, expected finite numbers",
                              loss.sum_nats, loss.z);
    }
    lm->complete = true;
    *ret_loss = loss;
    return SKEP_OK;
}

double skep_lm_gradient_squares(const struct skep_lm *lm)
{
    double sum = lm->trunk_gradient_squares;
    for (size_t i = 0; i < lm->config.layers * skep_lm_grid(lm); i++) {
        if (lm->experts[i].values != NULL) {
            sum += lm->experts[i].gradient_squares;
        }
    }
    return sum;
}

int skep_lm_backward(struct skep_lm *lm, double z_loss, struct skep_error *err)
{
    if (!lm->complete) {
        return skep_error_set(err, SKEP_ERR_STATE,
                              "a backward pass was asked for without a forward pass before it");
    }
    lm->complete = false; /* the logits become their gradients */
    size_t d = lm->config.dim;
    memset(lm->trunk_gradient.values, 0, lm->trunk_parameters * sizeof *lm->trunk.values);
    memset(lm->dprefix, 0, lm->batch * d * sizeof *lm->dprefix);
    skep_head_backward(lm);
    for (uint32_t l = lm->config.layers; l-- > 0;) {
        size_t tokens = skep_lm_tokens(lm);
        memset(lm->dhat, 0, tokens * d * sizeof *lm->dhat);
        skep_experts_backward(lm, l);
        skep_gate_backward(lm, l, z_loss);
        skep_normalise_backward((struct skep_rows){tokens, d, NULL}, lm->dhat, lm->kept[l].mid_hat,
                                lm->kept[l].mid_scale, lm->dx);
        skep_attention_backward(lm, l);
    }
    skep_embed_backward(lm);
    skep_gate_prefix_backward(lm);
    lm->trunk_gradient_squares = skep_sum_squares(lm->trunk_gradient.values, lm->trunk_parameters);
    if (!isfinite(skep_lm_gradient_squares(lm))) {
        return skep_error_set(err, SKEP_ERR_NUMERIC,
                              "a gradient of the batch is not finite (sum of squares %f)",
                              skep_lm_gradient_squares(lm));
    }
    return SKEP_OK;
}

void skep_lm_loads(const struct skep_lm *lm, uint32_t layer, uint64_t *ret_rows,
                   uint64_t *ret_columns)
{
    uint32_t columns = lm->config.columns;
    size_t k = lm->config.experts_per_token;
    memset(ret_rows, 0, lm->config.rows * sizeof *ret_rows);
    memset(ret_columns, 0, columns * sizeof *ret_columns);
    for (size_t n = 0; n < skep_lm_tokens(lm); n++) {
        const uint32_t *chosen = lm->kept[layer].chosen + n * k;
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

int skep_lm_next(struct skep_lm *lm, const uint8_t *tokens, uint32_t count, float *ret_logits,
                 struct skep_error *err)
{
    if (count == 0 || count > lm->config.context) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "%u bytes to continue, expected 1 to %u (the model's context)", count,
                              lm->config.context);
    }
    int rc = check_bytes(lm, tokens, count, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    struct skep_lm_pass pass = {
        .tokens = tokens, .stride = count, .batch = 1, .length = count, .first_output = count - 1};
    run(lm, &pass);
    for (uint32_t i = 0; i < lm->config.vocabulary; i++) {
        if (!isfinite((double)lm->logits[i])) {
            return skep_error_set(err, SKEP_ERR_NUMERIC,
                                  "the logit of byte %u is %f, expected a finite number", i,
                                  (double)lm->logits[i]);
        }
        ret_logits[i] = (float)lm->logits[i];
    }
    return SKEP_OK;
}

/* Row scores of one gate for one input, with balance. */
static void add_row_scores(const struct skep_lm *lm, uint32_t layer, const skep_real *input,
                           double weight, float *scores)
{
    size_t d = lm->config.dim;
    for (uint32_t r = 0; r < lm->config.rows; r++) {
        const skep_real *gate = lm->trunk.layers[layer].gate_row + r * d;
        double sum = 0;
        for (size_t j = 0; j < d; j++) {
            sum += (double)gate[j] * (double)input[j];
        }
        scores[r] += (float)(sum * weight);
    }
}

static void embed(const struct skep_lm *lm, uint8_t byte, uint32_t place, skep_real *x)
{
    size_t d = lm->config.dim;
    memcpy(x, lm->trunk.token + byte * d, d * sizeof *x);
    skep_add(lm->trunk.position + place * d, d, x);
}

/* One place of the prefix towards the mean of all layers' scores. `normed` is scratch of 2d values. */
static void score_place(const struct skep_lm *lm, const skep_real *x, skep_real *normed,
                        float *scores)
{
    double weight = 1.0 / lm->config.prefix;
    struct skep_rows row = {1, lm->config.dim, NULL};
    for (uint32_t l = 0; l < lm->config.layers; l++) {
        const skep_real *input = x;
        if (lm->config.route == SKEP_ROUTE_TOKEN) {
            skep_real scale;
            skep_normalise(row, x, normed, &scale);
            skep_affine_forward(row, normed, lm->trunk.layers[l].norm, normed + lm->config.dim);
            input = normed + lm->config.dim;
        }
        add_row_scores(lm, l, input, weight, scores + (size_t)l * lm->config.rows);
    }
}

void skep_lm_score_rows(const struct skep_lm *lm, const uint8_t *tokens, float *ret_scores)
{
    size_t rows = lm->config.rows;
    skep_real *x = skep_alloc(3 * (size_t)lm->config.dim, sizeof *x);
    for (uint32_t l = 0; l < lm->config.layers; l++) {
        for (size_t r = 0; r < rows; r++) {
            ret_scores[l * rows + r] = (float)lm->trunk.layers[l].balance_row[r];
        }
    }
    for (uint32_t t = 0; t < lm->config.prefix; t++) {
        assert(tokens[t] < lm->config.vocabulary);
        embed(lm, tokens[t], t, x);
        score_place(lm, x, x + lm->config.dim, ret_scores);
    }
    free(x);
}
