/* The functions at the end of ops.h, for common/model until it runs on the table; then this file goes. */
#include <math.h>

#include "common/tensor/exp.h"
#include "common/tensor/ops.h"
#include "common/tensor/simd.h"

SKEP_CLONES
void skep_gelu(struct skep_rows rows, skep_real *pre, const skep_real *bias, skep_real *out)
{
    /* 0.5 a (1 + tanh(u)) = a / (1 + e^(-2u)) with u = sqrt(2/pi) (a + 0.044715 a^3): one exponential for value and slope. */
    const skep_real two_root = (skep_real)1.5957691216057308;
    const skep_real cubic = (skep_real)0.044715;
    for (size_t i = 0; i < rows.count; i++) {
        skep_real *restrict in = pre + i * rows.dim;
        skep_real *restrict to = out + i * rows.dim;
        SKEP_SIMD
        for (size_t j = 0; j < rows.dim; j++) {
            skep_real a = in[j] + bias[j];
            skep_real square = a * a;
            skep_real u = two_root * a * (1 + cubic * square);
            skep_real s = 1 / (1 + skep_exp(-u));
            to[j] = a * s;
            in[j] = s + a * s * (1 - s) * two_root * (1 + 3 * cubic * square);
        }
    }
}

SKEP_CLONES
void skep_softmax_causal(struct skep_rows rows, size_t first, size_t stride, skep_real scale,
                         skep_real slope, skep_real *scores)
{
    for (size_t i = 0; i < rows.count; i++) {
        skep_real *row = scores + i * stride;
        int kept = (int)(first + i + 1); /* 32 bits: vectors convert no wider integers */
        skep_real most = row[0] * scale - slope * (skep_real)(kept - 1);
        SKEP_SIMD_MAX(most)
        for (int j = 0; j < kept; j++) {
            skep_real value = row[j] * scale - slope * (skep_real)(kept - 1 - j);
            row[j] = value;
            most = value > most ? value : most;
        }
        skep_real sum = 0;
        SKEP_SIMD_SUM(sum)
        for (int j = 0; j < kept; j++) {
            skep_real value = skep_exp(row[j] - most);
            row[j] = value;
            sum += value;
        }
        skep_real inverse = 1 / sum;
        SKEP_SIMD
        for (int j = 0; j < kept; j++) {
            row[j] *= inverse;
        }
        for (size_t j = (size_t)kept; j < rows.dim; j++) {
            row[j] = 0;
        }
    }
}

SKEP_CLONES
void skep_softmax_causal_backward(struct skep_rows rows, size_t stride, skep_real scale,
                                  const skep_real *probability, skep_real *dscores)
{
    for (size_t i = 0; i < rows.count; i++) {
        const skep_real *restrict p = probability + i * stride;
        skep_real *restrict d = dscores + i * stride;
        skep_real dot = 0;
        SKEP_SIMD_SUM(dot)
        for (size_t j = 0; j < rows.dim; j++) {
            dot += p[j] * d[j];
        }
        SKEP_SIMD
        for (size_t j = 0; j < rows.dim; j++) {
            d[j] = p[j] * (d[j] - dot) * scale;
        }
    }
}

SKEP_CLONES
skep_real skep_logsumexp(const skep_real *values, size_t count)
{
    skep_real most = values[0];
    SKEP_SIMD_MAX(most)
    for (size_t j = 0; j < count; j++) {
        most = values[j] > most ? values[j] : most;
    }
    skep_real sum = 0;
    SKEP_SIMD_SUM(sum)
    for (size_t j = 0; j < count; j++) {
        sum += skep_exp(values[j] - most);
    }
    return most + (skep_real)log((double)sum);
}

SKEP_CLONES
void skep_cross_entropy_backward(skep_real *logits, size_t count, uint32_t target, skep_real total,
                                 skep_real weight)
{
    SKEP_SIMD
    for (size_t j = 0; j < count; j++) {
        logits[j] = skep_exp(logits[j] - total) * weight;
    }
    logits[target] -= weight;
}

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
