/*
 * A model and its training as plain numbers, so that Python can say to C what to run: in the order of the fields in
 * tests/data/torch/skep_torch.py (Config and Training).
 */
#ifndef SKEP_TESTS_LIB_MODEL_NUMBERS_H
#define SKEP_TESTS_LIB_MODEL_NUMBERS_H

#include "common/wire/manifest.h"
#include "common/wire/model-config.h"

#define SKEP_TEST_CONFIG_NUMBERS 16
#define SKEP_TEST_TRAINING_NUMBERS 10

static inline struct skep_model_config skep_test_config(const float *n)
{
    return (struct skep_model_config){.kind = (enum skep_model_kind)n[0],
                                      .expert = (enum skep_expert_kind)n[1],
                                      .inputs = (uint32_t)n[2],
                                      .classes = (uint32_t)n[3],
                                      .vocabulary = (uint32_t)n[4],
                                      .dim = (uint32_t)n[5],
                                      .hidden = (uint32_t)n[6],
                                      .heads = (uint32_t)n[7],
                                      .layers = (uint32_t)n[8],
                                      .context = (uint32_t)n[9],
                                      .prefix = (uint32_t)n[10],
                                      .rows = (uint32_t)n[11],
                                      .columns = (uint32_t)n[12],
                                      .experts_per_token = (uint32_t)n[13],
                                      .rows_per_token = (uint32_t)n[14],
                                      .route = (enum skep_route)n[15]};
}

static inline struct skep_training_config skep_test_training(const float *n)
{
    return (struct skep_training_config){.steps = (uint32_t)n[0],
                                         .batch = (uint32_t)n[1],
                                         .learning_rate = (double)n[2],
                                         .beta1 = (double)n[3],
                                         .beta2 = (double)n[4],
                                         .epsilon = (double)n[5],
                                         .weight_decay = (double)n[6],
                                         .clip = (double)n[7],
                                         .z_loss = (double)n[8],
                                         .balance_step = (double)n[9]};
}

#endif
