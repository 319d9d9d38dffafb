/* All of the plug-in as one piece of C++ for the CPU; of its state, what tests have to reset. */
#include "tests/gpu/emulator.h"

#include <assert.h>
#include <stdio.h>

#include "common/gpu/activation.cu"
#include "common/gpu/device.cu"
#include "common/gpu/norm.cu"
#include "common/gpu/rows.cu"
#include "common/gpu/values.cu"
#include "tests/gpu/emulated.h"
#include "tests/gpu/emulator-state.h"

void skep_emulated_renew(void)
{
    skep_emulated_forget();
    device = {};
}

const struct skep_ops *skep_emulated_ops(void)
{
    const struct skep_gpu_host host = {SKEP_GPU_INTERFACE, sizeof(struct skep_ops),
                                       skep_ops_stopped};
    const struct skep_ops *ops = nullptr;
    struct skep_error err = {};
    if (skep_cuda_plugin(&host, &ops, &err) != 0) {
        fprintf(stderr, "emulated device: %s\n", err.text);
        assert(!"the emulated device opens");
    }
    return ops;
}
