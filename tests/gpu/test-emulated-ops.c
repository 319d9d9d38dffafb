/* The plug-in's kernels and its use of cuBLAS, on an emulated device (emulator.h), through the checks that every table has to pass. */
#include "tests/gpu/emulated.h"
#include "tests/unit/tensor/ops-checks.h"

int main(void)
{
    return skep_test_ops(skep_emulated_ops());
}
