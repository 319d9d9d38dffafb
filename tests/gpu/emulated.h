/*
 * The plug-in of common/gpu over an emulated device (emulator.h), for tests. One device for the whole program; a fresh one can be had.
 */
#ifndef SKEP_TESTS_GPU_EMULATED_H
#define SKEP_TESTS_GPU_EMULATED_H

#include "common/gpu/plugin.h"
#include "common/tensor/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What dlsym would find in skep-cuda.so. */
int skep_cuda_plugin(const struct skep_gpu_host *host, const struct skep_ops **ret_ops,
                     struct skep_error *err);
/* The table, opened with skep_ops_stopped; stops the program if that fails. */
const struct skep_ops *skep_emulated_ops(void);
/* Forgets the device, its errors and its memory; pointers to them are void. */
void skep_emulated_renew(void);
/* From the nth call of CUDA on (0 is the next) the device is gone; SIZE_MAX: it stays. */
void skep_emulated_vanish(size_t nth);
/* Calls of CUDA since the device was renewed. */
size_t skep_emulated_calls(void);
/* Bytes that the device has; renewing gives 4 GiB. */
void skep_emulated_memory(size_t size);
/* The capability it claims, as 75 for 7.5; renewing gives 90. */
void skep_emulated_capability(int capability);

#ifdef __cplusplus
}
#endif

#endif
