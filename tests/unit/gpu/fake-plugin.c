/* Stands for skep-cuda.so beside the test: refuses once, then hands out a table of which only the name is there. */
#include <stdio.h>

#include "common/gpu/plugin.h"

int skep_cuda_plugin(const struct skep_gpu_host *host, const struct skep_ops **ret_ops,
                     struct skep_error *err);

int skep_cuda_plugin(const struct skep_gpu_host *host, const struct skep_ops **ret_ops,
                     struct skep_error *err)
{
    static const struct skep_ops ops = {.name = "fake"};
    static unsigned calls;
    if (calls++ == 0 || host->interface != SKEP_GPU_INTERFACE || host->stopped()) {
        err->code = SKEP_ERR_IO;
        snprintf(err->text, sizeof err->text, "the fake GPU failed");
        return err->code;
    }
    *ret_ops = &ops;
    return 0;
}
