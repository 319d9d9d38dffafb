/* Recorded PyTorch results: tests/data/torch/<name>.safetensors, which make.py beside them writes and explains. */
#ifndef SKEP_TESTS_TORCH_RESULTS_H
#define SKEP_TESTS_TORCH_RESULTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/bytes.h"
#include "common/wire/safetensors.h"

struct torch_results {
    struct skep_buffer file;
    struct skep_tensor_view *views;
    size_t count;
};

/* Fails the test if the file is missing or not a safetensors file. */
void torch_open(struct torch_results *results, const char *name);
void torch_close(struct torch_results *results);

/* A tensor named "<group>.<name>", or "<name>" if group is NULL; NULL if there is none. */
const struct skep_tensor_view *torch_find(const struct torch_results *results, const char *group,
                                          const char *name);
/* Its values; free() them. Fails the test if there is none. */
float *torch_values(const struct torch_results *results, const char *group, const char *name);

/* The largest difference, as a share of the largest expected value of the tensor. */
double torch_difference(const float *found, const float *expected, size_t count);
/* Fails the test, naming the tensor, if a value is not finite or differs by more than `tolerance` times the tensor's largest. */
void torch_assert_near(const struct torch_results *results, const char *group, const char *name,
                       const float *found, double tolerance);

#endif
