#include "tests/gpu/gpu-or-skip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/gpu/gpu.h"

#define SKIPPED 77

static int skipped(const char *why)
{
    const char *output = getenv("CMOCKA_MESSAGE_OUTPUT");
    bool tap = output != NULL && strcmp(output, "TAP") == 0;
    printf("%sskipped: %s\n", tap ? "1..0 # SKIP " : "", why);
    return tap ? 0 : SKIPPED;
}

int gpu_or_skip(const struct skep_ops **ret_gpu)
{
    struct skep_error err = {0};
    *ret_gpu = NULL;
#ifdef SKEP_WITH_CUDA
    if (skep_gpu_open(ret_gpu, &err) == 0) {
        return 0;
    }
#else
    skep_error_set(&err, SKEP_ERR_NOT_FOUND,
                   "nvcc was not found, so the plug-in for NVIDIA GPUs was not built");
#endif
    if (err.code == SKEP_ERR_NOT_FOUND) {
        return skipped(err.text);
    }
    printf("Bail out! %s\n", err.text);
    return 1;
}
