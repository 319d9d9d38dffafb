/*
 * Prints loss and processor seconds of every step of one training (curve.h) on one thread, one step a line. Run by tests/bench/curves
 * and engine-torch.py, which run PyTorch beside it.
 *
 *   curve-steps SEED then the numbers of tests/lib/model-numbers.h: 16 of the model, 10 of the training
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/tensor/ops.h"
#include "tests/bench/curve.h"
#include "tests/lib/model-numbers.h"

#define NUMBERS (1 + SKEP_TEST_CONFIG_NUMBERS + SKEP_TEST_TRAINING_NUMBERS)

int main(int argc, char **argv)
{
    float numbers[NUMBERS];
    if (argc != NUMBERS + 1) {
        fprintf(stderr, "curve-steps: %d arguments, expected %d; see its source\n", argc - 1,
                NUMBERS);
        return 2;
    }
    for (size_t i = 0; i < NUMBERS; i++) {
        numbers[i] = strtof(argv[i + 1], NULL);
    }
    struct curve curve = {.config = skep_test_config(numbers + 1),
                          .training = skep_test_training(numbers + 1 + SKEP_TEST_CONFIG_NUMBERS),
                          .seed = (uint8_t)numbers[0]};
    float *losses = skep_alloc(curve.training.steps, sizeof *losses);
    double *seconds = skep_alloc(curve.training.steps, sizeof *seconds);
    struct skep_error err = {0};
    skep_ops_set_threads(1);
    int rc = curve_run(&curve, losses, seconds, &err);
    if (rc != SKEP_OK) {
        fprintf(stderr, "curve-steps: %s\n", err.text);
    }
    for (size_t i = 0; rc == SKEP_OK && i < curve.training.steps; i++) {
        printf("%.9g %.9f\n", (double)losses[i], seconds[i]);
    }
    free(losses);
    free(seconds);
    return rc == SKEP_OK ? 0 : 1;
}
