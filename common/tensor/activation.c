/* GELU, softmax and cross-entropy: the operations made of exponentials. */
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
