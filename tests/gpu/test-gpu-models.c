/* Whole models on the GPU of this machine. */
#include "tests/gpu/gpu-or-skip.h"
#include "tests/gpu/model-checks.h"

int main(void)
{
    const struct skep_ops *gpu = NULL;
    int status = gpu_or_skip(&gpu);
    return gpu == NULL ? status : skep_test_models(gpu);
}
