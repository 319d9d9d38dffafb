/* Whole models on the emulated device, whose memory no host code can touch unnoticed (emulator.h). */
#include "tests/gpu/emulated.h"
#include "tests/gpu/model-checks.h"

int main(void)
{
    return skep_test_models(skep_emulated_ops());
}
