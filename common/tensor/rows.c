/* Whole rows: set, summed, gathered for experts and added back to the tokens they belong to. */
#include <string.h>

#include "common/tensor/kernels.h"

struct rows {
    struct skep_rows rows;
    const skep_real *x;
    skep_real *y;
};

static void set_part(const void *raw, size_t begin, size_t end)
{
    const struct rows *call = raw;
    size_t dim = call->rows.dim;
    for (size_t i = begin; i < end && dim > 0; i++) {
        memcpy(call->y + i * dim, call->x, dim * sizeof *call->y);
    }
}

static void rows_set(struct skep_rows rows, const skep_real *bias, skep_real *y)
{
    skep_split_rows(set_part, &(struct rows){rows, bias, y}, rows);
}

static void add_part(const void *raw, size_t begin, size_t end)
{
    const struct rows *call = raw;
    size_t dim = call->rows.dim;
    const skep_real *restrict from = call->x;
    for (size_t i = begin; i < end; i++) {
        skep_real *restrict to = call->y + i * dim;
        SKEP_SIMD
        for (size_t j = 0; j < dim; j++) {
            to[j] += from[j];
        }
    }
}

static void rows_add(struct skep_rows rows, const skep_real *bias, skep_real *y)
{
    skep_split_rows(add_part, &(struct rows){rows, bias, y}, rows);
}

/* Four rows at a time: the sums are read and written a quarter as often, and round less. */
static void sum_part(const void *raw, size_t begin, size_t end)
{
    const struct rows *call = raw;
    size_t dim = call->rows.dim;
    skep_real *restrict to = call->y;
    size_t i = 0;
    for (; i + 4 <= call->rows.count; i += 4) {
        const skep_real *restrict x0 = call->x + i * dim;
        const skep_real *restrict x1 = x0 + dim;
        const skep_real *restrict x2 = x1 + dim;
        const skep_real *restrict x3 = x2 + dim;
        SKEP_SIMD
        for (size_t j = begin; j < end; j++) {
            to[j] += (x0[j] + x1[j]) + (x2[j] + x3[j]);
        }
    }
    for (; i < call->rows.count; i++) {
        const skep_real *restrict from = call->x + i * dim;
        SKEP_SIMD
        for (size_t j = begin; j < end; j++) {
            to[j] += from[j];
        }
    }
}

static void rows_sum(struct skep_rows rows, const skep_real *x, skep_real *sum)
{
    skep_split_columns(sum_part, &(struct rows){rows, x, sum}, rows);
}

static void gather_part(const void *raw, size_t begin, size_t end)
{
    const struct rows *call = raw;
    size_t dim = call->rows.dim;
    for (size_t i = begin; i < end && dim > 0; i++) {
        memcpy(call->y + i * dim, call->x + skep_row_of(call->rows, i) * dim,
               dim * sizeof *call->y);
    }
}

static void rows_gather(struct skep_rows rows, const skep_real *x, skep_real *y)
{
    skep_split_rows(gather_part, &(struct rows){rows, x, y}, rows);
}

static void gather_add_part(const void *raw, size_t begin, size_t end)
{
    const struct rows *call = raw;
    size_t dim = call->rows.dim;
    for (size_t i = begin; i < end; i++) {
        const skep_real *restrict from = call->x + skep_row_of(call->rows, i) * dim;
        skep_real *restrict to = call->y + i * dim;
        SKEP_SIMD
        for (size_t j = 0; j < dim; j++) {
            to[j] += from[j];
        }
    }
}

static void rows_gather_add(struct skep_rows rows, const skep_real *x, skep_real *y)
{
    skep_split_rows(gather_add_part, &(struct rows){rows, x, y}, rows);
}

/* By columns, since rows may repeat. */
static void scatter_add_part(const void *raw, size_t begin, size_t end)
{
    const struct rows *call = raw;
    size_t dim = call->rows.dim;
    for (size_t i = 0; i < call->rows.count; i++) {
        const skep_real *restrict from = call->x + i * dim;
        skep_real *restrict to = call->y + skep_row_of(call->rows, i) * dim;
        SKEP_SIMD
        for (size_t j = begin; j < end; j++) {
            to[j] += from[j];
        }
    }
}

static void rows_scatter_add(struct skep_rows rows, const skep_real *x, skep_real *y)
{
    skep_split_columns(scatter_add_part, &(struct rows){rows, x, y}, rows);
}

struct combine {
    struct skep_rows rows;
    const skep_real *y;
    const skep_real *weight;
    skep_real *x;
};

static void combine_part(const void *raw, size_t begin, size_t end)
{
    const struct combine *call = raw;
    size_t dim = call->rows.dim;
    for (size_t i = begin; i < end; i++) {
        const skep_real *restrict from = call->y + i * dim;
        skep_real *restrict to = call->x + skep_row_of(call->rows, i) * dim;
        skep_real w = call->weight[i];
        SKEP_SIMD
        for (size_t j = 0; j < dim; j++) {
            to[j] += w * from[j];
        }
    }
}

static void rows_combine(struct skep_rows rows, const skep_real *y, const skep_real *weight,
                         skep_real *x)
{
    skep_split_rows(combine_part, &(struct combine){rows, y, weight, x}, rows);
}

struct combine_backward {
    struct skep_rows rows;
    const skep_real *dx;
    const skep_real *y;
    const skep_real *weight;
    skep_real *dy;
    skep_real *dweight;
};

static void combine_backward_part(const void *raw, size_t begin, size_t end)
{
    const struct combine_backward *call = raw;
    size_t dim = call->rows.dim;
    for (size_t i = begin; i < end; i++) {
        const skep_real *restrict from = call->dx + skep_row_of(call->rows, i) * dim;
        const skep_real *restrict out = call->y + i * dim;
        skep_real *restrict to = call->dy + i * dim;
        skep_real w = call->weight[i];
        double total = 0;
        for (size_t start = 0; start < dim;) {
            size_t stop = skep_block_end(start, dim);
            skep_real dot = 0;
            SKEP_SIMD_SUM(dot)
            for (size_t j = start; j < stop; j++) {
                to[j] = w * from[j];
                dot += from[j] * out[j];
            }
            total += (double)dot;
            start = stop;
        }
        call->dweight[i] = (skep_real)total;
    }
}

static void rows_combine_backward(struct skep_rows rows, const skep_real *dx, const skep_real *y,
                                  const skep_real *weight, skep_real *dy, skep_real *dweight)
{
    struct combine_backward call = {rows, dx, y, weight, dy, dweight};
    skep_split_rows(combine_backward_part, &call, rows);
}

void SKEP_KERNELS(rows)(struct skep_ops *ops)
{
    ops->rows_set = rows_set;
    ops->rows_add = rows_add;
    ops->rows_sum = rows_sum;
    ops->rows_gather = rows_gather;
    ops->rows_gather_add = rows_gather_add;
    ops->rows_scatter_add = rows_scatter_add;
    ops->rows_combine = rows_combine;
    ops->rows_combine_backward = rows_combine_backward;
}
