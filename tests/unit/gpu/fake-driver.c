/* Stands for libcuda.so.1: says what the test wants to hear. */
#include "tests/unit/gpu/fake-driver.h"

struct fake_driver fake_driver;

int cuInit(unsigned flags)
{
    (void)flags;
    return fake_driver.init_code;
}

int cuDeviceGetCount(int *ret_count)
{
    *ret_count = fake_driver.device_count;
    return fake_driver.count_code;
}
