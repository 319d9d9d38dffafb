/*
 * What skep and skep-cuda.so say to each other: one function, found by its name. The plug-in links with nothing of Skep, so all that it
 * needs from the program comes in `struct skep_gpu_host`. Private to common/gpu and its tests.
 */
#ifndef SKEP_GPU_PLUGIN_H
#define SKEP_GPU_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/tensor/ops.h"

/* To be raised when the meaning of anything here or in ops.h changes without its size changing. */
#define SKEP_GPU_INTERFACE 1u
#define SKEP_GPU_ENTRY "skep_cuda_plugin"

struct skep_gpu_host {
    uint32_t interface;    /* SKEP_GPU_INTERFACE of the program */
    size_t ops_size;       /* sizeof(struct skep_ops) of the program */
    bool (*stopped)(void); /* skep_ops_stopped */
};

/* The type of skep_cuda_plugin(): makes the device ready and hands out its table, or says why not. */
typedef int (*skep_gpu_entry)(const struct skep_gpu_host *host, const struct skep_ops **ret_ops,
                              struct skep_error *err);

#endif
