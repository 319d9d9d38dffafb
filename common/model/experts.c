#include "common/model/experts.h"

#include <string.h>

#include "common/tensor/gemm.h"

size_t skep_model_expert_parameters(const struct skep_model_config *config)
{
    size_t d = config->dim;
    size_t h = config->hidden;
    return 2 * d + h * d + h + d * h + d;
}

/* Layout order (layout.h). */
static struct skep_model_ffn ffn_of(const struct skep_model_config *config, skep_real *values)
{
    size_t d = config->dim;
    size_t h = config->hidden;
    struct skep_model_ffn ffn = {.norm = {values, values + d}};
    ffn.up = values + 2 * d;
    ffn.up_bias = ffn.up + h * d;
    ffn.down = ffn.up_bias + h;
    ffn.down_bias = ffn.down + d * h;
    return ffn;
}

/* Nothing reads what the last layer makes of tokens before the first output, so no expert need work on them. */
static bool is_needed(const struct skep_model *model, uint32_t layer, size_t token)
{
    return layer + 1 < model->config.layers || token % model->length >= model->first_output;
}

/* Sorts the (token, expert) pairs by expert: a counting sort, so tokens stay in order. */
static void group(struct skep_model *model, uint32_t layer)
{
    struct skep_model_kept *kept = &model->kept[layer];
    size_t grid = skep_model_grid(model);
    size_t k = model->config.experts_per_token;
    size_t places = skep_model_tokens(model) * k;
    memset(kept->first, 0, (grid + 1) * sizeof *kept->first);
    for (size_t i = 0; i < places; i++) {
        if (kept->chosen[i] != SKEP_NO_EXPERT && is_needed(model, layer, i / k)) {
            kept->first[kept->chosen[i]]++;
        }
    }
    size_t end = 0;
    for (size_t e = 0; e <= grid; e++) {
        end += kept->first[e];
        kept->first[e] = end;
    }
    for (size_t i = places; i-- > 0;) {
        if (kept->chosen[i] != SKEP_NO_EXPERT && is_needed(model, layer, i / k)) {
            size_t pair = --kept->first[kept->chosen[i]];
            kept->pair_token[pair] = (uint32_t)(i / k);
            kept->pair_place[pair] = (uint32_t)i;
            kept->pair_weight[pair] = kept->weight[i];
        }
    }
}

static void expert_forward(struct skep_model *model, struct skep_model_kept *kept,
                           skep_real *values, size_t first, size_t count)
{
    size_t d = model->config.dim;
    size_t h = model->config.hidden;
    struct skep_model_ffn ffn = ffn_of(&model->config, values);
    struct skep_rows rows = {count, d, kept->pair_token + first};
    skep_real *in = kept->expert_in + first * d;
    skep_real *pre = kept->slope + first * h;
    skep_real *active = kept->active + first * h;
    skep_real *out = kept->expert_out + first * d;
    skep_affine_forward(rows, kept->mid_hat, ffn.norm, in);
    skep_cblas_linear_forward((struct skep_linear){count, d, h}, in, ffn.up, 0, pre);
    skep_gelu((struct skep_rows){count, h, NULL}, pre, ffn.up_bias, active);
    skep_cblas_linear_forward((struct skep_linear){count, h, d}, active, ffn.down, 0, out);
    skep_rows_combine(rows, out, ffn.down_bias, kept->pair_weight + first, model->x);
}

void skep_experts_forward(struct skep_model *model, uint32_t layer)
{
    struct skep_model_kept *kept = &model->kept[layer];
    size_t grid = skep_model_grid(model);
    group(model, layer);
    for (size_t e = 0; e < grid; e++) {
        size_t count = kept->first[e + 1] - kept->first[e];
        if (count > 0) {
            expert_forward(model, kept, skep_model_expert_at(model, layer, e)->values,
                           kept->first[e], count);
        }
    }
}

static void expert_backward(struct skep_model *model, const struct skep_model_kept *kept,
                            const struct skep_model_expert *expert, size_t first, size_t count)
{
    size_t d = model->config.dim;
    size_t h = model->config.hidden;
    struct skep_model_ffn ffn = ffn_of(&model->config, expert->values);
    struct skep_model_ffn gradient = ffn_of(&model->config, expert->gradients);
    struct skep_rows pairs = {count, d, kept->pair_token + first};
    struct skep_rows hidden = {count, h, NULL};
    struct skep_linear up = {count, d, h};
    struct skep_linear down = {count, h, d};
    skep_real *dout = model->dpair;
    skep_real *din = model->dpair_in;
    skep_rows_combine_backward(pairs, model->dx, kept->expert_out + first * d,
                               kept->pair_weight + first, dout, model->dpair_weight);
    for (size_t i = 0; i < count; i++) {
        model->dweight[kept->pair_place[first + i]] = model->dpair_weight[i];
    }
    skep_rows_sum(pairs, dout, gradient.down_bias);
    skep_cblas_linear_weights(down, dout, kept->active + first * h, 0, gradient.down);
    skep_cblas_linear_inputs(down, dout, ffn.down, 0, model->dactive);
    skep_multiply(kept->slope + first * h, count * h, model->dactive);
    skep_rows_sum(hidden, model->dactive, gradient.up_bias);
    skep_cblas_linear_weights(up, model->dactive, kept->expert_in + first * d, 0, gradient.up);
    skep_cblas_linear_inputs(up, model->dactive, ffn.up, 0, din);
    skep_affine_backward(pairs, din, kept->mid_hat, ffn.norm, model->dhat, gradient.norm);
}

/* The weights' gradients are written whole; the vectors' are added to, so only those are cleared. */
static void clear_vectors(const struct skep_model_config *config, skep_real *gradients)
{
    struct skep_model_ffn ffn = ffn_of(config, gradients);
    memset(ffn.norm.gain, 0, config->dim * sizeof *gradients);
    memset(ffn.norm.bias, 0, config->dim * sizeof *gradients);
    memset(ffn.up_bias, 0, config->hidden * sizeof *gradients);
    memset(ffn.down_bias, 0, config->dim * sizeof *gradients);
}

void skep_experts_backward(struct skep_model *model, uint32_t layer)
{
    const struct skep_model_kept *kept = &model->kept[layer];
    size_t grid = skep_model_grid(model);
    size_t places = skep_model_tokens(model) * model->config.experts_per_token;
    memset(model->dweight, 0, places * sizeof *model->dweight);
    for (size_t e = 0; e < grid; e++) {
        struct skep_model_expert *expert = skep_model_expert_at(model, layer, e);
        size_t count = kept->first[e + 1] - kept->first[e];
        if (count > 0) {
            clear_vectors(&model->config, expert->gradients);
            expert_backward(model, kept, expert, kept->first[e], count);
            expert->gradient_squares =
                skep_sum_squares(expert->gradients, model->expert_parameters);
            expert->gradient_zero = false;
        } else if (expert->values != NULL) {
            if (!expert->gradient_zero) {
                memset(expert->gradients, 0, model->expert_parameters * sizeof *expert->gradients);
            }
            expert->gradient_squares = 0;
            expert->gradient_zero = true;
        }
    }
}
