/*
 * The gate of one layer: scores of rows and columns, the choice of experts among those present, the softmax over the chosen, and the
 * way back. Private to common/model; the rules are in model.h.
 *
 * The z-loss is the mean over tokens (over sequences for rows chosen by document) and over layers of logsumexp(scores)^2, rows and columns
 * added; scores without the balancing biases.
 */
#ifndef SKEP_MODEL_GATE_H
#define SKEP_MODEL_GATE_H

#include "common/model/model-state.h"

/* Mean of embed.token + embed.position over the first model->prefix places of each sequence. */
void skep_gate_prefix(struct skep_model *model);
/* Fills kept->mid_*, scores, chosen, weight; returns the layer's mean squared logsumexp. */
double skep_gate_forward(struct skep_model *model, uint32_t layer);
/* From model->dweight. Adds to model->dhat (gradient of mid_hat), model->dprefix and the trunk's gradients. */
void skep_gate_backward(struct skep_model *model, uint32_t layer, double z_loss);
/* Gradient of the prefix means into the embeddings' gradients. */
void skep_gate_prefix_backward(struct skep_model *model);

#endif
