/* Layer normalisation and its scaling. One warp, one row; gradients of gain and bias by columns. */
#include "common/gpu/columns.cuh"
#include "common/gpu/kernels.cuh"
#include "common/gpu/launch.cuh"

__global__ static void normalise_kernel(struct skep_rows rows, const float *x, float *hat,
                                        float *scale)
{
    for (size_t i = warp(); i < rows.count; i += warps()) {
        const float *from = x + row_of(rows, i) * rows.dim;
        const float width = rows.dim > 0 ? (float)rows.dim : 1;
        float sum = 0;
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            sum += from[j];
        }
        float mean = warp_sum(sum) / width;
        float squares = 0;
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            squares += (from[j] - mean) * (from[j] - mean);
        }
        float inverse = 1 / sqrtf(warp_sum(squares) / width + (float)SKEP_NORM_EPSILON);
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            hat[i * rows.dim + j] = (from[j] - mean) * inverse;
        }
        if (lane() == 0) {
            scale[i] = inverse;
        }
    }
}

static void normalise(struct skep_rows rows, const float *x, float *hat, float *scale)
{
    LAUNCH_ROWS(rows.count, normalise_kernel, rows, x, hat, scale);
}

__global__ static void normalise_backward_kernel(struct skep_rows rows, const float *dhat,
                                                 const float *hat, const float *scale, float *dx)
{
    for (size_t i = warp(); i < rows.count; i += warps()) {
        const float *dh = dhat + i * rows.dim;
        const float *h = hat + i * rows.dim;
        float *to = dx + row_of(rows, i) * rows.dim;
        float sum = 0;
        float dot = 0;
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            sum += dh[j];
            dot += dh[j] * h[j];
        }
        float mean = warp_sum(sum) / (float)rows.dim;
        float slope = warp_sum(dot) / (float)rows.dim;
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            to[j] += (dh[j] - mean - h[j] * slope) * scale[i];
        }
    }
}

static void normalise_backward(struct skep_rows rows, const float *dhat, const float *hat,
                               const float *scale, float *dx)
{
    LAUNCH_ROWS(rows.count, normalise_backward_kernel, rows, dhat, hat, scale, dx);
}

__global__ static void affine_kernel(struct skep_rows rows, const float *hat,
                                     struct skep_affine affine, float least, float *y)
{
    for (size_t i = warp(); i < rows.count; i += warps()) {
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            float value = hat[i * rows.dim + j] * affine.gain[j] + affine.bias[j];
            /* So written that a NaN stays one: fmaxf would hide it. */
            y[i * rows.dim + j] = value < least ? least : value;
        }
    }
}

static void affine(struct skep_rows rows, const float *hat, struct skep_affine affine, float *y)
{
    LAUNCH_ROWS(rows.count, affine_kernel, rows, hat, affine, -INFINITY, y);
}

static void affine_relu(struct skep_rows rows, const float *hat, struct skep_affine affine,
                        float *y)
{
    LAUNCH_ROWS(rows.count, affine_kernel, rows, hat, affine, 0.0f, y);
}

/* With y, the way back through ReLU as well. dhat may be dy: columns.cuh visits each value once. */
__global__ static void affine_backward_kernel(struct skep_rows rows, const float *dy,
                                              const float *y, const float *hat,
                                              struct skep_affine affine, float *dhat,
                                              struct skep_affine gradient)
{
    column_sums(
        rows.count, rows.dim,
        [=](size_t i, size_t j, struct sums *sums) {
            size_t at = i * rows.dim + j;
            float slope = y == NULL || y[at] > 0 ? dy[at] : 0;
            sums->gain += slope * hat[at];
            sums->bias += slope;
            dhat[at] = slope * affine.gain[j];
        },
        [=](size_t j, struct sums sums) {
            gradient.gain[j] += sums.gain;
            gradient.bias[j] += sums.bias;
        });
}

static void affine_relu_backward(struct skep_rows rows, const float *dy, const float *y,
                                 const float *hat, struct skep_affine affine, float *dhat,
                                 struct skep_affine gradient)
{
    if (rows.count > 0 && rows.dim > 0) {
        LAUNCH_GRID(column_grid(rows.dim), affine_backward_kernel, rows, dy, y, hat, affine, dhat,
                    gradient);
    }
}

static void affine_backward(struct skep_rows rows, const float *dy, const float *hat,
                            struct skep_affine affine, float *dhat, struct skep_affine gradient)
{
    affine_relu_backward(rows, dy, NULL, hat, affine, dhat, gradient);
}

void skep_cuda_norms(struct skep_ops *ops)
{
    ops->normalise = normalise;
    ops->normalise_backward = normalise_backward;
    ops->affine = affine;
    ops->affine_backward = affine_backward;
    ops->affine_relu = affine_relu;
    ops->affine_relu_backward = affine_relu_backward;
}
