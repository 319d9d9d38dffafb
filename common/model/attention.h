/* x <- x + out(attention(norm(x))) of one layer, and its way back. Private to common/model. */
#ifndef SKEP_MODEL_ATTENTION_H
#define SKEP_MODEL_ATTENTION_H

#include "common/model/model-state.h"

/* Values that one head of one sequence keeps for the way back. */
size_t skep_attention_probabilities(size_t length);

void skep_attention_forward(struct skep_model *model, uint32_t layer);
/* model->dx goes from the gradient of the layer's output to that of its input. */
void skep_attention_backward(struct skep_model *model, uint32_t layer);

#endif
