/*
 * The experts of one layer: tokens that chose the same expert are gathered, so that each expert is a few matrix products. Private to
 * common/model.
 */
#ifndef SKEP_MODEL_EXPERTS_H
#define SKEP_MODEL_EXPERTS_H

#include "common/model/model-state.h"

size_t skep_model_expert_parameters(const struct skep_model_config *config);
/* After the gate: groups its pairs and adds the experts' outputs to model->x. */
void skep_experts_forward(struct skep_model *model, uint32_t layer);
/* From model->dx: fills model->dweight, writes the experts' gradients, adds to model->dhat (gradient of mid_hat). */
void skep_experts_backward(struct skep_model *model, uint32_t layer);

#endif
