/*
 * Which back end is opened, step by step: without a driver, with one that does not start or shows nothing, and with a plug-in that
 * refuses and then works. Driver and plug-in are fakes that lie beside the test. The cases build on each other.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/gpu/gpu.h"
#include "common/sys/process.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/gpu/fake-driver.h"

static struct fake_driver *driver;

static void devices_are_named_in_both_directions(void **state)
{
    enum skep_device device = SKEP_DEVICE_CPU;
    struct skep_error err = {0};
    (void)state;
    for (enum skep_device each = SKEP_DEVICE_CPU; each <= SKEP_DEVICE_AUTO; each++) {
        assert_int_equal(skep_device_parse(skep_device_name(each), &device, NULL), 0);
        assert_int_equal(device, each);
    }
    assert_int_equal(skep_device_parse("gpu", &device, &err), SKEP_ERR_ARGUMENT);
    assert_string_equal(err.text, "device is \"gpu\"; allowed: cpu, cuda, auto");
}

static void the_cpu_is_opened_without_looking_for_a_driver(void **state)
{
    const struct skep_ops *ops = NULL;
    (void)state;
    assert_int_equal(skep_device_open(SKEP_DEVICE_CPU, &ops, NULL), 0);
    assert_ptr_equal(ops, skep_ops_cpu());
}

/* cuda says why not, auto goes to the CPU. */
static void assert_no_gpu(const char *reason)
{
    const struct skep_ops *ops = NULL;
    struct skep_error err = {0};
    assert_int_equal(skep_device_open(SKEP_DEVICE_CUDA, &ops, &err), SKEP_ERR_NOT_FOUND);
    assert_null(ops);
    assert_int_equal(strncmp(err.text, "device cuda was asked for: ", 27), 0);
    assert_non_null(strstr(err.text, reason));
    assert_int_equal(skep_device_open(SKEP_DEVICE_AUTO, &ops, &err), 0);
    assert_ptr_equal(ops, skep_ops_cpu());
}

static void a_machine_without_a_driver_has_no_gpu(void **state)
{
    (void)state;
    if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != NULL) {
        skip(); /* this one has a driver */
    }
    assert_no_gpu("there is no NVIDIA driver");
}

/* From here on dlopen("libcuda.so.1") finds the fake, which is loaded under that name. */
static void load_driver(void)
{
    char *own = skep_process_own_folder();
    char *path = skep_format("%s/fake-driver.so", own);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    driver = dlsym(library, "fake_driver");
    assert_non_null(driver);
    free(path);
    free(own);
}

static void a_driver_that_does_not_start_or_shows_nothing_is_no_gpu(void **state)
{
    (void)state;
    load_driver();
    driver->init_code = 100;
    assert_no_gpu("cuInit answers 100: no device");
    driver->init_code = 803;
    assert_no_gpu("cuInit answers 803; nvidia-smi may say more");
    driver->init_code = 0;
    assert_no_gpu("cuDeviceGetCount answers 0, 0 devices");
    driver->device_count = 1;
    driver->count_code = 3;
    assert_no_gpu("cuDeviceGetCount answers 3, 1 devices");
}

static void a_plugin_is_asked_once_there_is_a_device(void **state)
{
    const struct skep_ops *ops = NULL;
    struct skep_error err = {0};
    (void)state;
    driver->count_code = 0;
    assert_int_equal(skep_device_open(SKEP_DEVICE_CUDA, &ops, &err), SKEP_ERR_IO);
    assert_string_equal(err.text, "device cuda was asked for: the fake GPU failed");
    assert_int_equal(skep_device_open(SKEP_DEVICE_AUTO, &ops, &err), 0);
    assert_string_equal(ops->name, "fake");
    assert_int_equal(skep_device_open(SKEP_DEVICE_CUDA, &ops, &err), 0);
    assert_string_equal(ops->name, "fake");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_named_in_both_directions),
        cmocka_unit_test(the_cpu_is_opened_without_looking_for_a_driver),
        cmocka_unit_test(a_machine_without_a_driver_has_no_gpu),
        cmocka_unit_test(a_driver_that_does_not_start_or_shows_nothing_is_no_gpu),
        cmocka_unit_test(a_plugin_is_asked_once_there_is_a_device),
    };
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
