/*
 * The experts of one layer: tokens that chose the same expert are gathered, so that each expert is a few matrix products. Private to
 * common/model.
 */
#ifndef SKEP_MODEL_EXPERT_H
#define SKEP_MODEL_EXPERT_H

#include "common/model/lm-state.h"

size_t skep_expert_parameters(const struct skep_model_config *config);
/* After the gate: groups its pairs and adds the experts' outputs to lm->x. */
void skep_experts_forward(struct skep_lm *lm, uint32_t layer);
/* From lm->dx: fills lm->dweight, writes the experts' gradients, adds to lm->dhat (gradient of mid_hat). */
void skep_experts_backward(struct skep_lm *lm, uint32_t layer);

#endif
