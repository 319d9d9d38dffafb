#include "common/model/head.h"

#include <string.h>

#include "common/tensor/gemm.h"

void skep_embed_forward(struct skep_model *model)
{
    size_t d = model->config.dim;
    size_t tokens = skep_model_tokens(model);
    for (size_t n = 0; n < tokens; n++) {
        skep_real *x = model->x + n * d;
        memcpy(x, model->trunk.token + model->inputs[n] * d, d * sizeof *x);
        skep_add(model->trunk.position + n % model->length * d, d, x);
    }
}

void skep_embed_backward(struct skep_model *model)
{
    size_t d = model->config.dim;
    size_t tokens = skep_model_tokens(model);
    for (size_t n = 0; n < tokens; n++) {
        skep_add(model->dx + n * d, d, model->trunk_gradient.token + model->inputs[n] * d);
        skep_add(model->dx + n * d, d, model->trunk_gradient.position + n % model->length * d);
    }
}

/* Where the outputs of sequence b begin in x, and how many there are. */
static size_t first_token(const struct skep_model *model, uint32_t b)
{
    return (size_t)b * model->length + model->first_output;
}

void skep_head_forward(struct skep_model *model)
{
    size_t d = model->config.dim;
    size_t each = model->length - model->first_output;
    for (uint32_t b = 0; b < model->batch; b++) {
        skep_normalise((struct skep_rows){each, d, NULL}, model->x + first_token(model, b) * d,
                       model->final_hat + b * each * d, model->final_scale + b * each);
    }
    struct skep_rows outputs = {skep_model_outputs(model), d, NULL};
    skep_affine_forward(outputs, model->final_hat, model->trunk.final, model->final_norm);
    skep_cblas_linear_forward((struct skep_linear){outputs.count, d, model->config.vocabulary},
                              model->final_norm, model->trunk.token, 0, model->logits);
}

double skep_head_loss(struct skep_model *model)
{
    size_t vocabulary = model->config.vocabulary;
    size_t outputs = skep_model_outputs(model);
    double sum = 0;
    for (size_t i = 0; i < outputs; i++) {
        const skep_real *logits = model->logits + i * vocabulary;
        model->logsumexp[i] = skep_logsumexp(logits, vocabulary);
        model->nats[i] = (double)model->logsumexp[i] - (double)logits[model->targets[i]];
        sum += model->nats[i];
    }
    return sum;
}

void skep_head_backward(struct skep_model *model)
{
    size_t d = model->config.dim;
    size_t vocabulary = model->config.vocabulary;
    size_t each = model->length - model->first_output;
    struct skep_rows outputs = {skep_model_outputs(model), d, NULL};
    struct skep_linear head = {outputs.count, d, vocabulary};
    skep_real weight = 1 / (skep_real)outputs.count;
    for (size_t i = 0; i < outputs.count; i++) {
        skep_cross_entropy_backward(model->logits + i * vocabulary, vocabulary, model->targets[i],
                                    model->logsumexp[i], weight);
    }
    skep_cblas_linear_weights(head, model->logits, model->final_norm, 0,
                              model->trunk_gradient.token);
    skep_cblas_linear_inputs(head, model->logits, model->trunk.token, 0, model->dnarrow);
    memset(model->dhat, 0, outputs.count * d * sizeof *model->dhat);
    skep_affine_backward(outputs, model->dnarrow, model->final_hat, model->trunk.final, model->dhat,
                         model->trunk_gradient.final);
    memset(model->dx, 0, skep_model_tokens(model) * d * sizeof *model->dx);
    for (uint32_t b = 0; b < model->batch; b++) {
        size_t start = b * each;
        skep_normalise_backward((struct skep_rows){each, d, NULL}, model->dhat + start * d,
                                model->final_hat + start * d, model->final_scale + start,
                                model->dx + first_token(model, b) * d);
    }
}
