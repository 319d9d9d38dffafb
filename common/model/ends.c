#include "common/model/ends.h"

#include <assert.h>

static void embed_text(struct skep_model *model, const struct skep_model_pass *pass, skep_real *to)
{
    size_t count = (size_t)pass->batch * pass->length;
    struct skep_rows rows = {count, model->config.dim, model->token_index};
    for (size_t n = 0; n < count; n++) {
        model->index[n] = pass->records[n / pass->length * pass->stride + n % pass->length];
    }
    model->ops->copy_in(model->token_index, model->index, count * sizeof *model->index);
    for (size_t n = 0; n < count; n++) {
        model->index[n] = (uint32_t)(n % pass->length);
    }
    model->ops->copy_in(model->position_index, model->index, count * sizeof *model->index);
    model->ops->rows_gather(rows, model->trunk.token, to);
    rows.index = model->position_index;
    model->ops->rows_gather_add(rows, model->trunk.position, to);
}

static void embed_records(struct skep_model *model, const struct skep_model_pass *pass,
                          skep_real *to)
{
    size_t inputs = model->config.inputs;
    size_t d = model->config.dim;
    skep_real levels[256];
    for (size_t byte = 0; byte < 256; byte++) {
        levels[byte] = (skep_real)byte / (skep_real)127.5 - 1;
    }
    for (size_t n = 0; n < pass->batch; n++) {
        for (size_t i = 0; i < inputs; i++) {
            model->reals[n * inputs + i] = levels[pass->records[n * pass->stride + i]];
        }
    }
    model->ops->copy_in(model->inputs, model->reals, pass->batch * inputs * sizeof *model->reals);
    model->ops->rows_set((struct skep_rows){pass->batch, d, NULL}, model->trunk.embed_bias, to);
    skep_linear_forward(model->ops, (struct skep_linear){pass->batch, inputs, d}, model->inputs,
                        model->trunk.embed, 1, to);
}

void skep_embed_bytes(struct skep_model *model, const struct skep_model_pass *pass, skep_real *to)
{
    if (skep_model_is_lm(model)) {
        embed_text(model, pass, to);
    } else {
        embed_records(model, pass, to);
    }
}

void skep_embed_backward(struct skep_model *model)
{
    size_t d = model->config.dim;
    struct skep_rows rows = {skep_model_tokens(model), d, NULL};
    if (skep_model_is_lm(model)) {
        rows.index = model->token_index;
        model->ops->rows_scatter_add(rows, model->dx, model->trunk_gradient.token);
        rows.index = model->position_index;
        model->ops->rows_scatter_add(rows, model->dx, model->trunk_gradient.position);
        return;
    }
    skep_linear_weights(model->ops, (struct skep_linear){rows.count, model->config.inputs, d},
                        model->dx, model->inputs, 0, model->trunk_gradient.embed);
    model->ops->rows_sum(rows, model->dx, model->trunk_gradient.embed_bias);
}

void skep_head_forward(struct skep_model *model)
{
    const struct skep_ops *ops = model->ops;
    size_t d = model->config.dim;
    size_t answers = skep_model_answers(&model->config);
    size_t each = model->length - model->first_output;
    size_t count = skep_model_outputs(model);
    for (size_t i = 0; i < count; i++) {
        model->index[i] = (uint32_t)(i / each * model->length + model->first_output + i % each);
    }
    ops->copy_in(model->output_index, model->index, count * sizeof *model->index);
    ops->normalise((struct skep_rows){count, d, model->output_index}, model->x, model->final_hat,
                   model->final_scale);
    ops->affine((struct skep_rows){count, d, NULL}, model->final_hat, model->trunk.final,
                model->final_norm);
    if (model->trunk.head_bias != NULL) {
        ops->rows_set((struct skep_rows){count, answers, NULL}, model->trunk.head_bias,
                      model->logits);
    }
    skep_linear_forward(ops, (struct skep_linear){count, d, answers}, model->final_norm,
                        model->trunk.head, model->trunk.head_bias != NULL ? 1 : 0, model->logits);
}

void skep_head_targets(struct skep_model *model, const uint32_t *targets)
{
    model->ops->copy_in(model->targets, targets, skep_model_outputs(model) * sizeof *targets);
}

double skep_head_loss(struct skep_model *model)
{
    size_t count = skep_model_outputs(model);
    double sum = 0;
    model->ops->cross_entropy((struct skep_rows){count, skep_model_answers(&model->config), NULL},
                              model->logits, model->targets, model->logsumexp, model->nats_there);
    model->ops->copy_out(model->nats, model->nats_there, count * sizeof *model->nats);
    for (size_t i = 0; i < count; i++) {
        sum += (double)model->nats[i];
    }
    return sum;
}

uint64_t skep_head_correct(struct skep_model *model, const uint32_t *targets)
{
    size_t count = skep_model_outputs(model);
    size_t answers = skep_model_answers(&model->config);
    uint64_t correct = 0;
    assert(!skep_model_is_lm(model)); /* it has no room for them on the host */
    model->ops->copy_out(model->reals, model->logits, count * answers * sizeof *model->reals);
    for (size_t i = 0; i < count; i++) {
        const skep_real *logits = model->reals + i * answers;
        size_t best = 0;
        for (size_t j = 1; j < answers; j++) {
            best = logits[j] > logits[best] ? j : best;
        }
        correct += best == targets[i];
    }
    return correct;
}

void skep_head_backward(struct skep_model *model)
{
    const struct skep_ops *ops = model->ops;
    const struct skep_model_trunk *gradient = &model->trunk_gradient;
    size_t d = model->config.dim;
    size_t count = skep_model_outputs(model);
    size_t answers = skep_model_answers(&model->config);
    struct skep_rows logits = {count, answers, NULL};
    struct skep_rows outputs = {count, d, NULL};
    struct skep_linear head = {count, d, answers};
    ops->cross_entropy_backward(logits, model->targets, model->logsumexp, 1 / (skep_real)count,
                                model->logits);
    if (gradient->head_bias != NULL) {
        ops->rows_sum(logits, model->logits, gradient->head_bias);
    }
    skep_linear_weights(ops, head, model->logits, model->final_norm, 0, gradient->head);
    skep_linear_inputs(ops, head, model->logits, model->trunk.head, 0, model->dnarrow);
    ops->affine_backward(outputs, model->dnarrow, model->final_hat, model->trunk.final,
                         model->dnarrow, gradient->final);
    ops->fill(skep_model_tokens(model) * d, 0, model->dx);
    outputs.index = model->output_index;
    ops->normalise_backward(outputs, model->dnarrow, model->final_hat, model->final_scale,
                            model->dx);
}
