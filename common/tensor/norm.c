/* Layer normalisation and its scaling, row by row. */
#include <math.h>

#include "common/tensor/ops.h"
#include "common/tensor/simd.h"

static inline size_t row_of(struct skep_rows rows, size_t i)
{
    return rows.index == NULL ? i : rows.index[i];
}

SKEP_CLONES
void skep_normalise(struct skep_rows rows, const skep_real *x, skep_real *hat, skep_real *scale)
{
    size_t dim = rows.dim;
    for (size_t i = 0; i < rows.count; i++) {
        const skep_real *restrict from = x + i * dim;
        skep_real *restrict to = hat + i * dim;
        skep_real sum = 0;
        SKEP_SIMD_SUM(sum)
        for (size_t j = 0; j < dim; j++) {
            sum += from[j];
        }
        skep_real mean = sum / (skep_real)dim;
        skep_real squares = 0;
        SKEP_SIMD_SUM(squares)
        for (size_t j = 0; j < dim; j++) {
            squares += (from[j] - mean) * (from[j] - mean);
        }
        skep_real inverse =
            (skep_real)(1.0 / sqrt((double)squares / (double)dim + SKEP_NORM_EPSILON));
        SKEP_SIMD
        for (size_t j = 0; j < dim; j++) {
            to[j] = (from[j] - mean) * inverse;
        }
        scale[i] = inverse;
    }
}

SKEP_CLONES
void skep_normalise_backward(struct skep_rows rows, const skep_real *dhat, const skep_real *hat,
                             const skep_real *scale, skep_real *dx)
{
    size_t dim = rows.dim;
    for (size_t i = 0; i < rows.count; i++) {
        const skep_real *restrict dh = dhat + i * dim;
        const skep_real *restrict h = hat + i * dim;
        skep_real *restrict to = dx + i * dim;
        skep_real sum = 0;
        skep_real dot = 0;
        SKEP_SIMD_SUM(sum, dot)
        for (size_t j = 0; j < dim; j++) {
            sum += dh[j];
            dot += dh[j] * h[j];
        }
        skep_real mean = sum / (skep_real)dim;
        skep_real slope = dot / (skep_real)dim;
        skep_real inverse = scale[i];
        SKEP_SIMD
        for (size_t j = 0; j < dim; j++) {
            to[j] += (dh[j] - mean - h[j] * slope) * inverse;
        }
    }
}

SKEP_CLONES
void skep_affine_forward(struct skep_rows rows, const skep_real *hat, struct skep_affine affine,
                         skep_real *y)
{
    size_t dim = rows.dim;
    const skep_real *restrict gain = affine.gain;
    const skep_real *restrict bias = affine.bias;
    for (size_t i = 0; i < rows.count; i++) {
        const skep_real *restrict from = hat + row_of(rows, i) * dim;
        skep_real *restrict to = y + i * dim;
        SKEP_SIMD
        for (size_t j = 0; j < dim; j++) {
            to[j] = from[j] * gain[j] + bias[j];
        }
    }
}

SKEP_CLONES
void skep_affine_backward(struct skep_rows rows, const skep_real *dy, const skep_real *hat,
                          struct skep_affine affine, skep_real *dhat, struct skep_affine gradient)
{
    size_t dim = rows.dim;
    const skep_real *restrict gain = affine.gain;
    skep_real *restrict dgain = gradient.gain;
    skep_real *restrict dbias = gradient.bias;
    for (size_t i = 0; i < rows.count; i++) {
        const skep_real *restrict h = hat + row_of(rows, i) * dim;
        const skep_real *restrict from = dy + i * dim;
        skep_real *restrict to = dhat + row_of(rows, i) * dim;
        SKEP_SIMD
        for (size_t j = 0; j < dim; j++) {
            dgain[j] += from[j] * h[j];
            dbias[j] += from[j];
            to[j] += from[j] * gain[j];
        }
    }
}
