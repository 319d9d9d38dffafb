/* What the test tells fake-driver.c to answer. */
#ifndef SKEP_TESTS_UNIT_GPU_FAKE_DRIVER_H
#define SKEP_TESTS_UNIT_GPU_FAKE_DRIVER_H

struct fake_driver {
    int init_code;
    int count_code;
    int device_count;
};

/* The names and types are the driver's. */
int cuInit(unsigned flags);
int cuDeviceGetCount(int *ret_count);

#endif
