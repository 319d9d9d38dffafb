/*
 * The two ends of a model: bytes to the residual stream, and from it through the final normalisation to logits and cross-entropy.
 * The only part in which an lm and a classifier differ, but for the attention. Private to common/model.
 */
#ifndef SKEP_MODEL_ENDS_H
#define SKEP_MODEL_ENDS_H

#include "common/model/model-state.h"

/* to [count, d] from `count` bytes of an lm at places 0, 1, ... of sequences of `length`, or from `count` records (of `inputs` bytes, `stride`
 * from one to the next) of a classifier. */
void skep_embed_bytes(struct skep_model *model, const struct skep_model_pass *pass, skep_real *to);
/* model->dx into the embeddings' gradients. */
void skep_embed_backward(struct skep_model *model);
/* model->logits of the output places from model->x. */
void skep_head_forward(struct skep_model *model);
/* Says which answers were right: model->targets from host bytes, [outputs]. */
void skep_head_targets(struct skep_model *model, const uint32_t *targets);
/* model->nats from model->logits and model->targets; returns their sum. */
double skep_head_loss(struct skep_model *model);
/* Of a classifier: outputs whose largest logit (the first of equals) is at the target. Before backward. */
uint64_t skep_head_correct(struct skep_model *model, const uint32_t *targets);
/* model->dx of the mean cross-entropy (0 where there is no output). Turns model->logits into their gradients. */
void skep_head_backward(struct skep_model *model);

#endif
