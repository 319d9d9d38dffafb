/* The two ends of the model: embeddings in, final normalisation, logits and cross-entropy out. Private to common/model. */
#ifndef SKEP_MODEL_HEAD_H
#define SKEP_MODEL_HEAD_H

#include "common/model/lm-state.h"

/* lm->x from lm->inputs. */
void skep_embed_forward(struct skep_lm *lm);
/* lm->dx into the embeddings' gradients. */
void skep_embed_backward(struct skep_lm *lm);
/* lm->logits of the output places from lm->x. */
void skep_head_forward(struct skep_lm *lm);
/* lm->nats from lm->logits and lm->targets; returns their sum. */
double skep_head_loss(struct skep_lm *lm);
/* lm->dx of the mean cross-entropy (0 where there is no output). Turns lm->logits into their gradients. */
void skep_head_backward(struct skep_lm *lm);

#endif
