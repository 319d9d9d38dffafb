/* A model with random parameters, small enough for finite differences. */
#ifndef SKEP_TESTS_MODEL_FIXTURE_H
#define SKEP_TESTS_MODEL_FIXTURE_H

#include "common/model/layout.h"
#include "common/model/model.h"

/* 2 layers, a 3 x 3 grid, 11 bytes, context 9 of which 3 are prefix. */
struct skep_model_config fixture_config(enum skep_route route, uint32_t rows_per_token);

/* 2 layers, a 3 x 3 grid, 5 inputs, 4 classes; records are in place of tokens. */
struct skep_model_config fixture_classifier(enum skep_expert_kind expert, uint32_t rows_per_token);

/* All shards present, every parameter (gains and biases too) uniform in [-0.7, 0.7], balancing biases in [-0.1, 0.1]. */
struct skep_model *fixture_lm(const struct skep_model_config *config, uint32_t batch,
                              uint64_t seed);

/* The same with options. */
struct skep_model *fixture_model(const struct skep_model_config *config,
                                 const struct skep_model_options *options, uint64_t seed);

struct skep_shard fixture_expert(uint32_t layer, uint32_t row, uint32_t column);
extern const struct skep_shard FIXTURE_TRUNK;

/* `count` random bytes below the vocabulary; of a classifier, records whose classes are below `classes`. */
void fixture_tokens(const struct skep_model_config *config, uint64_t seed, uint8_t *tokens,
                    size_t count);

#endif
