/* What the plug-in does when the device fails, is full, is too old, or when it is told to stop; on an emulated device. */
#include "tests/gpu/emulated.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/cmocka.h"

#define COUNT 6

static bool stop;

static bool stopped(void)
{
    return stop;
}

static int open_emulated(const struct skep_ops **ret_ops, struct skep_error *err)
{
    const struct skep_gpu_host host = {SKEP_GPU_INTERFACE, sizeof(struct skep_ops), stopped};
    return skep_cuda_plugin(&host, ret_ops, err);
}

static int renew(void **state)
{
    (void)state;
    stop = false;
    skep_emulated_renew();
    return 0;
}

/* Something of everything: memory, copies, a product, kernels, a sum that the host needs. The sum, or 0 if there is no memory. */
static double compute(const struct skep_ops *ops, float *ret_values)
{
    const float ones[COUNT] = {1, 1, 1, 1, 1, 1};
    float *x = ops->memory_new(sizeof ones);
    float *y = ops->memory_new(sizeof ones);
    double sum = 0;
    if (x != NULL && y != NULL) {
        ops->copy_in(x, ones, sizeof ones);
        /* [2, 3] times [3, 2]: threes. */
        ops->gemm((struct skep_gemm_size){2, 2, 3}, (struct skep_matrix){x, 3, false},
                  (struct skep_matrix){x, 2, false}, 0, y, 2);
        ops->rows_add((struct skep_rows){2, 2, NULL}, x, y);
        sum = ops->sum_squares(y, 4);
        ops->copy_out(ret_values, y, 4 * sizeof *ret_values);
    }
    ops->memory_free(x);
    ops->memory_free(y);
    return sum;
}

static void a_device_that_stays_computes(void **state)
{
    const struct skep_ops *ops = NULL;
    struct skep_error err = {0};
    float values[4] = {0};
    (void)state;
    assert_int_equal(open_emulated(&ops, &err), 0);
    assert_string_equal(ops->name, "cuda emulated");
    assert_false(ops->on_host);
    assert_true(compute(ops, values) == 64);
    assert_true(values[0] == 4 && values[3] == 4);
    assert_int_equal(ops->status(&err), 0);
}

/* An operation that was added to ops.h and not here would be called through NULL. */
static void no_operation_is_missing(void **state)
{
    const struct skep_ops *ops = NULL;
    struct skep_error err = {0};
    void (*operations[(sizeof *ops - offsetof(struct skep_ops, memory_new)) /
                      sizeof(void (*)(void))])(void);
    (void)state;
    assert_int_equal(open_emulated(&ops, &err), 0);
    memcpy(operations, (const char *)ops + offsetof(struct skep_ops, memory_new),
           sizeof operations);
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        assert_true(operations[i] != NULL);
    }
}

/* The device vanishes at the first, second, third... call of CUDA, until everything passes. */
static void a_device_that_disappears_is_said_once_and_left_alone(void **state)
{
    bool passed = false;
    (void)state;
    for (size_t nth = 0; !passed; nth++) {
        const struct skep_ops *ops = NULL;
        struct skep_error err = {0};
        float values[4] = {7, 7, 7, 7};
        assert_true(nth < 200);
        skep_emulated_renew();
        skep_emulated_vanish(nth);
        int rc = open_emulated(&ops, &err);
        if (rc == 0) {
            double sum = compute(ops, values);
            rc = ops->status(&err);
            passed = rc == 0;
            /* What reached the host is right, or nothing that could be taken for a value. */
            assert_true(sum == 64 || !passed);
            assert_true(values[0] == 4 || values[0] == 0 || values[0] == 7);
            size_t calls = skep_emulated_calls();
            float untouched[4] = {0};
            ops->fill(4, 1, untouched);
            assert_true(untouched[0] == 0);
            assert_true(passed || ops->memory_new(4) == NULL);
            assert_true(passed || skep_emulated_calls() == calls);
        }
        if (!passed) {
            assert_int_equal(rc, SKEP_ERR_IO);
            assert_int_equal(err.code, SKEP_ERR_IO);
            assert_non_null(strstr(err.text, "the emulated device is gone"));
            assert_non_null(strstr(err.text, " at common/gpu/"));
        }
    }
}

static void a_full_device_has_no_memory_and_goes_on(void **state)
{
    const struct skep_ops *ops = NULL;
    struct skep_error err = {0};
    float values[4];
    (void)state;
    assert_int_equal(open_emulated(&ops, &err), 0);
    skep_emulated_memory(100);
    assert_null(ops->memory_new(101));
    assert_int_equal(ops->status(&err), 0);
    assert_true(compute(ops, values) == 64);
    assert_int_equal(ops->status(&err), 0);
}

static void a_stopped_device_computes_nothing_and_still_copies(void **state)
{
    const struct skep_ops *ops = NULL;
    struct skep_error err = {0};
    float values[2] = {1, 2};
    (void)state;
    assert_int_equal(open_emulated(&ops, &err), 0);
    float *x = ops->memory_new(sizeof values);
    ops->copy_in(x, values, sizeof values);
    stop = true;
    size_t calls = skep_emulated_calls();
    ops->fill(2, 9, x);
    ops->gemm((struct skep_gemm_size){1, 1, 1}, (struct skep_matrix){x, 1, false},
              (struct skep_matrix){x, 1, false}, 0, x + 1, 1);
    assert_int_equal(skep_emulated_calls(), calls);
    memset(values, 0, sizeof values);
    ops->copy_out(values, x, sizeof values);
    assert_true(values[0] == 1 && values[1] == 2);
    assert_int_equal(ops->status(&err), 0);
    ops->memory_free(x);
}

static void a_step_of_adamw_is_taken_although_a_stop_was_asked_for(void **state)
{
    const struct skep_ops *ops = NULL;
    struct skep_error err = {0};
    const struct skep_adamw step = {
        .rate = 0.5, .epsilon = 1e-8, .gradient = 1, .correction1 = 1, .correction2 = 1};
    float values[4] = {1, 0, 0, 3}; /* gradient, both moments, parameter */
    (void)state;
    assert_int_equal(open_emulated(&ops, &err), 0);
    float *x = ops->memory_new(sizeof values);
    ops->copy_in(x, values, sizeof values);
    stop = true;
    ops->adamw(&step, 1, x, x + 1, x + 2, x + 3);
    ops->copy_out(values, x, sizeof values);
    assert_true(values[1] == 1 && values[2] == 1);
    assert_true(values[3] > 2.49f && values[3] < 2.51f);
    assert_int_equal(ops->status(&err), 0);
    ops->memory_free(x);
}

static void a_card_that_is_too_old_is_refused_by_name(void **state)
{
    const struct skep_ops *ops = NULL;
    struct skep_error err = {0};
    (void)state;
    skep_emulated_capability(61);
    assert_int_equal(open_emulated(&ops, &err), SKEP_ERR_NOT_FOUND);
    assert_null(ops);
    assert_non_null(strstr(err.text, "emulated has compute capability 6.1"));
}

static void a_plugin_of_another_version_is_refused(void **state)
{
    struct skep_gpu_host host = {SKEP_GPU_INTERFACE + 1, sizeof(struct skep_ops), stopped};
    const struct skep_ops *ops = NULL;
    struct skep_error err = {0};
    (void)state;
    assert_int_equal(skep_cuda_plugin(&host, &ops, &err), SKEP_ERR_NOT_FOUND);
    host = (struct skep_gpu_host){SKEP_GPU_INTERFACE, sizeof(struct skep_ops) - 8, stopped};
    assert_int_equal(skep_cuda_plugin(&host, &ops, &err), SKEP_ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "install both from one build"));
    assert_null(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_device_that_stays_computes, renew),
        cmocka_unit_test_setup(no_operation_is_missing, renew),
        cmocka_unit_test_setup(a_device_that_disappears_is_said_once_and_left_alone, renew),
        cmocka_unit_test_setup(a_full_device_has_no_memory_and_goes_on, renew),
        cmocka_unit_test_setup(a_stopped_device_computes_nothing_and_still_copies, renew),
        cmocka_unit_test_setup(a_step_of_adamw_is_taken_although_a_stop_was_asked_for, renew),
        cmocka_unit_test_setup(a_card_that_is_too_old_is_refused_by_name, renew),
        cmocka_unit_test_setup(a_plugin_of_another_version_is_refused, renew),
    };
    return cmocka_run_group_tests_name("emulated device", tests, NULL, NULL);
}
