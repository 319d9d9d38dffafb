/* Operations on values one by one: each lane takes a value, then the one `all lanes of the grid` further on. */
#include "common/gpu/kernels.cuh"
#include "common/gpu/launch.cuh"

__device__ static inline size_t first_value(void)
{
    return warp() * LANES + lane();
}

__device__ static inline size_t stride(void)
{
    return warps() * LANES;
}

__global__ static void fill_kernel(size_t count, float value, float *values)
{
    for (size_t i = first_value(); i < count; i += stride()) {
        values[i] = value;
    }
}

static void fill(size_t count, float value, float *values)
{
    LAUNCH_VALUES(count, fill_kernel, count, value, values);
}

__global__ static void add_kernel(const float *x, size_t count, float *y)
{
    for (size_t i = first_value(); i < count; i += stride()) {
        y[i] += x[i];
    }
}

static void add(const float *x, size_t count, float *y)
{
    LAUNCH_VALUES(count, add_kernel, x, count, y);
}

__global__ static void multiply_kernel(const float *x, size_t count, float *y)
{
    for (size_t i = first_value(); i < count; i += stride()) {
        y[i] *= x[i];
    }
}

static void multiply(const float *x, size_t count, float *y)
{
    LAUNCH_VALUES(count, multiply_kernel, x, count, y);
}

__global__ static void scale_kernel(size_t count, float factor, float *y)
{
    for (size_t i = first_value(); i < count; i += stride()) {
        y[i] *= factor;
    }
}

static void scale(size_t count, float factor, float *y)
{
    LAUNCH_VALUES(count, scale_kernel, count, factor, y);
}

/* The part of a warp is every SKEP_CUDA_PARTS-th run of 32 values, whichever warp takes it. */
__global__ static void sum_squares_kernel(const float *x, size_t count, double *parts)
{
    for (size_t part = warp(); part < SKEP_CUDA_PARTS; part += warps()) {
        double sum = 0;
        for (size_t i = part * LANES + lane(); i < count; i += (size_t)SKEP_CUDA_PARTS * LANES) {
            sum += (double)x[i] * (double)x[i];
        }
        sum = warp_sum(sum);
        if (lane() == 0) {
            parts[part] = sum;
        }
    }
}

void skep_cuda_sum_squares(const float *x, size_t count, double *parts)
{
    LAUNCH_ROWS(SKEP_CUDA_PARTS, sum_squares_kernel, x, count, parts);
}

/* skep_adamw with what does not change from value to value worked out, in float. */
struct adamw_step {
    float gradient;
    float beta1;
    float beta2;
    float rest1;
    float rest2;
    float correction2;
    float epsilon;
    float rate;
    float keep;
};

__global__ static void adamw_kernel(struct adamw_step step, size_t count, const float *gradient,
                                    float *first, float *second, float *values)
{
    for (size_t i = first_value(); i < count; i += stride()) {
        float g = gradient[i] * step.gradient;
        float m = step.beta1 * first[i] + step.rest1 * g;
        float v = step.beta2 * second[i] + step.rest2 * g * g;
        first[i] = m;
        second[i] = v;
        values[i] =
            step.keep * values[i] - step.rate * m / (sqrtf(v * step.correction2) + step.epsilon);
    }
}

static void adamw(const struct skep_adamw *adamw, size_t count, const float *gradient, float *first,
                  float *second, float *values)
{
    struct adamw_step step;
    struct skep_grid grid = skep_cuda_grid((count + LANES - 1) / LANES);
    step.gradient = (float)adamw->gradient;
    step.beta1 = (float)adamw->beta1;
    step.beta2 = (float)adamw->beta2;
    step.rest1 = (float)(1 - adamw->beta1);
    step.rest2 = (float)(1 - adamw->beta2);
    step.correction2 = (float)adamw->correction2;
    step.epsilon = (float)adamw->epsilon;
    step.rate = (float)(adamw->rate * adamw->correction1);
    step.keep = (float)(1 - adamw->rate * adamw->decay);
    if (count > 0) { /* also when it was asked to stop: the caller counts on it */
        LAUNCH_IF(skep_cuda_works(), grid, adamw_kernel, step, count, gradient, first, second,
                  values);
    }
}

void skep_cuda_values(struct skep_ops *ops)
{
    ops->fill = fill;
    ops->add = add;
    ops->multiply = multiply;
    ops->scale = scale;
    ops->adamw = adamw;
}
