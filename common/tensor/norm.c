/* Layer normalisation and its scaling. */
#include <math.h>

#include "common/tensor/kernels.h"

struct normalise {
    struct skep_rows rows;
    const skep_real *x;
    skep_real *hat;
    skep_real *scale;
};

static inline double sum_of(const skep_real *x, size_t count)
{
    double total = 0;
    for (size_t start = 0; start < count;) {
        size_t stop = skep_block_end(start, count);
        skep_real sum = 0;
        SKEP_SIMD_SUM(sum)
        for (size_t j = start; j < stop; j++) {
            sum += x[j];
        }
        total += (double)sum;
        start = stop;
    }
    return total;
}

static inline double squares_around(const skep_real *x, skep_real mean, size_t count)
{
    double total = 0;
    for (size_t start = 0; start < count;) {
        size_t stop = skep_block_end(start, count);
        skep_real sum = 0;
        SKEP_SIMD_SUM(sum)
        for (size_t j = start; j < stop; j++) {
            sum += (x[j] - mean) * (x[j] - mean);
        }
        total += (double)sum;
        start = stop;
    }
    return total;
}

/* A row of no values has the scale of a constant one. */
static inline double divisor(size_t dim)
{
    return dim > 0 ? (double)dim : 1;
}

static void normalise_part(const void *raw, size_t begin, size_t end)
{
    const struct normalise *call = raw;
    size_t dim = call->rows.dim;
    for (size_t i = begin; i < end; i++) {
        const skep_real *restrict from = call->x + skep_row_of(call->rows, i) * dim;
        skep_real *restrict to = call->hat + i * dim;
        skep_real mean = (skep_real)(sum_of(from, dim) / divisor(dim));
        double variance = squares_around(from, mean, dim) / divisor(dim);
        skep_real inverse = (skep_real)(1.0 / sqrt(variance + SKEP_NORM_EPSILON));
        SKEP_SIMD
        for (size_t j = 0; j < dim; j++) {
            to[j] = (from[j] - mean) * inverse;
        }
        call->scale[i] = inverse;
    }
}

static void normalise(struct skep_rows rows, const skep_real *x, skep_real *hat, skep_real *scale)
{
    skep_split_rows(normalise_part, &(struct normalise){rows, x, hat, scale}, rows);
}

struct normalise_backward {
    struct skep_rows rows;
    const skep_real *dhat;
    const skep_real *hat;
    const skep_real *scale;
    skep_real *dx;
};

static void normalise_backward_part(const void *raw, size_t begin, size_t end)
{
    const struct normalise_backward *call = raw;
    size_t dim = call->rows.dim;
    for (size_t i = begin; i < end; i++) {
        const skep_real *restrict dh = call->dhat + i * dim;
        const skep_real *restrict h = call->hat + i * dim;
        skep_real *restrict to = call->dx + skep_row_of(call->rows, i) * dim;
        double total = 0;
        double total_dot = 0;
        for (size_t start = 0; start < dim;) {
            size_t stop = skep_block_end(start, dim);
            skep_real sum = 0;
            skep_real dot = 0;
            SKEP_SIMD_SUM(sum, dot)
            for (size_t j = start; j < stop; j++) {
                sum += dh[j];
                dot += dh[j] * h[j];
            }
            total += (double)sum;
            total_dot += (double)dot;
            start = stop;
        }
        skep_real mean = (skep_real)(total / divisor(dim));
        skep_real slope = (skep_real)(total_dot / divisor(dim));
        skep_real inverse = call->scale[i];
        SKEP_SIMD
        for (size_t j = 0; j < dim; j++) {
            to[j] += (dh[j] - mean - h[j] * slope) * inverse;
        }
    }
}

static void normalise_backward(struct skep_rows rows, const skep_real *dhat, const skep_real *hat,
                               const skep_real *scale, skep_real *dx)
{
    struct normalise_backward call = {rows, dhat, hat, scale, dx};
    skep_split_rows(normalise_backward_part, &call, rows);
}

struct affine {
    struct skep_rows rows;
    const skep_real *hat;
    struct skep_affine affine;
    skep_real *y;
};

static void affine_part(const void *raw, size_t begin, size_t end)
{
    const struct affine *call = raw;
    size_t dim = call->rows.dim;
    const skep_real *restrict gain = call->affine.gain;
    const skep_real *restrict bias = call->affine.bias;
    for (size_t i = begin; i < end; i++) {
        const skep_real *restrict from = call->hat + i * dim;
        skep_real *restrict to = call->y + i * dim;
        SKEP_SIMD
        for (size_t j = 0; j < dim; j++) {
            to[j] = from[j] * gain[j] + bias[j];
        }
    }
}

static void affine_forward(struct skep_rows rows, const skep_real *hat, struct skep_affine affine,
                           skep_real *y)
{
    skep_split_rows(affine_part, &(struct affine){rows, hat, affine, y}, rows);
}

static void affine_relu_part(const void *raw, size_t begin, size_t end)
{
    const struct affine *call = raw;
    size_t dim = call->rows.dim;
    const skep_real *restrict gain = call->affine.gain;
    const skep_real *restrict bias = call->affine.bias;
    for (size_t i = begin; i < end; i++) {
        const skep_real *restrict from = call->hat + i * dim;
        skep_real *restrict to = call->y + i * dim;
        SKEP_SIMD
        for (size_t j = 0; j < dim; j++) {
            skep_real value = from[j] * gain[j] + bias[j];
            to[j] = value < 0 ? 0 : value; /* NaN stays NaN, so that it is noticed */
        }
    }
}

static void affine_relu(struct skep_rows rows, const skep_real *hat, struct skep_affine affine,
                        skep_real *y)
{
    skep_split_rows(affine_relu_part, &(struct affine){rows, hat, affine, y}, rows);
}

/* y is NULL without the rectifier. By columns, because the gradients of gain and bias are sums over rows. */
struct affine_backward {
    struct skep_rows rows;
    const skep_real *dy;
    const skep_real *y;
    const skep_real *hat;
    const skep_real *gain;
    skep_real *dhat;
    struct skep_affine gradient;
};

static void affine_backward_part(const void *raw, size_t begin, size_t end)
{
    const struct affine_backward *call = raw;
    size_t dim = call->rows.dim;
    const skep_real *restrict gain = call->gain;
    skep_real *restrict dgain = call->gradient.gain;
    skep_real *restrict dbias = call->gradient.bias;
    for (size_t i = 0; i < call->rows.count; i++) {
        const skep_real *restrict h = call->hat + i * dim;
        const skep_real *from = call->dy + i * dim; /* may be `to` */
        skep_real *to = call->dhat + i * dim;
        SKEP_SIMD
        for (size_t j = begin; j < end; j++) {
            skep_real d = from[j];
            dgain[j] += d * h[j];
            dbias[j] += d;
            to[j] = d * gain[j];
        }
    }
}

static void affine_backward(struct skep_rows rows, const skep_real *dy, const skep_real *hat,
                            struct skep_affine affine, skep_real *dhat, struct skep_affine gradient)
{
    struct affine_backward call = {rows, dy, NULL, hat, affine.gain, dhat, gradient};
    skep_split_columns(affine_backward_part, &call, rows);
}

static void affine_relu_backward_part(const void *raw, size_t begin, size_t end)
{
    const struct affine_backward *call = raw;
    size_t dim = call->rows.dim;
    const skep_real *restrict gain = call->gain;
    skep_real *restrict dgain = call->gradient.gain;
    skep_real *restrict dbias = call->gradient.bias;
    for (size_t i = 0; i < call->rows.count; i++) {
        const skep_real *restrict h = call->hat + i * dim;
        const skep_real *restrict out = call->y + i * dim;
        const skep_real *from = call->dy + i * dim; /* may be `to` */
        skep_real *to = call->dhat + i * dim;
        SKEP_SIMD
        for (size_t j = begin; j < end; j++) {
            skep_real d = out[j] > 0 ? from[j] : 0;
            dgain[j] += d * h[j];
            dbias[j] += d;
            to[j] = d * gain[j];
        }
    }
}

static void affine_relu_backward(struct skep_rows rows, const skep_real *dy, const skep_real *y,
                                 const skep_real *hat, struct skep_affine affine, skep_real *dhat,
                                 struct skep_affine gradient)
{
    struct affine_backward call = {rows, dy, y, hat, affine.gain, dhat, gradient};
    skep_split_columns(affine_relu_backward_part, &call, rows);
}

void SKEP_KERNELS(norm)(struct skep_ops *ops)
{
    ops->normalise = normalise;
    ops->normalise_backward = normalise_backward;
    ops->affine = affine_forward;
    ops->affine_backward = affine_backward;
    ops->affine_relu = affine_relu;
    ops->affine_relu_backward = affine_relu_backward;
}
