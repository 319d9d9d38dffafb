/*
 * The experts of one layer: tokens that chose the same expert are grouped, each group goes to its expert (here, or through
 * skep_expert_calls to wherever it lives), and the answers are combined. Private to common/model.
 */
#ifndef SKEP_MODEL_EXPERTS_H
#define SKEP_MODEL_EXPERTS_H

#include "common/model/model-state.h"

/* Values of `inner.work` for the experts of one layer: of all of them, or of one at a time. */
size_t skep_experts_work(const struct skep_model_config *config,
                         const struct skep_model_options *options, size_t tokens);

/* After the gate: groups its pairs and adds the experts' outputs to model->x. Where some did not answer, chosen and weight lose them. */
int skep_experts_forward(struct skep_model *model, uint32_t layer, struct skep_error *err);
/* Computes inner.work and expert_out again from model->x, for the same groups. */
void skep_experts_again(struct skep_model *model, uint32_t layer);
/* From model->dx: fills model->dweight, writes the experts' gradients, adds theirs to model->dx. */
int skep_experts_backward(struct skep_model *model, uint32_t layer, struct skep_error *err);

#endif
