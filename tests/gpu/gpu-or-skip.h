/* How the tests that need a GPU come to one. */
#ifndef SKEP_TESTS_GPU_GPU_OR_SKIP_H
#define SKEP_TESTS_GPU_GPU_OR_SKIP_H

#include "common/tensor/ops.h"

/*
 * The GPU of this machine. Where there is none *ret_gpu is NULL, "skipped" and why was printed, and the exit status comes back: 77, or 0
 * after a plan of no tests where the harness reads TAP. 1 if there is one that does not work.
 */
int gpu_or_skip(const struct skep_ops **ret_gpu);

#endif
