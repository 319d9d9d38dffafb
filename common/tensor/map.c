/* Operations on values one by one: map, sum of squares, and the optimiser's step. */
#include <math.h>

#include "common/tensor/kernels.h"

#ifdef SKEP_REAL_DOUBLE
#define ROOT sqrt
#else
#define ROOT sqrtf
#endif

struct map {
    const skep_real *x;
    skep_real value;
    skep_real *y;
};

static void fill_part(const void *raw, size_t begin, size_t end)
{
    const struct map *call = raw;
    skep_real *restrict y = call->y;
    SKEP_SIMD
    for (size_t i = begin; i < end; i++) {
        y[i] = call->value;
    }
}

static void fill(size_t count, skep_real value, skep_real *values)
{
    skep_split_values(fill_part, &(struct map){NULL, value, values}, count);
}

static void add_part(const void *raw, size_t begin, size_t end)
{
    const struct map *call = raw;
    const skep_real *restrict x = call->x;
    skep_real *restrict y = call->y;
    SKEP_SIMD
    for (size_t i = begin; i < end; i++) {
        y[i] += x[i];
    }
}

static void add(const skep_real *x, size_t count, skep_real *y)
{
    skep_split_values(add_part, &(struct map){x, 0, y}, count);
}

static void multiply_part(const void *raw, size_t begin, size_t end)
{
    const struct map *call = raw;
    const skep_real *restrict x = call->x;
    skep_real *restrict y = call->y;
    SKEP_SIMD
    for (size_t i = begin; i < end; i++) {
        y[i] *= x[i];
    }
}

static void multiply(const skep_real *x, size_t count, skep_real *y)
{
    skep_split_values(multiply_part, &(struct map){x, 0, y}, count);
}

static void scale_part(const void *raw, size_t begin, size_t end)
{
    const struct map *call = raw;
    skep_real *restrict y = call->y;
    const skep_real factor = call->value;
    SKEP_SIMD
    for (size_t i = begin; i < end; i++) {
        y[i] *= factor;
    }
}

static void scale(size_t count, skep_real factor, skep_real *y)
{
    skep_split_values(scale_part, &(struct map){NULL, factor, y}, count);
}

/* Squares are summed in a fixed number of stretches, so that the order of the sums is one whatever the number of threads. */
#define STRETCHES 64
struct squares {
    const skep_real *x;
    size_t count;
    size_t size; /* values in a stretch, a multiple of SKEP_SUM_VALUES */
    double *totals;
};

static void squares_part(const void *raw, size_t begin, size_t end)
{
    const struct squares *call = raw;
    const skep_real *restrict x = call->x;
    for (size_t s = begin; s < end; s++) {
        size_t last =
            call->count - s * call->size < call->size ? call->count : (s + 1) * call->size;
        double total = 0;
        for (size_t start = s * call->size; start < last;) {
            size_t stop = skep_block_end(start, last);
            skep_real sum = 0;
            SKEP_SIMD_SUM(sum)
            for (size_t i = start; i < stop; i++) {
                sum += x[i] * x[i];
            }
            total += (double)sum;
            start = stop;
        }
        call->totals[s] = total;
    }
}

static double sum_squares(const skep_real *x, size_t count)
{
    double totals[STRETCHES] = {0};
    size_t blocks = (count + SKEP_SUM_VALUES - 1) / SKEP_SUM_VALUES;
    size_t size = (blocks + STRETCHES - 1) / STRETCHES * SKEP_SUM_VALUES;
    size_t used = size > 0 ? (count + size - 1) / size : 0;
    skep_split(squares_part, &(struct squares){x, count, size, totals},
               (struct skep_split){used, size, 1, false});
    double total = 0;
    for (size_t s = 0; s < used; s++) {
        total += totals[s];
    }
    return total;
}

struct adamw {
    const struct skep_adamw *adamw;
    const skep_real *gradient;
    float *first;
    float *second;
    skep_real *values;
};

static void adamw_part(const void *raw, size_t begin, size_t end)
{
    const struct adamw *call = raw;
    const struct skep_adamw *adamw = call->adamw;
    const skep_real *restrict gradient = call->gradient;
    float *restrict first = call->first;
    float *restrict second = call->second;
    skep_real *restrict values = call->values;
    const skep_real factor = (skep_real)adamw->gradient;
    const skep_real beta1 = (skep_real)adamw->beta1;
    const skep_real beta2 = (skep_real)adamw->beta2;
    const skep_real rest1 = (skep_real)(1 - adamw->beta1);
    const skep_real rest2 = (skep_real)(1 - adamw->beta2);
    const skep_real correction2 = (skep_real)adamw->correction2;
    const skep_real epsilon = (skep_real)adamw->epsilon;
    const skep_real rate = (skep_real)(adamw->rate * adamw->correction1);
    const skep_real keep = (skep_real)(1 - adamw->rate * adamw->decay);
    SKEP_SIMD
    for (size_t i = begin; i < end; i++) {
        skep_real g = gradient[i] * factor;
        skep_real m = beta1 * first[i] + rest1 * g;
        skep_real v = beta2 * second[i] + rest2 * g * g;
        first[i] = (float)m;
        second[i] = (float)v;
        values[i] = keep * values[i] - rate * m / (ROOT(v * correction2) + epsilon);
    }
}

static void adamw_step(const struct skep_adamw *adamw, size_t count, const skep_real *gradient,
                       float *first, float *second, skep_real *values)
{
    skep_split(adamw_part, &(struct adamw){adamw, gradient, first, second, values},
               (struct skep_split){.count = count, .cost = 1, .step = 4096, .whole = true});
}

void SKEP_KERNELS(map)(struct skep_ops *ops)
{
    ops->fill = fill;
    ops->add = add;
    ops->multiply = multiply;
    ops->scale = scale;
    ops->sum_squares = sum_squares;
    ops->adamw = adamw_step;
}
