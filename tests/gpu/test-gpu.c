/* The GPU of this machine through the checks that every table has to pass, and the same bits from the same work. */
#include <stdio.h>
#include <string.h>

#include "common/base/rng.h"
#include "tests/gpu/gpu-or-skip.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/tensor/ops-checks.h"

#define ROWS 300u
#define DIM 500u

/* Sums of which the order matters: a product, rows that are scattered onto few others, columns, squares. */
static double work(const struct skep_ops *ops, float *ret_values)
{
    static float values[ROWS * DIM];
    static uint32_t index[ROWS];
    struct skep_rng rng = skep_rng_of(7);
    for (size_t i = 0; i < (size_t)ROWS * DIM; i++) {
        values[i] = (float)(skep_rng_unit(&rng) * 2 - 1);
    }
    for (size_t i = 0; i < ROWS; i++) {
        index[i] = (uint32_t)skep_rng_below(&rng, 5);
    }
    float *x = ops->memory_new(sizeof values);
    float *y = ops->memory_new(sizeof values);
    uint32_t *where = ops->memory_new(sizeof index);
    assert_true(x != NULL && y != NULL && where != NULL);
    ops->copy_in(x, values, sizeof values);
    ops->copy_in(where, index, sizeof index);
    /* [300, 300] of x x^T fits into y. */
    ops->gemm((struct skep_gemm_size){ROWS, ROWS, DIM}, (struct skep_matrix){x, DIM, false},
              (struct skep_matrix){x, DIM, true}, 0, y, DIM);
    ops->rows_scatter_add((struct skep_rows){ROWS, DIM, where}, y, x);
    ops->rows_sum((struct skep_rows){ROWS, DIM, NULL}, x, y);
    double sum = ops->sum_squares(y, DIM);
    ops->copy_out(ret_values, y, DIM * sizeof *ret_values);
    ops->memory_free(x);
    ops->memory_free(y);
    ops->memory_free(where);
    return sum;
}

/* Returns 0 if two runs of the same work gave the same bits. */
static int same_bits_again(const struct skep_ops *ops)
{
    static float first[DIM];
    static float second[DIM];
    double first_sum = work(ops, first);
    double second_sum = work(ops, second);
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the bits are what is compared */
    return memcmp(first, second, sizeof first) == 0 && first_sum == second_sum ? 0 : 1;
}

int main(void)
{
    const struct skep_ops *gpu = NULL;
    int status = gpu_or_skip(&gpu);
    if (gpu == NULL) {
        return status;
    }
    if (same_bits_again(gpu) != 0) {
        printf("Bail out! the same work gave other bits on %s\n", gpu->name);
        return 1;
    }
    return skep_test_ops(gpu);
}
