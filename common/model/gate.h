/*
 * The gate of one layer: scores of rows and columns, the choice of experts among those present, the softmax over the chosen, and the
 * way back. Private to common/model; the rules are in lm.h.
 *
 * The z-loss is the mean over tokens (over sequences for rows chosen by document) and over layers of logsumexp(scores)^2, rows and columns
 * added; scores without the balancing biases.
 */
#ifndef SKEP_MODEL_GATE_H
#define SKEP_MODEL_GATE_H

#include "common/model/lm-state.h"

/* Mean of embed.token + embed.position over the first lm->prefix places of each sequence. */
void skep_gate_prefix(struct skep_lm *lm);
/* Fills kept->mid_*, scores, chosen, weight; returns the layer's mean squared logsumexp. */
double skep_gate_forward(struct skep_lm *lm, uint32_t layer);
/* From lm->dweight. Adds to lm->dhat (gradient of mid_hat), lm->dprefix and the trunk's gradients. */
void skep_gate_backward(struct skep_lm *lm, uint32_t layer, double z_loss);
/* Gradient of the prefix means into the embeddings' gradients. */
void skep_gate_prefix_backward(struct skep_lm *lm);

#endif
