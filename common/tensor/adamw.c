/* The optimiser's step, in one pass over values, gradients and moments. */
#include <math.h>

#include "common/tensor/ops.h"
#include "common/tensor/simd.h"

#ifdef SKEP_REAL_DOUBLE
#define ROOT sqrt
#else
#define ROOT sqrtf
#endif

SKEP_CLONES
void skep_adamw_update(const struct skep_adamw *adamw, size_t count, const skep_real *gradient,
                       float *first, float *second, skep_real *values)
{
    const skep_real scale = (skep_real)adamw->gradient;
    const skep_real beta1 = (skep_real)adamw->beta1;
    const skep_real beta2 = (skep_real)adamw->beta2;
    const skep_real rest1 = (skep_real)(1 - adamw->beta1);
    const skep_real rest2 = (skep_real)(1 - adamw->beta2);
    const skep_real correction2 = (skep_real)adamw->correction2;
    const skep_real epsilon = (skep_real)adamw->epsilon;
    const skep_real rate = (skep_real)(adamw->rate * adamw->correction1);
    const skep_real keep = (skep_real)(1 - adamw->rate * adamw->decay);
    SKEP_SIMD
    for (size_t i = 0; i < count; i++) {
        skep_real g = gradient[i] * scale;
        skep_real m = beta1 * first[i] + rest1 * g;
        skep_real v = beta2 * second[i] + rest2 * g * g;
        first[i] = (float)m;
        second[i] = (float)v;
        values[i] = keep * values[i] - rate * m / (ROOT(v * correction2) + epsilon);
    }
}
