/*
 * The gate of one layer: scores of rows and columns, the choice of experts among those present, the softmax over the chosen, and the
 * way back. Private to common/model; the rules are in model.h.
 *
 * Scores are products and so the table's; the choice and the softmax over a few numbers are made on the host from copies.
 *
 * The z-loss is the mean over tokens (over sequences for rows chosen by document) and over layers of logsumexp(scores)^2, rows and columns
 * added; scores without the balancing biases.
 */
#ifndef SKEP_MODEL_GATE_H
#define SKEP_MODEL_GATE_H

#include "common/model/model-state.h"

/* Route document: mean of embed.token + embed.position over the first model->prefix places of each sequence, from model->x as
 * embedded. */
void skep_gate_prefix(struct skep_model *model);
/* Fills inner.mid_*, scores, chosen, weight; *ret_z becomes the layer's mean squared logsumexp. */
int skep_gate_forward(struct skep_model *model, uint32_t layer, double *ret_z,
                      struct skep_error *err);
/* Fills inner.mid_* again from model->x. */
void skep_gate_again(struct skep_model *model, uint32_t layer);
/* Closes the gaps that SKEP_NO_EXPERT left in `chosen` and takes the softmax over the rest. */
void skep_gate_weigh_again(struct skep_model *model, uint32_t layer);
/* From model->dweight. Adds to model->dx, model->dprefix and the trunk's gradients. */
void skep_gate_backward(struct skep_model *model, uint32_t layer, double z_loss);
/* Gradient of the prefix means into model->dx, the gradient of x as embedded. */
void skep_gate_prefix_backward(struct skep_model *model);

#endif
