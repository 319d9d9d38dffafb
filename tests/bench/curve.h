/*
 * The loss of every step of a short training from version 0, on data drawn from a seed: what tests/data/torch/curve.py computes with
 * PyTorch from the same weights and the same batches.
 *
 * Data of an lm: windows of a text of random words, the first ones more often. Of a classifier: each class has a pattern of bytes;
 * of a record's inputs some are its class's and the rest is noise.
 */
#ifndef SKEP_TESTS_BENCH_CURVE_H
#define SKEP_TESTS_BENCH_CURVE_H

#include <stdint.h>

#include "common/base/error.h"
#include "common/wire/manifest.h"

struct curve {
    struct skep_model_config config;
    struct skep_training_config training;
    uint8_t seed;
};

/* Mean loss in nats of step i into ret_losses[i], and the processor time it took into ret_seconds[i] (NULL: not wanted); training.steps
 * of each. All experts are present and trained. */
int curve_run(const struct curve *curve, float *ret_losses, double *ret_seconds,
              struct skep_error *err);

/* The largest over all steps of |a - b| / b. */
double curve_difference(const float *a, const float *b, size_t steps);

#endif
