/* Rows of experts: added to the tokens they belong to, and sums over rows. */
#include "common/tensor/ops.h"
#include "common/tensor/simd.h"

static inline size_t row_of(struct skep_rows rows, size_t i)
{
    return rows.index == NULL ? i : rows.index[i];
}

SKEP_CLONES
void skep_rows_combine(struct skep_rows rows, skep_real *y, const skep_real *bias,
                       const skep_real *weight, skep_real *x)
{
    size_t dim = rows.dim;
    for (size_t i = 0; i < rows.count; i++) {
        skep_real *restrict from = y + i * dim;
        skep_real *restrict to = x + row_of(rows, i) * dim;
        skep_real w = weight[i];
        SKEP_SIMD
        for (size_t j = 0; j < dim; j++) {
            skep_real value = from[j] + bias[j];
            from[j] = value;
            to[j] += w * value;
        }
    }
}

SKEP_CLONES
void skep_rows_combine_backward(struct skep_rows rows, const skep_real *dx, const skep_real *y,
                                const skep_real *weight, skep_real *dy, skep_real *dweight)
{
    size_t dim = rows.dim;
    for (size_t i = 0; i < rows.count; i++) {
        const skep_real *restrict from = dx + row_of(rows, i) * dim;
        const skep_real *restrict out = y + i * dim;
        skep_real *restrict to = dy + i * dim;
        skep_real w = weight[i];
        skep_real dot = 0;
        SKEP_SIMD_SUM(dot)
        for (size_t j = 0; j < dim; j++) {
            to[j] = w * from[j];
            dot += from[j] * out[j];
        }
        dweight[i] = dot;
    }
}

SKEP_CLONES
void skep_rows_sum(struct skep_rows rows, const skep_real *x, skep_real *sum)
{
    skep_real *restrict to = sum;
    for (size_t i = 0; i < rows.count; i++) {
        const skep_real *restrict from = x + i * rows.dim;
        SKEP_SIMD
        for (size_t j = 0; j < rows.dim; j++) {
            to[j] += from[j];
        }
    }
}

SKEP_CLONES
void skep_add(const skep_real *x, size_t count, skep_real *y)
{
    SKEP_SIMD
    for (size_t i = 0; i < count; i++) {
        y[i] += x[i];
    }
}

SKEP_CLONES
void skep_multiply(const skep_real *x, size_t count, skep_real *y)
{
    SKEP_SIMD
    for (size_t i = 0; i < count; i++) {
        y[i] *= x[i];
    }
}

SKEP_CLONES
double skep_sum_squares(const skep_real *x, size_t count)
{
    double total = 0;
    /* Short float sums into one double: fast, and the rounding does not grow with the shard. */
    for (size_t start = 0; start < count; start += 4096) {
        size_t size = count - start < 4096 ? count - start : 4096;
        const skep_real *block = x + start;
        skep_real sum = 0;
        SKEP_SIMD_SUM(sum)
        for (size_t i = 0; i < size; i++) {
            sum += block[i] * block[i];
        }
        total += (double)sum;
    }
    return total;
}
