/*
 * Whole models on a table of operations against the same models on the CPU's: losses and gradients of both kinds of models, a few steps of
 * training, and the same bits when the work is done again. Host code that touches a GPU's memory, or forgets to copy, fails here.
 */
#ifndef SKEP_TESTS_GPU_MODEL_CHECKS_H
#define SKEP_TESTS_GPU_MODEL_CHECKS_H

#include "common/tensor/ops.h"

/* A cmocka group; returns the number of failures. */
int skep_test_models(const struct skep_ops *ops);

#endif
