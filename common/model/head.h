/* The two ends of the model: embeddings in, final normalisation, logits and cross-entropy out. Private to common/model. */
#ifndef SKEP_MODEL_HEAD_H
#define SKEP_MODEL_HEAD_H

#include "common/model/model-state.h"

/* model->x from model->inputs. */
void skep_embed_forward(struct skep_model *model);
/* model->dx into the embeddings' gradients. */
void skep_embed_backward(struct skep_model *model);
/* model->logits of the output places from model->x. */
void skep_head_forward(struct skep_model *model);
/* model->nats from model->logits and model->targets; returns their sum. */
double skep_head_loss(struct skep_model *model);
/* model->dx of the mean cross-entropy (0 where there is no output). Turns model->logits into their gradients. */
void skep_head_backward(struct skep_model *model);

#endif
