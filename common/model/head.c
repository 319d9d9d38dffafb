#include "common/model/head.h"

#include <string.h>

#include "common/tensor/gemm.h"

void skep_embed_forward(struct skep_lm *lm)
{
    size_t d = lm->config.dim;
    size_t tokens = skep_lm_tokens(lm);
    for (size_t n = 0; n < tokens; n++) {
        skep_real *x = lm->x + n * d;
        memcpy(x, lm->trunk.token + lm->inputs[n] * d, d * sizeof *x);
        skep_add(lm->trunk.position + n % lm->length * d, d, x);
    }
}

void skep_embed_backward(struct skep_lm *lm)
{
    size_t d = lm->config.dim;
    size_t tokens = skep_lm_tokens(lm);
    for (size_t n = 0; n < tokens; n++) {
        skep_add(lm->dx + n * d, d, lm->trunk_gradient.token + lm->inputs[n] * d);
        skep_add(lm->dx + n * d, d, lm->trunk_gradient.position + n % lm->length * d);
    }
}

/* Where the outputs of sequence b begin in x, and how many there are. */
static size_t first_token(const struct skep_lm *lm, uint32_t b)
{
    return (size_t)b * lm->length + lm->first_output;
}

void skep_head_forward(struct skep_lm *lm)
{
    size_t d = lm->config.dim;
    size_t each = lm->length - lm->first_output;
    for (uint32_t b = 0; b < lm->batch; b++) {
        skep_normalise((struct skep_rows){each, d, NULL}, lm->x + first_token(lm, b) * d,
                       lm->final_hat + b * each * d, lm->final_scale + b * each);
    }
    struct skep_rows outputs = {skep_lm_outputs(lm), d, NULL};
    skep_affine_forward(outputs, lm->final_hat, lm->trunk.final, lm->final_norm);
    skep_linear_forward((struct skep_linear){outputs.count, d, lm->config.vocabulary},
                        lm->final_norm, lm->trunk.token, 0, lm->logits);
}

double skep_head_loss(struct skep_lm *lm)
{
    size_t vocabulary = lm->config.vocabulary;
    size_t outputs = skep_lm_outputs(lm);
    double sum = 0;
    for (size_t i = 0; i < outputs; i++) {
        const skep_real *logits = lm->logits + i * vocabulary;
        lm->logsumexp[i] = skep_logsumexp(logits, vocabulary);
        lm->nats[i] = (double)lm->logsumexp[i] - (double)logits[lm->targets[i]];
        sum += lm->nats[i];
    }
    return sum;
}

void skep_head_backward(struct skep_lm *lm)
{
    size_t d = lm->config.dim;
    size_t vocabulary = lm->config.vocabulary;
    size_t each = lm->length - lm->first_output;
    struct skep_rows outputs = {skep_lm_outputs(lm), d, NULL};
    struct skep_linear head = {outputs.count, d, vocabulary};
    skep_real weight = 1 / (skep_real)outputs.count;
    for (size_t i = 0; i < outputs.count; i++) {
        skep_cross_entropy_backward(lm->logits + i * vocabulary, vocabulary, lm->targets[i],
                                    lm->logsumexp[i], weight);
    }
    skep_linear_weights(head, lm->logits, lm->final_norm, 0, lm->trunk_gradient.token);
    skep_linear_inputs(head, lm->logits, lm->trunk.token, 0, lm->dnarrow);
    memset(lm->dhat, 0, outputs.count * d * sizeof *lm->dhat);
    skep_affine_backward(outputs, lm->dnarrow, lm->final_hat, lm->trunk.final, lm->dhat,
                         lm->trunk_gradient.final);
    memset(lm->dx, 0, skep_lm_tokens(lm) * d * sizeof *lm->dx);
    for (uint32_t b = 0; b < lm->batch; b++) {
        size_t start = b * each;
        skep_normalise_backward((struct skep_rows){each, d, NULL}, lm->dhat + start * d,
                                lm->final_hat + start * d, lm->final_scale + start,
                                lm->dx + first_token(lm, b) * d);
    }
}
