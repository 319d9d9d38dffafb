/*
 * Which back end computes: the CPU, or a GPU through a plug-in.
 *
 * CUDA's libraries are large, bound to a driver and useless to a donor without such a card. So everything that knows CUDA is in one
 * shared object, skep-cuda.so, which lies beside skep-worker and is loaded only after the driver's own library (libcuda.so.1, part of
 * the driver and not of CUDA) says that a device is there:
 *
 *   libcuda.so.1 opens -> cuInit -> cuDeviceGetCount > 0 -> skep-cuda.so opens -> its table of operations (tensor/ops.h)
 *
 * The first step that fails says in a sentence why there is no GPU; nothing of the later ones has been touched then. The device is
 * CUDA's first, so CUDA_VISIBLE_DEVICES chooses among several. What was loaded stays until the program ends. A program that locks itself in
 * (seccomp, Landlock) opens the back end before it does.
 */
#ifndef SKEP_GPU_GPU_H
#define SKEP_GPU_GPU_H

#include "common/base/error.h"
#include "common/tensor/ops.h"

enum skep_device {
    SKEP_DEVICE_CPU,
    SKEP_DEVICE_CUDA,
    SKEP_DEVICE_AUTO, /* the GPU if there is one that works, else the CPU */
};

/* "cpu", "cuda" or "auto"; anything else is SKEP_ERR_ARGUMENT. */
int skep_device_parse(const char *text, enum skep_device *ret_device, struct skep_error *err);
const char *skep_device_name(enum skep_device device);

/* The table to compute with. Fails only for SKEP_DEVICE_CUDA, with skep_gpu_open()'s reason. */
int skep_device_open(enum skep_device device, const struct skep_ops **ret_ops,
                     struct skep_error *err);

/* The GPU's table, always the same one, used by one thread at a time. SKEP_ERR_NOT_FOUND where driver, device or plug-in are missing or the
 * plug-in is another version's; SKEP_ERR_IO if the device is there and does not work. */
int skep_gpu_open(const struct skep_ops **ret_ops, struct skep_error *err);

#endif
